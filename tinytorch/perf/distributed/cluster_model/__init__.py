"""Model of a cluster: the seconds and bytes of a training step on machines that are not here, by closed forms."""
