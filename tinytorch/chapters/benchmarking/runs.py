"""Experiments with one piece of code: what repeated runs of it tell, how many it takes, and what callers wait."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.core.dispatch import no_grad
from tinytorch.perf.benchmarking.scenarios import ScenarioResult, run_scenario
from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.processes import Replicas
from tinytorch.perf.measuring.statistics import (
    Interval,
    Samples,
    checked,
    dependence,
    median_interval,
    share_interval,
)

#: Makes an interval of some samples.
Rule = Callable[[npt.NDArray[np.float64]], Interval]
#: The 97.5th percentile of the normal distribution as textbooks print it, whatever the number of samples.
_NORMAL = 1.96
#: Median absolute deviations in a standard deviation of the normal distribution.
_DEVIATIONS = 1.4826
#: Queries after which one load is measured: 459 prove a bound that none exceeds, 299 have a 99th percentile.
_LEAST_QUERIES = 600
#: Seconds after which a load is given up.
_AT_MOST_SECONDS = 30.0


def share(outcomes: Sequence[bool] | npt.NDArray[np.bool_], name: str) -> Statistic:
    """Return the share (0 to 1) of ``outcomes`` that are true, with its exact 95 % interval, `share_interval`.

    Raises:
        ValueError: if there are none.
    """
    found = checked(np.asarray(outcomes, np.float64), "outcomes")
    bounds = share_interval(int(found.sum()), found.size)
    how = {"samples_are": "trials", "statistic": "share", "trials": found.size}
    return Statistic(name, tuple(found.tolist()), "%", how, value=float(found.mean()), bounds=bounds)


def share_in_series(
    outcomes: Sequence[bool] | npt.NDArray[np.bool_], name: str, how: Mapping[str, Any] | None = None
) -> Statistic:
    """Return the share (0 to 1) of ``outcomes`` of one series that are true, in the order in which they came.

    Neighbours may be alike, so its interval is that of as many independent outcomes as the series is worth. ``how`` has
    the conditions of the series.

    Raises:
        ValueError: if there are none.
    """
    made = share(outcomes, name)
    worth = max(1, int(dependence(made.samples).effective))
    count = made.value * worth
    low, high = share_interval(math.floor(count), worth).low, share_interval(math.ceil(count), worth).high
    conditions = {**(how or {}), "statistic": "share", "worth": worth}
    return replace(made, how=conditions, bounds=replace(made.bounds, low=low, high=high))


def mean_and_normal(samples: npt.NDArray[np.float64]) -> Interval:
    """Return the textbook's 95 % interval of the mean: 1.96 standard errors to each side, for any number of samples."""
    half = _NORMAL * float(samples.std(ddof=1)) / samples.size**0.5
    return Interval(float(samples.mean()) - half, float(samples.mean()) + half, 0.95)


def coverage(series: Measurement, runs: int, rule: Rule, truth: float, name: str) -> Statistic:
    """Return how often the interval that ``rule`` makes of ``runs`` samples in a row holds ``truth``.

    Args:
        series: many samples, in the order in which they were taken.
        runs: in each block that gets an interval.
        rule: such as `mean_and_normal` or `tinytorch.perf.measuring.statistics.median_interval`.
        truth: what the interval is said to hold.
        name: of the share that is returned.

    Raises:
        ValueError: if ``runs`` is below 2, or there are not enough samples for one block.
    """
    return share_in_series([truth in rule(block) for block in blocks(series.samples, runs)], name, series.how)


def blocks(samples: Samples, size: int) -> npt.NDArray[np.float64]:
    """Return the samples cut into blocks of ``size`` neighbours, shape (blocks, size); a rest is left out.

    Raises:
        ValueError: if ``size`` is below 2 or above the number of samples.
    """
    array = checked(samples)
    if not 2 <= size <= array.size:
        raise ValueError(f"size must be from 2 to the {array.size} samples, not {size}")
    return array[: array.size // size * size].reshape(-1, size)


def beyond_three_deviations(series: Measurement, name: str) -> Statistic:
    """Return the share of samples more than three deviations above the median, which is 0.13 % of a normal one.

    The deviation is robust, the median absolute deviation scaled to agree with the standard one where noise is normal.

    Raises:
        ValueError: if more than half of the samples are equal, so that there is no deviation.
    """
    array = np.asarray(series.samples)
    middle = np.median(array)
    deviation = _DEVIATIONS * np.median(np.abs(array - middle))
    if deviation == 0:
        raise ValueError("samples must differ, but more than half of them are equal")
    return share_in_series(array > middle + 3 * deviation, name, series.how)


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
        compare_paired(a, b, delta=None).interval
        for a, b in zip(blocks(once.samples, pairs)[:at_most], blocks(again.samples, pairs)[:at_most], strict=True)
    ]
    ends = tuple(max(1 / interval.low, interval.high) - 1 for interval in found)
    return Measurement(f"smallest difference that {pairs} pairs resolve", ends, "%", {**once.how, "pairs": pairs})


