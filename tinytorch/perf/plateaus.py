"""Plateaus of a curve that falls in steps: where one level of memory ends and the next begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

#: Two neighbours are two plateaus only if their rates differ by this factor.
SMALLEST_STEP = 1.25
#: A plateau has at least this many points: one alone is a disturbance.
FEWEST_POINTS = 2


@dataclass(frozen=True, slots=True)
class Plateau:
    """Points ``first`` to ``last`` (both included) of a curve, and the ``rate`` that is the median of them."""

    first: int
    last: int
    rate: float


def find_plateaus(rates: Sequence[float] | npt.NDArray[np.float64], at_most: int) -> tuple[Plateau, ...]:
    """Return the plateaus of ``rates``, a curve over growing working sets that falls from each plateau to the next.

    The rule: cut the curve into k pieces of at least two points so that the sum of the distances of all logarithms to
    the median of their piece is smallest (absolute distances, so that a disturbed point has little weight). k is
    the largest number up to ``at_most`` for which each piece lies below the one before by a factor of at least 1.25.
    A point on the slope between two plateaus thereby belongs to the one that it is nearer to.

    Raises:
        ValueError: if ``rates`` are not above 0, there are none, or ``at_most`` is below 1.
    """
    values = np.asarray(rates, np.float64)
    if values.ndim != 1 or values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError("rates must be a flat sequence of finite numbers above 0, at least one")
    if at_most < 1:
        raise ValueError(f"at_most must be at least 1 plateau, not {at_most}")
    logs = np.log2(values)
    costs = _costs(logs)
    for pieces in range(min(at_most, values.size // FEWEST_POINTS), 1, -1):
        found = _plateaus(logs, _cuts(costs, pieces))
        steps = [inner.rate / outer.rate for inner, outer in pairwise(found)]
        if min(steps) >= SMALLEST_STEP:
            return found
    return _plateaus(logs, [0, values.size])


def _costs(logs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return costs[i, j]: the sum of distances to the median of points i to j - 1, infinite for too few points."""
    n = logs.size
    costs = np.full((n + 1, n + 1), np.inf)
    for first in range(n):
        for end in range(first + FEWEST_POINTS, n + 1):
            piece = logs[first:end]
            costs[first, end] = np.abs(piece - np.median(piece)).sum()
    return costs


def _cuts(costs: npt.NDArray[np.float64], pieces: int) -> list[int]:
    """Return the borders 0, ..., n of the cheapest partition into ``pieces``, by dynamic programming."""
    best = costs[0]
    origins = []
    for _ in range(pieces - 1):
        totals = best[:, None] + costs
        origins.append(totals.argmin(axis=0))
        best = totals.min(axis=0)
    borders = [len(best) - 1]
    for origin in reversed(origins):
        borders.append(int(origin[borders[-1]]))
    return [0, *reversed(borders)]


def _plateaus(logs: npt.NDArray[np.float64], borders: Sequence[int]) -> tuple[Plateau, ...]:
    return tuple(Plateau(first, end - 1, float(2 ** np.median(logs[first:end]))) for first, end in pairwise(borders))
