"""What the chapter asks of a suite: the course's table put to the test, and whether gains multiply."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinytorch.perf.benchmarking.comparing import Change
from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.measuring import Measurement, checked_neighbours

#: How far below a factor of the table a measured one may lie and still count as it.
TOLERANCE = 0.1


def kept_of_product(
    performances: Mapping[str, Performance], baseline: str, parts: tuple[str, ...], combined: str, batch: int
) -> Measurement:
    """Return the speedup of ``combined`` over the product of its parts' speedups: 1 if their gains multiply.

    Each sample is made of times that are neighbours: of the baseline, the parts and the combination.

    Raises:
        ValueError: if one was not measured at ``batch``, in several processes, or not in turns with the baseline.
    """
    times = {}
    for name in (baseline, *parts, combined):
        measured = performances[name].times[batch]
        if len(measured) != 1:
            raise ValueError(f"performances must be of one process, but {name!r} has {len(measured)}")
        times[name] = measured[0]
        if name != baseline:
            checked_neighbours(times[baseline], measured[0])
    logs = {name: np.log(one.samples) for name, one in times.items()}
    gained = logs[baseline] - logs[combined]
    expected = sum(logs[baseline] - logs[part] for part in parts)
    name = f"speedup of {combined} over the product of those of {' and '.join(parts)}"
    return Measurement(name, tuple(np.exp(gained - expected).tolist()), "", times[baseline].how)


def table_row_verdicts(change: Change, *, faster: float, smaller: float, accuracy: float, batch: int) -> list[str]:
    """Return for each number of a row of the course's table whether ``change`` is at least as good.

    "supported" if it is proven to be, "refuted" if it is proven not to be, "cannot tell here" if the interval holds
    the limit: nine tenths of ``faster`` and ``smaller``, and for ``accuracy`` the difference of shares, such as -0.005.

    Raises:
        ValueError: if the change was measured without answers.
    """
    if change.accuracy is None:
        raise ValueError("change must have an accuracy")
    speed, size = change.speedups[batch].ratio.interval, change.size.ratio.interval
    loss = change.accuracy.interval
    limits = (
        (speed.low, speed.high, (1 - TOLERANCE) * faster),
        (size.low, size.high, (1 - TOLERANCE) * smaller),
        (loss.low, loss.high, accuracy),
    )
    return [
        "supported" if low >= limit else "refuted" if high < limit else "cannot tell here"
        for low, high, limit in limits
    ]
