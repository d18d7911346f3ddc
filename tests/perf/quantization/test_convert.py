"""Whole models: what is replaced and what is left alone, sensitivity, sizes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.perf.quantization.small_zoo import NAMES, batch, make
from tests.perf.small_models import drawn
from tinytorch import models
from tinytorch.core.activations import ReLU
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Embedding, Flatten, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.benchmarking import measure_performance
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import (
    PercentileObserver,
    Plan,
    QuantizedConv2d,
    QuantizedEmbedding,
    QuantizedLinear,
    Scheme,
    analyze_model_sizes,
    layers_to_keep,
    prepare_training,
    quantize_model,
    sensitivity_scan,
    stored_bytes,
)
from tinytorch.perf.quantization.convert import Sensitivity, decibels, relative_error

PLANS = [Plan(), Plan("weight-only"), Plan("static", symmetric=False), Plan("weight-only", Scheme(4, False, "group"))]


def layer_kinds(model: Module) -> dict[str, str]:
    kinds = ("Linear", "Conv2d", "Embedding", "QuantizedLinear", "QuantizedConv2d", "QuantizedEmbedding")
    return {name: type(each).__name__ for name, each in model.named_modules() if type(each).__name__ in kinds}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_every_layer_of_the_zoo_is_quantized_and_the_original_left_alone(name: str, plan: Plan) -> None:
    model, x = make(name).train(), batch(name)
    kept, kinds = model.state_dict(), layer_kinds(model)
    quantized = quantize_model(model, x, plan)
    assert layer_kinds(quantized) == {path: f"Quantized{kind}" for path, kind in kinds.items()}
    assert layer_kinds(model) == kinds
    assert all(module.training for each in (model, quantized) for _, module in each.named_modules())
    for key, values in model.state_dict().items():
        np.testing.assert_array_equal(values, kept[key])
    for each in (model, quantized):
        each.eval()
    assert not any(module.training for _, module in quantize_model(model, x, plan).named_modules())
    with no_grad():
        expected, got = model(x).data, quantized(x).data
    assert 0 < relative_error(expected, got) < (0.03 if plan.weights.bits == 8 else 0.3)
    with Profiler() as profiler:
        quantized(x)
    shape = (5, *(x.data if isinstance(x, Tensor) else x).shape[1:])
    assert sum(event.flops or 0 for event in profiler.run.events) == 5 * Profiler().count_flops(model, shape)
    assert Profiler().count_flops(quantized, shape) == Profiler().count_flops(model, shape)


@pytest.mark.parametrize("name", list(models.ZOO))
def test_a_quantized_zoo_stores_at_most_27_per_cent_in_8_bits(name: str) -> None:
    """Scales of channels and what stays float32 included, as bytes of the arrays that are saved."""
    model = models.entry(name).make(0)
    quantized = quantize_model(model)
    found = analyze_model_sizes(model, quantized)
    arrays = [sum(array.nbytes for array in each.state_dict().values()) for each in (model, quantized)]
    assert arrays == [stored_bytes(model), stored_bytes(quantized)]
    assert arrays[1] <= 0.27 * arrays[0]
    assert found["compression_ratio"] == pytest.approx(arrays[0] / arrays[1])
    assert found["original_mb"] - found["quantized_mb"] == pytest.approx(found["memory_saved_mb"])
    assert found["memory_saved_percent"] == pytest.approx(100 - 100 / found["compression_ratio"])
    with pytest.raises(ValueError, match="state"):
        analyze_model_sizes(model, ReLU())


@pytest.mark.parametrize("batch", [2, 64])
@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("name", list(models.ZOO))
def test_the_peak_of_a_forward_is_below_the_float_model_s(name: str, plan: Plan, batch: int) -> None:
    model, x = models.entry(name).make(0).eval(), models.example(name, batch)
    peaks = []
    for each in (model, quantize_model(model, x, plan)):
        with no_grad():
            each(x)  # so that no kernel is compiled while memory is watched
            with Profiler(memory=True) as profiler:
                each(x)
        peaks.append(profiler.memory.peak)
    assert peaks[1] < peaks[0]


class Shared(Module):
    """One layer under two names, in a list, a tuple and a dict, beside a subclass that computes something else."""

    def __init__(self) -> None:
        self.first = Linear(4, 4, seed=0)
        self.listed = [self.first, ReLU()]
        self.several = (Linear(4, 4, seed=1),)
        self.named = {"head": Linear(4, 2, seed=2)}
        self.other = Doubled(2, 2, seed=3)

    def forward(self, x: Any) -> Any:
        for layer in (*self.listed, *self.several, self.named["head"], self.other):
            x = layer(x)
        return x


class Doubled(Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


def test_any_module_tree_and_shared_layers() -> None:
    model = Shared()
    quantized: Any = quantize_model(model)
    assert quantized.first is quantized.listed[0]
    for layer in (quantized.first, quantized.several[0], quantized.named["head"]):
        assert isinstance(layer, QuantizedLinear)
    assert type(quantized.other) is Doubled, "a subclass may compute something else"
    x = Tensor(drawn(5, 4))
    assert relative_error(model(x).data, quantized(x).data) < 0.03
    assert isinstance(quantize_model(Linear(3, 2, seed=0), [drawn(4, 3), drawn(2, 3)]), QuantizedLinear)
    assert isinstance(quantize_model(Embedding(3, 2, seed=0)), QuantizedEmbedding)
    groups = Conv2d(8, 8, 3, groups=8, seed=1)
    parts = quantize_model(Sequential(Conv2d(4, 8, 1, seed=0), groups)).named_children()
    assert [type(layer) for _, layer in parts] == [QuantizedConv2d, Conv2d], "convolutions in groups stay float"
    with pytest.raises(ValueError, match="without groups"):
        quantize_model(Sequential(groups))


def test_static_ranges_are_those_of_the_inputs_of_each_layer() -> None:
    model = Sequential(Linear(6, 5, seed=0), ReLU(), Linear(5, 3, seed=1))
    batches = [drawn(20, 6), 3 * drawn(10, 6, seed=1)]
    quantized: Any = quantize_model(model, batches, Plan("static", symmetric=False))
    together = np.concatenate(batches)
    hidden = model[1](model[0](Tensor(together))).data
    for layer, x in ((quantized[0], together), (quantized[2], hidden)):
        low, high = min(x.min(), 0), max(x.max(), 0)
        np.testing.assert_allclose(layer.activation_scale.data, (high - low) / 255, rtol=1e-6)
    own = {"2": Plan("weight-only", Scheme(4, False, "group"))}
    clipped: Any = quantize_model(
        model, batches, Plan("static"), plans=own, observer=lambda scheme: PercentileObserver(scheme, percentile=90)
    )
    assert clipped[0].activation_scale.data < np.abs(together).max() / 127 * 0.9
    assert (clipped[2].plan, clipped[2].scheme.bits) == (own["2"], 4)


def test_bad_arguments_are_named() -> None:
    model, x = make("mlp"), batch("mlp")
    for arguments, says in [
        ({"keep": ["nope"]}, "keep must name"),
        ({"plans": {"0": Plan()}}, "plans must name"),
        ({"plan": Plan("static")}, "calibration_data must be given"),
        ({"calibration_data": []}, "calibration_data must reach"),
        ({"calibration_data": Tensor(x.data * np.nan)}, "finite"),
    ]:
        with pytest.raises(ValueError, match=says):
            quantize_model(model, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="least"):
        quantize_model(Linear(3, 2, seed=0), np.zeros((0, 3), np.float32))
    for data in ("digits", {"x": X}, 3):
        with pytest.raises(TypeError, match="calibration_data"):
            quantize_model(model, data)
    with pytest.raises(ValueError, match="model"):
        quantize_model(Sequential(Flatten(), ReLU()))
    model[1].weight.data[0, 0] = np.inf  # type: ignore[index]
    with pytest.raises(ValueError, match="finite"):
        quantize_model(model)


def test_the_scan_finds_the_layer_that_suffers() -> None:
    model: Any = Sequential(Linear(20, 20, seed=0), ReLU(), Linear(20, 20, seed=1), ReLU(), Linear(20, 4, seed=2))
    # A hidden unit that is always 0, and weights on it that take the range of all others.
    model[0].weight.data[:, 0] = model[0].bias.data[0] = 0
    model[2].weight.data[0] = 3
    x, plan = Tensor(drawn(50, 20)), Plan("weight-only", Scheme(4, per="channel"))
    rows = sensitivity_scan(model, x, plan)
    assert rows[0].name == "2"
    assert rows[0].error > 2 * rows[1].error
    assert sensitivity_scan(model, x, Plan("static"))[0].name == "2"
    kept, every = (quantize_model(model, plan=plan, keep=keep)(x).data for keep in (["2"], []))
    assert relative_error(model(x).data, kept) < 0.5 * relative_error(model(x).data, every)


def test_layers_are_kept_by_error_for_each_byte_within_the_budget() -> None:
    sizes = {"large": (0.5, 1000), "small": (0.1, 10), "exact": (0.0, 5), "middle": (0.2, 100)}
    rows = [Sensitivity(name, "Linear", error, saved) for name, (error, saved) in sizes.items()]
    assert layers_to_keep(rows, 0) == []
    assert layers_to_keep(rows, 120) == layers_to_keep(rows, 1010) == ["small", "middle"]
    assert layers_to_keep(rows, 5000) == ["small", "middle", "large"]
    with pytest.raises(ValueError, match="extra_bytes"):
        layers_to_keep(rows, -1)


def test_errors_by_hand() -> None:
    a, b = np.array([3.0, 4.0]), np.array([3.0, 4.5])
    assert relative_error(a, b) == pytest.approx(0.1)
    assert decibels(a, b) == pytest.approx(20)
    assert (relative_error(a, a), decibels(a, a)) == (0, float("inf"))
    assert np.isnan(relative_error(np.zeros(2), a))


X = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
Y = np.arange(8) % 4
FORMS: dict[str, Callable[[], Any]] = {
    "array": lambda: X,
    "Tensor": lambda: Tensor(X),
    "list of batches": lambda: [Tensor(X[:4]), X[4:]],
    "loader of inputs": lambda: DataLoader(X, batch_size=4),
    "loader with targets": lambda: DataLoader(X, Y, batch_size=4),
    "list of pairs": lambda: [(X[:4], Y[:4]), (Tensor(X[4:]), Tensor(Y[4:]))],
    "generator of batches": lambda: (Tensor(X[i : i + 4]) for i in (0, 4)),
    "generator of pairs": lambda: ((X[i : i + 4], Y[i : i + 4]) for i in (0, 4)),
}


def small() -> Sequential:
    return Sequential(Linear(8, 8, seed=0), Linear(8, 4, seed=1))


@pytest.mark.parametrize("form", FORMS.values(), ids=[*FORMS])
def test_every_form_is_taken(form: Callable[[], Any]) -> None:
    expected = quantize_model(small(), Tensor(X))(Tensor(X)).data
    np.testing.assert_array_equal(quantize_model(small(), form())(Tensor(X)).data, expected)
    layers = (QuantizedLinear(small()[0]).calibrate(data)(Tensor(X)).data for data in (form(), [X]))
    np.testing.assert_array_equal(*layers)
    scans = [sensitivity_scan(small(), Tensor(X), Plan("static"), calibration_data=data) for data in (form(), X)]
    assert scans[0] == scans[1]
    assert measure_performance(small(), form(), batches=(1,), repeats=6, at_most_seconds=0.1).times


@pytest.mark.parametrize(
    "make", [quantize_model, lambda m: prepare_training(m, Plan("weight-only"))], ids=["quantized", "rounded"]
)
def test_tokens_are_spelt_alike_after_quantization(make: Callable[[Any], Any]) -> None:
    made = make(Sequential(Embedding(10, 8, seed=0), Linear(8, 4, seed=0)))
    for tokens in (Tensor([[0, 1]]), [[0, 1]]):
        np.testing.assert_array_equal(made(tokens).data, made(np.array([[0, 1]])).data)
    with pytest.raises(TypeError, match="tokens"):
        made(Tensor([[0.5]]))
