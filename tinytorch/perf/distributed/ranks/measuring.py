"""Measuring on ranks: common values, rounds, turns of the first ranks, and what more ranks than cores forbid.

In turns the first 1, 2, ... ranks of one launch work one after another. A rank that waits in a call of MPI keeps its
core busy, and a busy core slows the others: they share its power, and often its caches. One rank would then be measured
in a worse place than a program that runs alone. So ranks outside of a turn sleep, wake up now and then to ask whether
it is over, and say how much of their core that took.

Ranks import this, so what judges measurements, and brings SciPy, is imported where it is called.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.distributed.ranks.collective_ops import load_mpi
from tinytorch.perf.distributed.ranks.communicator import Communicator

if TYPE_CHECKING:
    from tinytorch.perf.measuring import Measurement
    from tinytorch.perf.measuring.comparison import Comparison

#: Seconds between two questions of a rank that is not in the turn.
PAUSE = 5e-3
#: Tag of the message that a turn is over.
_OVER = 72
#: The mark in a measurement's conditions.
MARK = "oversubscribed"
#: Why there is no verdict, as the end of a sentence.
BECAUSE = "more ranks than cores took these times, so they tell how the system shares its cores, not how ranks scale"


def largest(communicator: Communicator, values: Any) -> Array:
    """Return the largest of all ranks' values, elementwise, float64, in the shape of what each gives."""
    array = np.array(values, np.float64)
    communicator.raw.Allreduce(load_mpi().IN_PLACE, array, op=load_mpi().MAX)
    return array


def least(communicator: Communicator, value: float) -> float:
    """Return the smallest of all ranks' values."""
    return -float(largest(communicator, [-value])[0])


def first_says(communicator: Communicator, value: bool) -> bool:
    """Return rank 0's ``value`` on every rank."""
    said = np.array([value])
    communicator.raw.Bcast(said, 0)
    return bool(said[0])


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


class Turns:
    """Groups of the first ranks of a communicator; all ranks make it together.

    Attributes:
        groups: the group of the first ranks by their number, on the ranks that are in it.
        slept, used: seconds that this rank spent outside of turns, and of CPU meanwhile.

    Raises:
        ValueError: if a count is no number of the communicator's ranks, or there is none.
    """

    def __init__(self, communicator: Communicator, counts: Sequence[int]) -> None:
        if not counts or min(counts) < 1 or max(counts) > communicator.size:
            raise ValueError(f"counts must be 1 to {communicator.size}, at least one, not {list(counts)}")
        self._communicator = communicator
        made = {count: communicator.split(int(communicator.rank >= count)) for count in counts}
        self.groups = {count: group for count, group in made.items() if communicator.rank < count}
        self.slept = self.used = 0.0

    def take(self, count: int, work: Callable[[Communicator], None]) -> None:
        """Run ``work`` on the first ``count`` ranks, with their group; the others sleep until it is done there."""
        communicator = self._communicator
        if communicator.rank >= count:
            self._sleep()
            return
        work(self.groups[count])
        self.groups[count].barrier()
        if communicator.rank == 0:
            for rank in range(count, communicator.size):
                communicator.raw.Send(np.empty(0, np.uint8), rank, _OVER)

    def _sleep(self) -> None:
        raw = self._communicator.raw
        wall, cpu = time.perf_counter(), time.process_time()
        while not raw.Iprobe(0, _OVER):
            time.sleep(PAUSE)
        raw.Recv(np.empty(0, np.uint8), 0, _OVER)
        self.slept += time.perf_counter() - wall
        self.used += time.process_time() - cpu


@dataclass(frozen=True)
class Withheld:
    """What stands in the place of a judgement that would mean nothing.

    Attributes:
        because: why, in words. verdict: None, always.
    """

    because: str = BECAUSE
    verdict: None = None


def is_oversubscribed(*measurements: Measurement) -> bool:
    """Return whether more ranks than cores took one of the measurements."""
    return any(measurement.how.get(MARK) for measurement in measurements)


def compare_on_ranks(
    baseline: Measurement, candidate: Measurement, delta: float | None = 0.01, *, seed: int = 0
) -> Comparison | Withheld:
    """Return `compare_paired` of two measurements taken on ranks, or `Withheld` if they were oversubscribed.

    Raises:
        ValueError: as `compare_paired`.
    """
    from tinytorch.perf.measuring.comparison import compare_paired

    if is_oversubscribed(baseline, candidate):
        return Withheld()
    return compare_paired(baseline, candidate, delta, seed=seed)
