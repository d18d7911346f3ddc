"""Tracks: what one rank recorded, with what tells which of its calls belong to those of other ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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

    def moved(timed: Sequence[Any]) -> tuple[Any, ...]:
        own = np.array([(one.start, one.end) for one in timed], np.int64).reshape(-1, 2)
        times = clocks.on_rank_0(track.rank, own).tolist()
        return tuple(replace(one, start=start, end=end) for one, (start, end) in zip(timed, times, strict=True))

    (whole,) = moved([profile])
    inner = {name: moved(getattr(profile, name)) for name in ("events", "spans", "regions")}
    return replace(track, profile=replace(whole, **inner))
