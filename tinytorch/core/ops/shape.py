"""Ops that move or pick elements, also rows of a table, and do no arithmetic."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tinytorch.core.op import (
    Array,
    Call,
    Gradients,
    Op,
    Saved,
    Shape,
    additions_back,
    no_traffic,
    no_work,
    picked_traffic,
)
from tinytorch.core.ops.elementwise import ADDENDS, column_sums


def _reshape_forward(keep: bool, x: Array, *, shape: Shape) -> tuple[Array, Saved]:
    return x.reshape(shape), (x.shape,) if keep else ()


def _reshape_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (gradient.reshape(saved[0]),)


def _transpose_forward(keep: bool, x: Array, *, axes: tuple[int, ...]) -> tuple[Array, Saved]:
    return x.transpose(axes), (axes,) if keep else ()


def _transpose_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (gradient.transpose(np.argsort([axis % gradient.ndim for axis in saved[0]])),)


def _getitem_forward(keep: bool, x: Array, *, index: Any) -> tuple[Array, Saved]:
    return x[index], (x.shape, kept_index(index)) if keep else ()


def kept_index(index: Any) -> Any:
    """Return an index for the backward: copies of what the program may write into until then."""
    if isinstance(index, tuple):
        return tuple([kept_index(part) for part in index])
    return copy.deepcopy(index) if isinstance(index, (np.ndarray, list)) else index


def _getitem_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    shape, index = saved
    if not _may_repeat(index):
        down = np.zeros(shape, gradient.dtype)
        down[index] = gradient
        return (down,)
    # An element that is picked often takes as many addends, one after the other.
    wide = np.float64 if gradient.size > ADDENDS else gradient.dtype
    down = np.zeros(shape, wide)
    np.add.at(down, index, gradient.astype(wide, copy=False))
    return (down.astype(gradient.dtype, copy=False),)


def _may_repeat(index: Any) -> bool:
    """Return whether an index can name one element twice: only sequences and arrays of integers can."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(not isinstance(part, (slice, int, np.integer)) and np.asarray(part).dtype.kind in "iu" for part in parts)


def _concatenate_forward(keep: bool, *arrays: Array, axis: int = 0) -> tuple[Array, Saved]:
    return np.concatenate(arrays, axis=axis), ([a.shape[axis] for a in arrays], axis) if keep else ()


def _concatenate_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    lengths, axis = saved
    parts = np.split(gradient, np.cumsum(lengths)[:-1], axis=axis)
    return tuple(part if needed else None for part, needed in zip(parts, needs, strict=True))


def _joined_traffic(call: Call) -> int:
    """Bytes of all parts, read and written; backward hands out views."""
    return 2 * call.output.nbytes if call.phase == "forward" else 0


def _embedding_forward(keep: bool, indices: Array, table: Array) -> tuple[Array, Saved]:
    if indices.dtype.kind not in "iu":
        raise TypeError(f"embedding needs integer indices, not {indices.dtype}: pass dtype=np.int64")
    if indices.size and not 0 <= indices.min() <= indices.max() < len(table):
        raise IndexError(
            f"embedding indices must lie in 0..{len(table) - 1}, but run from {indices.min()} to {indices.max()}"
        )
    return table.take(indices, axis=0), (indices.copy(), table.shape) if keep else ()


def _embedding_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Add up the gradients of each row: sorted by row, they are runs that one reduction sums."""
    indices, shape = saved
    flat = indices.reshape(-1)
    down = np.zeros(shape, gradient.dtype)
    if flat.size:
        order = np.argsort(flat, kind="stable")
        rows = flat[order]
        starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
        ordered = gradient.reshape(flat.size, shape[1])[order]
        down[rows[starts]] = np.add.reduceat(ordered, starts, axis=0)
        ends = np.append(starts[1:], flat.size)
        for run in np.flatnonzero(ends - starts > ADDENDS):
            down[rows[starts[run]]] = column_sums(ordered[starts[run] : ends[run]])
    return None, down


reshape = Op("reshape", _reshape_forward, _reshape_backward, no_work, no_traffic)
transpose = Op("transpose", _transpose_forward, _transpose_backward, no_work, no_traffic)
getitem = Op("getitem", _getitem_forward, _getitem_backward, no_work, picked_traffic)
concatenate = Op("concatenate", _concatenate_forward, _concatenate_backward, no_work, _joined_traffic)
embedding = Op(
    "embedding", _embedding_forward, _embedding_backward, additions_back, lambda call: picked_traffic(call, table=1)
)
