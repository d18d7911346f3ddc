"""Intervals and percentiles against counting by hand and against drawn samples."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import beta, binom

from tinytorch.perf.measuring.statistics import (
    Interval,
    Outliers,
    checked,
    combine_in_quadrature,
    median,
    median_interval,
    outer_fences,
    outliers,
    percentile,
    percentile_at_least,
    percentile_interval,
    rescale_interval,
    samples_needed,
    share_interval,
)

finite = st.floats(-1e6, 1e6)


def test_coverage_of_the_interval_counted_over_all_ways_to_fall() -> None:
    """Each of n samples falls below or above the median with equal chance: count all 2**n cases."""
    n = 9
    interval = median_interval(list(range(1, n + 1)))
    low, high = int(interval.low), int(interval.high)
    # The median lies between order statistics low and high if at least low samples and fewer than high are below it.
    covered = sum(low <= sum(case) < high for case in product((0, 1), repeat=n))
    assert interval.confidence == pytest.approx(covered / 2**n)
    assert interval.confidence >= 0.95
    narrower = sum(low + 1 <= sum(case) < high - 1 for case in product((0, 1), repeat=n))
    assert narrower / 2**n < 0.95, "a narrower pair would do"


def test_below_six_samples_the_interval_admits_that_it_is_weaker_and_of_one_that_it_is_none() -> None:
    assert median_interval([1, 2, 3, 4, 5]).confidence == pytest.approx(1 - 2 / 2**5)
    assert median_interval([1, 2, 3, 4, 5, 6]).confidence >= 0.95
    one = median_interval([3.0])
    assert (one.low, one.high, math.isnan(one.confidence)) == (3.0, 3.0, True)


@given(st.lists(finite, min_size=1, max_size=60), st.floats(0, 100))
def test_medians_and_percentiles_are_those_of_numpy_to_the_last_bit(samples: list[float], q: float) -> None:
    assert median(np.array(samples)) == np.median(samples)
    assert percentile(samples, q) == np.percentile(samples, q)


@pytest.mark.parametrize(("q", "needed"), [(50, 6), (90, 29), (95, 59), (99, 299), (10, 29), (1, 299)])
def test_a_percentile_takes_as_many_samples_as_can_hold_it(q: float, needed: int) -> None:
    assert samples_needed(q) == needed
    assert percentile_interval(range(needed), q).confidence >= 0.95
    with pytest.raises(ValueError, match=f"at least {needed} for an interval of percentile {q}, not {needed - 1}"):
        percentile_interval(range(needed - 1), q)


@given(st.floats(1, 99), st.integers(6, 400))
def test_the_interval_of_a_percentile_is_the_narrowest_that_covers(q: float, n: int) -> None:
    n = max(n, samples_needed(q))
    interval = percentile_interval(range(1, n + 1), q)
    r, s = int(interval.low), int(interval.high)
    covered = binom.cdf(s - 1, n, q / 100) - binom.cdf(r - 1, n, q / 100)
    assert interval.confidence == pytest.approx(covered)
    assert covered >= 0.95 - 1e-9
    firsts = np.arange(1, n - (s - r) + 2)  # of every pair one rank nearer to one another
    lasts = firsts + s - r - 1
    assert (binom.cdf(lasts - 1, n, q / 100) - binom.cdf(firsts - 1, n, q / 100) < 0.95).all()


def test_what_a_tail_is_at_least_is_known_from_few_samples() -> None:
    assert percentile_at_least(range(1, 101), 99) == 97
    assert percentile_at_least([7.0], 99) == 7.0


def test_outliers_are_counted_at_tukeys_fences() -> None:
    # Quartiles 0 and 1: the fences lie at -1.5 and 2.5, and at -3 and 4.
    middle = [0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0]
    assert np.percentile([*middle, -9, 9], [25, 75]).tolist() == [0, 1]
    assert outliers([*middle, -2.9, 9.0]) == Outliers(0, 1, 0, 1)
    assert outliers([*middle, -3.1, 2.6]) == Outliers(1, 0, 1, 0)
    assert outliers([*middle, -1.5, 2.5]).total == 0
    assert outliers([1.0]).total == 0
    assert outer_fences([*middle, -9, 9]) == (-3, 4)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        *((lambda q=q: percentile_interval([1.0] * 600, q), "ends excluded") for q in (0, 100, -1, math.nan)),
        (lambda: percentile([1.0], 101), "q"),
        (lambda: percentile_interval([1.0], 50, 1), "confidence"),
        (lambda: median_interval([1.0], 0), "confidence"),
        (lambda: median_interval(range(30), time=0.9), "time"),
        (lambda: percentile_at_least([1.0, 2.0, 3.0], 10), "percentile"),
        *((lambda of=of: share_interval(*of), "count") for of in ((0, 0), (-1, 5), (6, 5))),
        *((lambda bad=bad: checked(bad), "samples") for bad in ([], [math.nan], [1.0, math.inf], [[1.0, 2.0]])),
    ],
)
def test_what_is_out_of_its_range_raises(function: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        function()


@pytest.mark.parametrize("n", [30, 31, 100])
@pytest.mark.parametrize("time", [1.5, 4.0])
def test_the_interval_of_dependent_samples_is_that_of_normal_deviates(n: int, time: float) -> None:
    """The median's standard error is the root of pi / 2 times that of the mean, and of so many times the time."""
    quantiles = ndtri((np.arange(n) + 0.5) / n)  # as a sample of n lies in the mean
    interval = median_interval(quantiles, time=time)
    deviate = ndtri((1 + interval.confidence) / 2)
    assert interval.half_width == pytest.approx(deviate * math.sqrt(math.pi / 2 * time / n), rel=0.07)


