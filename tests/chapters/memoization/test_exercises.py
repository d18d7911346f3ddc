"""The checks of the exercises on memoization: they pass what is right, and fail what is nearly right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinytorch.chapters.memoization import exercises


def _bytes(batch: int, positions: int, layers: int, heads: int, depth: int, itemsize: int) -> int:
    return 2 * batch * positions * layers * heads * depth * itemsize


def _saved(width: int, layers: int, vocabulary: int, position: int) -> int:
    del vocabulary
    return layers * (24 * width**2 * position + 4 * width * position * (position + 1))


def _append(memory: Any, position: int, new: Any) -> Any:
    end = position + new.shape[1]
    if end > memory.shape[1]:
        raise ValueError("full")
    memory[:, position:end] = new
    return memory[:, :end]


def _append_without_limit(memory: Any, position: int, new: Any) -> Any:
    new = new[:, : memory.shape[1] - position]
    memory[:, position : position + new.shape[1]] = new
    return memory[:, : position + new.shape[1]]


def _rate(weights: float, cache: float, batch: int, bandwidth: float, calls: float) -> float:
    return batch / (calls + (weights + batch * cache) / bandwidth)


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (exercises.check_cache_bytes, _bytes, lambda *sizes: _bytes(*sizes) // 2),
        (exercises.check_saved_flops, _saved, lambda w, n, v, p: _saved(w, n, v, p) + 2 * w * v * p),
        (exercises.check_append, _append, lambda *each: _append(*each).copy()),
        (exercises.check_append, _append, _append_without_limit),
        (exercises.check_append, _append, lambda m, p, new: np.concatenate([m[:, :p], new], axis=1)),
        (exercises.check_tokens_per_second, _rate, lambda w, c, n, rate, calls: 1 / (calls + (w + n * c) / rate)),
        (exercises.check_tokens_per_second, _rate, lambda w, c, n, rate, calls: _rate(w, c / n, n, rate, calls)),
        (exercises.check_tokens_per_second, _rate, lambda w, c, n, rate, calls: _rate(w, c, n, rate, n * calls)),
    ],
)
def test_exercises_pass_right_answers_and_fail_wrong_ones(
    check: Callable[[Any], str], right: Callable[..., Any], wrong: Callable[..., Any]
) -> None:
    assert check(right).endswith("passed")
    with pytest.raises(AssertionError):
        check(wrong)
