"""The right operand of a product, laid out as the innermost loop reads it: panels of columns, each row of it in a row.

A panel is at most `WIDTH` columns wide and a whole number of vectors, the last one filled up with zeros. Panel by
panel, row by row, so that the loop over the inner axis walks through memory in one direction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.panel_copies import copy_rows, transpose_rows
from tinytorch.perf.kernels.product_tiles import LANES, VECTORS

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
        copy_rows(matrix.ctypes.data + 4 * first, step, packed.ctypes.data, inner, width // LANES)
        return
    whole, deep = 0, 0
    if transposed:
        whole, deep = real // LANES * LANES, inner // LANES * LANES
        for column in range(0, whole, LANES):
            source = matrix.ctypes.data + 4 * (first + column) * step
            transpose_rows(source, step, packed.ctypes.data + 4 * column, width, deep)
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
