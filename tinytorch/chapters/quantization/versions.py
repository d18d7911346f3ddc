"""Models of the zoo in fewer bits: what shares a scale, what calibrates, what it saves and costs, which layers stay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.chapters import calls, sources
from tinytorch.chapters.quantization.codes import PER
from tinytorch.core.module import Module
from tinytorch.perf.machine import Ceilings, ceilings
from tinytorch.perf.measuring import Counted, Statistic, limit_blas_threads
from tinytorch.perf.measuring.conditions import of_sides
from tinytorch.perf.measuring.judge import Judgement, Verdict, decided, word_between
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.quantization.accuracy import paired_accuracy
from tinytorch.perf.quantization.convert import Sensitivity, relative_error, stored_bytes
from tinytorch.perf.quantization.tradeoff import FLOAT, Tradeoff, accuracy_change
from tinytorch.report import Column, Page, color, verdict_between, verdict_between_all
from tinytorch.report.figures import draw_bars, subplots

GRANULARITY = (
    Column("model", "Model"),
    Column("per", "A scale for"),
    Column("stored", "Stored", "B"),
    Column("error", "Error of the outputs", "%"),
    Column("change", "Change of the score"),
)
CALIBRATION = (
    Column("seen", "Calibrated with"),
    Column("error", "Error of the outputs", "%"),
    Column("change", "Change of accuracy"),
)
EIGHT_BITS = (
    Column("model", "Model"),
    Column("seconds", "Forward pass of 64, float32"),
    Column("stored", "Stored, of float32", "%"),
    Column("speedup", "Speedup"),
    Column("change", "Change of the score"),
    Column("error", "Error of the outputs", "%"),
)
GPT_SIDES = (
    Column("version", "Version of the GPT"),
    Column("stored", "Stored", "B"),
    Column("seconds", "Forward pass of 64"),
    Column("score", "Score", "%"),
    Column("change", "Change of the score"),
    Column("divergence", "Divergence of the next token"),
)
TRAINED_ON = (
    Column("model", "Model"),
    Column("two", "2 bits, rounded"),
    Column("learned", "2 bits, trained with the rounding"),
    Column("longer", "float32, trained as long"),
)
MIXED = (
    Column("kept", "Layers left in float"),
    Column("bytes", "Bytes, of float32", "%"),
    Column("score", "Score", "%"),
    Column("change", "Change, paired"),
)
#: Versions as the page calls them, and two sets of examples that calibrate.
DYNAMIC, STATIC, WEIGHTS = "8 bits, dynamic", "8 bits, static", "8 bits, weights"
FOUR_BITS, TWO_BITS = "4 bits, groups", "2 bits"
RETRAINED, LONGER = "2 bits, retrained", "float32, trained as long"
#: The version that another is compared with where that is not the float model: training longer is no merit of rounding.
BASELINES = {RETRAINED: LONGER}
UNCALIBRATED, FEWEST, DARK = "none: dynamic", "2 images", "256 images, half as bright"
#: Versions that two bits and more training make, by their columns of `TRAINED_ON`.
_TRAINED_ON = {"two": TWO_BITS, "learned": RETRAINED, "longer": LONGER}
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


def record_granularity(page: Page, found: Mapping[str, Mapping[str, Scored]]) -> None:
    """Show each model of the zoo in four bits by what shares a scale: "tensor", "channel" and "group"."""
    page.table(
        "granularity",
        [
            {
                "model": name.upper(),
                "per": PER[per],
                "stored": Counted(each.stored, "%", "bytes of those in float32"),
                "error": Counted(each.error, "%", "relative error of the outputs"),
                "change": each.change,
            }
            for name, by_scale in found.items()
            for per, each in by_scale.items()
        ],
        GRANULARITY,
        caption="Weights in four bits by what shares a scale: stored bytes, error of all test outputs, and the change "
        "of the test score, paired.",
    )


@dataclass(frozen=True)
class Scored:
    """A version against the model that it was made of.

    Attributes:
        stored: bytes.
        error: relative error of the outputs on the whole test set.
        change: of the test accuracy, paired.
    """

    stored: int
    error: float
    change: Statistic


def scored(name: str, model: Module, versions: Mapping[str, Module]) -> dict[str, Scored]:
    """Return what each version of the zoo's ``model`` of that name costs on its test set."""
    logits = models.held_out_logits(model, name)
    right = models.right_answers(logits, name)

    def score(label: str, version: Module) -> Scored:
        found = models.held_out_logits(version, name)
        accuracy = paired_accuracy(right, models.right_answers(found, name))
        change = accuracy_change(accuracy, f"change of test accuracy, {label}")
        return Scored(stored_bytes(version), relative_error(logits, found), change)

    return {label: score(label, version) for label, version in versions.items()}


