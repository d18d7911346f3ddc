"""Forms of operators that exporters write, beside those of `test_standard`, answer as the onnx package's reference.

What the reference does not know, loops and scans among it, answers as a formula in NumPy.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.perf.onnx.graphs import Case, answers, assert_same, normal, reference
from tests.perf.onnx.test_standard import NAMES
from tinytorch.core.op import Array
from tinytorch.perf.onnx import from_onnx, quantized
from tinytorch.perf.onnx.fused import TRANSLATIONS as FUSED
from tinytorch.perf.onnx.reading import operators

X = normal(2, 3, 4)
MAPS = normal(2, 4, 9, 8)
LINE = normal(2, 4, 11)
VOLUME = normal(2, 4, 5, 6, 7)
WHOLE = np.array([[7, -7, 3], [2, 9, -4]], np.int64)
POSITIVE = np.abs(X) + 0.5
TRUTH = X > 0

ELEMENTWISE = [
    Case("PRelu", X, normal(3), opset=6),
    Case("Clip", np.float32(0.1), X, np.float32(0.5), at=1),
    Case("Clip", X, opset=6, min=-0.2, max=0.2),
    *(Case(kind, X, normal(4, seed=1), at=1) for kind in ("Sub", "Div")),
    Case("Div", WHOLE, np.array([2, 2, -2])),
    *(Case("Pow", X, np.float32(exponent)) for exponent in (2, 3)),
    Case("Where", X, TRUTH, np.float32(2), at=1),
    *(Case("Cast", data, to=to) for data, to in ((X, 7), (X, 9), (WHOLE, 1), (X, 1))),
]
MOVING = [
    Case("Squeeze", normal(2, 1, 3, 1), opset=11, axes=[-1]),
    Case("Unsqueeze", X, opset=11, axes=[1, 3]),
    Case("Split", normal(2, 6), opset=11, axis=1, split=[4, 2], outputs=2),
    Case("Slice", X, opset=9, starts=[1], ends=[3], axes=[1]),
    Case("Gather", np.array([[0, 4], [2, 1]]), normal(5, 3), at=1),
    Case("Gather", np.array([1, 0]), normal(3, 5), at=1, axis=1),
    Case("Pad", X, opset=2, pads=[0, 1, 2, 0, 0, 1], value=1.5),
]
REDUCING = [
    *(
        Case(kind, X, axes=[1, -1], opset=11, keepdims=keepdims)
        for kind in ("ReduceL2", "ReduceMax", "ReduceMean")
        for keepdims in (0, 1)
    ),
    Case("ReduceMean", X, opset=11),
    Case("ReduceSum", X, np.array([], np.int64), noop_with_empty_axes=1),
    *(
        Case(
            "Resize",
            MAPS,
            None,
            np.array([1, 1, *scales], np.float32),
            mode=mode,
            coordinate_transformation_mode=places,
        )
        for mode, scales in (("cubic", (2, 0.5)), ("cubic", (3, 1.5)), ("linear", (3, 1.5)))
        for places in ("half_pixel", "align_corners", "asymmetric")
    ),
    Case("Softmax", X, opset=11, axis=-1),
]
NORMS = [np.abs(normal(4, seed=i)) + 0.1 for i in range(4)]
LAYERS = [
    Case("MatMul", X, normal(5, 3), at=1),
    Case("Gemm", normal(3, 4), normal(4, 5, seed=1), np.float32(2)),
    Case("Gemm", normal(4, 3), normal(5, 4, seed=1), normal(3, 1, seed=2), transA=1, transB=1),
    Case("Gemm", normal(4, 5), normal(3, 4, seed=1), at=1),
    Case("Conv", MAPS, normal(6, 4, 3, 3), pads=[0, 1, 2, 1], dilations=[2, 1]),
    Case("Conv", MAPS, normal(4, 1, 3, 3), normal(4), group=4, pads=[1, 1, 1, 1]),
    Case("Conv", MAPS, normal(6, 2, 1, 1), group=2),
    Case("Conv", MAPS, normal(3, 4, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    Case("Conv", MAPS, normal(3, 4, 2, 2), auto_pad="SAME_LOWER"),
    Case("Conv", LINE, normal(6, 4, 3), normal(6), pads=[1, 1], strides=[2]),
    Case("Conv", VOLUME, normal(6, 4, 3, 2, 3), normal(6), pads=[1, 0, 1, 0, 1, 2], strides=[2, 1, 1]),
    Case("Conv", VOLUME, normal(6, 2, 2, 3, 1), group=2, dilations=[2, 1, 1]),
    Case("Conv", normal(6, 4, 3, 3), MAPS, normal(6), at=1, pads=[1, 0, 0, 1]),
    Case("MaxPool", MAPS, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    Case("MaxPool", MAPS, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    Case("MaxPool", MAPS, kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    Case("MaxPool", LINE, kernel_shape=[3], strides=[2]),
    Case("MaxPool", VOLUME, kernel_shape=[2, 3, 2], strides=[1, 2, 2], pads=[0, 1, 1, 1, 1, 0]),
    Case("AveragePool", VOLUME, kernel_shape=[2, 3, 2], strides=[1, 2, 2], pads=[0, 1, 1, 1, 1, 0]),
    Case("AveragePool", MAPS, kernel_shape=[3, 3], strides=[2, 2]),
    Case("AveragePool", MAPS, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    Case("AveragePool", MAPS, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    Case("AveragePool", MAPS, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    *(
        Case("AveragePool", MAPS, kernel_shape=[2, 3], auto_pad=side, count_include_pad=counted)
        for side in ("SAME_UPPER", "SAME_LOWER")
        for counted in (0, 1)
    ),
    Case("AveragePool", MAPS, kernel_shape=[3, 3], pads=[0, 1, 1, 0]),
    Case("AveragePool", LINE, kernel_shape=[4], strides=[3]),
    Case("BatchNormalization", LINE, *NORMS),
    Case("BatchNormalization", normal(5, 4), *NORMS),
]


#: What whole numbers allow, for each of their dtypes: also where a negative has no place, or the least has no opposite.
WHOLE_NUMBERS = [
    one
    for dtype in (np.uint8, np.int8, np.int32, np.int64)
    for low, high in [(np.iinfo(dtype).min, np.iinfo(dtype).max)]
    for whole in [np.array([[3, 0, 7, 2], [low, 1, 5, high]], dtype)]
    for one in (
        *(Case(kind, whole, axis=1, keepdims=0) for kind in ("ArgMax", "ArgMin")),
        *(Case(kind, whole, np.array([1])) for kind in ("ReduceMax", "ReduceMin")),
        Case("Clip", whole, np.array(3, dtype)),
        Case("Clip", whole, None, np.array(2, dtype)),
        *(Case(kind, whole, np.array([1, 2, 3, 4], dtype)) for kind in ("Max", "Min", "Equal", "Less")),
        Case("TopK", whole, np.array([2]), outputs=2),
        Case("Where", np.array([[True], [False]]), whole, whole[::-1].copy()),
        Case("Gather", whole, np.array([1, -1]), axis=1),
        Case("ScatterElements", whole, np.array([[1], [0]]), np.array([[9], [8]], dtype), axis=1),
        Case("Not", TRUTH),
    )
] + [
    one
    for dtype in (np.int32, np.int64)
    for small in [np.array([[5, -3, 7, 2], [-8, 1, 5, 6]], dtype)]
    for one in (
        *(
            Case(kind, small, np.array([1]), keepdims=0)
            for kind in ("ReduceSum", "ReduceMean", "ReduceProd")
        ),
        *(Case(kind, small) for kind in ("Abs", "Neg", "Sign", "Relu")),
        *(Case(kind, small, np.array([2, -3, 4, 1], dtype)) for kind in ("Add", "Sub", "Mul")),
        Case("Pow", small, np.array(2, dtype)),
        Case("Pow", small, np.array([2.0, 1.0, 3.0, 0.0], np.float32)),
        Case("MatMul", small, small.T.copy()),
        Case("PRelu", small, np.array([2, -3, 4, 1], dtype)),
    )
]  # fmt: skip
CASES = [*ELEMENTWISE, *MOVING, *REDUCING, *LAYERS, *WHOLE_NUMBERS]


@pytest.mark.parametrize("one", CASES, ids=str)
def test_answers_are_the_reference_s(one: Case, tmp_path: Path) -> None:
    made = one.made()
    assert_same(answers(from_onnx(made.file(tmp_path)), one.data), reference(made.model(), {"x": one.data}))


def test_every_operator_has_a_case() -> None:
    elsewhere = {*FUSED, *quantized.TRANSLATIONS, *NAMES, "Constant", "GlobalLpPool"}
    assert {one.kind for one in CASES} - {"ReduceProd"} | elsewhere == set(operators())


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _lstm(x: Array, w: Array, r: Array, b: Array, _: None, h0: Array, c0: Array) -> list[Array]:
    """Return what ONNX's equations of i, o, f and c give, forwards and backwards."""
    expected = np.zeros((5, 2, 2, 4), np.float32)
    for way, times in ((0, range(5)), (1, range(4, -1, -1))):
        h, c = h0[way].astype(np.float64), c0[way].astype(np.float64)
        for time in times:
            i, o, f, g = np.split(x[time] @ w[way].T + h @ r[way].T + b[way][:16] + b[way][16:], 4, axis=1)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            h = _sigmoid(o) * np.tanh(c)
            expected[time, way] = h
    return [expected, np.stack([expected[4, 0], expected[0, 1]])]


