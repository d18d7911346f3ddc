"""Experiments with one piece of code: what its repeats differ by, and what an interval of them is worth."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.benchmarking.performance import share_right
from tinytorch.perf.measuring import Counted, Measurement, Modelled
from tinytorch.perf.measuring.conditions import of_processes
from tinytorch.perf.measuring.processes import Fresh
from tinytorch.perf.measuring.statistics import CONFIDENCE, LOGARITHMS, Interval, Percentile, Samples, checked
from tinytorch.report.drawings import Drawing


def first_over_steady(found: Sequence[Fresh]) -> Measurement:
    """Return, for each process, how many times as long as the median of its steady calls its first call took.

    Steady are those of the second half of all calls that it timed one by one.
    """
    half = min(len(one.first) for one in found) // 2
    quotients = tuple(float(one.first[0] / np.median(one.first[half:])) for one in found)
    timed = of_processes(time.conditions for one in found for time in one.times.values())
    conditions = replace(timed, warmup_runs=0, warmup_seconds=None, warmup_steady=None)
    return Measurement("call 1 of a fresh process over its steady ones", quotients, "", conditions)


def settled_calls(found: Sequence[Fresh], first: int) -> list[Measurement]:
    """Return for each process the calls that it timed one by one, from the number ``first`` on."""
    return [Measurement("calls in a row", one.first[first:], "s", one.times["base"].conditions) for one in found]


def shuffled(series: Measurement) -> Measurement:
    """Return the same samples in a drawn order: as many fast and slow ones, but none beside its likes."""
    drawn = np.random.default_rng(0).permutation(series.samples)
    return Measurement(f"{series.name}, shuffled", tuple(drawn.tolist()), series.unit, series.conditions)


def samples_outside(n: int) -> tuple[int, float]:
    """Return how many of n independent samples a 95 % interval leaves out on each side, and how often it misses.

    The samples k + 1 from each end enclose the median, but for twice the chance of at most k heads in n tosses.
    """
    misses = 2 * np.cumsum([math.comb(n, heads) / 2**n for heads in range(n // 2)])
    outside = max(0, int((misses <= 1 - CONFIDENCE).sum()) - 1)
    return outside, float(misses[outside])


def between_ranks(samples: Array) -> Interval:
    """Return the 95 % interval of the median between two of the samples."""
    ordered = np.sort(checked(samples))
    outside, misses = samples_outside(ordered.size)
    return Interval(float(ordered[outside]), float(ordered[-1 - outside]), 1 - misses)


def mean_and_normal(samples: Array) -> Interval:
    """Return the textbook's 95 % interval of the mean: 1.96 standard errors to each side, for any number of samples."""
    half = 1.96 * float(samples.std(ddof=1)) / samples.size**0.5
    return Interval(float(samples.mean()) - half, float(samples.mean()) + half, 0.95)


def _blocks(samples: Samples, size: int) -> Array:
    """Return the samples cut into blocks of ``size`` neighbours, shape (blocks, size); a rest is left out."""
    array = checked(samples)
    return array[: array.size // size * size].reshape(-1, size)


def _of_each(
    processes: Sequence[Measurement], name: str, unit: str, number: Callable[[Measurement], float]
) -> Measurement:
    """Return a number of each process."""
    return Measurement(name, tuple(map(number, processes)), unit, of_processes(one.conditions for one in processes))


def coverage(
    calls: Sequence[Measurement], runs: int, rule: Callable[[Array], Interval], truth: Callable[[Array], Any], name: str
) -> Measurement:
    """Return how often the interval that ``rule`` makes of ``runs`` calls in a row holds the truth, by process.

    The truth, their median or mean, is that of all calls of the process.
    """

    def held(one: Measurement) -> float:
        aim = float(truth(np.asarray(one.samples)))
        return float(np.mean([aim in rule(block) for block in _blocks(one.samples, runs)]))

    return _of_each(calls, name, "%", held)


def beyond_three_deviations(series: Sequence[Measurement]) -> Measurement:
    """Return the share of calls more than three deviations above the median, by process: of a normal one 0.13 %.

    The deviation is robust, the median absolute deviation scaled to agree with the standard one where noise is normal.
    """

    def beyond(one: Measurement) -> float:
        array = np.asarray(one.samples)
        middle = np.median(array)
        return float(np.mean(array > middle + 3 * 1.4826 * np.median(np.abs(array - middle))))

    return _of_each(series, "calls more than three deviations above the median", "%", beyond)


def inflation(samples: Samples, calls: int) -> float:
    """Return the variance of the number of calls above the median in a block, over that of as many tosses of a coin."""
    array = checked(samples)
    above = _blocks((array > np.median(array)).astype(np.float64), calls)
    return float(above.sum(axis=1).var(ddof=1)) / (calls / 4)


def variance_inflation(series: Sequence[Measurement], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return the variance inflation by the ``calls`` in a block: ``in_a_row``, ``shuffled``, and as ``predicted``.

    Predicted is that of calls whose autocorrelation falls by the same factor with each call between them.
    """
    rows = []
    for calls in sizes:
        apart, name = np.arange(1, calls), f"variance inflation in blocks of {calls}"

        def found(one: Measurement, calls: int = calls) -> float:
            return inflation(one.samples, calls)

        def of_neighbours(one: Measurement, calls: int = calls, apart: Array = apart) -> float:
            correlation = inflation(one.samples, 2) - 1
            return 1 + 2 * float(((1 - apart / calls) * correlation**apart).sum())

        law = _of_each(series, name, "", of_neighbours)
        rows.append(
            {
                "calls": calls,
                "in_a_row": _of_each(series, f"{name} in a row", "", found),
                "shuffled": _of_each([shuffled(one) for one in series], f"{name} shuffled", "", found),
                "predicted": Modelled.by("the correlation of neighbouring calls", law),
            }
        )
    return rows


def effective_sample_size(series: Sequence[Measurement], calls: int) -> Measurement:
    """Return how many independent calls tell you as much about the median as a block of so many calls in a row."""
    name = f"effective sample size of {calls} calls in a row"
    return _of_each(series, name, "calls", lambda one: calls / inflation(one.samples, calls))


def by_itself(one: Measurement) -> Measurement:
    """Return the time of one process with the interval that its own samples give it, taken as independent."""
    return replace(one, conditions=one.conditions.within_bounds("median"), law=Percentile(one.samples, LOGARITHMS))


def beyond_their_own(processes: Sequence[Measurement]) -> Measurement:
    """Return the share of processes whose own interval does not hold the median of the other processes' medians."""
    medians = np.array([one.median for one in processes])
    others = [float(np.median(np.delete(medians, at))) for at in range(medians.size)]
    outside = [middle not in by_itself(one).interval for one, middle in zip(processes, others, strict=True)]
    what = "the share of processes whose interval does not hold the median of the others"
    made = share_right(what, np.array(outside))
    conditions = of_processes(one.conditions for one in processes)
    return replace(made, conditions=conditions.told_as("share", "Clopper and Pearson, mid-P"))


def count_above(share: Measurement, limit: float, what: str) -> Counted:
    """Return how many samples of a share lie above a limit."""
    return Counted(sum(one > limit for one in share.samples), "1", what)


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
        color = "forward" if low <= middle <= high else "waiting"
        drawing.line((low, y), (high, y), color=color, width=2.5)
        drawing.circle(middle + wide * one.median, y, 2.5, color=color)
        if color == "waiting":
            drawing.text(10, y + 5, misses, anchor="start")
    drawing.text(middle, bottom + 24, below)
    return drawing
