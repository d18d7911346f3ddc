"""Intervals, percentiles and dependence: in closed form, and how often they hold the truth of drawn samples."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.special import ndtri
from scipy.stats import beta, binom

from benchmarks.verdicts_synthetic import flicker, random_walk
from tinytorch.perf.distributed.collectives.link_fit import fit
from tinytorch.perf.measuring import Measurement, quotient, ratio
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.statistics import (
    CONFIDENCE,
    LOGARITHMS,
    Dependence,
    Drawn,
    Interval,
    Law,
    Mean,
    PairedShares,
    Percentile,
    Share,
    Stated,
    _saddlepoint,
    bonferroni,
    checked,
    dependence,
    draws,
    flicker_time,
    independent,
    interval_of_law,
    median,
    percentile,
    percentile_at_least,
    samples_needed,
)
from tinytorch.perf.profiling.breakdown import predicted_speedup

finite = st.floats(-1e6, 1e6)


@given(st.lists(finite, min_size=1, max_size=60), st.floats(0, 100))
def test_medians_and_percentiles_are_those_of_numpy_to_the_last_bit(samples: list[float], q: float) -> None:
    assert median(np.array(samples)) == np.median(samples)
    assert percentile(samples, q) == np.percentile(samples, q)


def test_what_a_tail_is_at_least_is_known_from_few_samples() -> None:
    assert percentile_at_least(range(1, 101), 99) == 97
    assert percentile_at_least([7.0], 99) == 7.0


def ends(law: Law, confidence: float = 0.95) -> tuple[float, float]:
    found = interval_of_law(law, confidence)
    return found.low, found.high


@given(st.integers(6, 200), st.floats(5, 95))
def test_a_percentile_lies_below_a_sample_with_the_chance_of_fewer_than_its_rank(n: int, q: float) -> None:
    """The number of samples below the true percentile is binomial, whatever they are drawn from."""
    n = max(n, samples_needed(q))
    law = Percentile(tuple(float(one) for one in range(1, n + 1)), q=q)
    ranks = [k for k in range(1, n + 1) if 1e-4 < abs(0.5 - abs(binom.cdf(k - 1, n, q / 100) - 0.5)) < 0.1]
    chances = np.array([binom.cdf(k - 1, n, q / 100) for k in ranks])
    assert law.quantiles(chances) == pytest.approx(np.array(ranks), abs=0.05)


@pytest.mark.parametrize("n", [30, 31, 100])
@pytest.mark.parametrize("time", [1.0, 1.5, 4.0])
def test_the_interval_of_dependent_samples_is_that_of_normal_deviates(n: int, time: float) -> None:
    """The median's standard error is the root of pi / 2 times that of the mean, and of so many times the time."""
    quantiles = ndtri((np.arange(n) + 0.5) / n)  # as a sample of n lies in the mean
    low, high = ends(Percentile(tuple(quantiles.tolist()), time=time))
    assert (high - low) / 2 == pytest.approx(1.96 * math.sqrt(math.pi / 2 * time / n), rel=0.07)


def test_of_two_to_five_samples_the_median_has_students_law() -> None:
    samples = (1.0, 2.0, 4.0)
    error = np.std(np.log(samples), ddof=1) * math.sqrt(1.44 / 3)
    low, high = ends(Percentile(samples, LOGARITHMS))
    assert (low, high) == pytest.approx((2 * math.exp(-4.3027 * error), 2 * math.exp(4.3027 * error)), rel=1e-4)


def test_a_pause_of_the_host_does_not_stretch_an_interval() -> None:
    calm = tuple(np.linspace(0.99, 1.01, 11).tolist())
    _, high = ends(Percentile((*calm, 1000.0), LOGARITHMS, time=4))
    assert high < 1.05


@given(st.floats(0.1, 10), st.floats(1e-3, 1), st.floats(1e-3, 1), st.booleans())
def test_a_stated_law_has_the_interval_that_it_is_made_of(value: float, below: float, above: float, far: bool) -> None:
    low, high = (value * math.exp(-below), value * math.exp(above)) if far else (value - 20, value + above)
    assert ends(Stated(value, low, high)) == pytest.approx((low, high))


def test_draws_of_one_key_are_the_same_and_those_of_another_are_independent_of_them() -> None:
    law = Stated(1.0, 0.9, 1.1)
    one, same, other = (draws(law, key) for key in ("a", "a", "b"))
    assert (one == same).all()
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.06
    assert ends(Drawn(1.0, one)) == pytest.approx((0.9, 1.1), abs=0.005)


