"""Accuracy of compressed models: over seeds, pruned and trained on, thinner, taught, and all steps together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.chapters import calls
from tinytorch.chapters.words import word_between
from tinytorch.core.module import Module
from tinytorch.perf.compression.compress import ORIGINAL, Compression
from tinytorch.perf.measuring import Measurement, Statistic, limit_blas_threads
from tinytorch.perf.measuring.judge import SUPPORTED
from tinytorch.perf.quantization.accuracy import paired_accuracy
from tinytorch.perf.quantization.convert import stored_bytes
from tinytorch.perf.quantization.tradeoff import accuracy_change
from tinytorch.report import Column, Page, line, subplots, verdict_between

COMBINED = (
    Column("step", "Step"),
    Column("stored", "Stored", "B"),
    Column("seconds", "Forward pass of 64"),
    Column("speedup", "Speedup"),
    Column("score", "Accuracy", "%"),
    Column("change", "Change, paired"),
)
#: What the page calls the steps of `compress_model`.
_STEPS = {
    ORIGINAL: "as trained",
    "structured_prune": "half of the channels removed",
    "fine_tune": "fine-tuned",
    "quantize": "quantized, 8 bits",
}


def begin() -> tuple[Page, dict[str, Module]]:
    """Return the page and the trained models of the zoo, with BLAS held to one thread."""
    limit_blas_threads(1)
    return Page("compression"), {name: models.trained(name) for name in models.ZOO}


def scores(many: Iterable[Module]) -> list[float]:
    """Return the test accuracy of each MLP."""
    return [models.accuracy(each, "mlp") for each in many]


def mlp_change(right: npt.NDArray[np.bool_], model: Module, what: str) -> Statistic:
    """Return how the test accuracy of an MLP differs from that of one that gets the examples ``right``."""
    return accuracy_change(paired_accuracy(right, models.correct(model, "mlp")), f"change of test accuracy, {what}")


def over_seeds(name: str, values: Sequence[float], unit: str = "%") -> Measurement:
    """Return one number of each seed as a `Measurement`: its median is over trainings, not over runs of the clock."""
    return Measurement(name, tuple(float(value) for value in values), unit, {"samples_are": "seeds of training"})


def differences(name: str, candidate: Sequence[float], baseline: Sequence[float]) -> Measurement:
    """Return candidate less baseline of each seed: shares (0 to 1), shown in points."""
    return over_seeds(name, [after - before for after, before in zip(candidate, baseline, strict=True)], "points")


def record_pruned(page: Page, cut: Mapping[float, Sequence[float]], tuned: Mapping[float, Sequence[float]]) -> None:
    """Show how many weights of the MLP can go, and the claim that nine tenths can.

    Args:
        page: where to.
        cut: test accuracies over the seeds, by the share of weights that was set to zero, rising from none.
        tuned: the same after fine-tuning.
    """
    figure, ax = subplots(height=3.2)
    percent = [100 * share for share in cut]
    now = [over_seeds(f"test accuracy, {share:.0%} pruned", each) for share, each in cut.items()]
    later = [over_seeds(f"test accuracy, {share:.0%} pruned and trained on", each) for share, each in tuned.items()]
    line(ax, percent, now, quantity="test accuracy", variant="pruned", label="pruned")
    line(ax, percent, later, quantity="test accuracy", variant="distilled", label="and fine-tuned")
    ax.set_xlabel("zeros (%)")
    ax.set_ylim(0, 103)
    ax.legend(loc="lower left")
    page.figure(
        "accuracy",
        figure,
        caption="Test accuracy of the MLP over the share of its weights that is zero: medians of seven trainings, with "
        "intervals over the seeds.",
        alt="Two lines of test accuracy over sparsity, with error bars: pruned, and pruned and fine-tuned.",
    )
    change = {
        share: differences(f"change of test accuracy, {share:.0%} zeros, fine-tuned", each, tuned[0])
        for share, each in tuned.items()
        if share
    }
    for share, each in change.items():
        page.number(f"change-{round(100 * share)}", each)
    page.number("raw-90", differences("change of test accuracy, nine tenths pruned, not fine-tuned", cut[0.9], cut[0]))
    page.number("seeds", len(cut[0]), unit="seeds", what="trainings of each kind")
    # One after the other until one fails: that takes no correction for their number.
    free = [*takewhile(lambda share: verdict_between(change[share], low=-0.01, strict=True) == SUPPORTED, change)]
    if free:
        what = "largest share of zeros tried up to which a loss of a point is excluded"
        page.number("free", free[-1], unit="%", what=what)
    else:
        page.absent("free", reason="at the least share of zeros tried the seeds do not exclude a loss of a point")
    page.claim(
        "ninety-per-cent",
        statement="90 % of the weights can go without loss.",
        source="S. Han et al., Learning both Weights and Connections for Efficient Neural Networks, 2015, who kept one "
        "weight in nine of AlexNet",
        source_url="https://arxiv.org/abs/1506.02626",
        verdict=verdict_between(change[0.9], low=-0.01),
        evidence="With nine tenths of the MLP's weights removed at once and ten epochs of fine-tuning, test accuracy "
        "changed by {change-90} in the median of {seeds}. Without fine-tuning it changed by {raw-90}. "
        "The test allows a loss of one point. Han et al. prune in several rounds, and a far larger network.",
    )


def record_n_m(page: Page, share_of_bytes: float, change: Statistic) -> None:
    """Record what 2:4 takes in compact form, of the dense bytes, and how it changed the MLP's accuracy."""
    page.number(
        "nm-bytes", share_of_bytes, unit="%", what="bytes of a 2:4 weight in compact form, of the dense float32"
    )
    page.number("nm-change", change)


