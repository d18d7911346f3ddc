"""The matrix product as one teaches it, compiled: loops in two orders, tiles in a cache, in registers, and packed.

These are to be read, on a page: what each of them costs, and why, stands there. The product to use is
`packed_matmul.product`, which has the same tiles for any shape. Sources: M. S. Lam, E. E. Rothberg and M. E. Wolf, The
cache performance and optimizations of blocked algorithms, ASPLOS 1991; K. Goto and R. A. van de Geijn, Anatomy of
high-performance matrix multiplication, ACM TOMS 34(3), 2008.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS, WIDTH, multiply_tile
from tinytorch.perf.kernels.runtime import vectors
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


#: What the tile below is made of, as the compiler writes it: a vector of `LANES` floats, in one register.
@vectors.emitted(vectors.Lanes(LANES))
def load(builder: Any, row: Any, at: Any) -> Any:
    """Return the vector that begins at ``row[at]``."""
    return vectors.load(builder, row, at, vectors.Lanes(LANES).kind)


@vectors.emitted(vectors.Lanes(LANES), takes=[types.float32])
def filled(builder: Any, number: Any) -> Any:
    """Return a vector that has ``number`` in each lane."""
    return vectors.filled(builder, number, vectors.Lanes(LANES).kind)


@vectors.emitted(vectors.Lanes(LANES))
def fma(builder: Any, x: Any, y: Any, total: Any) -> Any:
    """Return ``total + x * y``, lane by lane."""
    return vectors.fused_multiply_add(builder, x, y, total)


@vectors.emitted()
def store(builder: Any, value: Any, row: Any, at: Any) -> None:
    """Write a vector from ``row[at]`` on."""
    vectors.store(builder, value, row, at)


@kernel
def two_by_two(a: Any, b: Any, out: Any) -> None:
    """Fill ``out``, two rows of two vectors, with ``a @ b``."""
    c00 = c01 = c10 = c11 = filled(0)
    for k in range(b.shape[0]):
        b0, b1 = load(b[k], 0), load(b[k], LANES)
        a0, a1 = filled(a[0, k]), filled(a[1, k])
        c00, c01 = fma(a0, b0, c00), fma(a0, b1, c01)
        c10, c11 = fma(a1, b0, c10), fma(a1, b1, c11)
    store(c00, out[0], 0)
    store(c01, out[0], LANES)
    store(c10, out[1], 0)
    store(c11, out[1], LANES)


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
def in_cache_tiles(a: Any, b: Any, out: Any, deep: Any) -> None:
    """Fill ``out = a @ b`` in the same tiles, ``deep`` rows of b at a time."""
    out[:] = 0
    for top in range(0, b.shape[0], deep):
        left, rows = a[:, top : top + deep], b[top : top + deep]
        for j in range(0, out.shape[1], WIDTH):
            for i in range(0, out.shape[0], ROWS):
                tile = out[i : i + ROWS, j : j + WIDTH]
                add_tile(left[i : i + ROWS], rows[:, j : j + WIDTH], tile)


@kernel
def copy_panels(rows: Any, panels: Any) -> None:
    """Copy rows of b to panels, eight at a time: both are then touched in long pieces, on few pages at once."""
    for first in range(0, len(rows), 8):
        for j in range(len(panels)):
            for k in range(first, min(first + 8, len(rows))):
                for c in range(WIDTH):
                    panels[j, k, c] = rows[k, j * WIDTH + c]


@kernel
def in_packed_blocks(a: Any, b: Any, out: Any, deep: Any) -> None:
    """Fill ``out = a @ b`` as `in_cache_tiles`, of panels that are copied."""
    out[:] = 0
    panels = np.empty((b.shape[1] // WIDTH, deep, WIDTH), np.float32)
    for top in range(0, b.shape[0], deep):
        left, rows = a[:, top : top + deep], b[top : top + deep]
        copy_panels(rows, panels)
        for j in range(len(panels)):
            for i in range(0, out.shape[0], ROWS):
                tile = out[i : i + ROWS, j * WIDTH : (j + 1) * WIDTH]
                add_tile(left[i : i + ROWS], panels[j, : len(rows)], tile)
