"""What the page says of the speed of codes on machines that differ, and how its studies time it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, made, records
from tests.perf.made_ceilings import made_ceilings
from tests.perf.synthetic_machine import synthetic_ceilings
from tinytorch.chapters.quantization import speed as chapter
from tinytorch.chapters.quantization.speed import (
    LayerGain,
    OneRow,
    layer_gain,
    layer_parts,
    numpy_products,
    one_row,
    streaming_speedup,
)
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.measuring import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.quantization import Plan, QuantizedLinear, Scheme
from tinytorch.perf.roofline.bounds import bandwidth_at
from tinytorch.report import Page
from tinytorch.report.records import Json


@pytest.mark.parametrize("dot", DOTS, ids=lambda dot: dot.name)
def test_the_word_follows_the_instruction(dot: Dot) -> None:
    page = Page("quantization")
    chapter.record_instruction(page, replace(synthetic_ceilings(), int8_from=dot.name))
    said = records(page)
    word = said["has-instruction"]["word"]
    if dot.name == "multiply":
        assert word == "neither, but products of integers of 32 bits"
    elif dot.name.startswith("vpmaddwd"):
        assert word == "the steps, without a dot-product instruction"
    else:
        assert word == "a dot-product instruction"
    assert said["int8-peak"]["value"] == pytest.approx(4 * said["fp32-peak"]["value"], rel=0.1)


def test_products_are_timed_in_turns() -> None:
    found = numpy_products(16, repeats=6)
    assert {*found} == {"float32", "int32"}
    assert [*found["int32"].conditions.interleaved_with] == ["float32"]


def test_a_layer_is_told_with_its_bytes_and_its_error() -> None:
    found = layer_gain(4, 32, 48, repeats=6)
    rates = zip(found.coded_rate.samples, found.float_rate.samples, strict=True)
    assert found.speedup.samples == pytest.approx([coded / whole for coded, whole in rates])
    layer = Linear(32, 48, seed=0)
    # Codes, a scale for each output, and the bias, over weight and bias.
    assert found.stored == (32 * 48 + 8 * 48) / (4 * 32 * 48 + 4 * 48)
    x = Tensor(np.random.default_rng(1).standard_normal((4, 32), dtype=np.float32))
    expected, got = layer(x).data, QuantizedLinear(layer, Plan())(x).data
    assert found.error == pytest.approx(np.linalg.norm(got - expected) / np.linalg.norm(expected), rel=1e-4)


def test_parts_of_a_layer_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int, int]] = []
    forward = QuantizedLinear.forward

    def watched(self: QuantizedLinear, x: Tensor) -> Tensor:
        seen.append((len(x.data), self.in_features, self.out_features))
        return forward(self, x)

    monkeypatch.setattr(QuantizedLinear, "forward", watched)
    parts = layer_parts(8, 64, 48, repeats=6)
    assert {*seen} == {(8, 64, 48), (8, 64, 16), (8, 16, 48)}
    sums = np.sum([part.samples for part in parts.values()], axis=0)
    assert sums == pytest.approx(np.ones(6))


def test_one_row_and_what_the_ladder_predicts() -> None:
    found = one_row([16, 32], {"8 bits": Plan("weight-only"), "2 bits": Plan("weight-only", Scheme(2))}, repeats=6)
    assert {name: len(each) for name, each in found.seconds.items()} == {"float32": 2, "8 bits": 2, "2 bits": 2}
    assert found.bits["8 bits"] == pytest.approx(8 + 2 * 32 / 32), "a scale and a bias for each of 32 outputs"
    assert 0 < found.error["8 bits"] < found.error["2 bits"]
    machine = made_ceilings()
    wide, narrow = 4 * 512**2, 512**2 // 2
    expected = wide / narrow * bandwidth_at(narrow, machine).median / bandwidth_at(wide, machine).median
    assert streaming_speedup(512, 4, machine).median == pytest.approx(expected)


def test_a_prediction_is_as_uncertain_as_the_bandwidths_that_it_rests_on() -> None:
    predicted = streaming_speedup(512, 4, made_ceilings(noise=0.1))
    assert predicted.interval.low < predicted.median < predicted.interval.high


def test_numpy_s_integers_are_held_against_its_floats() -> None:
    page = Page("quantization")
    chapter.record_numpy_products(page, in_turns({"float32": 0.001, "int32": 0.05}))
    assert records(page)["numpy-int32-slower"]["value"] == pytest.approx(50)


def layer_records(narrow: float, noise: float = 0.0, dot: str = "vpdpbusd zmm") -> dict[str, Json]:
    """Return what the page says of three layers, of which the last gains ``narrow``."""
    rates = made(50e9, "FLOP/s"), made(200e9, "OP/s")
    gains = {
        name: LayerGain(*rates, made(gain, noise=noise), 0.25, 0.01)
        for name, gain in zip("abc", (5, 6, narrow), strict=True)
    }
    shares = {"quantize": made(0.2, "%"), "product": made(0.7, "%"), "rescale": made(0.1, "%")}
    page = Page("quantization")
    machine = replace(made_ceilings(), int8_from=dot)
    chapter.record_layers(page, gains, dict.fromkeys(gains, shares), machine)
    return records(page)


@pytest.mark.parametrize(
    ("narrow", "noise", "verdict"),
    [(4.5, 0.0, "supported"), (1.5, 0.0, "refuted"), (2.0, 0.1, "open")],
)
def test_operations_are_twice_as_fast_only_in_all_three_layers(narrow: float, noise: float, verdict: str) -> None:
    said = layer_records(narrow, noise)
    assert said["operations-two-to-four"]["verdict"] == verdict
    assert [said[f"gain-{key}"]["value"] for key in ("square", "sequence", "narrow")] == [5, 6, narrow]
    assert said["product-share-narrow"]["value"] == 0.7
    row = said["layers"]["rows"][0]
    assert (row["float-peak"]["value"], row["coded-peak"]["value"]) == (pytest.approx(0.5), pytest.approx(2))
    assert (row["stored"]["value"], row["error"]["value"]) == (0.25, 0.01)


def test_without_the_instruction_the_course_s_condition_is_not_met() -> None:
    assert layer_records(1.2, dot="multiply")["operations-two-to-four"]["kind"] == "absent"


def predicted(value: float) -> Statistic:
    """Return a prediction of a ladder without noise."""
    return Statistic("ladder", (value,) * 9, "", value=value, bounds=Interval(value, value, 0.95))


def one_row_records(
    codes: float, noise: float = 0.0, *, width: int = 4096, seconds: float = 8e-3, bits: float = 8.0
) -> dict[str, Json]:
    """Return what the page says of layers, the largest ``width`` wide, that took ``seconds`` in float.

    In eight bits they took the share ``codes`` of that, for which the ladder predicts four times the speed.
    """
    widths = [64, 128, width]
    turns = in_turns(
        {"float32": seconds, "8 bits": seconds * codes, "4 bits": seconds / 2},
        noise={"8 bits": noise},
    )
    found = OneRow(
        {name: [each] * 3 for name, each in turns.items()},
        {"8 bits": bits, "4 bits": 5.0},
        {"8 bits": 0.01, "4 bits": 0.1},
    )
    ladder = {label: [predicted(each) for each in (1.0, 2.0, 4.0)] for label in ("8 bits", "4 bits")}
    page = Page("quantization")
    chapter.record_one_row(page, widths, found, ladder, made_ceilings())
    return records(page)


def test_one_row_stands_beside_what_the_ladder_predicts() -> None:
    said = one_row_records(0.25)
    assert said["one-row-large"]["value"] == pytest.approx(4)
    assert (said["one-row-large-predicted"]["value"], said["one-row-large-predicted"]["kind"]) == (4, "modelled")
    assert said["one-row-large-bytes"]["value"] == 4 * 4096**2
    assert [row["bits"]["value"] for row in said["one-row-largest"]["rows"]] == [8, 5]
    assert said["one-row-largest"]["rows"][1]["gain"]["value"] == pytest.approx(2)


def test_four_bits_shorten_the_reading_of_the_codes_alone() -> None:
    """16 MiB of codes from a memory of 10 GB/s take 1.7 of 4 milliseconds; five bits in place of eight, 1.0."""
    said = one_row_records(0.5)
    reading = 4096**2 / 10e9
    assert said["one-row-reading"]["value"] == pytest.approx(reading / 4e-3)
    assert said["one-row-four-predicted"]["value"] == pytest.approx(4e-3 / (4e-3 - 3 / 8 * reading))
    assert said["one-row-four-predicted"]["kind"] == "modelled"
    assert said["one-row-four"]["value"] == pytest.approx(1), "both took half of the time of the floats"


def test_where_codes_come_faster_than_the_ladder_nothing_is_predicted_of_four_bits() -> None:
    said = one_row_records(0.1)
    assert said["one-row-reading"]["value"] > 1
    assert said["one-row-four-predicted"]["kind"] == "absent"


@pytest.mark.parametrize(
    ("codes", "noise", "bits", "verdict"),
    [
        (0.25, 0.0, 8.0, "supported"),
        (0.9, 0.0, 8.0, "refuted"),
        (0.25, 0.0, 12.0, "refuted"),
        (1 / 1.5, 0.2, 8.0, "open"),
    ],
)
def test_the_edge_gains_four_and_two(codes: float, noise: float, bits: float, verdict: str) -> None:
    said = one_row_records(codes, noise, bits=bits)
    assert said["edge-four-and-two"]["verdict"] == verdict
    # 64 MiB from a memory of 10 GB/s take 6.7 of the 8 milliseconds.
    assert said["one-row-explained"]["value"] == pytest.approx(4 * 4096**2 / 10e9 / 8e-3)
    assert said["one-row-smaller"]["value"] == 32 / bits


def test_where_memory_is_not_the_limit_the_edge_is_not_judged() -> None:
    assert one_row_records(0.9, seconds=0.1)["edge-four-and-two"]["verdict"] == "open"


@pytest.mark.parametrize(
    ("width", "floats", "codes"), [(64, "L1", "L1"), (128, "L2", "L1"), (4096, "memory", "memory")]
)
def test_levels_are_those_that_hold_codes_and_floats(width: int, floats: str, codes: str) -> None:
    said = one_row_records(0.5, width=width)
    assert [said[f"one-row-{key}-from"]["word"] for key in ("floats", "codes")] == [floats, codes]
