"""Embedding: rows of a table, picked by integers."""

from __future__ import annotations

import numpy as np

from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work


def _embedding_forward(keep: bool, indices: Array, table: Array) -> tuple[Array, Saved]:
    if indices.dtype.kind not in "iu":
        raise TypeError(f"embedding needs integer indices, not {indices.dtype}: pass dtype=np.int64")
    if indices.size and not 0 <= indices.min() <= indices.max() < len(table):
        raise IndexError(
            f"embedding indices must lie in 0..{len(table) - 1}, but run from {indices.min()} to {indices.max()}"
        )
    return table.take(indices, axis=0), (indices, table.shape) if keep else ()


def _embedding_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Add up the gradients of each row: sorted by row, they are runs that one reduction sums."""
    indices, shape = saved
    flat = indices.reshape(-1)
    down = np.zeros(shape, gradient.dtype)
    if flat.size:
        order = np.argsort(flat, kind="stable")
        rows = flat[order]
        starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
        down[rows[starts]] = np.add.reduceat(gradient.reshape(flat.size, shape[1])[order], starts, axis=0)
    return None, down


def _embedding_work(call: Call) -> Work:
    """No arithmetic forward; backward one addition for each element of the gradient."""
    return Work(elementwise=0 if call.phase == "forward" else call.output.size)


def _embedding_traffic(call: Call) -> int:
    """Bytes of the indices and of the rows picked, read and written; backward fills the whole table."""
    picked = call.output.nbytes
    if call.phase == "forward":
        return call.inputs[0].nbytes + 2 * picked
    return call.inputs[0].nbytes + picked + call.inputs[1].nbytes


embedding = Op("embedding", _embedding_forward, _embedding_backward, _embedding_work, _embedding_traffic)
