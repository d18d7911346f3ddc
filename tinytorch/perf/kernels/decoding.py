"""One decoder block for one new token of each sequence, in one call: at this size calls cost more than arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytorch.core.op import Array, Implementation, Saved
from tinytorch.perf.kernels import vectors
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.gelu import gelu
from tinytorch.perf.kernels.tiles import LANES
from tinytorch.perf.kernels.vector_math import exp_of_negative, multiply_add
from tinytorch.perf.memoization.blocks import checked_operands, decoder_block

#: Floats of the vectors that a dot product is summed in: heads are short.
_LANES = 8
_FLOAT32 = np.dtype(np.float32)
_VECTOR = ir.VectorType(vectors.FLOAT, _LANES)


def _dot(_typing: Any, x: Any, x_at: Any, y: Any, y_at: Any, count: Any) -> Any:
    """Type and emit `dot`."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right = (
            builder.gep(vectors.data_pointer(context, builder, signature.args[i], arguments[i]), [arguments[i + 1]])
            for i in (0, 2)
        )
        (wide,) = vectors.variables(builder, _VECTOR, 1)
        narrow = cgutils.alloca_once_value(builder, vectors.FLOAT(0))
        lanes = arguments[4].type(_LANES)
        whole = builder.mul(builder.sdiv(arguments[4], lanes), lanes)
        with cgutils.for_range_slice(builder, whole.type(0), whole, lanes) as (index, _):
            x_lanes, y_lanes = (vectors.load(builder, each, index, _VECTOR) for each in (left, right))
            builder.store(vectors.fused_multiply_add(builder, x_lanes, y_lanes, builder.load(wide)), wide)
        with cgutils.for_range_slice(builder, whole, arguments[4], whole.type(1)) as (index, _):
            pair = (builder.load(builder.gep(each, [index])) for each in (left, right))
            builder.store(builder.fadd(builder.fmul(*pair), builder.load(narrow)), narrow)
        return builder.fadd(vectors.sum_of_lanes(builder, [builder.load(wide)]), builder.load(narrow))

    return types.float32(x, x_at, y, y_at, count), emit


#: ``dot(x, x_at, y, y_at, count)``: sum of x[x_at + i] * y[y_at + i], i < count, of flat float32 arrays.
dot = intrinsic(_dot)


def _columns(rows: int, wide: int, lanes: int) -> Any:
    """Return ``f(x, x_at, x_step, weight, weight_at, weight_step, output, output_at, output_step, count)``.

    It adds to ``rows`` rows of ``wide * lanes`` floats of ``output`` the products of ``count`` numbers of each row of
    ``x`` with as many rows of ``weight``. Arrays are float32, places and steps from row to row in elements; all sums
    stay in registers.
    """
    vector = ir.VectorType(vectors.FLOAT, lanes)

    def add_products(
        _typing: Any, x: Any, xa: Any, xs: Any, w: Any, wa: Any, ws: Any, o: Any, oa: Any, os: Any, n: Any
    ) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _, _, x_step, _, _, weight_step, _, _, output_step, count = arguments
            left, right, into = (
                builder.gep(vectors.data_pointer(context, builder, signature.args[i], arguments[i]), [arguments[i + 1]])
                for i in (0, 3, 6)
            )
            starts = [builder.mul(output_step, output_step.type(row)) for row in range(rows)]
            places = [place for start in starts for place in vectors.offsets(builder, start, lanes, wide)]
            sums = vectors.variables(builder, vector, rows * wide)
            for slot, place in zip(sums, places, strict=True):
                builder.store(vectors.load(builder, into, place, vector), slot)
            with cgutils.for_range(builder, count) as loop:
                start = builder.mul(loop.index, weight_step)
                weights = [
                    vectors.load(builder, right, at, vector) for at in vectors.offsets(builder, start, lanes, wide)
                ]
                for row in range(rows):
                    place = builder.add(builder.mul(x_step, x_step.type(row)), loop.index)
                    factor = vectors.filled(builder, builder.load(builder.gep(left, [place])), vector)
                    for weight, slot in zip(weights, sums[row * wide :], strict=False):
                        builder.store(vectors.fused_multiply_add(builder, factor, weight, builder.load(slot)), slot)
            for slot, place in zip(sums, places, strict=True):
                vectors.store(builder, builder.load(slot), into, place)
            return context.get_dummy_value()

        return types.void(x, xa, xs, w, wa, ws, o, oa, os, n), emit

    return intrinsic(add_products)


