"""The timer: warm-up, calibrated inner loops, kept samples, warm or cold caches, and runs in turns."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from tinytorch.perf.cold import ColdSets, WorkingSets, cold_sets
from tinytorch.perf.page_faults import minor_page_faults
from tinytorch.perf.statistics import (
    FEWEST_FOR_INTERVAL,
    Interval,
    Outliers,
    checked,
    median_interval,
    outliers,
    percentile,
    percentile_at_least,
    percentile_interval,
    samples_needed,
)

#: One sample lasts at least this many resolutions of the clock, so that reading it errs by under 0.1 %.
RESOLUTIONS_PER_SAMPLE = 1000
#: ... and at least this long in seconds, because the timer's own call costs about 0.1 microseconds.
MINIMUM_SAMPLE_SECONDS = 50e-6
#: Warm-up ends when this many runs in a row bring no new minimum by more than 2 %.
STEADY_RUNS = 3
Context = Callable[[], AbstractContextManager[Any]]


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
        """Return the ``q``-th percentile of the samples, in ``unit``, ``q`` between 0 and 100.

        Raises:
            ValueError: if the samples are too few for an interval of it: below 29 for the 90th, 59 for the 95th,
                299 for the 99th. `percentile_at_least` has no such limit.
        """
        self.percentile_interval(q)
        return percentile(self.samples, q)

    def percentile_interval(self, q: float) -> Interval:
        """Return the distribution-free 95 % interval of the ``q``-th percentile; raises as `percentile` does."""
        return percentile_interval(self.samples, q)

    def percentile_at_least(self, q: float) -> float:
        """Return what the ``q``-th percentile is at least, with 95 % confidence, in ``unit``."""
        return percentile_at_least(self.samples, q)

    def tail(self, q: float) -> Statistic:
        """Return the ``q``-th percentile with its interval, as a page shows it; raises as `percentile` does."""
        how = {**self.how, "statistic": f"percentile {q:g}"}
        return Statistic(
            f"percentile {q:g} of {self.name}",
            self.samples,
            self.unit,
            how,
            value=self.percentile(q),
            bounds=self.percentile_interval(q),
        )

    @cached_property
    def outliers(self) -> Outliers:
        """How many samples lie beyond Tukey's fences; they are counted, never dropped."""
        return outliers(self.samples)

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


@dataclass(frozen=True)
class Statistic(Measurement):
    """A `Measurement` of which another statistic than the samples' median is told, with its own interval.

    Args:
        value: the statistic, in ``unit``; it stands where a measurement has its median.
        bounds: its interval, in ``unit``; ``how["statistic"]`` says in words what it is.
    """

    value: float = field(kw_only=True)
    bounds: Interval = field(kw_only=True)

    @cached_property
    def median(self) -> float:
        """The statistic, in ``unit``."""
        return self.value

    @cached_property
    def interval(self) -> Interval:
        """Interval of the statistic, in ``unit``."""
        return self.bounds

    def per(self, quantity: float, unit: str, name: str | None = None) -> Statistic:
        """Return ``quantity`` over the statistic and over each sample, as `Measurement.per` does."""
        rates = super().per(quantity, unit, name)
        ends = (quantity / self.bounds.low, quantity / self.bounds.high)
        return self._moved(rates, quantity / self.value, ends)

    def scaled(self, factor: float, unit: str | None = None, name: str | None = None) -> Statistic:
        """Return the statistic and every sample times ``factor``, in ``unit`` if that changes."""
        products = super().scaled(factor, unit, name)
        return self._moved(products, self.value * factor, (self.bounds.low * factor, self.bounds.high * factor))

    def _moved(self, samples: Measurement, value: float, ends: tuple[float, float]) -> Statistic:
        bounds = Interval(min(ends), max(ends), self.bounds.confidence)
        return Statistic(samples.name, samples.samples, samples.unit, samples.how, value=value, bounds=bounds)


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


@dataclass(frozen=True, slots=True)
class _WarmUp:
    """What a warm-up did: its runs, its seconds, the fastest run's, and whether it ended because it was steady."""

    runs: int
    seconds: float
    fastest: float
    steady: bool


def _warmed_up(function: Callable[[], Any], at_most_seconds: float, at_least_runs: int) -> _WarmUp:
    """Run until no longer getting faster, or until the time is over."""
    fastest, since, runs = math.inf, 0, 0
    start = time.perf_counter()
    while since < STEADY_RUNS or runs < at_least_runs:
        seconds = _timed(function, 1)
        runs += 1
        since = 0 if seconds < 0.98 * fastest else since + 1
        fastest = min(fastest, seconds)
        if time.perf_counter() - start > at_most_seconds and runs >= max(STEADY_RUNS, at_least_runs):
            break
    return _WarmUp(runs, time.perf_counter() - start, fastest, since >= STEADY_RUNS)


