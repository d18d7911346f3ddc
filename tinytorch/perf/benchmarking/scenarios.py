"""Two of MLPerf's scenarios: requests one after the other, and requests that arrive when users send them.

Source: V. J. Reddi et al., MLPerf Inference Benchmark, ISCA 2020. What makes a submission valid there, least durations,
accuracy targets and early stopping, is not here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tinytorch.perf.benchmarking.variants import task_of, variant_of, with_generation
from tinytorch.perf.measuring import Measurement, collector_off
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions

#: Seconds before an arrival at which waiting turns into looking at the clock: a sleep ends late by about as much.
_SPIN = 0.0005


class Clock(Protocol):
    """Clock that tells the time and waits for an arrival; tests have one that they turn themselves."""

    def now(self) -> float:
        """Return seconds."""

    def wait_until(self, moment: float) -> None:
        """Return as soon as `now` is not before ``moment``."""


class WallClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return seconds since some moment."""
        return time.perf_counter_ns() * 1e-9

    def wait_until(self, moment: float) -> None:
        """Sleep, and look at the clock for the last half millisecond."""
        left = moment - self.now()
        if left > _SPIN:
            time.sleep(left - _SPIN)
        while self.now() < moment:
            pass


def single_stream(
    model: Any,
    data: Any,
    *,
    queries: int = 64,
    at_most_seconds: float = 10.0,
    seed: int = 0,
    clock: Clock | None = None,
) -> Measurement:
    """Return the seconds of each request where one is sent as soon as the last is answered.

    Args:
        model: a Module or a ``Variant``.
        data: see `measure_performance`; the examples are drawn from ``seed``, with replacement.
        queries: how many are sent, fewer if ``at_most_seconds`` are over.
        clock: instead of the machine's.

    Raises:
        ValueError: if a number is out of its range.
        TypeError: as `measure_performance` does.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.benchmarking import single_stream
        >>> found = single_stream(Linear(3, 3), np.ones((8, 3), np.float32), queries=16)
        >>> found.n, found.unit
        (16, 's')
    """
    return _served(model, data, lambda now, _: now, "single-stream", queries, at_most_seconds, seed, clock)


def server(
    model: Any,
    data: Any,
    rate: float,
    *,
    queries: int = 600,
    at_most_seconds: float = 10.0,
    seed: int = 0,
    clock: Clock | None = None,
) -> Measurement:
    """Return the seconds from arrival to answer of requests that arrive at random, as a Poisson process does.

    They are answered one by one in the order of their arrival, so that a request waits for those before it.

    Args:
        rate: arrivals a second; other arguments are those of `single_stream`.

    Raises:
        ValueError: if a number is out of its range.
        TypeError: as `measure_performance` does.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.benchmarking import server
        >>> found = server(Linear(3, 3), np.ones((8, 3), np.float32), rate=1000, queries=16)
        >>> found.n, found.unit
        (16, 's')
    """
    if not 0 < rate < math.inf:
        raise ValueError(f"rate must be above 0 and finite, not {rate}")
    gaps = np.random.default_rng((seed, 1)).exponential(1 / rate, queries)
    since = np.cumsum(gaps).tolist()
    return _served(model, data, lambda start, at: start + since[at], "server", queries, at_most_seconds, seed, clock)


def _served(
    model: Any,
    data: Any,
    arrival: Callable[[float, int], float],
    scenario: str,
    queries: int,
    at_most_seconds: float,
    seed: int,
    clock: Clock | None,
) -> Measurement:
    """Return the latencies of requests; ``arrival`` has the moment of each, from the last answer or from the start."""
    if queries < 1 or not at_most_seconds > 0:
        raise ValueError(f"queries and at_most_seconds must be above 0, not {queries} and {at_most_seconds}")
    variant, watch = variant_of("model", model), clock or WallClock()
    task = with_generation(task_of(data), {variant.name: variant})
    chosen = np.random.default_rng(seed).integers(0, len(task.inputs), (queries, 1))
    latencies: list[float] = []
    with variant.undisturbed(), variant.running(), collector_off():
        variant.call(task, task.inputs[chosen[0]])  # the first call compiles and allocates
        start = watch.now()
        last = start
        for at, each in enumerate(chosen):
            arrived = arrival(last if scenario == "single-stream" else start, at)
            if latencies and arrived - start > at_most_seconds:
                break
            watch.wait_until(arrived)
            variant.call(task, task.inputs[each])
            last = watch.now()
            latencies.append(last - arrived)
    conditions = Conditions(collector_off=True, note=f"Requests drawn from seed {seed}, {last - start:.3g} s in all.")
    return with_between_run_spread(Measurement(f"latency, {scenario}", tuple(latencies), "s", conditions))
