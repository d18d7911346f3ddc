"""The page on a whole model: what an expression moves, what calls cost, and which technique a workload asks for."""
