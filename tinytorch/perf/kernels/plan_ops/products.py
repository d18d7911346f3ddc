"""Entry points of products: rows times packed weights with what follows them, one row, products of matrices, a table.

One row meets each weight once, so nothing is reused. Several steps of the inner axis are added up side by side, as a
sum of one accumulator would wait for the unit that adds; and what lies in memory is asked for well ahead, across the
pages at which hardware stops to look ahead.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

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
from tinytorch.perf.kernels.gemm.packing import pack, padded, panel_start
from tinytorch.perf.kernels.gemm.product_tiles import LANES, WIDTH
from tinytorch.perf.kernels.gemm.register_tiles import INT64, TileStep, add_up
from tinytorch.perf.kernels.plan_ops.binding import Binder, RecordedOp, Value, View, aligned, row_strides
from tinytorch.perf.kernels.plan_ops.driver import WORDS, Entry, part
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import floats_at, matrix_at, words_at
from tinytorch.perf.ops.fused import fused_linear

#: Steps of the inner axis that have accumulators of their own.
_WAYS = 4
#: Bytes of weights above which they come from memory and not from a cache, and floats that are then asked for ahead.
FAR_BYTES, _AHEAD = 4 << 20, 1536


def _panel(width: int, far: bool) -> Any:
    """Return the intrinsic ``f(x, panel, bias, out, count)`` for a panel of ``width`` vectors.

    It writes bias + sum over k < count of x[k] * panel[k]; all are addresses.
    """
    vector = ir.VectorType(vectors.FLOAT, LANES)

    def panel_product(_typing: Any, x: Any, panel: Any, bias: Any, out: Any, count: Any) -> Any:
        def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            *addresses, count = arguments
            x, panel, bias, out = (builder.inttoptr(each, vectors.FLOAT.as_pointer()) for each in addresses)
            places = [INT64(LANES * number) for number in range(width)]
            whole = builder.and_(count, INT64(-_WAYS))

            def sweep(step: TileStep) -> None:
                def take(index: Any, way: int) -> None:
                    here = builder.gep(panel, [builder.mul(index, INT64(width * LANES))])
                    if far:
                        vectors.prefetch(builder, builder.gep(here, [INT64(_AHEAD)]), width * LANES)
                    step([builder.gep(x, [index])], here, way)

                with cgutils.for_range_slice(builder, INT64(0), whole, INT64(_WAYS), INT64) as (start, _):
                    for way in range(_WAYS):
                        take(builder.add(start, INT64(way)), way)
                with cgutils.for_range_slice(builder, whole, count, INT64(1), INT64) as (index, _):
                    take(index, 0)

            begin = [vectors.load(builder, bias, place, vector) for place in places]
            for value, place in zip(add_up(builder, (1, width, vector), sweep, begin, ways=_WAYS), places, strict=True):
                vectors.store(builder, value, out, place)
            return context.get_dummy_value()

        return types.void(*[types.intp for _ in (x, panel, bias, out, count)]), emit

    return intrinsic(panel_product)


_near_1, _near_2, _near_3 = (_panel(width, False) for width in (1, 2, 3))
_far_1, _far_2, _far_3 = (_panel(width, True) for width in (1, 2, 3))


@kernel
def row_product(x: int, panels: int, bias: int, out: int, inner: int, columns: int) -> None:
    """Write a row of ``inner`` floats times a packed matrix, plus ``bias``; all but the sizes are addresses.

    ``bias`` and ``out`` have whole vectors: those beyond ``columns`` are read and written as well.
    """
    count = (columns + WIDTH - 1) // WIDTH
    far = 4 * inner * columns > FAR_BYTES
    for number in range(count):
        first = LANES * panel_start(number, columns)
        width = LANES * panel_start(number + 1, columns) - first
        panel, added, to = panels + 4 * inner * first, bias + 4 * first, out + 4 * first
        if far:
            if width == 3 * LANES:
                _far_3(x, panel, added, to, inner)
            elif width == 2 * LANES:
                _far_2(x, panel, added, to, inner)
            else:
                _far_1(x, panel, added, to, inner)
        elif width == 3 * LANES:
            _near_3(x, panel, added, to, inner)
        elif width == 2 * LANES:
            _near_2(x, panel, added, to, inner)
        else:
            _near_1(x, panel, added, to, inner)


#: Rows of an item of `product_items`.
_CHUNK = 256


def _one_row(row: int) -> None:
    """Multiply one row; words: x, panels, bias, residual or 0, output, inner, columns, activation, line to work in.

    The line has whole vectors; it is 0 where the output has them.
    """
    w = words_at(row, WORDS)
    to = w[9] if w[9] else w[5]
    row_product(w[1], w[2], w[3], to, w[6], w[7])
    line = floats_at(to, w[7])
    if w[8] == 1:
        relu_line(line)
    elif w[8] == 2:
        gelu_line(line)
    if w[4]:
        add_line(line, floats_at(w[4], w[7]))
    if w[9]:
        output = floats_at(w[5], w[7])
        for i in range(output.size):
            output[i] = line[i]


def _rows(row: int) -> None:
    """Multiply rows; words: x, panels, bias, residual or 0, output, inner, columns, activation, rows, items of work."""
    w = words_at(row, WORDS)
    inner, columns, rows = w[6], w[7], w[9]
    nothing = matrix_at(row, 0, 0)
    x, output = matrix_at(w[1], rows, inner), matrix_at(w[5], rows, columns)
    panels, bias = floats_at(w[2], inner * columns), floats_at(w[3], columns)
    residual = matrix_at(w[4], rows if w[4] else 0, columns)
    first, last = part(w, w[10])
    product_items(first, last, x, False, nothing, False, panels, bias, residual, nothing, output, w[8], 0)


def _matrices(row: int) -> None:
    """Multiply pairs of matrices; words: a, b, output, places, pairs, rows, inner, columns, b transposed, items.

    Places are, for each pair, the offsets of a, b and output in floats.
    """
    w = words_at(row, WORDS)
    rows, inner, columns = w[6], w[7], w[8]
    nothing, line = matrix_at(row, 0, 0), floats_at(row, 0)
    places = words_at(w[4], 3 * w[5])
    for pair in range(w[5]):
        a, output = (
            matrix_at(w[1] + 4 * places[3 * pair], rows, inner),
            matrix_at(w[3] + 4 * places[3 * pair + 2], rows, columns),
        )
        b_at = w[2] + 4 * places[3 * pair + 1]
        b = matrix_at(b_at, columns, inner) if w[9] else matrix_at(b_at, inner, columns)
        product_items(0, w[10], a, False, b, w[9] == 1, line, line, nothing, nothing, output, 0, 1)


def _pick_rows(row: int) -> None:
    """Copy rows of a table; words: indices, table, output, how many, rows of the table, width, status."""
    w = words_at(row, WORDS)
    indices, width = words_at(w[1], w[4]), w[6]
    for number in range(w[4]):
        index = indices[number]
        if index < 0 or index >= w[5]:
            words_at(w[7], 1)[0] = 1
            index = 0
        line, output = floats_at(w[2] + 4 * index * width, width), floats_at(w[3] + 4 * number * width, width)
        for i in range(width):
            output[i] = line[i]


one_row, many_rows, many_matrices, pick_rows = Entry(_one_row), Entry(_rows), Entry(_matrices), Entry(_pick_rows)


def _packed(weight: Array, order: Array | None) -> Array:
    """Return a weight as panels, its rows in ``order`` if given."""
    return pack(np.ascontiguousarray(weight if order is None else weight[order], np.float32))


def _bias(bias: Array | None, columns: int) -> Array:
    """Return a bias filled up to whole vectors; zeros if there is none."""
    made = np.zeros(padded(columns), np.float32)
    if bias is not None:
        made[:columns] = bias
    return aligned(made)


def _constant(operand: Any) -> Array | None:
    return operand.array if isinstance(operand, Value) else None


def _bind_linear(node: RecordedOp, binder: Binder) -> View:
    """Bind `linear` and `fused_linear` of a constant weight and bias: (x, weight, bias, residual)."""
    x_operand, weight_operand, *rest = node.operands
    bias_operand, residual_operand = (*rest, None, None)[:2]
    weight, bias = _constant(weight_operand), _constant(bias_operand)
    if weight is None or (bias_operand is not None and bias is None):
        raise binder.refuse("has a weight that depends on the input")
    x, order = _rows_of(binder, binder.view(x_operand))
    inner, columns = weight.shape
    rows = x.size // inner
    how = ("panels", None if order is None else order.tobytes())
    panels = binder.prepared(how, weight, lambda: _packed(weight, order))
    added = binder.prepared(("bias", columns), bias, lambda: _bias(bias, columns))
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
    indices, table = binder.view(node.operands[0]), _constant(node.operands[1])
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