def _cut(x: Array, pads: Array) -> list[Array]:
    expected = np.zeros((2, 2, 5), np.float32)
    expected[:, :, 2:] = x[:, 1:, :3]
    return [expected]


def _body(nodes: Sequence[tuple[str, str, str]], inputs: Sequence[Any], outputs: Sequence[tuple[str, Any]]) -> Any:
    """Return a graph; nodes are operator, operands apart by spaces, and output."""
    types = {"turn": TensorProto.INT64, "goes": TensorProto.BOOL, "on": TensorProto.BOOL}
    made = [helper.make_node(kind, operands.split(), [output]) for kind, operands, output in nodes]
    ends = [
        [helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), shape) for name, shape in side]
        for side in (inputs, outputs)
    ]
    return helper.make_graph(made, "body", *ends)


THREE, STATE, SMALL = normal(3, 4, 2), np.zeros((4, 2), np.float32), np.array([[3, -4], [1, 2]], np.int32)
OF_OUTER_NAMES = _body(
    [("Identity", "goes", "on"), ("Add", "state state", "twice"), ("Mul", "twice x", "next")],
    [("turn", []), ("goes", []), ("state", [3, 4, 2])],
    [("on", []), ("next", [3, 4, 2])],
)
SUMS = _body(
    [("Add", "state part", "next"), ("Mul", "next x", "made")],
    [("state", [4, 2]), ("part", [4, 2])],
    [("next", [4, 2]), ("made", [3, 4, 2])],
)
#: What the reference does not run, or in another dtype, and ONNX Runtime does.
BY_FORMULA = [
    Case("ReduceSumSquare", SMALL, [1], expected=lambda *_: [np.array([[25], [5]], np.int32)]),
    Case("Pow", SMALL, np.array([[-1], [-2]], np.int32), expected=lambda *_: [np.array([[0, 0], [1, 0]], np.int32)]),
    Case(
        "Loop", THREE, 3, True, normal(4, 2), at=None, body=OF_OUTER_NAMES, opset=17,
        expected=lambda x, turns, goes, state: [8 * state * x**3],
    ),
    Case(
        "Scan", THREE, STATE, at=1, body=SUMS, num_scan_inputs=1, outputs=2, opset=17,
        expected=lambda x, state: [x.sum(0), x.cumsum(0)[:, None] * x],
    ),
]  # fmt: skip
HALVES = np.array([[[300.0, -200.0, 250.0, 100.0]], [[3.0, 400.0, -100.0, 5.0]]], np.float16)


