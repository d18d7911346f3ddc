"""Codes that are chosen for a product, scales that are moved, and floating formats, against what is known of them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.chapters.quantization import chosen
from tinytorch.perf.quantization.convert import decibels, relative_error

DRAW = np.random.default_rng(0)


def test_where_inputs_have_nothing_to_do_with_one_another_the_nearest_code_is_the_best() -> None:
    weight, inputs = DRAW.standard_normal((8, 3)), np.linalg.qr(DRAW.standard_normal((64, 8)))[0]
    np.testing.assert_allclose(chosen.compensated(weight, 4, inputs), chosen.rounded(weight, 4))


def test_of_two_inputs_that_are_the_same_the_second_makes_up_for_the_first() -> None:
    """All pairs of codes tried: the pair that is chosen gives the sum that comes nearest, which rounding misses."""
    weight, inputs = np.array([[0.30], [0.35], [0.9]]), np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]] * 4)
    step = 0.9 / 3
    sums = [abs((a + b) * step - 0.65) for a, b in product(range(-3, 4), repeat=2)]
    found = chosen.compensated(weight, 3, inputs)
    assert abs(found[:2].sum() - 0.65) == pytest.approx(min(sums))
    np.testing.assert_allclose(found / step, np.round(found / step))


@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 4]))
def test_codes_that_are_chosen_err_less_on_inputs_that_are_alike(seed: int, bits: int) -> None:
    draw = np.random.default_rng(seed)
    weight = draw.standard_normal((32, 16))
    inputs = draw.standard_normal((256, 32)) + 2 * draw.standard_normal((256, 1))
    errors = [
        relative_error(inputs @ weight, inputs @ found)
        for found in (chosen.rounded(weight, bits), chosen.compensated(weight, bits, inputs))
    ]
    assert errors[1] < errors[0]


def test_moved_scales_leave_the_product_and_make_inputs_and_weight_alike() -> None:
    inputs, weight = DRAW.standard_normal((16, 8)) * np.arange(1, 9), DRAW.standard_normal((8, 4))
    scale = chosen.smoothing(inputs, weight)
    np.testing.assert_allclose((inputs / scale) @ (weight * scale[:, None]), inputs @ weight)
    np.testing.assert_allclose(np.abs(inputs / scale).max(axis=0), np.abs(weight * scale[:, None]).max(axis=1))


def test_each_remedy_lowers_the_error_of_a_layer_with_outliers() -> None:
    found = {key: error.value for key, error in chosen.remedies(width=128, columns=2).items()}
    assert found["moved"] < found["inputs"]
    assert found["salient"] < found["weights"]


def test_formats_have_the_values_of_their_specifications() -> None:
    """E2M1 has eight magnitudes; E4M3 ends at 448, its least normal number is 2**-6, its least step 2**-9."""
    every = np.linspace(-7, 7, 20_001)
    assert sorted(set(np.abs(chosen.e2m1(every)))) == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    known = np.array([448, 1000, 1.0625, 2.0**-6, 2.0**-9, 2.0**-11, 17, 19])
    np.testing.assert_array_equal(chosen.e4m3(known), [448, 448, 1, 2.0**-6, 2.0**-9, 0, 16, 20])
    assert len(set(chosen.e4m3(np.linspace(0, 448, 2_000_001)))) == 127


def test_a_float_has_the_signal_of_its_mantissa_whatever_the_size() -> None:
    """Of numbers whose logarithms are spread evenly the mean square is 1.5 / ln 2 of the power of two below them."""
    numbers = 2.0 ** DRAW.uniform(-3, 3, 200_000)
    by_octave = [numbers[(numbers >= 2.0**low) & (numbers < 2.0 ** (low + 1))] for low in range(-3, 3)]
    expected = 10 * np.log10(1.5 / np.log(2) * 12 * 64)
    assert [decibels(each, chosen.e4m3(each)) for each in by_octave] == pytest.approx([expected] * 6, abs=0.1)
