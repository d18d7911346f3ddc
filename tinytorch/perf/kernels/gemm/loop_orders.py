"""The matrix product as one teaches it, compiled: loops in two orders, tiles in a cache, in registers, and packed.

These are to be read. The product to use is `packed_matmul.product`, which has the same tiles for any shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.perf.kernels.gemm.product_tiles import ROWS, VECTORS, WIDTH, multiply_tile
from tinytorch.perf.kernels.runtime.compiling import kernel


@kernel
def rows_columns_inner(a: Any, b: Any, out: Any) -> None:
    """Fill ``out = a @ b`` in the order i, j, k: each element is one sum, which must be added up in order.

    A step of the inner loop waits for the sum of the step before, and goes down a column of ``b``, so that there is
    nothing to make vectors of.
    """
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = np.float32(0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total


@kernel
def rows_inner_columns(a: Any, b: Any, out: Any) -> None:
    """Fill ``out = a @ b`` in the order i, k, j: the inner loop adds a multiple of a row of ``b`` to a row of ``out``.

    It walks along memory, and its steps do not depend on each other, so the compiler makes vectors of it. But each
    multiply-add loads two vectors and stores one.
    """
    for i in range(a.shape[0]):
        line = out[i]
        line[:] = 0
        for k in range(a.shape[1]):
            factor, row = a[i, k], b[k]
            for j in range(line.size):
                line[j] += factor * row[j]


@kernel
def in_cache_tiles(a: Any, b: Any, out: Any, depth: Any, width: Any) -> None:
    """Fill ``out = a @ b`` in the order i, k, j, a part of ``b`` at a time, ``depth`` rows of ``width`` columns.

    The part stays in a near cache while all rows of ``a`` go by. Source: M. S. Lam, E. E. Rothberg and M. E. Wolf, The
    cache performance and optimizations of blocked algorithms, ASPLOS 1991.
    """
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
        0,
    )


@kernel
def in_register_tiles(a: Any, b: Any, out: Any) -> None:
    """Fill ``out = a @ b`` tile by tile, of `ROWS` rows and `WIDTH` columns each, which must divide its shape."""
    for i in range(0, out.shape[0], ROWS):
        for j in range(0, out.shape[1], WIDTH):
            fill_tile(a[i : i + ROWS], b[:, j : j + WIDTH], out[i : i + ROWS, j : j + WIDTH])


@kernel
def in_packed_tiles(a: Any, b: Any, out: Any) -> None:
    """Fill ``out = a @ b`` in the same tiles, `WIDTH` columns of ``b`` at a time, which are copied together first."""
    panel = np.empty((b.shape[0], WIDTH), np.float32)
    for j in range(0, out.shape[1], WIDTH):
        for k in range(b.shape[0]):
            panel[k] = b[k, j : j + WIDTH]
        for i in range(0, out.shape[0], ROWS):
            fill_tile(a[i : i + ROWS], panel, out[i : i + ROWS, j : j + WIDTH])
