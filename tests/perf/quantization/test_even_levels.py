"""The best even levels against the table that J. Max published in 1960."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from tinytorch.perf.quantization.even_levels import normal_optimum


@pytest.mark.parametrize(
    ("bits", "step", "error"),
    [(1, 1.596, 0.3634), (2, 0.9957, 0.1188), (3, 0.5860, 0.03744), (4, 0.3352, 0.01154), (5, 0.1881, 0.003490)],
)
def test_it_is_max_s_table(bits: int, step: float, error: float) -> None:
    found, decibels = normal_optimum(bits)
    assert found == pytest.approx(step, abs=6e-5 if bits > 1 else 6e-4)
    assert decibels == pytest.approx(-10 * np.log10(error), abs=0.01)


def test_rounding_a_million_normal_numbers_loses_as_much() -> None:
    step, decibels = normal_optimum(8)
    numbers = norm.ppf((np.arange(1_000_000) + 0.5) / 1_000_000)
    rounded = step * (np.clip(np.floor(numbers / step), -128, 127) + 0.5)
    assert -10 * np.log10(np.mean((numbers - rounded) ** 2)) == pytest.approx(decibels, abs=0.03)


@pytest.mark.parametrize("bits", [0, 17])
def test_other_widths_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="bits must be from 1 to 16"):
        normal_optimum(bits)
