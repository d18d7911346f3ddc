"""How far a series of samples is from independent draws: autocorrelation, effective number, change on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

from tinytorch.perf.measuring.statistics import Samples, checked

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
    """What a series of n samples, in the order in which they were taken, says about its own independence.

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
