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
    layer_parts,
    layer_speedup,
    numpy_products,
    one_row,
    streaming_speedup,
)
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.measuring import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.quantization import Plan, QuantizedLinear
from tinytorch.perf.roofline.bounds import bandwidth_at
from tinytorch.report import Page


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
    assert {*found} == {"float32", "int8", "int32"}
    for kind, measured in found.items():
        assert {*measured.how["interleaved_with"]} == {*found} - {kind}
    assert layer_speedup(4, 32, 32, repeats=6).n == 6


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
    found = one_row([16, 32], {"8 bits": Plan("weight-only")}, repeats=6)
    assert {name: len(each) for name, each in found.items()} == {"float32": 2, "8 bits": 2}
    machine = made_ceilings()
    wide, narrow = 4 * 512**2, 512**2 // 2
    expected = wide / narrow * bandwidth_at(narrow, machine).median / bandwidth_at(wide, machine).median
    assert streaming_speedup(512, 4, machine).median == pytest.approx(expected)


def test_a_prediction_is_as_uncertain_as_the_bandwidths_that_it_rests_on() -> None:
    predicted = streaming_speedup(512, 4, made_ceilings(noise=0.1))
    assert predicted.interval.low < predicted.median < predicted.interval.high


@pytest.mark.parametrize(
    ("int32", "noise", "verdict"), [(9.0, 0.0, "refuted"), (0.5, 0.0, "supported"), (1.0, 0.2, "cannot tell here")]
)
def test_numpy_profits_only_where_its_integers_take_less_time(int32: float, noise: float, verdict: str) -> None:
    page = Page("quantization")
    page.number("numpy-wrong", 0.9, unit="%", what="sums that overflowed")
    seconds = {key: value / 1000 for key, value in (("float32", 1.0), ("int8", 20.0), ("int32", int32))}
    chapter.record_numpy_products(page, in_turns(seconds, noise={"int32": noise}))
    said = records(page)
    assert said["plain-numpy"]["verdict"] == verdict
    assert said["numpy-int8-slower"]["value"] == pytest.approx(20)
    assert said["numpy-int32-slower"]["value"] == pytest.approx(int32)


@pytest.mark.parametrize(
    ("narrow", "noise", "verdict"),
    [(4.5, 0.0, "supported"), (1.5, 0.0, "refuted"), (4.0, 0.1, "cannot tell here")],
)
def test_four_times_faster_must_be_all_three_layers(narrow: float, noise: float, verdict: str) -> None:
    gains = {"a": made(5.0), "b": made(6.0), "c": made(narrow, noise=noise)}
    shares = {"quantize": made(0.2, "%"), "product": made(0.7, "%"), "rescale": made(0.1, "%")}
    page = Page("quantization")
    page.number("int8-over-fp32", 4.0, unit="", what="peak over peak")
    chapter.record_layers(page, gains, dict.fromkeys(gains, shares))
    said = records(page)
    assert said["four-times-faster"]["verdict"] == verdict
    assert [said[f"gain-{key}"]["value"] for key in ("square", "sequence", "narrow")] == [5, 6, narrow]
    assert said["product-share-narrow"]["value"] == 0.7


def predicted(value: float) -> Statistic:
    """Return a prediction of a ladder without noise."""
    return Statistic("ladder", (value,) * 9, "", value=value, bounds=Interval(value, value, 0.95))


@pytest.mark.parametrize(
    ("codes", "noise", "word"),
    [
        (0.25, 0.0, "reached"),
        (0.9, 0.0, "not reached"),
        (0.5, 0.2, "cannot tell here"),
    ],
)
def test_one_row_is_held_to_half_of_what_the_ladder_predicts(codes: float, noise: float, word: str) -> None:
    widths = [64, 128, 256]
    turns = in_turns({"float32": 1.0, "8 bits": codes, "4 bits": 0.5}, noise={"8 bits": noise})
    page = Page("quantization")
    ladder = [predicted(each) for each in (1.0, 2.0, 4.0)]
    chapter.record_one_row(page, widths, {name: [each] * 3 for name, each in turns.items()}, ladder, made_ceilings())
    said = records(page)
    assert said["one-row-verdict"]["word"] == word
    assert said["one-row-large"]["value"] == pytest.approx(1 / codes)
    assert said["one-row-four-large"]["value"] == pytest.approx(2)
    assert (said["one-row-large-predicted"]["value"], said["one-row-large-predicted"]["kind"]) == (4, "modelled")
    assert said["one-row-large-bytes"]["value"] == 4 * 256**2


@pytest.mark.parametrize(
    ("width", "word"),
    [(64, "both live in L1"), (128, "the codes fit L1, the floats do not"), (4096, "both live in memory")],
)
def test_levels_are_those_that_hold_codes_and_floats(width: int, word: str) -> None:
    turns = in_turns({"float32": 1.0, "8 bits": 0.5, "4 bits": 0.5})
    page = Page("quantization")
    chapter.record_one_row(
        page, [width], {name: [each] for name, each in turns.items()}, [predicted(2.0)], made_ceilings()
    )
    assert records(page)["one-row-levels"]["word"] == word
