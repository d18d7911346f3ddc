"""Whole models: what is replaced and what is left alone, reports, sensitivity, sizes."""

from typing import Any

import numpy as np
import pytest

from tests.perf.drawn import drawn
from tests.perf.quantization.small_zoo import NAMES, batch, make
from tinytorch import models
from tinytorch.core.activations import ReLU
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Embedding, Flatten, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.optimizers import SGD
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import (
    PercentileObserver,
    Plan,
    QuantizedConv2d,
    QuantizedEmbedding,
    QuantizedLinear,
    Scheme,
    analyze_model_sizes,
    layer_report,
    layers_to_keep,
    quantize_model,
    sensitivity_scan,
    stored_bytes,
)
from tinytorch.perf.quantization.convert import Sensitivity, decibels, relative_error

PLANS = [Plan(), Plan("weight-only"), Plan("static", symmetric=False), Plan("weight-only", Scheme(4, False, "group"))]


def zoo(name: str) -> tuple[Module, Any]:
    return make(name), batch(name)


def layer_kinds(model: Module) -> dict[str, str]:
    kinds = ("Linear", "Conv2d", "Embedding", "QuantizedLinear", "QuantizedConv2d", "QuantizedEmbedding")
    return {name: type(each).__name__ for name, each in model.named_modules() if type(each).__name__ in kinds}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_every_layer_of_the_zoo_is_quantized_and_the_original_left_alone(name: str, plan: Plan) -> None:
    model, x = zoo(name)
    kept, kinds = model.state_dict(), layer_kinds(model)
    quantized = quantize_model(model, x, plan)
    assert layer_kinds(quantized) == {path: f"Quantized{kind}" for path, kind in kinds.items()}
    assert layer_kinds(model) == kinds
    for key, values in model.state_dict().items():
        np.testing.assert_array_equal(values, kept[key])
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
            each(x)  # what a first call compiles is not the forward's
        with no_grad():
            each(x)  # so that no kernel is compiled while memory is watched
        with no_grad(), Profiler(memory=True) as profiler:
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
    assert isinstance(quantized.first, QuantizedLinear)
    assert isinstance(quantized.several[0], QuantizedLinear)
    assert isinstance(quantized.named["head"], QuantizedLinear)
    assert type(quantized.other) is Doubled, "a subclass may compute something else"
    x = Tensor(drawn(5, 4))
    assert relative_error(model(x).data, quantized(x).data) < 0.03
    assert isinstance(quantize_model(Linear(3, 2, seed=0), [drawn(4, 3), drawn(2, 3)]), QuantizedLinear)
    assert isinstance(quantize_model(Embedding(3, 2, seed=0)), QuantizedEmbedding)


def test_layers_can_be_kept_or_planned_apart() -> None:
    model, x = zoo("cnn")
    plans = {"12": Plan("weight-only", Scheme(4, False, "group"))}
    quantized: Any = quantize_model(model, x, Plan("static"), keep=["0"], plans=plans)
    assert layer_kinds(quantized)["0"] == "Conv2d"
    assert isinstance(quantized[3], QuantizedConv2d)
    assert (quantized[12].plan, quantized[12].scheme.bits) == (plans["12"], 4)
    assert quantized[0] is not model[0]  # type: ignore[index]


def test_static_ranges_are_those_of_the_inputs_of_each_layer() -> None:
    model = Sequential(Linear(6, 5, seed=0), ReLU(), Linear(5, 3, seed=1))
    batches = [drawn(20, 6), 3 * drawn(10, 6, seed=1)]
    quantized: Any = quantize_model(model, batches, Plan("static", symmetric=False))
    together = np.concatenate(batches)
    hidden = model[1](model[0](Tensor(together))).data
    for layer, x in ((quantized[0], together), (quantized[2], hidden)):
        low, high = min(x.min(), 0), max(x.max(), 0)
        np.testing.assert_allclose(layer.activation_scale.data, (high - low) / 255, rtol=1e-6)
    clipped: Any = quantize_model(
        model, batches, Plan("static"), observer=lambda scheme: PercentileObserver(scheme, percentile=90)
    )
    assert clipped[0].activation_scale.data < np.abs(together).max() / 127 * 0.9


def test_calibration_leaves_the_model_s_mode_and_running_statistics() -> None:
    model, x = zoo("cnn")
    model.train()
    kept = model.state_dict()
    quantized = quantize_model(model, x)
    assert model.training
    assert all(module.training for _, module in model.named_modules())
    assert all(module.training for _, module in quantized.named_modules())
    np.testing.assert_array_equal(model.state_dict()["1.running_mean"], kept["1.running_mean"])
    assert not any(module.training for _, module in quantize_model(model.eval(), x).named_modules())


def test_what_is_left_in_float_trains() -> None:
    model, x = zoo("gpt")
    quantized = quantize_model(model)
    targets = np.sort(x, axis=1)
    optimizer = SGD(quantized.parameters(), lr=0.05)
    losses = [train_step(quantized, x, targets, models.loss_function(), optimizer) for _ in range(8)]
    assert losses[-1] < losses[0]
    assert {name.rsplit(".", 1)[1] for name, _ in quantized.named_parameters()} == {"weight", "bias"}


def test_bad_arguments_are_named_and_change_nothing() -> None:
    model, x = zoo("mlp")
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
    with pytest.raises(ValueError, match="model"):
        quantize_model(Sequential(Flatten(), ReLU()))
    model[1].weight.data[0, 0] = np.inf  # type: ignore[index]
    with pytest.raises(ValueError, match="finite"):
        quantize_model(model)


