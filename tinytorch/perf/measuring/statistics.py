"""Statistics of repeated measurements that assume no distribution, and how far samples are from independent draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
    from scipy.special import bdtr

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
    from scipy.special import bdtr

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
    from scipy.special import bdtr

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
    from scipy.special import betaincinv

    if trials < 1 or not 0 <= count <= trials:
        raise ValueError(f"count must lie in 0..trials and trials be at least 1, not {count} and {trials}")
    low = float(betaincinv(count, trials - count + 1, 0.025)) if count else 0.0
    high = float(betaincinv(count + 1, trials - count, 0.975)) if count < trials else 1.0
    return Interval(low, high, 0.95)


@dataclass(frozen=True, slots=True)
class Outliers:
    """Counts of samples beyond Tukey's fences; none of them is dropped.

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


#: Below this many effective samples no interval of a median reaches 95 %, so nothing can be said.
FEWEST_EFFECTIVE = 6
#: A series that is proven to be correlated must be worth this many: its correlation is estimated from it too.
FEWEST_CORRELATED = 20
#: Standard errors from 0 at which the correlation of neighbours counts as proven (one side, 1 %).
_PROVEN = 2.33
#: Chance at which a series without a change is taken for one with a change.
_CHANGE = 0.005


@dataclass(frozen=True, slots=True)
class Dependence:
    """Dependence in a series of n samples, in the order in which they were taken.

    Attributes:
        n: number of samples.
        effective: number of independent samples that would know the middle as well, at most n.
        neighbours: rank correlation of each sample with the next, -1 to 1.
        change: bound on the chance that independent samples drift or step as much as these (Pettitt's p).
    """

    n: int
    effective: float
    neighbours: float
    change: float

    @property
    def objection(self) -> str | None:
        """Why no verdict can rest on these samples, in words; None if it can."""
        if self.change < _CHANGE:
            return "the ratio stepped or drifted while it was measured"
        correlated = self.neighbours * math.sqrt(self.n) > _PROVEN and self.effective < FEWEST_CORRELATED
        if correlated or self.effective < FEWEST_EFFECTIVE:
            return f"neighbouring pairs are alike, so that {self.n} pairs are worth {self.effective:.0f}"
        return None

    def widening(self, confidence: float) -> float:
        """Return how many times as wide as for many independent samples an interval has to be, at least 1."""
        from scipy.special import ndtri, stdtrit

        tail = (1 + confidence) / 2
        student = stdtrit(max(self.effective - 1, 1), tail) / ndtri(tail)
        return math.sqrt(self.n / self.effective) * float(student)


def independent(n: int) -> Dependence:
    """Return the dependence of ``n`` samples that are independent by the way they were taken, as from processes."""
    return Dependence(n, float(n), 0.0, 1.0)


def dependence(samples: Samples) -> Dependence:
    """Return how dependent ``samples`` are on one another, from their ranks, so that outliers hide nothing.

    The effective number is n over the autocorrelation time: the larger of (1 + r) / (1 - r), with the correlation
    r of neighbours freed of its bias, and of Geyer's initial monotone sequence, which also sees slow drifts.

    Sources: M. G. Kendall, Note on bias in the estimation of autocorrelation, Biometrika 41 (1954) 403-404;
    C. J. Geyer, Practical Markov chain Monte Carlo, Statistical Science 7 (1992) 473-483; A. N. Pettitt,
    A non-parametric approach to the change-point problem, Applied Statistics 28 (1979) 126-135.

    Raises:
        ValueError: if ``samples`` are empty or not finite.
    """
    array = checked(samples)
    n = array.size
    if n < FEWEST_EFFECTIVE or np.ptp(array) == 0:
        return independent(n)
    ranks = _ranks(array)
    correlations = _autocorrelations(ranks - ranks.mean())
    neighbours = float(correlations[1])
    unbiased = min(max((neighbours * n + 1) / (n - 3), 0.0), 0.99)
    time = max((1 + unbiased) / (1 - unbiased), _initial_sequence(correlations))
    return Dependence(n, n / time, neighbours, _change(ranks))


def _ranks(array: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the rank of each number from 1 on; equal ones share the mean of theirs."""
    _, places, counts = np.unique(array, return_inverse=True, return_counts=True)
    means = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(means[places])


def _autocorrelations(centred: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the correlation at each lag from 0 to n - 1."""
    products = np.correlate(centred, centred, mode="full")[centred.size - 1 :]
    return products / products[0]


def _initial_sequence(correlations: npt.NDArray[np.float64]) -> float:
    """Return Geyer's estimate of the autocorrelation time, at least 1, from the first half of the lags."""
    pairs = correlations[: correlations.size // 4 * 2].reshape(-1, 2).sum(axis=1)
    falling = np.minimum.accumulate(pairs)
    return max(1.0, 2 * float(falling[falling > 0].sum()) - 1)


def _change(ranks: npt.NDArray[np.float64]) -> float:
    """Return Pettitt's bound on the chance of so large a step in the middle of the series, at most 1."""
    n = ranks.size
    largest = np.abs(2 * np.cumsum(ranks) - np.arange(1, n + 1) * (n + 1)).max()
    return min(1.0, 2 * math.exp(-6 * float(largest) ** 2 / (n**3 + n**2)))
