"""Codes, their choice, their speed and whole models, against closed forms, specifications and published values."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from tests.perf.made_ceilings import made_ceilings
from tests.perf.synthetic_machine import synthetic_ceilings
from tinytorch import models
from tinytorch.chapters.quantization import cached, chosen, codes, speed, versions
from tinytorch.chapters.quantization.codes import by_observer, confined, normals_with_outlier
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.measuring import Measurement, Modelled, Unmeasured
from tinytorch.perf.ops.affine import Granularity
from tinytorch.perf.quantization import (
    MinMaxObserver,
    PercentileObserver,
    Scheme,
    accuracy_change,
    integer_product,
    paired_accuracy,
    quantize,
)
from tinytorch.perf.quantization.convert import decibels, relative_error
from tinytorch.perf.roofline.bounds import bandwidth_at


def test_a_ruler_covers_what_shares_it() -> None:
    numbers = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    numbers[..., 3] *= 100
    for bits, levels in ((8, 256), (2, 4)):
        rounded = cached.for_each_channel(bits)(numbers)
        assert all(len(np.unique(rounded[0, :, channel])) <= levels for channel in range(8))
        spread = numbers.max(axis=1, keepdims=True) - numbers.min(axis=1, keepdims=True)
        assert (np.abs(rounded - numbers) <= spread / (levels - 1) / 2 + 1e-4).all()
    assert len(np.unique(cached.for_each_token(2, heads=2)(numbers)[0, 0, :4])) <= 4
    np.testing.assert_array_equal(cached.on_ruler(np.ones((1, 3), np.float32), 4, 1), np.ones((1, 3)))


def test_a_planted_outlier_changes_no_float_output_but_that_of_codes_by_the_token() -> None:
    stretched = "keys, an outlier planted"
    cases = [("keys", 8), ("keys", 2), (stretched, 2)]
    found = cached.keys_and_values(models.gpt(), cases, outlier=16.0, examples=8)
    assert found["keys", 8]["token"].value < found["keys", 2]["token"].value
    assert found[stretched, 2]["channel"].value == pytest.approx(found["keys", 2]["channel"].value, rel=1e-3)


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
    found = codes.check_product(x, weight, a, b, sums)
    assert (found["inexact"].value, found["sums"].value) == (off, 20)
    error = np.linalg.norm(a.dequantize() @ b.dequantize() - x @ weight) / np.linalg.norm(x @ weight)
    assert found["error"].value == pytest.approx(error, rel=1e-3)
    assert found["predicted"].value == pytest.approx(error, rel=0.2)
    assert found["wrapped"].value > 0.9, "sums of 300 products of bytes do not fit a byte"


def test_answers_are_arithmetic() -> None:
    assert [each.value for each in codes.bytes_of(7_000_000_000)] == [28e9, 7e9, 3.5e9 + 28e9 / 32]
    assert [each.value for each in codes.ruler(-1, 3)] == pytest.approx([4 / 255, -64, 2 / 255])
    assert codes.INTEGER_DEPTH.value == (2**31 - 1) // 2**14
    assert codes.FLOAT_DEPTH.value == 2**24 // 2**14
    read, seconds, gain = codes.coded_gpt2_step(made_ceilings())
    assert seconds.value == pytest.approx(read.value / 10e9), "the made machine's memory"
    assert gain.value == pytest.approx(4 * (124_439_808 - 1023 * 768) / read.value)


@pytest.mark.parametrize("loss", [0.005, 0.02])
def test_enough_examples_are_those_of_the_closed_form(loss: float) -> None:
    """With nothing gained and nothing lost the score interval reaches z² / (n + z²) to each side."""
    z = norm.ppf(0.95)
    assert codes.enough_examples(loss).value == math.ceil(z**2 * (1 / loss - 1))


def test_unsigned_codes_clip_only_in_pairs() -> None:
    draw = np.random.default_rng(0)
    full = quantize(draw.uniform(0.97, 1, (2, 4)).astype(np.float32)), quantize(np.eye(4, 3, dtype=np.float32) + 99)
    assert codes.clipped_share(*full) == 1, "250 times 126, twice, does not fit 16 bits"
    even = quantize(draw.uniform(-1, 1, (4, 6)).astype(np.float32)), quantize(np.eye(6, dtype=np.float32))
    assert codes.clipped_share(*even) == 0


@pytest.mark.parametrize("dot", DOTS, ids=lambda dot: dot.name)
def test_the_word_follows_the_instruction(dot: Dot) -> None:
    machine = replace(synthetic_ceilings(), int8_from=dot.name)
    others = {"multiply": "plain integers", "vpmaddwd": "widened bytes"}
    word = speed.instruction(machine)
    assert word == others.get(dot.name.partition(" ")[0], "dot product")
    assert isinstance(speed.with_instruction(machine), Unmeasured) == (word != "dot product")


def test_a_prediction_is_as_uncertain_as_the_bandwidths_that_it_rests_on() -> None:
    machine = synthetic_ceilings(noise=0.1)
    wide, narrow = 4 * 8192**2, 8192**2
    predicted = speed.streaming_speedup(8192**2, 8, machine)
    expected = wide / narrow * bandwidth_at(narrow, machine).median / bandwidth_at(wide, machine).median
    assert isinstance(predicted, Modelled)
    assert predicted.value == pytest.approx(expected)
    assert predicted.carried is not None
    assert predicted.carried.interval.low < predicted.value < predicted.carried.interval.high


@pytest.mark.parametrize(("mebibytes", "told"), [(0.6, False), (4, False), (5.6, False), (40, False), (256, True)])
def test_nothing_is_predicted_near_a_capacity(mebibytes: float, told: bool) -> None:
    # Caches of 48 KiB, 1 MiB and 32 MiB; codes are a quarter of these floats.
    found = speed.streaming_speedup(int(mebibytes * 2**18), 8, synthetic_ceilings())
    assert isinstance(found, Modelled) == told


def test_the_tallest_stack_fills_no_cache_with_its_codes() -> None:
    assert speed.tallest_stack(640, synthetic_ceilings()) == math.ceil(2.2 * 32 * 2**20 / 640**2)
    assert speed.tallest_stack(2048, synthetic_ceilings()) == 160
    assert speed.tallest_stack(64, synthetic_ceilings()) == 160, "no stack that a page can hold does"


def change(after: float, examples: int = 1000) -> Measurement:
    """Return a change from nine tenths of the examples, of which the first are right."""
    before, now = (np.arange(examples) < round(share * examples) for share in (0.9, after))
    return accuracy_change(paired_accuracy(before, now), "change")


def test_what_is_recovered_is_as_uncertain_as_both_changes() -> None:
    found = versions.recovered_share(change(0.5), change(0.7))
    assert found.median == pytest.approx(0.5)
    alone = [1 - end / -0.4 for end in (change(0.7).interval.low, change(0.7).interval.high)]
    assert found.interval.low < min(alone)
    assert found.interval.high > max(alone)
