"""Softmax, cross-entropy, sums, means and maxima of rows: a row is read from memory once and worked on in cache.

With them are the mean squared error and the gradient of an embedding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Gradients, Implementation, Op, Saved, Work
from tinytorch.core.ops.elementwise import ADDENDS
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import FLOAT32, beside, dense, flat, in_order_of, line, rows_of
from tinytorch.perf.kernels.runtime.vector_math import add_in_any_order, exp_of_negative, larger, of_sort_key, sort_key
from tinytorch.perf.kernels.runtime.vectors import ask_ahead

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
def weigh_line(line: Any, scale: Any) -> Any:
    """Replace scores by e**(scale (score - largest)); return 1 / their sum."""
    largest = row_maximum(line)
    total = _ZERO
    for i in range(line.size):
        weight = exp_of_negative((line[i] - largest) * scale)
        line[i] = weight
        total = add_in_any_order(total, weight)
    return _ONE / total


@kernel
def softmax_share(start: Any, stop: Any, x: Any, output: Any) -> None:
    """Fill rows ``start`` to ``stop``."""
    for number in range(start, stop):
        ask_ahead(x, number, stop)
        softmax_row(line(x, number), line(output, number))


@kernel
def log_softmax_share(start: Any, stop: Any, x: Any, output: Any) -> None:
    """Fill rows ``start`` to ``stop`` with the logarithm of the softmax."""
    for number in range(start, stop):
        ask_ahead(x, number, stop)
        row, result = line(x, number), line(output, number)
        largest = row_maximum(row)
        total = _ZERO
        for i in range(row.size):
            total = add_in_any_order(total, exp_of_negative(row[i] - largest))
        shift = np.float32(math.log(total))
        for i in range(row.size):
            result[i] = row[i] - largest - shift


@kernel
def log_softmax_backward_share(start: Any, stop: Any, gradient: Any, y: Any, down: Any) -> None:
    """Fill rows ``start`` to ``stop`` of ``down``, which may be the gradient itself: g - e**y sum(g)."""
    for number in range(start, stop):
        g, logarithms, result = line(gradient, number), line(y, number), line(down, number)
        total = _ZERO
        for i in range(g.size):
            total = add_in_any_order(total, g[i])
        for i in range(g.size):
            result[i] = g[i] - exp_of_negative(logarithms[i]) * total


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
        g, weights, result = line(gradient, number), line(y, number), line(down, number)
        along = _ZERO
        for i in range(g.size):
            along = add_in_any_order(along, g[i] * weights[i])
        for i in range(g.size):
            result[i] = weights[i] * (g[i] - along)


def softmax_backward(gradient: Array, output: Array, owned: bool, share: Any = softmax_backward_share) -> Array:
    """Return the gradient of the input from that of the output, and from the output, which is contiguous."""
    rows = rows_of(gradient)
    reusable = owned or not np.may_share_memory(rows, gradient)
    down = rows if reusable else np.empty_like(rows)
    threads.split(share, len(rows), rows.shape[1] * BACKWARD_NS, rows, rows_of(output), down)
    return down.reshape(output.shape)


def _along_an_axis(op: Op, share: Any, backward_share: Any) -> Implementation:
    """Return the implementation of softmax or its logarithm: float32 of any shape, along any axis.

    Other dtypes go to the op's reference.
    """

    def forward(keep: bool, x: Array, *, axis: int = -1) -> tuple[Array, Saved]:
        if x.dtype != FLOAT32 or not x.size:
            output, saved = op.reference.forward(keep, x, axis=axis)
            return output, (None, saved) if keep else ()
        if axis not in (-1, x.ndim - 1):
            output, saved = forward(keep, x.swapaxes(axis, -1))
            return output.swapaxes(axis, -1), (output, axis) if keep else ()
        rows = rows_of(x)
        output = np.empty(x.shape, FLOAT32)
        threads.split(share, len(rows), rows.shape[1] * FORWARD_NS, rows, rows_of(output))
        return output, (output, axis) if keep else ()

    def backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
        output, axis = saved
        if output is None:
            return op.reference.backward(gradient, axis, needs, owned)
        return (softmax_backward(gradient.swapaxes(axis, -1), output, owned, backward_share).swapaxes(axis, -1),)

    return Implementation("numba", forward, backward)


_SOFTMAX = {
    ops.softmax: _along_an_axis(ops.softmax, softmax_share, softmax_backward_share),
    ops.log_softmax: _along_an_axis(ops.log_softmax, log_softmax_share, log_softmax_backward_share),
}


#: About how long an element takes, in nanoseconds.
_CROSS_ENTROPY_NS = 0.25


@kernel
def cross_entropy_share(start: Any, stop: Any, logits: Any, labels: Any, losses: Any, moments: Any) -> None:
    """Fill ``losses`` of rows ``start`` to ``stop``, and of ``moments`` the maximum and the sum of weights."""
    for number in range(start, stop):
        ask_ahead(logits, number, stop)
        row = line(logits, number)
        largest = row_maximum(row)
        total = _ZERO
        for i in range(row.size):
            total = add_in_any_order(total, exp_of_negative(row[i] - largest))
        moments[number, 0], moments[number, 1] = largest, total
        losses[number] = math.log(total) - (row[labels[number]] - largest)


@kernel
def cross_entropy_backward_share(
    start: Any, stop: Any, logits: Any, labels: Any, moments: Any, scales: Any, down: Any
) -> None:
    """Fill rows ``start`` to ``stop`` of ``down``: (softmax - one at the label) times the row's scale."""
    for number in range(start, stop):
        ask_ahead(logits, number, stop)
        row, result = line(logits, number), line(down, number)
        largest, scale = moments[number, 0], scales[number]
        factor = scale / moments[number, 1]
        for i in range(row.size):
            result[i] = exp_of_negative(row[i] - largest) * factor
        result[labels[number]] -= scale


