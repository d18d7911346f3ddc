"""Experiments with one piece of code: what makes its repeats differ, and what intervals of them are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.benchmarking.scenarios import server, single_stream
from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import Conditions, Sample, of_processes
from tinytorch.perf.measuring.processes import Fresh
from tinytorch.perf.measuring.statistics import (
    Interval,
    Samples,
    checked,
    median_interval,
    share_interval,
)

#: Makes an interval of some samples.
Rule = Callable[[npt.NDArray[np.float64]], Interval]
#: What an interval is said to hold, of all samples.
Truth = Callable[[npt.NDArray[np.float64]], Any]
#: The 97.5th percentile of the normal distribution as textbooks print it, whatever the number of samples.
_NORMAL = 1.96
#: Median absolute deviations in a standard deviation of the normal distribution.
_DEVIATIONS = 1.4826


def share(outcomes: Sequence[bool] | npt.NDArray[np.bool_], name: str) -> Statistic:
    """Return the share (0 to 1) of ``outcomes`` that are true, with its exact 95 % interval, `share_interval`.

    Raises:
        ValueError: if there are none.
    """
    found = checked(np.asarray(outcomes, np.float64), "outcomes")
    bounds = share_interval(int(found.sum()), found.size)
    conditions = Conditions(sample=Sample.TRIALS, statistic="share", interval_by="Clopper and Pearson")
    return Statistic(name, tuple(found.tolist()), "%", conditions, value=float(found.mean()), bounds=bounds)


def mean_and_normal(samples: npt.NDArray[np.float64]) -> Interval:
    """Return the textbook's 95 % interval of the mean: 1.96 standard errors to each side, for any number of samples."""
    half = _NORMAL * float(samples.std(ddof=1)) / samples.size**0.5
    return Interval(float(samples.mean()) - half, float(samples.mean()) + half, 0.95)


def settled_calls(found: Sequence[Fresh], first: int) -> list[Measurement]:
    """Return for each process the calls that it timed one by one, from the number ``first`` on.

    Raises:
        ValueError: if a process has no such call.
    """
    return [
        Measurement("calls in a row", one.first[first:], "s", next(iter(one.times.values())).conditions)
        for one in found
    ]


def coverage(series: Sequence[Measurement], runs: int, rule: Rule, truth: Truth, name: str) -> Measurement:
    """Return how often the interval that ``rule`` makes of ``runs`` calls in a row holds the truth, by process.

    Args:
        series: many calls of each process, in the order in which they were taken.
        runs: in each block that gets an interval.
        rule: such as `mean_and_normal` or `tinytorch.perf.measuring.statistics.median_interval`.
        truth: what the interval is said to hold, of all calls of the process: their median or their mean.
        name: of the share that is returned.

    Raises:
        ValueError: if ``runs`` is below 2, or there are not enough calls for one block.
    """

    def held(one: Measurement) -> float:
        aim = float(truth(np.asarray(one.samples)))
        return float(np.mean([aim in rule(block) for block in blocks(one.samples, runs)]))

    return Measurement(name, tuple(map(held, series)), "%", _of_processes(series))


