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
from tinytorch.perf.quantization import (
    Plan,
    Scheme,
    paired_accuracy,
    quantize_model,
    stored_bytes,
)
from tinytorch.perf.quantization.tradeoff import FLOAT, accuracy_change, tradeoffs

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
