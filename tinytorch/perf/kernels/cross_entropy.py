"""Cross-entropy of logits: forward reads them once and stores two numbers a row, backward makes the gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Gradients, Implementation, Saved, Work
from tinytorch.perf.kernels import threads
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.flat import rows_of
from tinytorch.perf.kernels.prefetching import ask_ahead
from tinytorch.perf.kernels.softmax import row_maximum
from tinytorch.perf.kernels.vector_math import add_in_any_order, exp_of_negative

#: About how long an element takes, in nanoseconds.
_NS = 0.25
_ZERO = np.float32(0)


@kernel
def cross_entropy_share(start: Any, stop: Any, logits: Any, labels: Any, losses: Any, moments: Any) -> None:
    """Fill ``losses`` of rows ``start`` to ``stop``, and of ``moments`` the maximum and the sum of weights."""
    for number in range(start, stop):
        ask_ahead(logits, number, stop)
        row = logits[number]
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
        row, result = logits[number], down[number]
        largest, scale = moments[number, 0], scales[number]
        factor = scale / moments[number, 1]
        for i in range(row.size):
            result[i] = exp_of_negative(row[i] - largest) * factor
        result[labels[number]] -= scale


def _checked(logits: Array, target: Array, ignore_index: int | None) -> tuple[Array, Array | None, int] | None:
    """Return labels, which of them count (None for all) and how many do; None for input that the reference refuses."""
    if logits.shape[:-1] != target.shape or target.dtype.kind not in "iu" or not target.size:
        return None
    labels = target.reshape(-1).astype(np.int64, copy=False)
    counted = None if ignore_index is None else labels != ignore_index
    if counted is not None:
        labels = np.where(counted, labels, 0)
    if labels.min() < 0 or labels.max() >= logits.shape[-1]:
        return None
    count = labels.size if counted is None else int(counted.sum())
    return (labels, counted, count) if count else None


def _forward(keep: bool, logits: Array, target: Array, *, ignore_index: int | None = None) -> tuple[Array, Saved]:
    """Cross-entropy of float32 logits of any shape and strides; the reference runs other dtypes and refuses bad input.

    The mean over rows is taken in float64.
    """
    checked = _checked(logits, target, ignore_index) if logits.dtype == np.float32 and logits.ndim else None
    if checked is None:
        loss, saved = ops.cross_entropy.reference.forward(keep, logits, target, ignore_index=ignore_index)
        return loss, (None, saved) if keep else ()
    labels, counted, count = checked
    rows = rows_of(logits)
    losses, moments = np.empty(len(rows), np.float64), np.empty((len(rows), 2), np.float32)
    threads.split(cross_entropy_share, len(rows), rows.shape[1] * _NS, rows, labels, losses, moments)
    if counted is not None:
        losses *= counted
    loss = np.asarray(losses.sum() / count, np.float32)
    return loss, (rows, labels, counted, count, moments, logits.shape) if keep else ()


def _backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if saved[0] is None:
        return ops.cross_entropy.reference.backward(gradient, saved[1], needs, owned)
    rows, labels, counted, count, moments, shape = saved
    scales = np.full(len(rows), gradient / np.float32(count), np.float32)
    if counted is not None:
        scales *= counted
    down = np.empty_like(rows)
    threads.split(cross_entropy_backward_share, len(rows), rows.shape[1] * _NS, rows, labels, moments, scales, down)
    return down.reshape(shape), None


def _work(call: Call) -> Work:
    """Maximum, shift, exponential and sum for each logit; backward shift, exponential and product."""
    return Work(elementwise=(4 if call.phase == "forward" else 3) * call.inputs[0].size)


IMPLEMENTATIONS = {ops.cross_entropy: Implementation("numba", _forward, _backward, _work)}