def blocks(samples: Samples, size: int) -> npt.NDArray[np.float64]:
    """Return the samples cut into blocks of ``size`` neighbours, shape (blocks, size); a rest is left out.

    Raises:
        ValueError: if ``size`` is below 2 or above the number of samples.
    """
    array = checked(samples)
    if not 2 <= size <= array.size:
        raise ValueError(f"size must be from 2 to the {array.size} samples, not {size}")
    return array[: array.size // size * size].reshape(-1, size)


def beyond_three_deviations(series: Sequence[Measurement], name: str) -> Measurement:
    """Return the share of calls more than three deviations above the median, by process: of a normal one 0.13 %.

    The deviation is robust, the median absolute deviation scaled to agree with the standard one where noise is normal.

    Raises:
        ValueError: if more than half of the samples of one are equal, so that there is no deviation.
    """

    def beyond(one: Measurement) -> float:
        array = np.asarray(one.samples)
        middle = np.median(array)
        deviation = _DEVIATIONS * np.median(np.abs(array - middle))
        if deviation == 0:
            raise ValueError("samples must differ, but more than half of them are equal")
        return float(np.mean(array > middle + 3 * deviation))

    return Measurement(name, tuple(map(beyond, series)), "%", _of_processes(series))


def resolution(once: Measurement, again: Measurement, pairs: int, at_most: int = 25) -> Measurement:
    """Return the smallest ratio above 1 that ``pairs`` pairs of the same code tell from 1, from block to block.

    Args:
        once, again: the same code, sampled in turns.
        pairs: in each block of neighbours that is compared.
        at_most: blocks that are compared.

    Raises:
        ValueError: if there are fewer than ``pairs`` pairs.
    """
    found = [
        compare_paired(a, b, matters=0).interval
        for a, b in zip(blocks(once.samples, pairs)[:at_most], blocks(again.samples, pairs)[:at_most], strict=True)
    ]
    ends = tuple(max(1 / interval.low, interval.high) - 1 for interval in found)
    return Measurement(
        f"smallest difference that {pairs} pairs resolve", ends, "%", replace(once.conditions, sample=Sample.BLOCKS)
    )


def shuffled(series: Measurement, seed: int = 0) -> Measurement:
    """Return the same samples in an order drawn by ``seed``: as many fast and slow ones, but none beside its likes."""
    drawn = np.random.default_rng(seed).permutation(series.samples)
    return Measurement(f"{series.name}, shuffled", tuple(drawn.tolist()), series.unit, series.conditions)


def in_sequence_and_in_turns(series: Measurement, runs: int, seed: int = 0) -> tuple[Measurement, Measurement]:
    """Return by how much two copies of one program seem to differ: one after the other, and in turns.

    Each stretch of 2 ``runs`` calls in a row is dealt to the two in both ways: the former half to one and the latter to
    the other; and of each two neighbours one to either, in an order drawn by ``seed``. A sample is the absolute
    difference of the two medians, as a fraction of the stretch's.

    Raises:
        ValueError: if there are not enough calls for one stretch.
    """
    stretches = blocks(series.samples, 2 * runs)
    middles = np.median(stretches, axis=1)
    pairs = np.random.default_rng(seed).permuted(stretches.reshape(-1, runs, 2), axis=2)
    dealt = {
        "one after the other": (stretches[:, :runs], stretches[:, runs:]),
        "in turns": (pairs[:, :, 0], pairs[:, :, 1]),
    }
    names = [f"difference of a program from itself, {way}" for way in dealt]
    found = [
        Measurement(
            name,
            tuple((np.abs(np.median(one, axis=1) - np.median(other, axis=1)) / middles).tolist()),
            "%",
            replace(
                series.conditions,
                sample=Sample.BLOCKS,
                interleaved_with=tuple(each for each in names if each != name),
            ),
        )
        for name, (one, other) in zip(names, dealt.values(), strict=True)
    ]
    return found[0], found[1]


def forward(model: Module, inputs: Tensor) -> Callable[[], None]:
    """Return a forward pass without gradients."""

    def call() -> None:
        with no_grad():
            model(inputs)

    return call


def same_mlp() -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return a forward pass of the zoo's MLP on one image, twice."""
    entry = models.entry("mlp")
    call = forward(entry.make(0).eval(), models.as_input(entry.example_input(1)))
    return call, call


def own_interval(process: Measurement) -> Interval:
    """Return the interval of the median that the calls of one process give, as if there were no other process."""
    return median_interval(process.samples)


def known_within(processes: Sequence[Measurement]) -> Measurement:
    """Return how well each process says that it knows its median: half its interval's width over it, 0 to 1."""
    spreads = tuple(own_interval(one).half_width / one.median for one in processes)
    return Measurement("half-width of the interval in one process", spreads, "%", _of_processes(processes))


def moved_between(processes: Sequence[Measurement]) -> Measurement:
    """Return how far the median of each process lies from that of all of them, relative, 0 to 1."""
    medians = np.array([one.median for one in processes])
    off = np.abs(medians / np.median(medians) - 1)
    name = "distance of a process's median from that of all"
    return Measurement(name, tuple(off.tolist()), "%", _of_processes(processes))


def beyond_their_own(processes: Sequence[Measurement]) -> Statistic:
    """Return the share of processes whose own interval does not hold the median of the other processes' medians."""
    medians = np.array([one.median for one in processes])
    others = [float(np.median(np.delete(medians, at))) for at in range(medians.size)]
    outside = [middle not in own_interval(one) for one, middle in zip(processes, others, strict=True)]
    made = share(outside, "processes whose interval does not hold the median of the others")
    return replace(made, conditions=_of_processes(processes).told_as("share", "Clopper and Pearson"))


def _of_processes(processes: Sequence[Measurement]) -> Conditions:
    """Return the conditions of what has a sample from each process."""
    return of_processes(one.conditions for one in processes)


def over_steady(found: Sequence[Fresh], first: int, last: int) -> Measurement:
    """Return, for each process, how many times as long as its steady calls its calls ``first`` to ``last`` took.

    Steady are those of the second half of all calls that it timed one by one; of both the median is taken.

    Raises:
        ValueError: if ``first`` is below 1, or ``last`` not within the first half.
    """
    half = min(len(one.first) for one in found) // 2
    if not 1 <= first <= last <= half:
        raise ValueError(f"first and last must lie in order from 1 to {half}, half of the calls, not {first}, {last}")
    quotients = [float(np.median(one.first[first - 1 : last]) / np.median(one.first[half:])) for one in found]
    calls = f"call {first}" if first == last else f"calls {first} to {last}"
    timed = _of_processes([time for one in found for time in one.times.values()])
    conditions = replace(timed, warmup_runs=first - 1, warmup_seconds=None, warmup_steady=None)
    return Measurement(f"{calls} of a fresh process over its steady ones", tuple(quotients), "", conditions)


def control(model: Any, data: Any, loads: tuple[float, float], queries: int = 600) -> list[Measurement]:
    """Return what the slowest hundredth waits at each of two loads, shares of what the model answers one by one.

    Raises:
        ValueError: if a load is not above 0.
    """
    if not all(load > 0 for load in loads):
        raise ValueError(f"loads must be above 0, not {loads}")
    per_second = 1 / single_stream(model, data, queries=queries).mean
    return [server(model, data, load * per_second, queries=queries).tail(99) for load in loads]
