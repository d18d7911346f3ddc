"""Splits of a step over a number of ranks: all that are possible, the fastest first, by `prediction`. Modelled."""

from __future__ import annotations

from collections.abc import Iterator

from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster
from tinytorch.perf.distributed.cluster_model.prediction import Prediction, Split, predict
from tinytorch.perf.distributed.cluster_model.workload import Workload


def possible_splits(workload: Workload, ranks: int, *, sharding: int = 0) -> Iterator[Split]:
    """Yield every split of ``ranks`` that fits the workload, with every number of micro-batches.

    Raises:
        ValueError: if ``ranks`` is below 1, or ``sharding`` is none of `Split`.
    """
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, not {ranks}")
    for tensor in _divisors(ranks):
        if workload.heads % tensor:
            continue
        for pipeline in _divisors(ranks // tensor):
            data = ranks // tensor // pipeline
            if pipeline > workload.blocks or workload.examples % data:
                continue
            for micro in _divisors(workload.examples // data):
                yield Split(data, tensor, pipeline, micro, sharding)


def best_splits(
    workload: Workload, cluster: Cluster, ranks: int, *, memory_bytes: float | None = None, sharding: int = 0
) -> list[Prediction]:
    """Return the prediction for the best number of micro-batches of each split of ``ranks``, the fastest first.

    Of equal ones the one with fewer ranks in its tensor split is first, then in its pipeline, then with fewer
    micro-batches. There is one for each (data, tensor, pipeline), none if nothing fits.

    Args:
        memory_bytes: of a rank; what needs more is left out. None leaves nothing out.

    Raises:
        ValueError: as `possible_splits`.
    """
    best: dict[tuple[int, int, int], Prediction] = {}
    for split in possible_splits(workload, ranks, sharding=sharding):
        found = predict(workload, cluster, split)
        if memory_bytes is not None and found.memory.total > memory_bytes:
            continue
        key = (split.data, split.tensor, split.pipeline)
        if key not in best or found.seconds < best[key].seconds:
            best[key] = found
    return sorted(best.values(), key=lambda one: one.seconds)


def _divisors(number: int) -> list[int]:
    """Return the divisors of a number, from small to large."""
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return [*small, *(number // divisor for divisor in reversed(small) if divisor**2 != number)]
