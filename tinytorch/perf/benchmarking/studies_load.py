"""What callers wait when requests arrive by chance: latency over load, by the server scenario on the real clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinytorch.perf.benchmarking.scenarios import ScenarioResult, run_scenario

#: Queries after which one load is measured: 459 prove a bound that none exceeds, 299 have a 99th percentile.
_LEAST_QUERIES = 600
#: Seconds after which a load is given up.
_AT_MOST_SECONDS = 30.0


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
