"""The checks of the exercises on quantization: they pass what is right, and fail what is nearly right."""

from typing import Any

import numpy as np

from tests.perf.answers import Answer, judged_answers
from tinytorch.chapters.quantization import exercises


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


RIGHT: list[Answer] = [
    (exercises.check_scale_and_zero_point, scale_and_zero_point),
    (exercises.check_breaks_naive, lambda: [100.0, 100.5, 101.0]),
    (exercises.check_breaks_naive, lambda: np.full(3, 7.0)),
    (exercises.check_breaks_naive, lambda: np.linspace(0, 1e-9, 5)),
    (exercises.check_choose_layers, choose),
]

WRONG: list[Answer] = [
    (exercises.check_scale_and_zero_point, lambda low, high: None),
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

test_a_right_answer_passes, test_a_wrong_answer_fails_and_says_what_would_be_right = judged_answers(RIGHT, WRONG)
