"""The chapter's experiments, trained variants and exercises: right on small cases, and able to say no."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.perf.quantization.small_zoo import batch, make
from tinytorch import models
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression import LowRankLinear, csr_nbytes, exercises, magnitude_prune, measure_sparsity
from tinytorch.perf.compression.studies import (
    crossing,
    differences,
    low_rank_speedups,
    model_speedups,
    over_seeds,
    sparse_speed,
    zeros_in_dense,
)
from tinytorch.perf.compression.trained import small_mlp, trained_on


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


def test_speeds_are_ratios_of_turns() -> None:
    found = sparse_speed(64, 3, (0.5, 0.99), repeats=6)
    assert [len(each) for each in (found.ours, found.scipy, found.stored)] == [2, 2, 2]
    assert found.break_even.n == found.ours[0].n == 6
    assert all(0.5 <= sample <= 1 for sample in found.break_even.samples)
    assert found.stored[0] == csr_nbytes(64, 64, 2048) / (4 * 64 * 64)
    with pytest.raises(ValueError, match="sparsities must be"):
        sparse_speed(64, 3, (0.9, 0.5))
    assert [*zeros_in_dense(32, 4, (0.5,), repeats=6)] == [0.5]
    assert low_rank_speedups(512, 256, (2,), repeats=6)[0].median > 1, "a hundredth of the work"
    layer = Linear(512, 512, seed=0)
    faster = model_speedups(layer, {"low": LowRankLinear(layer, 2)}, Tensor(np.ones((256, 512), np.float32)), 6)
    assert faster["low"].median > 1


def test_numbers_over_seeds() -> None:
    change = differences("change", [0.5, 0.75, 1.0], [0.25, 0.75, 0.5])
    assert change.samples == (0.25, 0, 0.5)
    assert (change.median, change.unit) == (0.25, "points")
    assert over_seeds("score", np.array([0.5, 0.7]).tolist()).n == 2


def test_training_is_kept_and_keyed_by_weights_masks_and_teacher(tmp_path: Path) -> None:
    model = make("mlp")
    how: dict[str, Any] = {"epochs": 1, "examples": 128, "folder": tmp_path}
    pruned = magnitude_prune(model, 0.8)
    first = trained_on("mlp", pruned, **how)
    assert measure_sparsity(first) == measure_sparsity(pruned)
    assert (first[1].weight.data != pruned[1].weight.data).any()  # type: ignore[index]
    assert len(list(tmp_path.glob("*.npz"))) == 1
    again = trained_on("mlp", pruned, **how)
    for name, values in again.state_dict().items():
        np.testing.assert_array_equal(values, first.state_dict()[name])
    assert len(list(tmp_path.glob("*.npz"))) == 1
    unmasked = make("mlp")
    unmasked.load_state_dict(pruned.state_dict())
    assert measure_sparsity(trained_on("mlp", unmasked, **how)) < 40, "the same values without masks are another start"
    student = small_mlp(6, 5, seed=1)
    alone, taught = trained_on("mlp", student, **how), trained_on("mlp", student, teacher=model, **how)
    assert (alone(batch("mlp")).data != taught(batch("mlp")).data).any()
    assert len(list(tmp_path.glob("*.npz"))) == 4
    assert models.accuracy(alone, "mlp") >= 0
    with pytest.raises(ValueError, match="examples must be"):
        trained_on("mlp", student, 1, examples=0)


def prune(weight: Array, sparsity: float) -> Array:
    flat = weight.reshape(-1).copy()
    flat[np.argsort(np.abs(flat), kind="stable")[: round(sparsity * flat.size)]] = 0
    return flat.reshape(weight.shape)


def test_right_answers_pass() -> None:
    assert exercises.check_prune(prune) == "prune: passed"
    assert exercises.check_csr_bytes(lambda i, o, s: 6 * (1 - s) * i * o + 4 * (o + 1)) == "csr_bytes: passed"

    def remove(first: Array, bias: Array, second: Array, gone: list[int]) -> tuple[Array, Array, Array]:
        return np.delete(first, gone, 1), np.delete(bias, gone), np.delete(second, gone, 0)

    assert exercises.check_remove_neurons(remove) == "remove_neurons: passed"


def test_wrong_answers_are_told_why() -> None:
    def threshold(weight: Array, sparsity: float) -> Array:
        return np.where(np.abs(weight) <= np.quantile(np.abs(weight), sparsity), 0, weight)

    def written(weight: Array, sparsity: float) -> Array:
        weight[...] = prune(weight, sparsity)
        return weight

    cases: list[tuple[Any, Any, str]] = [
        (exercises.check_prune, threshold, "weights are"),
        (exercises.check_prune, written, "must not change"),
        (exercises.check_prune, lambda w, s: prune(w[::-1], s)[::-1], "others than the smallest"),
        (exercises.check_csr_bytes, lambda i, o, s: 4 * (1 - s) * i * o, "bytes, not"),
        (exercises.check_remove_neurons, lambda first, bias, second, gone: (first, bias, second), "shapes must have"),
        (
            exercises.check_remove_neurons,
            lambda f, b, s, g: (f[:, : -len(g)], b[: -len(g)], s[: -len(g)]),
            "not those of the masked",
        ),
    ]
    for check, answer, says in cases:
        with pytest.raises(AssertionError, match=says):
            check(answer)
