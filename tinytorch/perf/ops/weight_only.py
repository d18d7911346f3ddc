"""Ops on quantized weights with float activations: dequantize, look up rows, multiply by dequantized blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work, no_gradient, operands_once
from tinytorch.core.ops.elementwise import column_sums
from tinytorch.perf.ops.affine import decode, decode_in_place
from tinytorch.perf.ops.packed_codes import PANEL, TILE, as_matrix, by_group, in_rows, unpack

#: Elements of a weight that are float32 at a time, but at least this many columns.
_ELEMENTS, _COLUMNS = 16_384, 32


def matrix_of(
    codes: Array, scale: Array, zero_point: Array | None, bits: int, group: int | None, length: int, axis: int = 0
) -> Array:
    """Return the float32 matrix of packed codes; scale and zero point are per tensor, channel or group.

    Args:
        codes: as `pack` packed them along ``axis``, ``length`` along it; or tiles of these (`in_tiles`).
        scale: (1, 1), or 1 along ``axis``, or with ``group`` one for each group along ``axis``.
        zero_point: int8 of the same shape, or None for 0.
        group: codes in a group.
    """
    numbers = unpack(in_rows(codes), bits, length, axis)
    if group is None:
        return decode(numbers, scale, 0 if zero_point is None else zero_point)
    if axis == 1:
        turned = None if zero_point is None else zero_point.T
        return np.ascontiguousarray(_grouped(np.ascontiguousarray(numbers.T), scale.T, turned, group).T)
    return _grouped(numbers, scale, zero_point, group)


def _grouped(numbers: Array, scale: Array, zero_point: Array | None, group: int) -> Array:
    """Return the float32 matrix of codes whose groups run along the first axis, without scales for each code."""
    output = numbers.astype(np.float32)
    whole = len(output) // group * group
    for part, first in ((output[:whole], 0), (output[whole:], whole // group)):
        if len(part):
            some = slice(first, first + -(-len(part) // group))
            by_group = part.reshape(len(scale[some]), -1, part.shape[1])
            decode_in_place(by_group, scale[some, None], 0 if zero_point is None else zero_point[some, None])
    return output


def column_blocks(
    codes: Array, scale: Array, zero_point: Array | None, bits: int, group: int | None, length: int, columns: int
) -> Iterator[tuple[slice, Array]]:
    """Yield slices of columns, and the float32 matrix of each: never the whole weight at once."""

    def part(values: Array, columns: slice) -> Array:
        return values if values.shape[1] == 1 else values[:, columns]

    scale, zero_point = by_group(scale), None if zero_point is None else by_group(zero_point)
    step = max(_COLUMNS, _ELEMENTS // max(length, 1))
    tile = {2: 1, 3: TILE, 5: PANEL}[codes.ndim]
    step = -(-step // tile)
    for first in range(0, -(-columns // tile), step):
        some = slice(first * tile, min((first + step) * tile, columns))
        block = codes[first : first + step] if codes.ndim == 5 else codes[:, first : first + step]
        matrix = as_matrix(block, bits, length, some.stop - some.start, group)
        offset = None if zero_point is None else part(zero_point, some)
        yield some, matrix_of(matrix, part(scale, some), offset, bits, group, length)


def columns_of(codes: Array) -> int:
    """Return the columns of packed codes, a matrix or tiles."""
    return math.prod(codes.shape[1:])


def check_features(x: Array, length: int, name: str) -> None:
    """Raise ValueError unless the last axis of ``x`` has ``length`` features."""
    if x.ndim == 0 or x.shape[-1] != length:
        raise ValueError(f"the last axis of {name}'s input x must have length {length}, but its shape is {x.shape}")


def _dequantize_forward(
    keep: bool,
    codes: Array,
    scale: Array,
    zero_point: Array | None,
    *,
    bits: int,
    group: int | None,
    length: int,
    axis: int,
) -> tuple[Array, Saved]:
    return matrix_of(codes, scale, zero_point, bits, group, length, axis), ()


def _dequantize_work(call: Call) -> Work:
    """One multiplication for each number, and one subtraction with zero points."""
    return Work(elementwise=call.output.size * (1 if call.inputs[-1].dtype is None else 2))


def _embedding_forward(
    keep: bool,
    indices: Array,
    codes: Array,
    scale: Array,
    zero_point: Array | None,
    *,
    bits: int,
    group: int | None,
    length: int,
) -> tuple[Array, Saved]:
    """Pick rows of codes, and dequantize these alone."""
    rows, _ = ops.embedding.reference.forward(False, indices.reshape(-1), codes)
    flat = indices.reshape(-1)
    scales = scale if len(scale) == 1 else scale[flat]
    offsets = zero_point if zero_point is None or len(zero_point) == 1 else zero_point[flat]
    return matrix_of(rows, scales, offsets, bits, group, length, 1).reshape(*indices.shape, length), ()


def _embedding_traffic(call: Call) -> int:
    """Bytes of the indices, of the codes, scales and zero points of the rows picked, and of the output."""
    indices, table, *others = call.inputs
    rows = table.shape[0]
    picked = sum(spec.nbytes * indices.size // rows if spec.shape[:1] == (rows,) else spec.nbytes for spec in others)
    return indices.nbytes + indices.size * table.shape[1] + picked + call.output.nbytes


def _weight_only_forward(
    keep: bool,
    x: Array,
    codes: Array,
    scale: Array,
    zero_point: Array | None,
    bias: Array | None,
    *,
    bits: int,
    group: int | None,
    length: int,
    packed: dict[str, Any],
) -> tuple[Array, Saved]:
    """Return x W + b of float x, with W dequantized a block of columns at a time."""
    check_features(x, length, "weight_only_linear")
    rows = x.reshape(-1, length)
    output = np.empty((len(rows), columns_of(codes)), np.result_type(x.dtype, np.float32))
    for columns, weight in column_blocks(codes, scale, zero_point, bits, group, length, output.shape[1]):
        output[:, columns] = np.dot(rows, weight)
        del weight  # before the next block is made
    if bias is not None:
        output += bias
    saved = (codes, scale, zero_point, bits, group, length, x.shape) if keep else ()
    return output.reshape(*x.shape[:-1], output.shape[1]), saved


def weight_backward(gradient: Array, saved: Saved) -> Array:
    """Return gradient W^T, the gradient of x, with W dequantized a block of columns at a time."""
    codes, scale, zero_point, bits, group, length, shape = saved
    down: Array = np.zeros((int(np.prod(shape[:-1])), shape[-1]), gradient.dtype)
    for columns, block in column_blocks(codes, scale, zero_point, bits, group, length, gradient.shape[1]):
        down += np.dot(gradient[:, columns], block.T)
        del block  # before the next one is made
    return down.reshape(shape)


def _weight_only_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Give x and the bias their gradients; codes, scales and zero points have none."""
    rows = gradient.reshape(-1, gradient.shape[-1])
    down = weight_backward(rows, saved) if needs[0] else None
    return down, None, None, None, column_sums(rows) if needs[4] else None