def record_calibration(page: Page, found: Mapping[str, Scored]) -> None:
    """Show the MLP by what its activations' ranges were taken from: `FEWEST`, `DARK` and `UNCALIBRATED` among it."""
    page.table(
        "calibration",
        [
            {"seen": label, "error": Counted(each.error, "%", "relative error of the outputs"), "change": each.change}
            for label, each in found.items()
        ],
        CALIBRATION,
        caption="The MLP in eight bits, by what its activations' ranges were taken from; accuracy is that of its whole "
        "test set.",
    )
    page.number("dark-change", found[DARK].change)
    page.number("dynamic-change", found[UNCALIBRATED].change)
    errors = {label: found[label].error for label in (FEWEST, DARK)}
    for key, label in (("few-error", FEWEST), ("dark-error", DARK)):
        page.number(key, Counted(errors[label], "%", f"error of the MLP's outputs, calibrated with {label}"))
    page.word(
        "worse-calibration",
        max(errors, key=lambda label: errors[label]),
        because="the outputs are {few-error} off with a few images and {dark-error} off with dark ones",
    )


def record_eight_bits(page: Page, sides: Tradeoffs) -> None:
    """Show what dynamic eight bits give and take of each model, and the claims on eight bits, dynamic and static."""
    rows = []
    for name, by_label in sides.items():
        whole, dynamic = by_label[FLOAT], by_label[DYNAMIC]
        what = f"bytes of the float {name.upper()} over those with 8 bits, scales and biases included"
        change = _score_change(name, DYNAMIC, dynamic)
        page.number(f"{name}-smaller", Counted(whole.stored / dynamic.stored, "", what))
        page.number(f"{name}-speedup", dynamic.speedup)
        page.number(f"{name}-change", change)
        page.number(f"{name}-static-change", _score_change(name, STATIC, by_label[STATIC]))
        rows.append(
            {
                "model": name.upper(),
                "seconds": calls.zoo_pass(whole.seconds, name, 64),
                "stored": Counted(dynamic.stored / whole.stored, "%", "bytes of those in float32"),
                "speedup": dynamic.speedup,
                "change": change,
                "error": Counted(dynamic.output_error, "%", "relative error of the outputs"),
            }
        )
    page.table(
        "eight-bits",
        rows,
        EIGHT_BITS,
        caption="The three models in dynamic eight bits, from one run: bytes, speedup, and what they still get right, "
        "paired on the same test examples.",
    )
    _claim_of_the_course(page, sides)
    _claim_of_the_papers(page, sides)


def _claim_of_the_course(page: Page, sides: Tradeoffs) -> None:
    claim = partial(page.claim, source=sources.COURSE_QUANTIZATION, source_url=sources.COURSE_QUANTIZATION_URL)
    smaller = [by_label[FLOAT].stored / by_label[DYNAMIC].stored for by_label in sides.values()]
    claim(
        "four-times-smaller",
        statement="Weights in INT8 make a model four times smaller.",
        quote="Regular Linear layers store weights in FP32 (4 bytes each), while QuantizedLinear stores them in INT8 "
        "(1 byte each) plus a small overhead for quantization parameters (scales and zero points). This achieves "
        "approximately 4× memory reduction with minimal overhead.",
        verdict=decided(all(3.6 <= each <= 4.4 for each in smaller)),
        evidence="With scales and float biases, the MLP shrank {mlp-smaller} and the CNN {cnn-smaller}. The GPT shrank "
        "{gpt-smaller}. The test allows a tenth to either side of four.",
        counted=True,
    )
    claim(
        "inference-two-to-four",
        statement="Inference in INT8 is two to four times as fast.",
        quote="2-4× faster inference (hardware dependent)",
        verdict=verdict_between_all((by_label[DYNAMIC].speedup for by_label in sides.values()), low=2.0),
        evidence="A forward pass of whole models ran {mlp-speedup} as fast for the MLP and {cnn-speedup} for the CNN. "
        "For the GPT it was {gpt-speedup}. The test asks for two at least in all three, on this hardware.",
    )
    changes = [_score_change(name, STATIC, by_label[STATIC]) for name, by_label in sides.items()]
    claim(
        "loss-below-one",
        statement="INT8 costs less than a point of accuracy, if it is calibrated.",
        quote="<1% accuracy loss with proper calibration",
        verdict=verdict_between_all(changes, low=-0.01, strict=True),
        evidence="With ranges from training examples the change of the score was {mlp-static-change} for the MLP and "
        "{cnn-static-change} for the CNN. For the GPT it was {gpt-static-change}. All three intervals must "
        "leave out a loss of a point.",
    )


