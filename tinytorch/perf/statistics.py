"""Statistics of repeated measurements that assume no distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

Samples = Sequence[float] | npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: ``low`` and ``high`` in the unit of what it bounds, and its ``confidence``.

    ``confidence`` is the coverage that the method reaches, not the one asked for: with few samples an
    interval made of order statistics cannot reach 95 %, and says so here. ``nan`` means that no interval
    exists (one sample).
    """

    low: float
    high: float
    confidence: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def half_width(self) -> float:
        """Half of the distance between the ends, in the same unit."""
        return (self.high - self.low) / 2


def checked(samples: Samples, name: str = "samples") -> npt.NDArray[np.float64]:
    """Return ``samples`` as a float64 array of shape (n,).

    Raises:
        ValueError: if there are none, or one of them is not a finite number.
    """
    array = np.asarray(samples, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a flat, non-empty sequence of numbers, not one of shape {array.shape}")
    if not np.isfinite(array).all():
        bad = array[~np.isfinite(array)][0]
        raise ValueError(f"{name} must be finite numbers, but {bad} is among them: drop the run that made it")
    return array


def percentile(samples: Samples, q: float) -> float:
    """Return the ``q``-th percentile (0 to 100) by linear interpolation between order statistics.

    Raises:
        ValueError: if ``q`` is outside 0 to 100 or ``samples`` are empty or not finite.
    """
    if not 0 <= q <= 100:
        raise ValueError(f"q must be between 0 and 100, not {q}")
    return float(np.percentile(checked(samples), q))


def median_interval(samples: Samples, confidence: float = 0.95) -> Interval:
    """Return the distribution-free confidence interval of the median.

    The interval runs between two order statistics. The number of samples below the true median is binomial
    with p = 1/2 whatever the distribution, so the pair (k, n + 1 - k) covers the median with probability
    1 - 2 P(B <= k - 1). The narrowest symmetric pair that reaches ``confidence`` is taken; below six samples
    none reaches 95 %, and the widest is returned with the coverage that it has.

    Source: H. A. David and H. N. Nagaraja, Order Statistics, 3rd edition, Wiley 2003, section 7.1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    array = np.sort(checked(samples))
    n = array.size
    if n == 1:
        return Interval(float(array[0]), float(array[0]), math.nan)
    # The largest k with 2 P(B <= k - 1) <= 1 - confidence; scipy's ppf is the smallest x with cdf >= q.
    k = int(binom.ppf((1 - confidence) / 2, n, 0.5))
    while k > 1 and 2 * binom.cdf(k - 1, n, 0.5) > 1 - confidence:
        k -= 1
    k = max(k, 1)
    reached = 1 - 2 * float(binom.cdf(k - 1, n, 0.5))
    return Interval(float(array[k - 1]), float(array[n - k]), reached)


def median_absolute_deviation(samples: Samples) -> float:
    """Return the median of the distances to the median, unscaled, in the samples' unit."""
    array = checked(samples)
    return float(np.median(np.abs(array - np.median(array))))
