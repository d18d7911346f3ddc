"""Quantized ONNX files: every form is brought to codes and their scales, and products of codes become our layers.

Three forms come as one. QDQ is what all are brought to: QuantizeLinear and DequantizeLinear around float operators. An
operator of codes (QLinearConv, QGemm, ...) is written as that first. And dynamic products (MatMulInteger, ...) become a
product of what DynamicQuantizeLinear made. Then a product with a constant weight in codes takes the codes as they are,
and the scale of its input where that is known: it quantizes its input itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Embedding
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx.elementwise import tensor_of, without_gradient
from tinytorch.perf.onnx.layers import OnImage, Window, as_image, from_image, linear_of, surrounded
from tinytorch.perf.onnx.node import Node, Operand, Runner, Translation, Untranslatable
from tinytorch.perf.onnx.recurrent import Recurrent, long_short_term
from tinytorch.perf.onnx.shapes import reshaped
from tinytorch.perf.ops import codes as coding
from tinytorch.perf.ops.affine import Quantized, Scheme

MICROSOFT = "com.microsoft"
#: Bits of the codes that our layers hold, by dtype.
_BITS = {"int8": 8, "uint8": 8, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
#: What picks and moves codes, and so may as well pick and move their numbers.
_MOVING = ("Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
_FLOAT = np.dtype(np.float32)


@dataclass(frozen=True)
class Coded:
    """A constant as a file holds it: codes, with a scale and zero point for all, along an axis, or of blocks of it."""

    codes: Array
    scale: Array
    zero_point: Array | None
    axis: int
    block: int

    def numbers(self) -> Array:
        """Return the numbers that it stands for, of the scale's dtype."""
        return coding.decoded(self.codes, self.scale, self.zero_point, self.axis, self.block)

    def turned(self, axes: Sequence[int]) -> Coded:
        """Return it with its axes in another order."""
        scale, zero = self.scale, self.zero_point
        if scale.ndim == self.codes.ndim:
            scale, zero = scale.transpose(axes), None if zero is None else zero.transpose(axes)
        axis = list(axes).index(self.axis % self.codes.ndim)
        return replace(self, codes=self.codes.transpose(axes), scale=scale, zero_point=zero, axis=axis)

    def matrix(self, of: Callable[[Array], Array], outputs: int, axis: int = -1, factor: float = 1) -> Quantized | None:
        """Return the codes as a layer holds them; None where they have other scales than a layer can have.

        Args:
            of: makes the layer's matrix of the codes.
            outputs: the axis of the codes along which outputs (of a table, its rows) lie.
            axis: of the matrix, along which they lie there.
            factor: what all numbers are to be multiplied by.
        """
        bits, rank = _BITS.get(self.codes.dtype.name), self.codes.ndim
        if bits is None or self.scale.dtype != _FLOAT:
            return None
        half = 0 if self.codes.dtype.name.startswith("int") else 2 ** (bits - 1)
        zero = np.zeros(self.scale.shape, np.int32) if self.zero_point is None else self.zero_point.astype(np.int32)
        scale, zero = self.scale * np.float32(factor), zero - half
        per: Literal["tensor", "channel", "group"] = "tensor"
        if scale.size == 1:
            scale, zero = scale.reshape(()), zero.reshape(())
        elif self.block and rank == 2 and self.axis % 2 != outputs:
            per, turn = "group", axis == -1 and outputs == 0
            scale, zero = (scale.T, zero.T) if turn else (scale, zero)
        elif not self.block and scale.ndim == 1 and self.axis % rank == outputs:
            per, shape = "channel", (1, -1) if axis == -1 else (-1, 1)
            scale, zero = scale.reshape(shape), zero.reshape(shape)
        else:
            return None
        # Codes without a sign become those with one by half of their range.
        numbers = (of(self.codes).astype(np.int16) - half).astype(np.int8)
        scheme = Scheme(bits, not zero.any(), per, axis, self.block or 32)
        return Quantized(np.ascontiguousarray(numbers), np.ascontiguousarray(scale), np.ascontiguousarray(zero), scheme)


