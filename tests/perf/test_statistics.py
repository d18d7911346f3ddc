"""Intervals and percentiles against counting by hand and against drawn samples."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.statistics import checked, median_absolute_deviation, median_interval, percentile

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


def test_coverage_on_drawn_samples_of_a_skewed_distribution() -> None:
    generator = np.random.default_rng(0)
    hits = sum(math.log(2) in median_interval(generator.exponential(size=15)) for _ in range(2000))
    # 2,000 draws know the coverage to about 0.01 at two standard deviations.
    assert 0.95 - 0.012 <= hits / 2000 <= 0.985


def test_below_six_samples_the_interval_admits_that_it_is_weaker() -> None:
    assert median_interval([1, 2, 3, 4, 5]).confidence == pytest.approx(1 - 2 / 2**5)
    assert median_interval([1, 2, 3, 4, 5, 6]).confidence >= 0.95


def test_one_sample_has_no_interval() -> None:
    interval = median_interval([3.0])
    assert (interval.low, interval.high) == (3.0, 3.0)
    assert math.isnan(interval.confidence)


@given(st.lists(finite, min_size=1, max_size=60))
def test_the_median_lies_in_its_interval(samples: list[float]) -> None:
    interval = median_interval(samples)
    middle = sorted(samples)[len(samples) // 2]
    assert interval.low <= middle <= interval.high or math.isclose(interval.low, interval.high)
    assert interval.low in samples
    assert interval.high in samples


@given(st.lists(finite, min_size=1, max_size=30))
def test_percentiles_are_ordered_and_end_at_the_extremes(samples: list[float]) -> None:
    values = [percentile(samples, q) for q in (0, 25, 50, 75, 100)]
    assert values == sorted(values)
    assert (values[0], values[-1]) == (min(samples), max(samples))


def test_an_outlier_does_not_move_the_deviation_of_the_median() -> None:
    assert median_absolute_deviation([1, 2, 3, 4, 5]) == median_absolute_deviation([1, 2, 3, 4, 1e9]) == 1


@pytest.mark.parametrize("bad", [[], [math.nan], [1.0, math.inf], [[1.0, 2.0]]])
def test_samples_that_are_none_raise(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="samples must be"):
        checked(bad)


def test_bad_percentiles_and_confidences_raise() -> None:
    with pytest.raises(ValueError, match="q must be between 0 and 100"):
        percentile([1.0], 101)
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
        median_interval([1.0], 1.0)
