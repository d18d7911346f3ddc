"""Tradeoff of one quantization: bytes, milliseconds, and accuracy that is paired on the same examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import datasets, models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.undisturbed import evaluating, undisturbed
from tinytorch.perf.measuring import Counted, Derived, Measurement, interleave, ratio
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.statistics import CONFIDENCE, Interval, Mean, PairedShares, interval_of_law
from tinytorch.perf.quantization.convert import relative_error, stored_bytes

#: The name of the row that everything is compared with.
FLOAT = "float32"


@dataclass(frozen=True)
class Tradeoff:
    """Trade-off of one version of a model of the zoo: what it takes and gives.

    Attributes:
        stored: bytes of its state; ``share`` of those of the float model, which is ``smaller`` times as large.
        seconds: of one forward pass of the batch, in turns with those of the other versions.
        speedup: time of the float model over this one's, above 1 is faster.
        score: share of the test part that is right; ``change`` of it, paired with its baseline.
        accuracy: both as counts.
        output_error: root of the summed squared difference of all logits over that of its baseline's.
        divergence: nats per token, of models that predict tokens, from its baseline: mean over the test sequences.
    """

    stored: Counted
    share: Derived
    smaller: Derived
    seconds: Measurement
    speedup: Measurement
    score: Counted
    change: Measurement
    accuracy: PairedAccuracy
    output_error: Counted
    divergence: Measurement | None


def tradeoffs(
    name: str,
    model: Module,
    versions: Mapping[str, Module],
    baselines: Mapping[str, str] | None = None,
    batch: int = 64,
    repeats: int = 15,
) -> dict[str, Tradeoff]:
    """Return bytes, time and accuracy of a float model of the zoo, as "float32", and of its ``versions`` by name.

    Args:
        name: which model of the zoo ``model`` is.
        model: in float.
        versions: of it, by name.
        baselines: with which version each of these is compared; with "float32", those that it does not name. Speedups
            are all over "float32".
        batch: inputs of a forward pass.
        repeats: timed samples of each version.

    Raises:
        ValueError: if the zoo has no such model, a version is called "float32", there is none, or ``baselines`` names
            one that there is not.

    Examples:
        >>> from tinytorch.models import mlp
        >>> from tinytorch.perf.quantization import quantize_model, tradeoffs
        >>> model = mlp().eval()
        >>> found = tradeoffs("mlp", model, {"8 bits": quantize_model(model)}, repeats=6)
        >>> sorted(found)
        ['8 bits', 'float32']
    """
    if not versions or FLOAT in versions:
        raise ValueError(f"versions must name at least one model, none of them {FLOAT!r}, not {[*versions]}")
    every = {FLOAT: model, **versions}
    against = {label: (baselines or {}).get(label, FLOAT) for label in every}
    unknown = {*(baselines or {}), *against.values()} - {*every}
    if unknown:
        raise ValueError(f"baselines must name versions, but {sorted(unknown)} are not in {[*every]}")
    seconds = forward_seconds(every, models.example(name, batch), repeats)
    logits = {label: models.held_out_logits(each, name) for label, each in every.items()}
    right = {label: models.right_answers(each, name) for label, each in logits.items()}

    def tradeoff(label: str, each: Module) -> Tradeoff:
        baseline = against[label]
        stored, whole = (Counted(stored_bytes(one), "B", "bytes of the state") for one in (each, model))
        accuracy = paired_accuracy(right[baseline], right[label])
        over = f"float32 over {label}, forward pass"
        beside = "" if baseline == FLOAT else f" against {baseline}"
        return Tradeoff(
            stored,
            stored.over(whole, f"bytes of the {name.upper()}, {label}, over those in float32", "%"),
            whole.over(
                stored, f"bytes of the float {name.upper()} over those with {label}, scales and biases included"
            ),
            seconds[label],
            Counted(1, "", over) if label == FLOAT else ratio(seconds[FLOAT], seconds[label], over),
            Counted(accuracy.candidate, "%", "share of the test set that is right"),
            accuracy_change(accuracy, f"change of the {name.upper()}'s score, {label}{beside}"),
            accuracy,
            Counted(relative_error(logits[baseline], logits[label]), "%", "relative error of the outputs"),
            _divergence(logits[baseline], logits[label], name, label),
        )

    return {label: tradeoff(label, each) for label, each in every.items()}


def forward_seconds(every: Mapping[str, Module], inputs: Any, repeats: int) -> dict[str, Measurement]:
    """Return the time of a forward pass of each model, in turns."""
    with undisturbed(*every.values()), evaluating(*every.values()), no_grad():
        return interleave({label: partial(each, inputs) for label, each in every.items()}, repeats=repeats)


def _divergence(expected: Array, got: Array, name: str, label: str) -> Measurement | None:
    if expected.ndim != 3:
        return None
    counted = models.entry(name).data().test_targets != datasets.IGNORED
    each = next_token_divergence(expected, got)
    by_sequence = (each * counted).sum(axis=1) / counted.sum(axis=1)
    samples = tuple(by_sequence.tolist())
    conditions = Conditions(sample=Sample.SEQUENCES, statistic="mean over sequences", interval_by="Student's t")
    return Measurement(f"divergence of the next token, {label}", samples, "nats", conditions, law=Mean(samples))


def accuracy_change(accuracy: PairedAccuracy, name: str) -> Measurement:
    """Return the difference of two accuracies, candidate minus baseline, as a share (-1 to 1); below 0 is a loss.

    Each sample is an example: 1 if gained, -1 if lost. The interval is the score interval of paired shares.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import accuracy_change, paired_accuracy
        >>> before, after = np.array([True, True, False, True]), np.array([True, False, False, True])
        >>> accuracy_change(paired_accuracy(before, after), "8 bits").median
        -0.25
    """
    kept = accuracy.examples - accuracy.gained - accuracy.lost
    samples = (1.0,) * accuracy.gained + (-1.0,) * accuracy.lost + (0.0,) * kept
    conditions = Conditions(
        sample=Sample.EXAMPLES,
        statistic="mean of paired differences",
        interval_by="Tango's score test, 1998",
        note=f"The p-value is {accuracy.p_value:.3g}.",
    )
    law = PairedShares(accuracy.gained, accuracy.lost, accuracy.examples)
    return Measurement(name, samples, "points", conditions, law=law)


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
    """Compare the right answers of two models, both of shape (examples,).

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
