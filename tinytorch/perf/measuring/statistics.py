"""Uncertainty: what samples say of a quantity, as a distribution of plausible values. Every interval comes from here.

A `Law` is what is known of one quantity: a value, and for each chance the bound below which the quantity lies with it.
It is a confidence distribution: between the quantiles at 2.5 and 97.5 % lies the 95 % interval. What is computed of
several quantities is known by computing it of `DRAWS` plausible values of each, as the supplement to the Guide to the
Expression of Uncertainty in Measurement does (JCGM 101:2008).

Sources: T. Schweder and N. L. Hjort, Confidence, Likelihood, Probability, Cambridge 2016, chapter 3 (confidence
distributions); JCGM 101:2008, Propagation of distributions using a Monte Carlo method.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Samples = Sequence[float] | npt.NDArray[Any]
Array = npt.NDArray[np.float64]
#: Level of every interval, but where several comparisons are read together.
CONFIDENCE = 0.95
#: Plausible values that stand for a quantity in what is computed of it.
DRAWS = 4096
#: Samples below which the law of the median is Student's, as order statistics reach too little; timers take as many.
FEWEST_FOR_INTERVAL = 6


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: ``low`` and ``high`` in the unit of what it bounds, and its ``confidence``.

    A single sample has none: then both ends are the sample, and the confidence is not a number.
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


class Law(Protocol):
    """What is known of one quantity."""

    @property
    def value(self) -> float:
        """What is shown of it: the estimate."""

    def quantiles(self, chances: Array) -> Array:
        """Return, for each chance from 0 to 1, the bound below which the quantity lies with it."""


def bonferroni(confidence: float, together: int) -> float:
    """Return the confidence of each of ``together`` intervals that all hold with ``confidence`` (Bonferroni).

    Raises:
        ValueError: if ``together`` is below 1, or ``confidence`` does not lie between 0 and 1.
    """
    if together < 1:
        raise ValueError(f"together must be at least 1, not {together}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    return 1 - (1 - confidence) / together


def interval_of_law(law: Law, confidence: float) -> Interval:
    """Return the interval between the two quantiles of a law that leave as much on either side; it holds the value.

    Raises:
        ValueError: if ``confidence`` does not lie between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    low, high = law.quantiles(np.array([(1 - confidence) / 2, (1 + confidence) / 2])).tolist()
    return Interval(min(low, law.value), max(high, law.value), confidence)


def draws(law: Law, key: str, *, alone: bool = False) -> Array:
    """Return `DRAWS` plausible values of a quantity in an order of their own, which ``key`` decides.

    They are the quantiles at evenly spaced chances, so that they have no noise of drawing. Of two quantities with
    different keys the orders are independent; of one key they are the same. Intervals made of few samples are sometimes
    too wide and sometimes too narrow, and hold the truth as often as they say. In what is made of several, that
    averages out: so draws of a `Percentile` have the normal law of its 95 % interval, and lie `_INWARD` nearer to the
    value, unless it stands ``alone``.
    """
    inward = 1.0
    if isinstance(law, Percentile) and not alone:
        ends = interval_of_law(law, CONFIDENCE)
        law, inward = Stated(law.value, ends.low, ends.high), _INWARD
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
    return law.quantiles(np.random.default_rng(seed).permutation(_chances(inward)))


#: Deviates of draws over those of the law: with it ratios, predictions and fits hold the truth in 93 to 97 % of made
#: series of ten or more samples, of which one or several are noisy (`tests/perf/measuring/test_statistics.py`).
_INWARD = 0.92


@lru_cache(maxsize=2)
def _chances(inward: float) -> Array:
    from scipy.special import ndtr, ndtri

    return np.asarray(ndtr(inward * ndtri((np.arange(DRAWS) + 0.5) / DRAWS)))


@dataclass(frozen=True)
class Known:
    """The law of what was counted: its value and nothing else."""

    value: float

    def quantiles(self, chances: Array) -> Array:
        """Return the bounds below which it lies with these chances: see `Law`."""
        return np.full(np.shape(chances), self.value)


@dataclass(frozen=True)
class Stated:
    """The law of an interval that is given: normal to each side of the value, by factors where all is above 0."""

    value: float
    low: float
    high: float
    confidence: float = CONFIDENCE

    def quantiles(self, chances: Array) -> Array:
        """Return the bounds below which it lies with these chances: see `Law`."""
        from scipy.special import ndtri

        far = ndtri(chances) / float(ndtri((1 + self.confidence) / 2))
        if min(self.low, self.value) > 0:
            ends = np.where(far < 0, math.log(self.value / self.low), math.log(self.high / self.value))
            return np.asarray(self.value * np.exp(far * ends))
        return np.asarray(self.value + far * np.where(far < 0, self.value - self.low, self.high - self.value))


