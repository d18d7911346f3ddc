"""Runtime of all kernels: compilation, threads, vector instructions, and functions of vectors."""
