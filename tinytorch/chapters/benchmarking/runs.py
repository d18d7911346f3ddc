"""Experiments with one piece of code: what makes its repeats differ, and what intervals of them are worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core.module import Sequential
from tinytorch.core.op import Array
from tinytorch.perf.acceleration.techniques import forward_pass
from tinytorch.perf.benchmarking.performance import share_right
from tinytorch.perf.benchmarking.scenarios import server, single_stream
from tinytorch.perf.measuring import Derived, Measurement, Modelled
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import Sample, of_processes
from tinytorch.perf.measuring.judge import Verdict, bonferroni
from tinytorch.perf.measuring.measurement import CONFIDENCE, Statistic
from tinytorch.perf.measuring.processes import Fresh, compare_in_processes
from tinytorch.perf.measuring.statistics import Interval, Samples, checked, median_interval

#: How often an interval is said to hold the truth: by ranks that from the fourth to the twelfth of fifteen.
BY_RANKS = Modelled(
    1 - 2 * (1 + 15 + 105 + 455) / 2**15, "%", "median, fifteen calls by ranks", "calls in random order"
)
BY_NORMAL = Modelled(0.95, "%", "mean, ten calls, 1.96", "calls in random order")
#: Of fourteen comparisons of equals, of a hundred calls, and of two hundred pairs in place of ten.
FALSE_ALARM = Modelled(
    1 - 0.95**14,
    "%",
    "chance of a false alarm in 14 independent comparisons, each with one of twenty",
    "independent comparisons",
)
TAIL_UNSEEN = Modelled(
    0.99**100, "%", "chance that a hundred independent calls hold none of the slowest hundredth", "independent calls"
)
GAIN_BY_ROOT = Modelled(
    (200 / 10) ** 0.5, "", "root of the ratio of the numbers of pairs", "errors that fall with the root of the number"
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


def worked_by_hand(samples: Sequence[float], low: float, high: float) -> tuple[Derived, Derived]:
    """Return the ends of an interval, after checking that they are the fourth and the twelfth of fifteen calls."""
    ordered = sorted(samples)
    if len(ordered) != 15 or (low, high) != (ordered[3], ordered[11]):
        raise ValueError(f"ends must be the 4th and the 12th of 15 samples, not {low}, {high} of {len(ordered)}")
    taken, end = (Measurement("fifteen calls of the MLP", tuple(samples), "s"),), "it is the end of one"
    below = Derived(low, "s", "the fourth smallest of fifteen calls of the MLP", taken, end)
    return below, Derived(high, "s", "the twelfth smallest of the same", taken, end)


def settled_calls(found: Sequence[Fresh], first: int) -> list[Measurement]:
    """Return for each process the calls that it timed one by one, from the number ``first`` on."""
    return [Measurement("calls in a row", one.first[first:], "s", one.times[BASE].conditions) for one in found]


def shuffled(series: Measurement) -> Measurement:
    """Return the same samples in a drawn order: as many fast and slow ones, but none beside its likes."""
    drawn = np.random.default_rng(0).permutation(series.samples)
    return Measurement(f"{series.name}, shuffled", tuple(drawn.tolist()), series.unit, series.conditions)


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


def in_sequence_and_in_turns(series: Measurement, runs: int) -> tuple[Measurement, Measurement]:
    """Return by how much two copies of one program seem to differ: one after the other, and in turns.

    Each stretch of 2 ``runs`` calls in a row is dealt to the two in both ways: the former half to one and the latter to
    the other; and of each two neighbours one to either, in a drawn order. A sample is the absolute difference of the
    two medians, as a fraction of the stretch's.
    """
    stretches = blocks(series.samples, 2 * runs)
    middles = np.median(stretches, axis=1)
    pairs = np.random.default_rng(0).permuted(stretches.reshape(-1, runs, 2), axis=2)
    before, turns = (f"difference of a program from itself, {way}" for way in ("one after the other", "in turns"))

    def difference(name: str, other: str, one: Any, copy: Any) -> Measurement:
        apart = np.abs(np.median(one, axis=1) - np.median(copy, axis=1)) / middles
        conditions = replace(series.conditions, sample=Sample.BLOCKS, interleaved_with=(other,))
        return Measurement(name, tuple(apart.tolist()), "%", conditions)

    return (
        difference(before, turns, stretches[:, :runs], stretches[:, runs:]),
        difference(turns, before, pairs[:, :, 0], pairs[:, :, 1]),
    )


def resolution(once: Measurement, again: Measurement, pairs: int) -> Measurement:
    """Return the smallest ratio above 1 that so many pairs of the same code tell from 1, in each of 25 blocks."""
    both = zip(blocks(once.samples, pairs)[:25], blocks(again.samples, pairs)[:25], strict=True)
    found = [compare_paired(a, b, matters=0).interval for a, b in both]
    ends = tuple(max(1 / interval.low, interval.high) - 1 for interval in found)
    conditions = replace(once.conditions, sample=Sample.BLOCKS)
    return Measurement(f"smallest difference that {pairs} pairs resolve", ends, "%", conditions)


def known_within(processes: Sequence[Measurement]) -> Measurement:
    """Return how well each process says that it knows its median: half its interval's width over it, 0 to 1."""
    name = "half-width of the interval in one process"
    return _of_each(processes, name, lambda one: median_interval(one.samples).half_width / one.median)


