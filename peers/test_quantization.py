"""Quantization against PyTorch, GGUF's own package and ONNX Runtime: codes, scales, ranges, gradients, bytes."""

import importlib
from typing import Any

import numpy as np
import pytest
import torch

from peers.agreement import compare, runtime
from tests.perf.small_models import drawn
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.ops.packed_codes import in_rows, pack
from tinytorch.perf.quantization import (
    HistogramObserver,
    MinMaxObserver,
    Plan,
    QuantizedLinear,
    Scheme,
    encode,
    quantize,
    range_parameters,
)
from tinytorch.perf.quantization.training import fake_quantize

onnx: Any = importlib.import_module("onnx")
observers: Any = importlib.import_module("torch.ao.quantization.observer")

#: PyTorch says that its quantized tensors will go, and its observers to another package.
pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
]
AFFINE = Scheme(symmetric=False)
#: Symmetric codes of PyTorch as ours are: without -128, so that its scale is max / 127 and not max / 127.5.
NARROW = {"quant_min": -127, "quant_max": 127, "dtype": torch.qint8}


def batches() -> list[Array]:
    return [drawn(40, 30, seed=seed) * (seed + 1) + 0.3 * seed for seed in range(4)]


@pytest.mark.parametrize("zero_point", [0, -8, -7, 100])
@pytest.mark.parametrize("exponent", [-6, -3, 0])
def test_codes_are_pytorch_s(zero_point: int, exponent: int) -> None:
    """With a power of two for scale, dividing by it and multiplying by its inverse are the same.

    PyTorch rounds after it added the zero point, so with an odd one its halves go the other way.
    """
    scale = 2.0**exponent
    levels = np.concatenate([drawn(5000) * 100, np.arange(-300, 300, 0.5, dtype=np.float32)])
    x = (levels * scale).astype(np.float32)
    theirs = torch.quantize_per_tensor(torch.tensor(x), scale, zero_point, torch.qint8).int_repr().numpy()
    ours = encode(x, np.float32(scale), zero_point, AFFINE)
    halves = np.abs(levels - np.trunc(levels)) == 0.5
    assert halves.sum() > 500
    same = ~halves if zero_point % 2 else np.ones(len(x), bool)
    np.testing.assert_array_equal(ours[same], theirs[same])
    assert (np.abs(ours.astype(int) - theirs) <= 1).all()


def test_codes_of_any_scale_are_pytorch_s_but_for_halves_within_a_rounding() -> None:
    x = drawn(200_000) * 10
    for scale in (0.0837, 0.1, 1 / 3):
        theirs = torch.quantize_per_tensor(torch.tensor(x), scale, 3, torch.qint8).int_repr().numpy()
        ours = encode(x, np.float32(scale), 3, AFFINE)
        apart = ours != theirs
        quotient = x.astype(np.float64) / np.float32(scale)
        assert apart.mean() < 1e-4
        assert (np.abs(np.abs(quotient - np.trunc(quotient)) - 0.5)[apart] < 1e-5).all()


def test_channels_are_pytorch_s() -> None:
    x = drawn(30, 20)
    made = quantize(x, Scheme(per="channel"))
    scales = torch.tensor(made.scale[0].astype(np.float64))
    theirs = torch.quantize_per_channel(torch.tensor(x), scales, torch.zeros(20, dtype=torch.int64), 1, torch.qint8)
    np.testing.assert_array_equal(made.codes, theirs.int_repr().numpy())
    np.testing.assert_allclose(made.dequantize(), theirs.dequantize().numpy(), rtol=1e-6)


def observed(theirs: Any, ours: Any) -> None:
    """Feed both with the same batches and compare scale and zero point."""
    for batch in batches():
        theirs(torch.tensor(batch))
        ours.observe(batch)
    scale, zero_point = theirs.calculate_qparams()
    made = ours.parameters()
    np.testing.assert_allclose(made[0].reshape(-1), scale.numpy(), rtol=3e-7)
    np.testing.assert_array_equal(made[1].reshape(-1), zero_point.numpy())


def test_min_max_observers_are_pytorch_s() -> None:
    observed(observers.MinMaxObserver(dtype=torch.qint8), MinMaxObserver(AFFINE))
    observed(observers.MinMaxObserver(qscheme=torch.per_tensor_symmetric, **NARROW), MinMaxObserver(Scheme()))
    channel = observers.PerChannelMinMaxObserver
    observed(channel(ch_axis=1, dtype=torch.qint8), MinMaxObserver(Scheme(symmetric=False, per="channel")))
    observed(
        channel(ch_axis=0, qscheme=torch.per_channel_symmetric, **NARROW), MinMaxObserver(Scheme(per="channel", axis=0))
    )


