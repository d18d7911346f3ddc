"""Stragglers: ranks that the others waited for, in which communication and how long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tinytorch.perf.distributed.recording.blocked_time import Blocked
from tinytorch.perf.distributed.recording.clocks import Clocks
from tinytorch.perf.distributed.recording.intervals import length


@dataclass(frozen=True)
class Delay:
    """One communication in which ranks waited for another one.

    Attributes:
        rank: whom they waited for.
        kind: the communication, such as ``all_reduce``, or "message".
        waited: seconds that ranks stood still in the communication's calls, by rank, where one did; see `Blocked`.
        error_seconds: how wrong the clocks can make each of ``waited`` at most.
    """

    rank: int
    kind: str
    waited: dict[int, float]
    error_seconds: float

    @property
    def cost_seconds(self) -> float:
        """Waits of all ranks, added up."""
        return sum(self.waited.values())

    @property
    def certain(self) -> bool:
        """Whether the longest wait is above what the clocks can be wrong by."""
        return max(self.waited.values()) > self.error_seconds


@dataclass(frozen=True)
class Straggler:
    """A rank that others waited for, and what that cost.

    Attributes:
        cost_seconds: the time that other ranks stood still for it, added up over ranks and communications.
        delays: where, the costliest first; only those that the clocks' error leaves certain.
    """

    rank: int
    cost_seconds: float
    delays: tuple[Delay, ...]


def delays_of(blocked_times: Iterable[Blocked], clocks: Clocks) -> list[Delay]:
    """Return every communication in which a rank stood still for another, the costliest first.

    Where ranks stood still for different ones in one communication, each of these has a delay of its own.
    """
    groups: dict[tuple[int, int], list[Blocked]] = defaultdict(list)
    for each in blocked_times:
        groups[id(each.matched), each.awaited].append(each)
    found = []
    for (_, rank), blocked in groups.items():
        waited: dict[int, float] = defaultdict(float)
        for each in blocked:
            waited[each.rank] += length(each.all) * 1e-9
        error = clocks.largest_error(rank) + max(clocks.largest_error(other) for other in waited)
        found.append(Delay(rank, blocked[0].matched.kind, dict(waited), error * 1e-9))
    return sorted(found, key=lambda delay: -delay.cost_seconds)


def stragglers_of(delays: Iterable[Delay]) -> list[Straggler]:
    """Return the ranks that others certainly waited for, the costliest first."""
    groups: dict[int, list[Delay]] = defaultdict(list)
    for delay in delays:
        if delay.certain:
            groups[delay.rank].append(delay)
    found = [Straggler(rank, sum(each.cost_seconds for each in own), tuple(own)) for rank, own in groups.items()]
    return sorted(found, key=lambda straggler: -straggler.cost_seconds)
