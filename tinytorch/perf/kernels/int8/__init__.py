"""Products of 8-bit integers: instructions, packing, the register tile, matrices and images."""
