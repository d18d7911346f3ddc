"""How dependent a series is: closed forms of its time, the test against noise that wanders, what must not matter."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.signal import lfilter

from benchmarks.verdicts_synthetic import flicker, random_walk
from tinytorch.perf.measuring.statistics import Dependence, _saddlepoint, dependence, flicker_time, independent

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
