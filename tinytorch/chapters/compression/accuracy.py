"""Accuracy of compressed models: over seeds, pruned and trained on, thinner, taught, and all steps together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.chapters import calls, sources
from tinytorch.core.module import Module
from tinytorch.perf.compression.compress import ORIGINAL, Compression
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Statistic, limit_blas_threads
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Ends, Verdict, decided, word_between
from tinytorch.perf.quantization.accuracy import paired_accuracy
from tinytorch.perf.quantization.convert import stored_bytes
from tinytorch.perf.quantization.tradeoff import accuracy_change
from tinytorch.report import Column, Page, verdict_between, verdict_of_all
from tinytorch.report.figures import draw_line, subplots

COMBINED = (
    Column("step", "Step"),
    Column("stored", "Stored", "B"),
    Column("seconds", "Forward pass of 64"),
    Column("speedup", "Speedup"),
    Column("score", "Accuracy", "%"),
    Column("change", "Change, paired"),
)
METHODS = (
    Column("method", "The MLP with"),
    Column("stored", "Stored, of the whole", "%"),
    Column("speedup", "Speedup"),
    Column("score", "Accuracy", "%"),
    Column("change", "Change, paired"),
)
#: Difference of accuracy by which somebody would choose a model.
_POINTS = 0.03
#: Speedups from which on one digit says 3.
_ROUNDS_TO_THREE = 2.5
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


def _chosen(one: str, other: str) -> dict[str, Ends]:
    """Return the words for a difference of accuracy that somebody would choose by, and for one that is smaller."""
    neither = f"neither, to within {100 * _POINTS:.0f} points"
    return {one: (_POINTS, None), neither: (-_POINTS, _POINTS), other: (None, -_POINTS)}


def over_seeds(name: str, values: Sequence[float], unit: str = "%") -> Measurement:
    """Return one number of each seed as a `Measurement`: its median is over trainings, not over runs of the clock."""
    return Measurement(name, tuple(float(value) for value in values), unit, Conditions(sample=Sample.SEEDS))


def differences(name: str, candidate: Sequence[float], baseline: Sequence[float]) -> Measurement:
    """Return candidate less baseline of each seed: shares (0 to 1), shown in points."""
    return over_seeds(name, [after - before for after, before in zip(candidate, baseline, strict=True)], "points")


def record_pruned(page: Page, cut: Mapping[float, Sequence[float]], tuned: Mapping[float, Sequence[float]]) -> None:
    """Show how many weights of the MLP can go, and the course's claim on it.

    Args:
        page: where to.
        cut: test accuracies over the seeds, by the share of weights that was set to zero, rising from none.
        tuned: the same after fine-tuning.
    """
    figure, ax = subplots(height=3.2)
    percent = [100 * share for share in cut]
    now = [over_seeds(f"test accuracy, {share:.0%} pruned", each) for share, each in cut.items()]
    later = [over_seeds(f"test accuracy, {share:.0%} pruned and trained on", each) for share, each in tuned.items()]
    draw_line(ax, percent, now, quantity="test accuracy", variant="pruned", label="pruned")
    draw_line(ax, percent, later, quantity="test accuracy", variant="distilled", label="and fine-tuned")
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
    free = [
        *takewhile(
            lambda share: verdict_between(change[share], low=-0.01, strict=True).verdict == Verdict.SUPPORTED, change
        )
    ]
    if free:
        what = "largest share of zeros tried up to which a loss of a point is excluded"
        page.number("free", Derived(free[-1], "%", what, tuple(change.values()), "it is one of the shares tried"))
    else:
        page.absent("free", reason="at the least share of zeros tried the seeds do not exclude a loss of a point")
    page.claim(
        "eighty-per-cent",
        statement="Four fifths of the weights can go for less than a point of accuracy.",
        source=sources.COURSE_COMPRESSION,
        source_url=sources.COURSE_COMPRESSION_URL,
        quote="Typical: 80-90% sparsity with <1% accuracy loss",
        verdict=verdict_between(change[0.8], low=-0.01, strict=True),
        evidence="With four fifths of the MLP's weights removed at once, then fine-tuned, the change of test accuracy "
        "was {change-80} in the median of {seeds}. With nine tenths removed it was {change-90}. The test takes the "
        "lower end of the source's range, the least that it promises.",
    )


def record_n_m(page: Page, share_of_bytes: float, change: Statistic) -> None:
    """Record what 2:4 takes in compact form, of the dense bytes, and how it changed the MLP's accuracy."""
    page.number("nm-bytes", Counted(share_of_bytes, "%", "bytes of a 2:4 weight in compact form, of the dense float32"))
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
    page.number("slim-bytes", Counted(fewer, "", "bytes of the MLP over those with a tenth of its neurons"))
    page.word(
        "train-small",
        word_between(gain, _chosen("the pruned one", "the one that was always small")),
        because="the difference over the seeds is {pruned-less-small}; one counts from three points on",
    )


