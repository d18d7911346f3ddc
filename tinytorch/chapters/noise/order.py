"""Clock, drift and number of pairs: a call timed alone, a program beside a neighbour, and what so many pairs see."""

import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import (
    Counted,
    Derived,
    Measurement,
    Modelled,
    from_turns,
    own_loop,
    quotient,
    ratio,
)
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import Sample
from tinytorch.perf.measuring.planning import POWER
from tinytorch.perf.measuring.statistics import CONFIDENCE, Percentile, interval_of_law, median

#: Calls that are timed alone and in a row in a round, and rounds.
_CALLS, _ROUNDS = 500, 40
#: Samples of each of two copies in a series, series, and the least seconds of a sample: several of the system's slices.
_SAMPLES, _SERIES, _SECONDS = 20, 6, 0.01
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
def neighbours(count: int) -> Iterator[Neighbours]:
    """Run the body beside ``count`` processes that do nothing but count; they end with it."""
    with ExitStack() as stack:
        started = Neighbours([])
        for _ in range(count):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]))
            stack.callback(busy.kill)
            started.processes.append(busy)
        yield started


@dataclass(frozen=True)
class OneCall:
    """A short call, in seconds.

    Attributes:
        alone: between two readings of the clock.
        nothing: between two readings with nothing between them.
        in_a_row: many calls between two readings, over their number.
        predicted: of one alone, if it takes what it does in a row, and what two readings take by themselves.
        ratio: alone over in a row.
        over_predicted: alone over predicted.
    """

    alone: Measurement
    nothing: Measurement
    in_a_row: Measurement
    predicted: Modelled
    ratio: Measurement
    over_predicted: Measurement


def one_call(function: Callable[[], Any]) -> OneCall:
    """Return how long a short function seems to take when it is timed alone, and in a row, both in each of many rounds.

    A sample of what is timed alone is the mean of many such times.
    """
    clock = time.perf_counter_ns
    series: tuple[list[float], ...] = ([], [], [])
    nothing, alone, in_a_row = series
    for _ in range(_CALLS):
        function()
    with own_loop(warmup_runs=_CALLS, inner_loops=_CALLS) as loop:
        for _ in range(_ROUNDS):
            between = around = 0
            for _ in range(_CALLS):
                first = clock()
                second = clock()
                function()
                third = clock()
                between, around = between + second - first, around + third - second
            nothing.append(between * 1e-9 / _CALLS)
            alone.append(around * 1e-9 / _CALLS)
            in_a_row.append(_seconds(function, _CALLS))
    names = ("two readings of the clock", "a call timed alone", "a call in a row")
    taken = from_turns(dict(zip(names, series, strict=True)), sample="rounds", conditions=loop.conditions)
    empty, one, many = taken.values()
    both = replace(one, name="a call and two readings", samples=tuple(np.add(empty.samples, many.samples).tolist()))
    law = "a call in a row, and what two readings take by themselves"
    over_predicted = ratio(one, both, "a call timed alone over what is predicted of it")
    over_row = ratio(one, many, "a call timed alone over one in a row")
    return OneCall(one, empty, many, Modelled.by(law, both), over_row, over_predicted)


@dataclass(frozen=True)
class Disturbed:
    """Two copies of one program, and a neighbour that comes half way.

    Attributes:
        timeline: number and seconds of each sample over all series, in the order in which they were taken.
        arrival: the number of the last sample without the neighbour.
        predicted: the speedup of the second copy where the first had the quiet half, if the system is fair.
        sequence: the same, as each series found it.
        turns: the copies in turns: the same samples, of each two neighbours one to either.
    """

    timeline: Sequence[Mapping[str, Any]]
    arrival: Counted
    predicted: Modelled
    sequence: Measurement
    turns: Comparison


def beside_a_neighbour(function: Callable[[], Any]) -> Disturbed:
    """Return what a neighbour makes of two copies of one program, by the order in which they are timed.

    Each series times the function in a quiet half and beside two counting processes for each core, in another half.
    Whoever takes one copy after the other has one in each half. To take them in turns is to have one of each two
    neighbouring samples, in a drawn order. So both orders judge the same samples.
    """
    loops = loops_for(function, _SECONDS)
    cores = len(usable_cores())
    taken = []
    with own_loop(warmup_runs=10, inner_loops=loops) as loop:
        for _ in range(_SERIES):
            for beside in (nullcontext(), neighbours(FOR_EACH_CORE * cores)):
                with beside:
                    taken.append([_seconds(function, loops) for _ in range(_SAMPLES)])
    # That it had less than a core is the experiment here, and no disturbance of it.
    conditions = replace(loop.conditions, cpu_per_wall=None)
    halves = np.array(taken).reshape(_SERIES, 2, _SAMPLES)
    whole = halves.reshape(_SERIES, 2 * _SAMPLES)
    trials = replace(conditions, sample=Sample.TRIALS)
    middles = np.median(halves, axis=2)
    pairs = np.random.default_rng(0).permuted(whole.reshape(-1, 2), axis=1)
    dealt = from_turns({"A": pairs[:, 0], "B": pairs[:, 1]}, sample="calls", conditions=conditions, block=_SAMPLES)
    samples = [Measurement("a sample", tuple(each), "s", trials) for each in whole.T.tolist()]
    return Disturbed(
        [{"number": number, "seconds": each} for number, each in enumerate(samples, 1)],
        Counted(_SAMPLES, "1", "samples without a neighbour"),
        Modelled(cores / (FOR_EACH_CORE * cores + 1), "", "share of a core beside neighbours", "a fair scheduler"),
        Measurement("one copy, then the other", tuple((middles[:, 0] / middles[:, 1]).tolist()), "", trials),
        compare_paired(dealt["A"], dealt["B"], _MATTERS),
    )


