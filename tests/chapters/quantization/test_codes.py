"""What the page says of codes, against what can be computed by hand or was published."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from tests.chapters.made_turns import made, records
from tinytorch.chapters.quantization import codes as chapter
from tinytorch.chapters.quantization.codes import Outlier, by_observer, normal_optimum, normals_with_outlier
from tinytorch.core.tensor import Tensor
from tinytorch.perf.quantization import (
    MeanSquaredErrorObserver,
    MinMaxObserver,
    PercentileObserver,
    Scheme,
    dequantize_int8,
    integer_product,
    quantize,
    quantize_int8,
)
from tinytorch.report import Page


@pytest.mark.parametrize(
    ("bits", "step", "error"),
    [(1, 1.596, 0.3634), (2, 0.9957, 0.1188), (3, 0.5860, 0.03744), (4, 0.3352, 0.01154), (5, 0.1881, 0.003490)],
)
def test_even_levels_are_those_of_max_s_table_of_1960(bits: int, step: float, error: float) -> None:
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


def test_an_outlier_costs_the_rest_what_its_step_says() -> None:
    """Rounding within a step is uniform noise of step² / 12, if nothing is clipped."""
    numbers = normals_with_outlier(20_000, 50)
    assert (numbers == 50).sum() == 1
    found = by_observer(numbers, {"all": MinMaxObserver, "most": PercentileObserver, "mse": MeanSquaredErrorObserver})
    rest = numbers[numbers != 50].astype(np.float64)
    expected = 10 * np.log10((rest**2).mean() / (found["all"].step ** 2 / 12))
    assert found["all"].rest_db == pytest.approx(expected, abs=0.2)
    assert found["all"].became == pytest.approx(50, abs=found["all"].step)
    assert found["most"].rest_db > found["all"].rest_db + 10
    assert found["most"].became < 10 < found["mse"].became
    everything = by_observer(numbers, {"all": MinMaxObserver}, counted=np.ones(20_000, bool))["all"]
    assert everything.rest_db > found["all"].rest_db, "the outlier is most of the signal"
    with pytest.raises(ValueError, match="at least 2"):
        normals_with_outlier(1, 50)


def test_codes_come_back_within_half_a_step_and_zero_as_zero() -> None:
    x = Tensor(np.array([-1, -0.3456, 0, 0.012, 0.5, 1.6], np.float32))
    q, scale, zero_point = quantize_int8(x)
    page = Page("quantization")
    chapter.record_codes(page, x, q, scale, dequantize_int8(q, scale, zero_point))
    said = records(page)
    assert said["half-step"]["value"] == pytest.approx(2.6 / 255 / 2, rel=1e-5)
    assert 0 < said["worst-error"]["value"] <= said["half-step"]["value"] * (1 + 1e-5)
    shown = said["codes"]["rows"]
    assert [row["code"]["value"] for row in (shown[0], shown[-1])] == [-128, 127]
    assert max(row["error"]["value"] for row in shown) == said["worst-error"]["value"]
    assert "staircase" in said


@pytest.mark.parametrize("off", [0, 3])
def test_sums_are_held_against_the_exact_product(off: int) -> None:
    draw = np.random.default_rng(0)
    x, weight = draw.standard_normal((5, 300), dtype=np.float32), draw.standard_normal((300, 4), dtype=np.float32)
    a, b = quantize(x), quantize(weight, Scheme(per="channel"))
    sums = integer_product(a.codes, b.codes)
    sums.reshape(-1)[:off] += 1
    page = Page("quantization")
    chapter.record_integer_product(page, x @ weight, a, b, sums)
    said = records(page)
    assert (said["inexact-sums"]["value"], said["all-sums"]["value"]) == (off, 20)
    error = np.linalg.norm(a.dequantize() @ b.dequantize() - x @ weight) / np.linalg.norm(x @ weight)
    assert said["product-error"]["value"] == pytest.approx(error, rel=1e-3)
    assert said["numpy-wrong"]["value"] > 0.9, "sums of 300 products of bytes do not fit a byte"


def test_words_follow_the_signal_of_the_rest() -> None:
    numbers = normals_with_outlier(2000, 50)
    one = Outlier(low=-4, high=50, step=0.2, rest_db=20, became=50)
    found = {"a": one, chapter.ERROR_BASED: replace(one, rest_db=25), "b": replace(one, rest_db=30)}
    page = Page("quantization")
    chapter.record_outliers(page, numbers, found)
    said = records(page)
    assert (said["worst-observer"]["word"], said["best-observer"]["word"]) == ("a", "b")
    assert [said[f"rest-{key}"]["value"] for key in ("worst", "error-based", "best")] == [20, 25, 30]
    without = by_observer(np.delete(numbers, 1000), {"mse": MeanSquaredErrorObserver}, counted=np.ones(1999, bool))
    assert said["no-outlier"]["value"] == without["mse"].rest_db
    assert said["even-levels"]["value"] == pytest.approx(40.5, abs=0.1)


@pytest.mark.parametrize(("share", "limit"), [(0.75, 4), (-0.1, 1), (1.2, 100)])
def test_answers_are_arithmetic(share: float, limit: float) -> None:
    page = Page("quantization")
    chapter.record_answers(page, made(share, "%"), 360)
    said = {key: record.get("value") for key, record in records(page).items()}
    assert said["q-limit"] == pytest.approx(limit, rel=1e-3)
    assert (said["q-float"], said["q-eight"], said["q-four"]) == (28e9, 7e9, 3.5e9 + 28e9 / 32)
    assert (said["q-scale"], said["q-zero"]) == (pytest.approx(4 / 255), -64)
    assert said["q-error"] == pytest.approx(2 / 255)
    assert said["q-overflow"] == (2**31 - 1) // 2**14
    assert said["q-exact"] == 2**24 // 2**14
    assert said["q-digits"] == 360


@pytest.mark.parametrize("loss", [0.005, 0.02])
def test_enough_examples_are_those_of_the_closed_form(loss: float) -> None:
    """With nothing gained and nothing lost the score interval reaches z² / (n + z²) to each side."""
    z = norm.ppf(0.95)
    assert chapter.enough_examples(loss) == math.ceil(z**2 * (1 / loss - 1))
