"""Timelines made up by hand, so that what is read off them is known."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tinytorch.core.op import Phase, Spec, Work
from tinytorch.perf.distributed.ranks.communicator import Place
from tinytorch.perf.distributed.recording.clocks import Clocks, Reading
from tinytorch.perf.distributed.recording.timeline import Timeline
from tinytorch.perf.distributed.recording.tracks import CommInfo, Track
from tinytorch.perf.events.stream import Event, Profile

FLOAT32 = np.dtype(np.float32)


@dataclass
class Made:
    """One rank's track in the making; times in ns."""

    rank: int
    end: int
    size: int = 2
    events: list[Event] = field(default_factory=list)
    comm_info: dict[int, CommInfo] = field(default_factory=dict)

    def op(self, name: str, start: int, end: int, phase: Phase = "forward", path: str = "", traffic: int = 0) -> None:
        spec = Spec((2, 2), FLOAT32)
        inputs = (spec, Spec((), None))
        work = Work(8) if traffic == 0 else None
        self.events.append(Event(name, "numpy", phase, path, inputs, spec, work, traffic, start, end, end - start))

    def say(
        self,
        name: str,
        start: int,
        end: int,
        call: int,
        sequence: int = 0,
        *,
        size: int = 4096,
        peer: int = -1,
        root: int = -1,
    ) -> None:
        """Add an event of communication, which completes its call if it is no beginning or poll."""
        over = not name.startswith(("begin_", "poll"))
        tag = -1 if peer < 0 else 0
        traffic = 0 if name in ("wait", "poll") else size
        self.comm_info[len(self.events)] = CommInfo(
            call, "world", self.rank, self.size, sequence, peer, tag, root, over
        )
        self.op(name, start, end, traffic=traffic)

    def track(self) -> Track:
        place = Place(self.rank, "host", 100 + self.rank, (self.rank,))
        return Track(place, Profile(tuple(self.events), (), 0, self.end, 100 + self.rank, 7, 1), self.comm_info)


def made_timeline(ranks: Sequence[Made], error: float = 0.0) -> Timeline:
    """Return the timeline of ranks whose clocks agree, and are known to ``error`` ns."""
    clocks = Clocks(tuple((Reading(0, 0.0, error if made.rank else 0.0),) for made in ranks))
    return Timeline(tuple(made.track() for made in ranks), clocks)
