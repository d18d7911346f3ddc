"""Training on ranks: data parallel, with sharded state and checkpoints."""