def test_the_report_tells_each_layer_s_error_bytes_and_time() -> None:
    model = Sequential(Linear(40, 30, seed=0), ReLU(), Linear(30, 10, seed=1))
    x = Tensor(drawn(16, 40))
    quantized: Any = quantize_model(model, plan=Plan("weight-only", Scheme(4, per="channel")))
    rows = layer_report(model, quantized, x, repeats=2)
    assert [row.name for row in rows] == ["0", "2"]
    arrived = [x, model[1](model[0](x))]
    for row, at, inputs in zip(rows, (0, 2), arrived, strict=True):
        expected, got = model[at](inputs).data, quantized[at](inputs).data
        assert row.output_error == pytest.approx(np.linalg.norm(expected - got) / np.linalg.norm(expected), rel=1e-5)
        weight, stored = model[at].weight.data, quantized[at].dequantized().data
        assert row.weight_snr_db == pytest.approx(
            10 * np.log10(np.sum(weight**2) / np.sum((weight - stored) ** 2)), rel=1e-5
        )
        assert row.float_bytes == weight.nbytes + 4 * weight.shape[1]
        assert row.stored_bytes == weight.size // 2 + 8 * weight.shape[1]
        assert row.float_seconds > 0
        assert row.quantized_seconds > 0
    # 4 bits: 6.02 dB a bit and the peak-to-rms ratio of uniform weights put it at about 23 dB.
    assert 20 < rows[0].weight_snr_db < 26


def test_the_report_says_what_groups_keep_in_float() -> None:
    depthwise = Conv2d(6, 6, 3, padding=1, groups=6, seed=1)
    model = Sequential(Conv2d(3, 6, 1, seed=0), depthwise, Conv2d(6, 8, 1, seed=2))
    rows = layer_report(model, quantize_model(model), Tensor(drawn(2, 3, 8, 8)), repeats=1)
    assert [row.plan.startswith("float") for row in rows] == [False, True, False]
    assert rows[1].float_bytes == rows[1].stored_bytes == 4 * (6 * 9 + 6)
    assert (rows[1].output_error, rows[1].weight_snr_db) == (0, np.inf)


@pytest.mark.parametrize("name", ["cnn", "gpt"])
def test_the_report_reaches_convolutions_and_embeddings(name: str) -> None:
    model, x = zoo(name)
    rows = layer_report(model, quantize_model(model), x, repeats=1)
    assert {row.name: row.kind for row in rows} == layer_kinds(model)
    assert all(35 < row.weight_snr_db < 60 for row in rows)
    assert all(0 < row.output_error < 0.03 for row in rows)


def test_a_report_of_models_that_do_not_belong_together_is_refused() -> None:
    model, x = zoo("mlp")
    with pytest.raises(ValueError, match="model"):
        layer_report(model, model, x)
    with pytest.raises(ValueError, match="model"):
        layer_report(Sequential(ReLU()), quantize_model(model), x)


def test_the_scan_finds_the_layer_that_suffers() -> None:
    model = Sequential(Linear(20, 20, seed=0), ReLU(), Linear(20, 20, seed=1), ReLU(), Linear(20, 4, seed=2))
    silent, ruined = model[0], model[2]
    assert isinstance(silent, Linear)
    assert isinstance(ruined, Linear)
    assert silent.bias is not None
    # A hidden unit that is always 0, and weights on it that take the range of all others.
    silent.weight.data[:, 0] = silent.bias.data[0] = 0
    ruined.weight.data[0] = 3
    x = Tensor(drawn(50, 20))
    rows = sensitivity_scan(model, x, Plan("weight-only", Scheme(4, per="channel")))
    assert rows[0].name == "2"
    assert rows[0].error > 2 * rows[1].error
    assert sensitivity_scan(model, x, Plan("static"))[0].name == "2"
    assert layers_to_keep(rows, 0) == []
    assert layers_to_keep(rows, sum(row.saved_bytes for row in rows)) == sorted(
        (row.name for row in rows), key=lambda name: -next(r.error / r.saved_bytes for r in rows if r.name == name)
    )
    kept = quantize_model(model, plan=Plan("weight-only", Scheme(4, per="channel")), keep=["2"])
    every = quantize_model(model, plan=Plan("weight-only", Scheme(4, per="channel")))
    expected = model(x).data
    assert relative_error(expected, kept(x).data) < 0.5 * relative_error(expected, every(x).data)


def test_layers_are_kept_by_error_for_each_byte_within_the_budget() -> None:
    rows = [
        Sensitivity("large", "Linear", 0.5, 1000),
        Sensitivity("small", "Linear", 0.1, 10),
        Sensitivity("exact", "Linear", 0.0, 5),
        Sensitivity("middle", "Linear", 0.2, 100),
    ]
    assert layers_to_keep(rows, 120) == ["small", "middle"]
    assert layers_to_keep(rows, 1010) == ["small", "middle"]
    assert layers_to_keep(rows, 5000) == ["small", "middle", "large"]
    with pytest.raises(ValueError, match="extra_bytes"):
        layers_to_keep(rows, -1)


def test_errors_by_hand() -> None:
    a, b = np.array([3.0, 4.0]), np.array([3.0, 4.5])
    assert relative_error(a, b) == pytest.approx(0.1)
    assert decibels(a, b) == pytest.approx(20)
    assert (relative_error(a, a), decibels(a, a)) == (0, float("inf"))
    assert np.isnan(relative_error(np.zeros(2), a))


def test_convolutions_in_groups_stay_float() -> None:
    layers = (Conv2d(4, 8, 1, seed=0), Conv2d(8, 8, 3, groups=8, seed=1), Conv2d(8, 4, 3, groups=2, seed=2))
    quantized = quantize_model(Sequential(*layers))
    assert [type(layer) for _, layer in quantized.named_children()] == [QuantizedConv2d, Conv2d, Conv2d]
    with pytest.raises(ValueError, match="without groups"):
        quantize_model(Sequential(*layers[1:]))
