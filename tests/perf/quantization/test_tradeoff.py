"""Accuracy and cost of versions: paired intervals, and what training with the rounding brings back."""

from dataclasses import replace
from math import comb
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax
from scipy.stats import norm

from tests.perf.quantization.small_zoo import make
from tinytorch import datasets, models
from tinytorch.chapters.quantization import retrained as training_study
from tinytorch.perf.measuring.statistics import Interval, PairedShares, interval_of_law
from tinytorch.perf.quantization import Plan, Scheme, paired_accuracy, quantize_model, stored_bytes
from tinytorch.perf.quantization.tradeoff import FLOAT, accuracy_change, next_token_divergence, tradeoffs

TWO_BITS = Plan("weight-only", Scheme(2, per="channel"), ranges="mse")


def test_a_tradeoff_is_that_of_the_models_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a short GPT task, so that the small GPT can be scored."""
    inputs, targets = datasets.sorting_examples(40, seed=1, length=6)
    split = datasets.Split(inputs[:20], targets[:20], inputs[20:], targets[20:])
    entry = SimpleNamespace(data=lambda: split, example_input=lambda batch: split.test_inputs[:batch])
    monkeypatch.setitem(models.ZOO, "gpt", entry)
    model = make("gpt")
    eight, two = quantize_model(model), quantize_model(model, plan=TWO_BITS)
    logits = [models.held_out_logits(each, "gpt").astype(np.float64) for each in (model, eight, two)]
    found = tradeoffs("gpt", model, {"8": eight, "2": two}, batch=4, repeats=6)
    assert [*found] == [FLOAT, "8", "2"]
    assert [found[label].stored.value for label in found] == [stored_bytes(each) for each in (model, eight, two)]
    assert (found[FLOAT].output_error.value, found[FLOAT].speedup.median) == (0.0, 1.0)
    assert 0 < found["8"].output_error.value < found["2"].output_error.value
    pairs = zip(found[FLOAT].seconds.samples, found["2"].seconds.samples, strict=True)
    assert found["2"].speedup.samples == pytest.approx([before / after for before, after in pairs])
    p, q = softmax(logits[0], axis=-1), softmax(logits[2], axis=-1)
    divergence = found["2"].divergence
    assert divergence is not None
    expected = rel_entr(p, q).sum(axis=-1)[split.test_targets != datasets.IGNORED].mean()
    assert divergence.median == pytest.approx(expected, rel=1e-6)
    assert divergence.median in divergence.interval
    own = tradeoffs("gpt", model, {"8": eight, "2": two}, {"2": "8"}, batch=4, repeats=6)
    off = np.linalg.norm(logits[2] - logits[1]) / np.linalg.norm(logits[1])
    assert own["2"].output_error.value == pytest.approx(off, rel=1e-5), "of its own baseline"
    assert own["2"].accuracy.baseline == own["8"].accuracy.candidate == models.accuracy(eight, "gpt")
    wrong: list[Any] = [({"2": two}, {"2": "4"}, "baselines"), ({"2": two}, {"4": "2"}, "baselines")]
    for versions, baselines, named in [*wrong, ({}, None, "versions"), ({FLOAT: model}, None, "versions")]:
        with pytest.raises(ValueError, match=named):
            tradeoffs("gpt", model, versions, baselines)


def test_a_change_of_accuracy_keeps_its_examples() -> None:
    right = np.array([True] * 8 + [False] * 2)
    after = np.array([False] * 3 + [True] * 6 + [False])
    change = accuracy_change(paired_accuracy(right, after), "change")
    assert change.n == 10
    assert change.median == pytest.approx(np.mean(change.samples)) == pytest.approx(after.mean() - right.mean())
    assert change.interval.low < change.median < change.interval.high


def test_training_with_rounding_brings_back_what_two_bits_lost_and_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = datasets.digits()
    short = replace(models.entry("mlp"), train_data=lambda: (data.train_inputs, data.train_targets), epochs=3)
    monkeypatch.setitem(models.ZOO, "mlp", short)
    model = models.train("mlp")
    monkeypatch.setattr(models, "trained", lambda name: model)
    how: dict[str, Any] = {"epochs": 2, "learning_rate": 2e-3, "folder": tmp_path}
    learned = training_study.retrained("mlp", TWO_BITS, examples=1000, **how)
    before, after = (models.accuracy(each, "mlp") for each in (quantize_model(model, plan=TWO_BITS), learned))
    assert after > before + 0.02
    assert stored_bytes(learned) == stored_bytes(quantize_model(model, plan=TWO_BITS))
    train_rounded = training_study.train_rounded
    monkeypatch.setattr(training_study, "train_rounded", None)
    kept = training_study.retrained("mlp", TWO_BITS, examples=1000, **how)
    np.testing.assert_array_equal(models.held_out_logits(kept, "mlp"), models.held_out_logits(learned, "mlp"))
    with pytest.raises(TypeError):  # other arguments are another model, which would have to be trained
        training_study.retrained("mlp", TWO_BITS, examples=999, **how)
    with pytest.raises(ValueError, match="least"):
        train_rounded("mlp", model, TWO_BITS, epochs=1, learning_rate=1e-3, examples=0)


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
