"""Arithmetic of ONNX operators by their shapes alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tinytorch.core.op import Shape
from tinytorch.perf.ops import contraction

#: Shapes of the operands, None for one that is left out.
Shapes = Sequence[Shape | None]

#: Operators that move, pick or make elements and compute none.
MOVING = frozenset(
    {
        "AffineGrid", "BitCast", "Cast", "CastLike", "CenterCropPad", "Compress", "Concat", "ConstantOfShape",
        "DepthToSpace", "Expand", "EyeLike", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "NonZero",
        "OneHot", "Pad", "Range", "Reshape", "ReverseSequence", "ScatterElements", "ScatterND", "Shape", "Size",
        "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TensorScatter", "Transpose", "Trilu", "Unique",
        "Unsqueeze"
    }
)  # fmt: skip
#: Operators whose arithmetic depends on what they hold or on the data.
_UNKNOWN = frozenset(
    {
        "DFT", "DeformConv", "If", "ImageDecoder", "LinearAttention", "Loop", "MelWeightMatrix", "STFT", "Scan",
        "SequenceMap"
    }
)  # fmt: skip


#: Operators of ONNX Runtime that treat each element by itself or its row, and those that move.
_ELEMENTWISE = frozenset(
    {
        "BiasAdd", "BiasGelu", "BiasSoftmax", "EmbedLayerNormalization", "FastGelu", "Gelu", "QLinearAdd",
        "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul",
        "QLinearReduceMean", "QLinearSigmoid", "QLinearSoftmax", "QuickGelu", "RotaryEmbedding",
        "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "DequantizeLinear", "QuantizeLinear",
        "nchwc.AveragePool", "nchwc.GlobalAveragePool", "nchwc.GlobalMaxPool", "nchwc.MaxPool", "nchwc.Upsample"
    }
)  # fmt: skip
_MICROSOFT = "com.microsoft."


def is_counted(kind: str) -> bool:
    """Return whether the shapes tell the arithmetic of an operator; one of another domain has it before its name."""
    if "." in kind:
        return kind in _FORMULAS or moves(kind) or (kind.startswith(_MICROSOFT) and _own(kind) in _ELEMENTWISE)
    return kind not in _UNKNOWN


def moves(kind: str) -> bool:
    """Return whether an operator moves, picks or makes elements and computes none."""
    return kind in MOVING or _own(kind) in ("nchwc.ReorderInput", "nchwc.ReorderOutput", "GatherBlockQuantized")


def _own(kind: str) -> str:
    return kind.removeprefix(_MICROSOFT)


def has_formula(kind: str) -> bool:
    """Return whether an operator is a contraction."""
    return kind in _FORMULAS


def macs(kind: str, attributes: Mapping[str, Any], inputs: Shapes, output: Shape) -> int | None:
    """Return the multiply-accumulates of an operator that is a contraction; None for all others.

    Args:
        kind: the operator.
        attributes: its attributes.
        inputs: shapes of its operands.
        output: shape of its first output.
    """
    formula = _FORMULAS.get(kind)
    return None if formula is None else formula(attributes, [() if each is None else each for each in inputs], output)


def _product(attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> int:
    return math.prod(output) * (inputs[0][-1] if inputs[0] else 1)


def _general_product(attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> int:
    return math.prod(output) * inputs[0][0 if attributes.get("transA", 0) else 1]


def _convolution(attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> int:
    return math.prod(output) * math.prod(inputs[1][1:])


def _convolution_in_codes(attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> int:
    """With channels in the second axis of the output or in its last."""
    return math.prod(output) * math.prod(inputs[3][1:])


def _transposed(attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> int:
    return math.prod(inputs[0]) * math.prod(inputs[1][1:])


def _einsum(attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> int:
    equation = attributes["equation"]
    return contraction.macs(equation.decode() if isinstance(equation, bytes) else equation, inputs)


def _attention(attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> int:
    """Scores and the weighted sum of values, over the whole square and all positions of the past."""
    query, key, value = inputs[:3]
    past = inputs[4][2] if len(inputs) > 4 and len(inputs[4]) == 4 else 0
    positions = key[-2] + past
    if len(query) == 3:  # heads lie in the last axis
        width, heads, of_keys = query[2], attributes["q_num_heads"], attributes["kv_num_heads"]
        return query[0] * query[1] * positions * (width + heads * value[2] // of_keys)
    return math.prod(query[:3]) * positions * (query[3] + value[3])


def _packed_attention(attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> int:
    """Of queries, keys and values whose heads lie in the last axis, and of the keys and values of a past."""
    (batch, queries, width), (_, positions, _), value = inputs[:3]
    past = _past(inputs[6:], 4, 2)
    return batch * queries * (positions + past) * (width + value[-1])


def _projected_attention(attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> int:
    """Of states that one product makes queries, keys and values of, and of the keys and values of a past."""
    (batch, positions, width), (_, made) = inputs[:2]
    past = _past([*inputs[4:5], *inputs[6:]], 5, 3)
    query, _, value = attributes.get("qkv_hidden_sizes") or [made // 3] * 3
    return batch * positions * (width * made + (positions + past) * (query + value))


def _past(inputs: Sequence[Shape], axes: int, at: int) -> int:
    """Return the positions of a past: the length ``at`` that place in the first of ``inputs``, 0 if it is left out.

    Raises:
        ValueError: if its length is not in its shape: it lies in a buffer, and another input says how full that is.
    """
    if not inputs or not inputs[0]:
        return 0
    if len(inputs[0]) != axes or len(inputs) > 1 + (axes == 4):  # MultiHeadAttention has past values as well
        raise ValueError(f"a past must have its length in its shape, not {inputs[0]}")
    return inputs[0][at]


def _recurrent(gates: int) -> Callable[[Mapping[str, Any], Sequence[Shape], Shape], int]:
    def formula(attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> int:
        """Every gate a product of the input and one of the state, at each time and in each direction."""
        directions, _, width = inputs[1]
        hidden = inputs[2][2]
        return math.prod(inputs[0][:2]) * directions * gates * hidden * (width + hidden)

    return formula


_FORMULAS: dict[str, Callable[[Mapping[str, Any], Sequence[Shape], Shape], int]] = {
    "Attention": _attention,
    "CausalConvWithState": _convolution,
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "ConvTranspose": _transposed,
    "Einsum": _einsum,
    "GRU": _recurrent(3),
    "Gemm": _general_product,
    "LSTM": _recurrent(4),
    "MatMul": _product,
    "MatMulInteger": _product,
    "QLinearConv": _convolution_in_codes,
    "QLinearMatMul": _product,
    "RNN": _recurrent(1),
    "com.microsoft.Attention": _projected_attention,
    "com.microsoft.DynamicQuantizeLSTM": lambda attributes, inputs, output: (
        math.prod(inputs[0][:2]) * (math.prod(inputs[1]) + math.prod(inputs[2]))
    ),
    "com.microsoft.DynamicQuantizeMatMul": _product,
    "com.microsoft.FusedConv": _convolution,
    "com.microsoft.FusedGemm": _general_product,
    "com.microsoft.FusedMatMul": lambda attributes, inputs, output: (
        math.prod(output) * inputs[0][-2 if attributes.get("transA", 0) else -1]
    ),
    "com.microsoft.MatMulIntegerToFloat": _product,
    "com.microsoft.MatMulNBits": _product,
    "com.microsoft.MultiHeadAttention": _packed_attention,
    "com.microsoft.NhwcFusedConv": _convolution,
    "com.microsoft.QAttention": lambda attributes, inputs, output: _projected_attention(
        attributes, [*inputs[:2], (), (), *inputs[8:9]], output
    ),
    "com.microsoft.QGemm": _general_product,
    "com.microsoft.QLinearConv": _convolution_in_codes,
    "com.microsoft.nchwc.Conv": _convolution,
}
