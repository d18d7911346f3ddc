"""Measurements: their intervals, what repeats differ by in them, quotients, differences, conditions of both sides."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.measuring.test_comparison import autoregressive, taken_in_turns
from tinytorch.perf.measuring import Counted, Measurement, difference, quotient, ratio
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions, Sample
from tinytorch.perf.measuring.statistics import median_interval, percentile_interval

DRAW = np.random.default_rng(0)
QUIET = tuple(np.exp(DRAW.normal(0, 0.02, 40)).tolist())


def repeated(spread: float, samples: tuple[float, ...] = QUIET, sample: Sample = Sample.CALLS) -> Measurement:
    return Measurement("call", samples, "s", Conditions(sample=sample, between_runs=BetweenRuns(spread)))


def test_what_runs_differ_by_bounds_noise_that_wanders() -> None:
    alone = Measurement("call", tuple(np.exp(0.02 * np.random.default_rng(0).standard_normal(12)).tolist()), "s")
    assert alone.objection is not None
    assert alone.verdict_interval() != alone.interval
    known = replace(alone, conditions=Conditions(between_runs=BetweenRuns(0.05, 0.02, 1.0)))
    assert known.objection is None
    assert known.verdict_interval() == known.interval
    elsewhere = replace(alone, conditions=Conditions(between_runs=BetweenRuns(0.05)))
    assert elsewhere.objection == alone.objection, "the spread of other machines says nothing of this series"


def test_independent_samples_have_the_distribution_free_interval() -> None:
    made = Measurement("call", QUIET, "s", Conditions(sample=Sample.PROCESSES))
    assert made.interval == made.verdict_interval() == median_interval(QUIET)
    assert made.interval_at(0.999) == median_interval(QUIET, 0.999)
    assert made.dependence.effective == 40


@given(st.lists(st.floats(0.5, 2), min_size=6, max_size=40), st.floats(1e-3, 0.5), st.floats(1e-6, 1e6))
def test_what_repeats_differ_by_is_added_in_squares_of_logarithms(
    samples: list[float], spread: float, scale: float
) -> None:
    alone = Measurement("call", tuple(samples), "s")
    made = replace(alone, conditions=Conditions(between_runs=BetweenRuns(spread)))
    for end, other in ((alone.interval.low, made.interval.low), (alone.interval.high, made.interval.high)):
        expected = math.hypot(math.log(end / alone.median), 1.959964 * spread)
        assert abs(math.log(other / made.median)) == pytest.approx(expected, rel=1e-5)
    assert made.interval.confidence == alone.interval.confidence
    scaled, turned = made.scaled(scale, "ms"), made.per(1.0, "/s")
    assert scaled.interval.low == pytest.approx(scale * made.interval.low)
    assert turned.interval.high >= 1 / alone.interval.low


def test_equal_samples_are_a_point_that_repeats_widen_and_one_sample_is_a_point() -> None:
    assert Measurement("call", (3.0,) * 8, "s").interval.half_width == 0
    assert repeated(0.01, (3.0,) * 8).interval.low == pytest.approx(3 * math.exp(-0.0196), rel=1e-4)
    once = repeated(0.01, (3.0,)).interval
    assert (once.low, once.high, math.isnan(once.confidence)) == (3.0, 3.0, True)


def test_samples_around_zero_are_widened_by_a_share_of_the_median() -> None:
    samples = (-1.0, -2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 4.5, 4.4)
    alone, made = (repeated(spread, samples, sample=Sample.EXAMPLES) for spread in (0.0, 0.5))
    expected = math.hypot(alone.median - alone.interval.low, 1.96 * 0.5 * alone.median)
    assert made.median - made.interval.low == pytest.approx(expected, rel=1e-4)


def test_tails_are_widened_too() -> None:
    samples = tuple(np.random.default_rng(1).exponential(size=400).tolist())
    made, plain = repeated(0.1, samples), percentile_interval(samples, 90)
    assert made.percentile_interval(90).high > plain.high
    assert made.tail(90).interval == made.percentile_interval(90)
    assert Measurement("call", samples, "s").percentile_interval(90) == plain


def part(samples: tuple[float, ...], spread: float | None = None, beside: tuple[str, ...] = ()) -> Measurement:
    between = None if spread is None else BetweenRuns(spread)
    conditions = Conditions(part_of="the run's time", between_runs=between, interleaved_with=beside)
    return Measurement("part", samples, "%", conditions)


@given(st.lists(st.floats(0.01, 0.99), min_size=6, max_size=40), st.floats(1e-3, 5.0))
def test_a_part_and_the_rest_have_intervals_that_mirror_each_other_within_the_whole(
    shares: list[float], spread: float
) -> None:
    made, rest = (part(tuple(one), spread=spread) for one in (shares, [1 - share for share in shares]))
    assert 0 <= made.interval.low <= made.median <= made.interval.high <= 1
    assert made.interval.low == pytest.approx(1 - rest.interval.high, abs=1e-9)
    assert made.interval.high == pytest.approx(1 - rest.interval.low, abs=1e-9)


def test_repeats_change_the_odds_of_a_part_by_a_factor() -> None:
    found = part((0.9,) * 8, spread=0.5).interval  # nine to one, times or over e to the 0.98
    factor = math.exp(1.959964 * 0.5)
    assert (found.low, found.high) == pytest.approx((1 / (1 + factor / 9), 1 / (1 + 1 / factor / 9)))
    assert Measurement("no part", (0.9,) * 8, "%", Conditions(between_runs=BetweenRuns(0.5))).interval.high > 1


def test_all_and_nothing_are_parts_too() -> None:
    for edge in (0.0, 1.0):
        found = part((edge,) * 8, spread=0.1).interval
        assert (found.low, found.high) == (edge, edge)
    mostly = part((1.0, 0.98, 1.0, 0.97, 0.99, 0.98, 0.97, 0.99), spread=0.1).interval
    assert mostly.low < 0.97 < mostly.high == 1
    with pytest.raises(ValueError, match="part"):
        part((0.5, 1.01))


def test_noise_that_wanders_does_not_carry_a_part_beyond_the_whole() -> None:
    for shares in (np.linspace(0.9, 0.99, 12), np.linspace(0.9, 1.0, 12)):
        reach = part(tuple(shares.tolist())).verdict_interval()
        assert reach is not None
        assert 0 <= reach.low < 0.9
        assert 0.99 < reach.high <= 1


@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_a_rate_needs_a_statistic_whose_interval_leaves_out_zero(low: float) -> None:
    more, less = taken_in_turns(["more", "less"], np.array([[3.0] * 12, [1.0] * 12]))
    gain = difference(more, less, "gain")
    assert gain.per(4.0, "/s").median == 2.0
    with pytest.raises(ValueError, match="interval"):
        replace(gain, bounds=replace(gain.bounds, low=low)).per(4.0, "/s")


def test_what_is_made_of_a_part_is_part_of_nothing() -> None:
    left, right = (part(shares, beside=("part",)) for shares in ((0.4, 0.6), (0.2, 0.3)))
    made = (left.scaled(5, ""), left.per(1, ""), ratio(left, right), difference(left, right, "lead"))
    assert all(one.conditions.part_of is None for one in (*made, quotient(left, Counted(0.5, "%", "half"), "of half")))


def test_a_verdict_rests_on_more_where_noise_may_wander() -> None:
    drifting = Measurement("call", tuple(np.linspace(1, 1.1, 30)), "s")
    wild = Measurement("call", tuple(10.0 ** np.linspace(-300, 300, 12)), "s")
    reach, far = drifting.verdict_interval(), wild.verdict_interval()
    assert reach is not None
    assert far is not None
    assert reach.low < 1 <= drifting.interval.low < 1.1 < reach.high
    assert far.low < far.high
    assert Measurement("call", (1.0, 1.1), "s").verdict_interval() is None


@pytest.mark.parametrize(
    ("noise", "n", "memory"),
    [
        ((0.02, 0.02), (30, 30), 0.0),
        ((0.001, 0.05), (30, 12), 0.0),
        ((0.2, 0.1), (15, 60), 0.0),
        ((0.05, 0.05), (60, 60), 0.5),
    ],
)
def test_the_interval_of_a_quotient_covers_the_true_one_as_often_as_it_says(
    noise: tuple[float, float], n: tuple[int, int], memory: float
) -> None:
    draw, held = np.random.default_rng(4), 0
    for _ in range(400):
        rate, peak = (
            Measurement("side", tuple((level * np.exp(size * autoregressive(draw, count, memory))).tolist()), "s")
            for level, size, count in zip((80.0, 100.0), noise, n, strict=True)
        )
        held += 0.8 in quotient(rate, peak, "share").interval
    assert held / 400 >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 400)


def test_a_quotient_has_the_uncertainty_of_both_and_a_constant_has_none() -> None:
    rate, peak = repeated(0.02), replace(repeated(0.03), name="peak")
    share, bare = quotient(rate, peak, "share"), rate.scaled(1 / peak.median, "")
    assert share.median == pytest.approx(bare.median)
    wide = share.interval_at(0.999)
    assert wide.low < share.interval.low < bare.interval.low < bare.interval.high < share.interval.high < wide.high
    exact = quotient(rate, Counted(2, "", "two"), "half", "s")
    assert exact.interval.low == pytest.approx(rate.interval.low / 2)
    assert exact.interval.confidence == rate.interval.confidence
    turned = quotient(Counted(2, "", "two"), rate, "two over it")
    assert turned.interval.high == pytest.approx(2 / rate.interval.low)
    assert turned.n == rate.n
    assert (share.conditions.statistic, share.conditions.between_runs) == ("quotient of two medians", None)


def test_a_quotient_of_something_around_zero_is_added_up_plainly() -> None:
    gain = Measurement("gain", tuple(np.random.default_rng(2).normal(-0.5, 2, 40)), "s")
    share = quotient(gain, repeated(0.1), "share")
    assert share.interval.low < gain.interval.low < 0 < gain.interval.high
    assert share.interval.low < share.median < share.interval.high
    with pytest.raises(ValueError, match="denominator"):
        quotient(repeated(0.1), gain, "share")


def test_a_denominator_that_wanders_keeps_a_verdict_back() -> None:
    rate = repeated(0.0)
    drifting = Measurement("peak", tuple(np.linspace(1, 1.3, 40)), "s")
    reach = quotient(rate, drifting, "share").verdict_interval()
    assert reach is not None
    assert 1 in reach
    assert quotient(rate, Measurement("peak", (1.0, 1.1), "s"), "share").verdict_interval() is None


@pytest.mark.parametrize(
    ("known", "left"),
    [(BetweenRuns(0.05, interleaved=0.03, per_block=0.0), 0.03), (BetweenRuns(0.05), 0.05 * 2**0.5)],
)
def test_ratios_have_the_conditions_of_both_sides_and_what_does_not_cancel_between_runs(
    known: BetweenRuns, left: float
) -> None:
    sides = taken_in_turns(["old", "new", "other"], np.exp(DRAW.normal(0, 0.01, (3, 30))))[:2]
    old, new = (
        replace(one, conditions=replace(one.conditions, cpu_per_wall=cpu, between_runs=known, block=5))
        for one, cpu in zip(sides, (0.5, 0.9), strict=True)
    )
    found = ratio(new, old).conditions
    assert (found.cpu_per_wall, found.interleaved_with) == (0.5, ("other",))
    assert found.between_runs is not None
    assert found.between_runs.deviation == pytest.approx(left)
    assert replace(found.between_runs, deviation=0.05) == known


def test_a_difference_knows_that_what_hits_both_cancels_and_what_hits_one_does_not() -> None:
    """100 less 99, each known to a per cent apart from the other, is 1 give or take 2.8 and not 1 give or take 0.02."""
    more, less = taken_in_turns(["more", "less"], np.array([[100.0] * 12, [99.0] * 12]))
    plain = difference(more, less, "what it adds")
    assert (plain.median, plain.interval.half_width) == (1.0, 0.0)
    known = BetweenRuns(0.05, interleaved=0.01, per_block=0.0)
    more, less = (
        replace(one, conditions=replace(one.conditions, between_runs=known, block=12)) for one in (more, less)
    )
    made = difference(more, less, "what it adds")
    assert made.interval.half_width == pytest.approx(1.96 * math.hypot(0.05, 0.01 * 99.5), rel=0.01)
    assert made.scaled(1e3, "ms").interval.low == pytest.approx(1e3 * made.interval.low)
    assert made.verdict_interval() == made.interval