@given(st.lists(finite, min_size=2, max_size=60, unique=True), st.floats(1, 50), st.floats(1, 4))
def test_more_dependence_never_narrows_and_never_passes_the_extremes(
    samples: list[float], time: float, more: float
) -> None:
    one, other = median_interval(samples, time=time), median_interval(samples, time=time * more)
    assert min(samples) <= other.low <= one.low <= one.high <= other.high <= max(samples)
    assert 0 <= other.confidence < 1
    if other.low == one.low:
        assert other.confidence <= one.confidence + 1e-12


def test_independence_is_the_limit_of_little_dependence() -> None:
    one, other = median_interval(range(30)), median_interval(range(30), time=1 + 1e-12)
    assert (one.low, one.high) == (other.low, other.high)
    assert one.confidence == pytest.approx(other.confidence)


def test_errors_add_in_squares_as_factors_or_as_differences() -> None:
    made = combine_in_quadrature(10, Interval(5, 20, 0.9), Interval(10 / 1.5, 30, 0.95), as_factors=True)
    assert made.low == pytest.approx(10 * math.exp(-math.hypot(math.log(2), math.log(1.5))))
    assert made.high == pytest.approx(10 * math.exp(math.hypot(math.log(2), math.log(3))))
    assert made.confidence == 0.95
    made = combine_in_quadrature(0, Interval(-3, 5, 0.9), Interval(-4, 12, 0.9), as_factors=False)
    assert (made.low, made.high) == (-5, 13)
    assert rescale_interval(Interval(5, 20, 0.9), 10, 100) == Interval(50, 200, 0.9)
    assert rescale_interval(Interval(-1, 2, 0.9), 0, 10, 2) == Interval(8, 14, 0.9)


@settings(max_examples=40)
@given(st.integers(1, 400), st.floats(0, 1))
def test_the_interval_of_a_share_is_made_of_quantiles_of_beta(trials: int, share: float) -> None:
    count = round(share * trials)
    found = share_interval(count, trials)
    low = beta.ppf(0.025, count, trials - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, trials - count) if count < trials else 1.0
    assert [found.low, found.high] == pytest.approx([low, high])
    assert found.confidence == 0.95
