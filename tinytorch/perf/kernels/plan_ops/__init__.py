"""Entry points of kernels with one signature, which a plan binds to operands and a compiled loop calls."""
