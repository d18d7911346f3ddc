"""Panels of a product's right operand, filled at the speed of memory, by copies and by turning columns into rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinytorch.core.op import Array
from tinytorch.perf.kernels.gemm.product_tiles import LANES, VECTORS
from tinytorch.perf.kernels.gemm.register_tiles import transposed
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.compiling import kernel

_INDEX = ir.IntType(64)
#: Rows that are asked for ahead: each begins a page of its own, which no hardware foresees.
_AHEAD = 24
_VECTOR = ir.VectorType(vectors.FLOAT, LANES)


@vectors.emitted(takes=[types.intp] * 4, constants=((3, 2, 1),))
def copy_rows(builder: Any, width: int, source: Any, step: Any, target: Any, rows: Any) -> None:
    """Copy ``rows`` rows of ``width`` (1 to 3) vectors, ``step`` floats apart at ``source``, to one after another."""
    data, to = vectors.float_pointers(builder, source, target)
    with cgutils.for_range(builder, rows, intp=_INDEX) as loop:
        row = builder.gep(data, [builder.mul(loop.index, step)])
        vectors.prefetch(builder, builder.gep(row, [builder.mul(step, _INDEX(_AHEAD))]), width * LANES)
        start = builder.mul(loop.index, _INDEX(width * LANES))
        for number in range(width):
            value = vectors.load(builder, row, _INDEX(number * LANES), _VECTOR)
            vectors.store(builder, value, to, builder.add(start, _INDEX(number * LANES)))


@vectors.emitted(takes=[types.intp] * 4)
def _transpose_square(builder: Any, source: Any, source_step: Any, target: Any, target_step: Any) -> None:
    """Write the transpose of a square of `LANES` rows and columns; distances are in floats."""
    data, to = vectors.float_pointers(builder, source, target)
    rows = [vectors.load(builder, data, builder.mul(source_step, _INDEX(number)), _VECTOR) for number in range(LANES)]
    for number, value in enumerate(transposed(builder, rows)):
        vectors.store(builder, value, to, builder.mul(target_step, _INDEX(number)))


#: Bytes of the widest vector, at whose multiples packed memory begins.
_ALIGNED = 64


def padded(columns: int) -> int:
    """Return ``columns`` rounded up to whole vectors."""
    return -(-columns // LANES) * LANES


@kernel
def panel_start(panel: int, columns: int) -> int:
    """Return the first column of a panel, in vectors; for ``panel`` = number of panels, where the last one ends.

    The widths differ by one vector at most: four vectors are two panels of two, not one of three and one of one.
    """
    vectors = (columns + LANES - 1) // LANES
    panels = (vectors + VECTORS - 1) // VECTORS
    return panel * vectors // panels if panels else 0


@kernel
def pack_panel(matrix: Any, transposed: Any, first: Any, last: Any, packed: Any) -> None:
    """Fill ``packed`` (flat) with columns ``first`` to ``last`` of ``matrix``, or of its transpose, and zeros beyond.

    ``last - first`` is the panel's width with its filling.
    """
    width = last - first
    inner = matrix.shape[1] if transposed else matrix.shape[0]
    columns = matrix.shape[0] if transposed else matrix.shape[1]
    step = matrix.shape[1]
    real = min(last, columns) - first
    if not transposed and real == width:
        copy_rows(width // LANES, matrix.ctypes.data + 4 * first, step, packed.ctypes.data, inner)
        return
    whole, deep = 0, 0
    if transposed:
        whole, deep = real // LANES * LANES, inner // LANES * LANES
        for column in range(0, whole, LANES):
            source, target = matrix.ctypes.data + 4 * (first + column) * step, packed.ctypes.data + 4 * column
            for start in range(0, deep, LANES):
                _transpose_square(source + 4 * start, step, target + 4 * start * width, width)
    for k in range(inner):
        for column in range(whole if k < deep else 0, width):
            value = np.float32(0)
            if column < real:
                value = matrix[first + column, k] if transposed else matrix[k, first + column]
            packed[k * width + column] = value


@kernel
def pack_panels(matrix: Any, transposed: Any, packed: Any) -> None:
    """Fill ``packed`` (flat) with all panels of ``matrix``, or of its transpose."""
    inner = matrix.shape[1] if transposed else matrix.shape[0]
    columns = matrix.shape[0] if transposed else matrix.shape[1]
    for panel in range((columns + LANES * VECTORS - 1) // (LANES * VECTORS)):
        first, last = LANES * panel_start(panel, columns), LANES * panel_start(panel + 1, columns)
        pack_panel(matrix, transposed, first, last, packed[inner * first : inner * last])


def pack(matrix: Array) -> Array:
    """Return float32 ``matrix`` (inner, columns), of any layout, as panels: flat, inner * `padded` (columns) floats.

    Raises:
        ValueError: if it has not two axes or another dtype.
    """
    if matrix.ndim != 2 or matrix.dtype != np.float32:
        raise ValueError(f"matrix must be float32 with two axes, not {matrix.dtype} of shape {matrix.shape}")
    packed = aligned_empty(matrix.shape[0] * padded(matrix.shape[1]))
    rows, transposed = as_rows(matrix)
    pack_panels(rows, transposed, packed)
    return packed


def aligned_empty(size: int) -> Array:
    """Return ``size`` float32 of any value that begin at a multiple of 64 bytes, so that no vector crosses a line."""
    raw = np.empty(size + _ALIGNED // 4, np.float32)
    start = -raw.ctypes.data % _ALIGNED // 4
    return raw[start : start + size]


def as_rows(matrix: Array) -> tuple[Array, bool]:
    """Return a writable C-ordered array that holds ``matrix`` or its transpose, and which; copied if it is neither.

    Kernels are compiled once, for this one kind of array.
    """
    if matrix.flags.c_contiguous and matrix.flags.writeable:
        return matrix, False
    if matrix.flags.f_contiguous and matrix.flags.writeable:
        return matrix.T, True
    return np.array(matrix, order="C", copy=True), False
