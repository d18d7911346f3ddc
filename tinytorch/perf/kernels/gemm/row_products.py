"""Products of a few float32 rows with a matrix, and dot products of short rows, all sums in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinytorch.perf.kernels.gemm.packing import panel_start
from tinytorch.perf.kernels.gemm.product_tiles import LANES, WIDTH
from tinytorch.perf.kernels.gemm.register_tiles import TileStep, add_up
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.vector_math import multiply_add

#: Floats of the vectors that heads are read in: they are short.
_SHORT = 8
_BYTE = ir.IntType(8)


def _floats_at(builder: Any, pointer: Any, index: Any, vector: Any) -> Any:
    """Return the ``vector`` of floats from element ``index`` on, of an array of float32 or of int8 codes."""
    if pointer.type.pointee != _BYTE:
        return vectors.load(builder, pointer, index, vector)
    codes = vectors.load(builder, pointer, index, ir.VectorType(_BYTE, vector.count), align=1)
    return builder.sitofp(codes, vector)


def _dot(stages: tuple[tuple[int, int], ...]) -> Any:
    """Return ``f(x, x_at, y, y_at, count)``: sum of x[x_at + i] * y[y_at + i], i < count; y float32 or int8, flat.

    Each stage sums as long as its vectors are full: lanes of a vector, and how many sums of vectors at a time.
    """

    @vectors.emitted(types.float32)
    def dot_product(builder: Any, x: Any, x_at: Any, y: Any, y_at: Any, count: Any) -> Any:
        left, right = vectors.from_on(builder, x, x_at, y, y_at)
        total = cgutils.alloca_once(builder, vectors.FLOAT)
        builder.store(vectors.FLOAT(0), total)
        done = count.type(0)
        for lanes, ways in stages:
            vector, step = ir.VectorType(vectors.FLOAT, lanes), count.type(lanes * ways)
            sums = vectors.variables(builder, vector, ways)
            stop = builder.add(done, builder.mul(builder.sdiv(builder.sub(count, done), step), step))
            with cgutils.for_range_slice(builder, done, stop, step) as (start, _):
                for slot, index in zip(sums, vectors.offsets(builder, start, lanes, ways), strict=True):
                    x_lanes = vectors.load(builder, left, index, vector)
                    vectors.add_product(builder, slot, x_lanes, _floats_at(builder, right, index, vector))
            whole = builder.load(sums[0])
            for slot in sums[1:]:
                whole = builder.fadd(whole, builder.load(slot))
            builder.store(builder.fadd(builder.load(total), vectors.total(builder, whole)), total)
            done = stop
        with cgutils.for_range_slice(builder, done, count, count.type(1)) as (index, _):
            a, b = (builder.load(builder.gep(each, [index])) for each in (left, right))
            b = b if b.type == vectors.FLOAT else builder.sitofp(b, vectors.FLOAT)
            builder.store(builder.fadd(builder.fmul(a, b), builder.load(total)), total)
        return builder.load(total)

    return dot_product


#: Of a head's numbers, and of a row of a table.
dot, long_dot = _dot(((_SHORT, 1),)), _dot(((LANES, 4), (_SHORT, 1)))


#: Bytes of weights above which they come from memory and not from a cache, and floats that are then asked for ahead.
FAR_BYTES, _AHEAD = 4 << 20, 1536


def _add_products(
    builder: Any, rows: int, wide: int, lanes: int, ways: int, ahead: int, x: Any, x_at: Any, x_step: Any, weight: Any,
    weight_at: Any, weight_step: Any, output: Any, output_at: Any, output_step: Any, count: Any,
) -> None:  # fmt: skip
    """Add to ``rows`` rows of ``wide`` vectors of ``output`` products of rows of ``x`` and rows of ``weight``.

    A sum is over ``count`` numbers of a row of ``x`` and as many rows of ``weight``, float32 or int8. Places and steps
    from row to row are in elements. All sums stay in registers, in ``ways`` sets: of one row, a sum in one accumulator
    would wait for the unit that adds. Weights ``ahead`` floats further are asked for, if that is not 0.
    """
    vector = ir.VectorType(vectors.FLOAT, lanes)
    left, right, into = vectors.from_on(builder, x, x_at, weight, weight_at, output, output_at)
    starts = [builder.mul(output_step, output_step.type(row)) for row in range(rows)]
    places = [place for start in starts for place in vectors.offsets(builder, start, lanes, wide)]
    lines = [builder.mul(x_step, x_step.type(row)) for row in range(rows)]

    def sweep(step: TileStep) -> None:
        def take(index: Any, way: int) -> None:
            here = builder.gep(right, [builder.mul(index, weight_step)])
            if ahead:
                vectors.prefetch(builder, builder.gep(here, [count.type(ahead)]), wide * lanes)
            step([builder.gep(left, [builder.add(line, index)]) for line in lines], here, way)

        vectors.in_turns(builder, count, ways, take)

    begin = [vectors.load(builder, into, place, vector) for place in places]
    sums = add_up(builder, (rows, wide, vector), sweep, begin, _floats_at, ways)
    for value, place in zip(sums, places, strict=True):
        vectors.store(builder, value, into, place)


#: Of one row and panels, and of rows and a matrix as it lies.
add_panel = vectors.emitted(constants=((1,), (3, 2, 1), (LANES,), (4,), (_AHEAD, 0)))(_add_products)
add_products = vectors.emitted(constants=((4, 1), (4, 1), (LANES, _SHORT), (1,), (0,)))(_add_products)


@kernel
def row_product(x: Any, panels: Any, bias: Any, out: Any, columns: Any) -> None:
    """Write a row times a packed matrix of so many columns, plus ``bias``; all are flat.

    ``bias`` and ``out`` have whole vectors: those beyond ``columns`` are read and written as well.
    """
    inner = x.size
    for j in range(out.size):
        out[j] = bias[j]
    ahead = _AHEAD if 4 * inner * columns > FAR_BYTES else 0
    for number in range((columns + WIDTH - 1) // WIDTH):
        first = LANES * panel_start(number, columns)
        width = LANES * panel_start(number + 1, columns) - first
        add_panel(1, width // LANES, LANES, 4, ahead, x, 0, 0, panels, inner * first, width, out, first, 0, inner)


@vectors.emitted(takes=[types.intp] * 5, constants=((4, 1),))
def add_rows(builder: Any, ways: int, x: Any, weight: Any, step: Any, output: Any, columns: Any) -> None:
    """Add to ``output`` ``ways`` numbers of x times as many rows of ``weight``.

    All but ``step``, the floats from row to row, and ``columns``, a multiple of `LANES`, are addresses.
    """
    vector, index = ir.VectorType(vectors.FLOAT, LANES), ir.IntType(64)
    x, weight, output = vectors.float_pointers(builder, x, weight, output)
    rows = [builder.gep(weight, [builder.mul(step, index(way))]) for way in range(ways)]
    factors = [vectors.filled(builder, builder.load(builder.gep(x, [index(way)])), vector) for way in range(ways)]
    with cgutils.for_range_slice(builder, index(0), columns, index(LANES), index) as (column, _):
        total = vectors.load(builder, output, column, vector)
        for row, factor in zip(rows, factors, strict=True):
            total = vectors.fused_multiply_add(builder, factor, vectors.load(builder, row, column, vector), total)
        vectors.store(builder, total, output, column)


@kernel
def affine_row(x: Any, weight: Any, bias: Any, output: Any) -> None:
    """Fill ``output`` (1, n) with x (1, m) times weight (m, n) plus bias: weights come in the order of memory.

    So memory gives them as fast as it can. Sums are kept in the first cache in place of registers, where four rows of
    weights go by for each time that they are read and written.
    """
    inner, columns = weight.shape
    for j in range(columns):
        output[0, j] = bias[j]
    whole, fours = columns // LANES * LANES, inner // 4 * 4
    to = output.ctypes.data
    for k in range(0, fours, 4):
        add_rows(4, x.ctypes.data + 4 * k, weight.ctypes.data + 4 * k * columns, columns, to, whole)
    for k in range(fours, inner):
        add_rows(1, x.ctypes.data + 4 * k, weight.ctypes.data + 4 * k * columns, columns, to, whole)
    if whole < columns:
        for k in range(inner):
            for j in range(whole, columns):
                output[0, j] = multiply_add(x[0, k], weight[k, j], output[0, j])


@kernel
def affine(x: Any, weight: Any, bias: Any, output: Any) -> None:
    """Fill ``output`` (rows, n) with x (rows, m) times weight (m, n) plus bias: each weight is read once for four rows.

    Sums run over the inputs in order, whatever the number of rows.
    """
    rows, inner = x.shape
    columns = weight.shape[1]
    if rows == 1:
        affine_row(x, weight, bias, output)
        return
    for row in range(rows):
        for j in range(columns):
            output[row, j] = bias[j]
    done = 0
    while done + LANES <= columns:
        wide, row = 4 if done + 4 * LANES <= columns else 1, 0
        while row < rows:
            height = 4 if row + 4 <= rows else 1
            add_products(
                height, wide, LANES, 1, 0, x, row * inner, inner, weight, done, columns, output, row * columns + done,
                columns, inner,
            )  # fmt: skip
            row += height
        done += wide * LANES
    for row in range(rows):
        for k in range(inner):
            for j in range(done, columns):
                output[row, j] = multiply_add(x[row, k], weight[k, j], output[row, j])


@kernel
def weighted_sum(weights: Any, count: Any, rows: Any, output: Any, at: Any) -> None:
    """Fill depth elements of flat ``output`` from ``at`` on with the weighted sum of the first rows (S, depth).

    Rows are float32 or int8.
    """
    depth = rows.shape[1]
    done = 0
    for d in range(depth):
        output[at + d] = 0
    while done + LANES <= depth:
        wide = 4 if done + 4 * LANES <= depth else 1
        add_products(1, wide, LANES, 1, 0, weights, 0, 0, rows, done, depth, output, at + done, 0, count)
        done += wide * LANES
    while done + _SHORT <= depth:
        add_products(1, 1, _SHORT, 1, 0, weights, 0, 0, rows, done, depth, output, at + done, 0, count)
        done += _SHORT
    for d in range(done, depth):
        total = np.float32(0)
        for s in range(count):
            total = multiply_add(weights[s], np.float32(rows[s, d]), total)
        output[at + d] = total