def _claim_of_the_papers(page: Page, sides: Tradeoffs) -> None:
    close = [
        verdict_between(_score_change(name, STATIC, by_label[STATIC]), low=-0.02, together=len(sides))
        for name, by_label in sides.items()
    ]
    page.claim(
        "push-button",
        statement="In most cases eight bits need no training and no labels.",
        source="M. Nagel et al., A White Paper on Neural Network Quantization, 2021",
        source_url="https://arxiv.org/abs/2106.08295",
        quote="PTQ requires no re-training or labelled data and is thus a lightweight push-button approach to "
        "quantization. In most cases, PTQ is sufficient for achieving 8-bit quantization with close to floating-point "
        "accuracy.",
        verdict=verdict_of_most(close),
        evidence="Calibrated without labels, the change of the score was {mlp-static-change} for the MLP and "
        "{cnn-static-change} for the CNN. For the GPT it was {gpt-static-change}. A loss of at most two points "
        "counts as close, and the test asks that of two of the three models.",
    )
    page.claim(
        "within-two",
        statement="Eight bits after training keep convolutional networks close to float.",
        source="R. Krishnamoorthi, Quantizing deep convolutional networks for efficient inference, 2018",
        source_url="https://arxiv.org/abs/1806.08342",
        quote="Per-channel quantization of weights and per-layer quantization of activations to 8-bits of precision "
        "post-training produces classification accuracies within 2% of floating point networks for a wide variety of "
        "CNN architectures.",
        verdict=verdict_between(_score_change("cnn", STATIC, sides["cnn"][STATIC]), low=-0.02, high=0.02),
        evidence="For the one CNN of this book the change of accuracy was {cnn-static-change}. "
        "The interval must lie within two points.",
    )


def verdict_of_most(parts: Sequence[Judgement]) -> Judgement:
    """Return the verdict on most: supported if more than half are, refuted if half of them are, else open."""
    found, half = [part.verdict for part in parts], len(parts) / 2
    verdict = Verdict.REFUTED if found.count(Verdict.REFUTED) >= half else Verdict.OPEN
    if found.count(Verdict.SUPPORTED) > half:
        verdict = Verdict.SUPPORTED
    return Judgement(verdict, tuple(test for part in parts for test in part.tests))


def record_gpt(page: Page, by_label: Mapping[str, Tradeoff]) -> None:
    """Show bytes, time and accuracy of every version of the GPT."""
    page.table(
        "gpt-sides",
        [_gpt_row(label, each) for label, each in by_label.items()],
        GPT_SIDES,
        caption="Every version of the GPT, from one run: bytes, time of a forward pass of 64 sequences, share of "
        "sequences that are all right, and the Kullback-Leibler divergence of its next token. Two bits retrained are "
        "compared with the model trained as long, all others with float32.",
    )
    for key, label in (("weights", WEIGHTS), ("four", FOUR_BITS)):
        page.number(f"gpt-{key}-speedup", by_label[label].speedup)
    page.number("gpt-four", _score_change("gpt", FOUR_BITS, by_label[FOUR_BITS]))
    share = by_label[RETRAINED].stored / by_label[FLOAT].stored
    page.number("gpt-two-bytes", Counted(share, "%", "bytes of the GPT with two-bit weights over those in float32"))


def _gpt_row(label: str, each: Tradeoff) -> dict[str, Any]:
    is_float = label == FLOAT
    return {
        "version": label,
        "stored": each.stored,
        "seconds": calls.zoo_pass(each.seconds, "gpt", 64) if is_float else each.seconds,
        "score": Counted(each.accuracy.candidate, "%", "share of the test set that is right"),
        "change": None if is_float else _score_change("gpt", label, each),
        "divergence": None if is_float else each.divergence,
    }


