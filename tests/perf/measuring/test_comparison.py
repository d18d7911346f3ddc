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
from tinytorch.perf.measuring.comparison import (
    Comparison,
    Quantity,
    compare_all,
    compare_paired,
    compared_by,
    judged,
)
from tinytorch.perf.measuring.conditions import BetweenRuns, Caches, Conditions, Sample, Side
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.statistics import Interval, Stated, median_interval

Times = npt.NDArray[np.float64]
OPPOSITE = {one: one for one in Verdict} | {
    Verdict.FASTER: Verdict.SLOWER,
    Verdict.SLOWER: Verdict.FASTER,
}


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
    assert (turned.estimate.median, turned.wins) == (one.estimate.median, one.wins)
    assert sorted(turned.estimate.samples) == sorted(one.estimate.samples)


@given(st.integers(0, 10**6), st.floats(0.9, 1.1), st.integers(6, 61), st.sampled_from([0.0, 0.01, 0.03]))
@settings(max_examples=80, deadline=None)
def test_swapping_the_two_inverts_ratio_interval_and_verdict(seed: int, ratio: float, n: int, matters: float) -> None:
    baseline, candidate = pairs(seed, ratio, n)
    one, other = compare_paired(baseline, candidate, matters), compare_paired(candidate, baseline, matters)
    ends = (1 / one.estimate.median, 1 / one.interval.high, 1 / one.interval.low)
    assert (other.estimate.median, other.interval.low, other.interval.high) == pytest.approx(ends, rel=1e-9)
    assert (other.verdict, other.wins) == (OPPOSITE[one.verdict], n - one.wins)


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
    bounds = Interval(low, high, 0.95)
    middle = (low + high) / 2
    estimate = Measurement(
        "made", (middle,), "", Conditions(), law=Stated(middle, bounds.low, bounds.high, bounds.confidence)
    )
    return compared_by(estimate, ("old", "new"), matters, quantity, bounds)


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


@given(st.floats(0.5, 2), st.floats(0, 0.5), st.floats(0, 0.2), st.floats(1.0, 1.3))
def test_a_floor_never_makes_a_verdict_surer(middle: float, width: float, matters: float, floor: float) -> None:
    made = of_interval(middle * math.exp(-width), middle * math.exp(width), matters)
    hidden = made.hidden_by(floor)
    if hidden.verdict in (Verdict.FASTER, Verdict.SLOWER):
        assert hidden.verdict == made.verdict
        assert max(float(made), 1 / float(made)) >= floor
    if hidden.verdict == Verdict.NO_DIFFERENCE:
        assert floor <= 1 + matters


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
    assert of(compared_by(made.estimate, ("old", "new"), 0.05, Quantity.TIME, None)) == set()


def test_below_six_pairs_there_is_no_verdict() -> None:
    five = compare_paired([2.0] * 5, [1.0] * 5, 0.05)
    assert five.verdict == Verdict.OPEN
    assert "takes 6" in five.sentence()
    assert compare_paired([2.0] * 6, [1.0] * 6, 0.05).verdict == Verdict.FASTER


def test_one_ratio_has_one_interval() -> None:
    """Of independent pairs it is the book's interval of their ratios, of pairs that remember a wider one."""
    draw = np.random.default_rng(1)
    for memory, wider in ((0.0, False), (0.8, True)):
        noise = 0.02 * autoregressive(draw, 60, memory) if memory else draw.normal(0, 0.02, 60)
        old, new = taken_in_turns(["old", "new"], np.exp([noise, np.zeros(60)]))
        made, plain = compare_paired(old, new, 0.01), median_interval(ratio(old, new).samples)
        assert made.interval == ratio(old, new).interval
        assert (made.interval.high > plain.high and made.interval.low < plain.low) == wider
        assert wider or (made.interval.low, made.interval.high) == (plain.low, plain.high)


def autoregressive(draw: np.random.Generator, n: int, memory: float) -> Times:
    """Return AR(1) noise of variance 1."""
    steps = draw.normal(0, math.sqrt(1 - memory**2), n)
    steps[0] = draw.normal()
    return np.asarray(lfilter([1.0], [1.0, -memory], steps))


def test_a_ratio_that_wanders_far_from_one_is_still_told_from_it() -> None:
    """Noise that wanders by a tenth does not make a program take half the time."""
    for low, high, verdict in ((0.7, 0.8, Verdict.FASTER), (-0.8, -0.7, Verdict.SLOWER), (-0.02, 0.08, Verdict.OPEN)):
        drifts = np.exp(np.linspace(low, high, 12))
        assert compare_paired(drifts, np.ones(12), 0.01).verdict == verdict
    assert "60 pairs are worth 0.1" in compare_paired(np.exp(np.linspace(0, 1, 60)), np.ones(60), 0.01).sentence()


