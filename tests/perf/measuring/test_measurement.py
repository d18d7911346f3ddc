"""Measurements and values that no clock took: intervals, quotients, differences, conditions, and what is refused."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.measuring.test_comparison import taken_in_turns
from tinytorch.perf.measuring import (
    Counted,
    Derived,
    Measurement,
    Modelled,
    Quoted,
    derived,
    difference,
    quotient,
    ratio,
)
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions, Sample
from tinytorch.perf.measuring.statistics import DRAWS, Drawn, Known, Stated, Turned
from tinytorch.perf.measuring.values import as_measurement, is_clocked

DRAW = np.random.default_rng(0)
QUIET = tuple(np.exp(DRAW.normal(0, 0.02, 40)).tolist())


def repeated(spread: float, samples: tuple[float, ...] = QUIET, sample: Sample = Sample.CALLS) -> Measurement:
    return Measurement("call", samples, "s", Conditions(sample=sample, between_runs=BetweenRuns(spread)))


@given(st.lists(st.floats(0.5, 2), min_size=6, max_size=40), st.floats(1e-3, 0.5), st.floats(1e-6, 1e6))
def test_what_repeats_differ_by_is_added_in_squares_of_logarithms(
    samples: list[float], spread: float, scale: float
) -> None:
    alone, made = (repeated(each, tuple(samples), sample=Sample.TRIALS) for each in (0.0, spread))
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


def test_a_rate_of_what_may_take_no_time_has_no_bound_beyond_its_interval() -> None:
    """A draw in a hundred of a line's slope may be 0 or below though its interval is above: that rate is endless."""
    values = np.linspace(1.0, 3.0, DRAWS)
    values[: DRAWS // 100] = np.linspace(-1.0, 0.0, DRAWS // 100)
    for law in (Drawn(2.0, values), Turned(Drawn(1.0, values - 1), lambda x: x + 1, falls=False)):
        slope = replace(repeated(0.0), law=law)
        for sign in (1, -1):
            rate = slope.scaled(sign).per(4.0, "B/s")
            assert rate.median == sign * 2.0
            assert np.isfinite([rate.interval.low, rate.interval.high]).all()
            assert (rate.draws * sign > 0).all()
            assert np.isinf(rate.draws).any()


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
    assert mostly.low <= 0.97 < 0.99 < mostly.high <= 1
    with pytest.raises(ValueError, match="part"):
        part((0.5, 1.01))


def test_what_is_made_of_a_part_is_part_of_nothing() -> None:
    left, right = (part(shares, beside=("part",)) for shares in ((0.4, 0.6), (0.2, 0.3)))
    made = (left.scaled(5, ""), left.per(1, ""), ratio(left, right), difference(left, right, "lead"))
    assert all(one.conditions.part_of is None for one in (*made, quotient(left, Counted(0.5, "%", "half"), "of half")))


@pytest.mark.parametrize(
    ("known", "left"), [(BetweenRuns(0.05, interleaved=0.03, per_block=0.0), 0.03), (BetweenRuns(0.05), 0.05 * 2**0.5)]
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


def test_noise_that_may_wander_makes_an_interval_wider_unless_it_is_known_what_runs_differ_by() -> None:
    alone = Measurement("call", tuple(np.exp(0.02 * np.random.default_rng(0).standard_normal(12)).tolist()), "s")
    assert alone.dependence.may_wander
    known = replace(alone, conditions=Conditions(between_runs=BetweenRuns(0.0)))
    assert known.interval.half_width < alone.interval.half_width / 2
    assert replace(alone, conditions=Conditions(sample=Sample.PROCESSES)).interval == known.interval


def test_every_interval_is_at_one_level_and_only_one_sample_has_none() -> None:
    for n in (2, 3, 5, 6, 12, 60):
        few = Measurement("call", QUIET[:20] * 3, "s") if n == 60 else Measurement("call", QUIET[:n], "s")
        assert few.interval.confidence == 0.95
        assert few.interval.low < few.median < few.interval.high
    assert few.together(4).interval.confidence == 1 - 0.05 / 4
    assert few.together(4).interval.low < few.interval.low
    assert not Measurement("call", (1.0,), "s").has_interval


def test_tails_hold_what_runs_differ_by() -> None:
    samples = tuple(np.random.default_rng(1).exponential(size=400).tolist())
    plain, made = (repeated(spread, samples).tail(90) for spread in (0.0, 0.1))
    below, above = (abs(math.log(one.interval.high / one.median)) for one in (plain, made))
    assert above == pytest.approx(math.hypot(below, 1.96 * 0.1), rel=1e-3)
    with pytest.raises(ValueError, match="at least 299"):
        Measurement("call", samples[:298], "s").tail(99)


def test_a_quotient_holds_what_both_sides_do_and_counts_are_exact() -> None:
    """Of normal laws the variances of the logarithms add up."""
    over, below = (
        Measurement(
            name, (value,), "s", law=Stated(value, value * math.exp(-1.96 * error), value * math.exp(1.96 * error))
        )
        for name, value, error in (("over", 6.0, 0.03), ("below", 2.0, 0.04))
    )
    share = quotient(over, below, "share")
    assert share.median == 3
    assert math.log(share.interval.high / 3) == pytest.approx(1.96 * 0.05, rel=0.03)
    assert quotient(Counted(6, "B", "six"), Counted(2, "B", "two"), "three").law == Known(3.0)
    assert not quotient(over, Measurement("once", (2.0,), "s"), "share").has_interval
    with pytest.raises(ValueError, match="denominator"):
        quotient(over, Measurement("gain", (1.0,), "s", law=Stated(1.0, -0.1, 2.1)), "share")


def test_what_is_computed_of_one_quantity_twice_knows_that_it_is_the_same() -> None:
    peak = repeated(0.1)
    assert derived("nothing", lambda one, same: one - same, peak, peak).interval.half_width == 0
    with pytest.raises(ValueError, match="not bounded"):
        derived("far", lambda one: 1 / (one - one), peak)


def test_a_difference_knows_that_what_hits_both_cancels_and_what_hits_one_does_not() -> None:
    """100 less 99, each known to a per cent apart from the other, is 1 give or take 2 and not 1 give or take 0.02."""
    more, less = taken_in_turns(["more", "less"], np.array([[100.0] * 12, [99.0] * 12]))
    plain = difference(more, less, "what it adds")
    assert plain.median == 1.0
    assert plain.interval.half_width == pytest.approx(0, abs=1e-9)
    known = BetweenRuns(0.05, interleaved=0.01, per_block=0.0)
    more, less = (
        replace(one, conditions=replace(one.conditions, between_runs=known, block=12)) for one in (more, less)
    )
    made = difference(more, less, "what it adds")
    assert made.interval.half_width == pytest.approx(0.9 * 1.96 * 0.01 * 100, rel=0.05)
    assert made.scaled(1e3, "ms").interval.low == pytest.approx(1e3 * made.interval.low)
    gain = replace(made, law=Stated(1.0, -1.0, 3.0))
    with pytest.raises(ValueError, match="interval"):
        gain.per(4.0, "/s")


RUN = Measurement("a run", (1.0, 1.1, 1.2, 1.05, 1.15, 1.3), "s")
ONCE = Measurement("one run", (2.0,), "s")
STATE = Counted(4096, "B", "state")


@pytest.mark.parametrize(
    ("unit", "clocked"),
    [("s", True), ("ns", True), ("B/s", True), ("s/step", True), ("Hz", True), ("steps", False), ("", False)],
)
def test_a_unit_of_time_or_rate_is_a_clocks_which_counts_nothing(unit: str, clocked: bool) -> None:
    assert is_clocked(unit) == clocked
    with pytest.raises(ValueError, match="counted") if clocked else nullcontext():
        Counted(3, unit, "a run")


def test_what_was_counted_is_exact_whole_or_not_and_names_both_of_a_quotient() -> None:
    share = Counted(0.75, "%", "right answers")
    assert share.is_counted
    assert (share.interval.low, share.interval.high) == (0.75, 0.75)
    saved = STATE.over(Counted(1024, "B", "codes"), "saved")
    assert (saved.value, saved.unit, saved.names) == (4.0, "", ("state", "codes"))


def test_what_is_derived_names_something_and_an_interval_is_not_lost_without_a_reason() -> None:
    slowest = Derived(1.3, "s", "slowest", (RUN,), "nothing bounds it")
    for of, said in (((), "something"), ((STATE, RUN), "interval"), ((slowest,), "interval")):
        with pytest.raises(ValueError, match=said):
            Derived(2.0, "", "twice", of)
    assert Derived(2.0, "", "twice", (STATE, RUN), "it is a guess").measured == (STATE, RUN)
    assert Derived(2.0, "", "twice", (ONCE,)).no_interval is None


def test_what_a_model_makes_of_a_measurement_has_its_samples() -> None:
    made = Modelled.by("a law", RUN)
    assert (made.value, made.unit, made.what, as_measurement(made)) == (RUN.median, "s", "a run", RUN)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    "make",
    [
        lambda value: Counted(value, "B", "it"),
        lambda value: Derived(value, "", "it", (STATE,)),
        lambda value: Modelled(value, "s", "it", "a law"),
        lambda value: Quoted(value, "s", "it", "Someone"),
    ],
)
def test_what_is_not_finite_is_no_value(make: Callable[[float], Any], value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        make(value)
