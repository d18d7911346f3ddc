"""The exercises' checks pass what is right and fail, with the numbers, what is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numba
import numpy as np
import pytest

from tinytorch.chapters.whole_model.exercises import check_fused_silu, check_moved_bytes, check_next_part
from tinytorch.core.op import Array
from tinytorch.perf.kernels.runtime.vector_math import sigmoid


def _moved(expression: str, n: int) -> int:
    """By hand: operands that are arrays, and a result, of each operator."""
    arrays = {
        "x + x": 3,
        "x * 2 + 1": 4,
        "x / (1 + exp(-x))": 2 + 2 + 2 + 3,
        "x * x * x": 6,
        "(x - 1) * (x + 1)": 2 + 2 + 3,
        "exp(x) - exp(-x)": 2 + 2 + 2 + 3,
    }
    return 4 * n * arrays[expression]


def test_bytes_that_are_right_pass_and_those_of_one_pass_fail() -> None:
    assert check_moved_bytes(_moved) == "moved_bytes: passed"
    with pytest.raises(AssertionError, match=r"x \* 2 \+ 1 of 1000 numbers moves 16000 bytes, not 8000"):
        check_moved_bytes(lambda expression, n: 12 * n if expression == "x + x" else 8 * n)


def _one_silu(x: Any) -> Any:
    return x * sigmoid(x)


_silu: Any = numba.vectorize(["float32(float32)"])(_one_silu)


def test_one_pass_is_right_and_its_speed_is_told() -> None:
    assert check_fused_silu(_silu).startswith("fused_silu: ")


def _plain(x: Array) -> Array:
    return np.asarray(x / (np.float32(1) + np.exp(-x)))


def _widened(x: Array) -> Array:
    return np.asarray(_silu(x).astype(np.float64))


def _crude(x: Array) -> Array:
    return np.asarray(_silu(x) * np.float32(1.0001))


def _in_place(x: Array) -> Array:
    return np.asarray(_silu(x, out=x))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (_plain, "bytes at a time"),
        (_widened, "float32"),
        (_crude, "errs by"),
        (_in_place, "write to its input"),
    ],
)
def test_what_is_not_fused_or_not_right_fails(wrong: Any, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check_fused_silu(wrong)


def test_the_next_part_is_neither_the_slowest_nor_the_best_offer() -> None:
    def saved(seconds: Mapping[str, float], possible: Mapping[str, float]) -> str:
        return max(possible, key=lambda name: seconds[name] * (1 - 1 / possible[name]))

    assert check_next_part(saved) == "next_part: passed"
    with pytest.raises(AssertionError, match="times faster"):
        check_next_part(lambda seconds, possible: max(possible, key=lambda name: possible[name]))
    with pytest.raises(AssertionError, match=r"times faster|on offer"):
        check_next_part(lambda seconds, possible: max(seconds, key=lambda name: seconds[name]))
