"""The page on one product: from loops in Python to BLAS, and where tiles pay."""
