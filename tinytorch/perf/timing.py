"""The timer: warm-up, calibrated inner loops, kept samples, and comparisons that are interleaved."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from tinytorch.perf.statistics import Interval, checked, median_interval, percentile

#: One sample lasts at least this many resolutions of the clock, so that reading it errs by under 0.1 %.
RESOLUTIONS_PER_SAMPLE = 1000
#: ... and at least this long in seconds, because the timer's own call costs about 0.1 microseconds.
MINIMUM_SAMPLE_SECONDS = 50e-6
#: Warm-up ends when this many runs in a row bring no new minimum by more than 2 %.
STEADY_RUNS = 3


@dataclass(frozen=True)
class Measurement:
    """The value that every instrument returns: what was measured, all samples, and how they were taken.

    Args:
        name: what was run, in words.
        samples: every sample, in the order in which it was taken, in ``unit``; none is dropped.
        unit: ``"s"``, ``"B"``, ``"FLOP"``, ``"FLOP/s"``, ``"B/s"``, ``"items/s"``, ``""`` for a ratio or count.
        how: the conditions: warm-up runs, inner loops, threads, whether garbage collection was off.
    """

    name: str
    samples: tuple[float, ...]
    unit: str
    how: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked(self.samples, f"samples of {self.name!r}")
        object.__setattr__(self, "how", MappingProxyType(dict(self.how)))

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.samples)

    @cached_property
    def median(self) -> float:
        """Median of the samples, in ``unit``."""
        return percentile(self.samples, 50)

    @cached_property
    def interval(self) -> Interval:
        """Distribution-free 95 % confidence interval of the median, in ``unit``."""
        return median_interval(self.samples)

    @property
    def mean(self) -> float:
        """Arithmetic mean, in ``unit``."""
        return float(np.mean(self.samples))

    @property
    def std(self) -> float:
        """Sample standard deviation (n - 1), in ``unit``; 0 for a single sample."""
        return float(np.std(self.samples, ddof=1)) if self.n > 1 else 0.0

    @property
    def minimum(self) -> float:
        """Smallest sample, in ``unit``."""
        return min(self.samples)

    @property
    def maximum(self) -> float:
        """Largest sample, in ``unit``."""
        return max(self.samples)

    def percentile(self, q: float) -> float:
        """Return the ``q``-th percentile (0 to 100) of the samples, in ``unit``."""
        return percentile(self.samples, q)

    @property
    def spread(self) -> float:
        """Half-width of the interval over the median: the relative uncertainty, without unit."""
        return self.interval.half_width / abs(self.median) if self.median else math.inf

    def per(self, quantity: float, unit: str, name: str | None = None) -> Measurement:
        """Return ``quantity / sample`` for every sample: a rate such as FLOP/s out of seconds.

        Raises:
            ValueError: if a sample is zero.
        """
        if 0.0 in self.samples:
            raise ValueError(f"samples of {self.name!r} hold 0, so no rate can be made of them")
        rates = tuple(quantity / sample for sample in self.samples)
        return Measurement(name or self.name, rates, unit, self.how)

    def scaled(self, factor: float, unit: str | None = None, name: str | None = None) -> Measurement:
        """Return every sample times ``factor``, in ``unit`` if that changes."""
        samples = tuple(sample * factor for sample in self.samples)
        return Measurement(name or self.name, samples, self.unit if unit is None else unit, self.how)


@contextmanager
def collector_off() -> Iterator[None]:
    """Turn the garbage collector off, and back to what it was at exit, also after an error."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Run the body with ``count`` BLAS threads.

    Raises:
        ValueError: if ``count`` is below 1.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1 thread, not {count}")
    with threadpool_limits(limits=count, user_api="blas"):
        yield


def limit_blas_threads(count: int) -> None:
    """Give BLAS ``count`` threads for the rest of the process, as the first cell of a page does.

    Raises:
        ValueError: if ``count`` is below 1.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1 thread, not {count}")
    threadpool_limits(limits=count, user_api="blas")


def current_blas_threads() -> int:
    """Return how many threads the loaded BLAS may use now; 1 if none is loaded."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)


def clock_resolution() -> float:
    """Return the smallest step between two different readings of the clock, in seconds, as observed."""
    smallest = math.inf
    for _ in range(200):
        first = time.perf_counter_ns()
        second = time.perf_counter_ns()
        while second == first:
            second = time.perf_counter_ns()
        smallest = min(smallest, second - first)
    return smallest * 1e-9


_RESOLUTION = clock_resolution()


def _timed(function: Callable[[], Any], loops: int) -> float:
    """Return the seconds of one call, from ``loops`` calls in a row."""
    repeat = range(loops)
    start = time.perf_counter_ns()
    for _ in repeat:
        function()
    return (time.perf_counter_ns() - start) * 1e-9 / loops


def _warmed_up(function: Callable[[], Any], at_most_seconds: float) -> tuple[int, float]:
    """Run until no longer getting faster; return how many runs that took and the seconds of the fastest."""
    fastest, since, runs = math.inf, 0, 0
    start = time.perf_counter()
    while since < STEADY_RUNS:
        seconds = _timed(function, 1)
        runs += 1
        since = 0 if seconds < 0.98 * fastest else since + 1
        fastest = min(fastest, seconds)
        if time.perf_counter() - start > at_most_seconds and runs >= STEADY_RUNS:
            break
    return runs, fastest