@kernel
def are_classes(labels: Any, classes: Any) -> Any:
    """Return whether all labels are at least 0 and below ``classes``."""
    fit = True
    for i in range(labels.size):
        fit &= 0 <= labels[i] < classes
    return fit


def _checked(logits: Array, target: Array, ignore_index: int | None) -> tuple[Array, Array | None, int] | None:
    """Return labels, which of them count (None for all) and how many do; None for input that the reference refuses."""
    if logits.shape[:-1] != target.shape or target.dtype.kind not in "iu" or not target.size:
        return None
    labels = target.astype(np.int64).ravel()  # a copy, for the backward
    counted = None if ignore_index is None else labels != ignore_index
    if counted is not None:
        labels = labels * counted
    if not are_classes(labels, logits.shape[-1]):
        return None
    count = labels.size if counted is None else int(np.add.reduce(counted))
    return (labels, counted, count) if count else None


def _cross_entropy_forward(
    keep: bool, logits: Array, target: Array, *, ignore_index: int | None = None
) -> tuple[Array, Saved]:
    """Cross-entropy of float32 logits of any shape and strides; the reference runs other dtypes and refuses bad input.

    The mean over rows is taken in float64.
    """
    checked = _checked(logits, target, ignore_index) if logits.dtype == FLOAT32 and logits.ndim else None
    if checked is None:
        loss, saved = ops.cross_entropy.reference.forward(keep, logits, target, ignore_index=ignore_index)
        return loss, (None, saved) if keep else ()
    labels, counted, count = checked
    rows = rows_of(logits)
    losses, moments = np.empty(len(rows), np.float64), np.empty((len(rows), 2), np.float32)
    threads.split(cross_entropy_share, len(rows), rows.shape[1] * _CROSS_ENTROPY_NS, rows, labels, losses, moments)
    if counted is not None:
        losses[~counted] = 0  # a product would keep what is infinite or NaN in them
    loss = np.asarray(np.add.reduce(losses) / count, FLOAT32)
    return loss, (rows, labels, counted, count, moments, logits.shape) if keep else ()


def _cross_entropy_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if saved[0] is None:
        return ops.cross_entropy.reference.backward(gradient, saved[1], needs, owned)
    rows, labels, counted, count, moments, shape = saved
    scales = np.full(len(rows), gradient / np.float32(count), np.float32)
    down = np.empty_like(rows)
    threads.split(
        cross_entropy_backward_share, len(rows), rows.shape[1] * _CROSS_ENTROPY_NS, rows, labels, moments, scales, down
    )
    if counted is not None:
        down[~counted] = 0
    return down.reshape(shape), None


def _cross_entropy_work(call: Call) -> Work:
    """Maximum, shift, exponential and sum for each logit; backward shift, exponential and product."""
    return Work(elementwise=(4 if call.phase == "forward" else 3) * call.inputs[0].size)


_CROSS_ENTROPY = {
    ops.cross_entropy: Implementation("numba", _cross_entropy_forward, _cross_entropy_backward, _cross_entropy_work)
}


#: About how long an element takes, in nanoseconds.
_SUM_NS = 0.2
#: Elements whose squared errors are one partial sum, and columns of a table that are one item.
_BLOCK, _COLUMNS = 4096, 64


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
    threads.split(maximum_backward_share, len(rows), rows.shape[1] * _SUM_NS, given, rows, most, rows_of(down))
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
    threads.split(squared_error_share, sums.size, _BLOCK * _SUM_NS, prediction.ravel("K"), target.ravel("K"), sums)
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
        threads.split(squared_error_backward_share, down.size, _SUM_NS, flat_prediction, flat(target), factor, into)
    return down if needs[0] else None, -down if needs[1] else None


def _embedding_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Sums of float32; where a row takes more than float32 adds up well, the reference's."""
    indices, shape = saved
    picked = np.ascontiguousarray(indices.reshape(-1), np.int64)
    if gradient.dtype != np.float32 or not picked.size or np.bincount(picked).max() > ADDENDS:
        return ops.embedding.reference.backward(gradient, saved, needs, owned)
    rows, down = rows_of(gradient), np.zeros(shape, np.float32)
    blocks = -(-shape[1] // _COLUMNS)
    threads.split(add_rows_share, blocks, len(rows) * _COLUMNS * _SUM_NS, picked, rows, down)
    return None, down


IMPLEMENTATIONS = {
    **_SOFTMAX,
    **_CROSS_ENTROPY,
    ops.max_: Implementation("numba", ops.max_.reference.forward, _max_backward),
    ops.mean_squared_error: Implementation("numba", _squared_error, _squared_error_backward),
    ops.embedding: Implementation("numba", ops.embedding.reference.forward, _embedding_backward),
}