def record_distilled(
    page: Page, teachers: Sequence[float], taught: Sequence[float], alone: Sequence[float], faster: Measurement
) -> None:
    """Record what a teacher adds, each list over the seeds, and the course's claim.

    Args:
        page: where to; it knows the students alone, and how much smaller they are.
        teachers: test accuracies; ``taught``, of their students; ``alone``, of the same students without them.
        faster: speedup of a student over its teacher.
    """
    gain = differences("test accuracy, distilled less alone", taught, alone)
    loss = differences("test accuracy, students less teachers", taught, teachers)
    page.number("teacher", over_seeds("test accuracy of the teachers", teachers))
    page.number("taught", over_seeds("test accuracy of the students, distilled", taught))
    page.number("taught-less-alone", gain)
    page.number("taught-less-teacher", loss)
    page.number("student-speed", faster)
    page.word(
        "teacher-helps",
        word_between(gain, _chosen("the one with a teacher", "the one without")),
        because="the difference over the seeds is {taught-less-alone}; one counts from three points on",
    )
    fewer = next(record.body["value"] for record in page.records if record.key == "slim-bytes")
    page.claim(
        "distillation-ten-times",
        statement="A distilled student is ten times smaller and ten times as fast, for at most five points.",
        source=sources.COURSE_COMPRESSION,
        source_url=sources.COURSE_COMPRESSION_URL,
        quote="Benefits: • Size: 10x smaller models • Speed: 10x faster inference • Accuracy: Only 2-5% degradation",
        verdict=verdict_of_all(
            [
                decided(fewer >= 10),
                verdict_between(faster, low=10.0, together=2),
                verdict_between(loss, low=-0.05, together=2),
            ]
        ),
        evidence="Students with a tenth of the neurons are {slim-bytes} smaller and run {student-speed} as fast on 64 "
        "images. Against their teachers the change of their accuracy was {taught-less-teacher}.",
    )


def record_small_gpt(page: Page, fewer: float, faster: Measurement) -> None:
    """Record what a small GPT takes, and the course's claim on distilled transformers.

    Args:
        page: where to.
        fewer: bytes of the GPT over those of the small one; ``faster``, the speedup of a forward pass.
    """
    page.number("small-gpt-bytes", Counted(fewer, "", "bytes of the GPT over those of a narrow one"))
    page.number("small-gpt-speed", faster)
    page.claim(
        "distilled-attention",
        statement="A transformer's student with a tenth of the memory is three times as fast.",
        source=sources.COURSE_PROFILING,
        source_url=sources.COURSE_PROFILING_URL,
        quote="MOBILE DEPLOYMENT: - Profiling shows: Attention uses 80% memory - Decision: Use distilled models "
        "(smaller attention) - Result: 10x memory reduction, 3x speedup",
        verdict=verdict_of_all([decided(fewer >= 10), verdict_between(faster, low=_ROUNDS_TO_THREE)]),
        evidence="A GPT of the same depth with {small-gpt-bytes} fewer bytes ran {small-gpt-speed} as fast on 64 "
        "sequences; from 2.5 on that rounds to three. What it learned changes neither. Most of the memory of the "
        "source's model is attention; that of this one is weights, which the test leaves aside.",
    )


