"""Bias and GELU in one pass, and softmax that computes only what the mask leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import Array, Call, Gradients, Implementation, Saved, Work
from tinytorch.perf.acceleration import fused_ops
from tinytorch.perf.kernels import threads
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.flat import rows_of
from tinytorch.perf.kernels.gelu import gelu, gelu_slope
from tinytorch.perf.kernels.softmax import fill_softmax, softmax_backward

#: About how long an element takes, forward and backward, in nanoseconds.
_FORWARD_NS, _BACKWARD_NS = 0.2, 0.3
#: Rows whose gradients of the bias are one partial sum, so that the sum does not depend on the threads.
_ROWS = 64


@kernel
def bias_gelu_share(start: Any, stop: Any, x: Any, bias: Any, output: Any) -> None:
    """Fill rows ``start`` to ``stop``."""
    for number in range(start, stop):
        row, result = x[number], output[number]
        for i in range(row.size):
            result[i] = gelu(row[i] + bias[i])


@kernel
def bias_gelu_backward_share(
    start: Any, stop: Any, gradient: Any, x: Any, bias: Any, down: Any, down_bias: Any
) -> None:
    """Fill blocks ``start`` to ``stop`` of `_ROWS` rows of ``down``, and their partial sums for the bias."""
    for block in range(start, stop):
        sums = down_bias[block]
        sums[:] = np.float32(0)
        for number in range(block * _ROWS, min(block * _ROWS + _ROWS, x.shape[0])):
            g, row, result = gradient[number], x[number], down[number]
            for i in range(row.size):
                slope = g[i] * gelu_slope(row[i] + bias[i])
                result[i] = slope
                sums[i] += slope


def _bias_gelu(keep: bool, x: Array, bias: Array) -> tuple[Array, Saved]:
    """GELU of x + bias, float32 of any shape and strides; the reference runs other dtypes and refuses bad shapes."""
    fits = x.ndim and bias.shape == (x.shape[-1],) and x.dtype == bias.dtype == np.float32
    if not fits:
        output, saved = fused_ops.bias_gelu.reference.forward(keep, x, bias)
        return output, (None, saved) if keep else ()
    rows, bias = rows_of(x), np.ascontiguousarray(bias)
    output = np.empty(rows.shape, np.float32)
    threads.split(bias_gelu_share, len(rows), rows.shape[1] * _FORWARD_NS, rows, bias, output)
    return output.reshape(x.shape), (rows, bias, x.shape) if keep else ()


def _bias_gelu_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if saved[0] is None:
        return fused_ops.bias_gelu.reference.backward(gradient, saved[1], needs, owned)
    x, bias, shape = saved
    rows = rows_of(gradient)
    down = rows if owned else np.empty_like(rows)
    blocks = -(-len(x) // _ROWS)
    sums = np.empty((blocks, x.shape[1]), np.float32)
    ns = _ROWS * x.shape[1] * _BACKWARD_NS
    threads.split(bias_gelu_backward_share, blocks, ns, rows, x, bias, down, sums)
    return down.reshape(shape) if needs[0] else None, sums.sum(axis=0) if needs[1] else None


def _causal_softmax(keep: bool, x: Array) -> tuple[Array, Saved]:
    """Causal softmax of float32 of any strides; the reference runs other dtypes and refuses bad shapes."""
    if x.dtype != np.float32 or not x.size or x.ndim < 2 or x.shape[-2] > x.shape[-1]:
        output, saved = fused_ops.causal_softmax.reference.forward(keep, x)
        return output, (None, saved) if keep else ()
    rows = rows_of(x)
    output = np.empty(x.shape, np.float32)
    fill_softmax(rows, output.reshape(rows.shape), x.shape[-2])
    return output, (output,) if keep else ()


def _causal_softmax_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if saved[0] is None:
        return fused_ops.causal_softmax.reference.backward(gradient, saved[1], needs, owned)
    return (softmax_backward(gradient, saved[0], owned),)


def _bias_gelu_work(call: Call) -> Work:
    """Addition and seven operations an element; backward the slope anew."""
    size = call.output.size
    return Work(elementwise=8 * size if call.phase == "forward" else size * (16 + call.needs[1]))


def _causal_softmax_work(call: Call) -> Work:
    """Five operations forward for each key that a query sees; backward four for each pair."""
    queries, keys = call.output.shape[-2:]
    if call.phase == "backward":
        return Work(elementwise=4 * call.output.size)
    seen = queries * keys - queries * (queries - 1) // 2
    return Work(elementwise=5 * seen * (call.output.size // max(queries * keys, 1)))


IMPLEMENTATIONS = {
    fused_ops.bias_gelu: Implementation("numba", _bias_gelu, _bias_gelu_backward, _bias_gelu_work),
    fused_ops.causal_softmax: Implementation("numba", _causal_softmax, _causal_softmax_backward, _causal_softmax_work),
}
