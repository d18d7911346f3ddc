"""Tracks: what one rank recorded, with what tells which of its calls belong to those of other ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tinytorch.perf.distributed.ranks.communicator import Place
from tinytorch.perf.distributed.recording.clocks import Clocks
from tinytorch.perf.events.stream import Profile


@dataclass(frozen=True, slots=True)
class CommInfo:
    """Facts of an event of communication beyond its op, times and bytes.

    Attributes:
        call: number of the call on this rank, which a beginning, its polls and its wait share; -1 where the call
            began before the recording.
        group, member, size: name of the group, this rank's number in it, and how many it has.
        sequence: number of the collective in its group; 0 for messages from one rank to another.
        peer, tag: the other rank's number in the group, and the tag; -1 for collectives.
        root: whose array a broadcast hands round, as a number in the group; -1 for all others.
        complete: whether the call is over once this event has ended.
    """

    call: int
    group: str
    member: int
    size: int
    sequence: int
    peer: int = -1
    tag: int = -1
    root: int = -1
    complete: bool = True


@dataclass(frozen=True)
class Track:
    """Recording of one rank.

    Attributes:
        place: its rank, host and process.
        profile: its events and module calls.
        comm_info: what its events of communication say, by the event's position in ``profile.events``.
    """

    place: Place
    profile: Profile
    comm_info: Mapping[int, CommInfo]

    @property
    def rank(self) -> int:
        """The rank's number."""
        return self.place.rank


def on_rank_0(track: Track, clocks: Clocks) -> Track:
    """Return the track with all times on rank 0's clock; ``self_ns`` of its events stay those of its own clock."""
    profile = track.profile

    def moved(times: list[int]) -> list[int]:
        return [int(when) for when in clocks.on_rank_0(track.rank, np.array(times, np.int64))]

    starts, ends = moved([e.start for e in profile.events]), moved([e.end for e in profile.events])
    span_starts, span_ends = moved([s.start for s in profile.spans]), moved([s.end for s in profile.spans])
    events = zip(profile.events, starts, ends, strict=True)
    spans = zip(profile.spans, span_starts, span_ends, strict=True)
    region_starts, region_ends = moved([r.start for r in profile.regions]), moved([r.end for r in profile.regions])
    regions = zip(profile.regions, region_starts, region_ends, strict=True)
    start, end = moved([profile.start, profile.end])
    made = replace(
        profile,
        events=tuple(replace(event, start=first, end=last) for event, first, last in events),
        spans=tuple(replace(span, start=first, end=last) for span, first, last in spans),
        regions=tuple(replace(region, start=first, end=last) for region, first, last in regions),
        start=start,
        end=end,
    )
    return replace(track, profile=made)
