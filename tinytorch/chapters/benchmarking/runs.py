"""Experiments with one piece of code: what repeated runs of it tell, how many it takes, and what callers wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.core.dispatch import no_grad
from tinytorch.perf.benchmarking.scenarios import ScenarioResult, run_scenario
from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.processes import Replicas
from tinytorch.perf.measuring.statistics import Interval, Samples, checked, median_interval, share_interval

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
    how = {"statistic": "share", "trials": found.size}
    return Statistic(name, tuple(found.tolist()), "%", how, value=float(found.mean()), bounds=bounds)


def mean_and_normal(samples: npt.NDArray[np.float64]) -> Interval:
    """Return the textbook's 95 % interval of the mean: 1.96 standard errors to each side, for any number of samples."""
    half = _NORMAL * float(samples.std(ddof=1)) / samples.size**0.5
    return Interval(float(samples.mean()) - half, float(samples.mean()) + half, 0.95)


def coverage(samples: Samples, runs: int, rule: Rule, truth: float, name: str) -> Statistic:
    """Return how often the interval that ``rule`` makes of ``runs`` samples in a row holds ``truth``.

    Args:
        samples: of one long series, in the order in which they were taken.
        runs: in each block that gets an interval.
        rule: such as `mean_and_normal` or `tinytorch.perf.measuring.statistics.median_interval`.
        truth: what the interval is said to hold.
        name: of the share that is returned.

    Raises:
        ValueError: if ``runs`` is below 2, or there are not enough samples for one block.
    """
    return share([truth in rule(block) for block in blocks(samples, runs)], name)


def blocks(samples: Samples, size: int) -> npt.NDArray[np.float64]:
    """Return the samples cut into blocks of ``size`` neighbours, shape (blocks, size); a rest is left out.

    Raises:
        ValueError: if ``size`` is below 2 or above the number of samples.
    """
    array = checked(samples)
    if not 2 <= size <= array.size:
        raise ValueError(f"size must be from 2 to the {array.size} samples, not {size}")
    return array[: array.size // size * size].reshape(-1, size)


def beyond_three_deviations(samples: Samples, name: str) -> Statistic:
    """Return the share of samples more than three deviations above the median, which is 0.13 % of a normal one.

    The deviation is robust, the median absolute deviation scaled to agree with the standard one where noise is normal.

    Raises:
        ValueError: if more than half of the samples are equal, so that there is no deviation.
    """
    array = checked(samples)
    middle = np.median(array)
    deviation = _DEVIATIONS * np.median(np.abs(array - middle))
    if deviation == 0:
        raise ValueError("samples must differ, but more than half of them are equal")
    return share(array > middle + 3 * deviation, name)


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


def percentile_of_blocks(samples: Samples, q: float, size: int) -> Measurement:
    """Return the ``q``-th percentile that each block of ``size`` neighbours would report, in seconds."""
    reported = np.percentile(blocks(samples, size), q, axis=1)
    return Measurement(f"percentile {q:g} of {size} runs", tuple(reported.tolist()), "s", {"runs": size})


def near(measurement: Measurement, truth: float, tolerance: float, name: str) -> Statistic:
    """Return the share of samples within ``tolerance``, relative, of ``truth``."""
    return share(np.abs(np.asarray(measurement.samples) / truth - 1) <= tolerance, name)


def same_mlp() -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return a forward pass of the zoo's MLP on one image, twice: what a fresh process compares with itself."""
    entry = models.entry("mlp")
    model, inputs = entry.make(0).eval(), models.as_input(entry.example_input(1))

    def forward() -> None:
        with no_grad():
            model(inputs)

    return forward, forward


def known_within(found: Replicas) -> Measurement:
    """Return how well each process says that it knows its median: half its interval's width over it, 0 to 1."""
    return Measurement("half-width of the interval in one process", tuple(one.spread for one in found.baseline), "%")


def moved_between(found: Replicas) -> Measurement:
    """Return how far the median of each process lies from that of all of them, relative, 0 to 1."""
    medians = np.array([one.median for one in found.baseline])
    off = np.abs(medians / np.median(medians) - 1)
    return Measurement("distance of a process's median from that of all", tuple(off.tolist()), "%")


def missed_by_processes(found: Replicas) -> Statistic:
    """Return the share of pairs of processes, same code, whose intervals do not overlap: each a false difference."""
    intervals = [median_interval(one.samples) for one in found.baseline]
    apart = [a.high < b.low or b.high < a.low for i, a in enumerate(intervals) for b in intervals[i + 1 :]]
    return share(apart, "pairs of processes whose intervals do not overlap")


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
