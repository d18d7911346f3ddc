"""Paired comparison against SciPy, enumeration and the closed forms of its sources."""

from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax
from scipy.stats import norm

from tinytorch import models
from tinytorch.perf.measuring.statistics import Interval, PairedShares, interval_of_law
from tinytorch.perf.quantization import (
    Plan,
    paired_accuracy,
    quantize_model,
)
from tinytorch.perf.quantization.accuracy import next_token_divergence


def paired_difference_interval(gained: int, lost: int, examples: int, confidence: float = 0.95) -> Interval:
    return interval_of_law(PairedShares(gained, lost, examples), confidence)


def outcomes(gained: int, lost: int, both: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    counts = [gained, lost, both, neither]
    return np.repeat([False, True, True, False], counts), np.repeat([True, False, True, False], counts)


def test_counts_shares_and_mcnemar_by_hand() -> None:
    found = paired_accuracy(*outcomes(gained=3, lost=9, both=80, neither=8))
    assert (found.examples, found.gained, found.lost) == (100, 3, 9)
    assert [found.baseline, found.candidate] == pytest.approx([0.89, 0.83])
    assert found.difference == pytest.approx(-0.06)
    assert found.difference in found.interval
    # Two-sided exact test: twice the tail of 3 or fewer of 12 fair coins.
    assert found.p_value == pytest.approx(2 * sum(comb(12, k) for k in range(4)) / 2**12)
    same = paired_accuracy(*outcomes(0, 0, 50, 0))
    assert (same.p_value, same.difference) == (1.0, 0.0)


@pytest.mark.parametrize("n", [10, 360, 2000])
def test_the_interval_without_a_difference_has_its_closed_form(n: int) -> None:
    """With nothing gained or lost the score interval is ±z² / (n + z²)."""
    interval = paired_difference_interval(0, 0, n)
    half = norm.ppf(0.975) ** 2 / (n + norm.ppf(0.975) ** 2)
    assert (interval.low, interval.high) == pytest.approx((-half, half), rel=1e-4)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 200), st.sampled_from([0.8, 0.95, 0.99]))
@settings(max_examples=80, deadline=None)
def test_intervals_hold_the_estimate_mirror_and_grow(gained: int, lost: int, more: int, confidence: float) -> None:
    n = gained + lost + more
    interval = paired_difference_interval(gained, lost, n, confidence)
    assert -1 <= interval.low < (gained - lost) / n + 1e-12
    assert interval.high > (gained - lost) / n - 1e-12
    mirrored = paired_difference_interval(lost, gained, n, confidence)
    assert [-mirrored.high, -mirrored.low] == pytest.approx([interval.low, interval.high], abs=1e-9)
    wider = paired_difference_interval(gained, lost, n, 1 - (1 - confidence) / 2)
    assert wider.low < interval.low
    assert wider.high > interval.high


def test_divergence_is_scipy_s() -> None:
    p, q = np.random.default_rng(0).normal(size=(2, 3, 5, 7)).astype(np.float32) * 4
    expected = rel_entr(softmax(p.astype(float), -1), softmax(q.astype(float), -1)).sum(-1)
    np.testing.assert_allclose(next_token_divergence(p, q), expected, rtol=1e-10)
    np.testing.assert_allclose(next_token_divergence(p, p + 100), 0, atol=1e-6)
    assert next_token_divergence(np.array([[1000.0, 0.0]]), np.array([[0.0, 1000.0]])) == pytest.approx([1000])
    with pytest.raises(ValueError, match="shape"):
        next_token_divergence(p, q[0])


def test_bad_arguments_are_named() -> None:
    right = np.ones(3, bool)
    cases: list[tuple[str, Any, Any]] = [
        ("baseline", paired_accuracy, (right.astype(float), right)),
        ("candidate", paired_accuracy, (right, right[:0])),
        ("candidate", paired_accuracy, (right, np.ones(4, bool))),
    ]
    for name, function, arguments in cases:
        with pytest.raises(ValueError, match=name):
            function(*arguments)


@pytest.mark.parametrize(
    ("name", "plan"),
    [("mlp", Plan("weight-only")), ("mlp", Plan()), ("mlp", Plan("static", symmetric=False)), ("cnn", Plan())],
)
def test_eight_bits_cost_the_zoo_at_most_half_a_point(name: str, plan: Plan) -> None:
    model, data = models.trained(name), models.entry(name).data()
    made = quantize_model(model, data.train_inputs[:256] if plan.mode == "static" else None, plan)
    found = paired_accuracy(*(models.right_answers(models.held_out_logits(each, name), name) for each in (model, made)))
    assert found.baseline == models.accuracy(model, name)
    assert found.examples == len(data.test_targets)
    assert found.difference >= -0.005
    assert found.difference in found.interval
