"""What the studies of accuracy compute, on models of a small zoo and on made results."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.chapters.made_turns import made
from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.compression import accuracy as chapter
from tinytorch.core.module import Module
from tinytorch.perf.compression import Compression, low_rank_model, n_m_prune, structured_prune
from tinytorch.perf.compression.compress import StepReport
from tinytorch.perf.measuring import Counted, Measurement, Unmeasured
from tinytorch.perf.quantization import paired_accuracy, stored_bytes


def test_scores_and_changes_are_of_the_digits_and_their_moved_copies() -> None:
    images, labels = chapter.moved_digits()
    data = models.entry("mlp").data()
    assert images.shape == (5 * len(data.test_inputs), 1, 8, 8)
    np.testing.assert_array_equal(images.data[: len(data.test_inputs)], data.test_inputs)
    np.testing.assert_array_equal(labels, np.tile(data.test_targets, 5))
    for copy, step, axis in ((1, 1, 2), (2, -1, 2), (3, 1, 3), (4, -1, 3)):
        moved = images.data.reshape(5, -1, 8, 8)[copy]
        inside = np.s_[:, 1:-1, 1:-1]
        np.testing.assert_array_equal(moved[inside], np.roll(data.test_inputs[:, 0], step, axis - 1)[inside])
    one, other = make("mlp"), make("mlp", seed=1)
    found = chapter.scores([one, other])
    assert found.samples[0] == (one(images).data.argmax(axis=1) == labels).mean()
    apart = chapter.gain(found, chapter.scores([other, other]), "change")
    assert (apart.samples, apart.unit) == ((found.samples[0] - found.samples[1], 0), "points")
    assert chapter.times(found, found).samples == (1, 1)
    assert chapter.still_scores([one], "as they are").samples == (models.accuracy(one, "mlp"),)


def test_pruned_models_are_compared_with_those_of_no_zeros() -> None:
    whole, cut, later = (make("mlp", seed=at) for at in range(3))
    found = chapter.pruned_mlps({0: [whole], 0.5: [cut], 0.8: [cut]}, {0: [whole], 0.8: [later]})
    at_once, tuned, none = (chapter.scores([each]).samples for each in (cut, later, whole))
    assert found[0.8].at_once.samples == at_once
    assert isinstance(found[0.8].tuned, Measurement)
    assert found[0.8].tuned.samples == tuned
    assert isinstance(found[0.8].change, Measurement)
    assert found[0.8].change.median == pytest.approx(tuned[0] - none[0])
    assert isinstance(found[0.5].tuned, Unmeasured)
    assert isinstance(found[0.5].change, Unmeasured)


def test_blocks_go_whole_and_the_least_of_them() -> None:
    mlp: Any = make("mlp")
    pruned: Any = chapter.in_blocks(mlp, 0.5, 2)
    before, after = mlp[1].weight.data, pruned[1].weight.data
    blocks = np.abs(before).reshape(len(before), -1, 2).sum(axis=2)
    kept = np.abs(after).reshape(len(after), -1, 2).sum(axis=2)
    assert {*np.unique(kept[kept > 0] == blocks[kept > 0])} == {True}
    assert (kept == 0).sum() == round(0.5 * kept.size)
    assert blocks[kept == 0].max() <= blocks[kept > 0].min()
    found = chapter.patterns([mlp], {"blocks": [pruned], "none": [mlp]})
    assert (found["none"].error.samples, found["none"].left.value) == ((0,), 1)
    assert found["blocks"].left.value < 1
    assert found["blocks"].error.samples[0] > 0


def lost(weight: npt.NDArray[np.float32], rank: int) -> float:
    squares = np.linalg.svd(weight.astype(np.float64), compute_uv=False) ** 2
    return float(np.sqrt(squares[rank:].sum() / squares.sum()))


def test_the_error_of_a_rank_is_that_of_the_singular_values_left_out() -> None:
    mlp = make("mlp")
    weight = dict(mlp.named_parameters())["3.weight"].data
    one, two = (chapter.cut_at(mlp, "3", rank, lost) for rank in (1, 2))
    assert one.error.value == pytest.approx(one.predicted.value, rel=1e-4)
    assert one.predicted.value == lost(weight, 1)
    assert one.outputs.value > two.outputs.value
    assert one.stored.value == stored_bytes(low_rank_model(mlp, {"3": 1})) / stored_bytes(mlp)
    first, *_, last = chapter.spectra({"middle": weight}, lost)
    assert (first.ranks.value, first.lost.value, last.ranks.value) == (0, 1, 7 / 8)


def test_methods_are_compared_with_the_whole_model_in_bytes_time_and_accuracy() -> None:
    whole = make("mlp")
    half = structured_prune(whole, 0.5)
    zeros = n_m_prune(whole)
    methods = chapter.methods_of([whole], {"half": [half], "2:4": [zeros]}, "2:4", loss=0.01, repeats=6)
    assert methods["2:4"].stored.value == pytest.approx(0.5 + 1 / 32, abs=0.01)  # biases are kept whole
    found = methods["half"]
    assert found.stored.value == stored_bytes(half) / stored_bytes(whole)
    assert found.time.samples == pytest.approx([1 / each for each in found.speedup.samples])
    assert found.change.samples[0] == pytest.approx(
        chapter.scores([half]).samples[0] - chapter.scores([whole]).samples[0]
    )
    above, _, below, _ = chapter.points_of(methods, "bytes", "time")
    assert (above.what, above.left, above.score) == ("bytes", found.stored, found.score)
    assert (below.what, below.left, below.name) == ("time", found.time, "half")


def right(correct: int) -> npt.NDArray[np.bool_]:
    """Return a hundred examples of which so many are right."""
    return np.arange(100) < correct


#: Places of nine trainings around their middle, in an order in which neighbours know nothing of one another.
PLACES = (0, 3, -2, 4, -4, 1, -1, 2, -3)


def around(score: float, apart: float = 0.001) -> Measurement:
    """Return nine trainings."""
    return Measurement("score", tuple(score + apart * place for place in PLACES), "%")


@pytest.mark.parametrize(
    ("stored", "speed", "change", "verdict"),
    [
        (0.5, 1.5, -0.005, "supported"),  # at most 0.9 points
        (1.0, 1.5, -0.005, "refuted"),
        (0.5, 0.5, -0.005, "refuted"),
        (0.5, 1.5, -0.008, "open"),  # perhaps more than a point
        (0.5, 1.5, -0.2, "refuted"),
    ],
)
def test_a_better_version_stores_less_runs_faster_and_loses_less_than_a_point(
    stored: float, speed: float, change: float, verdict: str
) -> None:
    found = chapter.is_better(Counted(stored, "%", "bytes"), made(speed), around(change), loss=0.01)
    assert found.verdict == verdict


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