@dataclass(frozen=True)
class Turned:
    """The law of what rises, or falls, with one quantity: such as a rate with a time."""

    law: Law
    function: Callable[[Any], Any]
    falls: bool

    @property
    def value(self) -> float:
        """The estimate."""
        return float(self.function(self.law.value))

    def quantiles(self, chances: Array) -> Array:
        """Return the bounds below which it lies with these chances: see `Law`."""
        return np.asarray(self.function(self.law.quantiles(1 - chances if self.falls else chances)))


@dataclass(frozen=True)
class Drawn:
    """The law of what was computed: its draws, some of which may be infinite."""

    value: float
    values: Array

    def quantiles(self, chances: Array) -> Array:
        """Return the bounds below which it lies with these chances: see `Law`."""
        ordered = np.sort(self.values)
        # Between infinite draws there is no line.
        places = np.clip(chances * DRAWS - 0.5, 0, DRAWS - 1)
        below = np.floor(places).astype(int)
        above = np.minimum(below + 1, DRAWS - 1)
        low, high = ordered[below], ordered[above]
        with np.errstate(invalid="ignore"):
            between = low + (high - low) * (places - below)
        return np.where(np.isfinite(low) & np.isfinite(high), between, np.where(places - below < 0.5, low, high))


@dataclass(frozen=True)
class Share:
    """The law of a share, of which ``count`` of ``trials`` were seen: Clopper's and Pearson's, with half of the count.

    The quantile at a chance is the share at which as few as ``count`` are seen so often, half of the chance to see just
    ``count`` taken to either side ("mid-P"). Unlike the full one it does not hold more than it says on average.

    Sources: C. Clopper and E. Pearson, The use of confidence or fiducial limits, Biometrika 26 (1934) 404-413;
    G. Berry and P. Armitage, Mid-P confidence intervals: a brief review, The Statistician 44 (1995) 417-423.

    Raises:
        ValueError: if ``trials`` is below 1 or ``count`` does not lie in 0..trials.
    """

    count: int
    trials: int

    def __post_init__(self) -> None:
        if self.trials < 1 or not 0 <= self.count <= self.trials:
            raise ValueError(
                f"count must lie in 0..trials and trials be at least 1, not {self.count} and {self.trials}"
            )

    @property
    def value(self) -> float:
        """The estimate."""
        return self.count / self.trials

    def quantiles(self, chances: Array) -> Array:
        """Return the bounds below which it lies with these chances: see `Law`."""
        places, reached = self._table
        return np.asarray(np.interp(chances, reached, places))

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """Shares on a fine grid, and the chance that the true one lies below each."""
        from scipy.special import bdtr, bdtrc, ndtr

        middle = (self.count + 0.5) / (self.trials + 1)
        spread = math.sqrt(middle * (1 - middle) / self.trials)
        far = np.linspace(-12, 12, 6001)
        places = np.clip(middle + far * spread * (1 + np.abs(far) / 4), 0, 1)
        places = np.unique(np.concatenate([[0.0], places, ndtr(far), [1.0]]))
        least = bdtrc(self.count, self.trials, places)  # more than the count
        same = bdtr(self.count, self.trials, places) - (bdtr(self.count - 1, self.trials, places) if self.count else 0)
        reached = np.maximum.accumulate(least + same / 2)
        if self.count == 0:
            reached[0] = 0.0
        if self.count == self.trials:
            reached[-1] = 1.0
        keep = np.concatenate([[True], np.diff(reached) > 0])
        return places[keep], reached[keep]


