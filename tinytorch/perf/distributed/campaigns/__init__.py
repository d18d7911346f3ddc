"""Campaigns: a benchmark spread over ranks and machines, and kept apart by machine."""