def _in_halves(formula: Any) -> Any:
    """Return the formula worked out in float64, and its answer as halves."""
    return lambda x, *rest: [np.asarray(formula(x.astype(np.float64)), np.float16)]


def _over_squares(around: Any) -> Any:
    return _in_halves(lambda x: x / np.sqrt(around(x * x)))


#: Halves whose squares and sums leave 16 bits, in which the reference works them out.
OF_HALVES = [
    Case("ReduceL2", HALVES, [-1], expected=_in_halves(lambda x: np.sqrt((x * x).sum(-1, keepdims=True)))),
    Case("GlobalLpPool", HALVES, expected=_in_halves(lambda x: np.sqrt((x * x).sum(-1, keepdims=True)))),
    Case(
        "LpPool", HALVES, kernel_shape=[2], expected=_in_halves(lambda x: np.sqrt(x[..., 1:] ** 2 + x[..., :-1] ** 2))
    ),
    Case("LpNormalization", HALVES, expected=_over_squares(lambda squares: squares.sum(-1, keepdims=True))),
    Case("CumSum", np.ones(3000, np.float16), 0, expected=_in_halves(np.cumsum)),
    Case(
        "RMSNormalization",
        HALVES,
        np.ones(4, np.float16),
        epsilon=1e-6,
        opset=23,
        expected=_over_squares(lambda squares: squares.mean(-1, keepdims=True) + 1e-6),
    ),
    Case(
        "LRN",
        HALVES.reshape(2, 1, 2, 2),
        size=1,
        alpha=1.0,
        beta=0.5,
        expected=_over_squares(lambda squares: 1 + squares),
    ),
]
#: Lengths and places where float32 scales, which the standard has, and float64 ones differ.
SCALED = [
    Case(
        "Resize",
        np.arange(10, dtype=np.float32),
        None,
        np.array([scale], np.float32),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
        expected=lambda x, *_, at=at: [x[at]],
    )
    for scale, at in (
        (0.6, [0, 1, 3, 5, 6, 8]),
        (0.7, [0, 1, 2, 4, 5, 7, 8]),
        (2.1, [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]),
    )
]
#: What the reference refuses or does otherwise.
ALONE = [
    Case(
        "LSTM", normal(5, 2, 3), normal(2, 16, 3, seed=1), normal(2, 16, 4, seed=2), normal(2, 32, seed=3), None,
        *(normal(2, 2, 4, seed=seed) for seed in (4, 5)), hidden_size=4, direction="bidirectional", outputs=2,
        expected=_lstm,
    ),
    Case("Pad", X, [0, -1, 2, 0, 0, -1], expected=_cut),
    Case(
        "MaxPool", -np.arange(1, 10, dtype=np.int8).reshape(1, 1, 3, 3), kernel_shape=[2, 2], pads=[0, 0, 1, 1],
        expected=lambda x: [x],
    ),
    Case(
        "OneHot", np.array([2, 0, -1]), np.array([4]), np.array([0, 1], np.float32),
        expected=lambda x, *_: [np.eye(4, dtype=np.float32)[x]],
    ),
    Case(
        "LayerNormalization", X, np.array([2], np.float32),
        expected=lambda x, _: [(2 * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5))],
    ),
    Case("Softmax", X, opset=11, axis=1, expected=lambda x: [np.exp(x) / np.exp(x).sum(axis=(1, 2), keepdims=True)]),
]  # fmt: skip


@pytest.mark.parametrize("one", [*BY_FORMULA, *ALONE, *OF_HALVES, *SCALED], ids=str)
def test_answers_are_those_of_formulas(one: Case, tmp_path: Path) -> None:
    tolerance = 1e-3 if one.data.dtype == np.float16 else 1e-5
    ours = answers(from_onnx(one.made().file(tmp_path)), one.data)
    assert_same(ours, one.expected(one.data, *one.operands), tolerance)


@pytest.mark.parametrize(("older", "newer"), [("bilinear", "linear"), ("bicubic", "cubic"), ("nearest", "nearest")])
def test_modes_of_older_grid_samples_are_those_of_newer_ones(older: str, newer: str, tmp_path: Path) -> None:
    grid = np.random.default_rng(0).uniform(-1, 1, (2, 3, 5, 2)).astype(np.float32)
    before, after = (
        Case("GridSample", MAPS, grid, mode=mode, opset=opset).made() for mode, opset in ((older, 16), (newer, 20))
    )
    assert_same(answers(from_onnx(before.file(tmp_path)), MAPS), reference(after.model(), {"x": MAPS}))
