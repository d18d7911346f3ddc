"""The checks of the exercises: they pass what is right, and fail what is nearly right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinytorch.perf import exercises

Check = Callable[[Any], str]


def bottleneck(rows: list[Any]) -> str:
    seconds: dict[str, float] = {}
    for row in rows:
        seconds[row.op] = seconds.get(row.op, 0) + row.self_seconds
    return max(seconds, key=lambda op: seconds[op])


def scale_and_zero_point(low: float, high: float) -> tuple[float, int]:
    low, high = min(low, 0.0), max(high, 0.0)
    return (high - low) / 255, -128 - round(low / ((high - low) / 255))


def choose(rows: list[Any], budget: int) -> list[str]:
    chosen: list[str] = []
    for row in sorted(rows, key=lambda row: row.error / row.saved_bytes, reverse=True):
        if row.saved_bytes <= budget:
            chosen.append(row.name)
            budget -= row.saved_bytes
    return chosen


RIGHT: list[tuple[Check, Callable[..., Any]]] = [
    (exercises.check_linear_flops, lambda width, out, rows: 2 * width * out * rows),
    (
        exercises.check_overall_speedup,
        lambda shares, speedups: 1 / (1 - sum(shares) + sum(p / s for p, s in zip(shares, speedups, strict=True))),
    ),
    (exercises.check_bottleneck, bottleneck),
    (exercises.check_intensity, lambda m, k, n: 2 * m * k * n / (4 * (m * k + k * n + m * n))),
    (exercises.check_least_seconds, lambda flops, traffic, peak, bandwidth: max(flops / peak, traffic / bandwidth)),
    (exercises.check_scale_and_zero_point, scale_and_zero_point),
    (exercises.check_breaks_naive, lambda: [100.0, 100.5, 101.0]),
    (exercises.check_breaks_naive, lambda: np.full(3, 7.0)),
    (exercises.check_breaks_naive, lambda: np.linspace(0, 1e-9, 5)),
    (exercises.check_choose_layers, choose),
]

WRONG: list[tuple[Check, Callable[..., Any]]] = [
    (exercises.check_linear_flops, lambda width, out, rows: width * out * rows),
    (exercises.check_linear_flops, lambda width, out, rows: 2 * width * out),
    (exercises.check_overall_speedup, lambda shares, speedups: sum(speedups) / len(speedups)),
    (exercises.check_overall_speedup, lambda shares, speedups: 1 / (1 - sum(shares))),
    (exercises.check_bottleneck, lambda rows: min(rows, key=lambda row: row.self_seconds).op),
    (exercises.check_intensity, lambda m, k, n: m * k * n / (4 * (m * k + k * n + m * n))),
    (exercises.check_intensity, lambda m, k, n: 2 * m * k * n / (4 * (m * k + k * n))),
    (exercises.check_least_seconds, lambda flops, traffic, peak, bandwidth: flops / peak + traffic / bandwidth),
    (
        exercises.check_scale_and_zero_point,
        lambda low, high: ((high - low) / 255, -128 - round(low * 255 / (high - low))),
    ),
    (exercises.check_scale_and_zero_point, lambda low, high: (max(high, -low) / 127, 0)),
    (exercises.check_breaks_naive, lambda: np.linspace(-1, 1, 9)),
    (exercises.check_breaks_naive, lambda: [1e-3, 1e3]),
    (exercises.check_choose_layers, lambda rows, budget: [row.name for row in rows]),
    (exercises.check_choose_layers, lambda rows, budget: []),
]


@pytest.mark.parametrize(("check", "function"), RIGHT)
def test_a_right_answer_passes(check: Check, function: Callable[..., Any]) -> None:
    assert check(function).endswith("passed")


@pytest.mark.parametrize(("check", "function"), WRONG)
def test_a_wrong_answer_fails_and_says_what_would_be_right(check: Check, function: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match="not"):
        check(function)
