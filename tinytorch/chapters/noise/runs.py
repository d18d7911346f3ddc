"""Experiments with one piece of code: what its repeats differ by, and what an interval of them is worth."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core.module import Sequential
from tinytorch.core.op import Array
from tinytorch.perf.acceleration.techniques import forward_pass
from tinytorch.perf.benchmarking.performance import share_right
from tinytorch.perf.measuring import Derived, Measurement, Modelled, derived
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.conditions import of_processes
from tinytorch.perf.measuring.processes import Fresh, compare_in_processes
from tinytorch.perf.measuring.statistics import (
    CONFIDENCE,
    LOGARITHMS,
    Interval,
    Law,
    Percentile,
    Samples,
    checked,
    interval_of_law,
)
from tinytorch.report.drawings import Drawing

#: How often an interval is said to hold the truth: by ranks that from the fourth to the twelfth of fifteen.
BY_RANKS = Modelled(
    1 - 2 * (1 + 15 + 105 + 455) / 2**15, "%", "median, fifteen calls by ranks", "calls in random order"
)
#: That a hundred calls say nothing of the slowest hundredth.
TAIL_UNSEEN = Modelled(
    0.99**100, "%", "chance that a hundred independent calls hold none of the slowest hundredth", "independent calls"
)
#: Examples in a call, and the relative difference of time that a team would act on.
BATCH, MATTERS = 64, 0.1
#: What a process calls its functions: the base, the same code again, and the change.
BASE, AGAIN, CHANGED = "base", "again", "changed"


class Checked(Sequential):
    """Layers one after the other, each of which looks for numbers that are not finite in what it has made."""

    def forward(self, x: Any) -> Any:
        """Return what the layers make of ``x``; raises ValueError if a number is not finite."""
        for layer in self.layers:
            x = layer(x)
            if not np.isfinite(x.data).all():
                raise ValueError("values must be finite, but some are not")
        return x


def base_and_change() -> Mapping[str, Callable[[], object]]:
    """Return a forward pass of the MLP, the same again, and one of the MLP with the check: what a process times."""
    inputs = models.as_input(models.entry("mlp").example_input(BATCH))
    made = {BASE: models.mlp(), AGAIN: models.mlp(), CHANGED: Checked(*models.mlp())}
    return {name: forward_pass(model, inputs) for name, model in made.items()}


def first_over_steady(found: Sequence[Fresh]) -> Measurement:
    """Return, for each process, how many times as long as the median of its steady calls its first call took.

    Steady are those of the second half of all calls that it timed one by one.
    """
    half = min(len(one.first) for one in found) // 2
    quotients = tuple(float(one.first[0] / np.median(one.first[half:])) for one in found)
    timed = of_processes(time.conditions for one in found for time in one.times.values())
    conditions = replace(timed, warmup_runs=0, warmup_seconds=None, warmup_steady=None)
    return Measurement("call 1 of a fresh process over its steady ones", quotients, "", conditions)


def _of_each(processes: Sequence[Measurement], name: str, number: Callable[[Measurement], float]) -> Measurement:
    """Return a share or number of each process."""
    return Measurement(name, tuple(map(number, processes)), "%", of_processes(one.conditions for one in processes))


def settled_calls(found: Sequence[Fresh], first: int) -> list[Measurement]:
    """Return for each process the calls that it timed one by one, from the number ``first`` on."""
    return [Measurement("calls in a row", one.first[first:], "s", one.times[BASE].conditions) for one in found]


def shuffled(series: Measurement) -> Measurement:
    """Return the same samples in a drawn order: as many fast and slow ones, but none beside its likes."""
    drawn = np.random.default_rng(0).permutation(series.samples)
    return Measurement(f"{series.name}, shuffled", tuple(drawn.tolist()), series.unit, series.conditions)


def between_ranks(samples: Array) -> Interval:
    """Return the 95 % interval of the median between two of the samples, as coins give it: the nearest that holds it.

    Of n independent samples the k + 1-th from each end hold the median with 1 less the chance of at most k heads in n
    tosses, twice.
    """
    ordered, n = np.sort(checked(samples)), len(samples)
    misses = 2 * np.cumsum([math.comb(n, heads) for heads in range(n // 2)]) / 2**n
    outside = max(0, int((misses <= 1 - CONFIDENCE).sum()) - 1)
    return Interval(float(ordered[outside]), float(ordered[-1 - outside]), 1 - float(misses[outside]))


def mean_and_normal(samples: Array) -> Interval:
    """Return the textbook's 95 % interval of the mean: 1.96 standard errors to each side, for any number of samples."""
    half = 1.96 * float(samples.std(ddof=1)) / samples.size**0.5
    return Interval(float(samples.mean()) - half, float(samples.mean()) + half, 0.95)


