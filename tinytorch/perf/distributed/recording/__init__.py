"""Recordings of all ranks: aligned clocks, one timeline, blocked time by rank, and stragglers."""
