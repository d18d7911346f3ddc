"""Sums, means and maxima of rows, and a maximum's gradient; the mean squared error; an embedding's gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Saved
from tinytorch.core.ops.elementwise import ADDENDS
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import FLOAT32, beside, dense, flat, in_order_of, line, rows_of
from tinytorch.perf.kernels.runtime.vector_math import add_in_any_order
from tinytorch.perf.kernels.softmax import row_maximum

#: About how long an element takes, in nanoseconds.
_NS = 0.2
#: Elements whose squared errors are one partial sum, and columns of a table that are one item.
_BLOCK, _COLUMNS = 4096, 64
_ZERO, _ONE = np.float32(0), np.float32(1)


@kernel
def reduce_share(start: Any, stop: Any, x: Any, output: Any, which: Any) -> None:
    """Fill ``output[start:stop]`` with the sums (0), means (1) or maxima (2) of the rows of ``x``."""
    for number in range(start, stop):
        row, total = line(x, number), _ZERO
        if which == 2:
            output[number] = row_maximum(row)
        else:
            for i in range(row.size):
                total = add_in_any_order(total, row[i])
            output[number] = total / np.float32(row.size) if which == 1 else total


@kernel
def maximum_backward_share(start: Any, stop: Any, gradient: Any, x: Any, output: Any, down: Any) -> None:
    """Share the gradients of rows ``start`` to ``stop`` among the elements of ``x`` that are the row's ``output``."""
    for number in range(start, stop):
        row, most, result = line(x, number), output[number], line(down, number)
        count = _ZERO
        for i in range(row.size):
            count = add_in_any_order(count, _ONE if row[i] == most else _ZERO)
        # Where nothing is the maximum it is NaN, and so is 0 / 0.
        hit, missed = gradient[number] * (_ONE / count), gradient[number] * (_ZERO / count)
        for i in range(row.size):
            result[i] = hit if row[i] == most else missed


@kernel
def squared_error_share(start: Any, stop: Any, a: Any, b: Any, sums: Any) -> None:
    """Fill ``sums`` (float64) of blocks ``start`` to ``stop`` of `_BLOCK` elements with those of (a - b)**2."""
    for block in range(start, stop):
        left, right = a[block * _BLOCK : (block + 1) * _BLOCK], b[block * _BLOCK : (block + 1) * _BLOCK]
        total = _ZERO
        for i in range(left.size):
            total = add_in_any_order(total, (left[i] - right[i]) * (left[i] - right[i]))
        sums[block] = total


@kernel
def squared_error_backward_share(start: Any, stop: Any, a: Any, b: Any, factor: Any, down: Any) -> None:
    """Fill ``down[start:stop]`` with (a - b) factor."""
    a, b, down = a[start:stop], b[start:stop], down[start:stop]
    for i in range(a.size):
        down[i] = (a[i] - b[i]) * factor


@kernel
def add_rows_share(start: Any, stop: Any, indices: Any, gradient: Any, down: Any) -> None:
    """Add each row of ``gradient`` to the row of ``down`` that its index picks, by blocks of columns."""
    first, last = start * _COLUMNS, min(stop * _COLUMNS, down.shape[1])
    for number in range(indices.size):
        given, made = gradient[number, first:last], down[indices[number], first:last]
        for i in range(given.size):
            made[i] += given[i]


def _max_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Along one axis, or over all elements, of float32; the rest is the reference's."""
    x, output, axis, keepdims = saved
    if x.dtype != np.float32 or isinstance(axis, tuple) or not x.ndim:
        return ops.max_.reference.backward(gradient, saved, needs, owned)
    last = x.reshape(-1) if axis is None else x.swapaxes(axis, -1)
    if keepdims and axis is not None:
        gradient, output = gradient.swapaxes(axis, -1), output.swapaxes(axis, -1)
    elif axis is not None:
        gradient, output = (np.expand_dims(each, axis).swapaxes(axis, -1) for each in (gradient, output))
    rows, down = rows_of(last), np.empty(last.shape, np.float32)
    given, most = (np.ascontiguousarray(each, np.float32).reshape(-1) for each in (gradient, output))
    threads.split(maximum_backward_share, len(rows), rows.shape[1] * _NS, given, rows, most, rows_of(down))
    return (down.reshape(x.shape) if axis is None else down.swapaxes(axis, -1),)


def _squared_error(keep: bool, prediction: Array, target: Array) -> tuple[Array, Saved]:
    """Mean of squares of float32 of one shape; the reference runs other dtypes and refuses other shapes."""
    fits = prediction.shape == target.shape and prediction.size
    if not fits or not prediction.dtype == target.dtype == FLOAT32:
        output, saved = ops.mean_squared_error.reference.forward(keep, prediction, target)
        return output, (None, saved) if keep else ()
    if prediction.size <= _BLOCK and prediction.flags.c_contiguous and target.flags.c_contiguous:
        single = np.empty(1)
        squared_error_share(0, 1, prediction.ravel(), target.ravel(), single)
        return np.asarray(single[0] / prediction.size, FLOAT32), (prediction, target) if keep else ()
    prediction = dense(prediction)
    target = in_order_of(target, prediction)
    sums = np.empty(-(-prediction.size // _BLOCK))
    threads.split(squared_error_share, sums.size, _BLOCK * _NS, prediction.ravel("K"), target.ravel("K"), sums)
    return np.asarray(np.add.reduce(sums) / prediction.size, FLOAT32), (prediction, target) if keep else ()


def _squared_error_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    prediction, target = saved
    if prediction is None:
        return ops.mean_squared_error.reference.backward(gradient, target, needs, owned)
    factor = np.float32(2 * gradient / np.float32(prediction.size))
    if prediction.size <= _BLOCK:
        down = np.subtract(prediction, target)
        down *= factor
    else:
        _, flat_prediction, down, into = beside(prediction)
        threads.split(squared_error_backward_share, down.size, _NS, flat_prediction, flat(target), factor, into)
    return down if needs[0] else None, -down if needs[1] else None


def _embedding_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Sums of float32; where a row takes more than float32 adds up well, the reference's."""
    indices, shape = saved
    picked = np.ascontiguousarray(indices.reshape(-1), np.int64)
    if gradient.dtype != np.float32 or not picked.size or np.bincount(picked).max() > ADDENDS:
        return ops.embedding.reference.backward(gradient, saved, needs, owned)
    rows, down = rows_of(gradient), np.zeros(shape, np.float32)
    blocks = -(-shape[1] // _COLUMNS)
    threads.split(add_rows_share, blocks, len(rows) * _COLUMNS * _NS, picked, rows, down)
    return None, down


IMPLEMENTATIONS = {
    ops.max_: Implementation("numba", ops.max_.reference.forward, _max_backward),
    ops.mean_squared_error: Implementation("numba", _squared_error, _squared_error_backward),
    ops.embedding: Implementation("numba", ops.embedding.reference.forward, _embedding_backward),
}
