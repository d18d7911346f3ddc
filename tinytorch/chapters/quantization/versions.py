"""Models of the zoo in fewer bits: what shares a scale, what calibrates, what it saves and costs, which layers stay."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.chapters import calls, sources
from tinytorch.chapters.words import word_between
from tinytorch.core.module import Module
from tinytorch.perf.machine import Ceilings, ceilings
from tinytorch.perf.measuring import Measurement, Statistic, limit_blas_threads, quantity
from tinytorch.perf.measuring.judge import CANNOT_TELL, REFUTED, SUPPORTED
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.quantization.accuracy import paired_accuracy
from tinytorch.perf.quantization.convert import Sensitivity, relative_error, stored_bytes
from tinytorch.perf.quantization.tradeoff import FLOAT, Tradeoff, accuracy_change
from tinytorch.report import Column, Page, bars, color, subplots, verdict_between, verdict_between_all

GRANULARITY = (
    Column("model", "Model"),
    Column("tensor", "Error, per tensor", "%"),
    Column("channel", "per channel", "%"),
    Column("group", "per group", "%"),
    Column("tensor-bytes", "Stored, per tensor", "B"),
    Column("channel-bytes", "per channel", "B"),
    Column("group-bytes", "per group", "B"),
)
CALIBRATION = (
    Column("seen", "Calibrated with"),
    Column("error", "Error of the outputs", "%"),
    Column("change", "Change of accuracy"),
)
TRADEOFF = (
    Column("model", "Model"),
    Column("version", "Version"),
    Column("stored", "Stored", "B"),
    Column("seconds", "Forward pass of 64"),
    Column("score", "Score", "%"),
    Column("change", "Change, paired"),
    Column("error", "Error of the outputs", "%"),
)
DIVERGENCE = (Column("version", "Version of the GPT"), Column("divergence", "Divergence of the next token"))
MIXED = (
    Column("kept", "Layers left in float"),
    Column("bytes", "Bytes, of float32", "%"),
    Column("score", "Score", "%"),
    Column("change", "Change, paired"),
)
#: Versions as the page calls them, and two sets of examples that calibrate.
DYNAMIC, FOUR_BITS, TWO_BITS, RETRAINED = "8 bits, dynamic", "4 bits, groups", "2 bits", "2 bits, retrained"
UNCALIBRATED, DARK = "none: dynamic", "256 images, half as bright"
#: Label and colour of the versions that the figure of bits against accuracy shows.
_SHOWN = {
    FLOAT: ("float32", "float32"),
    DYNAMIC: ("8 bits", "8-bit"),
    FOUR_BITS: ("4 bits", "4-bit"),
    TWO_BITS: ("2 bits", "2-bit"),
    RETRAINED: ("2 bits, retrained", "retrained"),
}
#: Models, and what each version of them takes and gives.
Tradeoffs = Mapping[str, Mapping[str, Tradeoff]]


def begin() -> tuple[Page, Ceilings, dict[str, Module]]:
    """Return the page, the ceilings of one thread, to which BLAS is held, and the trained models of the zoo."""
    limit_blas_threads(1)
    return Page("quantization"), ceilings(threads=1), {name: models.trained(name) for name in models.ZOO}


def granularity_rows(
    trained: Mapping[str, Module], quantized: Callable[[str, int, str], Module]
) -> list[dict[str, Any]]:
    """Return a row of `GRANULARITY` for each trained model, in four bits with a scale per tensor, channel and group.

    ``quantized(name, bits, per)`` makes the version of the model of that name.
    """
    rows = []
    for name, model in trained.items():
        logits = models.held_out_logits(model, name)
        row: dict[str, Any] = {"model": name.upper()}
        for per in ("tensor", "channel", "group"):
            version = quantized(name, 4, per)
            row[per] = relative_error(logits, models.held_out_logits(version, name))
            row[f"{per}-bytes"] = stored_bytes(version)
        rows.append(row)
    return rows


def record_granularity(
    page: Page, rows: Sequence[Mapping[str, Any]], against: Mapping[tuple[str, int], Measurement]
) -> None:
    """Show what shares a scale, and the claim that channels are better; ``against`` is by model and bits.

    Each of ``against`` is the error with a scale per tensor over that with one per channel.
    """
    for (name, bits), found in against.items():
        page.number(f"{name}-tensor-over-channel-{bits}", found)
    page.table(
        "granularity",
        rows,
        GRANULARITY,
        caption="Four-bit weights: error of all test outputs by what shares a scale, and what the model then takes.",
    )
    page.claim(
        "per-channel",
        statement="A scale per channel is better than a scale per tensor.",
        source="R. Krishnamoorthi, Quantizing deep convolutional networks for efficient inference, 2018",
        source_url="https://arxiv.org/abs/1806.08342",
        verdict=verdict_between_all(against.values(), low=1.0, strict=True),
        evidence="Of the median test example, the output error with a scale per tensor was held against that with a "
        "scale per channel. For the MLP it is {mlp-tensor-over-channel-8} as large in eight bits and "
        "{mlp-tensor-over-channel-4} in four. For the CNN it is {cnn-tensor-over-channel-8} and "
        "{cnn-tensor-over-channel-4}. For the GPT it is {gpt-tensor-over-channel-8} and {gpt-tensor-over-channel-4}.",
    )


@dataclass(frozen=True)
class Scored:
    """A version against the model that it was made of.

    Attributes:
        error: relative error of the outputs on the whole test set.
        change: of the test accuracy, paired.
    """

    error: float
    change: Statistic


def scored(name: str, model: Module, versions: Mapping[str, Module]) -> dict[str, Scored]:
    """Return what each version of the zoo's ``model`` of that name costs on its test set."""
    logits, right = models.held_out_logits(model, name), models.correct(model, name)
    return {
        label: Scored(
            relative_error(logits, models.held_out_logits(version, name)),
            accuracy_change(paired_accuracy(right, models.correct(version, name)), f"change of test accuracy, {label}"),
        )
        for label, version in versions.items()
    }


