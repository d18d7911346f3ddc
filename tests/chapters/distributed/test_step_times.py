"""Verdicts, laws and shares read off made-up steps whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chapters.distributed.made_steps import ROUNDS, made_scaling, made_steps, overlapped
from tinytorch.chapters.distributed.scaling_laws import fit_law
from tinytorch.chapters.distributed.step_times import Scaling, Way, default_counts
from tinytorch.perf.distributed.ranks.measuring import Withheld
from tinytorch.perf.measuring import Measurement, ratio
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
    made = made_scaling(way, {1: 1.0, 2: two})
    verdict = made.verdict(2)
    assert verdict.word is not None
    assert str(verdict.word) == word
    assert (verdict.word.verdict is Verdict.OPEN) is (" or " in word)
    speedup, efficiency = made.speedup(2), made.efficiency(2)
    assert speedup is not None
    assert efficiency is not None
    assert speedup.median == pytest.approx((2 if way == "weak" else 1) / two, rel=0.01)
    assert efficiency.median == pytest.approx(speedup.median / 2)
    assert efficiency.unit == "%"
    assert efficiency.median in efficiency.interval
    assert f"{efficiency.interval.low:.1%}" in verdict.because


def verdict_in(made: Scaling) -> Verdict | None:
    """Return the verdict on two ranks."""
    found = made.verdict(2).word
    return None if found is None else found.verdict


def test_times_that_drifted_or_are_too_few_carry_no_word() -> None:
    made = made_scaling("strong", {1: 1.0, 2: 0.5})
    stepped = tuple(s * (1.2 if i >= ROUNDS // 2 else 1) for i, s in enumerate(made.times[2].samples))
    drifted = Scaling(
        "strong", "mlp", 8, {1: made.times[1], 2: Measurement("2", stepped, "s", made.times[2].conditions)}
    )
    assert verdict_in(drifted) is Verdict.OPEN
    assert "holds an end" in drifted.verdict(2).because
    conditions = replace(made.times[2].conditions, cpu_per_wall=0.6)
    beside = Scaling(
        "strong", "mlp", 8, {1: made.times[1], 2: Measurement("2", made.times[2].samples, "s", conditions)}
    )
    assert verdict_in(beside) is Verdict.WITHHELD
    assert "one had 60% of its core" in beside.verdict(2).because
    few = {count: Measurement(one.name, one.samples[:5], "s", one.conditions) for count, one in made.times.items()}
    assert verdict_in(Scaling("strong", "mlp", 8, few)) is Verdict.OPEN


def test_more_ranks_than_cores_have_no_efficiency_and_no_verdict() -> None:
    made = made_scaling("strong", {1: 1.0, 2: 0.5, 4: 0.5}, cores=2)
    assert made.judged == (2,)
    assert made.oversubscribed(4)
    assert made.speedup(4) is None
    assert made.efficiency(4) is None
    assert made.verdict(4).word is None
    assert "more ranks than cores" in made.verdict(4).because
    law = made.law()
    assert law is not None
    assert law.counts == (2,)
    assert made_scaling("strong", {1: 1.0, 2: 0.5}, cores=1).law() is None
    with pytest.raises(ValueError, match="count must be one that was measured, 1, 2, 4, not 3"):
        made.speedup(3)
    with pytest.raises(ValueError, match="count must be above 1"):
        made.speedup(1)


@given(st.floats(0.0, 0.9), st.sets(st.integers(2, 64), min_size=1, max_size=5))
def test_laws_find_the_serial_share_of_steps_that_follow_them(serial: float, counts: set[int]) -> None:
    strong = {1: 1.0, **{count: serial + (1 - serial) / count for count in counts}}
    weak = {1: 1.0, **{count: count / (serial + (1 - serial) * count) for count in counts}}
    for way, seconds, law in (("strong", strong, "Amdahl"), ("weak", weak, "Gustafson")):
        found = made_scaling(way, seconds, noise=0.0).law()  # type: ignore[arg-type]
        assert found is not None
        assert found.law == law
        assert found.share.median == pytest.approx(serial, abs=1e-9)
        one = max(counts)
        assert found.speedup(one) == pytest.approx((one if way == "weak" else 1) / seconds[one])
        assert (found.worst is None) == (len(counts) == 1)
        assert found.worst is None or found.worst < 1e-9


def test_a_law_that_steps_do_not_follow_says_how_far_off_it_is() -> None:
    found = made_scaling("strong", {1: 1.0, 2: 0.5, 4: 0.25, 8: 0.5}, noise=0.0).law()
    assert found is not None
    assert found.worst is not None
    assert found.worst > 0.2
    faster = made_scaling("strong", {1: 1.0, 2: 0.4}).law()
    assert faster is not None
    assert not faster.applies
    with pytest.raises(ValueError, match="Amdahl's law knows serial shares of 0 to 1, but -"):
        faster.speedup(2)
    with pytest.raises(ValueError, match=r"times must be those of one rank and of more, not of \[1\]"):
        fit_law("strong", {1: made_steps({"1": 1.0})["1"]})


@pytest.mark.parametrize(("way", "two"), [("strong", 0.6), ("weak", 1.25)])
def test_the_share_of_one_number_of_ranks_is_as_uncertain_as_its_ratio_of_times(way: Way, two: float) -> None:
    """Of two ranks Amdahl's share is 2 T(2) / T(1) - 1, Gustafson's 2 - 2 T(1) / T(2)."""
    made = made_scaling(way, {1: 1.0, 2: two}, noise=0.05, cpu_per_wall={2: 0.7})
    law = made.law()
    assert law is not None
    if way == "strong":
        times = ratio(made.times[2], made.times[1]).interval
        ends = [2 * times.low - 1, 2 * times.high - 1]
    else:
        times = ratio(made.times[1], made.times[2]).interval
        ends = [2 - 2 * times.high, 2 - 2 * times.low]
    assert [law.share.interval.low, law.share.interval.high] == pytest.approx(ends)
    assert law.share.conditions.cpu_per_wall == 0.7


def test_powers_of_two_and_all_cores_are_measured() -> None:
    assert default_counts(1) == (1,)
    assert default_counts(2) == (1, 2)
    assert default_counts(6) == (1, 2, 4, 6)
    assert default_counts(8) == (1, 2, 4, 8)


@pytest.mark.parametrize("hidden", [-0.5, 0.0, 0.5, 1.0])
def test_the_speedup_of_overlap_is_that_of_whole_steps(hidden: float) -> None:
    judged = overlapped(hidden).compare()
    assert isinstance(judged, Comparison)
    assert judged.estimate.median == pytest.approx(0.012 / (0.012 - 0.002 * hidden), rel=0.01)


def test_nothing_is_said_of_overlap_where_ranks_share_cores() -> None:
    shared = overlapped(0.5, marked=("overlapped", "apart", "alone")).compare()
    assert isinstance(shared, Withheld)
    assert shared.verdict is None
