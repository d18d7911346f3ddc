"""What compressed models get right: over seeds, in patterns, of lower rank, taught, and all steps together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.chapters import calls
from tinytorch.chapters.compression.speed import model_speedups, share
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression.compress import Compression
from tinytorch.perf.compression.low_rank import low_rank_model
from tinytorch.perf.compression.pruning import chosen_layers, compact_n_m, smallest, with_masks
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Judgement, verdict_between, verdict_of_all
from tinytorch.perf.quantization.accuracy import paired_accuracy
from tinytorch.perf.quantization.convert import relative_error, stored_bytes
from tinytorch.perf.quantization.tradeoff import accuracy_change

Right = npt.NDArray[np.bool_]


@cache
def moved_digits() -> tuple[Tensor, npt.NDArray[np.int64]]:
    """Return the test images and four copies of each, moved by a pixel as those to train on are; and what they show."""
    data = models.entry("mlp").data()
    wide = np.pad(data.test_inputs, ((0, 0), (0, 0), (1, 1), (1, 1)))
    places = [(1, 1), (0, 1), (2, 1), (1, 0), (1, 2)]
    images = [wide[:, :, down : down + 8, right : right + 8] for down, right in places]
    return Tensor(np.concatenate(images)), np.tile(data.test_targets, len(places))


def _logits(model: Any) -> Array:
    with no_grad():
        found: Array = model(moved_digits()[0]).data
    return found


def scores(many: Iterable[Module], what: str = "test accuracy") -> Measurement:
    """Return the accuracy of MLPs of several seeds on `moved_digits`: its median is over trainings, not over runs."""
    found = tuple(float((_logits(each).argmax(axis=1) == moved_digits()[1]).mean()) for each in many)
    return Measurement(what, found, "%", Conditions(sample=Sample.SEEDS))


def still_scores(many: Iterable[Module], what: str) -> Measurement:
    """Return the same on the test images as they are, for those that have never seen a moved one."""
    found = tuple(models.accuracy(each, "mlp") for each in many)
    return Measurement(what, found, "%", Conditions(sample=Sample.SEEDS))


def gain(candidate: Measurement, baseline: Measurement, what: str) -> Measurement:
    """Return candidate less baseline of each seed: shares (0 to 1), shown in points."""
    apart = (after - before for after, before in zip(candidate.samples, baseline.samples, strict=True))
    return Measurement(what, tuple(apart), "points", Conditions(sample=Sample.SEEDS))


def _change(before: Right, after: Right, what: str) -> Measurement:
    return accuracy_change(paired_accuracy(before, after), what)


def _score(right: Right) -> Counted:
    return Counted(float(right.mean()), "%", "share of the test set that is right")


def times(one: Measurement, other: Measurement, what: str = "of each seed, the one over the other") -> Measurement:
    """Return one of each seed over the other."""
    parts = (above / below for above, below in zip(one.samples, other.samples, strict=True))
    return Measurement(what, tuple(parts), "", Conditions(sample=Sample.SEEDS))


@dataclass(frozen=True)
class Pruned:
    """MLPs of several seeds with a share of zeros: accuracy at once and fine-tuned, and its change from no zeros."""

    zeros: Counted
    at_once: Measurement
    tuned: Measurement | Unmeasured
    change: Measurement | Unmeasured


def pruned_mlps(cut: Mapping[float, Sequence[Module]], tuned: Mapping[float, Sequence[Module]]) -> dict[float, Pruned]:
    """Return the accuracy of MLPs that were pruned, and of those fine-tuned, by share of zeros, rising from none."""
    later = {zeros: scores(each, f"{zeros:.0%} pruned and trained on") for zeros, each in tuned.items()}
    absent = Unmeasured("these were not fine-tuned")

    def change(zeros: float) -> Measurement | Unmeasured:
        what = f"change of test accuracy, {zeros:.0%} zeros, fine-tuned"
        return gain(later[zeros], later[0], what) if zeros in later else absent

    return {
        zeros: Pruned(
            Counted(zeros, "%", "share of zeros"),
            scores(each, f"{zeros:.0%} pruned"),
            later.get(zeros, absent),
            change(zeros),
        )
        for zeros, each in cut.items()
    }


@dataclass(frozen=True)
class Pattern:
    """A share of the weights of MLPs of several seeds removed in a pattern, without training: what that does."""

    left: Counted
    error: Measurement


def patterns(whole: Sequence[Module], versions: Mapping[str, Sequence[Module]]) -> dict[str, Pattern]:
    """Return the errors of the outputs of each pattern's versions, and the share of weights that they keep."""
    truth = [_logits(each) for each in whole]

    def weights_left(model: Module) -> float:
        arrays = [each.data for each in model.parameters() if each.data.ndim > 1]
        return sum(int(np.count_nonzero(each)) for each in arrays) / sum(each.size for each in arrays)

    def errors(name: str) -> Measurement:
        found = (relative_error(*pair) for pair in zip(truth, map(_logits, versions[name]), strict=True))
        return Measurement(f"error of the outputs, {name}", tuple(found), "%", Conditions(sample=Sample.SEEDS))

    return {
        name: Pattern(Counted(weights_left(versions[name][0]), "%", "share of the weights left"), errors(name))
        for name in versions
    }


