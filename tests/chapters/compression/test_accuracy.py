"""What the studies of accuracy compute, on models of a small zoo and on made results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from tests.chapters.made_turns import made
from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.compression import accuracy as chapter
from tinytorch.chapters.compression.accuracy import Method, Pruned
from tinytorch.core.module import Module
from tinytorch.perf.compression import Compression, low_rank_model, structured_prune
from tinytorch.perf.compression.compress import StepReport
from tinytorch.perf.measuring import Counted, Measurement, Unmeasured
from tinytorch.perf.measuring.noise import small_noise_floor
from tinytorch.perf.quantization import accuracy_change, paired_accuracy, stored_bytes


def test_scores_and_changes_are_of_the_digits() -> None:
    one, other = make("mlp"), make("mlp", seed=1)
    found = chapter.scores([one, other])
    first, second = found.samples
    assert (first, second) == (models.accuracy(one, "mlp"), models.accuracy(other, "mlp"))
    apart = chapter.gain(found, chapter.scores([other, other]), "change")
    assert (apart.samples, apart.unit) == ((first - second, 0), "points")
    change = chapter.mlp_change(models.correct(one, "mlp"), other, "other")
    assert change.median == pytest.approx(second - first)


def test_pruned_models_are_compared_with_those_of_no_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, cut, tuned, later = every = [make("mlp", seed=at) for at in range(4)]
    score = {id(model): 0.5 + 0.1 * at for at, model in enumerate(every)}
    monkeypatch.setattr(models, "accuracy", lambda model, _name: score[id(model)])
    found = chapter.pruned_mlps({0: [whole], 0.8: [cut]}, {0: [tuned], 0.8: [later]})
    assert (found[0.8].at_once.samples, found[0.8].tuned.samples) == ((score[id(cut)],), (score[id(later)],))
    assert found[0].change.median == 0
    assert found[0.8].change.median == pytest.approx(0.1)


#: Places of nine trainings around their middle, in an order in which neighbours know nothing of one another.
PLACES = (0, 3, -2, 4, -4, 1, -1, 2, -3)


def around(score: float, apart: float = 0.001) -> Measurement:
    """Return nine trainings."""
    return Measurement("score", tuple(score + apart * place for place in PLACES), "%")


@pytest.mark.parametrize(
    ("changes", "free"),
    [((0.002, 0.001, -0.2), 0.8), ((0.002, -0.1, 0.0), 0.5), ((-0.3, 0.0, 0.0), None), ((0.0, -0.01, 0.0), 0.5)],
)
def test_a_share_is_free_only_if_a_loss_is_excluded_up_to_it(changes: Sequence[float], free: float | None) -> None:
    shares = (0, 0.5, 0.8, 0.9)
    found = {
        zeros: Pruned(Counted(zeros, "%", "zeros"), around(0.9), around(0.9), around(change))
        for zeros, change in zip(shares, (0.0, *changes), strict=True)
    }
    share = chapter.free_share(found, loss=0.01)
    assert (None if isinstance(share, Unmeasured) else share.value) == free


def test_the_error_of_a_rank_is_that_of_the_singular_values_left_out() -> None:
    mlp = make("mlp")
    low = {0.5: low_rank_model(mlp, 0.5, keep=["5"])}
    weight = dict(mlp.named_parameters())["3.weight"].data
    squares = np.linalg.svd(weight.astype(np.float64), compute_uv=False) ** 2
    rank = dict(low[0.5].named_modules())["3"].rank  # type: ignore[attr-defined]
    found = chapter.low_rank_mlp(mlp, low, {0.5: 0.3}, {0.5: mlp}, mlp)[0.5]
    assert found.error.value == pytest.approx(np.sqrt(squares[rank:].sum() / squares.sum()), rel=1e-4)
    assert (found.predicted.value, found.stored.value) == (0.3, stored_bytes(low[0.5]) / stored_bytes(mlp))
    assert found.change.median == 0


def test_methods_are_compared_with_the_whole_model_in_bytes_time_and_accuracy() -> None:
    whole = make("mlp")
    half = structured_prune(whole, 0.5)
    found = chapter.methods_of(whole, {"half": half}, {"half": made(1.5)})["half"]
    assert (found.stored.value, found.speedup.median) == (stored_bytes(half) / stored_bytes(whole), 1.5)
    assert found.score.value == models.accuracy(half, "mlp")
    assert found.change.median == pytest.approx(models.accuracy(half, "mlp") - models.accuracy(whole, "mlp"))


def right(correct: int) -> npt.NDArray[np.bool_]:
    """Return a hundred examples of which so many are right."""
    return np.arange(100) < correct


@pytest.mark.parametrize(
    ("stored", "speed", "correct", "word"),
    [
        (0.5, 1.5, 89, "half"),  # one answer of a hundred is no proven loss
        (1.0, 1.5, 89, "none"),
        (0.5, 1.0, 89, "none"),
        (0.5, 1.0005, 89, "none"),  # proven, but noise would hide it
        (0.5, 1.5, 70, "none"),
    ],
)
def test_the_best_methods_store_less_run_faster_and_have_no_proven_loss(
    stored: float, speed: float, correct: int, word: str
) -> None:
    change = accuracy_change(paired_accuracy(right(90), right(correct)), "change")
    half = Method(Counted(stored, "%", "bytes"), made(speed), Counted(correct / 100, "%", "right"), change)
    methods = {"half": half, "slow": replace(half, speedup=made(0.5))}
    assert chapter.best_of(methods, small_noise_floor()) == word


def steps() -> list[StepReport]:
    """Return the four steps of a CNN, with nine, six, eight and eight tenths right."""
    rows = (("original", 1000, 1.0, 90), ("half", 400, 2.0, 60), ("tuned", 400, 2.0, 80), ("coded", 100, 3.0, 80))
    return [
        StepReport(
            name, "", 1, 0.0, stored, made(1e-3, "s"), made(gain), paired_accuracy(right(90), right(n)), right(n)
        )
        for name, stored, gain, n in rows
    ]


@pytest.fixture
def longer(monkeypatch: pytest.MonkeyPatch) -> Module:
    monkeypatch.setattr(models, "correct", lambda _model, _name: right(95))
    return make("cnn")


NAMES = ["whole", "as long", "half", "tuned", "coded"]


def test_what_was_fine_tuned_is_compared_with_what_was_trained_as_long(longer: Module) -> None:
    rows, after = chapter.cnn_steps(Compression(longer, steps()), longer, NAMES)
    assert [*rows] == NAMES
    assert [step.score.value for step in after] == [0.6, 0.8, 0.8]
    assert [step.change.median for step in after] == [-0.3, -0.15, -0.15]
    assert [(step.stored.value, step.speedup.median) for step in after] == [(400, 2), (400, 2), (100, 3)]
    assert rows["half"] == after[0]


@pytest.mark.parametrize("lack", [lambda row: replace(row, speedup=None), lambda row: replace(row, right=None)])
def test_steps_that_were_not_measured_are_refused(longer: Module, lack: Callable[[StepReport], StepReport]) -> None:
    first, *others = steps()
    with pytest.raises(ValueError, match="shorter"):
        chapter.cnn_steps(Compression(longer, [lack(first), *others]), longer, NAMES)