def _calibrated(function: Callable[[], Any], seconds: float) -> int:
    """Return how many calls make one sample long enough for the clock, given the ``seconds`` of a single one."""
    target = max(MINIMUM_SAMPLE_SECONDS, RESOLUTIONS_PER_SAMPLE * _RESOLUTION)
    loops = max(1, math.ceil(target / max(seconds, 1e-9)))
    if loops == 1:
        return 1
    # A single call's time holds the timer's own cost, many calls hardly do: look again.
    return max(1, math.ceil(target / max(_timed(function, loops), 1e-9)))


class _Sampler:
    """A function that is warm and whose inner loop is known, its samples, and what the process spent on them."""

    within: Context = nullcontext

    def __init__(self, function: Callable[[], Any], warmup: _WarmUp, loops: int, caches: Mapping[str, Any]) -> None:
        self.function, self.warmup, self.loops, self.caches = function, warmup, loops, caches
        self.seconds: list[float] = []
        self.cpu_ns = 0
        self.faults = 0

    def take(self) -> None:
        """Take one sample; CPU time and page faults are read outside of the wall time's readings."""
        with self.within():
            faults, cpu = minor_page_faults(), time.process_time_ns()
            self.seconds.append(_timed(self.function, self.loops))
            self.cpu_ns += time.process_time_ns() - cpu
            self.faults += minor_page_faults() - faults

    def measurement(self, name: str, **turns: Any) -> Measurement:
        """Return the samples with their conditions."""
        how = {
            "warmup_runs": self.warmup.runs,
            "warmup_seconds": float(f"{self.warmup.seconds:.3g}"),
            "warmup_steady": self.warmup.steady,
            "inner_loops": self.loops,
            "garbage_collector": "off",
            "blas_threads": current_blas_threads(),
            "cpu_per_wall": float(f"{self.cpu_ns * 1e-9 / (sum(self.seconds) * self.loops):.3g}"),
            "minor_page_faults_per_call": float(f"{self.faults / (len(self.seconds) * self.loops):.3g}"),
            **self.caches,
            **turns,
        }
        return Measurement(name, tuple(self.seconds), "s", how)


def _prepare(function: Callable[..., Any], warmup_seconds: float, cold: ColdSets | None) -> _Sampler:
    """Return the sampler of a function that now is warm; with ``cold`` its data are not."""
    if cold is None:
        warmup = _warmed_up(function, warmup_seconds, 0)
        return _Sampler(function, warmup, _calibrated(function, warmup.fastest), {"caches": "warm"})
    bound = cold.bound(function)
    # Once over every set: memory that is touched for the first time is slower than cold memory.
    warmup = _warmed_up(bound, warmup_seconds, len(cold.sets))
    return _Sampler(bound, warmup, _calibrated(bound, warmup.fastest), cold.described())


def _checked_plan(repeats: int, at_most_seconds: float) -> None:
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    if not at_most_seconds > 0:
        raise ValueError(f"at_most_seconds must be above 0, not {at_most_seconds}")


def measure(
    function: Callable[..., Any],
    name: str,
    *,
    repeats: int = 30,
    at_most_seconds: float = 10.0,
    warmup_seconds: float = 1.0,
    cold: WorkingSets | None = None,
) -> Measurement:
    """Return the wall time of one call of ``function``, in seconds, ``repeats`` samples.

    It warms up until steady, sets the inner loop so that one sample is long beside the clock's resolution,
    and turns the garbage collector off. Sampling stops early, never below six samples (the fewest that give
    a 95 % interval), when ``at_most_seconds`` are over; ``n`` of the result says how many there are.

    Its ``how`` says how long the warm-up took and whether it ended steady, ``cpu_per_wall`` (CPU time of the whole
    process over wall time: above 1 with threads, below 1 where it waited or was preempted) and
    ``minor_page_faults_per_call``.

    Args:
        function: what to time; called with one working set if ``cold`` is given, else without arguments.
        name: what it is, in words.
        repeats: samples.
        at_most_seconds: for all samples; warmup_seconds: for the warm-up.
        cold: for cold caches, a function that makes a working set (an array, or arrays in lists, tuples and
            mappings), or the sets themselves: calls take them in turns, and together they exceed the last cache.

    Raises:
        ValueError: if ``repeats`` is below 1, ``at_most_seconds`` not above 0, or the sets fit into the cache.
    """
    return interleave(
        {name: function}, repeats=repeats, at_most_seconds=at_most_seconds, warmup_seconds=warmup_seconds, cold=cold
    )[name]


