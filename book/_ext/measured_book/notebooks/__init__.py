"""Notebooks and other files that a page offers for download."""
