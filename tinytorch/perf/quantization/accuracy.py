"""Accuracy that quantization costs in a task: paired on the same examples, with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinytorch.core.op import Array
from tinytorch.perf.measuring.statistics import CONFIDENCE, Interval, PairedShares, interval_of_law


@dataclass(frozen=True)
class PairedAccuracy:
    """Two models on the same examples.

    Attributes:
        examples: how many.
        baseline, candidate: shares (0 to 1) that each gets right.
        lost: examples that only the baseline gets right; ``gained``, that only the candidate does.
        p_value: of McNemar's exact test that losing is as likely as gaining.
    """

    examples: int
    baseline: float
    candidate: float
    lost: int
    gained: int
    p_value: float

    @property
    def difference(self) -> float:
        """Share of the candidate less that of the baseline: below 0 is a loss."""
        return (self.gained - self.lost) / self.examples

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the difference: see `statistics.PairedShares`."""
        return interval_of_law(PairedShares(self.gained, self.lost, self.examples), CONFIDENCE)


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
    p_value = min(1.0, 2 * float(bdtr(min(lost, gained), lost + gained, 0.5)))
    shares = float(baseline.mean()), float(candidate.mean())
    return PairedAccuracy(len(baseline), *shares, lost, gained, p_value)


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
    """
    if expected.shape != logits.shape:
        raise ValueError(f"logits must have the shape {expected.shape} of expected, not {logits.shape}")

    p, q = log_softmax(expected), log_softmax(logits)
    terms = np.exp(p) * np.subtract(p, q, out=np.zeros_like(p), where=p > -np.inf)  # a class of p = 0 counts 0
    return np.asarray(np.maximum(terms.sum(axis=-1), 0))