def interleave(
    functions: Mapping[str, Callable[..., Any]],
    *,
    repeats: int = 30,
    at_most_seconds: float = 30.0,
    warmup_seconds: float = 1.0,
    seed: int = 0,
    cold: WorkingSets | None = None,
    within: Mapping[str, Context] | None = None,
) -> dict[str, Measurement]:
    """Return the wall time of each function, in seconds, sampled in turns so that drift hits all alike.

    Every round samples each function once, in an order drawn anew from ``seed``; the i-th samples of all
    results are neighbours in time, so `ratio` and `tinytorch.perf.comparison.compare_paired` pair them. The random
    order makes the noise of a pair as likely to favour one function as the other, whatever it does over time.
    Arguments and errors are those of `measure`; ``within`` makes, by name, what a function runs in, off the clock.

    Raises:
        ValueError: also if ``functions`` is empty.
    """
    _checked_plan(repeats, at_most_seconds)
    if not functions:
        raise ValueError("functions must name at least one function to time")
    sets = None if cold is None else cold_sets(cold)
    order = np.random.default_rng(seed)
    with collector_off():
        samplers: dict[str, _Sampler] = {}
        for name, function in functions.items():
            with (context := (within or {}).get(name, nullcontext))():
                samplers[name] = _prepare(function, warmup_seconds, sets)
            samplers[name].within = context
        turns = list(samplers.values())
        deadline = time.perf_counter() + at_most_seconds
        for done in range(repeats):
            if done >= FEWEST_FOR_INTERVAL and time.perf_counter() > deadline:
                break
            for index in order.permutation(len(turns)):
                turns[index].take()
    if len(samplers) == 1:
        return {name: sampler.measurement(name) for name, sampler in samplers.items()}
    return {
        name: sampler.measurement(
            name, interleaved_with=[other for other in samplers if other != name], order=f"drawn from seed {seed}"
        )
        for name, sampler in samplers.items()
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
        times = [_timed(function, 1) for _ in range(warmup)]
        fastest = min(times, default=math.inf)
        steady = warmup > STEADY_RUNS and min(times[-STEADY_RUNS:]) >= 0.98 * min(times[:-STEADY_RUNS])
        spent = _WarmUp(warmup, sum(times), fastest, steady)
        caches = {"caches": "warm" if warmup else "as found"}
        sampler = _Sampler(function, spent, _calibrated(function, fastest), caches)
        for _ in range(runs):
            sampler.take()
    return sampler.measurement(name)


def checked_neighbours(baseline: Measurement, candidate: Measurement) -> None:
    """Raise ValueError unless the i-th samples of both were taken in turns, in one unit, by one `interleave`."""
    if baseline.unit != candidate.unit:
        raise ValueError(f"candidate must be in {baseline.unit!r} as the baseline is, not in {candidate.unit!r}")
    if candidate.name not in baseline.how.get("interleaved_with", ()) or baseline.n != candidate.n:
        raise ValueError(
            f"candidate {candidate.name!r} was not interleaved with baseline {baseline.name!r}: "
            "time both in one call of interleave()"
        )


def _paired(baseline: Measurement, candidate: Measurement) -> Iterator[tuple[float, float]]:
    """Return the pairs of neighbouring samples, after checking that they are neighbours."""
    checked_neighbours(baseline, candidate)
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
        ``inner_loops`` calls each. ``p95_is_bound`` and ``p99_is_bound`` are True where the runs are too few, below
        59 and 299, to say more of that percentile than that it is at least ``p95_at_least_ms`` or
        ``p99_at_least_ms``, with 95 % confidence; ``p95_ms`` and ``p99_ms`` then describe these runs only.
        How it samples, and the errors, are those of `sample`.
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
        print("  " + ", ".join(_percentile_words(shown, q) for q in (95, 99)))
        if self.measurement.n > 1:
            low, high, confidence = shown["ci_low_ms"], shown["ci_high_ms"], shown["ci_confidence"]
            print(f"  median between {low:.4f} and {high:.4f} ms ({confidence:.1%} interval)")


def _percentile_words(shown: Mapping[str, float], q: int) -> str:
    """Return a percentile for `Timer.print_report`; where the runs are too few for it, what it is at least."""
    if shown[f"p{q}_is_bound"]:
        return f"p{q} at least {shown[f'p{q}_at_least_ms']:.4f} ms ({samples_needed(q)} runs would tell)"
    return f"p{q} {shown[f'p{q}_ms']:.4f} ms"


def milliseconds_of(measurement: Measurement) -> dict[str, float]:
    """Return what `Timer.measure` returns, from a measurement in seconds."""
    in_ms = measurement.scaled(1e3, "ms")
    return {
        "mean_ms": in_ms.mean,
        "std_ms": in_ms.std,
        "min_ms": in_ms.minimum,
        "max_ms": in_ms.maximum,
        "p50_ms": in_ms.median,
        "p95_ms": percentile(in_ms.samples, 95),
        "p99_ms": percentile(in_ms.samples, 99),
        "p95_at_least_ms": in_ms.percentile_at_least(95),
        "p99_at_least_ms": in_ms.percentile_at_least(99),
        "p95_is_bound": in_ms.n < samples_needed(95),
        "p99_is_bound": in_ms.n < samples_needed(99),
        "ci_low_ms": in_ms.interval.low,
        "ci_high_ms": in_ms.interval.high,
        "ci_confidence": in_ms.interval.confidence,
        "runs": in_ms.n,
        "inner_loops": int(measurement.how["inner_loops"]),
    }
