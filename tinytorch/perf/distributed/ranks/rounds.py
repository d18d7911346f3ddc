"""Rounds of a measurement on ranks: all ranks make as many, and rank 0's clock says when time is over."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tinytorch.perf.distributed.ranks.common_values import first_says
from tinytorch.perf.distributed.ranks.communicator import Communicator


def checked_rounds(repeats: int, at_most_seconds: float) -> None:
    """Raise ValueError unless there is at least one round and time for it."""
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    if not at_most_seconds > 0:
        raise ValueError(f"at_most_seconds must be above 0, not {at_most_seconds}")


def rounds_within(communicator: Communicator, repeats: int, fewest: int, at_most_seconds: float) -> Iterator[int]:
    """Yield the numbers of the rounds from 0 on, the same on all ranks.

    There are ``repeats``; fewer, but not below ``fewest``, when ``at_most_seconds`` are over on rank 0.
    """
    until = time.monotonic() + at_most_seconds
    for number in range(repeats):
        if number >= fewest and not first_says(communicator, time.monotonic() < until):
            return
        yield number
