"""Training on several ranks: data, tensor and pipeline parallel, sharded state, checkpoints."""
