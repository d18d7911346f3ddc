"""Quantized layers against float arithmetic and plain loops of the definition, and quantized models in files."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.made_ceilings import made_ceilings
from tests.perf.quantization.small_zoo import NAMES, batch, make
from tests.perf.small_models import drawn
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.layers import Embedding, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import Arranging, undisturbed
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.ops.weight_only import dequantize, weight_only_linear
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.profiling.model_profile import profile_model
from tinytorch.perf.quantization import (
    MeanSquaredErrorObserver,
    Plan,
    QuantizedConv2d,
    QuantizedEmbedding,
    QuantizedLinear,
    Scheme,
    load_quantized,
    quantize,
    quantize_model,
    save_quantized,
)
from tinytorch.perf.quantization.storage import Codes

WEIGHTS = [
    Scheme(bits, symmetric, per, group=16)
    for bits in (8, 4, 2)
    for symmetric in (True, False)
    for per in ("tensor", "channel", "group")
]
INPUTS = [
    Plan(mode, activations=activations, symmetric=symmetric)
    for mode in ("dynamic", "static")
    for activations in ("row", "tensor")
    for symmetric in (True, False)
]


def rounded(x: Array, plan: Plan, calibration: Array) -> Array:
    """What x becomes by the definition: each row (image), or all, by its own range; or by the calibration's."""
    rows = x.reshape(len(x), -1) if x.ndim == 4 else x.reshape(-1, x.shape[-1])
    if plan.mode == "static":
        sources = [calibration] * len(rows)
    elif plan.activations == "tensor":
        sources = [rows] * len(rows)
    else:
        sources = list(rows)
    made = []
    for row, source in zip(rows, sources, strict=True):
        low, high = min(float(source.min()), 0.0), max(float(source.max()), 0.0)
        if plan.symmetric:
            step, zero, least, most = max(-low, high) / 127, 0.0, -127, 127
        else:
            step, least, most = (high - low) / 255, -128, 127
            zero = -128 - np.rint(np.float32(low) / np.float32(step))
        step = float(np.float32(step))
        made.append(step * (np.clip(np.rint(row / np.float32(step)) + zero, least, most) - zero))
    return np.array(made).reshape(x.shape)


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize("plan", [Plan("weight-only"), *INPUTS], ids=str)
def test_linear_is_the_product_of_what_the_codes_stand_for(plan: Plan, weights: Scheme) -> None:
    linear = Linear(37, 11, seed=0)
    layer = QuantizedLinear(linear, replace(plan, weights=weights))
    x, calibration = drawn(5, 37) + 0.5, drawn(9, 37, seed=1) * 0.7
    if plan.mode == "static":
        layer.calibrate([calibration])
    inputs = x if plan.mode == "weight-only" else rounded(x, plan, calibration)
    weight = quantize(linear.weight.data, weights).dequantize().astype(np.float64)
    assert linear.bias is not None
    np.testing.assert_allclose(layer(Tensor(x)).data, inputs @ weight + linear.bias.data, rtol=1e-4, atol=2e-5)
    np.testing.assert_array_equal(layer.dequantized().data, weight)


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"padding": 1, "bias": False},
    {"stride": 2, "padding": (1, 2)},
    {"dilation": (2, 1), "padding": 2},
    {"groups": 2, "padding": 1},
]


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("weights", [WEIGHTS[1], WEIGHTS[8], WEIGHTS[17]], ids=str)
@pytest.mark.parametrize("plan", [Plan("weight-only"), *INPUTS], ids=str)
def test_convolution_is_that_of_what_the_codes_stand_for(plan: Plan, weights: Scheme, options: dict[str, Any]) -> None:
    convolution = Conv2d(4, 6, (3, 2), seed=0, **options)
    layer = QuantizedConv2d(convolution, replace(plan, weights=weights))
    x, calibration = drawn(3, 4, 7, 6) + 0.5, drawn(2, 4, 7, 6, seed=1)
    if plan.mode == "static":
        layer.calibrate([calibration])
    inputs = x if plan.mode == "weight-only" else rounded(x, plan, calibration)
    matrix = convolution.weight.data.transpose(2, 3, 1, 0).reshape(-1, 6)
    weight = quantize(matrix, weights).dequantize().reshape(3, 2, -1, 6).transpose(3, 2, 0, 1)
    operands = [inputs, weight.astype(np.float64)] + ([] if convolution.bias is None else [convolution.bias.data])
    geometry = {name: getattr(convolution, name) for name in ("stride", "padding", "dilation", "groups")}
    expected = apply(ops.conv2d, *(np.asarray(each, np.float64) for each in operands), **geometry)
    np.testing.assert_allclose(layer(Tensor(x)).data, expected.data, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_embedding_rows_are_the_table_s(weights: Scheme) -> None:
    embedding = Embedding(7, 37, seed=0)
    layer = QuantizedEmbedding(embedding, Plan(weights=weights))
    indices = np.array([[0, 6, 3], [3, 3, 1]])
    table = quantize(embedding.weight.data, replace(weights, axis=0)).dequantize()
    for spelt in (indices, Tensor(indices)):
        np.testing.assert_array_equal(layer(spelt).data, table[indices])
    np.testing.assert_array_equal(layer.weight.data, table)
    with pytest.raises(IndexError, match=r"0\.\.6"):
        layer(np.array([7]))
    scale = Tensor(np.ones((1, 1), np.float32), requires_grad=True)
    made = apply(dequantize, layer.codes, scale, None, bits=weights.bits, group=None, length=37, axis=1)
    with pytest.raises(TypeError, match="no gradient"):
        made.backward(np.ones((7, 37)))


@given(count=st.integers(1, 6), seed=st.integers(0, 50))
@settings(max_examples=20, deadline=None)
def test_a_row_s_result_does_not_depend_on_the_batch(count: int, seed: int) -> None:
    layer = QuantizedLinear(Linear(20, 6, seed=0))
    x = drawn(count, 20, seed=seed) * np.geomspace(1e-3, 1e3, count, dtype=np.float32)[:, None]
    together = layer(Tensor(x)).data
    alone = [layer(Tensor(x[index : index + 1])).data[0] for index in range(count)]
    np.testing.assert_array_equal(alone, together)
    by_call = QuantizedLinear(Linear(20, 6, seed=0), Plan(activations="tensor"))
    if count > 1:
        assert (by_call(Tensor(x)).data[0] != by_call(Tensor(x[:1])).data[0]).any()


@pytest.mark.parametrize(("bits", "dtype"), [(8, np.int8), (4, np.uint8), (2, np.uint8)])
def test_storage_is_small_integers(bits: Any, dtype: Any) -> None:
    linear = Linear(64, 32, seed=0)
    layer = QuantizedLinear(linear, Plan(weights=Scheme(bits, per="channel")))
    assert (layer.codes.data.dtype, layer.codes.data.nbytes) == (dtype, 64 * 32 * bits // 8)
    original, quantized = (64 * 32 + 32) * 4, 64 * 32 * bits // 8 + 32 * 4 + 32 * 4
    found = layer.memory_usage()
    assert (found["original_bytes"], found["quantized_bytes"]) == (original, quantized)
    assert found["compression_ratio"] == original / quantized
    assert all(array.dtype != np.float32 or array.size <= 32 for array in layer.state_dict().values())
    kept = linear.state_dict()
    assert layer.bias is not None
    layer.bias.data += 1
    np.testing.assert_array_equal(linear.state_dict()["bias"], kept["bias"], "the float layer is copied from")


@pytest.mark.parametrize("plan", [Plan("weight-only"), *INPUTS], ids=str)
def test_gradients_pass_straight_through_and_the_bias_trains(plan: Plan) -> None:
    layer = QuantizedLinear(Linear(12, 5, seed=0), plan)
    x = Tensor(drawn(4, 3, 12), requires_grad=True)
    step = 0.0
    if plan.mode == "static":
        layer.calibrate([np.clip(x.data, -1, 1)])
        assert layer.activation_scale is not None
        step = float(layer.activation_scale.data)
    down = drawn(4, 3, 5)
    layer(x).backward(down)
    assert x.grad is not None
    # A number rounds to a code of its own up to half a step outside of the range.
    beyond = (np.abs(x.data) > 1 + 0.51 * step) & (plan.mode == "static")
    inside = (np.abs(x.data) < 1 - step) | (plan.mode != "static")
    assert beyond.any() == (plan.mode == "static")
    assert not x.grad[beyond].any()
    np.testing.assert_allclose(x.grad[inside], (down @ layer.dequantized().data.T)[inside], rtol=1e-5, atol=1e-6)
    assert layer.bias is not None
    assert layer.bias.grad is not None
    np.testing.assert_allclose(layer.bias.grad, down.sum((0, 1)), rtol=1e-5)
    assert [name for name, _ in layer.named_parameters()] == ["bias"]


@pytest.mark.parametrize("plan", [Plan("weight-only"), *INPUTS], ids=str)
def test_a_convolution_s_gradient_is_the_float_one_of_its_stored_weight(plan: Plan) -> None:
    layer: Any = QuantizedConv2d(Conv2d(3, 4, 3, padding=1, seed=0), plan)
    x, other = (Tensor(drawn(2, 3, 6, 5), requires_grad=True) for _ in range(2))
    if plan.mode == "static":
        layer.calibrate([x * 3])
    down = drawn(2, 4, 6, 5)
    layer(x).backward(down)
    twin: Any = Conv2d(3, 4, 3, padding=1)
    twin.weight.data[...] = layer.dequantized().data.reshape(3, 3, 3, 4).transpose(3, 2, 0, 1)
    twin(other).backward(down)
    assert x.grad is not None
    assert other.grad is not None
    np.testing.assert_allclose(x.grad, other.grad, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.bias.grad, twin.bias.grad, rtol=1e-5, atol=1e-5)


def test_work_and_traffic_by_hand() -> None:
    layer = QuantizedLinear(Linear(6, 16, seed=0))
    with Profiler() as profiler:
        layer(Tensor(drawn(4, 6), requires_grad=True)).sum().backward()
    forward, backward = (event for event in profiler.run.events if event.op == "quantized_linear")
    # Each input: range, quotient, rounding; each output: two scales and the bias.
    assert (forward.macs, forward.elementwise) == (4 * 6 * 16, 3 * 24 + 3 * 64)
    # float32 input and output, int8 codes of a depth filled up to 8, a scale and a bias for each output.
    assert forward.traffic == 4 * 24 + 8 * 16 + 4 * 16 + 4 * 16 + 4 * 64
    assert (backward.macs, backward.elementwise) == (4 * 6 * 16, 6 * 16 + 64)
    convolution = QuantizedConv2d(Conv2d(2, 3, 3, padding=1, groups=1, seed=0))
    assert Profiler().count_flops(convolution, (1, 2, 5, 4)) == 2 * 20 * 3 * 18
    assert Profiler().count_flops(layer, (1, 6)) == 192
    stored = QuantizedLinear(Linear(6, 5, seed=0), Plan("weight-only", Scheme(4, False, "group", group=2)))
    with Profiler() as profiler:
        stored(Tensor(drawn(4, 6)))
    (event,) = profiler.run.events
    assert (event.op, event.macs, event.elementwise) == (weight_only_linear.name, 120, 2 * 30 + 20)


@pytest.mark.parametrize("mode", ["weight-only", "dynamic"])
@pytest.mark.parametrize("bits", [8, 4])
def test_a_forward_never_holds_the_whole_weight_in_float(mode: Any, bits: int) -> None:
    layer = QuantizedLinear(Linear(256, 4096, seed=0), Plan(mode, Scheme(bits, per="channel")))
    x = Tensor(drawn(4, 256))
    with no_grad():
        layer(x)
        tracemalloc.start()
        layer(x)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 0.6 * 4 * 256 * 4096


def test_what_a_kernel_keeps_is_of_the_codes_as_they_are() -> None:
    layers: list[Any] = [QuantizedLinear(Linear(30, 7, seed=seed)) for seed in range(2)]
    (layer, other), x = layers, Tensor(drawn(4, 30))
    layer(x)
    layer.load_state_dict(other.state_dict())
    np.testing.assert_array_equal(layer(x).data, other(x).data)
    for shape in ((3, 30), (0, 30), (30,)):
        zeros = layer(Tensor(np.zeros(shape, np.float32)))
        np.testing.assert_array_equal(zeros.data, np.broadcast_to(layer.bias.data, (*shape[:-1], 7)))
    layer.codes.data = layer.codes.array * np.int8(0)
    np.testing.assert_array_equal(layer(x).data, np.broadcast_to(layer.bias.data, (4, 7)))


@pytest.mark.parametrize("scale", [2.0**-140, 2.0**-60, 2.0**100])
def test_tiny_and_huge_inputs_keep_their_relative_error(scale: float) -> None:
    linear = Linear(16, 8, bias=False, seed=0)
    x = drawn(6, 16)
    expected = QuantizedLinear(linear)(Tensor(x)).data.astype(np.float64) * scale
    got = QuantizedLinear(linear)(Tensor((x.astype(np.float64) * scale).astype(np.float32))).data
    # A result of a few hundred units of the smallest subnormal is known to one of them, and so are its scales.
    np.testing.assert_allclose(got, expected, rtol=0.02, atol=2.0**-147 + 1e-6 * scale)


def test_calibration_is_all_or_nothing() -> None:
    layer = QuantizedLinear(Linear(4, 2, seed=0))
    for inputs in ([], [drawn(2, 4), np.array([np.nan], np.float32)]):
        with pytest.raises(ValueError, match=r"must (observe|be finite)"):
            layer.calibrate(inputs)
        assert (layer.plan.mode, layer.activation_scale) == ("dynamic", None)
    assert layer.calibrate([drawn(5, 4)], MeanSquaredErrorObserver(Scheme())).plan.mode == "static"
    with pytest.raises(ValueError, match="observer"):
        layer.calibrate([drawn(5, 4)], MeanSquaredErrorObserver(Scheme(symmetric=False)))
    with pytest.raises(ValueError, match="calibrate"):
        QuantizedLinear(Linear(4, 2, seed=0), Plan("static"))(Tensor(drawn(1, 4)))


def test_bad_shapes_and_plans_are_named() -> None:
    for mode in ("dynamic", "weight-only"):
        with pytest.raises(ValueError, match="the last axis"):
            QuantizedLinear(Linear(4, 2, seed=0), Plan(mode))(Tensor(drawn(3, 5)))
    with pytest.raises(ValueError, match=r"\(N, 2, H, W\)"):
        QuantizedConv2d(Conv2d(2, 2, 3, seed=0))(Tensor(drawn(1, 3, 5, 5)))
    for wrong, name in [
        ({"mode": "int8"}, "mode"),
        ({"activations": "channel"}, "activations"),
        ({"ranges": "best"}, "ranges"),
        ({"weights": Scheme(per="channel", axis=0)}, "weights"),
    ]:
        with pytest.raises(ValueError, match=f"^{name} must"):
            Plan(**wrong)  # type: ignore[arg-type]


PLANS = [
    Plan(),
    Plan("static", Scheme(8, False, "tensor"), symmetric=False),
    Plan("weight-only", Scheme(4, False, "group", group=24)),
    Plan("dynamic", Scheme(2, True, "channel"), activations="tensor", ranges="mse"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_model_comes_back_bit_by_bit(name: str, plan: Plan, tmp_path: Path) -> None:
    x = batch(name)
    keep = ["0"] if name == "cnn" else []
    quantized = quantize_model(make(name), x, plan, keep).eval()
    save_quantized(quantized, tmp_path / "model.npz")
    untrained = make(name, 7).train()
    kept = untrained.state_dict()
    loaded = load_quantized(tmp_path / "model.npz", untrained)
    assert repr(loaded) == repr(quantized)
    assert not any(module.training for _, module in loaded.named_modules())
    state, expected = loaded.state_dict(), quantized.state_dict()
    assert {key: array.dtype for key, array in state.items()} == {key: array.dtype for key, array in expected.items()}
    for key, values in untrained.state_dict().items():
        np.testing.assert_array_equal(values, kept[key])
    quantized.save(tmp_path / "state.npz")
    untrained.save(tmp_path / "float.npz")
    other = quantize_model(untrained, x, plan, keep).eval().load(tmp_path / "state.npz")
    for each in (loaded, other):
        np.testing.assert_array_equal(each(x).data, quantized(x).data)
    for model, file in ((untrained, "state"), (other, "float")):
        with pytest.raises(ValueError, match="must have the entries"):
            model.load(tmp_path / f"{file}.npz")


def test_packed_codes_stay_packed_and_nothing_is_pickled(tmp_path: Path) -> None:
    model = Sequential(Linear(64, 48, seed=0))
    path = tmp_path / "model.npz"
    save_quantized(quantize_model(model, plan=Plan("weight-only", Scheme(4, False, "group"))), path)
    with np.load(path, allow_pickle=False) as archive:
        shapes = {name: (archive[name].dtype.str, archive[name].shape) for name in archive.files}
    assert shapes["model.0.codes"] == ("|u1", (32, 48))
    assert shapes["model.0.zero_point"] == ("|i1", (2, 48))
    assert shapes["model.0.scale"] == ("<f4", (2, 48))
    assert path.stat().st_size < 0.3 * model[0].weight.nbytes + 2000


def test_a_file_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    model = Sequential(Linear(4, 3, seed=0))
    save_quantized(quantize_model(model), tmp_path / "model.npz")
    model.save(tmp_path / "float.npz")
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "other.npz", description=np.frombuffer(b'{"0": {"mode": "guess"}}', np.uint8))
    np.savez(tmp_path / "broken.npz", description=np.frombuffer(b"{", np.uint8))
    for name, into, says in [
        ("model", Linear(4, 3, seed=0), "layers"),
        ("model", Sequential(Linear(5, 3, seed=0)), "shape"),
        *((name, model, "holds") for name in ("float", "text", "other", "broken")),
    ]:
        with pytest.raises(ValueError, match=says):
            load_quantized(tmp_path / f"{name}.npz", into)
    with pytest.raises(FileNotFoundError):
        load_quantized(tmp_path / "none.npz", model)
    with pytest.raises(ValueError, match="quantized layers"):
        save_quantized(model, tmp_path / "model.npz")


def everything_held(model: Module) -> list[tuple[int, bytes]]:
    """Return which arrays the weights in codes are held in, and their bytes, as they are."""
    arranged = [tensor for _, tensor in model.named_buffers() if isinstance(tensor, Arranging)]
    return [(id(array), array.tobytes()) for tensor in arranged for array in tensor.arrays]


def undisturbed_run(model: Module, x: Tensor) -> None:
    with undisturbed(model):
        model(x)


#: Instruments that run a model, each of which leaves it as it was.
LOOKS: dict[str, Callable[[Module, Tensor], object]] = {
    "undisturbed": undisturbed_run,
    "count_flops": lambda model, x: Profiler().count_flops(model, x),
    "measure_memory": lambda model, x: Profiler().measure_memory(model, x),
    "measure_latency": lambda model, x: Profiler().measure_latency(model, x, 1, 3),
    "profile_forward_pass": lambda model, x: Profiler(ceilings=made_ceilings()).profile_forward_pass(model, x),
    "profile_model": lambda model, x: profile_model(model, x, "it"),
    "zeros of a shape": lambda model, x: Profiler().count_flops(model, x.shape),
}


@pytest.mark.usefixtures("made_machine")
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_instruments_leave_codes_as_a_kernel_reads_them(plan: Plan, look: str) -> None:
    """What arranged them anew before each op would be timed as a part of the model."""
    x = Tensor(np.random.default_rng(0).normal(size=(4, 96)).astype(np.float32))
    model = quantize_model(Sequential(Linear(96, 128, seed=0), Linear(128, 96, seed=1)), x.data, plan).eval()
    model(x)
    before = everything_held(model)
    assert before
    LOOKS[look](model, x)
    assert everything_held(model) == before


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_memory_counts_the_codes_once(plan: Plan, warm: bool) -> None:
    x = Tensor(np.random.default_rng(0).normal(size=(4, 768)).astype(np.float32))
    model = quantize_model(Sequential(Linear(768, 768, seed=0)), x.data, plan).eval()
    with no_grad():
        model(x)  # which compiles kernels
    if not warm:
        for _, tensor in model.named_buffers():
            if isinstance(tensor, Codes):
                tensor.packed.clear()
    held = sum(len(data) for _, data in everything_held(model))
    found = Profiler().measure_memory(model, x)
    scales = 2 * 768 * 32 * 4
    assert held <= found["buffer_memory_mb"] * MIB < held + scales
    assert found["input_memory_mb"] * MIB == x.nbytes
    assert found["parameter_memory_mb"] * MIB == 768 * 4
    outputs, few = 4 * 768 * 4, 40_000
    assert found["peak_memory_mb"] * MIB < held + scales + 12 * outputs + few
