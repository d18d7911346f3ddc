"""Compiled kernels (Numba)."""
