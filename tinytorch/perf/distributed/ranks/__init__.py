"""Ranks: their start, their communicator, the watch over them, and what measurements on them need in common."""
