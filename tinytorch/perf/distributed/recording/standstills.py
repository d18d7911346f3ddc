"""Standstills: when a rank stood still in a call of communication, and which other rank it stood still for.

Two kinds are told apart. Before the rank that a call waits for has come to it, nothing can move: the call is
`waiting`. Afterwards data may move; but a rank that has begun a call and then computes on serves nobody where the MPI
library moves data only while it is called, as most do. A call that goes on meanwhile is `unserved`. Libraries and
networks that move data by themselves do serve it, and there this time is moving like the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinytorch.perf.distributed.ranks.collective_ops import BEGINNINGS
from tinytorch.perf.distributed.recording.meetings import Meeting, RankCall
from tinytorch.perf.distributed.recording.pieces import Stretch, gaps, length, merged
from tinytorch.perf.distributed.recording.tracks import Track

#: Events that wait for nobody.
RETURNING = BEGINNINGS | {"poll"}


@dataclass(frozen=True)
class Standstill:
    """When ``rank`` stood still in one of its calls because of rank ``awaited``; stretches are in order, in ns.

    Attributes:
        waiting: in the call, before ``awaited`` had come to it.
        unserved: in the call, if it blocks or is a wait, afterwards, while ``awaited``, whose own part of it was not
            over, was in no call of communication.
    """

    meeting: Meeting
    call: RankCall
    awaited: int
    waiting: tuple[Stretch, ...]
    unserved: tuple[Stretch, ...]

    @property
    def rank(self) -> int:
        """Which rank stood still."""
        return self.call.rank

    @property
    def all(self) -> list[Stretch]:
        """Both kinds."""
        return merged([*self.waiting, *self.unserved])


def talking(track: Track) -> list[Stretch]:
    """Return when a rank was in a call of communication, in order."""
    events = track.profile.events
    return merged((events[index].start, events[index].end) for index in track.talks)


def standstills_of(tracks: Sequence[Track], meetings: Sequence[Meeting]) -> list[Standstill]:
    """Return every standstill, in the order of ``meetings`` and of the ranks that stood still.

    A call waits for one rank (see `Meeting.awaited`). It is unserved because of the one rank that was away longest.
    """
    spoken = [talking(track) for track in tracks]
    found = []
    for meeting in meetings:
        for call in meeting.calls if meeting.whole else ():
            awaited, waiting = _waiting(meeting, call)
            absent, unserved = _unserved(meeting, call, spoken)
            if waiting and awaited == absent:
                found.append(Standstill(meeting, call, awaited, waiting, unserved))
                continue
            if waiting:
                found.append(Standstill(meeting, call, awaited, waiting, ()))
            if unserved:
                found.append(Standstill(meeting, call, absent, (), unserved))
    return found


def _waiting(meeting: Meeting, call: RankCall) -> tuple[int, tuple[Stretch, ...]]:
    other = meeting.awaited(call)
    if other is None:
        return -1, ()
    parts = [(part.event.start, part.event.start + meeting.waiting(call, part)) for part in call.parts]
    return other.rank, tuple(merged(parts))


def _unserved(meeting: Meeting, call: RankCall, spoken: Sequence[Sequence[Stretch]]) -> tuple[int, tuple[Stretch, ...]]:
    """Return which other rank was away longest while ``call`` went on, and when."""
    longest: tuple[int, tuple[Stretch, ...]] = (-1, ())
    first = meeting.awaited(call)
    begun = call.arrival if first is None else first.arrival
    for other in meeting.calls:
        if other is call:
            continue
        away = [
            stretch
            for part in call.parts
            if part.event.op not in RETURNING
            for stretch in gaps(
                spoken[other.rank],
                max(part.event.start, begun, other.arrival),
                min(part.event.end, other.over),
            )
        ]
        if length(away) > length(longest[1]):
            longest = (other.rank, tuple(merged(away)))
    return longest