_row_by_four, _row_by_one = _columns(1, 4, LANES), _columns(1, 1, LANES)
_rows_by_four, _rows_by_one = _columns(4, 4, LANES), _columns(4, 1, LANES)
_row_by_eight_floats = _columns(1, 1, _LANES)


@kernel
def normalize(x: Any, weight: Any, bias: Any, epsilon: Any, output: Any) -> None:
    """Fill ``output`` with the layer norm of one row."""
    total = 0.0
    for i in range(x.size):
        total += x[i]
    mean = np.float32(total / x.size)
    squares = 0.0
    for i in range(x.size):
        squares += (x[i] - mean) * (x[i] - mean)
    inverse = np.float32(1 / math.sqrt(squares / x.size + epsilon))
    for i in range(x.size):
        output[i] = multiply_add((x[i] - mean) * inverse, weight[i], bias[i])


@kernel
def affine(x: Any, weight: Any, bias: Any, output: Any) -> None:
    """Fill ``output`` (rows, n) with x (rows, m) times weight (m, n) plus bias: each weight is read once for four rows.

    Sums run over the inputs in order, whatever the number of rows.
    """
    rows, inner = x.shape
    columns = weight.shape[1]
    for row in range(rows):
        for j in range(columns):
            output[row, j] = bias[j]
    fours, done = rows // 4 * 4, 0
    while done + 4 * LANES <= columns:
        for row in range(0, fours, 4):
            _rows_by_four(x, row * inner, inner, weight, done, columns, output, row * columns + done, columns, inner)
        for row in range(fours, rows):
            _row_by_four(x, row * inner, inner, weight, done, columns, output, row * columns + done, columns, inner)
        done += 4 * LANES
    while done + LANES <= columns:
        for row in range(0, fours, 4):
            _rows_by_one(x, row * inner, inner, weight, done, columns, output, row * columns + done, columns, inner)
        for row in range(fours, rows):
            _row_by_one(x, row * inner, inner, weight, done, columns, output, row * columns + done, columns, inner)
        done += LANES
    for row in range(rows):
        for k in range(inner):
            for j in range(done, columns):
                output[row, j] = multiply_add(x[row, k], weight[k, j], output[row, j])


@kernel
def weighted_sum(weights: Any, count: Any, rows: Any, output: Any, at: Any) -> None:
    """Fill depth elements of flat ``output`` from ``at`` on with the weighted sum of the first rows (S, depth)."""
    depth = rows.shape[1]
    done = 0
    for d in range(depth):
        output[at + d] = 0
    while done + 4 * LANES <= depth:
        _row_by_four(weights, 0, 0, rows, done, depth, output, at + done, 0, count)
        done += 4 * LANES
    while done + LANES <= depth:
        _row_by_one(weights, 0, 0, rows, done, depth, output, at + done, 0, count)
        done += LANES
    while done + 8 <= depth:
        _row_by_eight_floats(weights, 0, 0, rows, done, depth, output, at + done, 0, count)
        done += 8
    for d in range(done, depth):
        total = np.float32(0)
        for s in range(count):
            total = multiply_add(weights[s], rows[s, d], total)
        output[at + d] = total


