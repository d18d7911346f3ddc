"""Sums, means, maxima and softmax along axes."""

from __future__ import annotations

import numpy as np

from tinytorch.core.op import (
    Array,
    Call,
    Gradients,
    Op,
    Saved,
    Shape,
    Work,
    as_floating,
    gradient_only,
    operands_once,
    per_element,
)
from tinytorch.core.ops.elementwise import sums_along, widened

Axis = int | tuple[int, ...] | None


def _expanded(gradient: Array, shape: Shape, axis: Axis, keepdims: bool) -> Array:
    """Return ``gradient`` of a reduction as a read-only view of the shape before it."""
    if axis is not None and not keepdims:
        gradient = np.expand_dims(gradient, axis)
    return np.broadcast_to(gradient, shape)


def _sum_forward(keep: bool, x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Saved]:
    # Sums of integers are of NumPy's wide integer type: int8 would overflow without a word.
    output = sums_along(x, axis, keepdims)
    return output.astype(np.float16) if x.dtype == np.float16 else output, (x.shape, axis, keepdims) if keep else ()


def _sum_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (_expanded(gradient, *saved),)


def _mean_forward(keep: bool, x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Saved]:
    if x.size == 0:
        raise ValueError(f"mean needs at least one element, but the tensor's shape is {x.shape}")
    total = sums_along(x, axis, keepdims)
    count = np.float64(x.size // max(total.size, 1))
    output = (total / count).astype(x.dtype if x.dtype.kind == "f" else np.float64)
    return output, (x.shape, axis, keepdims, count) if keep else ()


def _mean_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    shape, axis, keepdims, count = saved
    return (_expanded((gradient / count).astype(gradient.dtype), shape, axis, keepdims),)


def _max_forward(keep: bool, x: Array, *, axis: int | None = None, keepdims: bool = False) -> tuple[Array, Saved]:
    if x.size == 0:
        raise ValueError(f"max needs at least one element, but the tensor's shape is {x.shape}")
    output = x.max(axis=axis, keepdims=keepdims)
    return output, (x, output, axis, keepdims) if keep else ()


def _max_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    x, output, axis, keepdims = saved
    hit = x == _expanded(output, x.shape, axis, keepdims)
    share = np.divide(hit, hit.sum(axis=axis, keepdims=True), dtype=x.dtype, casting="unsafe")
    return (share * _expanded(gradient, x.shape, axis, keepdims),)


def softmax_of(x: Array, axis: int) -> Array:
    """Return exp(x) / sum(exp(x)) along ``axis`` in a new array, shifted by the maximum against overflow."""
    x = as_floating(x)
    if not x.size:  # of nothing there is no maximum
        return x.copy()
    kept = widened(x)
    output = np.subtract(kept, kept.max(axis=axis, keepdims=True))
    np.exp(output, out=output)
    output /= sums_along(output, axis, True)
    return output.astype(x.dtype, copy=False)


def _softmax_forward(keep: bool, x: Array, *, axis: int = -1) -> tuple[Array, Saved]:
    output = softmax_of(x, axis)
    return output, (output, axis) if keep else ()


def _softmax_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    output, axis = saved
    down = widened(gradient * output)
    down -= output * sums_along(down, axis, True)
    return (down,)


def _log_softmax_forward(keep: bool, x: Array, *, axis: int = -1) -> tuple[Array, Saved]:
    x = as_floating(x)
    if not x.size:
        return x.copy(), (x, axis) if keep else ()
    kept = widened(x)
    output = kept - kept.max(axis=axis, keepdims=True)
    output -= np.log(sums_along(np.exp(output), axis, True))
    return output.astype(x.dtype, copy=False), (output, axis) if keep else ()


def _log_softmax_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    output, axis = saved
    return (gradient - np.exp(output) * sums_along(gradient, axis, True),)


def _reduction_work(call: Call) -> Work:
    """One operation for each element that goes in; backward copies, which is no arithmetic."""
    return Work(elementwise=call.inputs[0].size if call.phase == "forward" else 0)


def _mean_work(call: Call) -> Work:
    return Work(elementwise=call.output.size + (call.inputs[0].size if call.phase == "forward" else 0))


sum_ = Op("sum", _sum_forward, _sum_backward, _reduction_work, gradient_only)
mean = Op("mean", _mean_forward, _mean_backward, _mean_work, gradient_only)
max_ = Op("max", _max_forward, _max_backward, per_element(1, 3))
# Forward: maximum, shift, exponential, sum, division.
softmax = Op("softmax", _softmax_forward, _softmax_backward, per_element(5, 4), operands_once)
log_softmax = Op("log_softmax", _log_softmax_forward, _log_softmax_backward, per_element(5, 4), operands_once)
