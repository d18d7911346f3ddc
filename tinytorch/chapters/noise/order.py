"""Clock, drift, caches and number of pairs: experiments in which the order of the measurements matters."""

import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Measurement, Modelled, from_turns, own_loop
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import Sample
from tinytorch.perf.measuring.planning import rounds_within

#: Calls that are timed alone and in a row in a round, and rounds.
_CALLS, _ROUNDS = 500, 40
#: Samples of each of two copies in a series, series, and the least seconds of a sample: several of the system's slices.
_SAMPLES, _SERIES, _SECONDS = 16, 6, 0.01
#: Neighbours for each core, so that the program's is shared whatever core the system moves it to.
FOR_EACH_CORE = 2
#: Rounds of calls after another function.
_AFTER = 100
#: A difference from which on the two copies would not be alike.
_MATTERS = 0.25


@dataclass
class Neighbours:
    """Processes that do nothing but count, and may be held up and let go again."""

    processes: list[subprocess.Popen[bytes]]
    running: bool = True

    def run(self, running: bool) -> None:
        """Hold them up, or let them go on."""
        if running != self.running:
            self.running = running
            for one in self.processes:
                one.send_signal(signal.SIGCONT if running else signal.SIGSTOP)


@contextmanager
def neighbours() -> Iterator[Neighbours]:
    """Run the body beside processes that do nothing but count, two for each core; they end with it."""
    with ExitStack() as stack:
        started = Neighbours([])
        for _ in range(FOR_EACH_CORE * len(usable_cores())):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]))
            stack.callback(busy.kill)
            started.processes.append(busy)
        yield started


def clocked(function: Callable[[], Any]) -> dict[str, Measurement]:
    """Return what the clock shows of nothing, of a call alone and of one in a row, and the first and last together.

    All are taken in each of many rounds, and each sample is the mean of many such times.
    """
    clock = time.perf_counter_ns
    nothing, alone, in_a_row = np.zeros((3, _ROUNDS))
    for _ in range(_CALLS):
        function()
    with own_loop(warmup_runs=_CALLS, inner_loops=_CALLS) as loop:
        for turn in range(_ROUNDS):
            for _ in range(_CALLS):
                first = clock()
                second = clock()
                function()
                third = clock()
                nothing[turn] += (second - first) * 1e-9 / _CALLS
                alone[turn] += (third - second) * 1e-9 / _CALLS
            in_a_row[turn] = _seconds(function, _CALLS)
    series = {
        "two readings of the clock": nothing,
        "a call timed alone": alone,
        "a call in a row": in_a_row,
        "a call in a row and two readings": in_a_row + nothing,
    }
    return from_turns(series, sample="rounds", conditions=loop.conditions)


def fair_share() -> Modelled:
    """Return the share of a core that a program has beside the neighbours, if the system is fair to all."""
    cores = len(usable_cores())
    return Modelled(cores / (FOR_EACH_CORE * cores + 1), "", "share of a core beside neighbours", "a fair scheduler")


@dataclass(frozen=True)
class WithNeighbours:
    """Times of two copies of one program, half of them taken while other programs run.

    Attributes:
        in_sequence: speedup of the second copy if the first gets the quiet half of each series.
        share: part of a core that the program got in the other half.
        while_running: speed in the other half over that in the quiet one, per second of CPU time.
        interleaved: the comparison of both copies if neighbouring samples are dealt to them.
    """

    in_sequence: Measurement
    share: Measurement
    while_running: Measurement
    interleaved: Comparison


def with_neighbours(function: Callable[[], Any]) -> WithNeighbours:
    """Return what two copies of one program look like, timed one after the other and interleaved.

    Each series times the function in a quiet half, and in another half with two counting processes for each core. A
    person who times one copy after the other has one in each half. To interleave them is to deal each two neighbouring
    samples to them, in a random order. So both orders use the same samples.
    """
    loops = loops_for(function, _SECONDS)
    halves, on_core = [], []
    with own_loop(warmup_runs=10, inner_loops=loops) as loop:
        for _ in rounds_within(10.0, _SERIES, fewest=2):
            for others in (nullcontext(), neighbours()):
                with others:
                    start = time.process_time_ns()
                    halves.append([_seconds(function, loops) for _ in range(_SAMPLES)])
                    on_core.append((time.process_time_ns() - start) * 1e-9 / loops)
    # That it had less than a core is the experiment here, and no disturbance of it.
    conditions = replace(loop.conditions, cpu_per_wall=None)
    quiet, busy = np.sum(halves, axis=1).reshape(-1, 2).T
    quiet_core, busy_core = np.reshape(on_core, (-1, 2)).T

    def trials(name: str, values: Array, unit: str = "") -> Measurement:
        return Measurement(name, tuple(values.tolist()), unit, replace(conditions, sample=Sample.TRIALS))

    pairs = np.random.default_rng(0).permuted(np.reshape(halves, (-1, 2)), axis=1)
    dealt = from_turns({"A": pairs[:, 0], "B": pairs[:, 1]}, sample="calls", conditions=conditions, block=_SAMPLES)
    return WithNeighbours(
        trials("one copy, then the other", quiet / busy),
        trials("share of a core with neighbours", busy_core / busy, "%"),
        trials("speed per second of CPU time, with neighbours over without", quiet_core / busy_core),
        compare_paired(dealt["A"], dealt["B"], _MATTERS),
    )


def after_each(function: Callable[[], Any], other: Callable[[], Any]) -> dict[str, Measurement]:
    """Return times of single calls of a function: ``"itself"`` after another call of it, ``"other"`` after the other.

    Both are taken in each round, in a random order.
    """
    draw, before = np.random.default_rng(0), {"itself": function, "other": other}
    taken: dict[str, list[float]] = {name: [] for name in before}
    with own_loop(warmup_runs=2) as loop:
        for turn in rounds_within(3.0, _AFTER + 2, fewest=8):
            for name in draw.permutation(list(before)):
                before[name]()
                seconds = _seconds(function, 1)
                if turn >= 2:
                    taken[name].append(seconds)
    return from_turns(taken, sample="rounds", conditions=loop.conditions)


def loops_for(function: Callable[[], Any], seconds: float) -> int:
    """Return how many calls in a row take at least so many ``seconds`` on a quiet machine."""
    return max(1, math.ceil(seconds / min(_seconds(function, 1) for _ in range(10))))


def _seconds(function: Callable[[], Any], loops: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(loops):
        function()
    return (time.perf_counter_ns() - start) * 1e-9 / loops
