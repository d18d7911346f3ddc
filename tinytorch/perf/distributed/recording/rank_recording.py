"""Recording on every rank: what each did in the same body, brought to rank 0 and put on its clock.

It needs no `launch`; under a cluster's own ``mpiexec`` or scheduler a program says

    with recorded(world()) as recording: train(...)
    timeline = recording.gather()  # on all ranks; None on all but rank 0
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinytorch.core.dispatch import Observer, observed_by
from tinytorch.core.op import Array, Call, Saved
from tinytorch.perf.distributed.ranks.collective_ops import BEGINNINGS, COMMUNICATION
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.recording.clocks import Clocks, align
from tinytorch.perf.distributed.recording.timeline import Timeline
from tinytorch.perf.distributed.recording.tracks import Talk, Track, on_rank_0, track_from_json, track_to_json
from tinytorch.perf.events.stream import Profile, Recorder
from tinytorch.perf.measuring import collector_off


class TalkRecorder(Observer):
    """Keeps what each event of communication says of itself; ``talks`` are by the event's position among all."""

    def __init__(self) -> None:
        self.talks: dict[int, Talk] = {}
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
            self.talks[index] = self._talk(name, call.params, outputs[0])

    def _talk(self, name: str, params: dict[str, Any], output: Array | None) -> Talk:
        communicator: Communicator = params.get("communicator")  # type: ignore[assignment]
        complete = name not in BEGINNINGS and (name != "poll" or (output is not None and bool(output.all())))
        return Talk(
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
    """What this rank recorded in the body of `recorded`."""

    def __init__(self, communicator: Communicator, clocks: Clocks) -> None:
        self._communicator, self._clocks = communicator, clocks
        self._ended = False
        self._track: Track | None = None

    def end(self, profile: Profile, talks: TalkRecorder, cpu_ns: int) -> None:
        """Take over what was recorded; `recorded` calls it."""
        self._track = Track(self._communicator.places[self._communicator.rank], profile, talks.talks, cpu_ns)

    @property
    def track(self) -> Track:
        """What this rank recorded, on its own clock.

        Raises:
            RuntimeError: inside the body.
        """
        if self._track is None:
            raise RuntimeError("nothing is recorded yet: read the recording after the body of `with recorded(...)`")
        return self._track

    def gather(self) -> Timeline | None:
        """Return what all ranks recorded, on one clock, on rank 0, and None on the others; all ranks call it.

        The first call reads the clocks again, so that their drift during the body is known.

        Raises:
            RuntimeError: inside the body.
        """
        track, communicator = self.track, self._communicator
        if not self._ended:
            self._clocks = self._clocks.followed_by(align(communicator))
            self._ended = True
        texts = _gathered(communicator, json.dumps(track_to_json(track)))
        if texts is None:
            return None
        tracks = [on_rank_0(track_from_json(json.loads(text)), self._clocks) for text in texts]
        return Timeline(tuple(tracks), self._clocks, communicator.oversubscribed)


def _gathered(communicator: Communicator, text: str) -> list[str] | None:
    """Return the text of each rank on rank 0, None on the others."""
    own = np.frombuffer(text.encode(), np.uint8)
    lengths = np.empty(communicator.size, np.int64)
    communicator.raw.Gather(np.array([own.size], np.int64), lengths)
    if communicator.rank:
        communicator.raw.Gatherv(own, None)
        return None
    joined = np.empty(int(lengths.sum()), np.uint8)
    communicator.raw.Gatherv(own, [joined, lengths])
    ends = np.cumsum(lengths)
    return [joined[end - n : end].tobytes().decode() for n, end in zip(lengths, ends, strict=True)]


@contextmanager
def recorded(communicator: Communicator) -> Iterator[RankRecording]:
    """Record every op and module call of the body on this rank; all ranks enter together.

    The clocks are read before the body, which takes some milliseconds; no message may be under way then. The body
    begins on all ranks at once, and the garbage collector is off in it, as in `events.recording`. Calls of other
    communicators are recorded too, as long as each group has a name of its own: make them with
    `Communicator.duplicate` and `Communicator.split`, and call `world` once.
    """
    recorder, talks = Recorder(), TalkRecorder()
    with collector_off():  # which collects first, on some ranks for longer than on others
        result = RankRecording(communicator, align(communicator))
        communicator.raw.Barrier()
        cpu, start = time.process_time_ns(), time.perf_counter_ns()
        with observed_by(recorder, talks):
            yield result
        end, cpu_end = time.perf_counter_ns(), time.process_time_ns()
        result.end(recorder.profile(start, end), talks, cpu_end - cpu)
