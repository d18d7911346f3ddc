"""Layer normalization: a row is read from memory once, and its mean, variance and result are made in cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Saved
from tinytorch.perf.kernels import threads
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.flat import rows_of
from tinytorch.perf.kernels.prefetching import ask_ahead
from tinytorch.perf.kernels.vector_math import add_in_any_order, multiply_add

#: About how long an element takes, forward and backward, in nanoseconds.
_FORWARD_NS, _BACKWARD_NS = 0.2, 0.4
#: Rows whose gradients of weight and bias are one partial sum, so that the sums do not depend on the threads.
_ROWS = 64
_ZERO, _ONE = np.float32(0), np.float32(1)


@kernel
def row_moments(row: Any, epsilon: Any) -> Any:
    """Return the mean of a row and 1 / sqrt(variance + epsilon), the variance the biased one."""
    total = _ZERO
    for i in range(row.size):
        total = add_in_any_order(total, row[i])
    mean = total / np.float32(row.size)
    squares = _ZERO
    for i in range(row.size):
        squares = add_in_any_order(squares, (row[i] - mean) * (row[i] - mean))
    return mean, _ONE / np.float32(math.sqrt(squares / np.float32(row.size) + epsilon))


@kernel
def layer_norm_share(
    start: Any, stop: Any, x: Any, weight: Any, bias: Any, epsilon: Any, output: Any, moments: Any
) -> None:
    """Fill rows ``start`` to ``stop`` of ``output``, and of ``moments`` the mean and inverse deviation."""
    for number in range(start, stop):
        ask_ahead(x, number, stop)
        row, result = x[number], output[number]
        mean, inverse = row_moments(row, epsilon)
        moments[number, 0], moments[number, 1] = mean, inverse
        for i in range(row.size):
            result[i] = multiply_add((row[i] - mean) * inverse, weight[i], bias[i])


@kernel
def layer_norm_backward_share(
    start: Any, stop: Any, gradient: Any, x: Any, weight: Any, moments: Any, down: Any, down_weight: Any, down_bias: Any
) -> None:
    """Fill blocks ``start`` to ``stop`` of `_ROWS` rows of ``down``, and their partial sums for weight and bias.

    With n the normalized row and h = g * weight: down = inverse (h - mean(h) - n mean(h n)). ``down`` may be the
    gradient itself.
    """
    width = x.shape[1]
    share = _ONE / np.float32(width)
    for block in range(start, stop):
        sums, bias_sums = down_weight[block], down_bias[block]
        sums[:] = _ZERO
        bias_sums[:] = _ZERO
        for number in range(block * _ROWS, min(block * _ROWS + _ROWS, x.shape[0])):
            g, row, result = gradient[number], x[number], down[number]
            mean, inverse = moments[number, 0], moments[number, 1]
            level, along = _ZERO, _ZERO
            for i in range(width):
                normal = (row[i] - mean) * inverse
                product = g[i] * weight[i]
                level = add_in_any_order(level, product)
                along = add_in_any_order(along, product * normal)
                sums[i] += g[i] * normal
                bias_sums[i] += g[i]
            level *= share
            along *= share
            for i in range(width):
                normal = (row[i] - mean) * inverse
                result[i] = inverse * (g[i] * weight[i] - level - normal * along)


def fill_layer_norm(
    x: Array, weight: Array, bias: Array, epsilon: float, output: Array, moments: Array | None = None
) -> Array:
    """Fill ``output`` from the rows of ``x``, contiguous float32 matrices; return ``moments`` (rows, 2), filled."""
    if moments is None:
        moments = np.empty((len(x), 2), np.float32)
    ns = x.shape[1] * _FORWARD_NS
    threads.split(layer_norm_share, len(x), ns, x, weight, bias, np.float32(epsilon), output, moments)
    return moments


def _forward(keep: bool, x: Array, weight: Array, bias: Array, *, epsilon: float) -> tuple[Array, Saved]:
    """Layer norm of float32 of any shape and strides; other dtypes, and bad shapes, go to the op's reference."""
    width = x.shape[-1] if x.ndim else 0
    fits = weight.shape == bias.shape == (width,) and width > 0
    if not fits or not x.dtype == weight.dtype == bias.dtype == np.float32:
        output, saved = ops.layer_norm.reference.forward(keep, x, weight, bias, epsilon=epsilon)
        return output, (None, saved) if keep else ()
    rows = rows_of(x)
    weight, bias = np.ascontiguousarray(weight), np.ascontiguousarray(bias)
    output = np.empty(rows.shape, np.float32)
    moments = fill_layer_norm(rows, weight, bias, epsilon, output)
    return output.reshape(x.shape), (rows, moments, weight, x.shape) if keep else ()


def _backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if saved[0] is None:
        return ops.layer_norm.reference.backward(gradient, saved[1], needs, owned)
    x, moments, weight, shape = saved
    rows = rows_of(gradient)
    down = rows if owned else np.empty_like(rows)
    blocks = -(-len(x) // _ROWS)
    down_weight, down_bias = np.empty((2, blocks, x.shape[1]), np.float32)
    ns = _ROWS * x.shape[1] * _BACKWARD_NS
    threads.split(layer_norm_backward_share, blocks, ns, rows, x, weight, moments, down, down_weight, down_bias)
    return (
        down.reshape(shape) if needs[0] else None,
        down_weight.sum(axis=0) if needs[1] else None,
        down_bias.sum(axis=0) if needs[2] else None,
    )


IMPLEMENTATIONS = {ops.layer_norm: Implementation("numba", _forward, _backward)}