def percentile_of_blocks(series: Measurement, q: float, size: int) -> Measurement:
    """Return the ``q``-th percentile that each block of ``size`` neighbours would report, in the series' unit."""
    reported = np.percentile(blocks(series.samples, size), q, axis=1)
    how = {**series.how, "runs": size}
    return Measurement(f"percentile {q:g} of {size} runs", tuple(reported.tolist()), series.unit, how)


def near(measurement: Measurement, truth: float, tolerance: float, name: str) -> Statistic:
    """Return the share of samples, in their order, within ``tolerance``, relative, of ``truth``."""
    return share_in_series(np.abs(np.asarray(measurement.samples) / truth - 1) <= tolerance, name, measurement.how)


def same_mlp() -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return a forward pass of the zoo's MLP on one image, twice: what a fresh process compares with itself."""
    entry = models.entry("mlp")
    model, inputs = entry.make(0).eval(), models.as_input(entry.example_input(1))

    def forward() -> None:
        with no_grad():
            model(inputs)

    return forward, forward


def own_interval(process: Measurement) -> Interval:
    """Return the interval of the median that the calls of one process give, as if there were no other process."""
    return median_interval(process.samples)


def known_within(found: Replicas) -> Measurement:
    """Return how well each process says that it knows its median: half its interval's width over it, 0 to 1."""
    spreads = tuple(own_interval(one).half_width / one.median for one in found.baseline)
    return Measurement("half-width of the interval in one process", spreads, "%")


def moved_between(found: Replicas) -> Measurement:
    """Return how far the median of each process lies from that of all of them, relative, 0 to 1."""
    medians = np.array([one.median for one in found.baseline])
    off = np.abs(medians / np.median(medians) - 1)
    return Measurement("distance of a process's median from that of all", tuple(off.tolist()), "%")


def beyond_their_own(found: Replicas) -> Statistic:
    """Return the share of processes whose own interval does not hold the median of the other processes' medians."""
    medians = np.array([one.median for one in found.baseline])
    others = [float(np.median(np.delete(medians, at))) for at in range(medians.size)]
    outside = [middle not in own_interval(one) for one, middle in zip(found.baseline, others, strict=True)]
    made = share(outside, "processes whose interval does not hold the median of the others")
    return replace(made, how={**found.comparison.ratio.how, **made.how})


def pairs_apart(found: Replicas) -> float:
    """Return the share of pairs of processes, same code, whose intervals do not overlap: each a false difference.

    Pairs share processes, so that the share has no interval.
    """
    intervals = [own_interval(one) for one in found.baseline]
    apart = [a.high < b.low or b.high < a.low for i, a in enumerate(intervals) for b in intervals[i + 1 :]]
    return sum(apart) / len(apart)


def capacity(model: Any, data: Any, seconds: float = 0.5) -> float:
    """Return the queries a second that ``model`` answers one after the other, each sent when the last is answered."""
    alone = run_scenario("single-stream", model, data, least_seconds=seconds)
    return 1 / alone.latencies.mean


def under_load(
    model: Any, data: Any, per_second: float, loads: Sequence[float], bound: float, seconds: float = 0.5
) -> list[ScenarioResult]:
    """Return the server scenario at each share of the capacity, with Poisson arrivals; nothing is batched.

    Args:
        model, data: those of `run_scenario`.
        per_second: the capacity that ``loads`` are shares of.
        loads: above 0; at 1 and above the queue only grows.
        bound: seconds within which 99 of 100 are to be answered.
        seconds: of each load, at least.

    Raises:
        ValueError: if a load is not above 0.
    """
    if not all(load > 0 for load in loads):
        raise ValueError(f"loads must be above 0, not {list(loads)}")
    return [
        run_scenario(
            "server",
            model,
            data,
            rate=load * per_second,
            latency_bound=bound,
            least_seconds=seconds,
            least_queries=_LEAST_QUERIES,
            at_most_seconds=_AT_MOST_SECONDS,
        )
        for load in loads
    ]