def _calibrated(function: Callable[[], Any], seconds: float) -> int:
    """Return how many calls make one sample long enough for the clock, given the ``seconds`` of a single one."""
    target = max(MINIMUM_SAMPLE_SECONDS, RESOLUTIONS_PER_SAMPLE * _RESOLUTION)
    loops = max(1, math.ceil(target / max(seconds, 1e-9)))
    if loops == 1:
        return 1
    # A single call's time holds the timer's own cost, many calls hardly do: look again.
    return max(1, math.ceil(target / max(_timed(function, loops), 1e-9)))


@dataclass(frozen=True)
class _Prepared:
    """A function that is warm and whose inner loop is known."""

    function: Callable[[], Any]
    warmup: int
    loops: int


def _prepare(function: Callable[[], Any], warmup_seconds: float) -> _Prepared:
    runs, fastest = _warmed_up(function, warmup_seconds)
    return _Prepared(function, runs, _calibrated(function, fastest))


def _conditions(prepared: _Prepared, interleaved_with: Sequence[str] = ()) -> dict[str, Any]:
    how: dict[str, Any] = {
        "warmup_runs": prepared.warmup,
        "inner_loops": prepared.loops,
        "garbage_collector": "off",
        "blas_threads": current_blas_threads(),
    }
    if interleaved_with:
        how["interleaved_with"] = list(interleaved_with)
    return how


def _checked_plan(repeats: int, at_most_seconds: float) -> None:
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    if not at_most_seconds > 0:
        raise ValueError(f"at_most_seconds must be above 0, not {at_most_seconds}")


def measure(
    function: Callable[[], Any],
    name: str,
    *,
    repeats: int = 30,
    at_most_seconds: float = 10.0,
    warmup_seconds: float = 1.0,
) -> Measurement:
    """Return the wall time of one call of ``function``, in seconds, ``repeats`` samples.

    It warms up until steady, sets the inner loop so that one sample is long beside the clock's resolution,
    and turns the garbage collector off. Sampling stops early, never below six samples (the fewest that give
    a 95 % interval), when ``at_most_seconds`` are over; ``n`` of the result says how many there are.

    Raises:
        ValueError: if ``repeats`` is below 1 or ``at_most_seconds`` not above 0.
    """
    return interleave(
        {name: function}, repeats=repeats, at_most_seconds=at_most_seconds, warmup_seconds=warmup_seconds
    )[name]


def interleave(
    functions: Mapping[str, Callable[[], Any]],
    *,
    repeats: int = 30,
    at_most_seconds: float = 30.0,
    warmup_seconds: float = 1.0,
    seed: int = 0,
) -> dict[str, Measurement]:
    """Return the wall time of each function, in seconds, sampled in turns so that drift hits all alike.

    Every round samples each function once, in an order drawn anew from ``seed``; the i-th samples of all
    results are neighbours in time, so `ratio` pairs them. Arguments and errors are those of `measure`.

    Raises:
        ValueError: also if ``functions`` is empty.
    """
    _checked_plan(repeats, at_most_seconds)
    if not functions:
        raise ValueError("functions must name at least one function to time")
    order = np.random.default_rng(seed)
    names = list(functions)
    with collector_off():
        prepared = {name: _prepare(functions[name], warmup_seconds) for name in names}
        samples: dict[str, list[float]] = {name: [] for name in names}
        deadline = time.perf_counter() + at_most_seconds
        for done in range(repeats):
            if done >= 6 and time.perf_counter() > deadline:
                break
            for index in order.permutation(len(names)):
                plan = prepared[names[index]]
                samples[names[index]].append(_timed(plan.function, plan.loops))
    return {
        name: Measurement(
            name, tuple(samples[name]), "s", _conditions(prepared[name], [other for other in names if other != name])
        )
        for name in names
    }


def sample(function: Callable[[], Any], name: str, *, warmup: int, runs: int) -> Measurement:
    """Return the wall time of one call of ``function``, in seconds: exactly ``runs`` samples after ``warmup`` calls.

    Unlike `measure` it takes the plan as given. The warm-up also sets the inner loop (how many calls make one
    sample); without one each sample is a single call, so that cold runs can be looked at.

    Raises:
        ValueError: if ``warmup`` is below 0 or ``runs`` below 1.
    """
    if warmup < 0:
        raise ValueError(f"warmup must be at least 0, not {warmup}")
    if runs < 1:
        raise ValueError(f"runs must be at least 1, not {runs}")
    with collector_off():
        fastest = min((_timed(function, 1) for _ in range(warmup)), default=math.inf)
        prepared = _Prepared(function, warmup, _calibrated(function, fastest))
        samples = tuple(_timed(function, prepared.loops) for _ in range(runs))
    return Measurement(name, samples, "s", _conditions(prepared))