def record_methods(page: Page, whole: Module, versions: Mapping[str, Module], gains: Mapping[str, Measurement]) -> None:
    """Show what each method makes of the MLP: bytes, speed and accuracy of one run, and which do well in all three.

    Args:
        page: where to.
        whole: the MLP, trained on for as long as its versions.
        versions: of it, by what the page calls them; ``gains``, their speedups.
    """
    right = models.correct(whole, "mlp")
    rows: list[dict[str, Any]] = []
    for method, version in versions.items():
        accuracy = paired_accuracy(right, models.correct(version, "mlp"))
        rows.append(
            {
                "method": method,
                "stored": Counted(stored_bytes(version) / stored_bytes(whole), "%", "bytes of the whole model's"),
                "speedup": gains[method],
                "score": Counted(accuracy.candidate, "%", "share of the test set that is right"),
                "change": accuracy_change(accuracy, f"change of test accuracy, {method}"),
            }
        )
    page.table(
        "methods",
        rows,
        METHODS,
        caption="Every method on the MLP, from one run: bytes, speedup for 64 images, and accuracy, against the whole "
        "model trained as long.",
    )
    for at, row in enumerate(rows):
        page.number(f"method-{at}-speed", row["speedup"])
    # Many speedups were looked at for those above one; a loss is looked for in each by itself, which finds more.
    best = [
        row["method"]
        for row in rows
        if row["stored"].value < 1
        and not page.noise.hides(row["speedup"].median)
        and verdict_between(row["speedup"], low=1.0, strict=True, together=len(rows)).verdict == Verdict.SUPPORTED
        and verdict_between(row["change"], high=0.0, strict=True).verdict != Verdict.SUPPORTED
    ]
    page.word(
        "all-three",
        "; ".join(best) or "none",
        because="bytes were counted, and the intervals of the speedup and of the change held against one and nothing",
        numbers=[f"method-{at}-speed" for at in range(len(rows))],
    )


def record_combined(page: Page, combined: Compression, longer: npt.NDArray[np.bool_]) -> None:
    """Show the CNN step by step: half of the channels removed, fine-tuned, quantized.

    Args:
        page: where to.
        combined: the steps, timed and scored.
        longer: which examples the whole CNN gets right that was trained on for as long as the fine-tuned one: what
            comes from fine-tuning on is compared with it, what comes before with the CNN as it was.

    Raises:
        ValueError: if the steps were not timed and scored.
    """
    steps = {
        row.step: (row, row.speedup, row.right)
        for row in combined.steps
        if row.speedup is not None and row.right is not None
    }
    if len(steps) < len(combined.steps):
        raise ValueError("combined must have been timed and scored: give compress_model inputs and score")
    whole, halved, tuned, last = steps.values()
    changes = {
        step: accuracy_change(
            paired_accuracy(longer if row in (tuned[0], last[0]) else whole[2], right),
            f"change of the CNN's accuracy, {_STEPS[step]}",
        )
        for step, (row, _, right) in steps.items()
        if step != ORIGINAL
    }
    rows: list[dict[str, Any]] = [
        {
            "step": _STEPS[step],
            "stored": row.stored,
            "seconds": calls.zoo_pass(row.seconds, "cnn", 64) if row.seconds and step == ORIGINAL else row.seconds,
            "speedup": speedup,
            "score": Counted(float(right.mean()), "%", "share of the test set that is right"),
            "change": changes.get(step),
        }
        for step, (row, speedup, right) in steps.items()
    ]
    rows.insert(1, {**rows[0], "step": "trained as long", "seconds": None, "speedup": None})
    rows[1]["score"] = Counted(float(longer.mean()), "%", "share of the test set that is right")
    page.table(
        "combined",
        rows,
        COMBINED,
        caption="The CNN, step by step: what is stored, how long it takes, and what it gets right. The last two rows "
        "are compared with the whole CNN trained as long, the one before with the CNN as trained.",
    )
    what = "bytes of the CNN over those of the combined version"
    page.number("combined-bytes", Counted(combined.compression_ratio, "", what))
    page.number("combined-speed", last[1])
    page.number("combined-change", changes[last[0].step])
    what = "bytes of the CNN over those with half of the channels"
    page.number("channels-bytes", Counted(whole[0].stored / halved[0].stored, "", what))
    page.number("channels-change", changes[halved[0].step])
    what = "bytes before over after quantization, in the combination"
    page.number("bits-bytes", Counted(tuned[0].stored / last[0].stored, "", what))
    chip = last[1].per(0.2, "s", "a fifth of a second over the speedup of the combination")
    page.number("q-phone", Modelled.by("a speedup that another machine has, too", chip))
