"""What a version takes and costs, and what training with the rounding brings back, computed otherwise."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import rel_entr, softmax

from tests.perf.quantization.small_zoo import make
from tinytorch import datasets, models
from tinytorch.chapters.quantization import retrained as training_study
from tinytorch.core.module import Module
from tinytorch.perf.quantization import (
    Plan,
    Scheme,
    paired_accuracy,
    quantize_model,
    stored_bytes,
)
from tinytorch.perf.quantization.tradeoff import FLOAT, accuracy_change, tradeoffs

TWO_BITS = Plan("weight-only", Scheme(2, per="channel"), ranges="mse")


@pytest.fixture
def few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short GPT task, so that the small GPT can be scored."""
    inputs, targets = datasets.sorting_examples(40, seed=1, length=6)
    split = datasets.Split(inputs[:20], targets[:20], inputs[20:], targets[20:])
    entry = SimpleNamespace(data=lambda: split, example_input=lambda batch: split.test_inputs[:batch])
    monkeypatch.setitem(models.ZOO, "gpt", entry)


@pytest.mark.usefixtures("few_examples")
def test_a_tradeoff_is_that_of_the_models_themselves() -> None:
    model = make("gpt")
    versions: dict[str, Module] = {"8": quantize_model(model), "2": quantize_model(model, plan=TWO_BITS)}
    found = tradeoffs("gpt", model, versions, batch=4, repeats=6)
    assert [*found] == [FLOAT, "8", "2"]
    stored = [found[label].stored.value for label in (FLOAT, "8", "2")]
    assert stored == sorted(stored, reverse=True)
    assert stored[-1] == stored_bytes(versions["2"])
    assert (found[FLOAT].output_error.value, found[FLOAT].speedup.median) == (0.0, 1.0)
    assert 0 < found["8"].output_error.value < found["2"].output_error.value
    assert found["2"].speedup.n == found["2"].seconds.n == found[FLOAT].seconds.n
    pairs = zip(found[FLOAT].seconds.samples, found["2"].seconds.samples, strict=True)
    assert found["2"].speedup.samples == pytest.approx([before / after for before, after in pairs])
    p, q = (softmax(models.held_out_logits(each, "gpt").astype(np.float64), axis=-1) for each in (model, versions["2"]))
    counted = models.entry("gpt").data().test_targets != datasets.IGNORED
    divergence = found["2"].divergence
    assert divergence is not None
    assert divergence.median == pytest.approx(rel_entr(p, q).sum(axis=-1)[counted].mean(), rel=1e-6)
    assert divergence.median in divergence.interval


def test_versions_must_be_named() -> None:
    for versions in ({}, {FLOAT: make("mlp")}):
        with pytest.raises(ValueError, match="versions"):
            tradeoffs("mlp", make("mlp"), versions)


def test_a_change_of_accuracy_keeps_its_examples() -> None:
    right = np.array([True] * 8 + [False] * 2)
    after = np.array([False] * 3 + [True] * 6 + [False])
    change = accuracy_change(paired_accuracy(right, after), "change")
    assert change.n == 10
    assert change.median == pytest.approx(np.mean(change.samples)) == pytest.approx(after.mean() - right.mean())
    assert change.interval.low < change.median < change.interval.high


@pytest.mark.usefixtures("few_examples")
def test_a_version_may_have_a_baseline_of_its_own() -> None:
    model = make("gpt")
    eight, two = quantize_model(model), quantize_model(model, plan=TWO_BITS)
    found = tradeoffs("gpt", model, {"8": eight, "2": two}, {"2": "8"}, batch=4, repeats=6)
    logits = {key: models.held_out_logits(each, "gpt").astype(np.float64) for key, each in (("8", eight), ("2", two))}
    off = np.linalg.norm(logits["2"] - logits["8"]) / np.linalg.norm(logits["8"])
    assert found["2"].output_error.value == pytest.approx(off, rel=1e-5)
    assert found["2"].accuracy.baseline == found["8"].accuracy.candidate == models.accuracy(eight, "gpt")
    for baselines in ({"2": "4"}, {"4": "2"}):
        with pytest.raises(ValueError, match="baselines"):
            tradeoffs("gpt", model, {"2": two}, baselines)


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
    monkeypatch.setattr(training_study, "train_rounded", None)
    kept = training_study.retrained("mlp", TWO_BITS, examples=1000, **how)
    np.testing.assert_array_equal(models.held_out_logits(kept, "mlp"), models.held_out_logits(learned, "mlp"))
    with pytest.raises(TypeError):  # other arguments are another model, which would have to be trained
        training_study.retrained("mlp", TWO_BITS, examples=999, **how)


def test_training_needs_examples() -> None:
    with pytest.raises(ValueError, match="least"):
        training_study.train_rounded("mlp", make("mlp"), TWO_BITS, epochs=1, learning_rate=1e-3, examples=0)