def record_small(page: Page, pruned: Sequence[float], alone: Sequence[float], mlp: Module, slim: Module) -> None:
    """Record whether a pruned MLP is better than a small one that was trained from the beginning.

    Args:
        page: where to.
        pruned: test accuracies over the seeds, pruned to a tenth of the neurons and fine-tuned.
        alone: of models of that shape, trained as long.
        mlp: the whole model; ``slim``, one with a tenth of its neurons.
    """
    gain = differences("test accuracy, pruned less trained small", pruned, alone)
    page.number(
        "pruned-small",
        over_seeds("test accuracy of the MLP with a tenth of its neurons, pruned and fine-tuned", pruned),
    )
    page.number("trained-small", over_seeds("test accuracy of an MLP of that shape, trained from the beginning", alone))
    page.number("pruned-less-small", gain)
    fewer = stored_bytes(mlp) / stored_bytes(slim)
    page.number("slim-bytes", fewer, unit="", what="bytes of the MLP over those with a tenth of its neurons")
    page.word(
        "train-small",
        word_between(gain, {"the pruned one": (0.0, None), "the one that was always small": (None, 0.0)}),
        because="the difference over the seeds is {pruned-less-small}",
    )


def record_distilled(page: Page, teachers: Sequence[float], taught: Sequence[float], alone: Sequence[float]) -> None:
    """Record what a teacher adds, each list over the seeds, and the claim; the page knows the students ``alone``."""
    gain = differences("test accuracy, distilled less alone", taught, alone)
    page.number("teacher", over_seeds("test accuracy of the teachers", teachers))
    page.number("taught", over_seeds("test accuracy of the students, distilled", taught))
    page.number("taught-less-alone", gain)
    page.claim(
        "distilled-is-better",
        statement="Distilled students beat the same model trained alone.",
        source="G. Hinton et al., Distilling the Knowledge in a Neural Network, 2015",
        source_url="https://arxiv.org/abs/1503.02531",
        verdict=verdict_between(gain, low=0.0, strict=True),
        evidence="Students with a tenth of the neurons, the same start and the same batches, reached {taught} with a "
        "teacher and {trained-small} alone. The difference is {taught-less-alone} in the median of {seeds}.",
    )


def record_combined(page: Page, combined: Compression) -> None:
    """Show the CNN step by step: half of the channels removed, fine-tuned, quantized.

    Raises:
        ValueError: if the steps were not timed and scored.
    """
    rows = [
        (row, row.speedup, row.accuracy)
        for row in combined.steps
        if row.speedup is not None and row.accuracy is not None
    ]
    if len(rows) < len(combined.steps):
        raise ValueError("combined must have been timed and scored: give compress_model inputs and score")
    page.table(
        "combined",
        [
            {
                "step": _STEPS[row.step],
                "stored": row.stored,
                "seconds": calls.zoo_pass(row.seconds, "cnn", 64) if row.seconds and not i else row.seconds,
                "speedup": speedup,
                "score": accuracy.candidate,
                "change": None
                if row.step == ORIGINAL
                else accuracy_change(accuracy, f"change of the CNN's accuracy, {_STEPS[row.step]}"),
            }
            for i, (row, speedup, accuracy) in enumerate(rows)
        ],
        COMBINED,
        caption="The CNN, step by step: what is stored, how long it takes, and what it gets right, each row measured "
        "on the model that came out.",
    )
    whole, halved, tuned, last = rows
    what = "bytes of the CNN over those of the combined version"
    page.number("combined-bytes", combined.compression_ratio, unit="", what=what)
    page.number("combined-speed", last[1])
    page.number("combined-change", accuracy_change(last[2], "change of the CNN's accuracy, all steps"))
    what = "bytes of the CNN over those with half of the channels"
    page.number("channels-bytes", whole[0].stored / halved[0].stored, unit="", what=what)
    half = "change of the CNN's accuracy, half of the channels, not fine-tuned"
    page.number("channels-change", accuracy_change(halved[2], half))
    what = "bytes before over after quantization, in the combination"
    page.number("bits-bytes", tuned[0].stored / last[0].stored, unit="", what=what)