@dataclass(frozen=True)
class Coding:
    """How numbers become codes and codes numbers, where the file says it: as `ops.codes.quantize_linear` takes it.

    ``dtype`` is that of the codes by name, "" where a file leaves it to what is decoded; ``both`` says that numbers are
    rounded to what their codes stand for.
    """

    scale: Array
    zero_point: Array | None
    dtype: str
    axis: int
    block: int
    both: bool = False

    def is_for_all(self, other: Coding) -> bool:
        """Return whether this and another are the same, with one scale for all numbers."""
        zeros = [0 if each.zero_point is None else each.zero_point.astype(np.float64) for each in (self, other)]
        same = self.scale.size == other.scale.size == 1 and self.scale.item() == other.scale.item()
        return same and self.dtype == (other.dtype or self.dtype) and bool(np.all(zeros[0] == zeros[1]))

    def of_int8(self) -> tuple[Array, Array] | None:
        """Return scale and zero point, of shape (), for int8 codes; None where codes are others."""
        if self.dtype not in ("int8", "uint8") or self.scale.size != 1 or self.scale.dtype != _FLOAT:
            return None
        zero = 0 if self.zero_point is None else int(self.zero_point.item())
        return self.scale.reshape(()), np.array(zero - (128 if self.dtype == "uint8" else 0), np.int32)


@dataclass(frozen=True)
class InCodes:
    """How a layer multiplies in codes: its weight, and scale and zero point of its input.

    ``activation`` is None for an input that stays float, and "dynamic" where each call's range gives them.
    """

    weight: Quantized
    activation: tuple[Array, Array] | Literal["dynamic"] | None = None


def coded(node: Node) -> Coded | None:
    """Return the constant that a DequantizeLinear of constants stands for; None if it is none."""
    if node.kind != "DequantizeLinear":
        return None
    values, scale, zero = (node.constant(index) for index in range(3))
    if values is None or scale is None or (zero is None and node.has(2)):
        return None
    return Coded(values, scale, zero, node.get("axis", 1), node.get("block_size", 0))


def moved(node: Node, weight: Coded) -> Coded | None:
    """Return what a node that only turns a constant in codes makes of it; None if it does something else."""
    if node.kind == "Identity":
        return weight
    if node.kind != "Transpose":
        return None
    return weight.turned(node.get("perm", None) or range(weight.codes.ndim)[::-1])


def expanded(node: Any, constants: dict[str, Array]) -> list[Any] | None:
    """Return an operator of codes as nodes of numbers between DequantizeLinear and QuantizeLinear; None for others."""
    make = _EXPANSIONS.get(node.op_type) if node.domain in ("", "ai.onnx", MICROSOFT) else None
    if make is None or (node.domain != MICROSOFT and node.op_type not in ("QLinearConv", "QLinearMatMul")):
        return None
    writer = _Writer(node, constants)
    make(writer)
    return writer.nodes


