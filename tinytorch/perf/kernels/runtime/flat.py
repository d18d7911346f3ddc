"""Arrays as kernels of single elements see them: flat, in the order of their memory, whatever their axes."""

from __future__ import annotations

import numpy as np

from tinytorch.core.op import Array


def dense(x: Array) -> Array:
    """Return ``x`` if its elements fill its memory in some order of its axes, as those of images do; else a copy."""
    if x.flags.c_contiguous or x.ravel("K").base is not None:
        return x
    return np.ascontiguousarray(x)


def empty_like(x: Array) -> tuple[Array, Array]:
    """Return a new array of the shape, dtype and memory order of a dense ``x``, and the same one flat."""
    output = np.empty_like(x)
    return output, flat(output)


def flat(x: Array) -> Array:
    """Return a dense ``x`` as a flat view."""
    return x.reshape(-1) if x.flags.c_contiguous else x.ravel("K")


def in_order_of(x: Array, other: Array) -> Array:
    """Return ``x`` in the memory order of a dense ``other`` of the same shape and dtype: itself, or a copy."""
    if x.strides == other.strides or (x.flags.c_contiguous and other.flags.c_contiguous):
        return x
    ordered = np.empty_like(other)
    np.copyto(ordered, x)
    return ordered


def rows_of(x: Array) -> Array:
    """Return ``x`` as a contiguous matrix whose rows are its last axis: a view, or a copy where it is strided."""
    return np.ascontiguousarray(x).reshape(-1, x.shape[-1]) if x.size else x.reshape(0, max(x.shape[-1], 1))
