"""Compensated errors, moved scales, number formats and caches in few bits, against closed forms and specifications."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch import models
from tinytorch.chapters.better_rounding import cached, compensation, formats, mixed, scales
from tinytorch.perf.quantization.convert import Sensitivity, decibels

DRAW = np.random.default_rng(0)


def test_a_grid_covers_the_values_that_share_its_scale() -> None:
    numbers = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    numbers[..., 3] *= 100
    for bits, levels in ((8, 256), (2, 4)):
        rounded = cached.for_each_channel(bits)(numbers)
        assert all(len(np.unique(rounded[0, :, channel])) <= levels for channel in range(8))
        spread = numbers.max(axis=1, keepdims=True) - numbers.min(axis=1, keepdims=True)
        assert (np.abs(rounded - numbers) <= spread / (levels - 1) / 2 + 1e-4).all()
    assert len(np.unique(cached.for_each_token(2, heads=2)(numbers)[0, 0, :4])) <= 4
    np.testing.assert_array_equal(cached.on_grid(np.ones((1, 3), np.float32), 4, 1), np.ones((1, 3)))


def test_a_planted_outlier_changes_no_float_output_but_that_of_codes_by_the_token() -> None:
    stretched = "keys, an outlier planted"
    cases = [("keys", 8), ("keys", 2), (stretched, 2)]
    found = cached.keys_and_values(models.gpt(), cases, outlier=16.0, examples=8)
    assert found["keys", 8]["token"].value < found["keys", 2]["token"].value
    assert found[stretched, 2]["channel"].value == pytest.approx(found["keys", 2]["channel"].value, rel=1e-3)


def test_with_unrelated_inputs_the_nearest_level_is_the_best() -> None:
    weight, inputs = DRAW.standard_normal((8, 3)), np.linalg.qr(DRAW.standard_normal((64, 8)))[0]
    step, top = compensation.grid(weight, 4)
    nearest = compensation.rounded(weight, step, top)
    np.testing.assert_allclose(compensation.compensated(weight, step, top, inputs), nearest)
    assert compensation.predicted_gain(inputs) == pytest.approx(1, rel=0.01)


def test_of_two_inputs_that_are_the_same_the_second_makes_up_for_the_first() -> None:
    """All pairs of codes tried: the pair that is chosen gives the sum that comes nearest, which rounding misses."""
    weight, inputs = np.array([[0.30], [0.35], [0.9]]), np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]] * 4)
    step = 0.9 / 3
    sums = [abs((a + b) * step - 0.65) for a, b in product(range(-3, 4), repeat=2)]
    found = compensation.compensated(weight, *compensation.grid(weight, 3), inputs)
    assert abs(found[:2].sum() - 0.65) == pytest.approx(min(sums))
    np.testing.assert_allclose(found / step, np.round(found / step))


@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 4]))
def test_compensation_lowers_the_error_on_related_inputs(seed: int, bits: int) -> None:
    draw = np.random.default_rng(seed)
    weight = draw.standard_normal((32, 16))
    inputs = draw.standard_normal((256, 32)) + 2 * draw.standard_normal((256, 1))
    assert compensation.gain(weight, *compensation.grid(weight, bits), inputs, inputs) > 1


def test_the_bracket_of_an_input_is_what_later_inputs_cannot_explain() -> None:
    """By least squares: the part of a column that those after it leave unexplained, over all of it."""
    inputs = DRAW.standard_normal((2000, 5)) + DRAW.standard_normal((2000, 1))
    left = [
        inputs[:, k] - inputs[:, k + 1 :] @ np.linalg.lstsq(inputs[:, k + 1 :], inputs[:, k], rcond=None)[0]
        for k in range(5)
    ]
    expected = np.sqrt(np.square(inputs).sum() / sum(np.square(each).sum() for each in left))
    assert compensation.predicted_gain(inputs) == pytest.approx(expected, rel=0.02)


def test_two_inputs_gain_what_the_formula_says() -> None:
    for row in compensation.by_correlation([0, 0.9], rows=1024, columns=2048).values():
        assert row["found"].value == pytest.approx(row["predicted"].value, rel=0.05)


def test_moved_scales_leave_the_product_and_make_inputs_and_weight_alike() -> None:
    inputs, weight = DRAW.standard_normal((16, 8)) * np.arange(1, 9), DRAW.standard_normal((8, 4))
    scale = scales.smoothing(inputs, weight)
    np.testing.assert_allclose((inputs / scale) @ (weight * scale[:, None]), inputs @ weight)
    np.testing.assert_allclose(np.abs(inputs / scale).max(axis=0), np.abs(weight * scale[:, None]).max(axis=1))


def test_moved_scales_lower_the_error_as_predicted() -> None:
    found = scales.remedies(width=128, columns=2)
    errors = {key: row["found"].value for key, row in found.items()}
    assert errors["smoothed"] < errors["rounded"]
    assert errors["protected"] < errors["weights"]
    for row in found.values():
        assert row["found"].value == pytest.approx(row["predicted"].value, rel=0.3)


def test_formats_have_the_values_of_their_specifications() -> None:
    """E2M1 has eight magnitudes; E4M3 ends at 448, its least normal number is 2**-6, its least step 2**-9."""
    every = np.linspace(-7, 7, 20_001)
    assert sorted(set(np.abs(formats.e2m1(every)))) == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    known = np.array([448, 1000, 1.0625, 2.0**-6, 2.0**-9, 2.0**-11, 17, 19])
    np.testing.assert_array_equal(formats.e4m3(known), [448, 448, 1, 2.0**-6, 2.0**-9, 0, 16, 20])
    assert len(set(formats.e4m3(np.linspace(0, 448, 2_000_001)))) == 127


def test_a_float_has_the_signal_of_its_mantissa_whatever_the_size() -> None:
    """Of numbers whose logarithms are spread evenly the mean square is 1.5 / ln 2 of the power of two below them."""
    numbers = 2.0 ** DRAW.uniform(-3, 3, 200_000)
    by_octave = [numbers[(numbers >= 2.0**low) & (numbers < 2.0 ** (low + 1))] for low in range(-3, 3)]
    expected = 10 * np.log10(1.5 / np.log(2) * 12 * 64)
    assert [decibels(each, formats.e4m3(each)) for each in by_octave] == pytest.approx([expected] * 6, abs=0.1)
    assert formats.floating_signal(3).value == pytest.approx(expected)


def test_integers_and_floats_cross_where_their_steps_say() -> None:
    size = formats.crossing().value
    integers, floats = formats.by_size([2.0 ** round(np.log2(size))])
    assert integers["found"].value == pytest.approx(integers["predicted"].value, abs=0.2)
    assert abs(integers["found"].value - floats["found"].value) < 4
    assert formats.bits_of(4, 8, 16).value == 4.5


def test_errors_of_layers_add_in_squares() -> None:
    model = models.gpt()
    scan = [Sensitivity("a", "Linear", 0.3, 10), Sensitivity("b", "Linear", 0.4, 10)]
    found = mixed.combined(model, scan, {"all": (model, []), "some": (model, ["b"]), "other": (model, None)})
    assert [found[name]["predicted"].value for name in ("all", "some")] == pytest.approx([0.5, 0.3])
    assert found["other"]["predicted"] is None
    assert not mixed.beaten(found, "some", "all")