class _Writer:
    """The nodes that stand for one."""

    def __init__(self, node: Any, constants: dict[str, Array]) -> None:
        from onnx import helper

        self.make = helper.make_node
        self.node, self.constants, self.nodes = node, constants, list[Any]()
        self.inputs = [*node.input, *[""] * 16]
        self.attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}

    def new(self, what: str) -> str:
        """Return a name that nothing else has."""
        return f"{what} of {self.node.output[0]} {len(self.nodes)} {len(self.constants)}"

    def constant(self, array: Any) -> str:
        """Return the name of a new constant."""
        name = self.new("constant")
        self.constants[name] = np.asarray(array)
        return name

    def add(self, kind: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Add a node; return its output."""
        output = output or self.new(kind)
        self.nodes.append(self.make(kind, list(inputs), [output], name=self.node.name, **attributes))
        return output

    def numbers(self, first: int, axis: int | None = None) -> str:
        """Return the numbers of the codes in place ``first``, whose scale and zero point follow."""
        values, scale, zero = self.inputs[first : first + 3]
        return self.decode(values, scale, zero, axis)

    def decode(self, values: str, scale: str, zero: str, axis: int | None = None) -> str:
        """Return the numbers of codes."""
        attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
        return self.add("DequantizeLinear", [values, scale, zero][: 3 if zero else 2], **attributes)

    def encode(self, numbers: str, scale: str, zero: str) -> None:
        """Write the codes of numbers, which are the output of the whole."""
        self.add("QuantizeLinear", [numbers, scale, *([zero] if zero else [])], self.node.output[0])

    def product_scale(self, *names: str, factor: float = 1) -> str:
        """Return the scale of a bias in codes: that of the sums."""
        if any(name not in self.constants for name in names):
            raise Untranslatable("a bias whose scale depends on data")
        product = np.asarray(factor, np.float32)
        for name in names:
            product = np.asarray(product * self.constants[name].astype(np.float32))
        return self.constant(product)


def _one(writer: _Writer, kind: str, **attributes: Any) -> None:
    """Write what takes one operand: codes, scale, zero point, then scale and zero point of the output."""
    made = writer.add(kind, [writer.numbers(0)], **attributes)
    writer.encode(made, *writer.inputs[3:5])


def _two(writer: _Writer, kind: str) -> None:
    made = writer.add(kind, [writer.numbers(0), writer.numbers(3)])
    writer.encode(made, *writer.inputs[6:8])


def _with(kind: str, *names: str) -> Callable[[_Writer], None]:
    """Return what writes an operator of one operand with these attributes; others are refused."""

    def write(writer: _Writer) -> None:
        if writer.attributes.pop("channels_last", 0):
            raise Untranslatable("channels_last=1")
        writer.attributes.pop("opset", None)
        unknown = set(writer.attributes) - set(names)
        if unknown:
            raise Untranslatable(f"attribute {sorted(unknown)[0]}")
        _one(writer, kind, **writer.attributes)

    return write


def _expand_convolution(writer: _Writer) -> None:
    x, weight = writer.numbers(0), writer.numbers(3, axis=0)
    operands = [x, weight]
    if bias := writer.inputs[8]:
        operands.append(writer.decode(bias, writer.product_scale(writer.inputs[1], writer.inputs[4]), "", axis=0))
    if writer.attributes.pop("channels_last", 0):
        raise Untranslatable("channels_last=1")
    made = writer.add("Conv", operands, **writer.attributes)
    writer.encode(made, *writer.inputs[6:8])


def _expand_product(writer: _Writer) -> None:
    made = writer.add("MatMul", [writer.numbers(0, axis=-2), writer.numbers(3, axis=-1)])
    writer.encode(made, *writer.inputs[6:8])


def _expand_general_product(writer: _Writer) -> None:
    how = writer.attributes
    operands = [writer.numbers(0), writer.numbers(3, axis=0 if how.get("transB", 0) else 1)]
    if bias := writer.inputs[6]:
        scale = writer.product_scale(writer.inputs[1], writer.inputs[4], factor=how.get("alpha", 1.0))
        operands.append(writer.decode(bias, scale, "", axis=-1))
    if writer.inputs[7]:
        writer.encode(writer.add("Gemm", operands, **how), *writer.inputs[7:9])
    else:
        writer.add("Gemm", operands, writer.node.output[0], **how)


def _expand_joined(writer: _Writer) -> None:
    parts = [writer.numbers(at) for at in range(2, len(writer.node.input), 3)]
    writer.encode(writer.add("Concat", parts, **writer.attributes), *writer.inputs[:2])


def _expand_choice(writer: _Writer) -> None:
    made = writer.add("Where", [writer.inputs[0], writer.numbers(1), writer.numbers(4)])
    writer.encode(made, *writer.inputs[7:9])


def _expand_to_float(writer: _Writer) -> None:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = writer.inputs[:7]
    _product_and_bias(writer, writer.decode(a, a_scale, a_zero), writer.decode(b, b_scale, b_zero, axis=-1), bias)


def _expand_dynamic(writer: _Writer) -> None:
    a, b, scale, zero, bias = writer.inputs[:5]
    _product_and_bias(writer, _dynamic(writer, a), writer.decode(b, scale, zero, axis=-1), bias)


def _dynamic(writer: _Writer, x: str) -> str:
    values, scale, zero = (writer.new(each) for each in ("codes", "scale", "zero point"))
    writer.nodes.append(writer.make("DynamicQuantizeLinear", [x], [values, scale, zero], name=writer.node.name))
    return writer.decode(values, scale, zero)


def _product_and_bias(writer: _Writer, a: str, b: str, bias: str) -> None:
    output = writer.node.output[0]
    made = writer.add("MatMul", [a, b], "" if bias else output)
    if bias:
        writer.add("Add", [made, bias], output)


def _expand_lookup(writer: _Writer) -> None:
    """Write GatherBlockQuantized: rows of a table whose codes have scales by blocks."""
    table, indices, scale, zero = writer.inputs[:4]
    how = {"gather_axis": 0, "quantize_axis": 1, "block_size": 128, "bits": 4, **writer.attributes}
    if table not in writer.constants or (zero and zero not in writer.constants):
        raise Untranslatable("a table that is no constant")
    values = writer.constants[table]
    offset = writer.constants.get(zero)
    if values.dtype == np.uint8:
        values, shape = unpacked(values, how["bits"]), writer.constants[scale].shape
        if offset is None:
            offset = np.full(shape, 2 ** (how["bits"] - 1), np.uint8)
        else:
            offset = unpacked(offset, how["bits"])[:, : shape[-1]].reshape(shape)
    names = [writer.constant(values), scale, "" if offset is None else writer.constant(offset)]
    inputs = names if names[2] else names[:2]
    made = writer.add("DequantizeLinear", inputs, axis=how["quantize_axis"], block_size=how["block_size"])
    writer.add("Gather", [made, indices], writer.node.output[0], axis=how["gather_axis"])


def _expand_domain(writer: _Writer) -> None:
    """Write an operator that the standard has, too, by its name."""
    writer.add(writer.node.op_type, writer.node.input, writer.node.output[0], **writer.attributes)


_EXPANSIONS: dict[str, Callable[[_Writer], None]] = {
    "DequantizeLinear": _expand_domain,
    "DynamicQuantizeMatMul": _expand_dynamic,
    "GatherBlockQuantized": _expand_lookup,
    "MatMulIntegerToFloat": _expand_to_float,
    "QGemm": _expand_general_product,
    "QLinearAdd": lambda writer: _two(writer, "Add"),
    "QLinearAveragePool": _with(
        "AveragePool", "auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"
    ),
    "QLinearConcat": _expand_joined,
    "QLinearConv": _expand_convolution,
    "QLinearGlobalAveragePool": _with("GlobalAveragePool"),
    "QLinearLeakyRelu": _with("LeakyRelu", "alpha"),
    "QLinearMatMul": _expand_product,
    "QLinearMul": lambda writer: _two(writer, "Mul"),
    "QLinearReduceMean": _with("ReduceMean", "axes", "keepdims"),
    "QLinearSigmoid": _with("Sigmoid"),
    "QLinearSoftmax": _with("Softmax", "axis"),
    "QLinearWhere": _expand_choice,
    "QuantizeLinear": _expand_domain,
}


def unpacked(values: Array, bits: int) -> Array:
    """Return codes that share bytes along the last axis, the first in the lowest bits, one a byte."""
    if bits not in (2, 4, 8):
        raise Untranslatable(f"bits={bits}")
    parts = [(values >> np.uint8(place)) & np.uint8(2**bits - 1) for place in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*values.shape[:-1], -1)


#: What takes a weight in codes, and what may be left out when nobody reads it.
_PRODUCTS = ("Conv", "Gather", "Gemm", "MatMul")
_PURE = (*_MOVING, "Cast", "ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "Mul",
         "QuantizeLinear")  # fmt: skip


def joined(
    nodes: Sequence[Node], outputs: Sequence[str], weights: Mapping[str, Coded], guards: dict[str, Any]
) -> list[Node]:
    """Return the nodes, products with a weight in codes as such, and what nobody reads any more left out.

    Args:
        nodes: in order.
        outputs: names that must be made.
        weights: constants that are codes, by name.
        guards: of names, to which those of new names are added.
    """
    if not weights and not any(node.kind.endswith(("izeLinear", "Integer")) for node in nodes):
        return list(nodes)
    joiner = _Joiner(weights, guards)
    for node in nodes:
        joiner.add(node)
    needed, kept = set(outputs), list[Node]()
    for node in reversed(joiner.nodes):
        if node.kind not in _PURE or needed.intersection(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    return kept[::-1]


class _Joiner:
    """The nodes so far, and what made which value."""

    def __init__(self, weights: Mapping[str, Coded], guards: dict[str, Any]) -> None:
        self.weights, self.guards = dict(weights), guards
        self.nodes: list[Node] = []
        self.makers: dict[str, Node] = {}
        self.moved: dict[str, Coding] = {}  # how numbers were coded that were moved since

    def add(self, node: Node) -> None:
        """Add a node, joined with those before it."""
        if node.kind in ("QuantizeLinear", "DequantizeLinear"):
            node = _with_coding(node)
        if node.kind == "DequantizeLinear":
            node = self._behind_codes(node)
        elif node.kind == "Mul":
            node = self._dynamic_product(node) or node
        if node.kind in _PRODUCTS:
            node = self._product(node)
        self.nodes.append(node)
        self.makers.update((name, node) for name in node.outputs if name)

    def _named(self, what: str, node: Node) -> str:
        """Return a name for a new value that leads to a node, in the same branch."""
        name = f"numbers of {what}, as {node.outputs[0]}"
        if node.outputs[0] in self.guards:
            self.guards[name] = self.guards[node.outputs[0]]
        return name

    def _behind_codes(self, node: Node) -> Node:
        """Join a DequantizeLinear with the QuantizeLinear before it, also where codes were moved in between."""
        coding, before = node.coding, self.makers.get(node.inputs[0])
        if coding is None or coding.scale.size != 1 or before is None:
            return node
        if before.kind == "QuantizeLinear":
            known = before.coding is not None and before.coding.is_for_all(coding) and coding.scale.dtype == _FLOAT
            if not known or not before.coding.dtype.startswith(("int", "uint")):
                return node
            return replace(node, inputs=before.inputs, coding=replace(before.coding, both=True))
        if before.kind not in _MOVING or any(before.outputs[1:]):
            return node
        at, table = before.inputs[0], before.constant(0)
        if table is not None and not _is_lookup(before, table.ndim):
            return node  # no layer would hold the numbers
        name, constants = self._named(at, node), dict(before.constants)
        self.moved[node.outputs[0]] = coding
        if table is not None:
            self.weights[name] = Coded(table, coding.scale, coding.zero_point, 1, 0)
            constants[name] = self.weights[name].numbers()
        else:
            self.add(replace(node, inputs=(at,), outputs=(name,)))
        return replace(before, inputs=(name, *before.inputs[1:]), outputs=node.outputs, constants=constants)

    def _dynamic_product(self, node: Node) -> Node | None:
        """Return the product of numbers that Mul(Cast(MatMulInteger(codes, weight)), Mul(scale, scales)) is."""
        for sums, scales in (node.inputs, node.inputs[::-1]):
            cast, factor = self.makers.get(sums), self.makers.get(scales)
            product = self.makers.get(cast.inputs[0]) if cast is not None and cast.kind == "Cast" else None
            source = None if product is None else self.makers.get(product.inputs[0])
            if cast is None or factor is None or product is None or source is None:
                continue
            if product.kind not in ("MatMulInteger", "ConvInteger") or source.kind != "DynamicQuantizeLinear":
                continue
            zero_of_input, zero = (*product.inputs, "", "")[2:4]
            given = [name for name in factor.inputs if name != source.outputs[1]]
            is_fit = factor.kind == "Mul" and len(given) == 1 and zero_of_input == source.outputs[2]
            weight = self._weight_of(product, factor.constants.get(given[0]), zero) if is_fit else None
            if weight is None or cast.get("to", 1) != 1:
                continue
            name, numbers = self._named(product.inputs[1], node), self._named(source.outputs[0], node)
            self.weights[name] = weight
            self.add(replace(source, kind="DequantizeLinear", inputs=source.outputs, outputs=(numbers,)))
            kind = "Conv" if product.kind == "ConvInteger" else "MatMul"
            constants, inputs = {name: weight.numbers()}, (numbers, name)
            return replace(product, kind=kind, inputs=inputs, outputs=node.outputs, constants=constants)
        return None

    def _weight_of(self, product: Node, scale: Array | None, zero: str) -> Coded | None:
        """Return the constant weight of an integer product with the scales behind it; None if it has none."""
        values, offset = product.constant(1), product.constants.get(zero)
        if values is None or scale is None or scale.dtype != _FLOAT or (zero and offset is None):
            return None
        axis, columns = (0, len(values)) if product.kind == "ConvInteger" else (-1, values.shape[-1])
        each = np.zeros(1, values.dtype) if offset is None else offset.reshape(-1)
        if not {scale.size, each.size} <= {1, columns}:
            return None
        size = max(scale.size, each.size)
        return Coded(values, np.resize(scale, size), np.resize(each, size), axis, 0)

    def _product(self, node: Node) -> Node:
        """Return a product with a weight in codes as one in codes, with its input where that is rounded before it."""
        is_lookup = node.kind == "Gather"
        weight = self.weights.get(node.inputs[0 if is_lookup else 1])
        matrix = None if weight is None else _matrix(node, weight)
        if matrix is None:
            return node
        before = None if is_lookup else self.makers.get(node.inputs[0])
        x = node.inputs[0]
        activation: Any = self.moved[x].of_int8() if x in self.moved and not is_lookup else None
        if before is not None and before.kind == "DequantizeLinear":
            source = self.makers.get(before.inputs[0])
            if before.coding is not None:
                activation = before.coding.of_int8()
                x = before.inputs[0] if before.coding.both else x
            elif source is not None and source.kind == "DynamicQuantizeLinear" and before.inputs == source.outputs:
                activation, x = "dynamic", source.inputs[0]
        if activation is None:
            # A convolution would turn its weight into numbers at each call: it had better hold them.
            return node if node.kind == "Conv" else replace(node, coding=InCodes(matrix))
        return replace(node, inputs=(x, *node.inputs[1:]), coding=InCodes(matrix, activation))


def _with_coding(node: Node) -> Node:
    """Return a node between numbers and codes with its scale and zero point at hand, if they are constants."""
    from onnx import helper

    scale, zero = node.constant(1), node.constant(2)
    if scale is None or (zero is None and node.has(2)) or len(node.inputs) < 2:
        return node
    if not (np.isfinite(scale.astype(np.float32)) & (scale > 0)).all():
        raise ValueError(
            f"{node.kind} {node.name} must have scales above 0 and finite, which the "
            "file has not: calibrate a model whose mask is a number such as -1e4, not -inf"
        )
    dtype = "" if zero is None else zero.dtype.name
    if node.kind == "QuantizeLinear" and not dtype:
        wanted = node.get("output_dtype", 0)
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(wanted)).name if wanted else "uint8"
    coding = Coding(scale, zero, dtype, node.get("axis", 1), node.get("block_size", 0))
    return replace(node, inputs=node.inputs[:1], coding=coding)


def _is_lookup(node: Node, rank: int) -> bool:
    """Return whether a node looks up rows of a matrix at places that are data, as an embedding does."""
    return node.kind == "Gather" and rank == 2 and node.get("axis", 0) == 0 and node.constant(1) is None


def _matrix(node: Node, weight: Coded) -> Quantized | None:
    """Return the weight of a product as our layer holds it; None where no layer of ours does this product."""
    rank = weight.codes.ndim
    if node.kind == "Gather":
        return weight.matrix(lambda codes: codes, 0, axis=0) if _is_lookup(node, rank) else None
    bias = node.constant(2)
    if rank < 2 or (bias is None and node.has(2)):
        return None
    if node.kind == "MatMul":
        return weight.matrix(lambda codes: codes, 1) if rank == 2 else None
    if node.kind == "Gemm":
        if node.get("transA", 0) or (bias is not None and bias.ndim == 2 and len(bias) > 1):
            return None
        alpha = node.get("alpha", 1.0)
        if node.get("transB", 0):
            return weight.matrix(np.transpose, 0, factor=alpha)
        return weight.matrix(lambda codes: codes, 1, factor=alpha)
    if rank not in (3, 4) or node.get("group", 1) != 1:
        return None
    return weight.matrix(lambda codes: np.moveaxis(codes, (0, 1), (-1, -2)).reshape(-1, len(codes)), 0)


def in_codes(node: Node, runner: Runner) -> Runner:
    """Return a layer of numbers as one of the node's codes; what runs other nodes, as it is."""
    return _layer(runner, node.coding) if isinstance(node.coding, InCodes) else runner


def _layer(layer: Any, how: InCodes) -> Module:
    from tinytorch.perf.quantization.layers import Plan, QuantizedConv2d, QuantizedEmbedding, QuantizedLinear

    if isinstance(layer, OnImage):
        return OnImage(_layer(layer.layer, how), layer.window)
    if isinstance(layer, Embedding):
        return QuantizedEmbedding(layer, made=how.weight)
    mode: Any = "weight-only" if how.activation is None else "dynamic"
    plan = Plan(mode, how.weight.scheme, "tensor", symmetric=False)
    made = (QuantizedConv2d if isinstance(layer, Conv2d) else QuantizedLinear)(layer, plan, how.weight)
    if isinstance(how.activation, tuple):
        made.set_parameters(*how.activation)
    return made


def _quantize(node: Node) -> Runner:
    how = node.coding
    if how is None:
        raise Untranslatable("a scale that depends on data")
    params = {"dtype": how.dtype, "axis": how.axis, "block": how.block}
    return lambda x: apply(coding.quantize_linear, without_gradient(x), how.scale, how.zero_point, **params)


def _dequantize(node: Node) -> Runner:
    how = node.coding
    if how is None:
        params = {"axis": node.get("axis", 1), "block": node.get("block_size", 0)}
        return lambda codes, scale, zero=None: apply(coding.dequantize_linear, codes, scale, zero, **params)
    if not how.both:
        params = {"axis": how.axis, "block": how.block}
        return lambda codes: apply(coding.dequantize_linear, codes, how.scale, how.zero_point, **params)
    low, high = coding.bounds(np.dtype(how.dtype))
    scale = how.scale.reshape(())
    zero = np.zeros((), np.int32) if how.zero_point is None else how.zero_point.astype(np.int32).reshape(())

    def round_all(x: Any) -> Tensor:
        numbers = tensor_of(x)
        numbers = numbers if numbers.dtype == _FLOAT else numbers.astype(_FLOAT)
        return apply(coding.fake_quantize, numbers, scale, zero, low=low, high=high)

    return round_all


def _dynamic_codes(node: Node) -> Runner:
    def run(x: Any) -> tuple[Tensor, ...]:
        x = without_gradient(x)
        both = apply(coding.dynamic_parameters, x)
        scale, zero = (apply(ops.getitem, both, index=at) for at in range(2))
        zero = zero.astype(np.dtype(np.uint8))
        return apply(coding.quantize_linear, x, scale, zero, dtype="uint8", axis=1, block=0), scale, zero

    return run


def _integer_product(node: Node) -> Runner:
    return lambda a, b, a_zero=None, b_zero=None: apply(coding.integer_matmul, a, b, a_zero, b_zero)


def _integer_convolution(node: Node) -> Runner:
    groups, kernel = node.get("group", 1), node.weights(1).shape[2:]
    window = Window.of(node, kernel)

    def run(x: Any, weight: Any, x_zero: Operand = None, weight_zero: Operand = None) -> Tensor:
        image, padding = as_image(x), window.symmetric()
        if padding is None:
            zero = 0 if x_zero is None else int(tensor_of(x_zero).data.item())
            image = surrounded(image, window.widths(image.shape[2:]), zero)
        filters = reshaped(weight, (*weight.shape[:2], *window.kernel))
        how = {"stride": window.stride, "padding": padding or (0, 0), "dilation": window.dilation, "groups": groups}
        return from_image(apply(coding.integer_conv2d, image, filters, x_zero, weight_zero, **how), x.ndim)

    return run


def _product_of_blocks(node: Node) -> Runner:
    """MatMulNBits: a weight (outputs, blocks, bytes) whose codes have a scale for each block of inputs."""
    inner, outer, bits, block = (node.get(name, usual) for name, usual in _BLOCKS.items())
    scale, bias = node.weights(2).reshape(outer, -1), node.weights(5) if node.has(5) else None
    numbers = unpacked(node.weights(1).reshape(outer, -1), bits)[:, :inner]
    if not node.has(3):
        zero = np.full(scale.shape, 2 ** (bits - 1), np.uint8)
    elif (zero := node.weights(3)).dtype == np.uint8:
        zero = unpacked(zero.reshape(outer, -1), bits)[:, : scale.shape[1]]
    else:
        zero = zero.reshape(scale.shape)
    order = node.weights(4) if node.has(4) else np.arange(inner) // block
    wide = [each[:, order].astype(np.float32) for each in (scale, zero)]
    weight = Parameter(((numbers - wide[1]) * wide[0]).astype(scale.dtype).T)
    layer = linear_of(weight, None if bias is None else Parameter(bias))
    if scale.dtype != _FLOAT or zero.dtype != np.uint8 or not np.array_equal(order, np.arange(inner) // block):
        return layer
    half = 2 ** (bits - 1)
    codes, zero = (np.ascontiguousarray((each.astype(np.int16) - half).T) for each in (numbers, zero))
    scheme = Scheme(bits, not zero.any(), "group", group=block)
    made = Quantized(codes.astype(np.int8), np.ascontiguousarray(scale.T), zero.astype(np.int32), scheme)
    return _layer(layer, InCodes(made))


_BLOCKS = {"K": 0, "N": 0, "bits": 4, "block_size": 32}


def _memory(node: Node) -> Runner:
    """DynamicQuantizeLSTM: an LSTM whose weights (directions, features, 4 hidden) are codes, as all that they meet."""
    halves = []
    for at, of_scale in ((1, 8), (2, 10)):
        values, scale, zero = (node.weights(each) for each in (at, of_scale, of_scale + 1))
        halves.append([Coded(*each, -1, 0) for each in zip(values, scale, zero, strict=True)])
    names = ("W", "R")
    weights = {name: np.stack([one.numbers().T for one in half]) for name, half in zip(names, halves, strict=True)}
    plain = replace(
        node,
        kind="LSTM",
        inputs=(node.inputs[0], *names, *node.inputs[3:8]),
        constants={**node.constants, **weights},
    )
    made = long_short_term(plain)
    assert isinstance(made, Recurrent)
    for direction, of_input, of_state in zip(made.directions, *halves, strict=True):
        for name, weight in (("of_input", of_input), ("of_state", of_state)):
            matrix = weight.matrix(lambda codes: codes, 1)
            if matrix is None:
                raise Untranslatable(f"codes of {weight.codes.dtype}")
            setattr(direction, name, _layer(getattr(direction, name), InCodes(matrix, "dynamic")))
    return made


TRANSLATIONS: dict[str, Translation] = {
    "ConvInteger": Translation(_integer_convolution),
    "DequantizeLinear": Translation(_dequantize),
    "DynamicQuantizeLinear": Translation(_dynamic_codes, outputs=3),
    "MatMulInteger": Translation(_integer_product),
    "QuantizeLinear": Translation(_quantize),
    f"{MICROSOFT}.DynamicQuantizeLSTM": Translation(
        _memory, reads=(0, 5, 6, 4), ignores=("hidden_size", "output_sequence"), outputs=3
    ),
    f"{MICROSOFT}.MatMulNBits": Translation(_product_of_blocks, ignores=("accuracy_level",)),
}
