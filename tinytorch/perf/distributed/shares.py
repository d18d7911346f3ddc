"""Shares: what each rank's time went to, and how much of its communication stood in the way of its computing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields

from tinytorch.perf.distributed.meetings import Meeting, RankCall
from tinytorch.perf.distributed.pieces import Stretch, common, merged, own_pieces
from tinytorch.perf.distributed.tracks import Track
from tinytorch.perf.listing import Column, milliseconds, whole


@dataclass(frozen=True, slots=True)
class Shares:
    """The time of one rank's recording in seconds. Computing, waiting, moving and between ops add up to all of it.

    Attributes:
        computing_seconds: in ops that are no communication, each without the ops inside it.
        waiting_seconds: in calls of communication, before the rank that they wait for had come to them.
        moving_seconds: in calls of communication, all the rest: data moves, sums are made, a call begins or is asked.
        between_seconds: outside of ops: Python, the optimizer's update, the filling of buckets, the recording itself.
        hidden_waiting_seconds, hidden_moving_seconds: of the computing, the time in which at least one call that does
            not block was in flight: moving where for one of them all that it waits for had come, else waiting. In
            flight is not on the move: most MPI libraries move data only while they are called. What hiding is
            worth, only the times of steps with and without it tell.
        wall_seconds: all of the recording.
    """

    rank: int
    computing_seconds: float
    waiting_seconds: float
    moving_seconds: float
    between_seconds: float
    hidden_waiting_seconds: float
    hidden_moving_seconds: float
    wall_seconds: float

    @property
    def exposed_seconds(self) -> float:
        """Communication in which the rank did nothing else."""
        return self.waiting_seconds + self.moving_seconds

    @property
    def hidden_seconds(self) -> float:
        """Communication in flight while the rank computed."""
        return self.hidden_waiting_seconds + self.hidden_moving_seconds

    @property
    def hidden_share(self) -> float | None:
        """Hidden communication over hidden and exposed, 0 to 1; None if there was none."""
        both = self.hidden_seconds + self.exposed_seconds
        return self.hidden_seconds / both if both else None

    def of_wall(self) -> dict[str, float]:
        """Return every time but the wall's as a share of it, 0 to 1, by its name without ``_seconds``."""
        names = [f.name for f in fields(self) if f.name.endswith("_seconds") and f.name != "wall_seconds"]
        found = {name.removesuffix("_seconds"): getattr(self, name) / self.wall_seconds for name in names}
        exposed, hidden = self.exposed_seconds / self.wall_seconds, self.hidden_seconds / self.wall_seconds
        return {**found, "exposed": exposed, "hidden": hidden}


@dataclass(frozen=True, slots=True)
class CommunicationRow:
    """All calls of one kind of communication on one rank.

    Attributes:
        kind: name of the collective, ``send`` or ``receive``; "" for what began before the recording.
        blocking: whether the calls return when they are done; else they begin, and are waited for later.
        bytes: sizes of the messages, added up.
        exposed_seconds, waiting_seconds, moving_seconds, hidden_seconds: as in `Shares`, for these calls alone.
    """

    rank: int
    kind: str
    blocking: bool
    calls: int
    bytes: int
    exposed_seconds: float
    waiting_seconds: float
    moving_seconds: float
    hidden_seconds: float


#: How `Shares` are printed.
SHARE_COLUMNS = (
    Column("rank", "rank", whole),
    Column("wall_seconds", "wall (ms)", milliseconds),
    Column("computing_seconds", "computing (ms)", milliseconds),
    Column("waiting_seconds", "waiting (ms)", milliseconds),
    Column("moving_seconds", "moving (ms)", milliseconds),
    Column("between_seconds", "between ops (ms)", milliseconds),
    Column("hidden_waiting_seconds", "hidden waiting (ms)", milliseconds),
    Column("hidden_moving_seconds", "hidden moving (ms)", milliseconds),
)

#: How `CommunicationRow` is printed.
COMMUNICATION_COLUMNS = (
    Column("rank", "rank", whole),
    Column("kind", "communication", lambda kind: kind or "(begun before)", numeric=False),
    Column("blocking", "blocks", lambda blocks: "yes" if blocks else "no", numeric=False),
    Column("calls", "calls", whole),
    Column("bytes", "bytes", whole),
    Column("exposed_seconds", "exposed (ms)", milliseconds),
    Column("waiting_seconds", "waiting (ms)", milliseconds),
    Column("moving_seconds", "moving (ms)", milliseconds),
    Column("hidden_seconds", "hidden (ms)", milliseconds),
)


def shares_of(track: Track, meetings: Iterable[Meeting]) -> Shares:
    """Return what a rank's time went to."""
    pairs = _own_calls(track.rank, meetings)
    wall = track.profile.end - track.profile.start
    pieces = own_pieces(track.profile.events)
    computing = _computing(track)
    busy = sum(end - start for start, end in computing)
    talking = sum(piece.end - piece.start for piece in pieces if piece.event in track.talks)
    waiting = sum(meeting.waiting(call, part) for meeting, call in pairs for part in call.parts)
    flights = merged(call.flight for _, call in pairs if call.flight)
    moves = merged(_moving(meeting, call) for meeting, call in pairs if call.flight)
    hidden, hidden_moving = common(flights, computing), common(moves, computing)
    times = (busy, waiting, talking - waiting, wall - busy - talking, hidden - hidden_moving, hidden_moving, wall)
    return Shares(track.rank, *(time * 1e-9 for time in times))


def communication_rows(track: Track, meetings: Iterable[Meeting]) -> list[CommunicationRow]:
    """Return one row for each kind of communication of a rank, in the order of first appearance."""
    groups: dict[tuple[str, bool], list[tuple[Meeting, RankCall]]] = defaultdict(list)
    for meeting, call in _own_calls(track.rank, meetings):
        groups[call.kind, call.flight is None].append((meeting, call))
    computing, rows = _computing(track), []
    for (kind, blocking), pairs in groups.items():
        exposed = sum(part.event.total_ns for _, call in pairs for part in call.parts)
        waiting = sum(meeting.waiting(call, part) for meeting, call in pairs for part in call.parts)
        hidden = common(merged(call.flight for _, call in pairs if call.flight), computing)
        size = sum(call.bytes for _, call in pairs)
        times = (time * 1e-9 for time in (exposed, waiting, exposed - waiting, hidden))
        rows.append(CommunicationRow(track.rank, kind, blocking, len(pairs), size, *times))
    return rows


def _own_calls(rank: int, meetings: Iterable[Meeting]) -> list[tuple[Meeting, RankCall]]:
    return [(meeting, call) for meeting in meetings for call in meeting.calls if call.rank == rank]


def _computing(track: Track) -> list[Stretch]:
    """Return when the rank is in an op that is no communication, in order."""
    pieces = own_pieces(track.profile.events)
    return merged((piece.start, piece.end) for piece in pieces if piece.event not in track.talks)


def _moving(meeting: Meeting, call: RankCall) -> Stretch:
    """Return the part of a flight from when all that it waits for had come."""
    assert call.flight is not None
    start, end = call.flight
    other = meeting.awaited(call)
    return (start if other is None else max(start, other.arrival), end)