def record_calibration(page: Page, found: Mapping[str, Scored]) -> None:
    """Show the MLP by what its activations' ranges were taken from, and the claim on calibration.

    `UNCALIBRATED` and `DARK` are two of the versions in ``found``.
    """
    page.table(
        "calibration",
        [{"seen": label, "error": each.error, "change": each.change} for label, each in found.items()],
        CALIBRATION,
        caption="The MLP in eight bits, by what its activations' ranges were taken from; accuracy is that of its whole "
        "test set.",
    )
    page.number("dark-change", found[DARK].change)
    page.number("dynamic-change", found[UNCALIBRATED].change)
    page.claim(
        "no-calibration",
        statement="INT8 needs no calibration: it is a matter of pushing a button.",
        source="after M. Nagel et al., A White Paper on Neural Network Quantization, 2021, who calibrate with "
        "unlabelled data",
        source_url="https://arxiv.org/abs/2106.08295",
        verdict=verdict_between_all((found[label].change for label in (UNCALIBRATED, DARK)), low=-0.02),
        evidence="With dynamic ranges the MLP's accuracy changed by {dynamic-change}. With fixed ranges from images "
        "half as bright as those that came it changed by {dark-change}. The test allows a loss of two points in both.",
    )


def record_tradeoffs(page: Page, sides: Tradeoffs) -> None:
    """Show bytes, time and accuracy of every version of every model, and the claims on eight bits."""
    page.table(
        "three-sides",
        [_tradeoff_row(name, label, each) for name, by_label in sides.items() for label, each in by_label.items()],
        TRADEOFF,
        caption="Bytes, time and accuracy of every version, from one run. Scores are those of the whole test sets, "
        "changes are paired on the same examples.",
    )
    page.table(
        "divergence",
        [{"version": label, "divergence": each.divergence} for label, each in sides["gpt"].items() if label != FLOAT],
        DIVERGENCE,
        caption="Kullback-Leibler divergence of the GPT's next token from that of the float model, mean over the test "
        "sequences.",
    )
    changes = [_record_eight_bits(page, name, by_label[FLOAT], by_label[DYNAMIC]) for name, by_label in sides.items()]
    smaller = [by_label[FLOAT].stored / by_label[DYNAMIC].stored for by_label in sides.values()]
    page.claim(
        "four-times-smaller",
        statement="INT8 models are four times smaller.",
        source=sources.COURSE_QUANTIZATION,
        source_url=sources.COURSE_QUANTIZATION_URL,
        verdict=SUPPORTED if all(3.6 <= each <= 4.4 for each in smaller) else REFUTED,
        evidence="With scales and float biases, the MLP shrank {mlp-smaller} and the CNN {cnn-smaller}. The GPT shrank "
        "{gpt-smaller}. The test allows a tenth to either side of four.",
    )
    page.claim(
        "loss-below-one",
        statement="INT8 costs less than 1 % of accuracy.",
        source=sources.COURSE_QUANTIZATION,
        source_url=sources.COURSE_QUANTIZATION_URL,
        verdict=verdict_between_all(changes, low=-0.01, strict=True),
        evidence="With 8 bits and dynamic ranges the score of the MLP changed by {mlp-change} and that of the CNN by "
        "{cnn-change}. That of the GPT changed by {gpt-change}. All three intervals must leave out a loss of a point.",
    )


