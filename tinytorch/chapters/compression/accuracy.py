"""What compressed models get right: over seeds, in patterns, of lower rank, taught, and all steps together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import models
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
from tinytorch.perf.quantization.convert import relative_error, stored_bytes
from tinytorch.perf.quantization.tradeoff import accuracy_change

#: What predicts the error of a weight of lower rank.
_LEFT_OUT = "the singular values that are left out"


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


def times(one: Measurement, other: Measurement, what: str = "the one over the other, for each seed") -> Measurement:
    """Return one of each seed over the other."""
    parts = (above / below for above, below in zip(one.samples, other.samples, strict=True))
    return Measurement(what, tuple(parts), "", Conditions(sample=Sample.SEEDS))


def pruned_mlps(
    cut: Mapping[float, Sequence[Module]], tuned: Mapping[float, Sequence[Module]]
) -> dict[float, dict[str, Any]]:
    """Return the accuracy of MLPs that were pruned, and of those fine-tuned, by share of zeros, rising from none.

    ``change`` is that of those fine-tuned from those with no zeros that were trained as long.
    """
    later = {zeros: scores(each, f"accuracy, {zeros:.0%} pruned and fine-tuned") for zeros, each in tuned.items()}
    absent = Unmeasured("these were not fine-tuned")
    return {
        zeros: {
            "zeros": Counted(zeros, "%", "share of zeros"),
            "at_once": scores(each, f"accuracy, {zeros:.0%} pruned"),
            "tuned": later.get(zeros, absent),
            "change": gain(later[zeros], later[0], f"the change of test accuracy ({zeros:.0%} zeros, fine-tuned)")
            if zeros in later
            else absent,
        }
        for zeros, each in cut.items()
    }


def patterns(whole: Sequence[Module], versions: Mapping[str, Sequence[Module]]) -> dict[str, dict[str, Any]]:
    """Return the errors of the outputs of each pattern's versions, and the share of weights that they keep.

    The MLPs are of several seeds, and were not trained after a share of their weights was removed.
    """
    truth = [_logits(each) for each in whole]

    def weights_left(model: Module) -> float:
        arrays = [each.data for each in model.parameters() if each.data.ndim > 1]
        return sum(int(np.count_nonzero(each)) for each in arrays) / sum(each.size for each in arrays)

    def errors(name: str) -> Measurement:
        found = (relative_error(*pair) for pair in zip(truth, map(_logits, versions[name]), strict=True))
        return Measurement(f"error of the outputs, {name}", tuple(found), "%", Conditions(sample=Sample.SEEDS))

    return {
        name: {"left": Counted(weights_left(each[0]), "%", "share of the weights left"), "error": errors(name)}
        for name, each in versions.items()
    }


def in_blocks(model: Module, share: float, block: int) -> Module:
    """Return a copy whose linear layers lack the least of their blocks of so many outputs, where they divide them."""

    def gone(weight: Array) -> npt.NDArray[np.bool_]:
        sizes = np.abs(weight).reshape(len(weight), -1, block).sum(axis=2)
        return np.asarray(np.repeat(smallest([sizes], share)[0], block, axis=1))

    layers = {name: each.weight.data for name, each in chosen_layers(model).items()}
    return with_masks(model, {name: gone(weight) for name, weight in layers.items() if weight.shape[1] % block == 0})


def spectra(weights: Mapping[str, Array], lost: Callable[[Array, int], float]) -> Iterator[dict[str, Any]]:
    """Yield what each eighth of its ranks leaves out of each weight, by ``lost`` of the weight and a rank."""
    for name, weight in weights.items():
        for kept in np.arange(0, 8) / 8:
            error = lost(weight, int(kept * min(weight.shape)))
            yield {
                "weight": name,
                "ranks": Counted(float(kept), "%", "share of the ranks"),
                "lost": Modelled(error, "%", f"relative error of a weight, {name}", _LEFT_OUT),
            }


def cut_at(mlp: Module, name: str, rank: int, lost: Callable[[Array, int], float]) -> dict[str, Any]:
    """Return what it does to the MLP to give its layer of that name a lower rank, without training.

    That is the error of the weight, ``predicted`` by ``lost`` and found (``error``), and that of the ``outputs``.
    """
    weight = dict(mlp.named_parameters())[f"{name}.weight"].data
    version = low_rank_model(mlp, {name: rank})
    factors = dict(version.named_parameters())
    what = f"rank {rank} of layer {name}"
    found = relative_error(weight, factors[f"{name}.left"].data @ factors[f"{name}.right"].data)
    return {
        "rank": Counted(rank, "1", what),
        "predicted": Modelled(lost(weight, rank), "%", f"relative error, {what}", _LEFT_OUT),
        "error": Counted(found, "%", f"relative error, {what}"),
        "outputs": Counted(relative_error(_logits(mlp), _logits(version)), "%", f"error of the outputs, {what}"),
    }


def methods_of(
    whole: Sequence[Module], versions: Mapping[str, Sequence[Module]], two_of_four: str, loss: float, repeats: int = 30
) -> dict[str, dict[str, Any]]:
    """Return what each way to a smaller MLP takes and gives; one seed's models are timed, on 64 images.

    Versions are of several seeds, as are the ``whole`` models, which were trained for as long; ``passes`` is the
    verdict of `is_better` with the ``loss`` that is allowed. Weights of ``two_of_four`` count in their compact form.
    """
    firsts = {name: each[0] for name, each in versions.items()}
    gains = model_speedups(whole[0], firsts, models.example("mlp", 64), repeats)
    right = scores(whole, "test accuracy of the whole model")

    def method(name: str, first: Module) -> dict[str, Any]:
        score = scores(versions[name], f"test accuracy, {name}")
        weights = [layer.weight.data for layer in chosen_layers(first).values()] if name == two_of_four else []
        spared = sum(weight.nbytes - compact_n_m(weight).nbytes for weight in weights)
        stored = share(stored_bytes(first) - spared, stored_bytes(whole[0]), "bytes of the whole model's")
        change = gain(score, right, f"change of test accuracy, {name}")
        passes = is_better(stored, gains[name], change, loss)
        return {"stored": stored, "speedup": gains[name], "score": score, "passes": passes}

    return {name: method(name, first) for name, first in firsts.items()}


def is_better(stored: Counted, speedup: Measurement, change: Measurement, loss: float) -> Judgement:
    """Return whether a version stores less, is proven faster, and is proven to lose less than ``loss``."""
    return verdict_of_all(
        (
            verdict_between(stored, high=1.0, strict=True),
            verdict_between(speedup, low=1.0, strict=True),
            verdict_between(change, low=-loss, strict=True),
        )
    )


def cnn_steps(combined: Compression, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the bytes, speedup and score of the CNN as it was and after each step, by these names.

    ``change`` is that of the score from the CNN as it was, paired.
    """
    return {
        name: {
            "stored": Counted(row.stored, "B", f"bytes of the CNN, {name}"),
            "speedup": row.speedup,
            "score": Counted(row.accuracy.candidate, "%", f"share of the test set that is right, {name}"),
            "change": accuracy_change(row.accuracy, f"change of the CNN's accuracy, {name}"),
        }
        for name, row in zip(names, combined.steps, strict=True)
        if row.accuracy is not None
    }
