"""Tracks: what one rank recorded, with what tells which of its calls belong to those of other ranks; and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tinytorch.core.op import Spec, Work
from tinytorch.perf.distributed.ranks.communicator import Place
from tinytorch.perf.distributed.recording.clocks import Clocks
from tinytorch.perf.events.stream import Event, Profile, Span

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CommInfo:
    """What an event of communication says of itself, beyond its op, times and bytes.

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
    """What one rank recorded.

    Attributes:
        place: its rank, host and process.
        profile: its events and module calls.
        comm_info: what its events of communication say, by the event's position in ``profile.events``.
        cpu_ns: CPU time of the process during the recording; ranks that wait keep their core busy too.
    """

    place: Place
    profile: Profile
    comm_info: Mapping[int, CommInfo]
    cpu_ns: int

    @property
    def cpu_per_wall(self) -> float:
        """CPU time over wall time: below 1, something else had the core for a part of the time."""
        return self.cpu_ns / (self.profile.end - self.profile.start)

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
    start, end = moved([profile.start, profile.end])
    made = replace(
        profile,
        events=tuple(replace(event, start=first, end=last) for event, first, last in events),
        spans=tuple(replace(span, start=first, end=last) for span, first, last in spans),
        start=start,
        end=end,
    )
    return replace(track, profile=made)


def track_to_json(track: Track) -> Json:
    """Return the track as JSON holds it: what many events have in common stands there once."""
    kinds: dict[tuple[Any, ...], int] = {}
    rows = []
    for event in track.profile.events:
        work = None if event.work is None else tuple(event.work)
        operands = tuple(map(_spec_to_json, (event.output, *event.inputs)))
        kind = (event.op, event.implementation, event.phase, event.path, operands, work, event.traffic)
        rows.append([kinds.setdefault(kind, len(kinds)), event.start, event.end, event.self_ns])
    profile = track.profile
    return {
        "place": asdict(track.place),
        "run": [profile.start, profile.end, profile.process, profile.thread, profile.blas_threads],
        "kinds": list(kinds),
        "events": rows,
        "spans": [[span.path, span.module, span.depth, span.start, span.end] for span in profile.spans],
        "comm_info": [[index, asdict(info)] for index, info in track.comm_info.items()],
        "cpu": track.cpu_ns,
    }


def track_from_json(values: Mapping[str, Any]) -> Track:
    """Return the track that `track_to_json` wrote."""
    kinds = [_kind_from_json(kind) for kind in values["kinds"]]
    rows = [[*kinds[number], start, end, own] for number, start, end, own in values["events"]]
    events = tuple(Event(*row) for row in rows)
    start, end, process, thread, blas_threads = values["run"]
    spans = tuple(Span(*span) for span in values["spans"])
    place = Place(**{**values["place"], "cores": tuple(values["place"]["cores"])})
    comm_info = {int(index): CommInfo(**info) for index, info in values["comm_info"]}
    return Track(place, Profile(events, spans, start, end, process, thread, blas_threads), comm_info, values["cpu"])


def _spec_to_json(spec: Spec) -> tuple[tuple[int, ...], str | None]:
    return spec.shape, None if spec.dtype is None else spec.dtype.str


def _spec_from_json(values: tuple[list[int], str | None]) -> Spec:
    shape, dtype = values
    return Spec(tuple(shape), None if dtype is None else np.dtype(dtype))


def _kind_from_json(kind: list[Any]) -> tuple[Any, ...]:
    """Return the fields of `Event` before its times."""
    op, implementation, phase, path, operands, work, traffic = kind
    output, *inputs = map(_spec_from_json, operands)
    return op, implementation, phase, path, tuple(inputs), output, None if work is None else Work(*work), traffic