@dataclass(frozen=True)
class PairedShares:
    """The law of the difference of two paired shares, (gained - lost) / examples: Tango's score test, inverted.

    The difference lies below d with the chance that belongs to the score (gained - lost - n d) / sqrt(n (2 q + d (1 -
    d))), with q the likeliest share of lost examples under d. Unlike a normal law it has a width also where no example
    differs.

    Source: T. Tango, Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design, Statistics in Medicine 17 (1998) 891-908.

    Raises:
        ValueError: if the counts are negative or more than ``examples``.
    """

    gained: int
    lost: int
    examples: int

    def __post_init__(self) -> None:
        if min(self.gained, self.lost) < 0 or self.gained + self.lost > self.examples or self.examples < 1:
            raise ValueError(
                f"gained and lost must be counts of at most {self.examples} examples, not {self.gained} and {self.lost}"
            )

    @property
    def value(self) -> float:
        """The estimate."""
        return (self.gained - self.lost) / self.examples

    def quantiles(self, chances: Array) -> Array:
        """Return the bounds below which it lies with these chances: see `Law`."""
        places, reached = self._table
        return np.asarray(np.interp(chances, reached, places))

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """Differences on a grid that is finest around the estimate, and the chance that the true one lies below."""
        from scipy.special import ndtr

        n, far = self.examples, np.geomspace(1e-9, 2, 4000)
        places = np.concatenate([self.value - far, self.value + far])
        places = np.unique(np.clip(places, -1, 1))
        b = -self.gained - self.lost + (2 * n - self.gained + self.lost) * places
        c = -self.lost * places * (1 - places)
        likeliest = (np.sqrt(np.maximum(b * b - 8 * n * c, 0)) - b) / (4 * n)
        variance = np.maximum(n * (2 * likeliest + places * (1 - places)), 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.nan_to_num((self.gained - self.lost - n * places) / np.sqrt(variance), nan=0.0)
        reached = np.maximum.accumulate(ndtr(-score))
        return places, reached


@dataclass(frozen=True)
class Mean:
    """The law of the mean of independent numbers: Student's."""

    samples: tuple[float, ...]

    @property
    def value(self) -> float:
        """The estimate."""
        return float(np.mean(self.samples))

    def quantiles(self, chances: Array) -> Array:
        """Return the bounds below which it lies with these chances: see `Law`."""
        from scipy.special import stdtrit

        n = len(self.samples)
        error = float(np.std(self.samples, ddof=1)) / math.sqrt(n)
        return np.asarray(self.value + error * stdtrit(n - 1, chances))


@dataclass(frozen=True)
class Scale:
    """A scale on which noise adds up: logarithms, logarithms of odds, or the numbers themselves."""

    to: Callable[[Array], Array]
    back: Callable[[Array], Array]


def _logit(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values) - np.log1p(-values))


def _expit(values: Array) -> Array:
    from scipy.special import expit

    return np.asarray(expit(values))


def _exp(values: Array) -> Array:
    with np.errstate(over="ignore"):  # noise of many powers of ten reaches anywhere
        return np.exp(values)


NUMBERS = Scale(lambda values: values, lambda values: values)
LOGARITHMS = Scale(np.log, _exp)
ODDS = Scale(_logit, _expit)


@dataclass(frozen=True)
class Percentile:
    """The law of a percentile of what samples are drawn from, whatever its distribution.

    The number of samples below the true percentile is binomial, so that the percentile lies below the k-th of n with
    the chance of less than k; between two samples k goes on as a fraction, on the side of the farther one. Beyond the
    first and the last sample the law goes on as a normal one would that these two and the median lie on. Of fewer than
    `FEWEST_FOR_INTERVAL` samples the median has Student's law.

    Samples that depend on one another with the autocorrelation time ``time`` let the share that lies below the
    percentile wander farther, by the root of ``time`` as a normal deviate. They then count as no farther out than
    Tukey's outer fences, and the law ends there: a pause of the host says nothing of the calls that it did not hit.
    What runs differ by is independent of what samples of one run do: distances to the value are added in squares.

    Sources: A. D. Hutson, Calculating nonparametric confidence intervals for quantiles using fractional order
    statistics, Journal of Applied Statistics 26 (1999) 343-353; P. K. Sen, Asymptotic normality of sample quantiles for
    m-dependent processes, Annals of Mathematical Statistics 39 (1968) 1724-1730; J. W. Tukey, Exploratory Data
    Analysis, Addison-Wesley 1977, section 2D (fences).

    Attributes:
        samples: at least two.
        scale: on which noise adds up.
        time: autocorrelation time of the samples, at least 1.
        between_runs: standard deviation, on the scale, of what runs differ by.
        q: the percentile; 50 for the median.
    """

    samples: tuple[float, ...]
    scale: Scale = NUMBERS
    time: float = 1.0
    between_runs: float = 0.0
    q: float = 50.0

    @property
    def value(self) -> float:
        """The estimate."""
        return percentile(self.samples, self.q)

    def quantiles(self, chances: Array) -> Array:
        """Return the bounds below which it lies with these chances: see `Law`."""
        from scipy.special import ndtri

        if min(self.samples) == max(self.samples) and not self.between_runs:
            return np.full(np.shape(chances), self.value)
        deviates = ndtri(chances)
        middle = float(self.scale.to(np.array(self.value)))
        own = (self._of_few(deviates) if len(self.samples) < FEWEST_FOR_INTERVAL else self._of_ranks(deviates)) - middle
        runs = deviates * self.between_runs
        # Both lie on the same side of the value but near it, where neither is large.
        return self.scale.back(middle + np.sign(deviates) * np.hypot(np.where(own * deviates > 0, own, 0.0), runs))

    def _of_few(self, deviates: Array) -> Array:
        from scipy.special import ndtr, stdtrit

        on_scale = self.scale.to(np.array(self.samples))
        n = on_scale.size
        error = float(on_scale.std(ddof=1)) * math.sqrt(_MEDIAN_OF_FEW * self.time / n)
        return np.asarray(median(on_scale) + error * stdtrit(n - 1, ndtr(deviates)))

    def _of_ranks(self, deviates: Array) -> Array:
        on_scale = np.sort(self.scale.to(np.array(self.samples)))
        least, most = -math.inf, math.inf
        if self.time > 1:
            first, third = _quantiles(on_scale, 0.25, 0.75)
            least, most = first - 3 * (third - first), third + 3 * (third - first)
            on_scale = np.clip(on_scale, least, most)
        scores, share = _scores(on_scale.size), self.q / 100
        at, found = _score_of_percentile(on_scale.size, share)
        middle = float(np.interp(0.0, at, found))
        wanted = middle + math.sqrt(self.time) * (np.interp(deviates, at, found) - middle)
        inside = _outwards(wanted, scores, on_scale, middle)
        centre = median(on_scale)
        down, up = (centre - on_scale[0]) / scores[-1], (on_scale[-1] - centre) / scores[-1]
        beyond = np.minimum(wanted - scores[0], 0) * down + np.maximum(wanted - scores[-1], 0) * up
        return np.clip(inside + beyond, min(least, float(on_scale[0])), max(most, float(on_scale[-1])))


