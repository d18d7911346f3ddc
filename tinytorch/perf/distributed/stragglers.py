"""Stragglers: which rank the others waited for, in which communication, how long, and what it did meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tinytorch.perf.distributed.clocks import Clocks
from tinytorch.perf.distributed.meetings import Meeting, RankCall
from tinytorch.perf.distributed.pieces import Piece, own_pieces
from tinytorch.perf.distributed.tracks import Track
from tinytorch.perf.listing import Column, milliseconds, percent, whole

#: What a rank is in where it is in no op.
BETWEEN = "between ops"


@dataclass(frozen=True, slots=True)
class Doing:
    """What a rank did while others waited for it: an op, its phase and module, or `BETWEEN`; and for how long."""

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
        rank: whom they waited for. kind: the communication, such as ``all_reduce``, or "message".
        group, sequence: which one it was; the sequence of a message is 0.
        waited: seconds that each rank stood still in the communication's calls, by rank, where it did.
        doing: what the late rank did in that time, the longest first; their seconds add up to the longest wait's
            distance to its arrival.
        error_seconds: how wrong the clocks can make each of ``waited`` at most.
    """

    rank: int
    kind: str
    group: str
    sequence: int
    waited: dict[int, float]
    doing: tuple[Doing, ...]
    error_seconds: float

    @property
    def seconds(self) -> float:
        """The longest wait: how much sooner all could have gone on."""
        return max(self.waited.values())

    @property
    def cost_seconds(self) -> float:
        """The waits of all ranks, added up."""
        return sum(self.waited.values())

    @property
    def certain(self) -> bool:
        """Whether the longest wait is above what the clocks can be wrong by."""
        return self.seconds > self.error_seconds


@dataclass(frozen=True)
class Straggler:
    """A rank that others waited for, and what that cost.

    Attributes:
        cost_seconds: the time that other ranks stood still for it, added up over ranks and communications.
        share: of the recorded time of all other ranks, 0 to 1.
        delays: where, the costliest first; only those that the clocks' error leaves certain.
        doing: what it did in these times, the longest first.
    """

    rank: int
    cost_seconds: float
    share: float
    delays: tuple[Delay, ...]
    doing: tuple[Doing, ...]

    @property
    def mostly(self) -> Doing:
        """What it did for the longest time while others waited."""
        return self.doing[0]

    @property
    def worst(self) -> Delay:
        """Its costliest delay."""
        return self.delays[0]

    @property
    def worst_seconds(self) -> float:
        """The longest wait of its costliest delay."""
        return self.worst.seconds

    @property
    def count(self) -> int:
        """How many communications others waited for it in."""
        return len(self.delays)


#: How `Straggler` is printed.
STRAGGLER_COLUMNS = (
    Column("rank", "waited for rank", whole),
    Column("cost_seconds", "cost to others (ms)", milliseconds),
    Column("share", "of their time (%)", percent),
    Column("count", "times", whole),
    Column("worst_seconds", "longest (ms)", milliseconds),
    Column("worst", "in", lambda delay: f"{delay.kind} {delay.sequence or ''}".strip(), numeric=False),
    Column("mostly", "it was in", str, numeric=False),
)


def delays_of(tracks: Sequence[Track], meetings: Iterable[Meeting], clocks: Clocks) -> list[Delay]:
    """Return every communication in which a rank waited for another, the costliest first.

    Where ranks of one communication waited for different ones, as the root of a broadcast may, each counts alone.
    """
    pieces = [own_pieces(track.profile.events) for track in tracks]
    found = []
    for meeting in meetings:
        waited: dict[int, dict[int, float]] = defaultdict(dict)
        since: dict[int, int] = {}
        late: dict[int, RankCall] = {}
        for call in meeting.calls:
            other = meeting.awaited(call)
            parts = [(part, meeting.waiting(call, part)) for part in call.parts]
            if other is None or not any(time for _, time in parts):
                continue
            late[other.rank] = other
            waited[other.rank][call.rank] = sum(time for _, time in parts) * 1e-9
            first = min(part.event.start for part, time in parts if time)
            since[other.rank] = min(first, since.get(other.rank, first))
        for rank, times in waited.items():
            error = clocks.largest_error(rank) + max(clocks.largest_error(other) for other in times)
            doing = _doing(tracks[rank], pieces[rank], since[rank], late[rank].arrival)
            talk = meeting.calls[0].talk
            found.append(Delay(rank, meeting.kind, talk.group, talk.sequence, times, doing, error * 1e-9))
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
        doing = _added_up(each for delay in own for each in delay.doing)
        found.append(Straggler(rank, cost, cost / others, tuple(own), doing))
    return sorted(found, key=lambda straggler: -straggler.cost_seconds)


def _doing(track: Track, pieces: Sequence[Piece], start: int, end: int) -> tuple[Doing, ...]:
    """Return what a rank did from ``start`` to ``end``, the longest first."""
    events, left, found = track.profile.events, end - start, []
    for piece in pieces:
        inside = min(piece.end, end) - max(piece.start, start)
        if inside > 0:
            event = events[piece.event]
            found.append(Doing(event.op, event.phase, event.path, inside * 1e-9))
            left -= inside
    if left > 0:
        found.append(Doing(BETWEEN, "", "", left * 1e-9))
    return _added_up(found)


def _added_up(parts: Iterable[Doing]) -> tuple[Doing, ...]:
    """Return one for each op, phase and module, the longest first."""
    seconds: dict[tuple[str, str, str], float] = defaultdict(float)
    for part in parts:
        seconds[part.op, part.phase, part.path] += part.seconds
    made = [Doing(*key, total) for key, total in seconds.items()]
    return tuple(sorted(made, key=lambda each: -each.seconds))
