"""Quantized files in every form: they answer as the reference does, and hold codes where a layer of ours can."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from tests.perf.onnx.graphs import Made, answers, assert_same, normal, reference
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.core.spatial import Conv2d
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.onnx import from_onnx
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import QuantizedConv2d, QuantizedEmbedding, QuantizedLinear

MICROSOFT = "com.microsoft"
ROWS, MAPS = normal(6, 12, seed=3), normal(2, 4, 9, 8, seed=3)
INT8, UINT8 = np.int8, np.uint8


def codes(*shape: int, dtype: Any = INT8, low: int = -100, high: int = 100, seed: int = 0) -> Array:
    half = 128 if np.dtype(dtype) == UINT8 else 0
    return (np.random.default_rng([seed, *shape]).integers(low, high, shape) + half).astype(dtype)


class Quantized(Made):
    """A graph with short words for what quantized files are full of."""

    def c(self, values: Any, dtype: Any = np.float32) -> str:
        return self.constant(np.asarray(values, dtype))

    def q(self, x: str, scale: float, zero: int, dtype: Any = UINT8, **how: Any) -> str:
        return self.node("QuantizeLinear", x, self.c(scale), self.c(zero, dtype), **how)

    def d(self, x: str, scale: Any, zero: Any, dtype: Any = UINT8, **how: Any) -> str:
        return self.node("DequantizeLinear", x, self.c(scale), self.c(zero, dtype), **how)

    def rounded(self, x: str, scale: float = 0.03, zero: int = 131, dtype: Any = UINT8) -> str:
        return self.d(self.q(x, scale, zero, dtype), scale, zero, dtype)

    def weight(self, values: Array, scale: Any = 0.01, zero: Any = 0, **how: Any) -> str:
        return self.d(self.constant(values), scale, zero, values.dtype, **how)


def of_rows(opset: int = 21) -> tuple[Quantized, str]:
    graph = Quantized(opset)
    return graph, graph.input("x", ["N", 12])


def of_maps(opset: int = 21) -> tuple[Quantized, str]:
    graph = Quantized(opset)
    return graph, graph.input("x", ["N", 4, "H", "W"])


STEPS = np.linspace(0.005, 0.02, 7).astype(np.float32)
BLOCKS = np.linspace(0.01, 0.05, 21).reshape(3, 7).astype(np.float32)


#: Scale and zero point of what is multiplied; no layer of ours multiplies in 16 bits.
ROUNDED = {INT8: (0.03, 3), UINT8: (0.03, 131), np.uint16: (0.0002, 40_000), np.int16: (0.0002, 5)}


def product(dtype: Any = INT8, activation: Any = UINT8, zero: int = 0, each: bool = False) -> Made:
    graph, x = of_rows()
    how = {"axis": 1} if each else {}
    weight = graph.weight(codes(12, 7, dtype=dtype), STEPS if each else 0.01, [zero] * 7 if each else zero, **how)
    graph.output(
        graph.rounded(graph.node("MatMul", graph.rounded(x, *ROUNDED[activation], activation), weight), 0.2, 128)
    )
    return graph


def general(turned: bool, alpha: float) -> Made:
    graph, x = of_rows()
    weight = graph.weight(codes(7, 12) if turned else codes(12, 7), STEPS, [0] * 7, axis=0 if turned else 1)
    bias = graph.d(graph.constant(codes(7).astype(np.int32) * 40), STEPS * 0.03, [0] * 7, np.int32, axis=0)
    graph.output(graph.node("Gemm", graph.rounded(x), weight, bias, transB=int(turned), alpha=alpha))
    return graph


def turned() -> Made:
    graph, x = of_rows()
    weight = graph.node("Transpose", graph.weight(codes(7, 12), STEPS, [0] * 7, axis=0), perm=[1, 0])
    graph.output(graph.node("MatMul", graph.rounded(x), weight))
    return graph


def from_floats() -> Made:
    """As training that knows of quantization exports it: the weight is still float, and is quantized in the graph."""
    graph, x = of_rows()
    graph.output(graph.node("MatMul", graph.rounded(x), graph.rounded(graph.constant(normal(12, 7)), 0.02, 0, INT8)))
    return graph


def weight_alone(block: bool, dtype: Any = INT8) -> Made:
    graph, x = of_rows()
    weight = codes(12, 7, dtype=dtype, low=-7, high=7)
    how = {"axis": 0, "block_size": 4} if block else {}
    scale, zero = (BLOCKS, np.ones((3, 7))) if block else (0.03, 0)
    graph.output(graph.node("MatMul", x, graph.weight(weight, scale, zero, **how)))
    return graph


def convolution(dtype: Any = INT8, group: int = 1, **how: Any) -> Made:
    graph, x = of_maps()
    weight = graph.weight(codes(8, 4 // group, 3, 3, dtype=dtype), np.linspace(0.01, 0.03, 8), [0] * 8, axis=0)
    bias = graph.d(graph.constant(codes(8).astype(np.int32) * 40), np.full(8, 3e-4), [0] * 8, np.int32, axis=0)
    made = graph.node("Conv", graph.rounded(x), weight, bias, group=group, **how)
    graph.output(graph.rounded(graph.node("Relu", made), 0.1, 0))
    return graph


def chain() -> Made:
    """Two convolutions, with codes pooled and moved in between."""
    graph, x = of_maps()
    first = graph.node("Conv", graph.rounded(x), graph.weight(codes(6, 4, 3, 3)))
    pooled = graph.node("MaxPool", graph.q(first, 0.1, 128), kernel_shape=[2, 2], strides=[2, 2])
    turned = graph.node("Transpose", pooled, perm=[0, 1, 3, 2])
    second = graph.node("Conv", graph.d(turned, 0.1, 128), graph.weight(codes(5, 6, 1, 1)))
    graph.output(second)
    return graph


def lookup(codes_first: bool) -> Made:
    graph = Quantized(21)
    tokens = graph.input("x", ["N", "T"], np.int64)
    table = codes(20, 8, dtype=UINT8)
    picked = graph.node("Gather", graph.constant(table) if codes_first else graph.weight(table, 0.02, 120), tokens)
    graph.output(graph.d(picked, 0.02, 120) if codes_first else picked)
    return graph


def linear(image: bool) -> Made:
    graph, x = of_maps() if image else of_rows()
    values, scale = (codes(8, 4, 3, 3), np.linspace(0.01, 0.03, 8)) if image else (codes(12, 7), 0.01)
    given = [graph.q(x, 0.03, 131), graph.c(0.03), graph.c(131, UINT8), graph.constant(values), graph.c(scale)]
    given += [graph.c([0] * 8 if image else 0, INT8), graph.c(0.2), graph.c(120, UINT8)]
    bias = [graph.c(np.arange(8) * 100, np.int32)] if image else []
    how: dict[str, Any] = {"pads": [1, 1, 1, 1], "strides": [2, 2]} if image else {}
    graph.output(graph.d(graph.node("QLinearConv" if image else "QLinearMatMul", *given, *bias, **how), 0.2, 120))
    return graph


def dynamic(image: bool, dtype: Any = INT8, each: bool = False) -> Made:
    graph, x = of_maps() if image else of_rows()
    source = f"DynamicQuantizeLinear_{len(graph.nodes)}"
    found = graph.node("DynamicQuantizeLinear", x, count=3)
    values = codes(8, 4, 3, 3, dtype=dtype) if image else codes(12, 7, dtype=dtype)
    zero = graph.c([3] * 7 if each else 3, dtype)
    kind = "ConvInteger" if image else "MatMulInteger"
    sums = graph.node(kind, found, graph.constant(values), f"{source}_2", zero)
    scale = graph.node("Mul", f"{source}_1", graph.c(STEPS if each else [0.01] if image else 0.01))
    made = graph.node("Mul", graph.node("Cast", sums, to=1), scale)
    bias = graph.c(np.arange(8).reshape(1, 8, 1, 1) if image else np.arange(7))
    graph.output(graph.node("Add", made, bias))
    return graph


def integers(image: bool) -> Made:
    """Sums of products, with nothing behind that would make numbers of them."""
    graph, x = of_maps() if image else of_rows()
    given = graph.q(x, 0.03, 131)
    weight = graph.constant(codes(8, 4, 3, 3) if image else codes(12, 7))
    how: dict[str, Any] = {"pads": [0, 1, 2, 0], "strides": [2, 1]} if image else {}
    graph.output(graph.node("ConvInteger" if image else "MatMulInteger", given, weight, graph.c(131, UINT8), **how))
    return graph


FORMS: dict[str, tuple[Callable[[], Made], Any, type[Any] | None]] = {
    "int8 weight": (product, ROWS, QuantizedLinear),
    "uint8 weight": (lambda: product(UINT8, zero=120), ROWS, QuantizedLinear),
    "int8 both": (lambda: product(activation=INT8, each=True), ROWS, QuantizedLinear),
    "zero points by column": (lambda: product(zero=5, each=True), ROWS, QuantizedLinear),
    "Gemm": (lambda: general(False, 1.0), ROWS, QuantizedLinear),
    "Gemm turned": (lambda: general(True, 1.0), ROWS, QuantizedLinear),
    "Gemm scaled": (lambda: general(True, 0.5), ROWS, QuantizedLinear),
    "turned": (turned, ROWS, QuantizedLinear),
    "weight quantized in the graph": (from_floats, ROWS, QuantizedLinear),
    "weight alone": (lambda: weight_alone(False), ROWS, QuantizedLinear),
    "blocks": (lambda: weight_alone(True), ROWS, QuantizedLinear),
    "unsigned blocks": (lambda: weight_alone(True, UINT8), ROWS, QuantizedLinear),
    "Conv": (convolution, MAPS, QuantizedConv2d),
    "Conv uint8": (lambda: convolution(UINT8), MAPS, QuantizedConv2d),
    "Conv padded unevenly": (lambda: convolution(pads=[0, 1, 2, 0]), MAPS, QuantizedConv2d),
    "Conv in groups": (lambda: convolution(group=2), MAPS, Conv2d),
    "chain": (chain, MAPS, QuantizedConv2d),
    "Gather": (lambda: lookup(False), np.array([[3, 1], [0, 19]]), QuantizedEmbedding),
    "Gather of codes": (lambda: lookup(True), np.array([[3, 1], [0, 19]]), QuantizedEmbedding),
    "QLinearConv": (lambda: linear(True), MAPS, QuantizedConv2d),
    "QLinearMatMul": (lambda: linear(False), ROWS, QuantizedLinear),
    "dynamic product": (lambda: dynamic(False), ROWS, QuantizedLinear),
    "dynamic product by column": (lambda: dynamic(False, each=True), ROWS, QuantizedLinear),
    "dynamic unsigned": (lambda: dynamic(False, UINT8), ROWS, QuantizedLinear),
    "dynamic convolution": (lambda: dynamic(True), MAPS, QuantizedConv2d),
    "integer product": (lambda: integers(False), ROWS, None),
    "integer convolution": (lambda: integers(True), MAPS, None),
    "uint16": (lambda: product(activation=np.uint16), ROWS, QuantizedLinear),
    "int16": (lambda: product(activation=np.int16), ROWS, QuantizedLinear),
}


@pytest.mark.parametrize("name", FORMS)
def test_answers_are_the_reference_s(name: str, tmp_path: Path) -> None:
    make, data, kind = FORMS[name]
    graph = make()
    model = from_onnx(graph.file(tmp_path))
    expected = reference(graph.model(), {"x": data})
    assert_same(answers(model, data), expected)
    with accelerated():
        assert_same(answers(model, data), expected)
    assert kind is None or any(type(module) is kind for _, module in model.named_modules())


def packed(values: Array, bits: int) -> Array:
    """Return codes as ONNX Runtime packs them along the last axis: the first in the lowest bits."""
    together = 8 // bits
    parts = values.reshape(*values.shape[:-1], -1, together).astype(np.uint16)
    return (parts << (np.arange(together) * bits)).sum(axis=-1).astype(np.uint8)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "codes", "floats"])
@pytest.mark.parametrize("order", [False, True])
def test_a_product_of_blocks_is_that_of_its_numbers(bits: int, zeros: str, order: bool, tmp_path: Path) -> None:
    inner, outer, block, rng = 32, 6, 16, np.random.default_rng(bits)
    values = rng.integers(0, 2**bits, (outer, inner))
    scale = rng.uniform(0.01, 0.1, (outer, inner // block)).astype(np.float32)
    zero = rng.integers(0, 2**bits, (outer, 4)) if zeros != "none" else np.full((outer, 4), 2 ** (bits - 1))
    graph = Quantized(18)
    x = graph.input("x", ["N", inner])
    # Each row of zero points takes whole bytes.
    bytes_of_zeros = packed(np.pad(zero[:, :2], ((0, 0), (0, 2))), bits)[:, : max(1, 2 * bits // 8)]
    given = {"none": "", "codes": graph.constant(bytes_of_zeros), "floats": graph.c(zero[:, :2])}
    blobs = packed(values, bits).reshape(outer, inner // block, -1)
    places = rng.permutation(np.arange(inner) // block) if order else np.arange(inner) // block
    made = graph.node(
        "MatMulNBits", x, graph.constant(blobs), graph.constant(scale.reshape(-1)), given[zeros],
        graph.c(places, np.int32), graph.c(np.arange(outer)),
        domain=MICROSOFT, K=inner, N=outer, bits=bits, block_size=block, accuracy_level=4,
    )  # fmt: skip
    graph.output(made)
    model, data = from_onnx(graph.file(tmp_path)), normal(3, inner)
    weight = (values - zero[:, places]) * scale[:, places].astype(np.float64)
    assert_same(answers(model, data), [(data @ weight.T + np.arange(outer)).astype(np.float32)])
    in_codes = any(isinstance(module, QuantizedLinear) for _, module in model.named_modules())
    assert in_codes == (zeros != "floats" and not order)


A, B = codes(2, 3, 4, 6, dtype=UINT8, seed=1), codes(2, 3, 4, 6, dtype=UINT8, seed=2)
NUMBERS, OTHERS = np.float32(0.02) * (A.astype(np.float32) - 120), np.float32(0.03) * (B.astype(np.float32) - 130)
OF_CODES: dict[str, tuple[dict[str, Any], Any]] = {
    "QLinearAdd": ({}, NUMBERS + OTHERS),
    "QLinearMul": ({}, NUMBERS * OTHERS),
    "QLinearSigmoid": ({}, 1 / (1 + np.exp(-NUMBERS))),
    "QLinearLeakyRelu": ({"alpha": 0.2}, np.where(NUMBERS < 0, NUMBERS * np.float32(0.2), NUMBERS)),
    "QLinearGlobalAveragePool": ({}, NUMBERS.mean(axis=(2, 3), keepdims=True)),
    "QLinearAveragePool": (
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        NUMBERS.reshape(2, 3, 2, 2, 3, 2).mean(axis=(3, 5)),
    ),
    "QLinearReduceMean": ({"axes": [3], "keepdims": 1}, NUMBERS.mean(axis=3, keepdims=True)),
    "QLinearSoftmax": ({"axis": -1, "opset": 13}, np.exp(NUMBERS) / np.exp(NUMBERS).sum(axis=-1, keepdims=True)),
    "QLinearConcat": ({"axis": 1}, np.concatenate([NUMBERS, OTHERS], axis=1)),
    "QLinearWhere": ({}, np.where(A > B, NUMBERS, OTHERS)),
}


@pytest.mark.parametrize("kind", OF_CODES)
def test_an_operator_of_codes_is_that_of_its_numbers(kind: str, tmp_path: Path) -> None:
    attributes, numbers = OF_CODES[kind]
    graph = Quantized(17)
    first = [graph.input("a", A.shape, UINT8), graph.c(0.02), graph.c(120, UINT8)]
    second = [graph.constant(B), graph.c(0.03), graph.c(130, UINT8)] if kind[7:] in "Add Mul Concat Where" else []
    output = [graph.c(0.01), graph.c(110, UINT8)]
    given = {
        "QLinearConcat": [*output, *first, *second],
        "QLinearWhere": [graph.constant(A > B), *first, *second, *output],
    }.get(kind, [*first, *second, *output])
    graph.output(graph.node(kind, *given, domain=MICROSOFT, **attributes))
    (made,) = answers(from_onnx(graph.file(tmp_path)), A)
    assert made.dtype == UINT8
    expected = np.clip(np.rint(numbers / np.float32(0.01)) + 110, 0, 255)
    # A sum in another order may round a half to the other side.
    assert np.abs(made.astype(int) - expected).max() <= (1 if "Mean" in kind or "Pool" in kind else 0)


def test_dynamic_products_of_one_node(tmp_path: Path) -> None:
    values, x = codes(12, 7), ROWS
    scale = np.float32((x.max() - x.min()) / np.float32(255))
    zero = np.rint(-x.min() / scale)
    numbers = (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale
    expected = (numbers @ (values * STEPS.astype(np.float64)) + np.arange(7)).astype(np.float32)
    graph, name = of_rows()
    how = [graph.constant(values), graph.c(STEPS), graph.c([0] * 7, INT8), graph.c(np.arange(7))]
    graph.output(graph.node("DynamicQuantizeMatMul", name, *how, domain=MICROSOFT))
    assert_same(answers(from_onnx(graph.file(tmp_path)), x), [expected])


@pytest.mark.parametrize("table", [np.arange(8), np.arange(8)[:, None]], ids=["line", "rows"])
@pytest.mark.parametrize("known", [True, False])
def test_codes_of_known_numbers_are_worked_out_with_the_shapes(table: Any, known: bool, tmp_path: Path) -> None:
    """A pair of Quantize and Dequantize, and a row of a table of codes, that depend on nothing but lengths."""
    graph = Quantized(18)
    x = graph.input("x", ["N"])
    scale, zero = graph.constant(np.float32(0.5)), graph.constant(np.uint8(3))
    count = graph.node(
        "ConstantOfShape", graph.node("Shape", x), value=numpy_helper.from_array(np.array([1.3], np.float32))
    )
    pair = graph.node("DequantizeLinear", graph.node("QuantizeLinear", count, scale, zero), scale, zero)
    ends = [graph.constant(np.array(each)) for each in (0, 1)]
    length = graph.node("Squeeze", graph.node("Shape", x))
    places = graph.node("Range", ends[0], length, ends[1]) if known else graph.node("Cast", x, to=7)
    rows = graph.node("Gather", graph.constant(table.astype(np.uint8)), places)
    graph.output(graph.node("Add", pair, graph.node("DequantizeLinear", rows, scale, zero)))
    (made,) = answers(from_onnx(graph.file(tmp_path)), np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(made, 1.5 + 0.5 * (table[:4].astype(np.float32) - 3) + np.zeros(4))


def test_the_scale_of_nothing_but_zeros_is_1(tmp_path: Path) -> None:
    graph = Quantized(18)
    graph.output(graph.node("DynamicQuantizeLinear", graph.input("x", [3]), count=3))
    graph.output("DynamicQuantizeLinear_0_1")
    graph.output("DynamicQuantizeLinear_0_2")
    codes, scale, zero = answers(from_onnx(graph.file(tmp_path)), np.zeros(3, np.float32))
    assert [*codes, scale, zero] == [0, 0, 0, 1, 0]


def test_rows_of_a_table_in_blocks(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 16, (20, 32))
    scale = np.random.default_rng(1).uniform(0.01, 0.1, (20, 2)).astype(np.float32)
    graph = Quantized(18)
    tokens = graph.input("x", ["N", "T"], np.int64)
    given = [graph.constant(packed(values, 4)), tokens, graph.constant(scale)]
    graph.output(graph.node("GatherBlockQuantized", *given, domain=MICROSOFT, block_size=16, quantize_axis=1, bits=4))
    model, picked = from_onnx(graph.file(tmp_path)), np.array([[3, 1], [0, 19]])
    numbers = ((values - 8) * np.repeat(scale, 16, axis=1)).astype(np.float32)
    assert_same(answers(model, picked), [numbers[picked]])
    assert any(isinstance(module, QuantizedEmbedding) for _, module in model.named_modules())


def test_codes_save_three_quarters_and_multiply_integers(tmp_path: Path) -> None:
    graph = Quantized(17)
    x = graph.input("x", ["N", 64])
    graph.output(graph.node("MatMul", graph.rounded(x), graph.weight(codes(64, 64))))
    model = from_onnx(graph.file(tmp_path))
    layer = next(module for _, module in model.named_modules() if isinstance(module, QuantizedLinear))
    sizes = layer.memory_usage()
    assert sizes["original_bytes"] == 4 * 64 * 64
    assert sizes["quantized_bytes"] < 64 * 64 + 16
    assert not any(isinstance(module, Linear) for _, module in model.named_modules())
    with Profiler() as profiler:
        answers(model, normal(3, 64))
    assert [event.op for event in profiler.run.events] == ["quantized_linear"]


def test_scales_that_are_none_are_refused(tmp_path: Path) -> None:
    graph, x = of_rows()
    graph.output(graph.rounded(x, np.inf))
    with pytest.raises(ValueError, match="scales"):
        from_onnx(graph.file(tmp_path))
