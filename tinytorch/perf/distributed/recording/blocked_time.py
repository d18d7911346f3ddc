"""Blocked time of ranks: in which calls one stood still for another.

Two kinds are told apart. Before the rank that a call waits for has come to it, nothing can move: the call is
`waiting`. Afterwards data may move; but a rank that has begun a call and then computes on serves nobody where the MPI
library moves data only while it is called, as most do. A call that goes on meanwhile is `unserved`. Libraries and
networks that move data by themselves do serve it, and there this time is moving like the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinytorch.perf.distributed.ranks.collective_ops import BEGINNINGS
from tinytorch.perf.distributed.recording.intervals import Interval, gaps, length, merged
from tinytorch.perf.distributed.recording.matched_calls import MatchedCall, RankCall
from tinytorch.perf.distributed.recording.tracks import Track

#: Events that wait for nobody.
RETURNING = BEGINNINGS | {"poll"}
#: A message below this takes about as long as an empty one on any link: there is nothing in it to hide.
LEAST_BYTES = 1024


@dataclass(frozen=True)
class Blocked:
    """Time that one rank stood still in one of its calls because of rank ``awaited``; intervals in order, in ns.

    Attributes:
        waiting: in the call, before ``awaited`` had come to it.
        unserved: in the call, if it blocks or is a wait, afterwards, while ``awaited``, whose own part of it was not
            over, was in no call of communication.
    """

    matched: MatchedCall
    call: RankCall
    awaited: int
    waiting: tuple[Interval, ...]
    unserved: tuple[Interval, ...]

    @property
    def rank(self) -> int:
        """Rank that stood still."""
        return self.call.rank

    @property
    def all(self) -> list[Interval]:
        """Both kinds."""
        return merged([*self.waiting, *self.unserved])


def communicating(track: Track) -> list[Interval]:
    """Return when a rank was in a call of communication, in order."""
    events = track.profile.events
    return merged((events[index].start, events[index].end) for index in track.comm_info)


def blocked_times_of(tracks: Sequence[Track], matched_calls: Sequence[MatchedCall]) -> list[Blocked]:
    """Return all blocked time, in the order of ``matched_calls`` and of the ranks that stood still.

    A call waits for one rank (see `MatchedCall.awaited`). It is unserved because of the one rank that was away longest.
    """
    spoken = [communicating(track) for track in tracks]
    found = []
    for matched in matched_calls:
        for call in matched.calls if matched.whole else ():
            awaited, waiting = _waiting(matched, call)
            absent, unserved = _unserved(matched, call, spoken)
            if waiting and awaited == absent:
                found.append(Blocked(matched, call, awaited, waiting, unserved))
                continue
            if waiting:
                found.append(Blocked(matched, call, awaited, waiting, ()))
            if unserved:
                found.append(Blocked(matched, call, absent, (), unserved))
    return found


def _waiting(matched: MatchedCall, call: RankCall) -> tuple[int, tuple[Interval, ...]]:
    other = matched.awaited(call)
    if other is None:
        return -1, ()
    parts = [(part.event.start, part.event.start + matched.waiting(call, part)) for part in call.parts]
    return other.rank, tuple(merged(parts))


def _unserved(
    matched: MatchedCall, call: RankCall, spoken: Sequence[Sequence[Interval]]
) -> tuple[int, tuple[Interval, ...]]:
    """Return which other rank was away longest while ``call`` went on, and when."""
    longest: tuple[int, tuple[Interval, ...]] = (-1, ())
    first = matched.awaited(call)
    begun = call.arrival if first is None else first.arrival
    for other in matched.calls:
        if other is call:
            continue
        away = [
            interval
            for part in call.parts
            if part.event.op not in RETURNING
            for interval in gaps(
                spoken[other.rank], max(part.event.start, begun, other.arrival), min(part.event.end, other.over)
            )
        ]
        if length(away) > length(longest[1]):
            longest = (other.rank, tuple(merged(away)))
    return longest
