"""Observers against closed forms, NumPy and Max's optimum of uniform quantizers."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from tinytorch.core.op import Array
from tinytorch.perf.quantization import (
    HistogramObserver,
    MeanSquaredErrorObserver,
    MinMaxObserver,
    PercentileObserver,
    Scheme,
    decode,
    encode,
    quantize,
)
from tinytorch.perf.quantization.observers import BINS, MomentHistogram, RangeObserver

ALL: list[Any] = [MinMaxObserver, PercentileObserver, MeanSquaredErrorObserver, HistogramObserver]
AFFINE = Scheme(symmetric=False)


def normal(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=count).astype(np.float32)


def seen(observer: RangeObserver, *batches: Array) -> tuple[float, float]:
    for batch in batches:
        observer.observe(batch)
    low, high = observer.range()
    return float(low), float(high)


@cache
def evenly_normal() -> MomentHistogram:
    """Count 2 million normal numbers, one from the middle of each of as many equal shares.

    Drawn at random, the few dozen beyond 3.9 alone would move the error of 8 bits by some per cent.
    """
    histogram = MomentHistogram()
    count = 2_000_000
    histogram.add(norm.ppf((np.arange(count) + 0.5) / count))
    return histogram


def observer_of_normal(scheme: Scheme) -> MeanSquaredErrorObserver:
    observer = MeanSquaredErrorObserver(scheme)
    observer.observe(np.array([-5.0, 5.0], np.float32))
    observer._histogram = evenly_normal()
    return observer


def normal_error(levels: Array) -> float:
    """The mean squared error of levels on N(0, 1), by its moments between the middles of neighbours."""
    middles = np.concatenate([[-40.0], (levels[1:] + levels[:-1]) / 2, [40.0]])
    mass, density = np.diff(norm.cdf(middles)), norm.pdf(middles)
    first, second = -np.diff(density), mass - np.diff(middles * density)
    return float((second - 2 * levels * first + levels**2 * mass).sum())


def best_step(places: Array) -> tuple[float, float]:
    """The step of levels at multiples of ``places`` with the smallest error on N(0, 1), and the error in dB."""
    best = minimize_scalar(lambda step: normal_error(step * places), bounds=(0.001, 2), method="bounded")
    return best.x, -10 * np.log10(best.fun)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_best_range_on_normal_numbers_is_the_closed_form_s(bits: Any, symmetric: bool) -> None:
    scheme = Scheme(bits, symmetric)
    places = np.arange(scheme.low, scheme.high + 1)
    step, decibels = best_step(places)
    observer = observer_of_normal(scheme)
    scale, zero_point = (float(value) for value in observer.parameters())
    assert scale == pytest.approx(step, rel=0.015)
    assert -10 * np.log10(normal_error(scale * (places - zero_point))) == pytest.approx(decibels, abs=0.03)
    # Without a level at 0 the closed form has its minimum where Max's table says.
    if table := {4: (0.3352, 19.38), 8: (0.0308, 40.57)}.get(bits if not symmetric else 0):
        assert best_step(places + 0.5) == pytest.approx(table, abs=0.005)
        assert decibels == pytest.approx(table[1], abs=0.125)


def quantize_within(x: Array, low: float, high: float, scheme: Scheme) -> Array:
    """Quantize x with the parameters of a range, by the package's own functions."""
    observer = MinMaxObserver(scheme)
    observer.observe(np.array([low, high], np.float32))
    scale, zero_point = observer.parameters()
    return decode(encode(x, scale, zero_point, scheme), scale, zero_point)


def test_one_outlier_of_50_among_100_000_normals() -> None:
    x = normal(100_000)
    x[7] = 50
    rest, whole = {}, {}
    for kind in ALL:
        errors = (quantize_within(x, *seen(kind(AFFINE), x), AFFINE) - x) ** 2
        rest[kind], whole[kind] = np.delete(errors, 7).mean(), errors.mean()
    # The outlier costs the rest all but 5 of 8 bits; to clip it costs one large error, whose square outweighs that.
    assert rest[MinMaxObserver] > 30 * rest[PercentileObserver]
    assert min(whole, key=lambda kind: whole[kind]) is MeanSquaredErrorObserver
    assert whole[PercentileObserver] > whole[MinMaxObserver]


