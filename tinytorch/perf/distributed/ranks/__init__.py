"""Ranks: how they start, what they say to one another, and who notices if one stops."""