def _score_change(name: str, label: str, each: Tradeoff) -> Statistic:
    against = f" against {BASELINES[label]}" if label in BASELINES else ""
    return accuracy_change(each.accuracy, f"change of the {name.upper()}'s score, {label}{against}")


def record_pareto(page: Page, sides: Tradeoffs) -> None:
    """Show what is stored against what is still right."""
    figure, axes = subplots(len(sides), 1, height=2.0 * len(sides), sharex=True)
    for ax, (name, by_label) in zip(axes, sides.items(), strict=True):
        for label, (shown, variant) in _SHOWN.items():
            each = by_label[label]
            score, interval = each.accuracy.candidate, each.accuracy.interval
            below, above = each.accuracy.difference - interval.low, interval.high - each.accuracy.difference
            reach = [[0], [0]] if label == FLOAT else [[min(below, score)], [min(above, 1 - score)]]
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
        "paired difference from the float model that each is compared with; they end where every answer is right.",
        alt="Three panels, one for each model, of test score over stored bytes: a point with an error bar each for "
        "float32, 8 bits, 4 bits, 2 bits, and 2 bits retrained.",
    )


def record_trained_on(page: Page, sides: Tradeoffs) -> None:
    """Show what two bits cost each model, rounded and trained, beside float models trained as long."""
    changes = {
        name: {key: _score_change(name, label, by_label[label]) for key, label in _TRAINED_ON.items()}
        for name, by_label in sides.items()
    }
    page.table(
        "trained-on",
        [{"model": name.upper(), **each} for name, each in changes.items()],
        TRAINED_ON,
        caption="Change of the score, paired: of two bits merely rounded and of the float model trained as long, both "
        "from the float model; of two bits trained with the rounding, from the float model trained as long.",
    )
    gpt = changes["gpt"]
    for key, change in gpt.items():
        page.number(f"gpt-{key}", change)
    _record_recovered(page, gpt["two"], gpt["learned"])


def _record_recovered(page: Page, rounded: Statistic, trained: Statistic) -> None:
    """Record how much of what two bits cost the GPT training brought back, if they are proven to cost it anything."""
    loss = verdict_between(rounded, high=0.0, strict=True)
    if loss.verdict is not Verdict.SUPPORTED:
        because = "two bits changed the score by {gpt-two}, so that there may be no loss to recover"
        page.word("recovers", Judgement(Verdict.OPEN, loss.tests, "open, as no loss is proven"), because=because)
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
    sides = {"trained": trained.conditions, "rounded": rounded.conditions}
    conditions = of_sides(sides).within_bounds("one less the ratio of two paired differences")
    bounds = Interval(value - down, value + up, min(rounded.interval.confidence, trained.interval.confidence))
    samples = tuple(1 - each / rounded.median for each in trained.samples)
    return Statistic(name, samples, "%", conditions, value=value, bounds=bounds)


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
    """Show which layers suffer most from two bits, and what it brings to leave them in float.

    Args:
        page: where to.
        scan: the error with each layer alone in two bits.
        right: which test examples the float model gets right.
        found: the mixed versions, none and a fifth of the saved bytes given back among them.
    """
    figure, ax = subplots(height=3.0)
    errors = [Counted(row.error, "%", f"output error with only {row.name} in two bits") for row in scan]
    draw_bars(ax, [row.name for row in scan], errors, quantity="error of the outputs", variants="2-bit")
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
                "bytes": Counted(each.stored, "%", "bytes of those in float32"),
                "score": Counted(float(each.right.mean()), "%", "share of the test set that is right"),
                "change": accuracy_change(
                    paired_accuracy(right, each.right), f"change of the GPT's score, {len(each.kept)} layers in float"
                ),
            }
            for each in found.values()
        ],
        MIXED,
        caption="The GPT in two bits, with more and more of its layers left in float, those first that avoid "
        "the most error for each byte.",
    )
    none, fifth = found[0], found[0.2]
    gain = accuracy_change(
        paired_accuracy(none.right, fifth.right), "gain of the GPT's score by leaving layers in float"
    )
    page.number("mixed-gain", gain)
    page.number("mixed-kept", len(fifth.kept), unit="1", what="layers left in float for a fifth of the bytes saved")
    page.number("all-layers", len(scan), unit="1", what="layers of the GPT that can be quantized")