@pytest.mark.parametrize("kind", ["normal", "one-sided", "heavy"])
@pytest.mark.parametrize("count", [1, 3])
def test_histogram_ranges_are_pytorch_s(kind: str, count: int) -> None:
    """To within a bin: its float32 sums can decide a tie of two narrowings the other way."""
    theirs, ours = observers.HistogramObserver(dtype=torch.qint8), HistogramObserver(AFFINE)
    for seed in range(count):
        x = drawn(20_000, seed=seed) * (1 + 0.3 * seed)
        if kind == "one-sided":
            x = np.abs(x)
        if kind == "heavy":
            x = x**3
        theirs(torch.tensor(x))
        ours.observe(x)
    low, high = (float(value) for value in theirs._non_linear_param_search())
    found = [float(value) for value in ours.range()]
    width = float(theirs.max_val - theirs.min_val) / 2048
    assert found == pytest.approx([low, high], abs=1.01 * width)


@pytest.mark.parametrize("scheme", [AFFINE, Scheme(4, False)], ids=str)
@pytest.mark.parametrize("zero_point", [0, 5])
@pytest.mark.parametrize("scale", [0.0625, 0.11])
def test_fake_quantization_and_its_gradient_are_pytorch_s(scheme: Scheme, zero_point: int, scale: float) -> None:
    compare(
        lambda x: fake_quantize(x, np.float32(scale), zero_point, scheme),
        lambda x: torch.fake_quantize_per_tensor_affine(x, scale, zero_point, scheme.low, scheme.high),
        drawn(4000) * 8,
    )


def test_fake_quantization_of_channels_is_pytorch_s() -> None:
    scale, zeros = np.geomspace(0.01, 0.1, 6).astype(np.float32), np.zeros(6, np.int32)
    given = torch.tensor(scale), torch.tensor(zeros)
    compare(
        lambda x: fake_quantize(x, scale, zeros, Scheme()),
        lambda x: torch.fake_quantize_per_channel_affine(x, *given, 1, -127, 127),
        drawn(50, 6) * 3,
    )


def answered(nodes: list[Any], feed: dict[str, Array], outputs: dict[str, int], constants: Any = ()) -> list[Array]:
    """Return what ONNX Runtime answers to a graph of these nodes."""
    helper, kinds = onnx.helper, {"float32": onnx.TensorProto.FLOAT, "int8": onnx.TensorProto.INT8}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kinds[each.dtype.name], each.shape) for name, each in feed.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [onnx.numpy_helper.from_array(value, name) for name, value in dict(constants).items()],
    )
    domains = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains)
    model.ir_version = 8
    return runtime(model.SerializeToString(), feed)


def dynamic_node() -> Any:
    return onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["codes", "scale", "zero"])


@pytest.mark.parametrize("shift", [0.0, 2.0, 50.0, -50.0])
def test_dynamic_quantization_is_onnx_runtime_s(shift: float) -> None:
    """Its codes are unsigned: ours and 128."""
    types = {"codes": onnx.TensorProto.UINT8, "scale": onnx.TensorProto.FLOAT, "zero": onnx.TensorProto.UINT8}
    for seed in range(5):
        x = drawn(3000, seed=seed) * (seed + 0.5) + np.float32(shift)
        codes, scale, zero_point = answered([dynamic_node()], {"x": x}, types)
        made = range_parameters(x.min(), x.max(), AFFINE)
        assert float(made[0]) == float(scale)
        assert int(made[1]) + 128 == int(zero_point)
        ours = encode(x, *made, AFFINE).astype(int) + 128
        np.testing.assert_array_equal(ours, codes)
        whole = quantize(x, AFFINE)
        np.testing.assert_array_equal(whole.codes.astype(int) + 128, codes)


