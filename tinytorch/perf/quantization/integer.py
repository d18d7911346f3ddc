"""The product of int8 matrices with exact int32 sums, from NumPy's float32 product."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.core.op import Array

#: Terms whose sum float32 holds exactly whatever the order: each is at most 2^14, and 2^14 · 1,024 = 2^24.
EXACT_DEPTH = 1024
#: Terms whose sum an int32 holds whatever the codes.
GREATEST_DEPTH = 2**31 // 2**14 - 1
#: Rows of a, and columns of b, that are float32 at a time: with a depth of 1,024, 4 MiB and 2 MiB.
_ROWS, _COLUMNS = 1024, 512

#: ``product(a, b, packed)``: int32 (rows, columns) of int8 (rows, depth) and int8 (depth, columns), exact. ``packed``
#: is the memory of a kernel: what it makes of ``b`` and keeps for the next call; see `Codes.packed`.
Product = Callable[[Array, Array, dict[str, Any]], Array]


def check_operands(a: Array, b: Array) -> None:
    """Raise ValueError unless ``a`` and ``b`` are int8 matrices whose product int32 holds whatever their codes."""
    for name, matrix in (("a", a), ("b", b)):
        if matrix.dtype != np.int8 or matrix.ndim != 2:
            raise ValueError(f"{name} must be an int8 matrix, not {matrix.dtype} of shape {matrix.shape}")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"b must have {a.shape[1]} rows for a of shape {a.shape}, but its shape is {b.shape}")
    depth = len(b)
    if depth > GREATEST_DEPTH:
        raise ValueError(f"b must have at most {GREATEST_DEPTH:,} rows, so that int32 holds the sums, not {depth:,}")


def integer_product(a: Array, b: Array, packed: dict[str, Any] | None = None) -> Array:
    """Return the exact int32 product of int8 matrices (rows, depth) and (depth, columns).

    NumPy's own integer product is a scalar loop. This one lets BLAS multiply blocks as float32, which hold every sum of
    1,024 products of codes exactly (2^24), and adds the blocks up as int32.

    Raises:
        ValueError: if a dtype is not int8, shapes do not fit, or depth is above 131,071, where int32 could overflow.
    """
    del packed
    check_operands(a, b)
    depth, columns = b.shape
    output = np.zeros((len(a), columns), np.int32)
    for row, top in itertools.product(range(0, len(a), _ROWS), range(0, depth, EXACT_DEPTH)):
        rows, inner = slice(row, row + _ROWS), slice(top, top + EXACT_DEPTH)
        left = a[rows, inner].astype(np.float32)
        for first in range(0, columns, _COLUMNS):
            block = slice(first, first + _COLUMNS)
            output[rows, block] += np.dot(left, b[inner, block].astype(np.float32)).astype(np.int32)
    return output
