"""Forms of operators that exporters write, beside those of `test_standard`, answer as the onnx package's reference."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.perf.onnx.graphs import Made, answers, assert_same, normal, reference
from tests.perf.onnx.test_standard import NAMES
from tinytorch.core.op import Array
from tinytorch.perf.onnx import from_onnx, quantized
from tinytorch.perf.onnx.fused import TRANSLATIONS as FUSED
from tinytorch.perf.onnx.reading import operators


@dataclass(frozen=True)
class Case:
    """One node: the operand in the first place is the input, numbers are constants, None is left out."""

    kind: str
    data: Any
    operands: tuple[Any, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 18
    outputs: int = 1
    #: Position of the input among the operands.
    at: int = 0

    def made(self) -> Made:
        graph = Made(self.opset)
        data = np.asarray(self.data)
        x = graph.input("x", data.shape, data.dtype)
        names = ["" if value is None else graph.constant(np.asarray(value)) for value in self.operands]
        names.insert(self.at, x)
        first = graph.node(self.kind, *names, count=self.outputs, **self.attributes)
        for index in range(self.outputs):
            graph.output(first if index == 0 else f"{first}_{index}")
        return graph


def case(
    kind: str, data: Any, *operands: Any, opset: int = 18, outputs: int = 1, at: int = 0, **attributes: Any
) -> Case:
    return Case(kind, data, operands, attributes, opset, outputs, at)


X = normal(2, 3, 4)
MAPS = normal(2, 4, 9, 8)
LINE = normal(2, 4, 11)
VOLUME = normal(2, 4, 5, 6, 7)
WHOLE = np.array([[7, -7, 3], [2, 9, -4]], np.int64)
POSITIVE = np.abs(X) + 0.5
TRUTH = X > 0

ELEMENTWISE = [
    case("PRelu", X, normal(3), opset=6),
    case("Clip", np.float32(0.1), X, np.float32(0.5), at=1),
    case("Clip", X, opset=6, min=-0.2, max=0.2),
    *(case(kind, X, normal(4, seed=1), at=1) for kind in ("Sub", "Div")),
    case("Div", WHOLE, np.array([2, 2, -2])),
    *(case("Pow", X, np.float32(exponent)) for exponent in (2, 3)),
    case("Where", X, TRUTH, np.float32(2), at=1),
    *(case("Cast", data, to=to) for data, to in ((X, 7), (X, 9), (WHOLE, 1), (X, 1))),
]
MOVING = [
    case("Squeeze", normal(2, 1, 3, 1), opset=11, axes=[-1]),
    case("Unsqueeze", X, opset=11, axes=[1, 3]),
    case("Split", normal(2, 6), opset=11, axis=1, split=[4, 2], outputs=2),
    case("Slice", X, opset=9, starts=[1], ends=[3], axes=[1]),
    case("Gather", np.array([[0, 4], [2, 1]]), normal(5, 3), at=1),
    case("Gather", np.array([1, 0]), normal(3, 5), at=1, axis=1),
    case("Pad", X, opset=2, pads=[0, 1, 2, 0, 0, 1], value=1.5),
]
REDUCING = [
    *(
        case(kind, X, axes=[1, -1], opset=11, keepdims=keepdims)
        for kind in ("ReduceL2", "ReduceMax", "ReduceMean")
        for keepdims in (0, 1)
    ),
    case("ReduceMean", X, opset=11),
    case("ReduceSum", X, np.array([], np.int64), noop_with_empty_axes=1),
    case("Softmax", X, opset=11, axis=-1),
]
NORMS = [np.abs(normal(4, seed=i)) + 0.1 for i in range(4)]
LAYERS = [
    case("MatMul", X, normal(5, 3), at=1),
    case("Gemm", normal(3, 4), normal(4, 5, seed=1), np.float32(2)),
    case("Gemm", normal(4, 3), normal(5, 4, seed=1), normal(3, 1, seed=2), transA=1, transB=1),
    case("Gemm", normal(4, 5), normal(3, 4, seed=1), at=1),
    case("Conv", MAPS, normal(6, 4, 3, 3), pads=[0, 1, 2, 1], dilations=[2, 1]),
    case("Conv", MAPS, normal(4, 1, 3, 3), normal(4), group=4, pads=[1, 1, 1, 1]),
    case("Conv", MAPS, normal(6, 2, 1, 1), group=2),
    case("Conv", MAPS, normal(3, 4, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    case("Conv", MAPS, normal(3, 4, 2, 2), auto_pad="SAME_LOWER"),
    case("Conv", LINE, normal(6, 4, 3), normal(6), pads=[1, 1], strides=[2]),
    case("Conv", VOLUME, normal(6, 4, 3, 2, 3), normal(6), pads=[1, 0, 1, 0, 1, 2], strides=[2, 1, 1]),
    case("Conv", VOLUME, normal(6, 2, 2, 3, 1), group=2, dilations=[2, 1, 1]),
    case("Conv", normal(6, 4, 3, 3), MAPS, normal(6), at=1, pads=[1, 0, 0, 1]),
    case("MaxPool", MAPS, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case("MaxPool", MAPS, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    case("MaxPool", MAPS, kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    case("MaxPool", LINE, kernel_shape=[3], strides=[2]),
    case("MaxPool", VOLUME, kernel_shape=[2, 3, 2], strides=[1, 2, 2], pads=[0, 1, 1, 1, 1, 0]),
    case("AveragePool", VOLUME, kernel_shape=[2, 3, 2], strides=[1, 2, 2], pads=[0, 1, 1, 1, 1, 0]),
    case("AveragePool", MAPS, kernel_shape=[3, 3], strides=[2, 2]),
    case("AveragePool", MAPS, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case("AveragePool", MAPS, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    case("AveragePool", MAPS, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    case("AveragePool", MAPS, kernel_shape=[3, 3], pads=[0, 1, 1, 0]),
    case("AveragePool", LINE, kernel_shape=[4], strides=[3]),
    case("BatchNormalization", LINE, *NORMS),
    case("BatchNormalization", normal(5, 4), *NORMS),
]


def recurrent(kind: str, gates: int, states: int, directions: int, **attributes: Any) -> Case:
    """Return a recurrent node over 5 times, 2 sequences, 3 features and a state of 4."""
    weights = (normal(directions, gates * 4, 3, seed=1), normal(directions, gates * 4, 4, seed=2))
    starts = [normal(directions, 2, 4, seed=4 + index) for index in range(states)]
    operands = (*weights, normal(directions, 2 * gates * 4, seed=3), None, *starts)
    way = {"direction": "bidirectional"} if directions == 2 else {}
    return Case(kind, normal(5, 2, 3), operands, {"hidden_size": 4, **way, **attributes}, 18, 1 + states)


#: What whole numbers allow, for each of their dtypes: also where a negative has no place, or the least has no opposite.
WHOLE_NUMBERS = [
    one
    for dtype in (np.uint8, np.int8, np.int32, np.int64)
    for low, high in [(np.iinfo(dtype).min, np.iinfo(dtype).max)]
    for whole in [np.array([[3, 0, 7, 2], [low, 1, 5, high]], dtype)]
    for one in (
        *(case(kind, whole, axis=1, keepdims=0) for kind in ("ArgMax", "ArgMin")),
        *(case(kind, whole, np.array([1])) for kind in ("ReduceMax", "ReduceMin")),
        case("Clip", whole, np.array(3, dtype)),
        case("Clip", whole, None, np.array(2, dtype)),
        *(case(kind, whole, np.array([1, 2, 3, 4], dtype)) for kind in ("Max", "Min", "Equal", "Less")),
        case("TopK", whole, np.array([2]), outputs=2),
        case("Where", np.array([[True], [False]]), whole, whole[::-1].copy()),
        case("Gather", whole, np.array([1, -1]), axis=1),
        case("ScatterElements", whole, np.array([[1], [0]]), np.array([[9], [8]], dtype), axis=1),
        case("Not", TRUTH),
    )
] + [
    one
    for dtype in (np.int32, np.int64)
    for small in [np.array([[5, -3, 7, 2], [-8, 1, 5, 6]], dtype)]
    for one in (
        *(
            case(kind, small, np.array([1]), keepdims=0)
            for kind in ("ReduceSum", "ReduceMean", "ReduceProd")
        ),
        *(case(kind, small) for kind in ("Abs", "Neg", "Sign", "Relu")),
        *(case(kind, small, np.array([2, -3, 4, 1], dtype)) for kind in ("Add", "Sub", "Mul")),
        case("Pow", small, np.array(2, dtype)),
        case("Pow", small, np.array([2.0, 1.0, 3.0, 0.0], np.float32)),
        case("MatMul", small, small.T.copy()),
        case("PRelu", small, np.array([2, -3, 4, 1], dtype)),
    )
]  # fmt: skip
CASES = [*ELEMENTWISE, *MOVING, *REDUCING, *LAYERS, *WHOLE_NUMBERS]


def called(one: Any) -> str:
    """Return what a case is called among the tests."""
    return "-".join(
        [
            one.kind,
            str(one.opset),
            str(np.asarray(one.data).dtype),
            *(f"{name}={value}" for name, value in one.attributes.items()),
        ]
    )


@pytest.mark.parametrize("one", CASES, ids=called)
def test_answers_are_the_reference_s(one: Case, tmp_path: Path) -> None:
    made = one.made()
    data = np.asarray(one.data)
    assert_same(answers(from_onnx(made.file(tmp_path)), data), reference(made.model(), {"x": data}))


def test_every_operator_has_a_case() -> None:
    elsewhere = {*FUSED, *quantized.TRANSLATIONS, *NAMES, "Constant"}
    assert {one.kind for one in CASES} - {"ReduceProd"} | elsewhere == set(operators())


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def test_an_lstm_goes_both_ways(tmp_path: Path) -> None:
    """By the equations: i, o, f, c of ONNX; the reference's own code knows no second direction."""
    one = recurrent("LSTM", 4, 2, 2)
    x, (w, r, b, _, h0, c0) = np.asarray(one.data, np.float64), one.operands
    expected = np.zeros((5, 2, 2, 4))
    for way, times in ((0, range(5)), (1, range(4, -1, -1))):
        h, c = h0[way].astype(np.float64), c0[way].astype(np.float64)
        for time in times:
            i, o, f, g = np.split(x[time] @ w[way].T + h @ r[way].T + b[way][:16] + b[way][16:], 4, axis=1)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            h = _sigmoid(o) * np.tanh(c)
            expected[time, way] = h
    ours = answers(from_onnx(one.made().file(tmp_path)), one.data)
    np.testing.assert_allclose(ours[0], expected, atol=1e-5)
    np.testing.assert_allclose(ours[1], [expected[4, 0], expected[0, 1]], atol=1e-5)