def loops_for(function: Callable[[], Any], seconds: float) -> int:
    """Return how many calls in a row take at least so many ``seconds`` on a quiet machine."""
    return max(1, math.ceil(seconds / min(_seconds(function, 1) for _ in range(10))))


def _seconds(function: Callable[[], Any], loops: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(loops):
        function()
    return (time.perf_counter_ns() - start) * 1e-9 / loops


@dataclass(frozen=True)
class Seen:
    """The smallest difference that so many pairs tell from nothing, and the same by the root of their number."""

    pairs: int
    found: Measurement
    predicted: Modelled


def seen_by(times: Mapping[str, Measurement], numbers: Sequence[int]) -> dict[int, Seen]:
    """Return how far intervals of so many ``numbers`` of pairs reach, of two copies of one program taken in turns.

    Each is half the width of the interval of the median ratio of pairs that are drawn from all, again and again,
    so that they know nothing of one another. The law goes through what the first number found.
    """
    once, again = times.values()
    pairs, draw = ratio(once, again), np.random.default_rng(0)
    conditions = replace(pairs.conditions, sample=Sample.TRIALS, between_runs=None, block=None)

    def reach(number: int) -> Measurement:
        drawn = (draw.choice(pairs.samples, number) for _ in range(_DRAWN))
        halves = tuple(interval_of_law(Percentile(tuple(each)), CONFIDENCE).half_width for each in drawn)
        return Measurement(f"half-width of an interval of {number} pairs", halves, "%", conditions)

    found = {number: reach(number) for number in numbers}
    first, law = found[numbers[0]], "a half-width that falls with the root of the number"
    return {
        number: Seen(number, one, Modelled.by(law, first.scaled((numbers[0] / number) ** 0.5, "%")))
        for number, one in found.items()
    }


def gain(seen: Mapping[int, Seen], few: int, many: int) -> Measurement:
    """Return how many times as small a difference many pairs see as few do."""
    return quotient(seen[few].found, seen[many].found, f"half-width of an interval of {few} pairs over one of {many}")


def gain_by_root(few: int, many: int) -> Modelled:
    """Return the same by the root of the number."""
    return Modelled(
        (many / few) ** 0.5, "", "root of the ratio of the numbers of pairs", "errors that fall as the root"
    )


def gain_by_ranks(times: Mapping[str, Measurement], few: int, many: int) -> Derived:
    """Return the same by the coins: how far apart the percentiles are from which and to which the intervals reach."""
    once, again = times.values()
    pairs = ratio(once, again)

    def width(number: int) -> float:
        low, high = np.quantile(pairs.samples, (0.5 - 0.98 / number**0.5, 0.5 + 0.98 / number**0.5))
        return float(high - low)

    what = f"distance of the percentiles that bound {few} pairs over that of {many}"
    return Derived(width(few) / width(many), "", what, (pairs,), "percentiles of all pairs are held against")


def over_ranks(gained: Measurement, by_ranks: Derived) -> Measurement:
    """Return how many times as narrow an interval became, over what the percentiles say."""
    return gained.scaled(1 / by_ranks.value, "", f"{gained.name}, over what percentiles say")


def pairs_for(times: Mapping[str, Measurement], difference: float) -> Derived:
    """Return how many pairs find this difference in nine of ten cases, by the scatter of pairs of the same code."""
    from scipy.special import ndtri

    once, again = times.values()
    pairs = ratio(once, again)
    scatter = 1.4826 * median(np.abs(np.log(pairs.samples)))
    number = math.pi / 2 * (float(ndtri(0.975) + ndtri(POWER)) * scatter / difference) ** 2
    return Derived(
        math.ceil(number), "1", f"pairs for a difference of {difference:.0%}", (pairs,), "it is a number of pairs"
    )