def _paired(baseline: Measurement, candidate: Measurement) -> Iterator[tuple[float, float]]:
    """Return the pairs of neighbouring samples, after checking that they are neighbours."""
    if baseline.unit != candidate.unit:
        raise ValueError(f"candidate must be in {baseline.unit!r} as the baseline is, not in {candidate.unit!r}")
    if candidate.name not in baseline.how.get("interleaved_with", ()) or baseline.n != candidate.n:
        raise ValueError(
            f"candidate {candidate.name!r} was not interleaved with baseline {baseline.name!r}: "
            "time both in one call of interleave()"
        )
    return zip(baseline.samples, candidate.samples, strict=True)


def ratio(baseline: Measurement, candidate: Measurement, name: str | None = None) -> Measurement:
    """Return ``baseline / candidate`` of each pair of neighbouring samples: a speedup, above 1 is faster.

    Raises:
        ValueError: if the two were not sampled in turns by one `interleave`, or their units differ.
    """
    ratios = tuple(before / after for before, after in _paired(baseline, candidate))
    return Measurement(name or f"{baseline.name} / {candidate.name}", ratios, "", baseline.how)


def difference(more: Measurement, less: Measurement, name: str) -> Measurement:
    """Return ``more - less`` of each pair of neighbouring samples, in their unit: what the first adds.

    Raises:
        ValueError: if the two were not sampled in turns by one `interleave`, or their units differ.
    """
    return Measurement(name, tuple(a - b for a, b in _paired(more, less)), more.unit, more.how)


def quantity(value: float, unit: str, name: str, **how: Any) -> Measurement:
    """Return a `Measurement` of something that is exact and was counted once: bytes, FLOPs, parameters."""
    return Measurement(name, (float(value),), unit, how)


def renamed(measurement: Measurement, name: str) -> Measurement:
    """Return the same measurement under another name."""
    return replace(measurement, name=name)


class Timer:
    """``with Timer() as t:`` then ``t.elapsed`` in ms; or `measure` for a function and its distribution.

    After `measure`, ``measurement`` is the full `Measurement`, in seconds.
    """

    measurement: Measurement

    def __init__(self) -> None:
        self._start: int | None = None
        self._end: int | None = None

    def __enter__(self) -> Self:
        self._end = None
        self._start = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end = time.perf_counter_ns()

    @property
    def elapsed(self) -> float:
        """Wall time of the body in ms, or so far while it runs.

        Raises:
            RuntimeError: if it never began.
        """
        if self._start is None:
            raise RuntimeError("elapsed needs a body that was timed: use `with Timer() as t:` first")
        end = time.perf_counter_ns() if self._end is None else self._end
        return (end - self._start) * 1e-6

    def measure(
        self,
        func: Callable[..., Any],
        warmup: int = 3,
        runs: int = 100,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> dict[str, float]:
        """Return the distribution of the wall time of ``func(*args, **kwargs)``, in ms.

        Keys: ``mean_ms std_ms min_ms max_ms p50_ms p95_ms p99_ms``, ``ci_low_ms ci_high_ms`` with
        ``ci_confidence`` (the interval of the median and its coverage, nan for one run), ``runs`` samples of
        ``inner_loops`` calls each. How it samples, and the errors, are those of `sample`.
        """
        named = dict(kwargs or {})
        name = getattr(func, "__name__", type(func).__name__)
        self.measurement = sample(lambda: func(*args, **named), name, warmup=warmup, runs=runs)
        return milliseconds_of(self.measurement)

    def print_report(self, name: str = "Function") -> None:
        """Print what the last `measure` found.

        Raises:
            RuntimeError: if nothing was measured.
        """
        if not hasattr(self, "measurement"):
            raise RuntimeError("print_report needs a measurement: call measure(func) first")
        shown = milliseconds_of(self.measurement)
        print(f"{name}: median {shown['p50_ms']:.4f} ms, mean {shown['mean_ms']:.4f} ms, runs {self.measurement.n}")
        print(f"  range {shown['min_ms']:.4f} to {shown['max_ms']:.4f} ms, standard deviation {shown['std_ms']:.4f} ms")
        print(f"  p95 {shown['p95_ms']:.4f} ms, p99 {shown['p99_ms']:.4f} ms")
        if self.measurement.n > 1:
            low, high, confidence = shown["ci_low_ms"], shown["ci_high_ms"], shown["ci_confidence"]
            print(f"  median between {low:.4f} and {high:.4f} ms ({confidence:.1%} interval)")


def milliseconds_of(measurement: Measurement) -> dict[str, float]:
    """Return what `Timer.measure` returns, from a measurement in seconds."""
    in_ms = measurement.scaled(1e3, "ms")
    return {
        "mean_ms": in_ms.mean,
        "std_ms": in_ms.std,
        "min_ms": in_ms.minimum,
        "max_ms": in_ms.maximum,
        "p50_ms": in_ms.median,
        "p95_ms": in_ms.percentile(95),
        "p99_ms": in_ms.percentile(99),
        "ci_low_ms": in_ms.interval.low,
        "ci_high_ms": in_ms.interval.high,
        "ci_confidence": in_ms.interval.confidence,
        "runs": in_ms.n,
        "inner_loops": int(measurement.how["inner_loops"]),
    }