def _tradeoff_row(name: str, label: str, each: Tradeoff) -> dict[str, Any]:
    is_float = label == FLOAT
    return {
        "model": name.upper(),
        "version": label,
        "stored": each.stored,
        "seconds": calls.zoo_pass(each.seconds, name, 64) if is_float else each.seconds,
        "score": each.accuracy.candidate,
        "change": None if is_float else _score_change(name, label, each),
        "error": None if is_float else each.output_error,
    }


def _score_change(name: str, label: str, each: Tradeoff) -> Statistic:
    return accuracy_change(each.accuracy, f"change of the {name.upper()}'s score, {label}")


def _record_eight_bits(page: Page, name: str, whole: Tradeoff, dynamic: Tradeoff) -> Statistic:
    """Record what a model in eight bits takes and how fast it is, and return how its score changed."""
    what = f"bytes of the float {name.upper()} over those with 8 bits, scales and biases included"
    page.number(f"{name}-smaller", whole.stored / dynamic.stored, unit="", what=what)
    page.number(f"{name}-speedup", dynamic.speedup)
    change = _score_change(name, DYNAMIC, dynamic)
    page.number(f"{name}-change", change)
    return change


def record_pareto(page: Page, sides: Tradeoffs) -> None:
    """Show what is stored against what is still right, and what training with the rounding brought back."""
    figure, axes = subplots(len(sides), 1, height=2.0 * len(sides), sharex=True)
    for ax, (name, by_label) in zip(axes, sides.items(), strict=True):
        for label, (shown, variant) in _SHOWN.items():
            each = by_label[label]
            score, interval = each.accuracy.candidate, each.accuracy.interval
            below, above = each.accuracy.difference - interval.low, interval.high - each.accuracy.difference
            reach = [[0], [0]] if label == FLOAT else [[below], [above]]
            ax.errorbar(
                100 * each.stored / by_label[FLOAT].stored,
                100 * score,
                yerr=100 * np.array(reach),
                color=color(variant),
                marker="o",
                capsize=3,
                linestyle="",
                label=shown,
            )
        ax.set_ylabel(f"{name.upper()}: score (%)")
        ax.set_xscale("log", base=2)
    axes[-1].set_xticks([6.25, 12.5, 25, 50, 100], ["6", "12", "25", "50", "100"])
    axes[-1].set_xlabel("bytes, of those in float32 (%)")
    axes[0].legend(loc="lower right")
    page.figure(
        "pareto",
        figure,
        caption="Bits against accuracy: what is stored and what is still right. Error bars are the intervals of the "
        "paired difference from float32.",
        alt="Three panels, one for each model, of test score over stored bytes: a point with an error bar each for "
        "float32, 8 bits, 4 bits, 2 bits, and 2 bits retrained.",
    )
    gpt = sides["gpt"]
    for key, label in (("two", TWO_BITS), ("learned", RETRAINED), ("four", FOUR_BITS)):
        page.number(f"gpt-{key}", _score_change("gpt", label, gpt[label]))
    _record_recovered(page, *(_score_change("gpt", label, gpt[label]) for label in (TWO_BITS, RETRAINED)))
    share = gpt[RETRAINED].stored / gpt[FLOAT].stored
    what = "bytes of the GPT with two-bit weights over those in float32"
    page.number("gpt-two-bytes", share, unit="%", what=what)


def _record_recovered(page: Page, rounded: Statistic, trained: Statistic) -> None:
    """Record how much of what two bits cost the GPT training brought back, if they are proven to cost it anything."""
    if verdict_between(rounded, high=0.0, strict=True) != SUPPORTED:
        because = "two bits changed the score by {gpt-two}, so that there may be no loss to recover"
        page.word("recovers", CANNOT_TELL, because=because)
        return
    recovered = recovered_share(rounded, trained)
    page.number("gpt-recovered", recovered)
    page.word(
        "recovers",
        word_between(recovered, {"most of it": (0.5, None), "some of it": (0.1, 0.5), "hardly any of it": (None, 0.1)}),
        because="{gpt-recovered} of the loss was recovered; more than half counts as most, up to a tenth as hardly any",
    )