def _outwards(wanted: Array, scores: Array, values: Array, middle: float) -> Array:
    """Return the values at the wanted scores; between two of them nearer to the one that is farther from the middle.

    By a power of the part of the way: where numbers lie on two levels, a straight line would end between these.
    """
    after = np.clip(np.searchsorted(scores, wanted), 1, scores.size - 1)
    part = np.clip((wanted - scores[after - 1]) / (scores[after] - scores[after - 1]), 0.0, 1.0)
    part = np.where(wanted < middle, part**1.25, 1 - (1 - part) ** 1.25)
    return values[after - 1] + part * (values[after] - values[after - 1])


#: Variance of the median of two to five normal numbers over that of their mean, at most.
_MEDIAN_OF_FEW = 1.44


@lru_cache(maxsize=64)
def _scores(n: int) -> Array:
    """Return the normal deviates at which n samples are expected, in rising order."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.arange(1, n + 1) / (n + 1)))


@lru_cache(maxsize=64)
def _score_of_percentile(n: int, share: float) -> tuple[Array, Array]:
    """Return deviates of the chance that the percentile lies below a rank, and those of the ranks, both rising."""
    from scipy.special import betainc, ndtri

    spread = math.sqrt(n * share * (1 - share))
    ranks = n * share + 0.5 + spread * np.linspace(-6, 6, 481)
    ranks = ranks[(ranks > 0.02) & (ranks < n + 0.98)]
    reached = ndtri(betainc(n - ranks + 1, ranks, 1 - share))
    kept = np.isfinite(reached)
    return np.asarray(reached[kept]), np.asarray(ndtri(ranks[kept] / (n + 1)))


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


def clipped(values: Samples, deviations: float = 3.0) -> Array:
    """Return the values less their median, those farther out than so many robust deviations as near as that.

    A robust deviation is 1.4826 times the median distance from the median: that of normal noise.
    """
    array = np.asarray(values, np.float64)
    centred = array - median(array)
    cut = deviations * 1.4826 * median(np.abs(centred))
    return np.clip(centred, -cut, cut) if cut else centred


def block_spread(samples: Sequence[float], block: int) -> float:
    """Return by how much the blocks differ beyond what the samples in each explain, as a standard deviation of logs.

    The variance of the blocks' medians less that of a median of as many samples, of a normal distribution; 0 for one
    block, for blocks of one sample, and for samples that are not all above 0 and finite. A block that met a pause of
    the host counts as no farther out than three robust deviations.
    """
    values = np.asarray(samples, np.float64)
    if block < 2 or values.size < 2 * block or not ((values > 0) & np.isfinite(values)).all():
        return 0.0
    logs = np.log(values[: values.size // block * block]).reshape(-1, block)
    explained = math.pi / 2 * float(np.median(logs.var(axis=1, ddof=1))) / block
    return math.sqrt(max(0.0, float(clipped(np.median(logs, axis=1)).var(ddof=1)) - explained))


#: Chance of noise that wanders to look as independent as the samples do, above which it cannot be ruled out. A verdict
#: on such noise is wrong about every second time, so that this leaves it as many wrong ones as an interval of 95 % has.
_WANDERS = 0.07
#: What cannot be ruled out is taken to have so many times the autocorrelation time of 1/f noise: with it at most 6 % of
#: verdicts on such noise are wrong. `benchmarks/verdicts.py --synthetic` counts them.
_FARTHER = 2.5
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
    def may_wander(self) -> bool:
        """Whether noise that wanders, and so has no level, cannot be ruled out."""
        return self.wander > _WANDERS

    @property
    def longest_time(self) -> float:
        """The autocorrelation time, and that of noise that wanders if it cannot be ruled out."""
        return max(self.time, _FARTHER * flicker_time(self.n)) if self.may_wander else self.time


def flicker_time(n: int) -> float:
    """Return the autocorrelation time of n samples of noise with a spectrum of 1/f, which wandered for longer."""
    return max(1.0, math.log(_LENGTHS) * (n - 1) / float((1 / np.arange(1, n)).sum())) if n > 1 else 1.0


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
    if np.ptp(array) == 0:
        return independent(n)
    if n < FEWEST_FOR_INTERVAL:  # too few to tell
        return Dependence(n, 1.0, 1.0)
    power = _power(array)
    inverse, times, beforehand = _memories(n)
    logs = beforehand - (n - 1) / 2 * np.log(inverse @ power)
    posterior = np.cumsum(np.exp(logs - logs.max()))
    time = float(times[np.searchsorted(posterior, _UPPER * posterior[-1])])
    return Dependence(n, time, _chance_to_wander(power))


def _power(array: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the power of the waves with 1, 2, ..., n - 1 half periods in the series, which sums up to 1."""
    from scipy.fft import dct

    cut = clipped(array, _CUT)
    power = np.square(dct(cut if np.median(np.abs(cut)) else np.sign(cut), norm="ortho")[1:])
    return np.asarray(power / power.sum())


