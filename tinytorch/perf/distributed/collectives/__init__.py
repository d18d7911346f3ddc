"""Collectives: a ring to read, the library's timed on ranks, and links fitted to the times."""
