"""What the studies of accuracy compute, on models of a small zoo and on made results."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.chapters.made_turns import made
from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.compression import accuracy as chapter
from tinytorch.perf.compression import n_m_prune
from tinytorch.perf.measuring import Counted, Measurement


def test_scores_are_of_the_digits_and_their_moved_copies() -> None:
    images, labels = chapter.moved_digits()
    data = models.entry("mlp").data()
    assert images.shape == (5 * len(data.test_inputs), 1, 8, 8)
    np.testing.assert_array_equal(images.data[: len(data.test_inputs)], data.test_inputs)
    np.testing.assert_array_equal(labels, np.tile(data.test_targets, 5))
    for copy, step, axis in ((1, 1, 2), (2, -1, 2), (3, 1, 3), (4, -1, 3)):
        moved = images.data.reshape(5, -1, 8, 8)[copy]
        inside = np.s_[:, 1:-1, 1:-1]
        np.testing.assert_array_equal(moved[inside], np.roll(data.test_inputs[:, 0], step, axis - 1)[inside])


def test_blocks_go_whole_and_the_least_of_them() -> None:
    mlp: Any = make("mlp")
    pruned: Any = chapter.in_blocks(mlp, 0.5, 2)
    before, after = mlp[1].weight.data, pruned[1].weight.data
    blocks = np.abs(before).reshape(len(before), -1, 2).sum(axis=2)
    kept = np.abs(after).reshape(len(after), -1, 2).sum(axis=2)
    assert {*np.unique(kept[kept > 0] == blocks[kept > 0])} == {True}
    assert (kept == 0).sum() == round(0.5 * kept.size)
    assert blocks[kept == 0].max() <= blocks[kept > 0].min()


def lost(weight: npt.NDArray[np.float32], rank: int) -> float:
    squares = np.linalg.svd(weight.astype(np.float64), compute_uv=False) ** 2
    return float(np.sqrt(squares[rank:].sum() / squares.sum()))


def test_the_error_of_a_rank_is_that_of_the_singular_values_left_out() -> None:
    mlp = make("mlp")
    one, two = (chapter.cut_at(mlp, "3", rank, lost) for rank in (1, 2))
    assert one["error"].value == pytest.approx(one["predicted"].value, rel=1e-4)
    assert one["outputs"].value > two["outputs"].value


def test_two_of_four_count_in_their_compact_form() -> None:
    whole = make("mlp")
    methods = chapter.methods_of([whole], {"2:4": [n_m_prune(whole)]}, "2:4", loss=0.01, repeats=6)
    assert methods["2:4"]["stored"].value == pytest.approx(0.5 + 1 / 32, abs=0.01)  # biases are kept whole


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