def recovered_share(rounded: Statistic, trained: Statistic) -> Statistic:
    """Return which part of the loss by rounding is gone after training; below 0 the loss grew.

    The interval holds what the intervals of both make of it, each by itself, in quadrature.

    Args:
        rounded: change of the score by rounding, with an interval below 0.
        trained: change of the score after training.
    """
    value = 1 - trained.median / rounded.median
    by_trained = sorted(1 - end / rounded.median for end in (trained.interval.low, trained.interval.high))
    by_rounded = sorted(1 - trained.median / end for end in (rounded.interval.low, rounded.interval.high))
    down, up = (math.hypot(by_trained[at] - value, by_rounded[at] - value) for at in (0, 1))
    name = "part of the GPT's loss in two bits that training brought back"
    how = {**trained.how, "statistic": "one less the ratio of two paired differences"}
    bounds = Interval(value - down, value + up, min(rounded.interval.confidence, trained.interval.confidence))
    samples = tuple(1 - each / rounded.median for each in trained.samples)
    return Statistic(name, samples, "%", how, value=value, bounds=bounds)


@dataclass(frozen=True)
class MixedVersion:
    """A GPT in two bits but for some layers.

    Attributes:
        kept: names of the layers that stayed in float.
        stored: its bytes over those of the float model.
        right: which test examples it gets right.
    """

    kept: Sequence[str]
    stored: float
    right: npt.NDArray[np.bool_]


def mixed_versions(
    gpt: Module, kept: Mapping[float, Sequence[str]], mixed: Mapping[float, Module]
) -> dict[float, MixedVersion]:
    """Return what each mixed version takes and gets right, by the share of saved bytes that it gave back."""
    whole = stored_bytes(gpt)
    return {
        share: MixedVersion(kept[share], stored_bytes(version) / whole, models.correct(version, "gpt"))
        for share, version in mixed.items()
    }


def record_mixed(
    page: Page, scan: Sequence[Sensitivity], right: npt.NDArray[np.bool_], found: Mapping[float, MixedVersion]
) -> None:
    """Show which layers suffer most from two bits, what it brings to leave them in float, and the claim on it.

    Args:
        page: where to.
        scan: the error with each layer alone in two bits.
        right: which test examples the float model gets right.
        found: the mixed versions, none and a fifth of the saved bytes given back among them.
    """
    figure, ax = subplots(height=3.0)
    errors = [quantity(row.error, "%", f"output error with only {row.name} in two bits") for row in scan]
    bars(ax, [row.name for row in scan], errors, quantity="error of the outputs", variants="2-bit")
    page.figure(
        "sensitivity",
        figure,
        caption="Two bits for one layer alone, everything else in float: the error of the GPT's outputs.",
        alt="Bars of the output error by quantized layer of the GPT, the most sensitive layer first.",
    )
    page.table(
        "mixed",
        [
            {
                "kept": ", ".join(each.kept) or "none",
                "bytes": each.stored,
                "score": float(each.right.mean()),
                "change": accuracy_change(
                    paired_accuracy(right, each.right), f"change of the GPT's score, {len(each.kept)} layers in float"
                ),
            }
            for each in found.values()
        ],
        MIXED,
        caption="The GPT in two bits, with more and more of its most sensitive layers left in float, the most error "
        "avoided for each byte first.",
    )
    none, fifth = found[0], found[0.2]
    gain = accuracy_change(
        paired_accuracy(none.right, fifth.right), "gain of the GPT's score by leaving layers in float"
    )
    page.number("mixed-gain", gain)
    page.number("mixed-kept", len(fifth.kept), unit="1", what="layers left in float for a fifth of the bytes saved")
    page.number("all-layers", len(scan), unit="1", what="layers of the GPT that can be quantized")
    page.claim(
        "quantize-everything",
        statement="It is best to quantize everything.",
        source="after B. Jacob et al., 2018, whose networks run on integers throughout",
        source_url="https://arxiv.org/abs/1712.05877",
        verdict=verdict_between(gain, high=0.0, strict=True),
        evidence="Of the GPT's {all-layers} layers in two bits, {mixed-kept} were left in float. "
        "That changed its score by {mixed-gain}.",
    )
