"""What the studies of speed say of machines that differ, and of made results."""

import math
from dataclasses import replace

import pytest

from tests.chapters.made_turns import made
from tests.perf.synthetic_machine import synthetic_ceilings
from tinytorch.chapters.quantization import speed as chapter
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.measuring import Counted, Modelled, Unmeasured
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.roofline.bounds import bandwidth_at


@pytest.mark.parametrize("dot", DOTS, ids=lambda dot: dot.name)
def test_the_word_follows_the_instruction(dot: Dot) -> None:
    machine = replace(synthetic_ceilings(), int8_from=dot.name)
    others = {"multiply": "plain integers", "vpmaddwd": "widened bytes"}
    word = chapter.instruction(machine)
    assert word == others.get(dot.name.partition(" ")[0], "dot product")
    assert isinstance(chapter.with_instruction(machine), Unmeasured) == (word != "dot product")


def test_a_prediction_is_as_uncertain_as_the_bandwidths_that_it_rests_on() -> None:
    machine = synthetic_ceilings(noise=0.1)
    wide, narrow = 4 * 8192**2, 8192**2
    predicted = chapter.streaming_speedup(8192**2, 8, machine)
    expected = wide / narrow * bandwidth_at(narrow, machine).median / bandwidth_at(wide, machine).median
    assert isinstance(predicted, Modelled)
    assert predicted.value == pytest.approx(expected)
    assert predicted.carried is not None
    assert predicted.carried.interval.low < predicted.value < predicted.carried.interval.high


@pytest.mark.parametrize(("mebibytes", "told"), [(0.6, False), (4, False), (5.6, False), (40, False), (256, True)])
def test_nothing_is_predicted_near_a_capacity(mebibytes: float, told: bool) -> None:
    # Caches of 48 KiB, 1 MiB and 32 MiB; codes are a quarter of these floats.
    found = chapter.streaming_speedup(int(mebibytes * 2**18), 8, synthetic_ceilings())
    assert isinstance(found, Modelled) == told


def test_the_tallest_stack_fills_no_cache_with_its_codes() -> None:
    assert chapter.tallest_stack(640, synthetic_ceilings()) == math.ceil(2.2 * 32 * 2**20 / 640**2)
    assert chapter.tallest_stack(2048, synthetic_ceilings()) == 160
    assert chapter.tallest_stack(64, synthetic_ceilings()) == 160, "no stack that a page can hold does"


@pytest.mark.parametrize(
    ("gain", "noise", "smaller", "bound", "verdict"),
    [
        (4, 0.0, 4.0, Verdict.SUPPORTED, Verdict.SUPPORTED),
        (1.1, 0.0, 4.0, Verdict.SUPPORTED, Verdict.REFUTED),
        (4, 0.0, 2.7, Verdict.SUPPORTED, Verdict.REFUTED),
        (1.5, 0.2, 4.0, Verdict.SUPPORTED, Verdict.OPEN),
        (1.1, 0.0, 4.0, Verdict.OPEN, Verdict.OPEN),
    ],
)
def test_the_edge_gains_four_and_two_where_memory_is_the_limit(
    gain: float, noise: float, smaller: float, bound: Verdict, verdict: Verdict
) -> None:
    bytes_saved = Counted(smaller, "", "many").over(Counted(1, "", "one"), "bytes")
    one, deep = made(1), {"gain": made(gain, noise=noise)}
    found = chapter.OneRow([deep], deep, deep, one, one, bytes_saved, one, Judgement(bound))
    assert chapter.quarter_and_half(found, bytes_within=0.4, at_least=1.5).verdict is verdict