def test_a_dynamic_linear_layer_is_onnx_runtime_s_integer_product() -> None:
    """One affine scale for the call's input, one symmetric scale for each output, as its dynamic quantization does."""
    linear = Linear(300, 40, seed=0)
    layer = QuantizedLinear(linear, Plan(activations="tensor", symmetric=False))
    assert linear.bias is not None
    nodes = [
        dynamic_node(),
        onnx.helper.make_node("MatMulInteger", ["codes", "weight", "zero"], ["sums"]),
        onnx.helper.make_node("Cast", ["sums"], ["float_sums"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("Mul", ["scale", "weight_scale"], ["scales"]),
        onnx.helper.make_node("Mul", ["float_sums", "scales"], ["product"]),
        onnx.helper.make_node("Add", ["product", "bias"], ["y"]),
    ]
    constants = {"weight": layer.codes.array, "weight_scale": layer.scale.data[0], "bias": linear.bias.data}
    x = drawn(17, 300)
    (expected,) = answered(nodes, {"x": x}, {"y": onnx.TensorProto.FLOAT}, constants)
    np.testing.assert_allclose(layer(Tensor(x)).data, expected, rtol=1e-5, atol=1e-5)


def test_a_static_linear_layer_is_pytorch_s_integer_product() -> None:
    """The sums are those of torch._int_mm on the same codes, and so is what is made of them."""
    layer = QuantizedLinear(Linear(64, 32, bias=False, seed=0)).calibrate([drawn(50, 64)])
    x = drawn(40, 64, seed=1)
    assert layer.activation_scale is not None
    scale = layer.activation_scale.data
    sums = torch._int_mm(torch.tensor(encode(x, scale, 0, Scheme())), torch.tensor(layer.codes.array)).numpy()
    np.testing.assert_allclose(layer(Tensor(x)).data, sums * (layer.scale.data * scale), rtol=1e-6)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("features", [64, 96])
def test_weight_only_products_of_4_bits_are_onnx_runtime_s(symmetric: bool, rows: int, features: int) -> None:
    """Its blocks run along the inputs of one output; two codes to a byte, the first low, as ours but transposed."""
    layer = QuantizedLinear(
        Linear(features, 128, bias=False, seed=0), Plan("weight-only", Scheme(4, symmetric, "group", group=32))
    )
    stored = np.ascontiguousarray(in_rows(layer.codes.array).T)
    constants = {"codes": stored.reshape(128, features // 32, 16), "scales": layer.scale.data.T.reshape(-1)}
    if layer.zero_point is not None:
        constants["zeros"] = pack(np.ascontiguousarray(layer.zero_point.data.T), 4, axis=1).reshape(-1)
    node = onnx.helper.make_node(
        "MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft", K=features, N=128, bits=4, block_size=32
    )
    x = drawn(rows, features)
    (expected,) = answered([node], {"x": x}, {"y": onnx.TensorProto.FLOAT}, constants)
    np.testing.assert_allclose(layer(Tensor(x)).data, expected, rtol=1e-4, atol=1e-5)


def test_weight_only_products_of_8_bits_are_pytorch_s() -> None:
    """Its float32 inputs and scales are exact, like ours."""
    layer = QuantizedLinear(Linear(192, 128, bias=False, seed=0), Plan("weight-only"))
    x = drawn(5, 192)
    codes = torch.tensor(np.ascontiguousarray(in_rows(layer.codes.array).T))
    expected = torch._weight_int8pack_mm(torch.tensor(x), codes, torch.tensor(layer.scale.data[0])).numpy()
    np.testing.assert_allclose(layer(Tensor(x)).data, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 1500, 33), (64, 256, 64)], ids=str)
def test_products_of_codes_are_onnx_runtime_s_at_the_extremes(shape: tuple[int, int, int]) -> None:
    """A quantized layer whose scales are 1 gives the int32 sums themselves, which float32 holds."""
    rows, depth, columns = shape
    draw = np.random.default_rng(0)
    a, b = (draw.choice(np.array([-127, -1, 0, 127], np.int8), size) for size in ((rows, depth), (depth, columns)))
    a[:, 0], b[0] = 127, 127
    node = onnx.helper.make_node("MatMulInteger", ["a", "b"], ["sums"])
    (sums,) = answered([node], {"a": a, "b": b}, {"sums": onnx.TensorProto.INT32})
    linear = Linear(depth, columns, bias=False, seed=0)
    linear.weight.data = b.astype(np.float32)
    layer = QuantizedLinear(linear, Plan(weights=Scheme(per="tensor"), activations="tensor"))
    np.testing.assert_array_equal(layer(Tensor(a.astype(np.float32))).data, sums.astype(np.float32))
