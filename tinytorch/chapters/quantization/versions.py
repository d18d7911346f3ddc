"""Models of the zoo in fewer bits: what shares a scale, what calibrates, and what it saves and costs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.chapters import calls
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, derived
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Verdict, verdict_between
from tinytorch.perf.ops.affine import Granularity, Scheme, quantize, spread
from tinytorch.perf.quantization.convert import (
    quantizable,
    quantize_model,
    relative_error,
    sensitivity_scan,
    stored_bytes,
)
from tinytorch.perf.quantization.layers import Plan
from tinytorch.perf.quantization.tradeoff import FLOAT, Tradeoff, tradeoffs

#: What predicts the error of a model in few bits from those of its layers.
_IN_SQUARES = "squared steps over 12, and errors of layers that add in squares"


def outputs(model: Module, name: str, examples: int) -> Array:
    """Return the outputs of the zoo's ``model`` of that name for so many of its test examples, from the first."""
    with no_grad():
        found: Array = model(models.as_input(models.entry(name).data().test_inputs[:examples])).data
    return found


def scored(name: str, model: Module, versions: Mapping[str, Module], examples: int = 256) -> dict[str, dict[str, Any]]:
    """Return the bytes of each version of the zoo's ``model`` of that name, and the error of its outputs."""
    truth, whole = outputs(model, name, examples), Counted(stored_bytes(model), "B", "bytes of the state")
    return {
        label: {
            "stored": Counted(stored_bytes(each), "B", whole.name).over(whole, "bytes of those in float32", "%"),
            "error": Counted(
                relative_error(truth, outputs(each, name, examples)), "%", f"error of the outputs, {label}"
            ),
        }
        for label, each in versions.items()
    }


def by_granularity(name: str, model: Module, versions: Mapping[str, Module], bits: int) -> dict[str, dict[str, Any]]:
    """Return what `scored` does of weight-only versions "per tensor", "per channel" and "per group", and predictions.

    Each layer is rounded alone per tensor. The square of its error falls with the mean square of its steps, and those
    of all layers add: this gives the ``predicted`` errors, and what is left ``relative`` to per tensor.
    ``over_predicted`` is what was found over the prediction.
    """
    found = scored(name, model, versions)
    inputs = models.as_input(models.entry(name).data().test_inputs[:256])
    start: Granularity = "tensor"
    alone = {
        row.name: row.error**2 for row in sensitivity_scan(model, inputs, Plan("weight-only", Scheme(bits, per=start)))
    }
    coarse = squared_errors(model, Scheme(bits, per=start))

    def row(label: str) -> dict[str, Any]:
        per: Any = label.removeprefix("per ")
        fine = squared_errors(model, Scheme(bits, per=per))
        error = math.sqrt(sum(square * fine[layer] / coarse[layer] for layer, square in alone.items()))
        left = error / math.sqrt(sum(alone.values()))
        return found[label] | {
            "relative": Counted(left, "%", f"error of the outputs by the steps, {label} over per tensor"),
            "predicted": Modelled(error, "%", "error of the outputs", _IN_SQUARES),
            "over_predicted": Counted(found[label]["error"].value / error, "", "found over predicted error"),
        }

    return {label: row(label) for label in found}


def squared_errors(model: Module, scheme: Scheme) -> dict[str, float]:
    """Return the mean square of the errors that rounding adds to the weight of each layer: the squared step over 12."""

    def squared(weight: Array) -> float:
        made = quantize(weight, scheme)
        steps = np.broadcast_to(spread(made.scale, made.zero_point, weight.shape, scheme)[0], weight.shape)
        return float(np.mean(np.square(steps)) / 12)

    layers: dict[str, Any] = quantizable(model)
    return {name: squared(layer.weight.data) for name, layer in layers.items()}


def calibrations(name: str, model: Module, drawn: Mapping[str, Sequence[Module]]) -> dict[str, Measurement]:
    """Return the errors of the outputs of static versions of the zoo's ``model`` of that name, on its test set.

    The samples of each label are the draws of the examples that ranges were taken from.
    """
    truth = models.held_out_logits(model, name)

    def errors(label: str) -> Measurement:
        found = tuple(relative_error(truth, models.held_out_logits(each, name)) for each in drawn[label])
        return Measurement(f"error of the outputs, {label}", found, "%", Conditions(sample=Sample.TRIALS))

    return {label: errors(label) for label in drawn}


def over_draws(found: Mapping[str, Measurement], one: str, other: str) -> Measurement:
    """Return the error of one kind over that of another, draw by draw."""
    parts = tuple(above / below for above, below in zip(found[one].samples, found[other].samples, strict=True))
    return Measurement(f"error of the outputs, {one} over {other}", parts, "", Conditions(sample=Sample.TRIALS))


def change_over_seeds(name: str, plan: Plan, seeds: Sequence[int]) -> Measurement:
    """Return how the zoo's models of that name from several seeds change their score in codes, in points."""
    seen = models.as_input(models.entry(name).data().train_inputs[:256])

    def change(model: Module) -> float:
        return models.accuracy(quantize_model(model, seen, plan), name) - models.accuracy(model, name)

    found = tuple(change(models.trained(name, seed)) for seed in seeds)
    what = f"change of the {name.upper()}'s score over {len(seeds)} trainings"
    return Measurement(what, found, "points", Conditions(sample=Sample.SEEDS))


def all_sides(
    name: str,
    model: Module,
    plans: Mapping[str, Plan],
    made: Mapping[str, Module] | None = None,
    baselines: Mapping[str, str] | None = None,
    repeats: int = 30,
) -> dict[str, Tradeoff]:
    """Return what versions of the zoo's ``model`` take and give: quantized by ``plans``, and those that are ``made``.

    Ranges come from its first training examples. ``baselines`` names the version that another is compared with where
    that is not the float model.
    """
    seen = models.as_input(models.entry(name).data().train_inputs[:256])
    small = {key: quantize_model(model, seen, plan) for key, plan in plans.items()}
    found = tradeoffs(name, model, {**small, **(made or {})}, baselines, repeats=repeats)
    # Other pages time the float model's pass, too.
    return found | {FLOAT: replace(found[FLOAT], seconds=calls.zoo_pass(found[FLOAT].seconds, name, 64))}


def recovered(rounded: Measurement, trained: Measurement) -> Measurement | Unmeasured:
    """Return which part of the loss by rounding training brought back, if rounding is proven to cost anything."""
    if verdict_between(rounded, high=0.0, strict=True).verdict is not Verdict.SUPPORTED:
        return Unmeasured(
            "two bits are not proven to cost this model anything, so that there may be no loss to recover"
        )
    return recovered_share(rounded, trained)


def recovered_share(rounded: Measurement, trained: Measurement) -> Measurement:
    """Return which part of the loss by rounding, whose interval is below 0, is gone after training; below 0 it grew."""

    def regained(lost: Any, left: Any) -> Any:
        return np.where(lost < 0, 1 - left / np.where(lost < 0, lost, -1), -np.inf)

    name = "the share of the loss that training recovered"
    return derived(name, regained, rounded, trained, unit="%", statistic="one less the ratio of two paired differences")
