"""Models of the zoo in fewer bits: what shares a scale, what calibrates, what it saves and costs, which layers stay."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.chapters import calls
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.perf.measuring import Counted, Derived, Measurement, Unmeasured, derived
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between
from tinytorch.perf.quantization import Scheme, quantize
from tinytorch.perf.quantization.accuracy import paired_accuracy
from tinytorch.perf.quantization.convert import Sensitivity, quantizable, quantize_model, relative_error, stored_bytes
from tinytorch.perf.quantization.layers import Plan
from tinytorch.perf.quantization.tradeoff import FLOAT, Tradeoff, accuracy_change, tradeoffs


@dataclass(frozen=True)
class Scored:
    """A version against the model that it was made of: bytes, and error of the outputs."""

    stored: Derived
    error: Counted


def outputs(model: Module, name: str, examples: int) -> Array:
    """Return the outputs of the zoo's ``model`` of that name for so many of its test examples, from the first."""
    with no_grad():
        found: Array = model(models.as_input(models.entry(name).data().test_inputs[:examples])).data
    return found


def scored(name: str, model: Module, versions: Mapping[str, Module], examples: int = 256) -> dict[str, Scored]:
    """Return what each version of the zoo's ``model`` of that name costs on the first of its test examples."""
    truth, whole = outputs(model, name, examples), Counted(stored_bytes(model), "B", "bytes of the state")

    def score(label: str, version: Module) -> Scored:
        error = relative_error(truth, outputs(version, name, examples))
        return Scored(
            Counted(stored_bytes(version), "B", whole.name).over(whole, "bytes of those in float32", "%"),
            Counted(error, "%", f"error of the {name.upper()}'s outputs, {label}"),
        )

    return {label: score(label, version) for label, version in versions.items()}


@dataclass(frozen=True)
class Calibrated:
    """Errors of a model's outputs over several draws of the examples that its ranges were taken from."""

    error: Measurement


def calibrations(name: str, model: Module, drawn: Mapping[str, Sequence[Module]]) -> dict[str, Calibrated]:
    """Return the errors of static versions of the zoo's ``model`` of that name, on its test set, by label."""
    truth = models.held_out_logits(model, name)

    def errors(label: str) -> Calibrated:
        found = tuple(relative_error(truth, models.held_out_logits(each, name)) for each in drawn[label])
        return Calibrated(Measurement(f"error of the outputs, {label}", found, "%", Conditions(sample=Sample.TRIALS)))

    return {label: errors(label) for label in drawn}


def over_draws(found: Mapping[str, Calibrated], one: str, other: str) -> Measurement:
    """Return the error of one kind over that of another, draw by draw."""
    pairs = zip(found[one].error.samples, found[other].error.samples, strict=True)
    parts = tuple(above / below for above, below in pairs)
    return Measurement(f"error of the outputs, {one} over {other}", parts, "", Conditions(sample=Sample.TRIALS))


def change_over_seeds(name: str, plan: Plan, seeds: Sequence[int]) -> Measurement:
    """Return how the zoo's models of that name from several seeds change their score in codes, in points."""
    seen = models.as_input(models.entry(name).data().train_inputs[:256])
    calibration = seen if plan.mode == "static" else None

    def change(model: Module) -> float:
        return models.accuracy(quantize_model(model, calibration, plan), name) - models.accuracy(model, name)

    found = tuple(change(models.trained(name, seed)) for seed in seeds)
    what = f"change of the {name.upper()}'s score over {len(seeds)} trainings"
    return Measurement(what, found, "points", Conditions(sample=Sample.SEEDS))


def all_sides(
    name: str, model: Module, plans: Mapping[str, Plan], trained: Mapping[str, Module], baselines: Mapping[str, str]
) -> dict[str, Tradeoff]:
    """Return what versions of the zoo's ``model`` take and give: quantized by ``plans``, and those that were trained.

    Ranges come from its first training examples. ``baselines`` names the version that another is compared with where
    that is not the float model.
    """
    seen = models.as_input(models.entry(name).data().train_inputs[:256])
    small = {key: quantize_model(model, seen, plan) for key, plan in plans.items()}
    found = tradeoffs(name, model, {**small, **trained}, baselines)
    # Other pages time the float model's pass, too.
    return found | {FLOAT: replace(found[FLOAT], seconds=calls.zoo_pass(found[FLOAT].seconds, name, 64))}


@dataclass(frozen=True)
class Version:
    """A version of a model beside its float model, of which alone nothing changed."""

    name: str
    all: Tradeoff
    change: Measurement | None
    divergence: Measurement | None


def versions_of(by_label: Mapping[str, Tradeoff]) -> list[Version]:
    """Return the versions of one model."""
    return [
        Version(label, each, None, None) if label == FLOAT else Version(label, each, each.change, each.divergence)
        for label, each in by_label.items()
    ]


