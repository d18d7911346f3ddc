"""Entry points of products: rows times packed weights with what follows, one row, products of matrices, a table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array
from tinytorch.perf.kernels.gemm.packed_matmul import (
    ACTIVATIONS,
    add_line,
    gelu_line,
    groups_of,
    product_items,
    relu_line,
)
from tinytorch.perf.kernels.gemm.packing import pack, padded
from tinytorch.perf.kernels.gemm.product_tiles import LANES
from tinytorch.perf.kernels.gemm.row_products import row_product
from tinytorch.perf.kernels.plan_ops.binding import Binder, RecordedOp, View, constant_of, filled_up, row_strides
from tinytorch.perf.kernels.plan_ops.driver import Entry, part
from tinytorch.perf.kernels.runtime.flat import floats_at, matrix_at, words_at
from tinytorch.perf.ops.fused import fused_linear

#: Rows of an item of `product_items`.
_CHUNK = 256


def _one_row(w: Any) -> None:
    to = w.line if w.line else w.output
    whole = (w.columns + LANES - 1) // LANES * LANES
    x, panels, bias = floats_at(w.x, w.inner), floats_at(w.panels, w.inner * whole), floats_at(w.bias, whole)
    row_product(x, panels, bias, floats_at(to, whole), w.columns)
    line = floats_at(to, w.columns)
    if w.activation == 1:
        relu_line(line)
    elif w.activation == 2:
        gelu_line(line)
    if w.residual:
        add_line(line, floats_at(w.residual, w.columns))
    if w.line:
        output = floats_at(w.output, w.columns)
        for i in range(output.size):
            output[i] = line[i]


def _rows(w: Any) -> None:
    x, output = matrix_at(w.x, w.rows, w.inner), matrix_at(w.output, w.rows, w.columns)
    panels, bias = floats_at(w.panels, w.inner * w.columns), floats_at(w.bias, w.columns)
    residual, nothing = matrix_at(w.residual, w.rows if w.residual else 0, w.columns), matrix_at(w.x, 0, 0)
    first, last = part(w, w.items)
    product_items(first, last, x, False, nothing, False, panels, bias, residual, nothing, output, w.activation, 0)


def _matrices(w: Any) -> None:
    nothing, line = matrix_at(w.a, 0, 0), floats_at(w.a, 0)
    places = words_at(w.places, 3 * w.pairs)
    for pair in range(w.pairs):
        a = matrix_at(w.a + 4 * places[3 * pair], w.rows, w.inner)
        output = matrix_at(w.output + 4 * places[3 * pair + 2], w.rows, w.columns)
        at = w.b + 4 * places[3 * pair + 1]
        b = matrix_at(at, w.columns, w.inner) if w.b_transposed else matrix_at(at, w.inner, w.columns)
        product_items(0, w.items, a, False, b, w.b_transposed == 1, line, line, nothing, nothing, output, 0, 1)


def _pick_rows(w: Any) -> None:
    indices = words_at(w.indices, w.count)
    for number in range(w.count):
        index = indices[number]
        if index < 0 or index >= w.rows:
            words_at(w.status, 1)[0] = 1
            index = 0
        line = floats_at(w.table + 4 * index * w.width, w.width)
        output = floats_at(w.output + 4 * number * w.width, w.width)
        for i in range(w.width):
            output[i] = line[i]


#: Residual is 0 if there is none; so is the line to work in, of whole vectors, if the output has them.
_LINEAR = "x panels bias residual output inner columns activation"
one_row, many_rows = Entry(_one_row, f"{_LINEAR} line"), Entry(_rows, f"{_LINEAR} rows items")
#: Places are, for each pair of matrices, the offsets of a, b and output in floats.
many_matrices = Entry(_matrices, "a b output places pairs rows inner columns b_transposed items")
pick_rows = Entry(_pick_rows, "indices table output count rows width status")


def _packed(weight: Array, order: Array | None) -> Array:
    """Return a weight as panels, its rows in ``order`` if given."""
    return pack(np.ascontiguousarray(weight if order is None else weight[order], np.float32))


def _bind_linear(node: RecordedOp, binder: Binder) -> View:
    """Bind `linear` and `fused_linear` of a constant weight and bias: (x, weight, bias, residual)."""
    x_operand, weight_operand, *rest = node.operands
    bias_operand, residual_operand = (*rest, None, None)[:2]
    weight, bias = constant_of(weight_operand), constant_of(bias_operand)
    if weight is None or (bias_operand is not None and bias is None):
        raise binder.refuse("has a weight that depends on the input")
    x, order = _rows_of(binder, binder.view(x_operand))
    inner, columns = weight.shape
    rows = x.size // inner
    how = ("panels", None if order is None else order.tobytes())
    panels = binder.prepared(how, weight, lambda: _packed(weight, order))
    added = binder.prepared(("bias", columns), bias, lambda: filled_up(bias, padded(columns)))
    residual = None if residual_operand is None else binder.contiguous(binder.view(residual_operand))
    activation = ACTIVATIONS[node.params.get("activation", "none")]
    output = binder.new(node.output.shape)
    reads = (x, panels, added) if residual is None else (x, panels, added, residual)
    words = (x, panels, added, residual or 0, output, inner, columns, activation)
    if rows == 1:
        line = None if columns == padded(columns) else binder.new((padded(columns),))
        binder.emit(one_row, (*words, line or 0), reads, output, scratch=() if line is None else (line,))
    else:
        items = groups_of(columns) * -(-rows // _CHUNK)
        binder.emit(many_rows, (*words, rows, items), reads, output, divisible=True)
    return output


def _rows_of(binder: Binder, x: View) -> tuple[View, Array | None]:
    """Return a view whose rows lie in a row, and the order of their elements if it is not their own.

    Maps that were flattened lie channels last. The rows of a weight can be put into that order once, instead of the
    elements each time.
    """
    source = x.source
    if source is not None and len(x.shape) == 2 and source.shape[0] == x.shape[0]:
        numbers = np.arange(x.shape[1]).reshape(source.shape[1:])
        axes = sorted(range(len(numbers.shape)), key=lambda axis: -source.strides[1 + axis])
        width = math.prod(source.shape[1:])
        expected = 1
        for axis in reversed(axes):
            if numbers.shape[axis] != 1 and source.strides[1 + axis] != expected:
                return binder.contiguous(x), None
            expected *= numbers.shape[axis]
        if source.shape[0] == 1 or source.strides[0] == width:
            order = np.ascontiguousarray(numbers.transpose(axes)).reshape(-1)
            flat = View(source.buffer, source.offset, x.shape, (width, 1))
            return flat, order
    return binder.contiguous(x), None


def _bind_matmul(node: RecordedOp, binder: Binder) -> View:
    """Bind a product of matrices, either of which may be repeated along the axes in front of them."""
    a, b = (binder.view(operand) for operand in node.operands)
    wide_a = a if len(a.shape) > 1 else _reshaped(binder, a, (1, *a.shape))
    wide_b = b if len(b.shape) > 1 else _reshaped(binder, b, (*b.shape, 1))
    transposed = wide_b.source is None and not _has_rows(wide_b) and _has_rows(_swapped(wide_b))
    wide_a = wide_a if _has_rows(wide_a) else binder.contiguous(wide_a)
    if not _has_rows(wide_b) and not transposed:
        wide_b = binder.contiguous(wide_b)
    rows, inner = wide_a.shape[-2:]
    columns = wide_b.shape[-1]
    front = np.broadcast_shapes(wide_a.shape[:-2], wide_b.shape[:-2])
    output = binder.new((*front, rows, columns))
    numbers = [_places(view, front) for view in (wide_a, wide_b, output)]
    places = np.ascontiguousarray(np.stack(numbers, axis=1)).reshape(-1)
    table = binder.prepared(("places", places.tobytes()), None, lambda: places)
    sizes = (len(numbers[0]), rows, inner, columns, int(transposed), groups_of(columns) * -(-rows // _CHUNK))
    words = (wide_a, wide_b, output, table, *sizes)
    binder.emit(many_matrices, words, (wide_a, wide_b, table), output)
    return View(output.buffer, 0, node.output.shape, row_strides(node.output.shape))


def _reshaped(binder: Binder, view: View, shape: tuple[int, ...]) -> View:
    view = binder.contiguous(view)
    return View(view.buffer, view.offset, shape, row_strides(shape))


def _swapped(view: View) -> View:
    return view.moved(lambda array: array.swapaxes(-1, -2))


def _has_rows(view: View) -> bool:
    """Return whether the last two axes are a matrix in C order."""
    if view.source is not None:
        return False
    rows, columns = view.shape[-2:]
    return (columns == 1 or view.strides[-1] == 1) and (rows == 1 or view.strides[-2] == columns)


def _places(view: View, front: tuple[int, ...]) -> Array:
    """Return where each matrix of a view begins, in floats from its first, for axes ``front`` before the last two."""
    matrices = view.moved(lambda array: np.broadcast_to(array, (*front, *array.shape[-2:])))
    places = np.zeros(front, np.int64)
    for axis, (length, stride) in enumerate(zip(front, matrices.strides, strict=False)):
        shape = [1] * len(front)
        shape[axis] = length
        places += (np.arange(length) * stride).reshape(shape)
    return places.reshape(-1)


def _bind_embedding(node: RecordedOp, binder: Binder) -> View:
    """Bind rows of a constant table by integers of the input."""
    indices, table = binder.view(node.operands[0]), constant_of(node.operands[1])
    if table is None or not indices.is_contiguous or indices.itemsize != 8:
        raise binder.refuse("picks rows of a table that is not constant, or by indices that were computed")
    rows = binder.view(node.operands[1])
    output = binder.new(node.output.shape)
    words = (indices, rows, output, indices.size, *table.shape, binder.status)
    binder.emit(pick_rows, words, (indices, rows), output)
    return output


BINDINGS = {
    ops.linear: _bind_linear,
    fused_linear: _bind_linear,
    ops.matmul: _bind_matmul,
    ops.embedding: _bind_embedding,
}
