"""Clock, drift and number of pairs: a call timed alone, a program beside a neighbour, and what so many pairs see."""

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

from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Derived, Measurement, Modelled, from_turns, own_loop
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import Sample
from tinytorch.perf.measuring.planning import POWER, rounds_within
from tinytorch.perf.measuring.statistics import CONFIDENCE, Percentile, interval_of_law, median

#: Calls that are timed alone and in a row in a round, and rounds.
_CALLS, _ROUNDS = 500, 40
#: Samples of each of two copies in a series, series, and the least seconds of a sample: several of the system's slices.
_SAMPLES, _SERIES, _SECONDS = 16, 6, 0.01
#: Neighbours for each core, so that the program's is shared whatever core the system moves it to.
FOR_EACH_CORE = 2
#: Sets of pairs that are drawn of each number.
_DRAWN = 60
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


def beside_a_neighbour(function: Callable[[], Any]) -> tuple[Measurement, Comparison]:
    """Return the speedup of a copy of one program over another, timed one after the other and in turns.

    Each series times the function in a quiet half and beside two counting processes for each core, in another half.
    Whoever takes one copy after the other has one in each half. To take them in turns is to have one of each two
    neighbouring samples, in a drawn order. So both orders judge the same samples.
    """
    loops = loops_for(function, _SECONDS)
    halves = []
    with own_loop(warmup_runs=10, inner_loops=loops) as loop:
        for _ in rounds_within(10.0, _SERIES, fewest=2):
            for beside in (nullcontext(), neighbours()):
                with beside:
                    halves.append([_seconds(function, loops) for _ in range(_SAMPLES)])
    # That it had less than a core is the experiment here, and no disturbance of it.
    conditions = replace(loop.conditions, cpu_per_wall=None)
    quiet, busy = np.median(halves, axis=1).reshape(-1, 2).T
    speedups = tuple((quiet / busy).tolist())
    sequence = Measurement("one copy, then the other", speedups, "", replace(conditions, sample=Sample.TRIALS))
    pairs = np.random.default_rng(0).permuted(np.reshape(halves, (-1, 2)), axis=1)
    dealt = from_turns({"A": pairs[:, 0], "B": pairs[:, 1]}, sample="calls", conditions=conditions, block=_SAMPLES)
    return sequence, compare_paired(dealt["A"], dealt["B"], _MATTERS)


def loops_for(function: Callable[[], Any], seconds: float) -> int:
    """Return how many calls in a row take at least so many ``seconds`` on a quiet machine."""
    return max(1, math.ceil(seconds / min(_seconds(function, 1) for _ in range(10))))


def _seconds(function: Callable[[], Any], loops: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(loops):
        function()
    return (time.perf_counter_ns() - start) * 1e-9 / loops


def reach(pairs: Measurement, number: int) -> Measurement:
    """Return half the width of an interval of the median of so many pairs, drawn from all of them again and again."""
    draw = np.random.default_rng(0)
    drawn = (draw.choice(pairs.samples, number) for _ in range(_DRAWN))
    halves = tuple(interval_of_law(Percentile(tuple(each)), CONFIDENCE).half_width for each in drawn)
    conditions = replace(pairs.conditions, sample=Sample.TRIALS, between_runs=None, block=None)
    return Measurement(f"half-width of an interval of {number} pairs", halves, "%", conditions)


def pairs_for(pairs: Measurement, difference: float) -> Derived:
    """Return how many pairs find this difference in nine of ten cases, by the scatter of pairs of the same code."""
    from scipy.special import ndtri

    scatter = 1.4826 * median(np.abs(np.log(pairs.samples)))
    number = math.pi / 2 * (float(ndtri(0.975) + ndtri(POWER)) * scatter / difference) ** 2
    what = f"pairs for a difference of {difference:.0%}"
    return Derived(math.ceil(number), "1", what, (pairs,), "it is a number of pairs")
