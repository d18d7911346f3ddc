"""Stragglers: which rank the others waited for, in which communication, how long, and what it did meanwhile."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from tinytorch.perf.distributed.recording.clocks import Clocks
from tinytorch.perf.distributed.recording.pieces import Piece, Stretch, length, merged, own_pieces
from tinytorch.perf.distributed.recording.standstills import Standstill
from tinytorch.perf.distributed.recording.tracks import Track
from tinytorch.perf.measuring.text_table import Column, milliseconds, percent, whole

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
        waited: seconds that ranks stood still in the communication's calls, by rank, where one did; see `standstills`.
        unserved: how much of that was after ``rank`` had come to the communication, by rank: it had begun its part, and
            did something else.
        doing: what it did in the times in which any rank stood still, the longest first.
        error_seconds: how wrong the clocks can make each of ``waited`` at most.
    """

    rank: int
    kind: str
    group: str
    sequence: int
    waited: dict[int, float]
    unserved: dict[int, float]
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
        excess: what it spent more time on than the median of the other ranks in the whole recording, the most first,
            with the seconds of difference. What made it late may lie before the times in which others stood still.
    """

    rank: int
    cost_seconds: float
    share: float
    delays: tuple[Delay, ...]
    doing: tuple[Doing, ...]
    excess: tuple[Doing, ...]

    @property
    def most_excess(self) -> Doing | None:
        """What it spent most more time on than the others, if it did on anything."""
        return self.excess[0] if self.excess else None

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
    Column("most_excess", "more than others in", lambda doing: str(doing or "–"), numeric=False),
)


def delays_of(tracks: Sequence[Track], standstills: Iterable[Standstill], clocks: Clocks) -> list[Delay]:
    """Return every communication in which a rank stood still for another, the costliest first.

    Where ranks stood still for different ones in one communication, each of these has a delay of its own.
    """
    pieces = [own_pieces(track.profile.events) for track in tracks]
    groups: dict[tuple[int, int], list[Standstill]] = defaultdict(list)
    for each in standstills:
        groups[id(each.meeting), each.awaited].append(each)
    found = []
    for (_, rank), stills in groups.items():
        meeting, talk = stills[0].meeting, stills[0].call.talk
        waited: dict[int, float] = defaultdict(float)
        unserved: dict[int, float] = defaultdict(float)
        for each in stills:
            waited[each.rank] += length(each.all) * 1e-9
            unserved[each.rank] += length(each.unserved) * 1e-9
        when = merged(stretch for each in stills for stretch in each.all)
        doing = _doing(tracks[rank], pieces[rank], when)
        error = clocks.largest_error(rank) + max(clocks.largest_error(other) for other in waited)
        found.append(
            Delay(rank, meeting.kind, talk.group, talk.sequence, dict(waited), dict(unserved), doing, error * 1e-9)
        )
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
        found.append(Straggler(rank, cost, cost / others, tuple(own), doing, _excess(tracks, rank)))
    return sorted(found, key=lambda straggler: -straggler.cost_seconds)


def _doing(track: Track, pieces: Sequence[Piece], when: Sequence[Stretch]) -> tuple[Doing, ...]:
    """Return what a rank did at these times, the longest first."""
    events, left, found = track.profile.events, length(when), []
    for start, end in when:
        for piece in pieces[bisect_right(pieces, start, key=lambda piece: piece.end) :]:
            if piece.start >= end:
                break
            event, inside = events[piece.event], min(piece.end, end) - max(piece.start, start)
            found.append(Doing(event.op, event.phase, event.path, inside * 1e-9))
            left -= inside
    if left > 0:
        found.append(Doing(BETWEEN, "", "", left * 1e-9))
    return _added_up(found)


def _excess(tracks: Sequence[Track], rank: int) -> tuple[Doing, ...]:
    """Return what a rank computed for longer than the median of the others did, the most first."""
    times = [{(d.op, d.phase, d.path): d.seconds for d in _computed(track)} for track in tracks]
    others = [each for track, each in zip(tracks, times, strict=True) if track.rank != rank]
    more = [
        Doing(*key, seconds - median(each.get(key, 0.0) for each in others)) for key, seconds in times[rank].items()
    ]
    return tuple(sorted((each for each in more if each.seconds > 0), key=lambda each: -each.seconds))


def _computed(track: Track) -> tuple[Doing, ...]:
    """Return how long a rank was in each op that is no communication, and between ops."""
    events, left, found = track.profile.events, track.profile.end - track.profile.start, []
    for piece in own_pieces(events):
        event, inside = events[piece.event], piece.end - piece.start
        left -= inside
        if piece.event not in track.talks:
            found.append(Doing(event.op, event.phase, event.path, inside * 1e-9))
    return _added_up([*found, Doing(BETWEEN, "", "", left * 1e-9)])


def _added_up(parts: Iterable[Doing]) -> tuple[Doing, ...]:
    """Return one for each op, phase and module, the longest first."""
    seconds: dict[tuple[str, str, str], float] = defaultdict(float)
    for part in parts:
        seconds[part.op, part.phase, part.path] += part.seconds
    made = [Doing(*key, total) for key, total in seconds.items()]
    return tuple(sorted(made, key=lambda each: -each.seconds))
