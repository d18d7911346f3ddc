"""A small machine-learning framework to measure (core), and the instruments that measure it (perf)."""
