"""Scaling on the ranks that fit here: strong and weak, overlap, memory by sharding, and the two laws."""
