"""The exercises' checks pass what is right and fail, with the numbers, what is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinytorch.chapters.acceleration.exercises import check_best_tile, check_by_rows, check_panels
from tinytorch.core.op import Array


def _best(registers: int) -> tuple[int, int]:
    fitting = [
        (rows, vectors)
        for rows in range(1, registers)
        for vectors in range(1, registers)
        if rows * vectors + vectors + 1 <= registers and rows * vectors >= 8
    ]
    return min(fitting, key=lambda tile: sum(tile) / (tile[0] * tile[1]))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda registers: (8, 3), "does not fit"),
        (lambda registers: (2, 2), "fewer than 8 sums"),
        (lambda registers: (8, 1), "memory operations"),
    ],
)
def test_a_tile_must_fit_be_large_enough_and_be_best(wrong: Any, why: str) -> None:
    assert check_best_tile(_best) == "best_tile: passed"
    with pytest.raises(AssertionError, match=why):
        check_best_tile(wrong)


def _by_rows(a: Array, b: Array) -> Array:
    out = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            out[i] += a[i, k] * b[k]
    return out


def test_rows_must_be_right_and_are_timed() -> None:
    assert check_by_rows(_by_rows).startswith("by_rows: ")
    with pytest.raises(AssertionError, match="it errs by"):
        check_by_rows(lambda a, b: a @ b + np.float32(0.01))
    with pytest.raises(AssertionError, match="must have shape"):
        check_by_rows(lambda a, b: (a @ b).T)


def _panels(b: Array, width: int) -> Array:
    rows, columns = b.shape
    count = -(-columns // width)
    padded = np.zeros((rows, count * width), b.dtype)
    padded[:, :columns] = b
    return np.ascontiguousarray(padded.reshape(rows, count, width).swapaxes(0, 1))


def test_panels_must_lie_in_order_and_be_filled() -> None:
    assert check_panels(_panels) == "panels: passed"
    with pytest.raises(AssertionError, match="follow each other in memory"):
        check_panels(lambda b, width: _panels(b, width).swapaxes(1, 2).copy().swapaxes(1, 2))
    with pytest.raises(AssertionError, match="panel 0 has other numbers"):
        check_panels(lambda b, width: 2 * _panels(b, width))
    with pytest.raises(AssertionError, match="the shape is"):
        check_panels(lambda b, width: b)
