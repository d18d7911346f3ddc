"""The checks of the exercises on compression: they pass what is right, and say what is wrong with the rest."""

from typing import Any

import numpy as np
import pytest

from tinytorch.chapters.compression import exercises
from tinytorch.core.op import Array


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
