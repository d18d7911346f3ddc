"""Matched calls: calls of different ranks that are one communication, who was late to it, and how long others waited.

A collective is the calls with the same group and sequence. A message is the n-th send and the n-th receive of the same
two ranks with the same tag: MPI does not let messages overtake one another.

No rank can know alone for whom it waits, and asking inside the program (with a barrier or a time stamp before each
call) would change what is measured. So the events of all ranks are put on one clock afterwards, and the latest arrival
divides each, as tools that look for wait states in traces do (M. Geimer et al., 2010, doi:10.1002/cpe.1556).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tinytorch.perf.distributed.ranks.collective_ops import BEGINNINGS
from tinytorch.perf.distributed.recording.intervals import Interval
from tinytorch.perf.distributed.recording.tracks import CommInfo, Track
from tinytorch.perf.events.stream import Event

#: What makes calls of different ranks one communication.
Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Part:
    """One event of a call: its position in the track's events, and the event."""

    index: int
    event: Event


@dataclass(frozen=True)
class RankCall:
    """One communication as one rank sees it.

    Attributes:
        kind: the op without its "begin_", such as ``all_reduce``; "" if it began before the recording.
        info: of the event that began it, or of the first that is known.
        parts: its events in order: one that blocks, or its beginning, polls and wait.
        flight: from the end of the beginning to the end of the event that found it complete; None if it blocks. MPI
            does not tell when it was over, nor whether anything moved while no call asked for it.
    """

    rank: int
    kind: str
    info: CommInfo
    parts: tuple[Part, ...]
    flight: Interval | None

    @property
    def arrival(self) -> int:
        """When the rank came to it."""
        return self.parts[0].event.start

    @property
    def over(self) -> int:
        """When it was known to be over on this rank."""
        return self.parts[-1].event.end if self.flight is None else self.flight[1]

    @property
    def bytes(self) -> int:
        """Size of its message."""
        return sum(part.event.traffic for part in self.parts)


@dataclass(frozen=True)
class MatchedCall:
    """One communication of all its ranks; ``calls`` are in the order of ranks."""

    calls: tuple[RankCall, ...]

    @property
    def kind(self) -> str:
        """What it is: the collective's name, or "message"."""
        info = self.calls[0].info
        return "message" if info.peer >= 0 else self.calls[0].kind

    @property
    def whole(self) -> bool:
        """Whether every rank's call was recorded from its beginning; only then it is known who waited for whom."""
        info = self.calls[0].info
        return len(self.calls) == (2 if info.peer >= 0 else info.size) and all(call.kind for call in self.calls)

    def awaited(self, call: RankCall) -> RankCall | None:
        """Return the call that ``call`` had to wait for, if it is another: the root's, the peer's, the last to come."""
        if not self.whole or len(self.calls) < 2:
            return None
        if call.info.peer >= 0:
            return next(other for other in self.calls if other is not call)
        if call.info.root >= 0:
            other = next(other for other in self.calls if other.info.member == call.info.root)
        else:
            other = max(self.calls, key=lambda each: each.arrival)
        return None if other is call else other

    def waiting(self, call: RankCall, part: Part) -> int:
        """Return the ns of an event of ``call`` in which nothing could move, as who it waited for had not come.

        An event that ended before, as a broadcast's on its root may, waited for nobody.
        """
        other = self.awaited(call)
        if other is None or part.event.end < other.arrival:
            return 0
        return max(0, other.arrival - part.event.start)


def matched_calls_of(tracks: Sequence[Track]) -> list[MatchedCall]:
    """Return every communication of the ranks, in the order in which the first of them came to it.

    Raises:
        ValueError: if a rank made two calls that claim to be the same collective.
    """
    members: dict[Key, list[RankCall]] = defaultdict(list)
    for track in tracks:
        counts: Counter[Key] = Counter()
        for call in _calls_of(track):
            key = _key(call)
            counts[key] += 1
            if call.info.peer >= 0:
                key = (*key, counts[key])
            elif counts[key] > 1 and call.kind:
                raise ValueError(
                    f"rank {track.rank} made collective {call.info.sequence} of group {call.info.group!r} twice: two "
                    "groups have that name, so make the second one with Communicator.duplicate, not with world()"
                )
            members[key].append(call)
    return sorted((MatchedCall(tuple(calls)) for calls in members.values()), key=lambda each: each.calls[0].arrival)


def _calls_of(track: Track) -> list[RankCall]:
    """Return the calls of a rank in the order of their first events."""
    parts: dict[Key, list[Part]] = {}
    for index in sorted(track.comm_info):
        info = track.comm_info[index]
        # What began before the recording has no number; its collective's sequence, or else itself, tells it apart.
        unknown: Key = (info.group, info.sequence) if info.sequence else (info.group, 0, index)
        key: Key = (info.call,) if info.call >= 0 else unknown
        parts.setdefault(key, []).append(Part(index, track.profile.events[index]))
    return [_call(track, tuple(found)) for found in parts.values()]


def _call(track: Track, parts: tuple[Part, ...]) -> RankCall:
    info = track.comm_info[parts[0].index]
    op = parts[0].event.op
    known = info.call >= 0
    flight = None
    if not known or op in BEGINNINGS:
        over = next((part.event.end for part in parts if track.comm_info[part.index].complete), track.profile.end)
        flight = (parts[0].event.end if known else track.profile.start, over)
    return RankCall(track.rank, op.removeprefix("begin_") if known else "", info, parts, flight)


def _key(call: RankCall) -> Key:
    info = call.info
    if info.peer < 0:
        return "collective", info.group, info.sequence or f"unknown {call.rank} {call.parts[0].index}"
    sends = call.kind == "send"
    ends = (info.member, info.peer) if sends else (info.peer, info.member)
    return ("message", info.group, *ends, info.tag)