@dataclass(frozen=True)
class Point:
    """A version of a model: bytes of those in float32, and score with the interval of its paired change."""

    model: str
    version: str
    stored: Derived
    score: Measurement


def bits_against_score(sides: Mapping[str, Mapping[str, Tradeoff]], labels: Mapping[str, str]) -> Iterator[Point]:
    """Yield the versions that ``labels`` names anew, of each model; an interval ends where every answer is right."""
    for name, by_label in sides.items():
        for label, shown in labels.items():
            each = by_label[label]
            score = each.score if label == FLOAT else derived("score", partial(_moved, each), each.change, unit="%")
            yield Point(name, shown, each.share, score)


def _moved(one: Tradeoff, change: Any) -> Any:
    """Return the score that a change of it comes to, from 0 to 1."""
    return np.clip(one.score.value - one.accuracy.difference + change, 0.0, 1.0)


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

    name = "part of the GPT's loss in two bits that training brought back"
    return derived(name, regained, rounded, trained, unit="%", statistic="one less the ratio of two paired differences")


def most_lose_less(sides: Mapping[str, Mapping[str, Tradeoff]], label: str, loss: float) -> Judgement:
    """Return whether most models lose at most ``loss`` of their score by one version."""
    changes = [by_label[label].change for by_label in sides.values()]
    return verdict_of_most([verdict_between(each, low=-loss) for each in changes])


def verdict_of_most(parts: Sequence[Judgement]) -> Judgement:
    """Return the verdict on most: supported if more than half are, refuted if half of them are, else open."""
    found, half = [part.verdict for part in parts], len(parts) / 2
    verdict = Verdict.REFUTED if found.count(Verdict.REFUTED) >= half else Verdict.OPEN
    if found.count(Verdict.SUPPORTED) > half:
        verdict = Verdict.SUPPORTED
    return Judgement(verdict, tuple(test for part in parts for test in part.tests))


@dataclass(frozen=True)
class MixedVersion:
    """A GPT in two bits but for some layers; ``change`` is against float."""

    kept: str
    count: Counted
    stored: Derived
    score: Counted
    change: Measurement


def weight_errors(model: Module, bits: int) -> dict[str, Counted]:
    """Return the error of a model's weights in codes over their own size, by what has a scale: of all layers."""
    weights = [layer.parameters()[0].data for layer in quantizable(model).values()]
    size, found = sum(float((weight**2).sum()) for weight in weights), {}
    for per in ("channel", "group"):
        coded = (quantize(weight, Scheme(bits, per=per)).dequantize() for weight in weights)
        lost = sum(float(((code - weight) ** 2).sum()) for code, weight in zip(coded, weights, strict=True))
        found[per] = Counted(math.sqrt(lost / size), "%", f"error of weights in {bits} bits, a scale for each {per}")
    return found


#: Where `mixed_versions` has the model in four bits; no share is as large.
FOUR_BITS = 4


def mixed_versions(
    gpt: Module, kept: Mapping[float, Sequence[str]], mixed: Mapping[float, Module], four_bits: Module
) -> dict[float, MixedVersion]:
    """Return what each mixed version takes and gets right, by the share of saved bytes that it gave back, 0 first.

    ``four_bits``, the model with all layers in four, comes last.
    """
    mixed, kept = {**mixed, FOUR_BITS: four_bits}, {**kept, FOUR_BITS: ()}
    whole = Counted(stored_bytes(gpt), "B", "bytes of the state")
    right = models.correct(gpt, "gpt")
    answers = {share: models.correct(version, "gpt") for share, version in mixed.items()}

    return {
        share: MixedVersion(
            ", ".join(kept[share]) or ("none, in four bits" if share == FOUR_BITS else "none"),
            Counted(len(kept[share]), "1", "layers left in float"),
            Counted(stored_bytes(version), "B", whole.name).over(whole, "bytes of those in float32", "%"),
            Counted(float(answers[share].mean()), "%", "share of the test set that is right"),
            _change(right, answers[share], f"change of the GPT's score, {len(kept[share])} layers in float"),
        )
        for share, version in mixed.items()
    }


def changed(before: Module, after: Module, name: str) -> Measurement:
    """Return how the share of test sequences that a GPT gets right changes from one version to another."""
    return _change(models.correct(before, "gpt"), models.correct(after, "gpt"), name)


def _change(before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_], name: str) -> Measurement:
    return accuracy_change(paired_accuracy(before, after), name)


def errors_by_layer(scan: Sequence[Sensitivity]) -> dict[str, Counted]:
    """Return the error of the outputs with one layer alone in few bits, by layer."""
    return {row.name: Counted(row.error, "%", f"output error with only {row.name} in two bits") for row in scan}
