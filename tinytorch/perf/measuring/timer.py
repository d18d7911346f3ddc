"""The course's `Timer`: a stopwatch, and the distribution of a function's time in milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from tinytorch.core.contexts import checked_prompt
from tinytorch.perf.measuring.measurement import Measurement
from tinytorch.perf.measuring.sampling import sample
from tinytorch.perf.measuring.statistics import percentile, samples_needed


class Timer:
    """Timer of a body, ``with Timer() as t:`` and then ``t.elapsed`` in ms; or of a function, with `measure`.

    After `measure`, ``measurement`` is the full `Measurement`, in seconds.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.profiling import Timer
        >>> with Timer() as t:
        ...     y = Linear(8, 4)(Tensor([[1.0] * 8]))
        >>> t.elapsed > 0
        True
        >>> timer = Timer()
        >>> found = timer.measure(sum, runs=20, args=([1, 2, 3],))
        >>> found["runs"], found["min_ms"] <= found["p50_ms"] <= found["max_ms"]
        (20, True)
    """

    measurement: Measurement
    #: The clock that all times are read from, in seconds.
    timer_func = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self._start: int | None = None
        self._end: int | None = None

    def __enter__(self) -> Self:
        if self._start is not None and self._end is None:
            raise RuntimeError("this Timer is running already: use another one for a body inside its body")
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
            raise RuntimeError("elapsed needs a timer that was started: use `with Timer() as t:` first")
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
        The plan is taken as given: exactly ``runs`` samples after ``warmup`` calls, which also set the inner loop;
        without a warm-up each sample is a single call, so that cold runs can be looked at.

        Raises:
            ValueError: if ``warmup`` is below 0 or ``runs`` below 1.
        """
        named = dict(kwargs or {})
        name = getattr(checked_prompt(func, "Timer.measure"), "__name__", type(func).__name__)
        self.measurement = sample(lambda: func(*args, **named), name, warmup=warmup, runs=runs)
        return milliseconds_of(self.measurement)

    @property
    def measurements(self) -> list[float]:
        """Samples of the last `measure`, in seconds; empty before the first one."""
        return list(self.measurement.samples) if hasattr(self, "measurement") else []

    def print_report(self, name: str = "Function") -> None:
        """Print the results of the last `measure`."""
        measured = hasattr(self, "measurement")
        print("\n".join(report_lines(self.measurement, name)) if measured else f"{name}: nothing was measured yet")


def report_lines(measurement: Measurement, name: str) -> list[str]:
    """Return lines that tell of times in seconds: median, mean, range, percentiles, interval; of one run its time."""
    shown = milliseconds_of(measurement)
    if measurement.n == 1:
        return [f"{name}: {shown['p50_ms']:.4f} ms, one run, so that no interval is known"]
    low, high, confidence = shown["ci_low_ms"], shown["ci_high_ms"], shown["ci_confidence"]
    return [
        f"{name}: median {shown['p50_ms']:.4f} ms, mean {shown['mean_ms']:.4f} ms, runs {measurement.n}",
        f"  range {shown['min_ms']:.4f} to {shown['max_ms']:.4f} ms, standard deviation {shown['std_ms']:.4f} ms",
        "  " + ", ".join(_percentile_words(shown, q) for q in (95, 99)),
        f"  median between {low:.4f} and {high:.4f} ms ({confidence:.1%} interval)",
    ]


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
        "inner_loops": measurement.conditions.inner_loops or 1,
    }