def blocks(samples: Samples, size: int) -> Array:
    """Return the samples cut into blocks of ``size`` neighbours, shape (blocks, size); a rest is left out."""
    array = checked(samples)
    if not 2 <= size <= array.size:
        raise ValueError(f"size must be from 2 to the {array.size} samples, not {size}")
    return array[: array.size // size * size].reshape(-1, size)


def coverage(
    calls: Sequence[Measurement], runs: int, rule: Callable[[Array], Interval], truth: Callable[[Array], Any], name: str
) -> Measurement:
    """Return how often the interval that ``rule`` makes of ``runs`` calls in a row holds the truth, by process.

    The truth, their median or mean, is that of all calls of the process.
    """

    def held(one: Measurement) -> float:
        aim = float(truth(np.asarray(one.samples)))
        return float(np.mean([aim in rule(block) for block in blocks(one.samples, runs)]))

    return _of_each(calls, name, held)


def beyond_three_deviations(series: Sequence[Measurement]) -> Measurement:
    """Return the share of calls more than three deviations above the median, by process: of a normal one 0.13 %.

    The deviation is robust, the median absolute deviation scaled to agree with the standard one where noise is normal.
    """

    def beyond(one: Measurement) -> float:
        array = np.asarray(one.samples)
        middle = np.median(array)
        deviation = 1.4826 * np.median(np.abs(array - middle))
        if deviation == 0:
            raise ValueError("samples must differ, but more than half of them are equal")
        return float(np.mean(array > middle + 3 * deviation))

    return _of_each(series, "calls more than three deviations above the median", beyond)


@dataclass(frozen=True)
class Price:
    """How many calls in a row tell of the median as much as one that is independent, by the number of calls in a block.

    Attributes:
        calls: in a block.
        in_a_row: by the scatter of blocks of calls as they came.
        shuffled: the same of calls in a drawn order.
        predicted: what calls would have of which only neighbours are alike.
    """

    calls: int
    in_a_row: Measurement
    shuffled: Measurement
    predicted: Modelled


def price(samples: Samples, calls: int) -> float:
    """Return the variance of the number of calls above the median in a block, over that of as many tosses of a coin."""
    array = checked(samples)
    above = blocks((array > np.median(array)).astype(np.float64), calls)
    return float(above.sum(axis=1).var(ddof=1)) / (calls / 4)


def prices(series: Sequence[Measurement], sizes: Sequence[int]) -> dict[int, Price]:
    """Return the price of dependence by the size of a block, of series from several processes."""
    mixed = [shuffled(one) for one in series]

    def found(of: Sequence[Measurement], calls: int, way: str) -> Measurement:
        name = f"calls that are worth one, in blocks of {calls} {way}"
        conditions = of_processes(one.conditions for one in of)
        return Measurement(name, tuple(price(one.samples, calls) for one in of), "", conditions)

    alike = tuple(price(one.samples, 2) - 1 for one in series)

    def short(calls: int) -> Modelled:
        later = np.arange(1, calls)
        made = tuple(1 + 2 * float(((1 - later / calls) * r**later).sum()) for r in alike)
        of = found(series, 2, "in a row")
        return Modelled.by("a part of each call that the next one keeps", replace(of, samples=made))

    return {
        calls: Price(calls, found(series, calls, "in a row"), found(mixed, calls, "shuffled"), short(calls))
        for calls in sizes
    }


def worth(prices: Mapping[int, Price], calls: int) -> Measurement:
    """Return how many independent calls a block of so many in a row is worth."""
    of = prices[calls].in_a_row
    return Measurement(
        f"independent calls that {calls} in a row are worth",
        tuple(calls / each for each in of.samples),
        "calls",
        of.conditions,
    )


def repeats(processes: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Return the number and the "time" of each process, with the interval that its own samples give it alone."""
    own = [replace(one, conditions=one.conditions.within_bounds("median"), law=_own(one)) for one in processes]
    return [{"process": number, "time": time} for number, time in enumerate(own, 1)]


def _own(one: Measurement) -> Law:
    """Return what the samples of one process say of their median, taken as independent."""
    return Percentile(one.samples, LOGARITHMS)


def known_within(processes: Sequence[Measurement]) -> Measurement:
    """Return how well each process says that it knows its median: half its interval's width over it, 0 to 1."""
    name = "half-width of the interval in one process"
    return _of_each(processes, name, lambda one: interval_of_law(_own(one), CONFIDENCE).half_width / one.median)


def moved_between(processes: Sequence[Measurement]) -> Measurement:
    """Return how far the median of each process lies from that of all of them, relative, 0 to 1."""
    middle = float(np.median([one.median for one in processes]))
    name = "distance of a process's median from that of all"
    return _of_each(processes, name, lambda one: abs(one.median / middle - 1))


def beyond_their_own(processes: Sequence[Measurement]) -> Measurement:
    """Return the share of processes whose own interval does not hold the median of the other processes' medians."""
    medians = np.array([one.median for one in processes])
    others = [float(np.median(np.delete(medians, at))) for at in range(medians.size)]
    outside = [
        middle not in interval_of_law(_own(one), CONFIDENCE) for one, middle in zip(processes, others, strict=True)
    ]
    made = share_right("processes whose interval does not hold the median of the others", np.array(outside))
    conditions = of_processes(one.conditions for one in processes)
    return replace(made, conditions=conditions.told_as("share", "Clopper and Pearson, mid-P"))


def erring(beyond: Measurement) -> Derived:
    """Return how many processes a share of them is."""
    what = "fresh processes whose interval does not hold the median of the others"
    return Derived(round(beyond.median * beyond.n), "1", what, (beyond,), "it is a count")


def judged_changes(found: Sequence[Fresh]) -> dict[str, Comparison]:
    """Return the base against itself and against the change, over processes; their intervals hold together."""
    return {name: compare_in_processes(found, BASE, name, MATTERS, together=2) for name in (AGAIN, CHANGED)}


def missing(held: Measurement) -> Measurement:
    """Return the share of textbook intervals that miss what the share ``held`` holds."""
    name = "share of textbook intervals of ten runs that miss the mean of all"
    return derived(name, lambda share: 1 - share, held, unit="%")


def repeated_intervals(repeats: int, samples: int, *, truth: str, misses: str, below: str, seed: int = 1) -> Drawing:
    """Return drawn intervals of a median, with words at the ``truth``, beside what ``misses`` it, and ``below`` all."""
    draw = np.random.default_rng(seed)
    step, top, middle, wide = 12.0, 34.0, 240.0, 130.0
    bottom = top + repeats * step
    drawing = Drawing(bottom + 30)
    drawing.line((middle, top - 8), (middle, bottom + 4), color="baseline", width=3)
    drawing.text(middle, 18, truth)
    for index in range(repeats):
        one = Measurement("drawn", tuple(draw.normal(0, 1, samples)), "")
        y = top + (index + 0.5) * step
        low, high = (middle + wide * end for end in (one.interval.low, one.interval.high))
        holds = low <= middle <= high
        drawing.line((low, y), (high, y), color="forward" if holds else "waiting", width=2.5)
        drawing.circle(middle + wide * one.median, y, 2.5, color="forward" if holds else "waiting")
        if not holds:
            drawing.text(10, y + 5, misses, anchor="start")
    drawing.text(middle, bottom + 24, below)
    return drawing
