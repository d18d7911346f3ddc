"""Turns: groups of the first ranks that work one after another, and a stopwatch for what each of them does.

Ranks import this, so what needs SciPy is imported where it is called.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.measuring import largest, least
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.host.memory_pages import minor_page_faults
from tinytorch.perf.host.pinned_threads import may_pin

if TYPE_CHECKING:
    from tinytorch.perf.measuring import Measurement

#: A turn's sample lasts this long at least, in seconds.
SAMPLE_SECONDS = 20e-3
#: Turns before the first that counts.
_WARM = 3
#: Seconds between two questions of a rank that is not in the turn, and the tag of the message that it is over.
_PAUSE, _OVER = 5e-3, 72
#: What is run in a turn.
Step = Callable[[], Any]


class Turns:
    """Groups of the first ranks of a communicator, which work one after another; all ranks make it together.

    A rank that waits in a call of MPI keeps its core busy, and a busy core slows the others: they share its power, and
    often its caches. One rank would then be measured in a worse place than a program that runs alone. So ranks outside
    of a turn sleep, wake up now and then to ask whether it is over, and say how much of their core that took.

    Attributes:
        groups: the group of the first ranks by their number, on the ranks that are in it.
        slept, used: seconds that this rank spent outside of turns, and of CPU meanwhile.
    """

    def __init__(self, communicator: Communicator, counts: Sequence[int]) -> None:
        self._communicator = communicator
        made = {count: communicator.split(int(communicator.rank >= count)) for count in counts}
        self.groups = {count: group for count, group in made.items() if communicator.rank < count}
        self.slept = self.used = 0.0

    def take(self, count: int, work: Callable[[Communicator], None]) -> None:
        """Run ``work`` on the first ``count`` ranks, with their group; the others sleep until it is done there."""
        communicator = self._communicator
        if communicator.rank >= count:
            self._sleep()
            return
        work(self.groups[count])
        self.groups[count].barrier()
        if communicator.rank == 0:
            for rank in range(count, communicator.size):
                communicator.raw.Send(np.empty(0, np.uint8), rank, _OVER)

    def _sleep(self) -> None:
        raw = self._communicator.raw
        wall, cpu = time.perf_counter(), time.process_time()
        while not raw.Iprobe(0, _OVER):
            time.sleep(_PAUSE)
        raw.Recv(np.empty(0, np.uint8), 0, _OVER)
        self.slept += time.perf_counter() - wall
        self.used += time.process_time() - cpu


class Stopwatch:
    """What the ranks of a group run together, ``loops`` times in a turn: its seconds, CPU seconds and page faults."""

    def __init__(self, group: Communicator, run: Step, *, before: Step | None = None) -> None:
        self._group, self._run, self._before, self.loops = group, run, before or run, 1
        self.forget()

    def forget(self) -> None:
        """Drop all turns so far, which only warmed up."""
        self._seconds: list[float] = []
        self._cpu = self._wall = 0.0
        self._faults = 0

    def take(self) -> None:
        """Take one sample: what goes before once, then runs in a row, from a barrier on."""
        self._before()
        self._group.barrier()
        faults, cpu, start = minor_page_faults(), time.process_time(), time.perf_counter_ns()
        for _ in range(self.loops):
            self._run()
        wall = (time.perf_counter_ns() - start) * 1e-9
        self._faults += minor_page_faults() - faults
        self._cpu += time.process_time() - cpu
        self._wall += wall
        self._seconds.append(wall / self.loops)

    def prepare(self) -> None:
        """Warm up and set the number of runs of a turn, alike on all ranks of the group."""
        for _ in range(_WARM):
            self.take()
        self.loops = math.ceil(SAMPLE_SECONDS / largest(self._group, self._seconds).min())
        self.forget()

    def told(self) -> dict[str, Any]:
        """Return what a measurement needs, the same on all ranks of the group: of each turn the slowest rank's time."""
        runs = len(self._seconds) * self.loops
        return {
            "seconds": largest(self._group, self._seconds).tolist(),
            "loops": self.loops,
            "cpu_per_wall": least(self._group, self._cpu / self._wall),
            "faults": float(largest(self._group, [self._faults / runs])[0]),
            "oversubscribed": self._group.oversubscribed,
        }


def measured_turns(name: str, ranks: int, told: Mapping[str, Any], **known: Any) -> Measurement:
    """Return what a `Stopwatch` told, with what else is known of its conditions, by name."""
    from tinytorch.perf.measuring import Measurement
    from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
    from tinytorch.perf.measuring.conditions import Conditions, Ranks

    conditions = Conditions(
        inner_loops=told["loops"],
        collector_off=True,
        blas_threads=limited_blas_threads(1) or "unknown",
        cpu_per_wall=float(f"{told['cpu_per_wall']:.3g}"),
        page_faults_per_call=float(f"{told['faults']:.3g}"),
        instrument=Ranks(ranks=ranks, oversubscribed=told["oversubscribed"], pinned=may_pin()),
        **known,
    )
    return with_between_run_spread(Measurement(name, tuple(told["seconds"]), "s", conditions))