@lru_cache(maxsize=64)
def _memories(n: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
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


def _saddlepoint(weights: npt.NDArray[np.float64]) -> float:
    """Return where the sum of w / (1 - 2 t w) is 0, between the first poles of either sign; it rises in between.

    Each step looks at many places at once and goes on between the two around the root. A root finder of SciPy's would
    take a quarter of a second to load in each process that measures.
    """
    inside = 1 - 1e-9
    low, high = inside / (2 * float(weights.min())), inside / (2 * float(weights.max()))
    for _ in range(_STEPS):
        places = np.linspace(low, high, _PLACES)
        slopes = (weights / (1 - 2 * places[:, None] * weights)).sum(axis=1)
        after = int(np.clip(np.searchsorted(slopes, 0.0), 1, _PLACES - 1))
        low, high = float(places[after - 1]), float(places[after])
    return (low + high) / 2


#: Places of a step, and steps: the root is known to 1e-11 of the way between the poles.
_PLACES, _STEPS = 17, 9


def _chance_to_wander(power: npt.NDArray[np.float64]) -> float:
    """Return how often 1/f noise has as large a likelihood of independence over its own.

    That ratio grows with the sum of j times the power of wave j, which for 1/f noise is the quotient of Σ e_j and
    Σ e_j / j, where each e_j is the square of a normal number. So it is the chance of a weighted sum of them to lie
    below 0, which has a saddlepoint approximation.

    Sources: D. Kuonen, Saddlepoint approximations for distributions of quadratic forms in normal variables, Biometrika
    86 (1999) 929-935.
    """
    from scipy.special import ndtr

    half_periods = np.arange(1, power.size + 1)
    weights = 1 / half_periods - 1 / float(power @ half_periods)
    least, most = float(weights.min()), float(weights.max())
    if least >= -1e-12 or most <= 1e-12:
        return 0.0 if least >= -1e-12 else 1.0
    t = _saddlepoint(weights)
    left = 1 - 2 * t * weights
    curvature = float(np.square(weights / left).sum()) * 2
    if abs(t) * math.sqrt(curvature) < 1e-4:  # where the formula is 0 over 0, and its limit is known
        skew = float(((weights / left) ** 3).sum()) * 8 / curvature**1.5
        return 0.5 + skew / (6 * math.sqrt(2 * math.pi))
    w = math.copysign(math.sqrt(max(float(np.log(left).sum()), 1e-300)), t)
    return float(ndtr(w + math.log(t * math.sqrt(curvature) / w) / w))