@kernel
def attend(packed: Any, keys: Any, values: Any, output: Any) -> None:
    """Fill ``output`` (B, C) with the attention of packed (B, 3 C) over keys and values (B, H, S, D) and its own."""
    batch, heads, length, depth = keys.shape
    width = heads * depth
    scores = np.empty(length + 1, np.float32)
    scale = np.float32(1 / math.sqrt(depth))
    flat, joined = packed.reshape(-1), output.reshape(-1)
    for row in range(batch):
        for head in range(heads):
            to = row * width + head * depth
            query = 3 * row * width + head * depth
            own_key, own_value = query + width, query + 2 * width
            largest = dot(flat, query, flat, own_key, depth)
            scores[length] = largest
            for s in range(length):
                scores[s] = dot(flat, query, keys[row, head], s * depth, depth)
            for s in range(length):
                # Written so that NaN stays: a comparison with it is false.
                largest = largest if largest >= scores[s] else scores[s]
            for s in range(length + 1):
                scores[s] = exp_of_negative((scores[s] - largest) * scale)
            total = np.float32(0)
            for s in range(length + 1):
                total += scores[s]
            weighted_sum(scores, length, values[row, head], joined, to)
            for d in range(depth):
                joined[to + d] = multiply_add(scores[length], flat[own_value + d], joined[to + d]) / total


@kernel
def block(
    x: Any,
    norm1: Any,
    shift1: Any,
    qkv: Any,
    qkv_bias: Any,
    projection: Any,
    projection_bias: Any,
    norm2: Any,
    shift2: Any,
    expand: Any,
    expand_bias: Any,
    contract: Any,
    contract_bias: Any,
    keys: Any,
    values: Any,
    epsilon1: Any,
    epsilon2: Any,
    output: Any,
) -> None:
    """Fill ``output`` (B, 3 C) with the block's output, and the keys and values of the new positions."""
    batch, width = x.shape
    normal = np.empty((batch, width), np.float32)
    packed = np.empty((batch, 3 * width), np.float32)
    heads = np.empty((batch, width), np.float32)
    middle = np.empty((batch, width), np.float32)
    hidden = np.empty((batch, expand.shape[1]), np.float32)
    for row in range(batch):
        normalize(x[row], norm1, shift1, epsilon1, normal[row])
    affine(normal, qkv, qkv_bias, packed)
    attend(packed, keys, values, heads)
    affine(heads, projection, projection_bias, middle)
    for row in range(batch):
        for i in range(width):
            middle[row, i] += x[row, i]
        normalize(middle[row], norm2, shift2, epsilon2, normal[row])
    affine(normal, expand, expand_bias, hidden)
    for row in range(batch):
        for i in range(hidden.shape[1]):
            hidden[row, i] = gelu(hidden[row, i])
    affine(hidden, contract, contract_bias, heads)
    for row in range(batch):
        for i in range(width):
            output[row, i] = middle[row, i] + heads[row, i]
            output[row, width + i] = packed[row, width + i]
            output[row, 2 * width + i] = packed[row, 2 * width + i]


def _is_read_in_order(array: Array) -> bool:
    """Return whether heads' keys or values lie as the kernel reads them; sequences and heads may stand apart."""
    return array.strides[3] == 4 and array.strides[2] == 4 * array.shape[3]


def _forward(keep: bool, *operands: Array, epsilons: tuple[float, float]) -> tuple[Array, Saved]:
    """`decoder_block` of float32 in C order; another dtype or order, or no key yet, send it to the op's reference."""
    checked_operands(operands)
    x, *weights, keys, values = operands
    plain = [each.dtype == _FLOAT32 and each.flags.c_contiguous for each in weights]
    if False in plain or not keys.shape[2] or not x.dtype == keys.dtype == values.dtype == _FLOAT32:
        return decoder_block.reference.forward(keep, *operands, epsilons=epsilons)
    if not _is_read_in_order(keys) or not _is_read_in_order(values):
        keys, values = np.ascontiguousarray(keys), np.ascontiguousarray(values)
    batch, _, width = x.shape
    output = np.empty((batch, 1, 3 * width), np.float32)
    rows = np.ascontiguousarray(x.reshape(batch, width))
    block(rows, *weights, keys, values, *epsilons, output.reshape(batch, 3 * width))
    return output, ()


IMPLEMENTATIONS = {decoder_block: Implementation("numba", _forward, decoder_block.reference.backward)}
