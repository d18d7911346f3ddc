"""How many samples a dependent series is worth, against closed forms and rank tests of others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.stats import mannwhitneyu, norm, spearmanr, t

from tinytorch.perf.measuring.statistics import Dependence, dependence, independent


def autoregressive(seed: int, memory: float, n: int) -> np.ndarray:
    return lfilter([1.0], [1.0, -memory], np.random.default_rng(seed).normal(size=n))


@pytest.mark.parametrize("memory", [0.0, 0.3, 0.6, 0.9])
def test_the_effective_number_of_autoregressive_noise(memory: float) -> None:
    n = 4000
    effective = np.median([dependence(autoregressive(seed, memory, n)).effective for seed in range(9)])
    assert effective == pytest.approx(n * (1 - memory) / (1 + memory), rel=0.15)


@given(st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=60, unique=True))
def test_only_ranks_count_and_the_sign_does_not(samples: list[float]) -> None:
    found, negated = dependence(samples), dependence([-sample for sample in samples])
    cubed = dependence(np.argsort(np.argsort(samples)) ** 3)
    for other in (negated, cubed):
        assert other.effective == pytest.approx(found.effective)
        assert other.neighbours == pytest.approx(found.neighbours, abs=1e-9)
        assert other.change == pytest.approx(found.change)
    assert 0 < found.effective <= found.n


def test_neighbours_are_correlated_as_spearman_says() -> None:
    series = autoregressive(1, 0.7, 2000)
    assert dependence(series).neighbours == pytest.approx(spearmanr(series[:-1], series[1:]).statistic, abs=0.01)


def test_the_change_of_independent_samples_is_rarely_believed() -> None:
    draw = np.random.default_rng(0)
    believed = sum(dependence(row).change < 0.005 for row in draw.normal(size=(2000, 50)))
    assert believed <= 0.005 * 2000


def test_a_step_in_the_middle_is_as_unlikely_as_another_rank_test_finds() -> None:
    series = np.random.default_rng(2).normal(size=40)
    series[20:] += 3
    found = dependence(series)
    assert found.change < 1e-4
    assert mannwhitneyu(series[:20], series[20:]).pvalue < 1e-4
    assert found.objection == "the ratio stepped or drifted while it was measured"


def test_objections_are_made_of_proven_dependence_only() -> None:
    assert independent(6).objection is None
    assert Dependence(40, 15.0, 0.1, 1.0).objection is None
    assert Dependence(40, 15.0, 0.6, 1.0).objection == "neighbouring pairs are alike, so that 40 pairs are worth 15"
    assert Dependence(400, 25.0, 0.9, 1.0).objection is None
    assert Dependence(12, 5.9, 0.0, 1.0).objection is not None


def test_the_widening_is_students_for_so_few() -> None:
    assert independent(10).widening(0.95) == pytest.approx(t.ppf(0.975, 9) / norm.ppf(0.975))
    assert Dependence(40, 10.0, 0.0, 1.0).widening(0.95) == pytest.approx(2 * independent(10).widening(0.95))
    assert independent(10**6).widening(0.99) == pytest.approx(1, abs=1e-4)


def test_equal_samples_are_not_dependent() -> None:
    assert dependence([1.0] * 30) == independent(30)
