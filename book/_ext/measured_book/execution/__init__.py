"""Runs of pages: what a page depends on, the cache of its results, and the records in its notebook."""