def in_blocks(model: Module, share: float, block: int) -> Module:
    """Return a copy whose linear layers lack the least of their blocks of so many outputs, where they divide them."""

    def gone(weight: Array) -> npt.NDArray[np.bool_]:
        sizes = np.abs(weight).reshape(len(weight), -1, block).sum(axis=2)
        return np.asarray(np.repeat(smallest([sizes], share)[0], block, axis=1))

    layers = {name: each.weight.data for name, each in chosen_layers(model).items()}
    return with_masks(model, {name: gone(weight) for name, weight in layers.items() if weight.shape[1] % block == 0})


@dataclass(frozen=True)
class Lost:
    """What a share of its ranks leaves out of a weight, relative, by its singular values."""

    weight: str
    ranks: Counted
    lost: Modelled


def spectra(weights: Mapping[str, Array], lost: Callable[[Array, int], float]) -> Iterator[Lost]:
    """Yield what each eighth of its ranks leaves out of each weight, by ``lost`` of the weight and a rank."""
    for name, weight in weights.items():
        for kept in np.arange(0, 8) / 8:
            error = lost(weight, int(kept * min(weight.shape)))
            yield Lost(
                name,
                Counted(float(kept), "%", "share of the ranks"),
                Modelled(error, "%", f"relative error of a weight, {name}", "the singular values that are left out"),
            )


@dataclass(frozen=True)
class Cut:
    """An MLP of which one weight has a lower rank: that weight's error, predicted and found, and the outputs'."""

    rank: Counted
    predicted: Modelled
    error: Counted
    outputs: Counted
    stored: Counted


def cut_at(mlp: Module, name: str, rank: int, lost: Callable[[Array, int], float]) -> Cut:
    """Return what it does to the MLP to give its layer of that name a lower rank, without training."""
    weight = dict(mlp.named_parameters())[f"{name}.weight"].data
    version = low_rank_model(mlp, {name: rank})
    factors = dict(version.named_parameters())
    what = f"rank {rank} of layer {name}"
    found = relative_error(weight, factors[f"{name}.left"].data @ factors[f"{name}.right"].data)
    return Cut(
        Counted(rank, "1", what),
        Modelled(lost(weight, rank), "%", f"relative error, {what}", "the singular values that are left out"),
        Counted(found, "%", f"relative error, {what}"),
        Counted(relative_error(_logits(mlp), _logits(version)), "%", f"error of the outputs, {what}"),
        share(stored_bytes(version), stored_bytes(mlp), "bytes of the dense model's"),
    )


@dataclass(frozen=True)
class Method:
    """Versions of the MLP of several seeds against the whole ones: bytes and time of theirs, accuracy and its change.

    ``change`` is of each seed from its whole model, which was trained for as long. ``passes`` says whether they store
    less, are proven faster, and are proven to lose less than the loss that was allowed.
    """

    stored: Counted
    time: Measurement
    speedup: Measurement
    score: Measurement
    change: Measurement
    passes: Judgement


def methods_of(
    whole: Sequence[Module], versions: Mapping[str, Sequence[Module]], two_of_four: str, loss: float, repeats: int = 30
) -> dict[str, Method]:
    """Return what each way to a smaller MLP takes and gives; one seed's models are timed, on 64 images.

    The weights of the version ``two_of_four`` count in their compact form.
    """
    firsts = {name: each[0] for name, each in versions.items()}
    gains = model_speedups(whole[0], firsts, models.example("mlp", 64), repeats)
    right = scores(whole, "test accuracy of the whole model")

    def method(name: str) -> Method:
        score, inverse = scores(versions[name], f"test accuracy, {name}"), 1 / np.array(gains[name].samples)
        time = Measurement(f"time over that of the whole, {name}", tuple(inverse.tolist()), "%", gains[name].conditions)
        first = firsts[name]
        weights = [layer.weight.data for layer in chosen_layers(first).values()] if name == two_of_four else []
        spared = sum(weight.nbytes - compact_n_m(weight).nbytes for weight in weights)
        stored = share(stored_bytes(first) - spared, stored_bytes(whole[0]), "bytes of the whole model's")
        change = gain(score, right, f"change of test accuracy, {name}")
        return Method(stored, time, gains[name], score, change, is_better(stored, gains[name], change, loss))

    return {name: method(name) for name in versions}


@dataclass(frozen=True)
class Point:
    """A way to a smaller MLP: what is left of the whole model's bytes or time, and its accuracy."""

    what: str
    name: str
    left: Measurement
    score: Measurement


def points_of(methods: Mapping[str, Method], stored: str, time: str) -> Iterator[Point]:
    """Yield each method twice, under these words: by its bytes and by its time."""
    for name, each in methods.items():
        yield Point(stored, name, each.stored, each.score)
    for name, each in methods.items():
        yield Point(time, name, each.time, each.score)


def is_better(stored: Counted, speedup: Measurement, change: Measurement, loss: float) -> Judgement:
    """Return whether a version stores less, is proven faster, and is proven to lose less than ``loss``."""
    return verdict_of_all(
        (
            verdict_between(stored, high=1.0, strict=True),
            verdict_between(speedup, low=1.0, strict=True),
            verdict_between(change, low=-loss, strict=True),
        )
    )


@dataclass(frozen=True)
class CnnStep:
    """The CNN after a step: bytes, times, accuracy, and its change, paired."""

    stored: Counted
    seconds: Measurement
    speedup: Measurement
    score: Counted
    change: Measurement


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
