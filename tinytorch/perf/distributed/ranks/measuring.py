"""Measuring on ranks: common values, rounds, and what more ranks than cores forbid.

Ranks import this, so what judges measurements, and brings SciPy, is imported where it is called.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.distributed.ranks.collective_ops import load_mpi
from tinytorch.perf.distributed.ranks.communicator import Communicator

if TYPE_CHECKING:
    from tinytorch.perf.measuring import Measurement

#: Why nothing is said of times, as the end of a sentence.
BECAUSE = "more ranks than cores tell how the system shares its cores, not how ranks scale: each needs one of its own"


def largest(communicator: Communicator, values: Any) -> Array:
    """Return the largest of all ranks' values, elementwise, float64, in the shape of what each gives."""
    array = np.array(values, np.float64)
    communicator.raw.Allreduce(load_mpi().IN_PLACE, array, op=load_mpi().MAX)
    return array


def least(communicator: Communicator, value: float) -> float:
    """Return the smallest of all ranks' values."""
    return -float(largest(communicator, [-value])[0])


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
        if number >= fewest and not communicator.raw.bcast(time.monotonic() < until):
            return
        yield number


def is_oversubscribed(*measurements: Measurement) -> bool:
    """Return whether more ranks than cores took one of the measurements."""
    from tinytorch.perf.measuring.conditions import Ranks

    made_on = [measurement.conditions.instrument for measurement in measurements]
    return any(isinstance(one, Ranks) and one.oversubscribed for one in made_on)
