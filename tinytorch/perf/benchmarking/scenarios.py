"""Two of MLPerf's scenarios: requests one after the other, and requests that arrive when users send them.

Source: V. J. Reddi et al., MLPerf Inference Benchmark, ISCA 2020. What makes a submission valid there, least durations,
accuracy targets and early stopping, is not here.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from tinytorch.perf.benchmarking.variants import task_of, variant_of, with_generation
from tinytorch.perf.measuring import Measurement, collector_off
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions

#: Seconds before an arrival at which waiting turns into looking at the clock: a sleep ends late by about as much.
_SPIN = 0.0005


def single_stream(
    model: Any, data: Any, *, queries: int = 64, at_most_seconds: float = 10.0, seed: int = 0
) -> Measurement:
    """Return the latency of each request, in seconds, if each is sent as soon as the last one is answered.

    Args:
        model: a Module or a ``Variant``.
        data: see `measure_performance`; the examples are drawn from ``seed``, with replacement.
        queries: how many are sent, fewer if ``at_most_seconds`` have passed.

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
    return _served(model, data, None, queries, at_most_seconds, seed)


def server(
    model: Any, data: Any, rate: float, *, queries: int = 600, at_most_seconds: float = 10.0, seed: int = 0
) -> Measurement:
    """Return the latency of requests, in seconds, if they arrive at random as a Poisson process.

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
    return _served(model, data, np.cumsum(gaps).tolist(), queries, at_most_seconds, seed)


def _served(
    model: Any, data: Any, arrivals: list[float] | None, queries: int, at_most_seconds: float, seed: int
) -> Measurement:
    """Return the latencies of requests that arrive so many seconds after the start; None as soon as one is answered."""
    if queries < 1 or not at_most_seconds > 0:
        raise ValueError(f"queries and at_most_seconds must be above 0, not {queries} and {at_most_seconds}")
    variant = variant_of("model", model)
    task = with_generation(task_of(data), {variant.name: variant})
    chosen = np.random.default_rng(seed).integers(0, len(task.inputs), (queries, 1))
    latencies: list[float] = []
    with variant.undisturbed(), variant.running(), collector_off():
        variant.call(task, task.inputs[chosen[0]])  # the first call compiles and allocates
        start = answered = time.perf_counter()
        for at, each in enumerate(chosen):
            arrived = answered if arrivals is None else start + arrivals[at]
            if latencies and arrived - start > at_most_seconds:
                break
            if (left := arrived - time.perf_counter()) > _SPIN:
                time.sleep(left - _SPIN)
            while time.perf_counter() < arrived:
                pass
            variant.call(task, task.inputs[each])
            answered = time.perf_counter()
            latencies.append(answered - arrived)
    seconds = f"{answered - start:.3g} s in all"
    conditions = Conditions(collector_off=True, note=f"Requests drawn from seed {seed}, {seconds}.")
    name = "latency, single-stream" if arrivals is None else "latency, server"
    return with_between_run_spread(Measurement(name, tuple(latencies), "s", conditions))
