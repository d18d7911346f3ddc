"""The product of rows with a weight in compressed sparse rows: 64 rows at a time, their sums in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from tinytorch.core.op import Array, Implementation, Saved
from tinytorch.perf.kernels.gemm.packing import aligned_empty
from tinytorch.perf.kernels.runtime import threads, vectors
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.ops.sparse import check_operands, sparse_linear

#: Rows that are multiplied at a time: four vectors of 512 bits.
ROWS = 64
_LANES = 16
#: About how long a stored weight takes for so many rows, and for one row, in nanoseconds.
_BLOCK_NS, _ONE_NS = 1.0, 0.5
_FLOATS = ir.VectorType(vectors.FLOAT, _LANES)


@vectors.emitted()
def sparse_sums(
    builder: Any, values: Any, indices: Any, begin: Any, end: Any, tile: Any, first: Any, output: Any, to: Any
) -> None:
    """Write `ROWS` sums Σ value x of the values from ``begin`` to ``end`` to ``output`` from ``to`` on.

    An input's x are `ROWS` neighbours in ``tile``, those of the first input from ``first`` on.
    """
    index = first.type
    sums = vectors.variables(builder, _FLOATS, ROWS // _LANES)
    with cgutils.for_range_slice(builder, begin, end, index(1), index) as (place, _):
        weight = vectors.filled(builder, builder.load(builder.gep(values, [place])), _FLOATS)
        which = builder.zext(builder.load(builder.gep(indices, [place])), index)
        where = builder.add(first, builder.mul(which, index(ROWS)))
        for slot, at in zip(sums, vectors.offsets(builder, where, _LANES, len(sums)), strict=True):
            vectors.add_product(builder, slot, weight, vectors.load(builder, tile, at, _FLOATS))
    for slot, at in zip(sums, vectors.offsets(builder, to, _LANES, len(sums)), strict=True):
        vectors.store(builder, builder.load(slot), output, at)


@kernel
def sparse_block(start: Any, stop: Any, tile: Any, values: Any, indices: Any, starts: Any, output: Any) -> None:
    """Fill rows ``start`` to ``stop`` of ``output``, flat (out, ROWS), from ``tile``, flat (in, ROWS)."""
    for row in range(start, stop):
        begin, end = np.int64(starts[row]), np.int64(starts[row + 1])
        sparse_sums(values, indices, begin, end, tile, np.int64(0), output, np.int64(row * ROWS))


@kernel
def sparse_one(start: Any, stop: Any, x: Any, values: Any, indices: Any, starts: Any, output: Any) -> None:
    """Fill outputs ``start`` to ``stop`` of one row, in four sums that do not wait for each other."""
    for row in range(start, stop):
        begin, end = starts[row], starts[row + 1]
        weights, inputs = values[begin:end], indices[begin:end]
        a = b = c = d = np.float32(0)
        for turn in range(len(weights) // 4):
            a += weights[4 * turn] * x[inputs[4 * turn]]
            b += weights[4 * turn + 1] * x[inputs[4 * turn + 1]]
            c += weights[4 * turn + 2] * x[inputs[4 * turn + 2]]
            d += weights[4 * turn + 3] * x[inputs[4 * turn + 3]]
        for place in range(len(weights) // 4 * 4, len(weights)):
            a += weights[place] * x[inputs[place]]
        output[row] = (a + b) + (c + d)


def _forward(
    keep: bool, x: Array, values: Array, indices: Array, starts: Array, bias: Array | None = None, *, in_features: int
) -> tuple[Array, Saved]:
    """float32 x of any strides; other dtypes, and indices of four bytes, go to the op's reference."""
    if x.dtype != np.float32 or values.dtype != np.float32 or indices.dtype != np.uint16:
        return sparse_linear.reference.forward(keep, x, values, indices, starts, bias, in_features=in_features)
    check_operands(x, values, indices, in_features)
    rows = x.reshape(-1, in_features)
    weight = np.ascontiguousarray(values), np.ascontiguousarray(indices), np.ascontiguousarray(starts)
    output = np.empty((len(rows), len(starts) - 1), np.float32)
    _fill(output, rows, weight)
    if bias is not None:
        output += bias
    saved = (rows, values, indices, starts, x.shape) if keep else ()
    return output.reshape(*x.shape[:-1], len(starts) - 1), saved


def _fill(output: Array, rows: Array, weight: tuple[Array, ...]) -> None:
    """Fill ``output`` in blocks of `ROWS` rows; few rows, for which a block is mostly empty, go one by one.

    The vectors of a block begin at cache lines: of a tile that begins between two lines each load would be two, and
    where NumPy's arrays begin differs from call to call.
    """
    outputs = output.shape[1]
    per_output = len(weight[0]) / max(outputs, 1)
    if len(rows) <= 4:
        for x, result in zip(rows, output, strict=True):
            threads.split(sparse_one, outputs, per_output * _ONE_NS, np.ascontiguousarray(x), *weight, result)
        return
    room = aligned_empty((rows.shape[1] + outputs) * ROWS).reshape(-1, ROWS)  # of each a whole number of lines
    tile, sums = room[: rows.shape[1]], room[rows.shape[1] :]
    for first in range(0, len(rows), ROWS):
        some = rows[first : first + ROWS]
        tile[:, : len(some)], tile[:, len(some) :] = some.T, 0
        threads.split(sparse_block, outputs, per_output * _BLOCK_NS, tile.reshape(-1), *weight, sums.reshape(-1))
        output[first : first + ROWS] = sums[:, : len(some)].T


IMPLEMENTATIONS = {
    sparse_linear: Implementation("numba", _forward, sparse_linear.reference.backward),
}
