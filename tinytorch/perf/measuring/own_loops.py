"""Samples of one's own timing loop as a `Measurement`: a queue, a closed or open loop, whatever is no plain call.

What can be called without arguments belongs to `measure` and `interleave`, which do all of this by themselves.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tinytorch.perf.host.blas import current_blas_threads
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions, Sample, new_turns
from tinytorch.perf.measuring.measurement import Measurement
from tinytorch.perf.measuring.sampling import clock_resolution, collector_off
from tinytorch.perf.measuring.statistics import Samples, checked, median

#: What one sample of a loop may be. Those of one process are a series in time; only processes are independent.
_SAMPLES = (Sample.CALLS, Sample.REQUESTS, Sample.STEPS, Sample.ROUNDS, Sample.PROCESSES)
#: A sample lasts at least this many resolutions of the clock, so that two readings err by at most a hundredth of it.
RESOLUTIONS = 100


@dataclass
class OwnLoop:
    """A loop that reads the clock by itself: its ``conditions``, whole when it has ended."""

    conditions: Conditions


@contextmanager
def own_loop(warmup_runs: int, inner_loops: int = 1) -> Iterator[OwnLoop]:
    """Run a loop that reads the clock by itself with the collector off; give its conditions, whole when it has ended.

    Args:
        warmup_runs: how often that which is timed ran before.
        inner_loops: runs in a row that one sample is the mean of.

    Examples:
        >>> from tinytorch.perf.measuring import own_loop
        >>> with own_loop(warmup_runs=3) as loop:
        ...     answers = [sum(range(1000)) for _ in range(100)]
        >>> loop.conditions.warmup_runs, loop.conditions.collector_off
        (3, True)
    """
    loop = OwnLoop(Conditions(warmup_runs=warmup_runs, inner_loops=inner_loops, collector_off=True))
    with collector_off():
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        yield loop
        cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
    had = float(f"{cpu / wall:.3g}")
    loop.conditions = replace(loop.conditions, blas_threads=current_blas_threads() or "unknown", cpu_per_wall=had)


def from_turns(
    series: Mapping[str, Samples], *, sample: Sample | str, conditions: Conditions, block: int | None = None
) -> dict[str, Measurement]:
    """Return measurements, by name, of times that your own loop took interleaved.

    Their intervals include the variation between repeats. The i-th samples of all series must be close together in
    time, preferably in a random order in each round, because `ratio` and the comparisons pair them. `Measurement.per`
    makes rates of them.

    Args:
        series: seconds by name, all of them, in the order in which they were taken.
        sample: what each one is: calls, requests, steps or rounds in one process, which depend on one another; or
            processes, each a fresh one.
        conditions: those of `own_loop`, and as its note what else a reader should know.
        block: samples in a row that were taken in one place in memory; None for all of one process.

    Raises:
        ValueError: if there are fewer than two series, or they differ in length; if a sample is not finite or not above
            0, their median is below 100 times the resolution of the clock, all are equal, or ``sample`` is unknown.

    Examples:
        >>> from tinytorch.perf.measuring import from_turns, ratio
        >>> from tinytorch.perf.measuring.conditions import Conditions
        >>> taken = {"old": [2.0, 2.2, 2.1], "new": [1.0, 1.2, 1.1]}
        >>> made = from_turns(taken, sample="rounds", conditions=Conditions())
        >>> ratio(made["old"], made["new"]).n
        3
    """
    lengths = {name: len(samples) for name, samples in series.items()}
    if len(series) < 2 or len(set(lengths.values())) > 1:
        raise ValueError(f"series must be at least two of one length, as they were taken in turns, not {lengths}")
    if sample not in _SAMPLES:
        raise ValueError(f"sample must be one of {', '.join(_SAMPLES)}, not {str(sample)!r}")
    kind, turns = Sample(sample), new_turns()
    measurements = {}
    for name, samples in series.items():
        seconds = checked(samples, f"samples of {name!r}")
        _check_times(name, seconds, conditions.inner_loops or 1)
        others = tuple(other for other in series if other != name)
        paired = replace(conditions, sample=kind, interleaved_with=others, turns=turns)
        one = Measurement(name, tuple(seconds.tolist()), "s", paired)
        measurements[name] = with_between_run_spread(one, 1 if kind.are_independent else block)
    return measurements


def _check_times(name: str, seconds: NDArray[np.float64], inner_loops: int) -> None:
    """Raise ValueError if the clock cannot have told these times apart, each the mean of so many runs in a row."""
    if not seconds.min() > 0:
        raise ValueError(f"samples of {name!r} must be times above 0, but {seconds.min():g} s is among them")
    least = RESOLUTIONS * clock_resolution() / inner_loops
    if median(seconds) < least:
        raise ValueError(
            f"samples of {name!r} must last {least:.2g} s, {RESOLUTIONS} steps of the clock, but last "
            f"{median(seconds):.2g}: time several in a row, divide, and say how many as inner_loops"
        )
    if seconds.size > 1 and seconds.min() == seconds.max():
        raise ValueError(f"samples of {name!r} must be readings of a clock, but all {seconds.size} are equal")
