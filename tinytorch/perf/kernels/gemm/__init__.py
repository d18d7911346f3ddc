"""Float32 matrix products: packed panels, register tiles, a few rows, and the loops of a textbook."""