def moved_between(processes: Sequence[Measurement]) -> Measurement:
    """Return how far the median of each process lies from that of all of them, relative, 0 to 1."""
    middle = float(np.median([one.median for one in processes]))
    name = "distance of a process's median from that of all"
    return _of_each(processes, name, lambda one: abs(one.median / middle - 1))


def beyond_their_own(processes: Sequence[Measurement]) -> Statistic:
    """Return the share of processes whose own interval does not hold the median of the other processes' medians."""
    medians = np.array([one.median for one in processes])
    others = [float(np.median(np.delete(medians, at))) for at in range(medians.size)]
    outside = [middle not in median_interval(one.samples) for one, middle in zip(processes, others, strict=True)]
    made = share_right("processes whose interval does not hold the median of the others", np.array(outside))
    conditions = of_processes(one.conditions for one in processes)
    return replace(made, conditions=conditions.told_as("share", "Clopper and Pearson"))


def erring(beyond: Statistic) -> Derived:
    """Return how many processes a share of them is."""
    what = "fresh processes whose interval does not hold the median of the others"
    return Derived(round(beyond.median * beyond.n), "1", what, (beyond,), "it is a count")


def judged_changes(found: Sequence[Fresh]) -> dict[str, Comparison]:
    """Return the base against itself and against the change, over processes; their intervals hold together."""
    each = bonferroni(CONFIDENCE, 2)
    return {
        name: compare_in_processes(found, BASE, name, MATTERS, confidence=each, compared=2) for name in (AGAIN, CHANGED)
    }


def caught(changed: Comparison) -> str:
    """Return whether the change is caught: proven slower."""
    return "caught" if changed.verdict is Verdict.SLOWER else "missed"


def control(model: Any, data: Any, loads: tuple[float, float], queries: int = 600) -> list[Measurement]:
    """Return what the slowest hundredth waits at each of two loads, shares of what the model answers one by one."""
    rate = 1 / single_stream(model, data, queries=queries).mean
    # Half a minute, as a slow machine has few requests at a low load, and a percentile takes 299.
    return [server(model, data, load * rate, queries=queries, at_most_seconds=30).tail(99) for load in loads]


def missing(held: Measurement) -> Statistic:
    """Return the share of textbook intervals that miss what the share ``held`` holds."""
    within, name = held.interval, "share of textbook intervals of ten runs that miss the mean of all"
    bounds = Interval(1 - within.high, 1 - within.low, within.confidence)
    samples = tuple(1 - each for each in held.samples)
    return Statistic(name, samples, "%", held.conditions, value=1 - held.median, bounds=bounds)
