"""Checks for the exercises on better rounding: each passes or fails a reader's function, and says on what it failed."""

from collections.abc import Callable, Sequence

import numpy as np

from tinytorch.chapters.better_rounding.formats import e4m3
from tinytorch.chapters.checking import exercise_check
from tinytorch.core.op import Array
from tinytorch.perf.quantization.convert import Sensitivity, layers_to_keep


@exercise_check
def check_second(function: Callable[[Array, float, Array], float]) -> None:
    """Return "... passed" if ``function(w, level, h)`` gives the second weight that makes up best for the first.

    The error of a product is eᵀhe, where e are the changes of both weights.
    """
    draw = np.random.default_rng(0)
    for _ in range(30):
        inputs, w = draw.normal(size=(50, 2)) + 2 * draw.normal(size=(50, 1)), draw.normal(size=2)
        h, level = inputs.T @ inputs / 50, float(np.round(w[0]))
        answer = function(w, level, h)
        # The best second weight alone explains what the first one's change leaves.
        right = w[1] + np.linalg.lstsq(inputs[:, 1:], -inputs[:, 0] * (level - w[0]), rcond=None)[0][0]
        assert np.isclose(answer, right, rtol=1e-6), (
            f"for w={w}, level={level} and h={h} it is {right:.5f}, not {answer}"
        )


@exercise_check
def check_e4m3(function: Callable[[float], float]) -> None:
    """Return "... passed" if ``function(value)`` rounds positive numbers up to 448 as FP8 with E4M3 does."""
    draw = np.random.default_rng(0)
    for value in (*(2.0 ** draw.uniform(-9, 8.8, 200)), 1.0, 448.0, 2.0**-9):
        right, answer = float(e4m3(np.array(value))), function(float(value))
        assert np.isclose(answer, right, rtol=1e-9), f"{value:.6g} becomes {right:.6g}, not {answer}"


@exercise_check
def check_choose_layers(function: Callable[[list[Sensitivity], int], Sequence[str]]) -> None:
    """Return "... passed" if ``function(rows, extra_bytes)`` names layers that fit, and avoid as much error as greed.

    Greed takes layers by error avoided for each byte, see `layers_to_keep`.
    """
    draw = np.random.default_rng(0)
    for _ in range(30):
        sizes = [int(size) for size in draw.integers(100, 100_000, 6)]
        rows = [
            Sensitivity(f"layer{index}", "Linear", float(error), size)
            for index, (error, size) in enumerate(zip(draw.exponential(0.1, 6), sizes, strict=True))
        ]
        budget = int(sum(sizes) * draw.uniform(0.1, 0.6))
        answer = function(rows, budget)
        assert isinstance(answer, list | tuple | set), f"it must return a list of names, not {answer!r}"
        chosen = set(answer)
        spent = sum(row.saved_bytes for row in rows if row.name in chosen)
        assert spent <= budget, f"{sorted(chosen)} take {spent} bytes more, not at most {budget}"
        avoided = sum(row.error for row in rows if row.name in chosen)
        possible = sum(row.error for row in rows if row.name in layers_to_keep(rows, budget))
        assert avoided >= possible - 1e-12, f"{sorted(chosen)} avoid {avoided:.4f}, not the {possible:.4f} that fit"
