"""Clocks of ranks: how far each one's is from rank 0's, and how well that is known.

Each process has a clock of its own, and on other machines it started at another time and runs at another rate. Rank 0
asks every rank for the time and takes the answer for the middle of the round trip. The fastest of many trips tells
most: the answer was given somewhere within it, so that half of it bounds the error, whichever way was the slower one
(F. Cristian, 1989, doi:10.1007/BF01784024). Asked again after the run, the clocks show their drift.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinytorch.perf.distributed.ranks.communicator import Communicator

#: Returns nanoseconds on a clock that does not go back.
Clock = Callable[[], int]
#: Trips of which the fastest counts, and seconds after which fewer have to do (where ranks share cores).
TRIPS, _AT_MOST_SECONDS = 200, 0.2


class RoundTrip(NamedTuple):
    """One question and its answer, in ns: when it left and came back on rank 0's clock, and the time on the other."""

    sent: int
    answered: int
    received: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One alignment of one rank's clock, all in nanoseconds.

    Attributes:
        at: the rank's own clock when it was read.
        offset: what has to be added to it to get rank 0's clock at that moment.
        error: how wrong ``offset`` can be at most, in either direction.
    """

    at: int
    offset: float
    error: float


@dataclass(frozen=True)
class Clocks:
    """The clocks of all ranks, each read once or more; ``readings[rank]`` are in the order of time.

    Between two readings a clock is taken to drift evenly, before the first and after the last not at all.
    """

    readings: tuple[tuple[Reading, ...], ...]

    def __post_init__(self) -> None:
        for rank, readings in enumerate(self.readings):
            times = [reading.at for reading in readings]
            if not times or any(later <= earlier for earlier, later in pairwise(times)):
                raise ValueError(f"readings of rank {rank} must be at least one, each later than the one before")

    def on_rank_0(self, rank: int, times: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return ``times`` of a rank's own clock, in ns, as times of rank 0's clock."""
        own = np.asarray(times, np.int64)
        readings = self.readings[rank]
        start = readings[0].at  # relative to it, times keep their nanoseconds as floats
        known, offsets = [each.at - start for each in readings], [each.offset for each in readings]
        return own + np.rint(np.interp((own - start).astype(np.float64), known, offsets)).astype(np.int64)

    def largest_error(self, rank: int) -> float:
        """Return by how many ns `on_rank_0` can be wrong at most, if the clock drifts evenly between its readings."""
        return max(reading.error for reading in self.readings[rank])

    def followed_by(self, later: Clocks) -> Clocks:
        """Return these readings and later ones of the same ranks.

        Raises:
            ValueError: if they are of another number of ranks, or not later.
        """
        if len(later.readings) != len(self.readings):
            raise ValueError(f"later must be clocks of {len(self.readings)} ranks, not of {len(later.readings)}")
        return Clocks(tuple(first + second for first, second in zip(self.readings, later.readings, strict=True)))


def reading_of(trips: Sequence[RoundTrip]) -> Reading:
    """Return what the fastest of some round trips tells of the other clock.

    Raises:
        ValueError: if there are none, or one came back before it was sent.
    """
    if not trips:
        raise ValueError("trips must hold at least one round trip")
    best = min(trips, key=lambda trip: trip.received - trip.sent)
    if best.received < best.sent:
        raise ValueError(f"trips must come back after they were sent, but one came at {best.received} of {best.sent}")
    # In whole numbers first: a float holds no nanoseconds of a clock that has run for months.
    twice = (best.sent - best.answered) + (best.received - best.answered)
    return Reading(best.answered, twice / 2, (best.received - best.sent) / 2)


def align(communicator: Communicator, *, clock: Clock = time.perf_counter_ns) -> Clocks:
    """Return how far each rank's clock is from rank 0's now; all ranks call it together and get the same.

    Rank 0's own reading is exact: offset and error 0. It takes some milliseconds, and no op runs. ``clock`` is that of
    this rank; by default that of recorded events.
    """
    apart = communicator.raw.Dup()  # or a question could be taken for a message of the program
    try:
        if communicator.rank == 0:
            found = [Reading(clock(), 0.0, 0.0)]
            found += [reading_of(_ask(apart, rank, clock)) for rank in range(1, communicator.size)]
        else:
            found = []
            _answer(apart, clock)
    finally:
        apart.Free()
    shared = communicator.exchange([[one.at, one.offset, one.error] for one in found])[0]
    return Clocks(tuple((Reading(*reading),) for reading in shared))


def _ask(raw: Any, rank: int, clock: Clock) -> list[RoundTrip]:
    """Return the round trips of questions to a rank, and tell it when it was the last."""
    last, answer, found = np.zeros(1, np.int64), np.empty(1, np.int64), []
    until = time.monotonic() + _AT_MOST_SECONDS
    for left in reversed(range(TRIPS)):
        last[0] = not left or time.monotonic() > until
        sent = clock()
        raw.Send(last, rank)
        raw.Recv(answer, rank)
        found.append(RoundTrip(sent, int(answer[0]), clock()))
        if last[0]:
            break
    return found


def _answer(raw: Any, clock: Clock) -> None:
    """Answer rank 0's questions with the time, until it says that one was the last."""
    last, answer = np.empty(1, np.int64), np.empty(1, np.int64)
    while True:
        raw.Recv(last, 0)
        answer[0] = clock()
        raw.Send(answer, 0)
        if last[0]:
            return
