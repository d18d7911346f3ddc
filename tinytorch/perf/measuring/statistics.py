"""Statistics of repeated measurements that assume no distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, betaincinv

Samples = Sequence[float] | npt.NDArray[Any]
#: The fewest samples of which an interval of the median reaches 95 %.
FEWEST_FOR_INTERVAL = 6
#: Medians that a bootstrap draws: its ends then err by about a hundredth of the interval's width.
RESAMPLES = 10_000


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
    k = int(np.searchsorted(bdtr(np.arange(n), n, 0.5), (1 - confidence) / 2))
    while k > 1 and 2 * bdtr(k - 1, n, 0.5) > 1 - confidence:
        k -= 1
    k = max(k, 1)
    reached = 1 - 2 * float(bdtr(k - 1, n, 0.5))
    return Interval(float(array[k - 1]), float(array[n - k]), reached)


def samples_needed(q: float, confidence: float = 0.95) -> int:
    """Return the fewest samples that can bound the ``q``-th percentile on both sides.

    All n samples lie below the percentile p = q / 100 with probability p**n, and above it with (1 - p)**n; then
    they do not hold it between them. The fewest have 1 - p**n - (1 - p)**n >= confidence: 6 for the median, 29 for
    the 90th percentile, 59 for the 95th and 299 for the 99th.

    Raises:
        ValueError: if ``q`` does not lie between 0 and 100 or ``confidence`` not between 0 and 1, ends excluded.
    """
    p = _share(q, confidence)
    n = max(1, math.ceil(math.log1p(-confidence) / math.log(max(p, 1 - p))) - 1)
    while 1 - p**n - (1 - p) ** n < confidence:
        n += 1
    return n


def percentile_interval(samples: Samples, q: float, confidence: float = 0.95) -> Interval:
    """Return the distribution-free confidence interval of the ``q``-th percentile.

    The number of samples below the true percentile is binomial with p = q / 100, so the order statistics r and s
    hold it with probability P(r <= B < s). The pair nearest to one another that reaches ``confidence`` is taken,
    of several the one whose tails are most alike.

    Source: H. A. David and H. N. Nagaraja, Order Statistics, 3rd edition, Wiley 2003, section 7.1.

    Raises:
        ValueError: if ``samples`` are fewer than `samples_needed`, empty or not finite, or an argument is out of range.
    """
    p = _share(q, confidence)
    array = np.sort(checked(samples))
    n, needed = array.size, samples_needed(q, confidence)
    if n < needed:
        raise ValueError(
            f"samples must be at least {needed} for an interval of percentile {q:g}, not {n}: take more of them, "
            "or say what it is at least with percentile_at_least"
        )
    below = bdtr(np.arange(n), n, p)  # below[r - 1]: fewer than r samples lie below the percentile
    first = np.searchsorted(below, below + confidence * (1 - 1e-12))  # the s - 1 that each r - 1 needs
    r = np.flatnonzero(first < n)
    # A pair of extremes that has to reach beyond the last sample is no pair; one is left, as n is enough.
    s = first[r]
    uneven = np.abs(below[r] - (1 - below[s]))
    best = np.lexsort((uneven, s - r))[0]
    low, high = int(r[best]), int(s[best])
    return Interval(float(array[low]), float(array[high]), float(below[high] - below[low]))


def percentile_at_least(samples: Samples, q: float, confidence: float = 0.95) -> float:
    """Return what the ``q``-th percentile is at least, with ``confidence``: an order statistic, in the samples' unit.

    Any number of samples above the median bounds a high percentile from below.

    Raises:
        ValueError: if not even the smallest sample is a bound, as for low percentiles of few samples.
    """
    p = _share(q, confidence)
    array = np.sort(checked(samples))
    rank = int((bdtr(np.arange(array.size), array.size, p) <= (1 - confidence) * (1 + 1e-9)).sum())
    if rank == 0:
        raise ValueError(f"samples must be more than {array.size} to bound percentile {q:g} from below")
    return float(array[rank - 1])


def _share(q: float, confidence: float) -> float:
    if not 0 < q < 100:
        raise ValueError(f"q must lie between 0 and 100, ends excluded, not {q}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    return q / 100


def bootstrap_interval(samples: Samples, confidence: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Return the ends of the percentile bootstrap's interval of the median of independent samples.

    Sorted, a resample is n ranks drawn evenly; its middle ones are order statistics of n uniform numbers, which
    are drawn directly: the k-th of n is Beta(k, n + 1 - k), the next one the least of the n - k above it. Each
    draw is used with its mirror image, so that the interval of the negated samples is the interval negated.

    Sources: B. Efron, Bootstrap methods: another look at the jackknife, Annals of Statistics 7 (1979) 1-26,
    section 3; H. A. David and H. N. Nagaraja, Order Statistics, 3rd edition, Wiley 2003, section 2.5.

    Raises:
        ValueError: if ``samples`` are empty or not finite, or ``confidence`` does not lie between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    array = np.sort(checked(samples))
    n, draw = array.size, np.random.default_rng(seed)
    k = (n + 1) // 2
    middle = draw.beta(k, n + 1 - k, RESAMPLES // 2)
    above = middle
    if n % 2 == 0:
        above = 1 - (1 - middle) * draw.random(middle.size) ** (1 / (n - k))
    lower = np.minimum((middle * n).astype(np.intp), n - 1)
    upper = np.minimum((above * n).astype(np.intp), n - 1)
    medians = [array[lower] + array[upper], array[n - 1 - lower] + array[n - 1 - upper]]
    low, high = np.quantile(np.concatenate(medians) / 2, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def share_interval(count: int, trials: int) -> Interval:
    """Return the exact 95 % interval of a share, of which ``count`` of ``trials`` were seen.

    Source: C. Clopper and E. Pearson, The use of confidence or fiducial limits, Biometrika 26 (1934) 404-413.

    Raises:
        ValueError: if ``trials`` is below 1 or ``count`` does not lie in 0..trials.
    """
    if trials < 1 or not 0 <= count <= trials:
        raise ValueError(f"count must lie in 0..trials and trials be at least 1, not {count} and {trials}")
    low = float(betaincinv(count, trials - count + 1, 0.025)) if count else 0.0
    high = float(betaincinv(count + 1, trials - count, 0.975)) if count < trials else 1.0
    return Interval(low, high, 0.95)


@dataclass(frozen=True, slots=True)
class Outliers:
    """How many samples lie beyond Tukey's fences; none of them is dropped.

    Mild are those more than 1.5, severe those more than 3 interquartile ranges outside of the quartiles.
    Source: J. W. Tukey, Exploratory Data Analysis, Addison-Wesley 1977, section 2D.
    """

    low_severe: int
    low_mild: int
    high_mild: int
    high_severe: int

    @property
    def total(self) -> int:
        """Number of outliers of all kinds."""
        return self.low_severe + self.low_mild + self.high_mild + self.high_severe


def outliers(samples: Samples) -> Outliers:
    """Return how many ``samples`` are mild and severe outliers on each side.

    Raises:
        ValueError: if ``samples`` are empty or not finite.
    """
    array = checked(samples)
    first, third = np.percentile(array, [25, 75])
    mild, severe = 1.5 * (third - first), 3 * (third - first)
    low, high = first - array, array - third
    return Outliers(
        int((low > severe).sum()),
        int(((low > mild) & (low <= severe)).sum()),
        int(((high > mild) & (high <= severe)).sum()),
        int((high > severe).sum()),
    )


def median_absolute_deviation(samples: Samples) -> float:
    """Return the median of the distances to the median, unscaled, in the samples' unit."""
    array = checked(samples)
    return float(np.median(np.abs(array - np.median(array))))