def test_padding_below_zero_cuts(tmp_path: Path) -> None:
    """The reference refuses what the standard allows."""
    one = case("Pad", X, np.array([0, -1, 2, 0, 0, -1]))
    (cut,) = answers(from_onnx(one.made().file(tmp_path)), X)
    expected = np.zeros((2, 2, 5), np.float32)
    expected[:, :, 2:] = X[:, 1:, :3]
    np.testing.assert_array_equal(cut, expected)


def test_pools_of_whole_numbers_are_padded_with_the_least(tmp_path: Path) -> None:
    """The reference pads with what is no whole number."""
    below = -np.arange(1, 10, dtype=np.int8).reshape(1, 1, 3, 3)
    one = case("MaxPool", below, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    (most,) = answers(from_onnx(one.made().file(tmp_path)), below)
    assert most.dtype == np.int8
    np.testing.assert_array_equal(most[0, 0], [[-1, -2, -3], [-4, -5, -6], [-7, -8, -9]])


SMALL = np.array([[3, -4], [1, 2]], np.int32)
#: What ONNX Runtime runs of whole numbers and the reference does not, or in another dtype.
CUT_OFF = [
    (case("ReduceSumSquare", SMALL, np.array([1])), [[25], [5]]),
    (case("Pow", SMALL, np.array([[-1], [-2]], np.int32)), [[0, 0], [1, 0]]),
]


@pytest.mark.parametrize(("one", "expected"), CUT_OFF, ids=lambda each: each.kind if isinstance(each, Case) else "")
def test_whole_numbers_stay_whole(one: Case, expected: Any, tmp_path: Path) -> None:
    (made,) = answers(from_onnx(one.made().file(tmp_path)), one.data)
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, expected)


def test_older_softmax_joins_the_axes_behind(tmp_path: Path) -> None:
    """Up to version 12; the reference knows the newer one alone."""
    (weights,) = answers(from_onnx(case("Softmax", X, opset=11, axis=1).made().file(tmp_path)), X)
    expected = np.exp(X) / np.exp(X).sum(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
