"""Timeline of all ranks on one clock, and the recording that makes it.

A recording needs no `launch`; under a cluster's own ``mpiexec`` or scheduler a program says

    with recorded(world()) as recording: train(...)
    timeline = recording.gather()  # on all ranks; None on all but rank 0
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tinytorch.core.dispatch import Observer, observed_by
from tinytorch.core.op import Array, Call, Saved
from tinytorch.perf.distributed.ranks.collective_ops import BEGINNINGS, COMMUNICATION
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.recording.blocked_time import Blocked, blocked_times_of
from tinytorch.perf.distributed.recording.clocks import Clocks, align
from tinytorch.perf.distributed.recording.matched_calls import MatchedCall, matched_calls_of
from tinytorch.perf.distributed.recording.stragglers import Delay, Straggler, delays_of, stragglers_of
from tinytorch.perf.distributed.recording.tracks import CommInfo, Track, on_rank_0
from tinytorch.perf.events.stream import Recorder
from tinytorch.perf.measuring import collector_off
from tinytorch.perf.measuring.codec import from_json, to_json


@dataclass(frozen=True)
class Timeline:
    """Events of all ranks in ns of rank 0's ``time.perf_counter_ns``.

    Attributes:
        tracks: of each rank, in order.
        clocks: by which they were put there, with their errors.

    Raises:
        ValueError: if there is no track, or ranks or clocks do not fit.
    """

    tracks: tuple[Track, ...]
    clocks: Clocks

    def __post_init__(self) -> None:
        ranks = [track.rank for track in self.tracks]
        if not ranks or ranks != list(range(len(ranks))):
            raise ValueError(f"tracks must be those of rank 0 and all after it, in order, not of {ranks}")
        if len(self.clocks.readings) != len(ranks):
            raise ValueError(f"clocks must be those of {len(ranks)} ranks, not of {len(self.clocks.readings)}")

    @property
    def start(self) -> int:
        """When the first rank's body began, in ns."""
        return min(track.profile.start for track in self.tracks)

    @property
    def wall_seconds(self) -> float:
        """From the first rank's beginning to the last one's end."""
        return (max(track.profile.end for track in self.tracks) - self.start) * 1e-9

    @cached_property
    def matched_calls(self) -> tuple[MatchedCall, ...]:
        """Every communication, with the calls of its ranks.

        Raises:
            ValueError: if two groups have the same name.
        """
        return tuple(matched_calls_of(self.tracks))

    @cached_property
    def blocked_times(self) -> tuple[Blocked, ...]:
        """Every call in which a rank stood still for another."""
        return tuple(blocked_times_of(self.tracks, self.matched_calls))

    def delays(self) -> list[Delay]:
        """Return every communication in which ranks stood still for another, the costliest first."""
        return delays_of(self.blocked_times, self.clocks)

    def stragglers(self) -> list[Straggler]:
        """Return the ranks that others waited for, the costliest first; waits within the clocks' error do not count."""
        return stragglers_of(self.delays())


class CommRecorder(Observer):
    """Keeps what each event of communication says of itself; ``comm_info`` are by the event's position among all."""

    def __init__(self) -> None:
        self.comm_info: dict[int, CommInfo] = {}
        self._events = 0
        self._calls = 0
        self._begun: dict[int, int] = {}

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Keep it, if the call is one of communication."""
        del inputs, saved
        index = self._events
        self._events += 1
        name = call.op.name
        if name in COMMUNICATION and "sequence" in call.params:
            self.comm_info[index] = self._info(name, call.params, outputs[0])

    def _info(self, name: str, params: dict[str, Any], output: Array | None) -> CommInfo:
        communicator: Communicator = params.get("communicator")  # type: ignore[assignment]
        complete = name not in BEGINNINGS and (name != "poll" or (output is not None and bool(output.all())))
        return CommInfo(
            self._number(name, params.get("pending")),
            params["group"],
            communicator.rank,
            params["ranks"],
            params["sequence"],
            params.get("peer", -1),
            params.get("tag", -1),
            params.get("root", -1),
            complete,
        )

    def _number(self, name: str, pending: Any) -> int:
        """Return the number of the call: a new one, or that of its beginning."""
        if name not in BEGINNINGS and pending is not None:
            return self._begun.get(id(pending), -1)
        self._calls += 1
        if pending is not None:  # whose address may have been that of one which is no more
            self._begun[id(pending)] = self._calls
        return self._calls


class RankRecording:
    """Recording of this rank in the body of `recorded`; ``track`` is set at its end, on the rank's own clock.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.distributed import world
        >>> from tinytorch.perf.distributed.recording.timeline import recorded
        >>> with recorded(world()) as recording:
        ...     y = Linear(8, 4)(Tensor([[1.0] * 8]))
        >>> type(recording).__name__, recording.track is not None
        ('RankRecording', True)
    """

    def __init__(self, communicator: Communicator, clocks: Clocks) -> None:
        self._communicator, self._clocks = communicator, clocks
        self._ended = False
        self.track: Track | None = None

    def gather(self) -> Timeline | None:
        """Return what all ranks recorded, on one clock, on rank 0, and None on the others; all ranks call it.

        The first call reads the clocks again, so that their drift during the body is known.

        Raises:
            RuntimeError: inside the body.
        """
        communicator = self._communicator
        if self.track is None:
            raise RuntimeError("nothing is recorded yet: gather after the body of `with recorded(...)`")
        if not self._ended:
            self._clocks = self._clocks.followed_by(align(communicator))
            self._ended = True
        texts = communicator.raw.gather(json.dumps(to_json(self.track)))
        if texts is None:
            return None
        tracks = (from_json(json.loads(text), Track, "track") for text in texts)
        moved = tuple(on_rank_0(each, self._clocks) for each in tracks)
        return Timeline(moved, self._clocks)


@contextmanager
def recorded(communicator: Communicator) -> Iterator[RankRecording]:
    """Record every op and module call of the body on this rank; all ranks enter together.

    The clocks are read before the body, which takes some milliseconds; no message may be under way then. The body
    begins on all ranks at once, and the garbage collector is off in it. Calls of other
    communicators are recorded too, as long as each group has a name of its own: make them with
    ``Communicator.duplicate`` and `Communicator.split`, and call `world` once.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.distributed import world
        >>> from tinytorch.perf.distributed.recording.timeline import recorded
        >>> layer, x = Linear(8, 4), Tensor([[1.0] * 8])
        >>> with recorded(world()) as recording:
        ...     y = layer(x)
        >>> timeline = recording.gather()
        >>> len(timeline.tracks)  # one for each rank
        1
    """
    recorder, comm_info = Recorder(), CommRecorder()
    with collector_off():  # which collects first, on some ranks for longer than on others
        result = RankRecording(communicator, align(communicator))
        communicator.raw.Barrier()
        start = time.perf_counter_ns()
        with observed_by(recorder, comm_info):
            yield result
        end = time.perf_counter_ns()
        place = communicator.places[communicator.rank]
        profile = recorder.profile(start, end)
        whole = replace(profile, events=tuple(profile.events))  # which travels to rank 0 and into files
        result.track = Track(place, whole, comm_info.comm_info)
