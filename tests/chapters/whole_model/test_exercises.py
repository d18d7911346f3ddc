"""What looks like one pass but is none, or is not right, fails the exercise on fusion with the reason."""

from typing import Any

import numba
import numpy as np
import pytest

from tinytorch.chapters.whole_model.exercises import check_fused_silu
from tinytorch.core.op import Array
from tinytorch.perf.kernels.runtime.vector_math import sigmoid


def _one_silu(x: Any) -> Any:
    return x * sigmoid(x)


_silu: Any = numba.vectorize(["float32(float32)"])(_one_silu)


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
