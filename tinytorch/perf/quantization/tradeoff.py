"""Tradeoff of one quantization, from one run: bytes, milliseconds, and what the task says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinytorch import datasets, models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring import Measurement, Statistic, interleave, quantity, ratio
from tinytorch.perf.quantization.accuracy import (
    PairedAccuracy,
    mean_interval,
    next_token_divergence,
    paired_accuracy,
)
from tinytorch.perf.quantization.convert import relative_error, stored_bytes

#: The name of the row that everything is compared with.
FLOAT = "float32"


@dataclass(frozen=True)
class Tradeoff:
    """Trade-off of one version of a model of the zoo: what it takes and gives.

    Attributes:
        stored: bytes of its state.
        seconds: of one forward pass of the batch, in turns with those of the other versions.
        speedup: time of the float model over this one's, above 1 is faster.
        accuracy: on the whole test part, paired with the float model's.
        output_error: root of the summed squared difference of all logits over that of the float model's.
        divergence: nats per token, of models that predict tokens: mean over the test sequences.
    """

    stored: int
    seconds: Measurement
    speedup: Measurement
    accuracy: PairedAccuracy
    output_error: float
    divergence: Statistic | None


def tradeoffs(
    name: str, model: Module, versions: Mapping[str, Module], batch: int = 64, repeats: int = 15
) -> dict[str, Tradeoff]:
    """Return the tradeoff of a float model of the zoo, as `FLOAT`, and of each of its ``versions`` under their names.

    Raises:
        ValueError: if the zoo has no such model, a version is called `FLOAT`, or there is none.
    """
    if not versions or FLOAT in versions:
        raise ValueError(f"versions must name at least one model, none of them {FLOAT!r}, not {[*versions]}")
    every = {FLOAT: model, **versions}
    seconds = _seconds(every, models.example(name, batch), repeats)
    right = {label: models.correct(each, name) for label, each in every.items()}
    logits = {label: models.held_out_logits(each, name) for label, each in every.items()}
    return {
        label: Tradeoff(
            stored_bytes(each),
            seconds[label],
            _speedup(seconds, label),
            paired_accuracy(right[FLOAT], right[label]),
            relative_error(logits[FLOAT], logits[label]),
            _divergence(logits[FLOAT], logits[label], name, label),
        )
        for label, each in every.items()
    }


def _seconds(every: Mapping[str, Module], inputs: Tensor | Array, repeats: int) -> dict[str, Measurement]:
    def forward_of(model: Module) -> Callable[[], object]:
        return lambda: model(inputs)

    with no_grad():
        return interleave({label: forward_of(each) for label, each in every.items()}, repeats=repeats)


def _speedup(seconds: Mapping[str, Measurement], label: str) -> Measurement:
    name = f"float32 over {label}, forward pass"
    return quantity(1, "", name) if label == FLOAT else ratio(seconds[FLOAT], seconds[label], name)


def _divergence(expected: Array, got: Array, name: str, label: str) -> Statistic | None:
    if expected.ndim != 3:
        return None
    counted = models.entry(name).data().test_targets != datasets.IGNORED
    each = next_token_divergence(expected, got)
    by_sequence = (each * counted).sum(axis=1) / counted.sum(axis=1)
    return Statistic(
        f"divergence of the next token, {label}",
        tuple(float(value) for value in by_sequence),
        "nats",
        {"samples_are": "sequences", "statistic": "mean over sequences", "interval": "bootstrap"},
        value=float(by_sequence.mean()),
        bounds=mean_interval(by_sequence),
    )


def accuracy_change(accuracy: PairedAccuracy, name: str) -> Statistic:
    """Return candidate less baseline as a number of a page: a share (0 to 1), below 0 is a loss.

    Each sample is an example: 1 if gained, -1 if lost. The interval is the score interval of paired shares.
    """
    kept = accuracy.examples - accuracy.gained - accuracy.lost
    samples = (1.0,) * accuracy.gained + (-1.0,) * accuracy.lost + (0.0,) * kept
    how = {
        "samples_are": "examples",
        "statistic": "mean of paired differences",
        "interval": "Tango 1998",
        "p_value": accuracy.p_value,
    }
    return Statistic(name, samples, "points", how, value=accuracy.difference, bounds=accuracy.interval)


def error_ratios(model: Module, worse: Module, better: Module, name: str) -> Measurement:
    """Return, for each test example, how much larger the output error of ``worse`` is than that of ``better``.

    An error is the root of the summed squared difference of an example's logits to those of ``model``.

    Raises:
        ValueError: if an output of ``better`` is exact, so that nothing can be a multiple of its error.
    """
    expected = models.held_out_logits(model, name)

    def errors(candidate: Module) -> npt.NDArray[np.float64]:
        difference = models.held_out_logits(candidate, name).astype(np.float64) - expected
        return np.asarray(np.sqrt((difference**2).reshape(len(difference), -1).sum(axis=1)))

    below = errors(better)
    if not below.all():
        raise ValueError("better must differ from model on every test example, but some outputs are equal")
    ratios = errors(worse) / below
    how = {"samples_are": "examples"}
    return Measurement(f"output error over output error, {name}", tuple(ratios.tolist()), "", how)
