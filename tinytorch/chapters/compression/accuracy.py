"""Accuracy of compressed models: over seeds, pruned and trained on, thinner, taught, and all steps together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.chapters import calls
from tinytorch.chapters.compression.speed import model_speedups, share
from tinytorch.core.module import Module
from tinytorch.perf.compression.compress import Compression
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Verdict, verdict_between
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.noise import NoiseFloor
from tinytorch.perf.quantization.accuracy import paired_accuracy
from tinytorch.perf.quantization.convert import relative_error, stored_bytes
from tinytorch.perf.quantization.tradeoff import accuracy_change

Right = npt.NDArray[np.bool_]


def scores(many: Iterable[Module], what: str = "test accuracy") -> Measurement:
    """Return the test accuracy of MLPs of several seeds: its median is over trainings, not over runs of the clock."""
    found = tuple(models.accuracy(each, "mlp") for each in many)
    return Measurement(what, found, "%", Conditions(sample=Sample.SEEDS))


def gain(candidate: Measurement, baseline: Measurement, what: str) -> Measurement:
    """Return candidate less baseline of each seed: shares (0 to 1), shown in points."""
    apart = (after - before for after, before in zip(candidate.samples, baseline.samples, strict=True))
    return Measurement(what, tuple(apart), "points", Conditions(sample=Sample.SEEDS))


def mlp_change(right: Right, model: Module, what: str) -> Statistic:
    """Return how the test accuracy of an MLP differs from that of one that gets the examples ``right``."""
    return _change(right, models.correct(model, "mlp"), f"change of test accuracy, {what}")


def _change(before: Right, after: Right, what: str) -> Statistic:
    return accuracy_change(paired_accuracy(before, after), what)


def _score(right: Right) -> Counted:
    return Counted(float(right.mean()), "%", "share of the test set that is right")


@dataclass(frozen=True)
class Pruned:
    """MLPs of several seeds with a share of zeros: accuracy at once and fine-tuned, and its change from no zeros."""

    zeros: Counted
    at_once: Measurement
    tuned: Measurement
    change: Measurement


def pruned_mlps(cut: Mapping[float, Sequence[Module]], tuned: Mapping[float, Sequence[Module]]) -> dict[float, Pruned]:
    """Return the accuracy of MLPs that were pruned, and of the same fine-tuned, by share of zeros, rising from none."""

    def scored(zeros: float) -> tuple[Measurement, Measurement]:
        return scores(cut[zeros], f"{zeros:.0%} pruned"), scores(tuned[zeros], f"{zeros:.0%} pruned and trained on")

    every = {zeros: scored(zeros) for zeros in cut}
    return {
        zeros: Pruned(
            Counted(zeros, "%", "share of zeros"),
            at_once,
            later,
            gain(later, every[0][1], f"change of test accuracy, {zeros:.0%} zeros, fine-tuned"),
        )
        for zeros, (at_once, later) in every.items()
    }


def free_share(found: Mapping[float, Pruned], loss: float) -> Derived | Unmeasured:
    """Return the largest share of zeros up to which the seeds exclude such a loss, in points.

    Shares are tested one after the other until one fails: that takes no correction for their number.
    """
    changes = {zeros: each.change for zeros, each in found.items() if zeros}
    tested = {zeros: verdict_between(each, low=-loss, strict=True).verdict for zeros, each in changes.items()}
    free = [*takewhile(lambda zeros: tested[zeros] is Verdict.SUPPORTED, tested)]
    if not free:
        return Unmeasured("at the least share of zeros tried the seeds do not exclude a loss of a point")
    what = "largest share of zeros tried up to which a loss of a point is excluded"
    return Derived(free[-1], "%", what, tuple(changes.values()), "it is one of the shares tried")


@dataclass(frozen=True)
class LowRank:
    """The MLP with a share of its ranks, against the whole one; the errors are relative, of its middle weight."""

    ranks: Counted
    predicted: Modelled
    error: Counted
    stored: Counted
    gain: Measurement
    change: Statistic


def low_rank_mlp(
    mlp: Module,
    low: Mapping[float, Module],
    predicted: Mapping[float, float],
    tuned: Mapping[float, Module],
    as_long: Module,
) -> dict[float, LowRank]:
    """Return what versions of the MLP take and give, by their share of ranks.

    Their middle layer is called "3", of which ``predicted`` are the errors; they are ``tuned``, and then compared with
    the whole model that was trained ``as_long``.
    """
    gains, right = model_speedups(mlp, low, models.example("mlp", 64)), models.correct(as_long, "mlp")
    weight = dict(mlp.named_parameters())["3.weight"].data

    def error(version: Module) -> float:
        factors = dict(version.named_parameters())
        return relative_error(weight, factors["3.left"].data @ factors["3.right"].data)

    return {
        ranks: LowRank(
            Counted(ranks, "%", "share of ranks"),
            Modelled(predicted[ranks], "%", "relative error of the weight", "the singular values that are left out"),
            Counted(error(version), "%", f"error of the MLP's middle weight, {ranks:.0%} of its ranks"),
            share(stored_bytes(version), stored_bytes(mlp), "bytes of the dense model's"),
            gains[ranks],
            mlp_change(right, tuned[ranks], f"ranks {ranks:.0%}, fine-tuned"),
        )
        for ranks, version in low.items()
    }


@dataclass(frozen=True)
class Method:
    """A version of the MLP against the whole one: bytes of its, speedup, accuracy and its change, paired."""

    stored: Counted
    speedup: Measurement
    score: Counted
    change: Statistic


def methods_of(whole: Module, versions: Mapping[str, Module], gains: Mapping[str, Measurement]) -> dict[str, Method]:
    """Return what each version of the MLP takes and gives, ``whole`` trained on for as long as they were."""
    right = models.correct(whole, "mlp")
    return {
        name: Method(
            share(stored_bytes(version), stored_bytes(whole), "bytes of the whole model's"),
            gains[name],
            _score(models.correct(version, "mlp")),
            mlp_change(right, version, name),
        )
        for name, version in versions.items()
    }


def best_of(methods: Mapping[str, Method], noise: NoiseFloor) -> str:
    """Return the methods that store less, are proven faster beyond the noise, and have no proven loss.

    Many speedups are looked at for those above one; a loss is looked for in each by itself, which finds more.
    """
    best = [
        name
        for name, each in methods.items()
        if each.stored.value < 1
        and not noise.hides(each.speedup.median)
        and verdict_between(each.speedup, low=1.0, strict=True, together=len(methods)).verdict is Verdict.SUPPORTED
        and verdict_between(each.change, high=0.0, strict=True).verdict is not Verdict.SUPPORTED
    ]
    return "; ".join(best) or "none"


@dataclass(frozen=True)
class CnnStep:
    """The CNN after a step: bytes, times, accuracy, and its change, paired."""

    stored: Counted
    seconds: Measurement
    speedup: Measurement
    score: Counted
    change: Statistic


def cnn_steps(
    combined: Compression, longer: Module, names: Sequence[str]
) -> tuple[Mapping[str, object], Sequence[CnnStep]]:
    """Return rows for the CNN as it was, the same trained as long, and its three steps, by these names; and the steps.

    The second step fine-tunes: it and the third are compared with ``longer``, the first with the CNN as it was.
    """
    (size, seconds, speedup, whole), *after = [
        (row.stored, row.seconds, row.speedup, row.right)
        for row in combined.steps
        if row.seconds is not None and row.speedup is not None and row.right is not None
    ]
    rival, took = models.correct(longer, "cnn"), calls.zoo_pass(seconds, "cnn", 64)
    stored = Counted(size, "B", "bytes of the CNN")
    rows: dict[str, object] = {
        names[0]: {"stored": stored, "seconds": took, "speedup": speedup, "score": _score(whole), "change": None},
        names[1]: {"stored": stored, "seconds": None, "speedup": None, "score": _score(rival), "change": None},
    }
    steps = {
        name: CnnStep(
            Counted(size, "B", f"bytes of the CNN, {name}"),
            took,
            faster,
            _score(right),
            _change(before, right, f"change of the CNN's accuracy, {name}"),
        )
        for name, (size, took, faster, right), before in zip(names[2:], after, (whole, rival, rival), strict=True)
    }
    return rows | steps, [*steps.values()]
