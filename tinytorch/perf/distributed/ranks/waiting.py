"""Waiting and moving: how much of a collective a rank waited for the last one to arrive, and how much data moved.

No rank can know this alone, and asking inside the program (with a barrier or a time stamp before each call) would
change what is measured. So the events of all ranks are put on one clock afterwards, and the latest arrival divides
each, as tools that look for wait states in traces do (M. Geimer et al., 2010, doi:10.1002/cpe.1556).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Division(NamedTuple):
    """Time of one rank in one collective, in the unit of what was given; the two add up to the whole call."""

    waiting: float
    moving: float


def divided(starts: Sequence[float], ends: Sequence[float]) -> list[Division]:
    """Return for each rank what of its call was before the last rank's arrival, and what was after.

    A rank that left before the last one arrived, as the root of a broadcast may, waited for nobody: all is moving.

    Args:
        starts, ends: when each rank entered and left the same collective, on one clock.

    Raises:
        ValueError: if their lengths differ, there are none, or a call ends before it starts.
    """
    if len(starts) != len(ends) or not starts:
        raise ValueError(f"starts and ends must be of one length above 0, not {len(starts)} and {len(ends)}")
    for rank, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if end < start:
            raise ValueError(f"rank {rank}'s call must not end at {end} before its start at {start}")
    last = max(starts)
    parts = []
    for start, end in zip(starts, ends, strict=True):
        waiting = last - start if end >= last else 0
        parts.append(Division(waiting, end - start - waiting))
    return parts
