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
#: Seconds in the units that times may have.
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


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


def from_samples(
    name: str,
    samples: Samples,
    unit: str = "s",
    *,
    sample: Sample | str,
    conditions: Conditions,
    part_of: str | None = None,
    block: int | None = None,
) -> Measurement:
    """Return what one's own loop timed as a measurement, whose interval takes in what repeats differ by.

    Args:
        name: what was timed, in words.
        samples: all of them, in the order in which they were taken.
        unit: of times, such as "s" or "ms"; of shares "%". `Measurement.per` makes rates of times.
        sample: what each one is: calls, requests, steps or rounds in one process, which depend on one another; or
            processes, each a fresh one.
        conditions: those of `own_loop`, and as its note what else a reader should know.
        part_of: of shares from 0 to 1, the whole of which each is a part.
        block: samples in a row that were taken in one place in memory; None for all of one process.

    Raises:
        ValueError: if a sample is not finite or not above 0, there are none, their middle is below 100 resolutions of
            the clock, all are equal, ``unit`` or ``sample`` is unknown.

    Examples:
        >>> import time
        >>> from tinytorch.perf.measuring import from_samples, own_loop
        >>> waits = []
        >>> with own_loop(warmup_runs=0) as loop:
        ...     for request in range(6):
        ...         arrived = time.perf_counter()
        ...         answer = sum(range(10_000 + request))
        ...         waits.append(time.perf_counter() - arrived)
        >>> found = from_samples("a request", waits, sample="requests", conditions=loop.conditions)
        >>> found.n, found.interval.low <= found.median <= found.interval.high
        (6, True)
    """
    array = checked(samples, f"samples of {name!r}")
    if sample not in _SAMPLES:
        raise ValueError(f"sample must say what one of {name!r} is: {', '.join(_SAMPLES)}, not {str(sample)!r}")
    if unit in _SECONDS and part_of is None:
        _check_times(name, array * _SECONDS[unit], conditions.inner_loops or 1)
    elif unit != "%" or part_of is None:
        raise ValueError(
            f"unit of {name!r} must be one of {', '.join(_SECONDS)}, or % with what it is part_of, not {unit!r}: "
            "rates are made with Measurement.per, what was counted with quantity"
        )
    known = replace(conditions, sample=Sample(sample), part_of=part_of)
    made = Measurement(name, tuple(array.tolist()), unit, known)
    return with_between_run_spread(made, 1 if known.sample.are_independent else block)


def from_turns(
    series: Mapping[str, Samples],
    *,
    sample: Sample | str,
    conditions: Conditions,
    block: int | None = None,
) -> dict[str, Measurement]:
    """Return what one's own loop timed of several things in turns, so that `ratio` and the comparisons pair it.

    The i-th samples of all must be neighbours in time, best in an order that is drawn for each round.
    Arguments and errors are those of `from_samples`.

    Args:
        series: samples by name.

    Raises:
        ValueError: also if there are fewer than two series, or they differ in length.

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
    found, turns = {}, new_turns()
    for name, each in series.items():
        others = tuple(other for other in series if other != name)
        paired = replace(conditions, interleaved_with=others, turns=turns)
        found[name] = from_samples(name, each, "s", sample=sample, conditions=paired, block=block)
    return found


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
