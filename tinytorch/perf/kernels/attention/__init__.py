"""Attention that never stores its matrix of scores, forward and backward."""
