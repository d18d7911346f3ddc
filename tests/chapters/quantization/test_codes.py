"""What the page says of codes, against what can be computed by hand or was published."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from tests.chapters.made_turns import made, records
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.quantization import codes as chapter
from tinytorch.chapters.quantization.codes import (
    Outlier,
    by_observer,
    confined,
    normals_with_outlier,
    predicted_decibels,
)
from tinytorch.core.tensor import Tensor
from tinytorch.perf.ops.affine import Granularity
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
from tinytorch.perf.quantization.accuracy import paired_accuracy
from tinytorch.perf.quantization.convert import decibels
from tinytorch.report import Page

DIGITS = paired_accuracy(np.ones(360, bool), np.ones(360, bool))


def test_an_outlier_costs_the_rest_what_its_step_says() -> None:
    """Rounding within a step is uniform noise of step² / 12, if nothing is clipped."""
    numbers = normals_with_outlier(20_000, 50)
    assert (numbers == 50).sum() == 1
    found = by_observer(numbers, {"all": MinMaxObserver, "most": PercentileObserver, "mse": MeanSquaredErrorObserver})
    rest = numbers[numbers != 50].astype(np.float64)
    expected = 10 * np.log10((rest**2).mean() / (found["all"].step ** 2 / 12))
    assert found["all"].predicted_db == pytest.approx(expected)
    assert found["all"].rest_db == pytest.approx(expected, abs=0.2)
    assert found["all"].became == pytest.approx(50, abs=found["all"].step)
    assert found["all"].high == 50
    assert found["most"].rest_db > found["all"].rest_db + 10
    assert found["most"].became < 10 < found["mse"].became
    with pytest.raises(ValueError, match="at least 2"):
        normals_with_outlier(1, 50)


def test_an_outlier_reaches_no_further_than_its_scale() -> None:
    weight = normals_with_outlier(128 * 16, 50).reshape(128, 16)
    pers: tuple[Granularity, ...] = ("tensor", "channel", "group")
    shared = {per: confined(weight, per) for per in pers}
    assert [each.reached for each in shared.values()] == [1, 1 / 16, 1 / 64]
    # A float32 of 32 bits for all numbers, for 128 of them, for 32 of them.
    assert [each.bits for each in shared.values()] == [8 + 32 / 2048, 8 + 32 / 128, 9]
    for each in shared.values():
        assert each.rest_db == pytest.approx(each.predicted_db, abs=1), "few numbers share the largest step"
    step = 50 / 127
    assert shared["tensor"].predicted_db == pytest.approx(10 * np.log10(12 / step**2), abs=0.3)
    page = Page("quantization")
    chapter.record_shared(page, {str(per): each for per, each in shared.items()})
    rows = records(page)["shared"]["rows"]
    assert [row["per"] for row in rows] == ["the whole tensor", "each channel", "each group"]
    assert rows[1]["rest"]["value"] == shared["channel"].rest_db


@pytest.mark.parametrize(("eight", "verdict"), [(48.13, "supported"), (46.0, "refuted"), (50.0, "refuted")])
def test_eight_bits_are_worth_48_decibels(eight: float, verdict: str) -> None:
    page = Page("quantization")
    chapter.record_signal(page, {2: 9.5, 8: eight})
    said = records(page)
    assert (said["six-decibels"]["verdict"], said["six-decibels"]["counted"]) == (verdict, True)
    assert said["signal-eight"]["value"] == eight
    row = said["signal"]["rows"][0]
    assert (row["codes"]["value"], row["predicted"]["value"]) == (4, pytest.approx(10 * math.log10(9)))


def test_evenly_spread_numbers_keep_what_the_formula_says() -> None:
    even = np.random.default_rng(0).uniform(-1, 1, 50_000).astype(np.float32)
    for bits in (2, 4, 8):
        made_of = quantize(even, Scheme(bits, symmetric=False))
        found = predicted_decibels(even, float(made_of.scale))
        assert found == pytest.approx(20 * math.log10(2**bits - 1), abs=0.1)
        assert decibels(even, made_of.dequantize()) == pytest.approx(found, abs=0.3)


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
    if not off:
        assert said["product-error-predicted"]["value"] == pytest.approx(error, rel=0.2)
    assert said["numpy-wrong"]["value"] > 0.9, "sums of 300 products of bytes do not fit a byte"


def test_words_follow_the_signal_of_the_rest() -> None:
    one = Outlier(high=50, step=0.2, predicted_db=20.1, rest_db=20, became=50)
    found = {"a": one, chapter.ERROR_BASED: replace(one, rest_db=25), "b": replace(one, rest_db=30)}
    page = Page("quantization")
    chapter.record_outliers(page, found)
    said = records(page)
    assert (said["worst-observer"]["word"], said["best-observer"]["word"]) == ("a", "b")
    assert [said[f"rest-{key}"]["value"] for key in ("worst", "error-based", "best")] == [20, 25, 30]


@pytest.mark.parametrize(("share", "limit"), [(0.75, 4), (-0.1, 1), (1.2, 100)])
def test_answers_are_arithmetic(share: float, limit: float) -> None:
    page = Page("quantization")
    chapter.record_answers(page, made(share, "%"), DIGITS, made_ceilings())
    said = {key: record.get("value") for key, record in records(page).items()}
    assert said["q-limit"] == pytest.approx(limit, rel=1e-3)
    assert (said["q-float"], said["q-eight"], said["q-four"]) == (28e9, 7e9, 3.5e9 + 28e9 / 32)
    assert (said["q-scale"], said["q-zero"]) == (pytest.approx(4 / 255), -64)
    assert said["q-error"] == pytest.approx(2 / 255)
    assert said["q-overflow"] == (2**31 - 1) // 2**14
    assert said["q-exact"] == 2**24 // 2**14
    assert said["q-digits"] == 360
    codes = records(page)["gpt2-coded-bytes"]["value"]
    assert said["gpt2-coded-step"] == pytest.approx(codes / 10e9), "the made machine's memory"
    assert said["gpt2-coded-gain"] == pytest.approx(4 * (124_439_808 - 1023 * 768) / codes)


def test_a_limit_has_the_interval_of_the_share_that_it_comes_from() -> None:
    page = Page("quantization")
    share = made(0.75, "%", noise=0.1)
    chapter.record_answers(page, share, DIGITS, made_ceilings())
    said = records(page)["q-limit"]
    assert said["kind"] == "modelled"
    for end in ("low", "high"):
        assert said["interval"][end] == pytest.approx(1 / (1 - getattr(share.interval, end)))


@pytest.mark.parametrize("loss", [0.005, 0.02])
def test_enough_examples_are_those_of_the_closed_form(loss: float) -> None:
    """With nothing gained and nothing lost the score interval reaches z² / (n + z²) to each side."""
    z = norm.ppf(0.95)
    assert chapter.enough_examples(loss) == math.ceil(z**2 * (1 / loss - 1))
