"""What the studies of codes compute, against what can be computed by hand or was published."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.quantization import codes as chapter
from tinytorch.chapters.quantization.codes import by_observer, confined, normals_with_outlier
from tinytorch.perf.ops.affine import Granularity
from tinytorch.perf.quantization import (
    MinMaxObserver,
    PercentileObserver,
    Scheme,
    integer_product,
    quantize,
)


def test_an_outlier_costs_the_rest_what_its_step_says() -> None:
    """Rounding within a step is uniform noise of step² / 12, if nothing is clipped."""
    numbers = normals_with_outlier(20_000, 50)
    found = by_observer(numbers, {"all": MinMaxObserver, "most": PercentileObserver})
    rest = numbers[numbers != 50].astype(np.float64)
    expected = 10 * np.log10((rest**2).mean() / (found["all"]["step"].value ** 2 / 12))
    assert found["all"]["predicted"].value == pytest.approx(expected)
    assert found["all"]["rest"].value == pytest.approx(expected, abs=0.2)
    assert found["all"]["became"].value == pytest.approx(50, abs=found["all"]["step"].value)
    assert found["most"]["rest"].value > found["all"]["rest"].value + 10
    assert found["most"]["became"].value < 10


def test_an_outlier_reaches_no_further_than_its_scale() -> None:
    weight = normals_with_outlier(128 * 16, 50).reshape(128, 16)
    pers: tuple[Granularity, ...] = ("tensor", "channel", "group")
    shared = [confined(weight, per) for per in pers]
    assert [each["reached"].value for each in shared] == [1, 1 / 16, 1 / 64]
    # A float32 of 32 bits for all numbers, for 128 of them, for 32 of them.
    assert [each["bits"].value for each in shared] == [8 + 32 / 2048, 8 + 32 / 128, 9]
    for each in shared:
        assert each["rest"].value == pytest.approx(each["predicted"].value, abs=1), "few numbers share the largest step"


@pytest.mark.parametrize("off", [0, 3])
def test_sums_are_held_against_the_exact_product(off: int) -> None:
    draw = np.random.default_rng(0)
    x, weight = draw.standard_normal((5, 300), dtype=np.float32), draw.standard_normal((300, 4), dtype=np.float32)
    a, b = quantize(x), quantize(weight, Scheme(per="channel"))
    sums = integer_product(a.codes, b.codes)
    sums.reshape(-1)[:off] += 1
    found = chapter.check_product(x, weight, a, b, sums)
    assert (found["inexact"].value, found["sums"].value) == (off, 20)
    error = np.linalg.norm(a.dequantize() @ b.dequantize() - x @ weight) / np.linalg.norm(x @ weight)
    assert found["error"].value == pytest.approx(error, rel=1e-3)
    assert found["predicted"].value == pytest.approx(error, rel=0.2)
    assert found["wrapped"].value > 0.9, "sums of 300 products of bytes do not fit a byte"


def test_answers_are_arithmetic() -> None:
    assert [each.value for each in chapter.bytes_of(7_000_000_000)] == [28e9, 7e9, 3.5e9 + 28e9 / 32]
    assert [each.value for each in chapter.ruler(-1, 3)] == pytest.approx([4 / 255, -64, 2 / 255])
    assert chapter.INTEGER_DEPTH.value == (2**31 - 1) // 2**14
    assert chapter.FLOAT_DEPTH.value == 2**24 // 2**14
    read, seconds, gain = chapter.coded_gpt2_step(made_ceilings())
    assert seconds.value == pytest.approx(read.value / 10e9), "the made machine's memory"
    assert gain.value == pytest.approx(4 * (124_439_808 - 1023 * 768) / read.value)


@pytest.mark.parametrize("loss", [0.005, 0.02])
def test_enough_examples_are_those_of_the_closed_form(loss: float) -> None:
    """With nothing gained and nothing lost the score interval reaches z² / (n + z²) to each side."""
    z = norm.ppf(0.95)
    assert chapter.enough_examples(loss).value == math.ceil(z**2 * (1 / loss - 1))


def test_unsigned_codes_clip_only_in_pairs() -> None:
    draw = np.random.default_rng(0)
    full = quantize(draw.uniform(0.97, 1, (2, 4)).astype(np.float32)), quantize(np.eye(4, 3, dtype=np.float32) + 99)
    assert chapter.clipped_share(*full) == 1, "250 times 126, twice, does not fit 16 bits"
    even = quantize(draw.uniform(-1, 1, (4, 6)).astype(np.float32)), quantize(np.eye(6, dtype=np.float32))
    assert chapter.clipped_share(*even) == 0
