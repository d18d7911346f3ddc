"""Softmax and causal softmax over the last axis: a row is read from memory once and worked on in cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Saved
from tinytorch.perf.kernels import threads
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.flat import rows_of
from tinytorch.perf.kernels.prefetching import ask_ahead
from tinytorch.perf.kernels.vector_math import add_in_any_order, exp_of_negative, larger, of_sort_key, sort_key

#: About how long an element takes, forward and backward, in nanoseconds.
FORWARD_NS, BACKWARD_NS = 0.3, 0.3
_MINUS_INFINITY = np.float32(-np.inf)
_ZERO, _ONE = np.float32(0), np.float32(1)


@kernel
def row_maximum(row: Any) -> Any:
    """Return the largest element of a row. A NaN is returned, or, with its sign set, passed over."""
    largest = sort_key(_MINUS_INFINITY)
    for i in range(row.size):
        largest = larger(largest, sort_key(row[i]))
    return of_sort_key(largest)


@kernel
def softmax_row(row: Any, output: Any) -> None:
    """Fill ``output`` with e**row over its sum."""
    largest = row_maximum(row)
    total = _ZERO
    for i in range(row.size):
        weight = exp_of_negative(row[i] - largest)
        output[i] = weight
        total = add_in_any_order(total, weight)
    factor = _ONE / total
    for i in range(row.size):
        output[i] *= factor


@kernel
def softmax_share(start: Any, stop: Any, x: Any, output: Any) -> None:
    """Fill rows ``start`` to ``stop``."""
    for number in range(start, stop):
        ask_ahead(x, number, stop)
        softmax_row(x[number], output[number])


@kernel
def causal_softmax_share(start: Any, stop: Any, x: Any, output: Any, queries: Any) -> None:
    """Fill rows ``start`` to ``stop``: those of each matrix of ``queries`` rows see as far as their own position."""
    keys = x.shape[1]
    for number in range(start, stop):
        seen = keys - queries + number % queries + 1
        softmax_row(x[number, :seen], output[number, :seen])
        output[number, seen:] = _ZERO


@kernel
def softmax_backward_share(start: Any, stop: Any, gradient: Any, y: Any, down: Any) -> None:
    """Fill rows ``start`` to ``stop`` of ``down``, which may be the gradient itself: y (g - sum(g y))."""
    for number in range(start, stop):
        g, weights, result = gradient[number], y[number], down[number]
        along = _ZERO
        for i in range(g.size):
            along = add_in_any_order(along, g[i] * weights[i])
        for i in range(g.size):
            result[i] = weights[i] * (g[i] - along)


def fill_softmax(x: Array, output: Array, queries: int | None = None) -> None:
    """Fill the contiguous matrix ``output`` with the softmax of the rows of ``x``; causal with ``queries``."""
    ns = x.shape[1] * FORWARD_NS
    if queries is None:
        threads.split(softmax_share, len(x), ns, x, output)
    else:
        threads.split(causal_softmax_share, len(x), ns, x, output, queries)


def softmax_backward(gradient: Array, output: Array, owned: bool) -> Array:
    """Return the gradient of the input from that of the output, and from the output, which is contiguous."""
    rows = rows_of(gradient)
    reusable = owned or not np.may_share_memory(rows, gradient)
    down = rows if reusable else np.empty_like(rows)
    threads.split(softmax_backward_share, len(rows), rows.shape[1] * BACKWARD_NS, rows, rows_of(output), down)
    return down.reshape(output.shape)


def _forward(keep: bool, x: Array, *, axis: int = -1) -> tuple[Array, Saved]:
    """Softmax of float32 of any shape along any axis; other dtypes go to the op's reference."""
    if x.dtype != np.float32 or not x.size:
        output, saved = ops.softmax.reference.forward(keep, x, axis=axis)
        return output, (None, saved) if keep else ()
    last = x.swapaxes(axis, -1)
    output = np.empty(last.shape, np.float32)
    fill_softmax(rows_of(last), rows_of(output))
    return output.swapaxes(axis, -1), (output, axis) if keep else ()


def _backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    output, axis = saved
    if output is None:
        return ops.softmax.reference.backward(gradient, axis, needs, owned)
    return (softmax_backward(gradient.swapaxes(axis, -1), output, owned).swapaxes(axis, -1),)


IMPLEMENTATIONS = {ops.softmax: Implementation("numba", _forward, _backward)}
