"""Instruments, and what the chapters teach: one module per chapter."""
