"""Accuracy, speed and bytes of compressed models, on small models and synthetic results."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.chapters.made_turns import made
from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.compression import accuracy, speed
from tinytorch.chapters.compression.speed import Line, crossing, line_through, time_break_even
from tinytorch.perf.compression import n_m_prune
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions, Sample


def test_scores_are_of_the_digits_and_their_moved_copies() -> None:
    images, labels = accuracy.moved_digits()
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
    pruned: Any = accuracy.in_blocks(mlp, 0.5, 2)
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
    one, two = (accuracy.cut_at(mlp, "3", rank, lost) for rank in (1, 2))
    assert one["error"].value == pytest.approx(one["predicted"].value, rel=1e-4)
    assert one["outputs"].value > two["outputs"].value


def test_two_of_four_count_in_their_compact_form() -> None:
    whole = make("mlp")
    methods = accuracy.methods_of([whole], {"2:4": [n_m_prune(whole)]}, "2:4", loss=0.01, repeats=6)
    assert methods["2:4"]["stored"].value == pytest.approx(0.5 + 1 / 32, abs=0.01)  # biases are kept whole


@pytest.mark.parametrize(
    ("speedups", "expected"),
    [
        ([0.5, 0.8, 1.2, 2.0], 0.7),
        ([2.0, 0.5, 1.5, 3.0], 0.7),
        ([1.0, 1.1, 1.2, 2.0], 0.5),
        ([0.1, 0.2, 0.3, 0.9], 1.0),
        ([0.1, 0.2, 0.5, 3.0], 0.82),
    ],
)
def test_the_crossing_is_where_speedups_come_to_stay_above_one(speedups: list[float], expected: float) -> None:
    assert crossing([0.5, 0.6, 0.8, 0.9], speedups) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("speedups", "middle"),
    [
        ([0.5, 0.8, 1.2, 2.0], 0.7),
        # Above 1 from the first on, or never: the crossing lies where nothing was tried.
        ([1.5, 1.6, 1.7, 2.0], None),
        ([0.1, 0.2, 0.3, 0.5], None),
        ([0.1, 0.2, 0.3, 1.0], None),
    ],
)
def test_a_break_even_beyond_what_was_tried_is_not_told(speedups: list[float], middle: float | None) -> None:
    found = time_break_even([0.5, 0.6, 0.8, 0.9], [made(each, noise=0.05) for each in speedups], "break-even")
    assert (None if isinstance(found, Unmeasured) else found.median) == (middle and pytest.approx(middle))


def test_a_break_even_varies_as_its_density_does() -> None:
    """A speedup that repeats find a tenth larger or smaller breaks even at a density a tenth larger or smaller."""
    levels, conditions = (0.5, 0.8, 0.95), Conditions(between_runs=BetweenRuns(0.05), sample=Sample.TRIALS)
    ours = [Measurement("speedup", (0.1 / (1 - level),) * 9, "", conditions) for level in levels]
    predicted = line_through(0.5, ours[0], 0.95, ours[2]).break_even("predicted").carried
    assert predicted is not None
    density = ours[0].interval
    assert predicted.interval.low == pytest.approx(1 - density.high / 2)
    assert predicted.interval.high == pytest.approx(1 - density.low / 2)
    found = time_break_even(levels, ours, "break-even")
    assert not isinstance(found, Unmeasured)
    width = found.interval.high - found.interval.low
    assert width == pytest.approx(0.2 * (1 - found.median), rel=0.05), "a tenth of the density to either side"


def test_a_line_through_two_speedups_gives_its_parts_and_all_others() -> None:
    """A call of a tenth of the dense product; of the rest, three halves of a dense weight for each that is left."""
    line: Line = line_through(0.2, made(1 / (0.1 + 0.9 * 0.8 * 1.5)), 0.9, made(1 / (0.1 + 0.9 * 0.1 * 1.5)))
    assert (line.call.median, line.weight.median) == pytest.approx((0.1, 1.5))
    assert line.break_even("predicted").value == pytest.approx(1 - 1 / 1.5)


def test_sparse_storage_breaks_even_where_six_bytes_do() -> None:
    size = 64 * 64
    assert speed.bytes_break_even(64).value == pytest.approx(1 - (4 * size - 4 * 65) / (6 * size), abs=2 / size)
