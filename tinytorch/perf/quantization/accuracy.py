"""Accuracy that quantization costs in a task: paired on the same examples, with an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinytorch.core.op import Array
from tinytorch.perf.measuring.statistics import Interval, checked

_RESAMPLES = 2000


@dataclass(frozen=True)
class PairedAccuracy:
    """Two models on the same examples.

    Attributes:
        examples: how many.
        baseline, candidate: shares (0 to 1) that each gets right.
        lost: examples that only the baseline gets right; ``gained``, that only the candidate does.
        interval: of the difference candidate - baseline (see `paired_difference_interval`).
        p_value: of McNemar's exact test that losing is as likely as gaining.
    """

    examples: int
    baseline: float
    candidate: float
    lost: int
    gained: int
    interval: Interval
    p_value: float

    @property
    def difference(self) -> float:
        """Share of the candidate less that of the baseline: below 0 is a loss."""
        return (self.gained - self.lost) / self.examples


def paired_accuracy(baseline: npt.NDArray[np.bool_], candidate: npt.NDArray[np.bool_]) -> PairedAccuracy:
    """Return the comparison of which examples two models get right, both of shape (examples,).

    Raises:
        ValueError: if the arrays are not boolean, of one length above 0.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import paired_accuracy
        >>> before, after = np.array([True, True, False, True]), np.array([True, False, False, True])
        >>> found = paired_accuracy(before, after)
        >>> found.baseline, found.candidate
        (0.75, 0.5)
    """
    from scipy.special import bdtr

    for name, array in (("baseline", baseline), ("candidate", candidate)):
        if array.dtype != np.bool_ or array.ndim != 1 or not array.size:
            raise ValueError(f"{name} must be a flat array of bool, not {array.dtype} of shape {array.shape}")
    if len(baseline) != len(candidate):
        raise ValueError(f"candidate must be of the same {len(baseline)} examples, but has {len(candidate)}")
    lost, gained = int((baseline & ~candidate).sum()), int((candidate & ~baseline).sum())
    interval = paired_difference_interval(gained, lost, len(baseline))
    p_value = min(1.0, 2 * float(bdtr(min(lost, gained), lost + gained, 0.5)))
    shares = float(baseline.mean()), float(candidate.mean())
    return PairedAccuracy(len(baseline), *shares, lost, gained, interval, p_value)


def paired_difference_interval(gained: int, lost: int, examples: int, confidence: float = 0.95) -> Interval:
    """Return the score interval of the difference of two paired shares, (gained - lost) / examples.

    It holds each difference d that the score test does not reject: abs(gained - lost - n d) <= z sqrt(n (2 q + d (1 -
    d))), with q the likeliest share of lost examples under d. Unlike a normal interval it has a width also where no
    example differs, z² / (n + z²) to each side.

    Source: T. Tango, Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design, Statistics in Medicine 17 (1998) 891-908.

    Raises:
        ValueError: if the counts are negative or more than ``examples``, or ``confidence`` is not between 0 and 1.
    """
    from scipy.special import ndtri

    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if min(gained, lost) < 0 or gained + lost > examples or examples < 1:
        raise ValueError(f"gained and lost must be counts of at most {examples} examples, not {gained} and {lost}")
    from scipy.optimize import brentq  # takes longer to import than all else here

    z = float(ndtri(0.5 + confidence / 2))
    estimate = (gained - lost) / examples

    def excess(difference: float) -> float:
        """Return how far the score is inside of ±z."""
        b = -gained - lost + (2 * examples - gained + lost) * difference
        c = -lost * difference * (1 - difference)
        likeliest = (math.sqrt(max(b * b - 8 * examples * c, 0)) - b) / (4 * examples)
        variance = examples * (2 * likeliest + difference * (1 - difference))
        return z * math.sqrt(max(variance, 0)) - abs(gained - lost - examples * difference)

    # At the estimate itself the variance can be 0, and so the excess, where nothing was gained and nothing lost.
    aside = 1e-12
    low = -1.0 if excess(aside - 1) >= 0 else float(brentq(excess, aside - 1, estimate - aside))
    high = 1.0 if excess(1 - aside) >= 0 else float(brentq(excess, estimate + aside, 1 - aside))
    return Interval(low, high, confidence)


def log_softmax(values: Array) -> npt.NDArray[np.float64]:
    """Return the logarithm of softmax along the last axis."""
    shifted = values.astype(np.float64) - values.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def next_token_divergence(expected: Array, logits: Array) -> npt.NDArray[np.float64]:
    """Return the Kullback-Leibler divergence, in nats, of softmax(logits) from softmax(expected), shape (...).

    Both are (..., vocabulary). It is Σ p (ln p - ln q) with p of the expected: what it costs to code the one's tokens
    with the other's probabilities.

    Raises:
        ValueError: if shapes differ.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import next_token_divergence
        >>> logits = np.array([[0.0, 1.0, 2.0]])
        >>> next_token_divergence(logits, logits), bool(next_token_divergence(logits, -logits) > 0)
        (array([0.]), True)
    """
    if expected.shape != logits.shape:
        raise ValueError(f"logits must have the shape {expected.shape} of expected, not {logits.shape}")

    p, q = log_softmax(expected), log_softmax(logits)
    terms = np.exp(p) * np.subtract(p, q, out=np.zeros_like(p), where=p > -np.inf)  # a class of p = 0 counts 0
    return np.asarray(np.maximum(terms.sum(axis=-1), 0))


def mean_interval(values: npt.NDArray[np.float64]) -> Interval:
    """Return the 95 % percentile bootstrap interval of a mean, of 2,000 resamples that are always drawn alike.

    Source: B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    array = checked(values, "values")
    generator = np.random.default_rng(0)
    means = np.array([array[generator.integers(0, len(array), len(array))].mean() for _ in range(_RESAMPLES)])
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(low), float(high), 0.95)
