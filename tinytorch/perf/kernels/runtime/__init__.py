"""What all kernels stand on: compilation, threads, vector instructions, and functions of vectors."""
