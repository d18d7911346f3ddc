"""Amdahl's prediction from measured numbers: the law at their medians, and an interval made of both of theirs."""

import math

import pytest

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.profiling.breakdown import amdahl, predicted_speedup


def known(value: float, low: float, high: float, unit: str = "") -> Statistic:
    return Statistic("known", (low, value, high), unit, value=value, bounds=Interval(low, high, 0.95))


def exact(value: float) -> Statistic:
    return known(value, value, value)


def test_a_prediction_without_noise_is_the_law() -> None:
    found = predicted_speedup(exact(0.5), exact(4.0), "law")
    assert (found.median, found.interval.low, found.interval.high) == pytest.approx((1.6, 1.6, 1.6))


def test_a_prediction_is_no_part_of_what_its_share_is_part_of() -> None:
    share = Measurement("share", (0.5,) * 6, "%", Conditions(part_of="the run's time"))
    made = predicted_speedup(share, exact(4.0), "law").conditions
    assert (made.part_of, made.statistic) == (None, "Amdahl's law of the median")


def test_a_part_that_takes_no_time_leaves_the_rest() -> None:
    found = predicted_speedup(known(0.5, 0.4, 0.6), None, "limit")
    assert (found.median, found.interval.low, found.interval.high) == pytest.approx((2, 1 / 0.6, 1 / 0.4))


@pytest.mark.parametrize(("share", "limit"), [(-0.1, 1), (1.2, 1000)])
def test_a_share_that_noise_puts_outside_of_the_whole_has_a_limit(share: float, limit: float) -> None:
    assert predicted_speedup(exact(share), None, "limit").median == pytest.approx(limit)


def test_one_side_alone_moves_the_ends_as_the_law_does() -> None:
    by_share = predicted_speedup(known(0.5, 0.4, 0.6), exact(4.0), "law").interval
    assert (by_share.low, by_share.high) == pytest.approx((amdahl(0.4, 4), amdahl(0.6, 4)))
    by_speedup = predicted_speedup(exact(0.5), known(4.0, 3.0, 5.0), "law").interval
    assert (by_speedup.low, by_speedup.high) == pytest.approx((amdahl(0.5, 3), amdahl(0.5, 5)))


@pytest.mark.parametrize("speedup", [4.0, 0.25])
def test_both_sides_move_the_ends_in_quadrature(speedup: float) -> None:
    share, times = known(0.5, 0.4, 0.6), known(speedup, 0.8 * speedup, 1.2 * speedup)
    found = predicted_speedup(share, times, "law")
    middle = amdahl(0.5, speedup)
    ends = [[amdahl(p, speedup) for p in (0.4, 0.6)], [amdahl(0.5, s * speedup) for s in (0.8, 1.2)]]
    up = math.hypot(*(math.log(max(one) / middle) for one in ends))
    down = math.hypot(*(math.log(min(one) / middle) for one in ends))
    assert found.interval.high == pytest.approx(middle * math.exp(up))
    assert found.interval.low == pytest.approx(middle * math.exp(-down))
