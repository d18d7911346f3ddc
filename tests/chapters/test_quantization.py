"""Errors of rounding, speed of products and whole models in few bits, against closed forms and published values."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from tests.perf.made_ceilings import made_ceilings, synthetic_ceilings
from tinytorch import models
from tinytorch.chapters.quantization import codes, speed, versions
from tinytorch.chapters.quantization.codes import by_observer, confined, normals_with_outlier
from tinytorch.core.layers import Linear
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.measuring import Measurement, Modelled, Unmeasured
from tinytorch.perf.ops.affine import Granularity
from tinytorch.perf.quantization import (
    MinMaxObserver,
    PercentileObserver,
    Plan,
    Scheme,
    accuracy_change,
    integer_product,
    paired_accuracy,
    quantize,
)
from tinytorch.perf.quantization.convert import quantizable, stored_bytes
from tinytorch.perf.quantization.layers import QuantizedLinear
from tinytorch.perf.roofline.bounds import bandwidth_at


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


def test_the_time_of_reading_is_as_uncertain_as_the_bandwidth_that_it_rests_on() -> None:
    machine = synthetic_ceilings(noise=0.1)
    read = 4 * 8192**2
    predicted = speed.reading_time(read, machine)
    assert isinstance(predicted, Modelled)
    assert predicted.value == pytest.approx(read / bandwidth_at(read, machine).median)
    assert predicted.carried is not None
    assert predicted.carried.interval.low < predicted.value < predicted.carried.interval.high


@pytest.mark.parametrize(("mebibytes", "told"), [(0.6, False), (4, True), (20, False), (63, False), (256, True)])
def test_no_time_of_reading_is_told_near_a_capacity(mebibytes: float, told: bool) -> None:
    # Caches of 48 KiB, 1 MiB and 32 MiB.
    found = speed.reading_time(int(mebibytes * 2**20), synthetic_ceilings())
    assert isinstance(found, Modelled) == told


def test_the_tallest_stack_fills_no_cache_with_weights_of_five_bits() -> None:
    assert speed.tallest_stack(640, synthetic_ceilings()) == math.ceil(2.2 * 32 * 2**20 / (640**2 * 5 // 8))
    assert speed.tallest_stack(2048, synthetic_ceilings()) == 160
    assert speed.tallest_stack(64, synthetic_ceilings()) == 160, "no stack that a page can hold does"


def test_one_row_reads_the_stored_bytes_of_all_layers() -> None:
    eight, four = Scheme(8, per="channel"), Scheme(4, per="group")
    plans = {"8-bit": Plan("weight-only", eight), "4-bit": Plan("weight-only", four)}
    found = speed.one_row(192, 3, plans, synthetic_ceilings())
    stored = [stored_bytes(QuantizedLinear(Linear(192, 192), plan)) for plan in plans.values()]
    assert [row["bytes"].value for row in found.formats.values()] == [3 * 4 * 192**2, 3 * stored[0], 3 * stored[1]]
    assert found.smaller.value == pytest.approx(4 * 192**2 / stored[0])
    floats, codes = found.formats["float32"], found.formats["8-bit"]
    longest = floats["reading"].value + floats["cached"].median
    assert found.most.value == pytest.approx(longest / max(codes["reading"].value, codes["cached"].median))
    assert found.least.value < found.most.value


GRANULARITIES: tuple[Granularity, Granularity] = ("tensor", "group")


def test_the_squared_error_of_a_layer_follows_from_its_steps() -> None:
    model = models.mlp()
    per_tensor, per_group = (versions.squared_errors(model, Scheme(4, per=per)) for per in GRANULARITIES)
    for name, layer in quantizable(model).items():
        weight = layer.weight.data  # type: ignore[attr-defined]
        assert per_tensor[name] == pytest.approx((np.abs(weight).max() / 7) ** 2 / 12, rel=1e-5)
        assert per_group[name] < per_tensor[name]


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
