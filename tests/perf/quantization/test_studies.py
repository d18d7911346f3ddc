"""The studies of the chapter: their numbers against ones that are computed otherwise."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import rel_entr, softmax

from tests.perf.made_ceilings import made_ceilings
from tests.perf.quantization.small_zoo import make
from tinytorch import datasets, models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.quantization import (
    MeanSquaredErrorObserver,
    MinMaxObserver,
    PercentileObserver,
    Plan,
    QuantizedLinear,
    Scheme,
    paired_accuracy,
    quantize_model,
    stored_bytes,
)
from tinytorch.perf.quantization import retrained as training_study
from tinytorch.perf.quantization.outlier_study import by_observer, normals_with_outlier
from tinytorch.perf.quantization.product_study import (
    layer_parts,
    layer_speedup,
    numpy_products,
    one_row,
    streaming_speedup,
)
from tinytorch.perf.quantization.three_sides import FLOAT, accuracy_change, error_ratios, three_sides
from tinytorch.perf.roofline.bounds import bandwidth_at

TWO_BITS = Plan("weight-only", Scheme(2, per="channel"), ranges="mse")


@pytest.fixture
def few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short GPT task, so that the small GPT can be scored."""
    inputs, targets = datasets.sorting_examples(40, seed=1, length=6)
    split = datasets.Split(inputs[:20], targets[:20], inputs[20:], targets[20:])
    entry = SimpleNamespace(data=lambda: split, example_input=lambda batch: split.test_inputs[:batch])
    monkeypatch.setitem(models.ZOO, "gpt", entry)


@pytest.mark.usefixtures("few_examples")
def test_three_sides_are_those_of_the_models_themselves() -> None:
    model = make("gpt")
    versions: dict[str, Module] = {"8": quantize_model(model), "2": quantize_model(model, plan=TWO_BITS)}
    found = three_sides("gpt", model, versions, batch=4, repeats=6)
    assert [*found] == [FLOAT, "8", "2"]
    assert found[FLOAT].stored > found["8"].stored > found["2"].stored == stored_bytes(versions["2"])
    assert (found[FLOAT].output_error, found[FLOAT].speedup.median) == (0, 1)
    assert 0 < found["8"].output_error < found["2"].output_error
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
        with pytest.raises(ValueError, match="versions must name"):
            three_sides("mlp", make("mlp"), versions)


def test_a_change_of_accuracy_keeps_its_examples() -> None:
    right = np.array([True] * 8 + [False] * 2)
    after = np.array([False] * 3 + [True] * 6 + [False])
    change = accuracy_change(paired_accuracy(right, after), "change")
    assert change.n == 10
    assert change.median == pytest.approx(np.mean(change.samples)) == pytest.approx(after.mean() - right.mean())
    assert change.interval.low < change.median < change.interval.high


def test_error_ratios_are_of_each_example() -> None:
    model = make("mlp")
    worse, better = quantize_model(model, plan=TWO_BITS), quantize_model(model)
    found = error_ratios(model, worse, better, "mlp")
    x = models.as_input(models.entry("mlp").data().test_inputs)
    with no_grad():
        wanted, off, near = (each(x).data.astype(np.float64) for each in (model, worse, better))
    by_hand = np.linalg.norm(off - wanted, axis=1) / np.linalg.norm(near - wanted, axis=1)
    assert found.samples == pytest.approx(by_hand.tolist())
    assert found.interval.low > 1
    with pytest.raises(ValueError, match="better must differ"):
        error_ratios(model, worse, model, "mlp")


def test_an_outlier_costs_the_rest_what_its_step_says() -> None:
    """Rounding within a step is uniform noise of step² / 12, if nothing is clipped."""
    numbers = normals_with_outlier(20_000, 50)
    assert (numbers == 50).sum() == 1
    found = by_observer(numbers, {"all": MinMaxObserver, "most": PercentileObserver, "mse": MeanSquaredErrorObserver})
    rest = numbers[numbers != 50].astype(np.float64)
    expected = 10 * np.log10((rest**2).mean() / (found["all"].step ** 2 / 12))
    assert found["all"].rest_db == pytest.approx(expected, abs=0.2)
    assert found["all"].became == pytest.approx(50, abs=found["all"].step)
    assert found["most"].rest_db > found["all"].rest_db + 10
    assert found["most"].became < 10 < found["mse"].became
    everything = by_observer(numbers, {"all": MinMaxObserver}, counted=np.ones(20_000, bool))["all"]
    assert everything.rest_db > found["all"].rest_db, "the outlier is most of the signal"
    with pytest.raises(ValueError, match="at least 2"):
        normals_with_outlier(1, 50)


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
    with pytest.raises(ValueError, match="at least 1"):
        training_study.train_rounded("mlp", make("mlp"), TWO_BITS, epochs=1, learning_rate=1e-3, examples=0)


def test_products_are_timed_in_turns() -> None:
    found = numpy_products(16, repeats=6)
    assert {*found} == {"float32", "int8", "int32"}
    for kind, measured in found.items():
        assert {*measured.how["interleaved_with"]} == {*found} - {kind}
    assert layer_speedup(4, 32, 32, repeats=6).n == 6


def test_parts_of_a_layer_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int, int]] = []
    forward = QuantizedLinear.forward

    def watched(self: QuantizedLinear, x: Tensor) -> Tensor:
        seen.append((len(x.data), self.in_features, self.out_features))
        return forward(self, x)

    monkeypatch.setattr(QuantizedLinear, "forward", watched)
    parts = layer_parts(8, 64, 48, repeats=6)
    assert {*seen} == {(8, 64, 48), (8, 64, 16), (8, 16, 48)}
    sums = np.sum([part.samples for part in parts.values()], axis=0)
    assert sums == pytest.approx(np.ones(6))


def test_one_row_and_what_the_ladder_predicts() -> None:
    found = one_row([16, 32], {"8 bits": Plan("weight-only")}, repeats=6)
    assert {name: len(each) for name, each in found.items()} == {"float32": 2, "8 bits": 2}
    machine = made_ceilings()
    wide, narrow = 4 * 512**2, 512**2 // 2
    expected = wide / narrow * bandwidth_at(narrow, machine).median / bandwidth_at(wide, machine).median
    assert streaming_speedup(512, 4, machine) == pytest.approx(expected)
