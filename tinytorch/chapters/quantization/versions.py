"""Models of the zoo in fewer bits: what shares a scale, what calibrates, what it saves and costs, which layers stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.chapters import sources
from tinytorch.core.module import Module
from tinytorch.perf.machine import Ceilings, ceilings
from tinytorch.perf.measuring import Measurement, Statistic, limit_blas_threads, quantity
from tinytorch.perf.quantization.accuracy import PairedAccuracy, paired_accuracy, paired_difference_interval
from tinytorch.perf.quantization.convert import (
    LayerReport,
    Sensitivity,
    layer_report,
    quantize_model,
    relative_error,
    stored_bytes,
)
from tinytorch.perf.quantization.tradeoff import FLOAT, Tradeoff, accuracy_change
from tinytorch.report import Column, Page, bars, color, subplots, verdict_between, verdict_of_all

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
        verdict=verdict_of_all(verdict_between(found, low=1.0) for found in against.values()),
        evidence="The median test example's output error with a scale per tensor is {mlp-tensor-over-channel-8} (MLP), "
        "{cnn-tensor-over-channel-8} (CNN) and {gpt-tensor-over-channel-8} (GPT) that with a scale per channel in "
        "eight bits, and {mlp-tensor-over-channel-4}, {cnn-tensor-over-channel-4} and {gpt-tensor-over-channel-4} in "
        "four.",
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
        verdict=verdict_of_all(verdict_between(found[label].change, low=-0.02) for label in (UNCALIBRATED, DARK)),
        evidence="With dynamic ranges the MLP's accuracy changed by {dynamic-change}. With fixed ranges from images "
        "half as bright as those that came it changed by {dark-change}: the button needs the right examples. "
        "The test allows two points in both.",
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
    for name, by_label in sides.items():
        _record_eight_bits(page, name, by_label[FLOAT], by_label[DYNAMIC])
    smaller = [by_label[FLOAT].stored / by_label[DYNAMIC].stored for by_label in sides.values()]
    page.claim(
        "four-times-smaller",
        statement="INT8 models are four times smaller.",
        source=sources.COURSE_QUANTIZATION,
        source_url=sources.COURSE_QUANTIZATION_URL,
        verdict="supported" if all(3.6 <= each <= 4.4 for each in smaller) else "refuted",
        evidence="With scales and float biases, what is stored shrank {mlp-smaller} (MLP), {cnn-smaller} (CNN) and "
        "{gpt-smaller} (GPT). The test allows a tenth to either side of four; exactly four it never is.",
    )
    page.claim(
        "loss-below-one",
        statement="INT8 costs less than 1 % of accuracy.",
        source=sources.COURSE_QUANTIZATION,
        source_url=sources.COURSE_QUANTIZATION_URL,
        verdict=_loss_below_one([by_label[DYNAMIC].accuracy for by_label in sides.values()]),
        evidence="With 8 bits and dynamic ranges the test examples leave a loss of at most {mlp-loss-at-most} possible "
        "for the MLP, {cnn-loss-at-most} for the CNN and {gpt-loss-at-most} for the GPT, each with 95 % confidence on "
        "one side.",
    )


def _tradeoff_row(name: str, label: str, each: Tradeoff) -> dict[str, Any]:
    is_float = label == FLOAT
    return {
        "model": name.upper(),
        "version": label,
        "stored": each.stored,
        "seconds": each.seconds,
        "score": each.accuracy.candidate,
        "change": None if is_float else _score_change(name, label, each),
        "error": None if is_float else each.output_error,
    }


def _score_change(name: str, label: str, each: Tradeoff) -> Statistic:
    return accuracy_change(each.accuracy, f"change of the {name.upper()}'s score, {label}")


def _record_eight_bits(page: Page, name: str, whole: Tradeoff, dynamic: Tradeoff) -> None:
    called, accuracy = name.upper(), dynamic.accuracy
    page.number(
        f"{name}-smaller",
        whole.stored / dynamic.stored,
        unit="",
        what=f"bytes of the float {called} over those with 8 bits, scales and biases included",
    )
    page.number(f"{name}-speedup", dynamic.speedup)
    page.number(
        f"{name}-loss-at-most",
        max(0.0, _largest_loss(accuracy)),
        unit="points",
        what=f"largest loss of the {called} that its {accuracy.examples} test examples leave possible, one-sided with "
        "95 % confidence",
    )
    page.number(f"{name}-change", _score_change(name, "8 bits dynamic", dynamic))


def _largest_loss(accuracy: PairedAccuracy) -> float:
    """Return the largest loss that the examples leave possible, one-sided with 95 % confidence; negative is a gain."""
    return -paired_difference_interval(accuracy.gained, accuracy.lost, accuracy.examples, confidence=0.9).low


def _loss_below_one(every: Sequence[PairedAccuracy]) -> str:
    if any(each.interval.high < -0.01 for each in every):
        return "refuted"
    return "supported" if all(_largest_loss(each) < 0.01 for each in every) else "cannot tell here"


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
    for name, by_label in sides.items():
        for key, label in (("two", TWO_BITS), ("learned", RETRAINED), ("four", FOUR_BITS)):
            page.number(f"{name}-{key}", _score_change(name, label, by_label[label]))
    gpt = sides["gpt"]
    recovered = 1 - gpt[RETRAINED].accuracy.difference / gpt[TWO_BITS].accuracy.difference
    what = "part of the GPT's loss in two bits that training brought back"
    page.number("gpt-recovered", recovered, unit="%", what=what)
    page.word(
        "recovers",
        "most of it" if recovered > 0.5 else "some of it" if recovered > 0.1 else "nothing",
        because="{gpt-recovered} of the loss was recovered; more than half counts as most",
    )
    share = gpt[RETRAINED].stored / gpt[FLOAT].stored
    what = "bytes of the GPT with two-bit weights over those in float32"
    page.number("gpt-two-bytes", share, unit="%", what=what)


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


def layer_times(gpt: Module) -> list[LayerReport]:
    """Return what dynamic eight bits do to each layer of the GPT on 64 sequences."""
    return layer_report(gpt, quantize_model(gpt), models.example("gpt", 64))


def record_mixed(
    page: Page,
    scan: Sequence[Sensitivity],
    right: npt.NDArray[np.bool_],
    found: Mapping[float, MixedVersion],
    reports: Sequence[LayerReport],
) -> None:
    """Show which layers suffer most from two bits, what it brings to leave them in float, and the claim on it.

    Args:
        page: where to.
        scan: the error with each layer alone in two bits.
        right: which test examples the float model gets right.
        found: the mixed versions, none and a fifth of the saved bytes given back among them.
        reports: of all layers in eight bits.
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
    page.number("all-layers", len(reports), unit="1", what="layers of the GPT that can be quantized")
    page.number(
        "slower-layers",
        sum(row.quantized_seconds > row.float_seconds for row in reports),
        unit="1",
        what="of them, slower with eight bits than in float32, by the median",
        derived=True,
    )
    page.claim(
        "quantize-everything",
        statement="It is best to quantize everything.",
        source="after B. Jacob et al., 2018, whose networks run on integers throughout",
        source_url="https://arxiv.org/abs/1712.05877",
        verdict="refuted" if gain.interval.low > 0 else "supported" if gain.interval.high < 0 else "cannot tell here",
        evidence="With two-bit weights the GPT's score changed by {mixed-gain} when {mixed-kept} of its {all-layers} "
        "layers stayed in float. In eight bits, {slower-layers} of them took longer than in float32, by the median.",
    )
