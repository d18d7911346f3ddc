"""Statistics of repeated measurements that assume no distribution, and how far samples are from independent draws."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Samples = Sequence[float] | npt.NDArray[Any]
#: The fewest samples of which an interval of the median reaches 95 %.
FEWEST_FOR_INTERVAL = 6


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


def combine_in_quadrature(value: float, one: Interval, other: Interval, *, as_factors: bool) -> Interval:
    """Return the interval of ``value`` whose ends are as far from it as those of both, added in squares.

    Args:
        value: what both intervals hold.
        one: an interval.
        other: another, of an error that is independent of it; its confidence is kept.
        as_factors: whether distances are factors, of numbers above 0, or differences.
    """
    if as_factors:
        down = math.hypot(math.log(value / one.low), math.log(value / other.low))
        up = math.hypot(math.log(one.high / value), math.log(other.high / value))
        return Interval(value * math.exp(-down), value * math.exp(up), other.confidence)
    low = value - math.hypot(value - one.low, value - other.low)
    return Interval(low, value + math.hypot(one.high - value, other.high - value), other.confidence)


def widened(
    interval: Interval, value: float, spread: float, confidence: float, *, as_factors: bool | None = None
) -> Interval:
    """Return the interval of ``value`` widened by an error with the standard deviation ``spread``.

    Args:
        interval: what is widened; its confidence is kept.
        confidence: of the quantile of the normal distribution at which the spread counts.
        as_factors: whether the spread is one of logarithms; or False for one in the unit of ``value``. None for one
            relative to the size of ``value``: of logarithms if the interval is all above 0.
    """
    from scipy.special import ndtri

    reach = float(ndtri((1 + confidence) / 2)) * spread
    factors = interval.low > 0 if as_factors is None else as_factors
    if factors:
        ends = (value * math.exp(-reach), value * math.exp(reach))
    else:
        reach *= abs(value) if as_factors is None else 1.0
        ends = (value - reach, value + reach)
    return combine_in_quadrature(value, interval, Interval(*ends, interval.confidence), as_factors=factors)


def rescale_interval(interval: Interval, old: float, new: float, times: float = 1.0) -> Interval:
    """Return the interval whose ends lie ``times`` as far from ``new`` as those of ``interval`` do from ``old``.

    Distances are factors where all is above 0, else differences.
    """
    if min(interval.low, old, new) > 0:
        low, high = (new * (end / old) ** times for end in (interval.low, interval.high))
    else:
        low, high = (new + times * (end - old) for end in (interval.low, interval.high))
    return Interval(low, high, interval.confidence)


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
    return _quantiles(checked(samples), q / 100)[0]


def median(array: npt.NDArray[np.float64]) -> float:
    """Return the median of a flat array: what np.median does, to the last bit, in a fifth of its time for few samples.

    Nothing is checked.
    """
    middle, odd = divmod(array.size, 2)
    ordered = np.sort(array)
    return float(ordered[middle]) if odd else (float(ordered[middle - 1]) + float(ordered[middle])) / 2


def _quantiles(array: npt.NDArray[np.float64], *shares: float) -> list[float]:
    """Return what np.quantile does of a flat array, to the last bit, in a tenth of its time for few samples."""
    ordered = np.sort(array)
    found = []
    for share in shares:
        place = share * (ordered.size - 1)
        before = int(place)
        low, high = float(ordered[before]), float(ordered[min(before + 1, ordered.size - 1)])
        part = place - before
        found.append(low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part))
    return found


def median_interval(samples: Samples, confidence: float = 0.95, time: float = 1.0) -> Interval:
    """Return the distribution-free confidence interval of the median.

    The interval runs between two order statistics. The number of samples below the true median is binomial
    with p = 1/2 whatever the distribution, so the pair (k, n + 1 - k) covers the median with probability
    1 - 2 P(B <= k - 1). The narrowest symmetric pair that reaches ``confidence`` is taken; below six samples
    none reaches 95 %, and the widest is returned with the coverage that it has.

    Samples that depend on one another with the autocorrelation time ``time`` let the share that lies below the median
    wander further, by the root of ``time`` as a normal deviate. Each pair then has the coverage of the pair of
    independent samples whose deviates are so much nearer to the middle. No pair reaches beyond the extremes.

    Sources: H. A. David and H. N. Nagaraja, Order Statistics, 3rd edition, Wiley 2003, section 7.1; P. K. Sen,
    Asymptotic normality of sample quantiles for m-dependent processes, Annals of Mathematical Statistics 39 (1968)
    1724-1730.

    Raises:
        ValueError: if ``samples`` are empty or not finite, ``confidence`` does not lie between 0 and 1, or ``time`` is
            below 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if not time >= 1:
        raise ValueError(f"time must be at least 1, that of independent samples, not {time}")
    array = np.sort(checked(samples))
    n = array.size
    if n == 1:
        return Interval(float(array[0]), float(array[0]), math.nan)
    missed = 1 - confidence + 1e-12
    # The number of samples that lie outside on each side: the most that still leaves no more to chance.
    outside = bisect.bisect_right(range((n + 1) // 2), missed, key=lambda below: _missed(below, n, time)) - 1
    outside = max(outside, 0)
    return Interval(float(array[outside]), float(array[n - 1 - outside]), 1 - _missed(outside, n, time))


def _missed(outside: int, n: int, time: float) -> float:
    """Return the chance that the median lies beyond the pair that leaves ``outside`` samples on each side."""
    from scipy.special import betainc, ndtr, ndtri

    depth = outside if time == 1 else n * ndtr(ndtri((outside + 0.5) / n) / math.sqrt(time)) - 0.5
    return min(1.0, 2 * float(betainc(n - depth, depth + 1, 0.5)))


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
    first, third = _quantiles(array, 0.25, 0.75)
    mild, severe = 1.5 * (third - first), 3 * (third - first)
    low, high = first - array, array - third
    return Outliers(
        int((low > severe).sum()),
        int(((low > mild) & (low <= severe)).sum()),
        int(((high > mild) & (high <= severe)).sum()),
        int((high > severe).sum()),
    )


def outer_fences(samples: Samples) -> tuple[float, float]:
    """Return Tukey's outer fences, beyond which a sample is a severe outlier: see `Outliers`."""
    first, third = _quantiles(checked(samples), 0.25, 0.75)
    return first - 3 * (third - first), third + 3 * (third - first)


def block_spread(samples: Sequence[float], block: int) -> float:
    """Return by how much the blocks differ beyond what the samples in each explain, as a standard deviation of logs.

    The variance of the blocks' medians less that of a median of as many samples, of a normal distribution; 0 for one
    block, for blocks of one sample, and for samples that are not all above 0 and finite.
    """
    values = np.asarray(samples, np.float64)
    if block < 2 or values.size < 2 * block or not ((values > 0) & np.isfinite(values)).all():
        return 0.0
    logs = np.log(values[: values.size // block * block]).reshape(-1, block)
    explained = math.pi / 2 * float(logs.var(axis=1, ddof=1).mean()) / block
    return math.sqrt(max(0.0, float(np.median(logs, axis=1).var(ddof=1)) - explained))


#: Chance of noise that wanders to look as independent as the samples do, above which it cannot be ruled out. A verdict
#: on such noise is wrong about every second time, so that this leaves it as many wrong ones as an interval of 95 % has.
_WANDERS = 0.075
#: Chance at which independence is believed before the samples are looked at.
_INDEPENDENT = 0.9
#: Share of the posterior of memories that lies at or below the one that is taken.
_UPPER = 0.8
#: Correlations of neighbours of the short memories, and shares of slow noise in the variance of the long ones.
_CORRELATIONS, _SHARES = (0.1, 0.3, 0.5, 0.7, 0.9), (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: Slow noise is taken to have wandered since so many times the length of the series.
_LENGTHS = 16
#: Robust deviations from the median at which samples are cut off, so that outliers neither make nor hide a memory.
_CUT = 2.5


@dataclass(frozen=True, slots=True)
class Dependence:
    """Dependence in a series of n samples, in the order in which they were taken.

    Attributes:
        n: number of samples.
        time: autocorrelation time, at least 1: the variance of the median is that of so many times fewer samples.
        wander: chance that noise with a spectrum of 1/f, which has no level, looks as independent as these.
    """

    n: int
    time: float
    wander: float

    @property
    def effective(self) -> float:
        """Number of independent samples that would know the middle as well, at most n."""
        return self.n / self.time

    @property
    def objection(self) -> str | None:
        """Why an interval made of these samples cannot be all that a verdict rests on, in words; None if it can."""
        if self.wander <= _WANDERS:
            return None
        return f"{self.n} samples like these do not rule out noise that wanders"


def independent(n: int) -> Dependence:
    """Return the dependence of ``n`` samples that are independent by the way they were taken, as from processes."""
    return Dependence(n, 1.0, 0.0)


def dependence(samples: Samples) -> Dependence:
    """Return how dependent ``samples`` are on one another.

    The likelihood of several memories is computed from the power of the samples' cosine waves: of independence; of
    neighbours that are correlated; and of independent noise with a share of noise that wanders, with a spectrum of 1/f
    or as a random walk. The time is an upper limit, the last of the posterior's lowest four fifths, if independence is
    believed nine to one beforehand. What wanders is taken to have done so for sixteen times as long as the series.

    Slow noise that makes up all of a short series may by chance look independent, and then no estimate of its memory
    helps. So the same likelihoods, of independence over that of 1/f noise, make a test: how often would the noise reach
    a ratio as high?

    Sources: P. Whittle, Estimation and information in stationary time series, Arkiv för Matematik 2 (1953) 423-434;
    J. Hoeting et al., Bayesian model averaging: a tutorial, Statistical Science 14 (1999) 382-417; W. H. Press, Flicker
    noises in astronomy and elsewhere, Comments on Astrophysics 7 (1978) 103-119. `benchmarks/verdicts.py` counts the
    false verdicts that remain.

    Raises:
        ValueError: if ``samples`` are empty or not finite.
    """
    array = checked(samples)
    n = array.size
    if n < FEWEST_FOR_INTERVAL or np.ptp(array) == 0:
        return independent(n)
    power = _power(array)
    inverse, times, beforehand = _memories(n)
    logs = beforehand - (n - 1) / 2 * np.log(inverse @ power)
    posterior = np.cumsum(np.exp(logs - logs.max()))
    time = float(times[np.searchsorted(posterior, _UPPER * posterior[-1])])
    return Dependence(n, time, _chance_to_wander(power))


def _power(array: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the power of the waves with 1, 2, ..., n - 1 half periods in the series, which sums up to 1."""
    from scipy.fft import dct

    centred = array - median(array)
    deviation = 1.4826 * median(np.abs(centred))
    cut = np.clip(centred, -_CUT * deviation, _CUT * deviation) / deviation if deviation else np.sign(centred)
    power = np.square(dct(cut, norm="ortho")[1:])
    return np.asarray(power / power.sum())


@lru_cache(maxsize=64)
def _memories(
    n: int,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return inverse spectra, times and log-likelihoods without the data of all memories, from short to long."""
    half_periods = np.arange(1, n)
    # Of 1/f noise a wave with j half periods has the power 1/j, and all that is slower log(16); of a walk 1/j² and 15.
    slow = [
        (power / power.mean(), below / power.mean())
        for power, below in ((1 / half_periods, math.log(_LENGTHS)), (1 / half_periods**2, _LENGTHS - 1.0))
    ]
    families = [[(1 - share + share * power, 1 - share + share * time) for share in _SHARES] for power, time in slow]
    short = []
    for r in _CORRELATIONS:
        power = (1 - r**2) / (1 + r**2 - 2 * r * np.cos(np.pi * half_periods / n))
        short.append((power / power.mean(), (1 + r) / (1 - r) / float(power.mean())))
    families.append(short)
    found = [(np.ones(n - 1), 1.0, _INDEPENDENT)]
    found += [
        (power, time, (1 - _INDEPENDENT) / len(families) / len(family)) for family in families for power, time in family
    ]
    found.sort(key=lambda memory: memory[1])
    beforehand = [math.log(weight) - float(np.log(power).sum()) / 2 for power, _, weight in found]
    return (
        1 / np.stack([power for power, _, _ in found]),
        np.array([time for _, time, _ in found]),
        np.array(beforehand),
    )


def _chance_to_wander(power: npt.NDArray[np.float64]) -> float:
    """Return how often 1/f noise has as large a likelihood of independence over its own.

    That ratio grows with the sum of j times the power of wave j, which for 1/f noise is the quotient of Σ e_j and
    Σ e_j / j, where each e_j is the square of a normal number. So it is the chance of a weighted sum of them to lie
    below 0, which has a saddlepoint approximation.

    Sources: D. Kuonen, Saddlepoint approximations for distributions of quadratic forms in normal variables, Biometrika
    86 (1999) 929-935.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    half_periods = np.arange(1, power.size + 1)
    weights = 1 / half_periods - 1 / float(power @ half_periods)
    least, most = float(weights.min()), float(weights.max())
    if least >= -1e-12 or most <= 1e-12:
        return 0.0 if least >= -1e-12 else 1.0

    def slope(t: float) -> float:
        return float((weights / (1 - 2 * t * weights)).sum())

    inside = 1 - 1e-9
    t = brentq(slope, inside / (2 * least), inside / (2 * most))
    left = 1 - 2 * t * weights
    curvature = float(np.square(weights / left).sum()) * 2
    if abs(t) * math.sqrt(curvature) < 1e-4:  # where the formula is 0 over 0, and its limit is known
        skew = float(((weights / left) ** 3).sum()) * 8 / curvature**1.5
        return 0.5 + skew / (6 * math.sqrt(2 * math.pi))
    w = math.copysign(math.sqrt(max(float(np.log(left).sum()), 1e-300)), t)
    return float(ndtr(w + math.log(t * math.sqrt(curvature) / w) / w))
