"""Verdicts read off made-up steps whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chapters.distributed.made_steps import ROUNDS, made_scaling, overlapped
from tinytorch.chapters.distributed.step_times import rows_of
from tinytorch.perf.distributed.cluster_model.scaling_laws import Way
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import Verdict


@pytest.mark.parametrize(
    ("way", "two", "word"),
    [
        ("strong", 0.5, "linear"),
        ("strong", 0.35, "superlinear"),
        ("strong", 0.7, "sublinear"),
        ("strong", 1.2, "slower than one rank"),
        ("strong", 0.625, "sublinear or linear"),
        ("weak", 1.0, "linear"),
        ("weak", 0.7, "superlinear"),
        ("weak", 1.3, "sublinear"),
        ("weak", 2.2, "slower than one rank"),
    ],
)
def test_the_word_follows_the_efficiency(way: Way, two: float, word: str) -> None:
    found = made_scaling(way, {1: 1.0, 2: two}).on[2]
    assert str(found.word) == word
    assert (found.word.verdict is Verdict.OPEN) is (" or " in word)
    assert found.speedup.median == pytest.approx((2 if way == "weak" else 1) / two, rel=0.01)
    assert found.efficiency.median == pytest.approx(found.speedup.median / 2)
    assert found.efficiency.unit == "%"
    assert found.efficiency.median in found.efficiency.interval


def test_times_that_drifted_or_are_too_few_or_were_disturbed_carry_no_word() -> None:
    made = made_scaling("strong", {1: 1.0, 2: 0.5})

    def verdict(two: Measurement, one: Measurement = made.times[1]) -> Verdict:
        return replace(made, times={1: one, 2: two}).most.word.verdict

    two = made.times[2]
    stepped = tuple(s * (1.2 if i >= ROUNDS // 2 else 1) for i, s in enumerate(two.samples))
    assert verdict(replace(two, samples=stepped)) is Verdict.OPEN
    assert verdict(replace(two, conditions=replace(two.conditions, cpu_per_wall=0.6))) is Verdict.WITHHELD
    few = [replace(made.times[count], samples=made.times[count].samples[:5]) for count in (2, 1)]
    assert verdict(*few) is Verdict.OPEN


def test_rows_name_the_scaling_its_examples_and_the_ranks() -> None:
    strong, weak = made_scaling("strong", {1: 1.0, 2: 0.6, 4: 0.4}), made_scaling("weak", {1: 1.0, 2: 1.2})
    rows = rows_of([strong, weak])
    assert not isinstance(rows, Unmeasured)
    assert [row.way for row in rows] == [
        "strong, 8 in all, 2 ranks",
        "strong, 8 in all, 4 ranks",
        "weak, 8 each, 2 ranks",
    ]
    assert strong.most is strong.on[4]
    assert rows_of(nothing := Unmeasured("one core")) is nothing


@pytest.mark.parametrize("hidden", [-0.5, 0.0, 0.5, 1.0])
def test_the_gain_of_overlap_is_that_of_whole_steps(hidden: float) -> None:
    gain = overlapped(hidden).gain
    assert isinstance(gain, Comparison)
    assert gain.estimate.median == pytest.approx(0.012 / (0.012 - 0.002 * hidden), rel=0.01)


def test_nothing_is_said_of_overlap_where_ranks_share_cores() -> None:
    assert isinstance(overlapped(0.5, shared=True).gain, Unmeasured)
