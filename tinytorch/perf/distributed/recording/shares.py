"""Shares: what each rank's time went to, and how much of its communication stood in the way of its computing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from tinytorch.perf.distributed.recording.meetings import Meeting, RankCall
from tinytorch.perf.distributed.recording.pieces import Stretch, common, length, merged, own_pieces
from tinytorch.perf.distributed.recording.standstills import Standstill, talking
from tinytorch.perf.distributed.recording.tracks import Track
from tinytorch.perf.measuring.text_table import Column, milliseconds, percent, whole

#: A message below this takes about as long as an empty one on any link: there is nothing in it to hide.
LEAST_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Shares:
    """The time of one rank's recording in seconds. Computing, waiting, moving and between ops add up to all of it.

    Attributes:
        computing_seconds: in ops that are no communication, each without the ops inside it.
        waiting_seconds: in calls of communication, before the rank that they wait for had come to them.
        moving_seconds: in calls of communication, all the rest: data moves, sums are made, a call begins or is asked.
        unserved_seconds: of the moving, the time in which another rank of the call was in no call of communication
            although its part was not over, so that a library that moves data only while it is called moved none; see
            `standstills`.
        between_seconds: outside of ops: Python, the optimizer's update, the filling of buckets, the recording itself.
        hidden_waiting_seconds, hidden_moving_seconds: of the computing, the time in which at least one call that does
            not block, and is not too small to count, was in flight: moving where for one of them all that it waits
            for had come, else waiting. In flight is not on the move: what is unserved moves nothing. What hiding is
            worth, only the times of steps with and without it tell.
        wall_seconds: all of the recording.
        cpu_per_wall: CPU time of the process over it; see `Track`.
    """

    rank: int
    computing_seconds: float
    waiting_seconds: float
    moving_seconds: float
    unserved_seconds: float
    between_seconds: float
    hidden_waiting_seconds: float
    hidden_moving_seconds: float
    wall_seconds: float
    cpu_per_wall: float

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
    """All calls of one kind of communication of one group on one rank.

    Attributes:
        group: name of the group of ranks that made them.
        kind: name of the collective, ``send`` or ``receive``; "" for what began before the recording.
        blocking: whether the calls return when they are done; else they begin, and are waited for later.
        bytes: sizes of the messages, added up.
        exposed_seconds, waiting_seconds, moving_seconds, unserved_seconds, hidden_seconds: as in `Shares`, for these
            calls alone, of any size.
    """

    rank: int
    kind: str
    group: str
    blocking: bool
    calls: int
    bytes: int
    exposed_seconds: float
    waiting_seconds: float
    moving_seconds: float
    unserved_seconds: float
    hidden_seconds: float


#: How `Shares` are printed.
SHARE_COLUMNS = (
    Column("rank", "rank", whole),
    Column("wall_seconds", "wall (ms)", milliseconds),
    Column("cpu_per_wall", "of a core (%)", percent),
    Column("computing_seconds", "computing (ms)", milliseconds),
    Column("waiting_seconds", "waiting (ms)", milliseconds),
    Column("moving_seconds", "moving (ms)", milliseconds),
    Column("unserved_seconds", "of it unserved (ms)", milliseconds),
    Column("between_seconds", "between ops (ms)", milliseconds),
    Column("hidden_waiting_seconds", "hidden waiting (ms)", milliseconds),
    Column("hidden_moving_seconds", "hidden moving (ms)", milliseconds),
)

#: How `CommunicationRow` is printed.
COMMUNICATION_COLUMNS = (
    Column("rank", "rank", whole),
    Column("kind", "communication", lambda kind: kind or "(begun before)", numeric=False),
    Column("group", "group", numeric=False),
    Column("blocking", "blocks", lambda blocks: "yes" if blocks else "no", numeric=False),
    Column("calls", "calls", whole),
    Column("bytes", "bytes", whole),
    Column("exposed_seconds", "exposed (ms)", milliseconds),
    Column("waiting_seconds", "waiting (ms)", milliseconds),
    Column("moving_seconds", "moving (ms)", milliseconds),
    Column("unserved_seconds", "of it unserved (ms)", milliseconds),
    Column("hidden_seconds", "hidden (ms)", milliseconds),
)


def shares_of(
    track: Track, meetings: Iterable[Meeting], standstills: Iterable[Standstill], least_bytes: int = LEAST_BYTES
) -> Shares:
    """Return what a rank's time went to; calls of fewer than ``least_bytes`` do not count as hidden."""
    pairs = _own_calls(track.rank, meetings)
    wall = track.profile.end - track.profile.start
    computing = _computing(track)
    busy, spoken = length(computing), length(talking(track))
    waiting, unserved = _still(standstills, {id(call) for _, call in pairs})
    large = [(meeting, call) for meeting, call in pairs if call.flight and call.bytes >= least_bytes]
    hidden = common(merged(call.flight for _, call in large if call.flight), computing)
    hidden_moving = common(merged(_moving(meeting, call) for meeting, call in large), computing)
    return Shares(
        track.rank,
        computing_seconds=busy * 1e-9,
        waiting_seconds=waiting * 1e-9,
        moving_seconds=(spoken - waiting) * 1e-9,
        unserved_seconds=unserved * 1e-9,
        between_seconds=(wall - busy - spoken) * 1e-9,
        hidden_waiting_seconds=(hidden - hidden_moving) * 1e-9,
        hidden_moving_seconds=hidden_moving * 1e-9,
        wall_seconds=wall * 1e-9,
        cpu_per_wall=track.cpu_per_wall,
    )


def communication_rows(
    track: Track, meetings: Iterable[Meeting], standstills: Sequence[Standstill]
) -> list[CommunicationRow]:
    """Return one row for each kind of communication of a rank in each group, in the order of first appearance."""
    groups: dict[tuple[str, str, bool], list[RankCall]] = defaultdict(list)
    for _, call in _own_calls(track.rank, meetings):
        groups[call.kind, call.talk.group, call.flight is None].append(call)
    computing, rows = _computing(track), []
    for key, calls in groups.items():
        exposed = sum(part.event.total_ns for call in calls for part in call.parts)
        waiting, unserved = _still(standstills, set(map(id, calls)))
        hidden = common(merged(call.flight for call in calls if call.flight), computing)
        size = sum(call.bytes for call in calls)
        times = (time * 1e-9 for time in (exposed, waiting, exposed - waiting, unserved, hidden))
        rows.append(CommunicationRow(track.rank, *key, len(calls), size, *times))
    return rows


def _still(standstills: Iterable[Standstill], calls: set[int]) -> tuple[int, int]:
    """Return the ns that some calls, given by their ids, were waiting and unserved."""
    own = [each for each in standstills if id(each.call) in calls]
    return sum(length(each.waiting) for each in own), sum(length(each.unserved) for each in own)


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
