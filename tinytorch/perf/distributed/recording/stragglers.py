"""Stragglers: ranks that the others waited for, in which communication, how long, and what they did more of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from tinytorch.perf.distributed.recording.blocked_time import Blocked
from tinytorch.perf.distributed.recording.clocks import Clocks
from tinytorch.perf.distributed.recording.intervals import innermost_intervals, length
from tinytorch.perf.distributed.recording.tracks import Track

#: What a rank is in where it is in no op.
BETWEEN = "between ops"


@dataclass(frozen=True, slots=True)
class Doing:
    """Work of a rank: an op, its phase and module, or `BETWEEN`; and its seconds."""

    op: str
    phase: str
    path: str
    seconds: float

    def __str__(self) -> str:
        words = self.op if self.phase in ("", "forward") else f"{self.op} {self.phase}"
        return f"{words} in {self.path}" if self.path else words


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
        share: of the recorded time of all other ranks, 0 to 1.
        delays: where, the costliest first; only those that the clocks' error leaves certain.
        excess: what it spent more time on than the median of the other ranks in the whole recording, the most first,
            with the seconds of difference. What made it late may lie before the times in which others stood still.
    """

    rank: int
    cost_seconds: float
    share: float
    delays: tuple[Delay, ...]
    excess: tuple[Doing, ...]


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


def stragglers_of(tracks: Sequence[Track], delays: Iterable[Delay]) -> list[Straggler]:
    """Return the ranks that others certainly waited for, the costliest first."""
    groups: dict[int, list[Delay]] = defaultdict(list)
    for delay in delays:
        if delay.certain:
            groups[delay.rank].append(delay)
    found = []
    for rank, own in groups.items():
        cost = sum(delay.cost_seconds for delay in own)
        others = sum(track.profile.wall_seconds for track in tracks if track.rank != rank)
        found.append(Straggler(rank, cost, cost / others, tuple(own), _excess(tracks, rank)))
    return sorted(found, key=lambda straggler: -straggler.cost_seconds)


def _excess(tracks: Sequence[Track], rank: int) -> tuple[Doing, ...]:
    """Return what a rank computed for longer than the median of the others did, the most first."""
    times = [_computed(track) for track in tracks]
    others = [each for track, each in zip(tracks, times, strict=True) if track.rank != rank]
    more = [
        Doing(*key, seconds - median(each.get(key, 0.0) for each in others)) for key, seconds in times[rank].items()
    ]
    return tuple(sorted((each for each in more if each.seconds > 0), key=lambda each: -each.seconds))


def _computed(track: Track) -> dict[tuple[str, str, str], float]:
    """Return how long a rank was in each op, phase and module that is no communication, and between ops."""
    seconds: dict[tuple[str, str, str], float] = defaultdict(float)
    left = track.profile.end - track.profile.start
    for inner in innermost_intervals(track.profile.events):
        event, inside = track.profile.events[inner.event], inner.end - inner.start
        left -= inside
        if inner.event not in track.comm_info:
            seconds[event.op, event.phase, event.path] += inside * 1e-9
    seconds[BETWEEN, "", ""] += left * 1e-9
    return seconds