def linear_macs(call: Call) -> int:
    """Return the multiply-accumulates of a product: features for each output."""
    return call.output.size * call.inputs[0].shape[-1]


def _weight_only_work(call: Call) -> Work:
    """Products like a linear layer's, and its bias; one operation for each weight, two with zero points."""
    weights = call.inputs[0].shape[-1] * call.output.shape[-1] * (1 if call.inputs[3].dtype is None else 2)
    has_bias = call.inputs[4].dtype is not None
    if call.phase == "forward":
        return Work(linear_macs(call), weights + (call.output.size if has_bias else 0))
    macs = linear_macs(call) if call.needs[0] else 0
    return Work(macs, (weights if call.needs[0] else 0) + (call.output.size if call.needs[4] else 0))


def _row_blocks(
    codes: Array, scale: Array, zero_point: Array | None, bits: int, group: int | None, length: int
) -> Iterator[tuple[slice, Array]]:
    """Yield slices of a table's rows, and the float32 matrix of each: never the whole table at once."""

    def part(values: Array, rows: slice) -> Array:
        return values if len(values) == 1 else values[rows]

    step = max(_COLUMNS, _ELEMENTS // max(length, 1))
    for first in range(0, len(codes), step):
        rows = slice(first, first + step)
        offset = None if zero_point is None else part(zero_point, rows)
        yield rows, matrix_of(codes[rows], part(scale, rows), offset, bits, group, length, 1)


def _projection_forward(
    keep: bool,
    x: Array,
    codes: Array,
    scale: Array,
    zero_point: Array | None,
    *,
    bits: int,
    group: int | None,
    length: int,
) -> tuple[Array, Saved]:
    """Return x times a table, transposed, with the table dequantized a block of rows at a time."""
    check_features(x, length, "weight_only_projection")
    rows = x.reshape(-1, length)
    output = np.empty((len(rows), len(codes)), np.result_type(x.dtype, np.float32))
    for some, table in _row_blocks(codes, scale, zero_point, bits, group, length):
        output[:, some] = np.dot(rows, table.T)
        del table  # before the next block is made
    saved = (codes, scale, zero_point, bits, group, length, x.shape) if keep else ()
    return output.reshape(*x.shape[:-1], len(codes)), saved


def _projection_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Give x its gradient; codes, scales and zero points have none."""
    *weight, shape = saved
    rows = gradient.reshape(-1, gradient.shape[-1])
    down: Array = np.zeros((len(rows), shape[-1]), gradient.dtype)
    for some, table in _row_blocks(*weight):
        down += np.dot(rows[:, some], table)
        del table  # before the next block is made
    return down.reshape(shape), None, None, None


def _projection_work(call: Call) -> Work:
    """Products like a linear layer's; one operation for each number of the table, two with zero points."""
    numbers = call.inputs[0].shape[-1] * call.output.shape[-1] * (1 if call.inputs[3].dtype is None else 2)
    return Work(linear_macs(call), numbers)


_CODES = no_gradient("codes are integers and have no gradient: train with prepare_training instead")

dequantize = Op("dequantize", _dequantize_forward, _CODES, _dequantize_work)
quantized_embedding = Op("quantized_embedding", _embedding_forward, _CODES, _dequantize_work, _embedding_traffic)
#: x W + b with float32 x: operands x, codes (a matrix, or `in_tiles`), scale (a matrix, or with tiled codes in
#: `TileLayout`), zero_point like scale or None, bias or None; params bits, group or None, length (features), and
#: ``packed``, a kernel's memory (`Codes.packed`).
weight_only_linear = Op(
    "weight_only_linear", _weight_only_forward, _weight_only_backward, _weight_only_work, operands_once
)
#: x T^T with float32 x and a quantized table T, (rows, features): operands x, codes packed along the features, scale of
#: the table, a row or a row's groups, zero_point or None; params bits, group or None, length (features).
weight_only_projection = Op("weight_only_projection", _projection_forward, _projection_backward, _projection_work)