def test_few_quiet_looking_pairs_do_not_rule_out_noise_that_wanders() -> None:
    draw, reasons = np.random.default_rng(4), []
    for _ in range(100):
        made = compare_paired(np.exp(draw.normal(0.015, 0.01, 10)), np.ones(10), 0)
        reasons += [made.because] if made.verdict == Verdict.OPEN and 1 not in made.interval else []
    assert len(reasons) > 20
    assert reasons.count("10 pairs like these do not rule out noise that wanders as far") > 20
    assert {one for one in reasons if "wanders" not in one and "neighbours are alike" not in one} == set()


def test_too_few_pairs_for_a_corrected_confidence_tell_only_what_lies_far_away() -> None:
    draw = np.random.default_rng(0)
    names = ["old", *(f"new {at}" for at in range(16))]
    levels = np.where(np.arange(17) % 2 == 1, -0.003, -0.5)[:, None]
    old, *new = taken_in_turns(names, np.exp(levels * (np.arange(17) > 0)[:, None] + draw.normal(0, 0.01, (17, 9))))
    found = compare_all(old, *new, matters=0)
    assert {found[f"new {at}"].verdict for at in range(1, 16, 2)} == {Verdict.FASTER}
    near = [found[f"new {at}"] for at in range(0, 16, 2)]
    assert all(one.interval.confidence < 1 - 0.05 / 16 for one in near)
    assert {one.verdict for one in near} == {Verdict.OPEN}


def test_processes_are_independent_by_the_way_they_were_started() -> None:
    rising = Measurement("a / b", tuple(np.linspace(1.02, 1.08, 12)), "", Conditions(sample=Sample.PROCESSES))
    found = judged(rising, ("a", "b"), 0.01, 0.95, pairs_are="processes")
    assert (found.verdict, found.n, found.dependence.time) == (Verdict.FASTER, 12, 1)
    assert judged(replace(rising, conditions=Conditions()), ("a", "b"), 0.01, 0.95).verdict == Verdict.OPEN
    with pytest.raises(ValueError, match="ratios"):
        judged(Measurement("a / b", (0.0, 1.0), ""), ("a", "b"), 0, 0.95)


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
    expected = np.hypot(np.log(made.estimate.median / median_interval(made.estimate.samples).low), 1.96 * 0.02 * 2**0.5)
    assert np.log(made.estimate.median / made.interval.low) == pytest.approx(expected, rel=0.02)


def test_several_candidates_are_corrected_for_their_number() -> None:
    names = ["old", *(f"new {index}" for index in range(8))]
    old, *new = taken_in_turns(names, np.exp(np.random.default_rng(2).normal(0, 0.01, (9, 30))))
    together = compare_all(old, *new, matters=0)
    assert list(together) == names[1:]
    for comparison in together.values():
        assert comparison.compared == 8
        assert comparison.interval.confidence >= 1 - 0.05 / 8
        assert "corrected for 8" in comparison.sentence()


@pytest.mark.parametrize(
    ("baseline", "candidate", "options", "message"),
    [
        ([1.0] * 6, [1.0] * 7, {}, "as many times as baseline, 6, not 7"),
        ([1.0] * 6, [0.0] * 6, {}, "candidate must be times above 0"),
        ([math.nan] * 6, [1.0] * 6, {}, "baseline must be finite"),
        ([1.0] * 6, [1.0] * 6, {"matters": -0.01}, "matters must be at least 0"),
        ([1.0] * 6, [1.0] * 6, {"matters": math.nan}, "matters must be at least 0"),
        ([1.0] * 6, [1.0] * 6, {"confidence": 1.0}, "confidence must lie between 0 and 1"),
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


def test_hardly_any_effective_pairs_make_an_interval_of_what_was_seen_with_the_confidence_that_it_has() -> None:
    # Two levels, one after the other: ten pairs that are worth about one, at a confidence for many comparisons.
    before = np.repeat([1.0, 30.0], 5) * np.linspace(1, 1.2, 10)
    made = compare_paired(before, np.ones(10), 0.05, confidence=0.9999)
    assert made.verdict == Verdict.OPEN
    assert (made.interval.low, made.interval.high) == (before.min(), before.max())
    assert 0 < made.interval.confidence < 0.5
