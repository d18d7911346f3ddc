"""Verdicts on paired times: what they must not depend on, how often noise alone gets one, and what they rest on."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from tinytorch.perf.measuring import Measurement, ratio
from tinytorch.perf.measuring.comparison import Comparison, Quantity, compare_all, compare_paired, judged
from tinytorch.perf.measuring.conditions import BetweenRuns, Caches, Conditions, Sample, Side
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.statistics import Stated

Times = npt.NDArray[np.float64]
OPPOSITE = {one: one for one in Verdict} | {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


def pairs(seed: int, ratio: float = 1.0, n: int = 40, noise: float = 0.01) -> tuple[Times, Times]:
    draw = np.random.default_rng(seed)
    return ratio * np.exp(draw.normal(0, noise, n)), np.exp(draw.normal(0, noise, n))


def taken_in_turns(names: list[str], times: Times, unit: str = "s") -> list[Measurement]:
    return [
        Measurement(
            name, tuple(row), unit, Conditions(interleaved_with=tuple(other for other in names if other != name))
        )
        for name, row in zip(names, times, strict=True)
    ]


@given(st.integers(0, 10**6), st.floats(0.9, 1.1), st.floats(1e-9, 1e9), st.permutations(range(30)))
@settings(max_examples=60, deadline=None)
def test_the_unit_of_time_does_not_matter_and_the_order_of_the_pairs_does_not_move_the_ratio(
    seed: int, ratio: float, scale: float, order: list[int]
) -> None:
    baseline, candidate = pairs(seed, ratio, 30)
    one, other = compare_paired(baseline, candidate, 0.01), compare_paired(baseline * scale, candidate * scale, 0.01)
    assert (other.estimate.median, other.interval.low) == pytest.approx((one.estimate.median, one.interval.low))
    assert other.verdict == one.verdict
    turned = compare_paired(baseline[order], candidate[order], 0.01)
    assert turned.estimate.median == one.estimate.median
    assert sorted(turned.estimate.samples) == sorted(one.estimate.samples)


@given(st.integers(0, 10**6), st.floats(0.9, 1.1), st.integers(6, 61), st.sampled_from([0.0, 0.01, 0.03]))
@settings(max_examples=80, deadline=None)
def test_swapping_the_two_inverts_ratio_interval_and_verdict(seed: int, ratio: float, n: int, matters: float) -> None:
    baseline, candidate = pairs(seed, ratio, n | 1)  # of an odd number the median is one of them
    one, other = compare_paired(baseline, candidate, matters), compare_paired(candidate, baseline, matters)
    ends = (1 / one.estimate.median, 1 / one.interval.high, 1 / one.interval.low)
    assert (other.estimate.median, other.interval.low, other.interval.high) == pytest.approx(ends, rel=1e-9)
    assert other.verdict == OPPOSITE[one.verdict]


@given(st.integers(0, 10**6), st.floats(0.9, 1.1), st.lists(st.floats(0, 0.2), min_size=2, max_size=8))
@settings(max_examples=60, deadline=None)
def test_what_matters_turns_an_open_verdict_into_no_difference_and_no_other(
    seed: int, ratio: float, matters: list[float]
) -> None:
    verdicts = [compare_paired(*pairs(seed, ratio), each).verdict for each in sorted(matters)]
    if verdicts[0] in (Verdict.FASTER, Verdict.SLOWER):
        assert set(verdicts) == {verdicts[0]}
    else:
        ranks = [[Verdict.OPEN, Verdict.NO_DIFFERENCE].index(verdict) for verdict in verdicts]
        assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("ratio", "matters", "verdict"),
    [(1.05, 0.01, "faster"), (0.95, 0.01, "slower"), (1.0, 0.01, "no difference"), (1.0, 0.0, "open")],
)
def test_the_four_verdicts(ratio: float, matters: float, verdict: str) -> None:
    comparison = compare_paired(*pairs(0, ratio, 60, 0.004), matters)
    assert (comparison.verdict, comparison.n) == (verdict, 60)
    assert ratio == pytest.approx(float(comparison), rel=0.003)


def of_interval(low: float, high: float, matters: float, quantity: Quantity = Quantity.TIME) -> Comparison:
    middle = (low + high) / 2
    return judged(Measurement("made", (middle,), "", law=Stated(middle, low, high)), ("old", "new"), matters, quantity)


@pytest.mark.parametrize(
    ("low", "high", "matters", "words", "by_little"),
    [
        (1.18, 1.31, 0.05, "faster", ""),
        (1.01, 1.31, 0.05, "faster", "perhaps by less than the 5 % that matters here"),
        (1.01, 1.04, 0.05, "faster", "by less than the 5 % that matters here"),
        (1 / 1.3, 1 / 1.01, 0.05, "slower", "perhaps by less than the 5 % that matters here"),
        (0.98, 1.03, 0.05, "no difference beyond 3 %", ""),
        (0.98, 1.16, 0.05, "up to 16 % faster, perhaps nothing", ""),
        (0.9, 1.3, 0.2, "between 12 % slower and 30 % faster", ""),
        (1 / 1.16, 1.02, 0.05, "up to 16 % slower, perhaps nothing", ""),
        (0.5, 3.0, 0.05, "between 2 times slower and 3 times faster", ""),
    ],
)
def test_words_say_the_estimate_and_its_reach(
    low: float, high: float, matters: float, words: str, by_little: str
) -> None:
    made = of_interval(low, high, matters)
    assert (str(made), made.by_little) == (words, by_little)


@pytest.mark.parametrize(
    ("low", "high", "quantity", "words"),
    [
        (2.0, 2.0, Quantity.BYTES, "smaller"),
        (-0.02, -0.01, Quantity.ACCURACY, "worse"),
        (-0.012, 0.008, Quantity.ACCURACY, "between 1.2 points worse and 0.8 points better"),
        (-0.002, 0.004, Quantity.ACCURACY, "no difference beyond 0.4 points"),
    ],
)
def test_bytes_and_answers_have_words_of_their_own(low: float, high: float, quantity: Quantity, words: str) -> None:
    assert str(of_interval(low, high, 0.005, quantity)) == words


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (1.1, 1.2, {"is_gain", "is_no_loss"}),
        (1.01, 1.2, {"is_no_loss"}),
        (0.98, 1.2, {"is_no_loss"}),
        (0.98, 1.03, {"is_no_gain", "is_no_loss"}),
        (0.9, 1.2, set()),
        (0.9, 1.03, {"is_no_gain"}),
        (0.8, 0.9, {"is_loss", "is_no_gain"}),
    ],
)
def test_gain_loss_and_neither_are_told_by_what_matters(low: float, high: float, told: set[str]) -> None:
    def of(made: Comparison) -> set[str]:
        return {name for name in ("is_gain", "is_loss", "is_no_gain", "is_no_loss") if getattr(made, name)}

    made = of_interval(low, high, 0.05)
    assert of(made) == told
    assert of(of_interval(low - 1, high - 1, 0.05, Quantity.ACCURACY)) == told
    withheld = made.withheld("busy")
    assert (of(withheld), withheld.verdict, withheld.because) == (set(), Verdict.WITHHELD, "busy")
    assert (withheld.estimate, str(withheld)) == (made.estimate, "withheld")
    once = judged(Measurement("once", (1.5,), ""), ("old", "new"), 0.05)
    assert (of(once), once.verdict) == (set(), Verdict.OPEN)


def autoregressive(draw: np.random.Generator, n: int, memory: float) -> Times:
    steps = draw.normal(0, math.sqrt(1 - memory**2), n)
    steps[0] = draw.normal()
    return np.asarray(lfilter([1.0], [1.0, -memory], steps))


def test_a_ratio_that_wanders_far_from_one_is_still_told_from_it() -> None:
    """Noise that wanders by a tenth does not make a program take half the time."""
    for low, high, verdict in ((0.7, 0.8, Verdict.FASTER), (-0.8, -0.7, Verdict.SLOWER), (-0.02, 0.08, Verdict.OPEN)):
        drifts = np.exp(np.linspace(low, high, 12))
        assert compare_paired(drifts, np.ones(12), 0.01).verdict == verdict


def test_processes_are_independent_by_the_way_they_were_started() -> None:
    rising = Measurement("a / b", tuple(np.linspace(1.02, 1.08, 12)), "", Conditions(sample=Sample.PROCESSES))
    found = judged(rising, ("a", "b"), 0.01)
    assert (found.verdict, found.n) == (Verdict.FASTER, 12)
    assert "12 processes" in found.sentence()
    assert judged(replace(rising, conditions=Conditions()), ("a", "b"), 0.01).verdict == Verdict.OPEN
    with pytest.raises(ValueError, match="ratios"):
        judged(Measurement("a / b", (0.0, 1.0), ""), ("a", "b"), 0)


def test_a_comparison_has_the_conditions_of_both_sides() -> None:
    draw = np.random.default_rng(0)
    old, new = taken_in_turns(["old", "new"], np.exp(draw.normal(0, 0.01, (2, 30))))
    old = replace(old, conditions=replace(old.conditions, cpu_per_wall=0.99, inner_loops=4, caches=Caches.WARM))
    new = replace(new, conditions=replace(new.conditions, cpu_per_wall=0.52, inner_loops=8, caches=Caches.WARM))
    for one, other in ((old, new), (new, old)):
        found = compare_paired(one, other, 0.01).estimate.conditions
        assert (found.cpu_per_wall, found.caches, found.inner_loops, found.interleaved_with) == (0.52, "warm", None, ())
        assert found.sides == (Side("baseline", one.conditions), Side("candidate", other.conditions))


def test_what_repeats_differ_by_stands_between_a_comparison_and_a_verdict() -> None:
    draw = np.random.default_rng(0)
    old, new = taken_in_turns(["old", "new"], np.exp(draw.normal([[0.03], [0.0]], 0.005, (2, 60))))
    assert compare_paired(old, new, 0.01).verdict == Verdict.FASTER
    old, new = (replace(one, conditions=replace(one.conditions, between_runs=BetweenRuns(0.02))) for one in (old, new))
    made = compare_paired(old, new, 0.01)
    assert made.verdict == Verdict.OPEN
    alone = compare_paired(old.samples, new.samples, 0.01).estimate
    apart = [math.log(one.median / one.interval.low) for one in (alone, made.estimate)]
    assert apart[1] == pytest.approx(math.hypot(apart[0], 1.96 * 0.02 * 2**0.5), rel=0.02)


@pytest.mark.parametrize(
    ("baseline", "candidate", "options", "message"),
    [
        ([1.0] * 6, [1.0] * 7, {}, "as many times as baseline, 6, not 7"),
        ([1.0] * 6, [0.0] * 6, {}, "candidate must be times above 0"),
        ([math.nan] * 6, [1.0] * 6, {}, "baseline must be finite"),
        ([1.0] * 6, [1.0] * 6, {"matters": -0.01}, "matters must be at least 0"),
        ([1.0] * 6, [1.0] * 6, {"matters": math.nan}, "matters must be at least 0"),
        ([1.0] * 6, [1.0] * 6, {"together": 0}, "together must be at least 1"),
        (Measurement("a", (1.0,), "s"), [1.0], {}, "both be Measurements or both"),
        (Measurement("a", (1.0,), "s"), Measurement("b", (1.0,), "s"), {}, "not interleaved"),
        (*taken_in_turns(["a", "b"], np.ones((2, 6)), "FLOP/s"), {}, "must be times"),
    ],
)
def test_what_cannot_be_compared_raises(
    baseline: Times, candidate: Times, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        compare_paired(baseline, candidate, **{"matters": 0.01, **options})


@pytest.mark.parametrize("candidates", [[], [1, 1]])
def test_candidates_need_names_of_their_own(candidates: list[int]) -> None:
    sides = taken_in_turns(["old", "new"], np.ones((2, 6)))
    with pytest.raises(ValueError, match="name"):
        compare_all(sides[0], *(sides[at] for at in candidates), matters=0.01)


def test_the_verdict_rests_on_the_interval_that_is_shown() -> None:
    draw, seen = np.random.default_rng(1), set()
    for level in (-0.02, 0.0, 0.02):
        for memory in (0.0, 0.8):
            noise = level + 0.02 * autoregressive(draw, 60, memory)
            old, new = taken_in_turns(["old", "new"], np.exp([noise, np.zeros(60)]))
            made = compare_paired(old, new, 0.03, together=3)
            assert made.interval == ratio(old, new).together(3).interval
            inside = made.interval.low <= 1 <= made.interval.high
            assert (made.verdict in (Verdict.OPEN, Verdict.NO_DIFFERENCE)) == inside
            seen.add(made.verdict)
    assert len(seen) > 2


def test_several_candidates_are_corrected_for_their_number() -> None:
    names = ["old", *(f"new {index}" for index in range(8))]
    old, *new = taken_in_turns(names, np.exp(np.random.default_rng(2).normal(0, 0.01, (9, 30))))
    together = compare_all(old, *new, matters=0)
    assert list(together) == names[1:]
    assert {one.interval.confidence for one in together.values()} == {1 - 0.05 / 8}


def test_what_makes_an_interval_wide_is_told() -> None:
    wandering = compare_paired(np.exp(np.linspace(0, 1, 60)), np.ones(60), 0.01)
    assert "60 have an effective size of" in wandering.because
    draw = np.random.default_rng(4)
    few = [compare_paired(np.exp(draw.normal(0.0, 0.01, 10)), np.ones(10), 0).because for _ in range(20)]
    assert sum("10 samples like these do not rule out a slow drift" in because for because in few) > 5
