"""This machine as a process finds it: identity, cores, limits, BLAS, memory pages, and load by others."""
