"""Training on ranks: data, tensor and pipeline parallel, sharded state, checkpoints."""