def test_min_max_by_hand() -> None:
    batches = [np.array(each, np.float32) for each in ([-1, 2], [-3, 1], [0.5, 4])]
    assert seen(MinMaxObserver(AFFINE), *batches) == (-3, 4)


def test_ranges_of_channels() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 6
    observer = MinMaxObserver(Scheme(per="channel"))
    observer.observe(x)
    low, high = observer.range()
    np.testing.assert_array_equal(low[0], x.min(axis=0))
    np.testing.assert_array_equal(high[0], x.max(axis=0))
    scale, _ = observer.parameters()
    np.testing.assert_array_equal(scale, quantize(x, Scheme(per="channel")).scale)


@given(percentile=st.sampled_from([50.0, 90.0, 99.0, 99.9, 100.0]), seed=st.integers(0, 20))
@settings(max_examples=20, deadline=None)
def test_percentiles_are_those_of_all_batches_together(percentile: float, seed: int) -> None:
    batches = [normal(700, seed), normal(300, seed + 1) * 4 + 1, -np.abs(normal(50, seed + 2))]
    found = seen(PercentileObserver(AFFINE, percentile), *batches)
    ranks = np.sort(np.concatenate(batches))
    # Between the numbers on both sides of the rank, give or take one of 16,384 bins over ±16.
    width = 2 * 16 / BINS
    for end, share in zip(found, ((100 - percentile) / 200, (100 + percentile) / 200), strict=True):
        place = share * (len(ranks) - 1)
        below, above = max(int(np.floor(place)) - 1, 0), min(int(np.ceil(place)) + 1, len(ranks) - 1)
        assert ranks[below] - width <= end <= ranks[above] + width
    if percentile == 100:
        assert found == (ranks[0], ranks[-1])


@given(scales=st.lists(st.sampled_from([1e-40, 1e-3, 1.0, 7.0, 1e4]), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_a_histogram_that_grew_counts_and_sums_as_one_that_knew(scales: list[float]) -> None:
    batches = [normal(200, index) * np.float32(scale) for index, scale in enumerate(scales)]
    histogram = MomentHistogram()
    for batch in batches:
        histogram.add(batch)
    x = np.concatenate(batches).astype(np.float64)
    assert histogram.count == len(x)
    # One level: its error is the second moment around it, whatever the bins.
    level = 0.3 * np.abs(x).max()
    assert histogram.error(np.array([[level]]))[0] == pytest.approx(np.mean((x - level) ** 2), rel=1e-9)
    # Two levels: to within the bin at the border between them.
    pair = np.array([-level, level])
    exact = np.mean(np.min((x[:, None] - pair) ** 2, axis=1))
    assert histogram.error(pair[None])[0] == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("value", [0.0, 2.5, -1e-40])
def test_a_constant_is_its_own_range(kind: Any, value: float) -> None:
    constant = np.full(40, value, np.float32)
    assert seen(kind(AFFINE), constant, constant) == (constant[0], constant[0])


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("symmetric", [True, False])
def test_ranges_lie_within_what_was_seen_and_serve_real_codes(kind: Any, symmetric: bool) -> None:
    x = np.abs(normal(5000)) + 0.5
    low, high = seen(kind(Scheme(symmetric=symmetric)), x[:2500], x[2500:])
    reach = 1.001 * float(x.max())
    assert -reach <= low <= high <= reach
    if not symmetric:
        made = quantize_within(x, low, high, AFFINE)
        assert np.mean((made - x) ** 2) < 2 * (float(x.max()) / 255) ** 2 / 12 + 1e-4


@pytest.mark.parametrize("kind", ALL)
def test_bad_input_does_not_count(kind: Any) -> None:
    observer = kind(AFFINE)
    with pytest.raises(ValueError, match="batch"):
        observer.range()
    observer.observe(normal(100))
    before = observer.range()
    for x in ([], [1, np.nan], [np.inf], np.arange(3)):
        with pytest.raises(ValueError, match=r"^x must"):
            observer.observe(np.asarray(x, None if len(x) == 3 else np.float32))
    assert (observer.range(), observer.batches) == (before, 1)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: HistogramObserver(Scheme(per="channel")), r"scheme\.per"),
        (lambda: MinMaxObserver(Scheme(per="group")), r"scheme\.per"),
        (lambda: PercentileObserver(percentile=0), "percentile"),
    ],
)
def test_bad_arguments_are_named(make: Callable[[], object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make()
