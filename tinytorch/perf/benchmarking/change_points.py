"""Change points of a series: where its level moved, by E-divisive's statistic and a permutation test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinytorch.perf.measuring.statistics import Samples, checked

#: The fewest values on each side of a change.
FEWEST = 3
#: Chance at which a series without any change is said to have one.
LEVEL = 0.01
PERMUTATIONS = 999
Floats = npt.NDArray[np.float64]


def change_points(samples: Samples, *, level: float = LEVEL, seed: int = 0) -> tuple[int, ...]:
    """Return the indices at which a new level begins, in order; none if the series could come from one distribution.

    A segment is split where the energy distance of its two parts, m n / (m + n) (2 E|X - Y| - E|X - X'| - E|Y - Y'|),
    is largest, if that is larger than in all but a share ``level`` of the segment's random orders; then its parts are
    looked at in the same way. Each part keeps at least three values, so that a change is told from ten values on, or
    from four on each side.

    Sources: D. S. Matteson and N. A. James, A nonparametric approach for multiple change point analysis of multivariate
    data, Journal of the American Statistical Association 109 (2014) 334-345; D. Daly et al., The use of change point
    detection to identify software performance regressions in a continuous integration system, ICPE 2020.

    Args:
        samples: values in the order of time.
        level: chance of a false split, of each segment that is tested.
        seed: of the random orders.

    Raises:
        ValueError: if ``samples`` are empty or not finite, or ``level`` does not lie between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    array, draw = checked(samples), np.random.default_rng(seed)
    found: list[int] = []
    waiting = [(0, array.size)]
    while waiting:
        start, end = waiting.pop()
        split = _split(array[start:end], level, draw)
        if split is not None:
            found.append(start + split)
            waiting += [(start, start + split), (start + split, end)]
    return tuple(sorted(found))


def _split(segment: Floats, level: float, draw: np.random.Generator) -> int | None:
    """Return where the segment is split, or None if it is too short or its best split is one that chance makes."""
    if segment.size < 2 * FEWEST or np.ptp(segment) == 0:
        return None
    distances = np.abs(segment[:, None] - segment[None, :])
    energies = _energies(distances)
    best, as_large = float(energies.max()), 0
    for _ in range(PERMUTATIONS):
        order = draw.permutation(segment.size)
        as_large += float(_energies(distances[np.ix_(order, order)]).max()) >= best * (1 - 1e-12)
    # The order that was seen is one of all orders, so that the chance is never said to be 0.
    if (1 + as_large) / (1 + PERMUTATIONS) > level:
        return None
    return int(energies.argmax()) + FEWEST


def _energies(distances: Floats) -> Floats:
    """Return the energy distance of both parts for each split from `FEWEST` to size - `FEWEST`."""
    size = len(distances)
    sums = distances.cumsum(axis=0).cumsum(axis=1)
    m = np.arange(FEWEST, size - FEWEST + 1)
    n = size - m
    left, both, whole = sums[m - 1, m - 1], sums[m - 1, -1], sums[-1, -1]
    between, right = both - left, whole - 2 * both + left
    return np.asarray(m * n / size * (2 * between / (m * n) - left / m**2 - right / n**2))


def levels(samples: Sequence[float], points: Sequence[int]) -> list[float]:
    """Return the median of each part of ``samples`` between change ``points``."""
    return [float(np.median(part)) for part in np.split(np.asarray(samples), list(points))]