@given(st.integers(1, 300), st.floats(0, 1))
def test_a_share_lies_within_the_interval_of_clopper_and_pearson(trials: int, share: float) -> None:
    count = round(share * trials)
    low = beta.ppf(0.025, count, trials - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, trials - count) if count < trials else 1.0
    found = ends(Share(count, trials))
    assert low - 1e-3 <= found[0] <= count / trials <= found[1] <= high + 1e-3
    assert (found[0] > 0) == (count > 0)
    assert (found[1] < 1) == (count < trials)


def test_a_mean_has_students_law() -> None:
    samples = (3.0, 5.0, 4.0, 8.0, 6.5, 2.5)
    assert ends(Mean(samples)) == pytest.approx(
        scipy.stats.t.interval(0.95, 5, np.mean(samples), scipy.stats.sem(samples))
    )


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: percentile([1.0], 101), "q"),
        (lambda: samples_needed(100), "ends excluded"),
        (lambda: interval_of_law(Stated(1.0, 0.5, 2.0), 1.0), "confidence"),
        (lambda: bonferroni(0.95, 0), "together"),
        (lambda: percentile_at_least([1.0, 2.0, 3.0], 10), "percentile"),
        *((lambda of=of: Share(*of), "count") for of in ((0, 0), (-1, 5), (6, 5))),
        *((lambda of=of: PairedShares(*of), "gained") for of in ((2, 2, 3), (-1, 0, 3), (0, 0, 0))),
        *((lambda bad=bad: checked(bad), "samples") for bad in ([], [math.nan], [1.0, math.inf], [[1.0, 2.0]])),
    ],
)
def test_what_is_out_of_its_range_raises(function: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        function()


@pytest.mark.parametrize(("q", "needed"), [(50, 6), (90, 29), (95, 59), (99, 299), (10, 29), (1, 299)])
def test_a_percentile_takes_as_many_samples_as_can_hold_it(q: float, needed: int) -> None:
    assert samples_needed(q) == needed


TRIALS = 400
#: Of so many trials the share that holds errs by 1.1 points; coverage is asked to lie between 93 and 97 %.
ERROR = 2 * math.sqrt(0.95 * 0.05 / TRIALS)
Draw = np.random.Generator


def series(
    draw: Draw, level: float, noise: float, n: int, name: str = "call", drift: float | np.ndarray = 0.0
) -> Measurement:
    samples = level * np.exp(drift + noise * draw.standard_normal(n))
    return Measurement(name, tuple(samples.tolist()), "s", Conditions(sample=Sample.TRIALS, turns="these"))


def of_median(n: int) -> Callable[[Draw], Interval]:
    return lambda draw: series(draw, 2.0, 0.05, n).interval


def in_turns(draw: Draw) -> Interval:
    drift = np.cumsum(0.02 * draw.standard_normal(20))
    return ratio(series(draw, 2.0, 0.03, 20, "a", drift), series(draw, 1.0, 0.03, 20, "b", drift)).interval


def apart(draw: Draw) -> Interval:
    return quotient(series(draw, 2.0, 0.05, 20, "a"), series(draw, 1.0, 0.05, 20, "b"), "a / b").interval


def of_amdahl(draw: Draw) -> Interval:
    return predicted_speedup(series(draw, 0.3, 0.05, 20, "share"), series(draw, 4.0, 0.1, 20, "gain"), "law").interval


def of_share(draw: Draw) -> Interval:
    return interval_of_law(Share(int(draw.binomial(360, 0.98)), 360), CONFIDENCE)


def of_change(draw: Draw) -> Interval:
    gained, lost, _ = draw.multinomial(360, [0.02, 0.035, 0.945])
    return interval_of_law(PairedShares(int(gained), int(lost), 360), CONFIDENCE)


def of_link(draw: Draw) -> Interval:
    sizes = [2**power for power in range(3, 21, 2)]
    return fit({size: series(draw, 1e-6 + 1e-9 * size, 0.1, 20, f"{size} B") for size in sizes}).beta.interval


@pytest.mark.parametrize(
    ("made", "truth"),
    [
        *((of_median(n), 2.0) for n in (6, 10, 20, 100)),
        (in_turns, 2.0),
        (apart, 2.0),
        (of_amdahl, 1 / (0.7 + 0.3 / 4)),
        (of_share, 0.98),
        (of_change, 0.02 - 0.035),
        (of_link, 1e-9),
    ],
)
def test_an_interval_holds_the_truth_as_often_as_it_says(made: Callable[[Draw], Interval], truth: float) -> None:
    draw = np.random.default_rng(1)
    held = sum(truth in made(draw) for _ in range(TRIALS)) / TRIALS
    assert 0.93 - ERROR < held < 0.97 + ERROR


Series = npt.NDArray[np.float64]


def autoregressive(seed: int, memory: float, n: int) -> Series:
    return np.asarray(lfilter([1.0], [1.0, -memory], np.random.default_rng(seed).normal(size=n)))


def share_that_may_wander(rows: Series) -> float:
    return float(np.mean([dependence(row).may_wander for row in rows]))


@pytest.mark.parametrize("memory", [0.0, 0.3, 0.5, 0.7, 0.9])
def test_the_time_of_autoregressive_noise_is_that_of_its_closed_form(memory: float) -> None:
    times = [dependence(autoregressive(seed, memory, 2000)).time for seed in range(9)]
    assert np.median(times) == pytest.approx((1 + memory) / (1 - memory), rel=0.15)


@pytest.mark.parametrize(
    "drawn",
    [
        lambda draw: draw.normal(size=(400, 100)),
        lambda draw: draw.standard_cauchy((400, 100)),
        lambda draw: draw.choice([0.0, 0.0, 0.0, 1.0], (400, 100)),
    ],
    ids=["normal", "cauchy", "levels"],
)
def test_independent_samples_of_any_shape_rule_out_noise_that_wanders(
    drawn: Callable[[np.random.Generator], Series],
) -> None:
    assert share_that_may_wander(drawn(np.random.default_rng(1))) <= 0.01


@pytest.mark.parametrize("n", [15, 30, 100])
def test_noise_that_wanders_is_ruled_out_about_as_often_as_the_test_says(n: int) -> None:
    draw = np.random.default_rng(n)
    assert 1 - share_that_may_wander(flicker(draw, 600, n)) == pytest.approx(0.085, abs=0.04)
    assert share_that_may_wander(random_walk(draw, 300, n)) > 0.95


def test_the_chance_to_wander_is_that_of_drawn_noise() -> None:
    """Of 1/f noise whose waves are drawn, a tenth has a chance below a tenth, and so on."""
    n, wave = 40, np.arange(1, 40)
    powers = np.random.default_rng(3).normal(size=(2000, n - 1)) / np.sqrt(wave)
    moments = np.cos(np.pi * wave[:, None] * (np.arange(n) + 0.5) / n)
    chances = np.array([dependence(row).wander for row in powers @ moments])
    for level in (0.1, 0.3, 0.5, 0.9):
        assert np.mean(chances <= level) == pytest.approx(level, abs=0.04)


@given(st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=60, unique=True), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_neither_unit_nor_sign_nor_level_matters(samples: list[float], scale: float, level: float) -> None:
    series = np.round(samples, 3)
    found = dependence(series)
    for other in (dependence(-series), dependence(series * scale), dependence(series + level)):
        assert other.wander == pytest.approx(found.wander, abs=1e-3)
    assert dependence(series[::-1]).wander == pytest.approx(found.wander, abs=1e-6)
    assert 0 <= found.wander <= 1
    assert 0 < found.effective <= found.n


def test_outliers_neither_make_nor_hide_a_memory() -> None:
    draw = np.random.default_rng(0)
    for series, is_quiet in ((autoregressive(0, 0.8, 200), False), (draw.normal(size=200), True)):
        series[draw.integers(0, 200, 8)] = 1e6
        assert (dependence(series).time < 1.5) == is_quiet
        assert dependence(series).may_wander != is_quiet


def test_equal_samples_are_independent_and_very_few_tell_nothing() -> None:
    assert dependence([1.0] * 30) == independent(30)
    assert not independent(6).may_wander
    assert dependence([1.0, 2.0, 3.0]).may_wander
    assert (Dependence(12, 4.0, 0.01).effective, Dependence(12, 4.0, 0.01).longest_time) == (3, 4.0)
    assert Dependence(30, 1.0, 0.5).longest_time > 30


def test_the_time_of_noise_that_wanders_is_that_of_its_spectrum() -> None:
    """Of waves with the powers 1 / j within the series, and log(16) below it, over the mean power of the waves."""
    power = 1 / np.arange(1, 40)
    assert flicker_time(40) == pytest.approx(np.log(16) / power.mean())


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=60).filter(lambda ws: min(ws) < -1e-3 and max(ws) > 1e-3))
def test_the_saddlepoint_is_the_root_that_scipy_finds(given_weights: list[float]) -> None:
    weights = np.array(given_weights)
    poles = 1 / (2 * weights.min()), 1 / (2 * weights.max())
    low, high = ((1 - 1e-9) * pole for pole in poles)
    root = brentq(lambda t: float((weights / (1 - 2 * t * weights)).sum()), low, high)
    assert _saddlepoint(weights) == pytest.approx(root, abs=1e-9 * (high - low))
