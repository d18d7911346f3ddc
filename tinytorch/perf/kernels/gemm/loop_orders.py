"""The matrix product of the textbook, compiled: what order of loops, tiles and registers each do to its speed.

These teach. The product to use is `packed_matmul.product`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.perf.kernels.runtime.compiling import kernel


@kernel
def rows_columns_inner(a: Any, b: Any, out: Any) -> None:
    """Fill ``out = a @ b`` in the order i, j, k: each element is one sum, which must be added up in order.

    A step of the inner loop goes down a column of ``b``: a new cache line for each number, and nothing to make
    vectors of.
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
        for j in range(line.size):
            line[j] = 0
        for k in range(a.shape[1]):
            factor, row = a[i, k], b[k]
            for j in range(line.size):
                line[j] += factor * row[j]


@kernel
def in_tiles(a: Any, b: Any, out: Any, tile: Any) -> None:
    """Fill ``out = a @ b`` tile by tile, i, k, j inside: the part of ``b`` that is used stays in a cache.

    Source: M. S. Lam, E. E. Rothberg and M. E. Wolf, The cache performance and optimizations of blocked algorithms,
    ASPLOS 1991.
    """
    rows, inner = a.shape
    columns = b.shape[1]
    out[:] = 0
    for first in range(0, inner, tile):
        for left in range(0, columns, tile):
            for i in range(rows):
                line = out[i, left : min(left + tile, columns)]
                for k in range(first, min(first + tile, inner)):
                    factor, row = a[i, k], b[k, left : min(left + tile, columns)]
                    for j in range(line.size):
                        line[j] += factor * row[j]


@kernel
def four_steps_at_once(a: Any, b: Any, out: Any) -> None:
    """Fill ``out = a @ b`` in the order i, k, j, four steps of k at once: a vector of ``out`` stays for four of them.

    It is loaded and stored once for four multiply-adds, so there are 1.5 memory operations for each instead of 3.
    """
    inner = a.shape[1]
    whole = inner // 4 * 4
    for i in range(a.shape[0]):
        line = out[i]
        for j in range(line.size):
            line[j] = 0
        for k in range(0, whole, 4):
            p, q, r, s = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            one, two, three, four = b[k], b[k + 1], b[k + 2], b[k + 3]
            for j in range(line.size):
                line[j] += p * one[j] + q * two[j] + r * three[j] + s * four[j]
        for k in range(whole, inner):
            factor, row = a[i, k], b[k]
            for j in range(line.size):
                line[j] += factor * row[j]
