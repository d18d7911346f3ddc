"""The matrix product as one teaches it, compiled: loops in two orders, tiles in a cache, in registers, and packed.

These are to be read, on a page: what each of them costs, and why, stands there. The product to use is
`packed_matmul.product`, which has the same tiles for any shape. Source of tiles in a cache: M. S. Lam, E. E. Rothberg
and M. E. Wolf, The cache performance and optimizations of blocked algorithms, ASPLOS 1991.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.perf.kernels.gemm.product_tiles import ROWS, VECTORS, WIDTH, multiply_tile
from tinytorch.perf.kernels.runtime.compiling import kernel


@kernel
def rows_columns_inner(a: Any, b: Any, out: Any) -> None:
    """Fill ``out = a @ b`` in the order i, j, k: each number is one sum."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = np.float32(0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total


@kernel
def rows_inner_columns(a: Any, b: Any, out: Any) -> None:
    """Fill ``out = a @ b`` in the order i, k, j: rows of b add to a row."""
    for i in range(a.shape[0]):
        line = out[i]
        line[:] = 0
        for k in range(a.shape[1]):
            factor, row = a[i, k], b[k]
            for j in range(line.size):
                line[j] += factor * row[j]


@kernel
def in_cache_tiles(a: Any, b: Any, out: Any, depth: Any, width: Any) -> None:
    """Fill ``out = a @ b`` in the order i, k, j, a part of b at a time."""
    out[:] = 0
    for top in range(0, b.shape[0], depth):
        for left in range(0, b.shape[1], width):
            for i in range(a.shape[0]):
                line = out[i, left : left + width]
                for k in range(top, min(top + depth, b.shape[0])):
                    factor, row = a[i, k], b[k, left : left + width]
                    for j in range(line.size):
                        line[j] += factor * row[j]


@kernel
def fill_tile(a: Any, b: Any, out: Any) -> None:
    """Fill ``out``, `ROWS` x `WIDTH` numbers of a larger matrix, with ``a @ b``, whose sums stay in registers."""
    _tile(a, b, out, 0)


@kernel
def add_tile(a: Any, b: Any, out: Any) -> None:
    """Add what `fill_tile` fills."""
    _tile(a, b, out, 1)


@kernel
def _tile(a: Any, b: Any, out: Any, add: int) -> None:
    multiply_tile(
        ROWS,
        VECTORS,
        a.ctypes.data,
        a.strides[0] // 4,
        a.strides[1] // 4,
        b.ctypes.data,
        b.strides[0] // 4,
        out.ctypes.data,
        out.strides[0] // 4,
        b.shape[0],
        add,
    )


@kernel
def in_register_tiles(a: Any, b: Any, out: Any) -> None:
    """Fill ``out = a @ b``, which is made of whole tiles, tile by tile."""
    for i in range(0, out.shape[0], ROWS):
        for j in range(0, out.shape[1], WIDTH):
            tile = out[i : i + ROWS, j : j + WIDTH]
            fill_tile(a[i : i + ROWS], b[:, j : j + WIDTH], tile)


@kernel
def in_packed_tiles(a: Any, b: Any, out: Any) -> None:
    """Fill ``out = a @ b`` in the same tiles, of columns that were copied."""
    panel = np.empty((b.shape[0], WIDTH), np.float32)
    for j in range(0, out.shape[1], WIDTH):
        for k in range(b.shape[0]):
            for c in range(WIDTH):
                panel[k, c] = b[k, j + c]
        for i in range(0, out.shape[0], ROWS):
            tile = out[i : i + ROWS, j : j + WIDTH]
            fill_tile(a[i : i + ROWS], panel, tile)


@kernel
def copy_panels(rows: Any, panels: Any) -> None:
    """Copy rows of b to panels, eight at a time: both are then touched in long pieces, on few pages at once."""
    for first in range(0, len(rows), 8):
        for j in range(len(panels)):
            for k in range(first, min(first + 8, len(rows))):
                for c in range(WIDTH):
                    panels[j, k, c] = rows[k, j * WIDTH + c]


@kernel
def copy_strips(columns: Any, strips: Any) -> None:
    """Copy columns of a to strips, in which the numbers of a tile's step lie side by side."""
    for i in range(len(strips)):
        for r in range(ROWS):
            for k in range(columns.shape[1]):
                strips[i, k, r] = columns[i * ROWS + r, k]


@kernel
def in_packed_blocks(a: Any, b: Any, out: Any, deep: Any) -> None:
    """Fill ``out = a @ b`` in the same tiles, of ``deep`` rows of b at a time."""
    out[:] = 0
    panels = np.empty((b.shape[1] // WIDTH, deep, WIDTH), np.float32)
    strips = np.empty((a.shape[0] // ROWS, deep, ROWS), np.float32)
    for top in range(0, b.shape[0], deep):
        rows, columns = b[top : top + deep], a[:, top : top + deep]
        copy_panels(rows, panels)
        copy_strips(columns, strips)
        for j in range(len(panels)):
            for i in range(len(strips)):
                line = out[i * ROWS : (i + 1) * ROWS]
                tile = line[:, j * WIDTH : (j + 1) * WIDTH]
                strip, panel = strips[i, : len(rows)], panels[j, : len(rows)]
                add_tile(strip.T, panel, tile)
