"""Activations, forward and backward, each in one pass over memory and without temporaries.

GELU and SiLU keep their input for backward and compute the slope there: reading the input again is cheaper than
writing the slope and reading that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Op, Saved, per_element
from tinytorch.perf.kernels import threads, vector_math
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.flat import dense, empty_like, flat, in_order_of
from tinytorch.perf.kernels.gelu import gelu, gelu_slope
from tinytorch.perf.kernels.vector_math import multiply_add

#: About how long an element takes, forward and backward, in nanoseconds.
_FORWARD_NS, _BACKWARD_NS = 0.2, 0.3
_ZERO, _ONE = np.float32(0), np.float32(1)


@kernel
def gelu_share(start: Any, stop: Any, x: Any, output: Any) -> None:
    """Fill ``output[start:stop]``."""
    x, output = x[start:stop], output[start:stop]
    for i in range(x.size):
        output[i] = gelu(x[i])


@kernel
def gelu_backward_share(start: Any, stop: Any, gradient: Any, x: Any, down: Any) -> None:
    """Fill ``down[start:stop]``, which may be the gradient itself."""
    gradient, x, down = gradient[start:stop], x[start:stop], down[start:stop]
    for i in range(x.size):
        down[i] = gradient[i] * gelu_slope(x[i])


@kernel
def silu_share(start: Any, stop: Any, x: Any, output: Any) -> None:
    """Fill ``output[start:stop]``."""
    x, output = x[start:stop], output[start:stop]
    for i in range(x.size):
        output[i] = x[i] * vector_math.sigmoid(x[i])


@kernel
def silu_backward_share(start: Any, stop: Any, gradient: Any, x: Any, down: Any) -> None:
    """Fill ``down[start:stop]``, which may be the gradient itself: the slope is s + x s (1 - s)."""
    gradient, x, down = gradient[start:stop], x[start:stop], down[start:stop]
    for i in range(x.size):
        gate = vector_math.sigmoid(x[i])
        down[i] = gradient[i] * multiply_add(x[i] * gate, _ONE - gate, gate)


@kernel
def sigmoid_share(start: Any, stop: Any, x: Any, output: Any) -> None:
    """Fill ``output[start:stop]``."""
    x, output = x[start:stop], output[start:stop]
    for i in range(x.size):
        output[i] = vector_math.sigmoid(x[i])


@kernel
def sigmoid_backward_share(start: Any, stop: Any, gradient: Any, y: Any, down: Any) -> None:
    """Fill ``down[start:stop]``, which may be the gradient itself, from the output ``y``."""
    gradient, y, down = gradient[start:stop], y[start:stop], down[start:stop]
    for i in range(y.size):
        down[i] = gradient[i] * (y[i] * (_ONE - y[i]))


@kernel
def tanh_share(start: Any, stop: Any, x: Any, output: Any) -> None:
    """Fill ``output[start:stop]``."""
    x, output = x[start:stop], output[start:stop]
    for i in range(x.size):
        output[i] = vector_math.tanh(x[i])


@kernel
def tanh_backward_share(start: Any, stop: Any, gradient: Any, y: Any, down: Any) -> None:
    """Fill ``down[start:stop]``, which may be the gradient itself, from the output ``y``."""
    gradient, y, down = gradient[start:stop], y[start:stop], down[start:stop]
    for i in range(y.size):
        down[i] = gradient[i] * (_ONE - y[i] * y[i])


@kernel
def relu_share(start: Any, stop: Any, x: Any, output: Any) -> None:
    """Fill ``output[start:stop]``: 0 where x is below 0, and NaN where it is NaN."""
    x, output = x[start:stop], output[start:stop]
    for i in range(x.size):
        output[i] = _ZERO if x[i] < _ZERO else x[i]


@kernel
def relu_backward_share(start: Any, stop: Any, gradient: Any, y: Any, down: Any) -> None:
    """Fill ``down[start:stop]``, which may be the gradient itself: its product with 0 or 1, NaN where it is."""
    gradient, y, down = gradient[start:stop], y[start:stop], down[start:stop]
    for i in range(y.size):
        down[i] = gradient[i] * (_ONE if y[i] > _ZERO else _ZERO)


def _implementation(op: Op, forward: Any, backward: Any, keeps: str, flops: tuple[int, int]) -> Implementation:
    """Return the implementation of a float32 activation; other dtypes are the op's reference's to run.

    ``keeps`` is "input" or "output", of which the backward kernel makes its slope; ``flops`` are for each element.
    """

    def run(keep: bool, x: Array) -> tuple[Array, Saved]:
        if x.dtype != np.float32:
            output, saved = op.reference.forward(keep, x)
            return output, (None, saved) if keep else ()
        x = dense(x)
        output, flat_output = empty_like(x)
        threads.split(forward, x.size, _FORWARD_NS, flat(x), flat_output)
        return output, (x if keeps == "input" else output,) if keep else ()

    def run_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
        if saved[0] is None:
            return op.reference.backward(gradient, saved[1], needs, owned)
        ordered = in_order_of(gradient, saved[0])
        down = ordered if owned or ordered is not gradient else np.empty_like(ordered)
        threads.split(backward, ordered.size, _BACKWARD_NS, flat(ordered), flat(saved[0]), flat(down))
        return (down,)

    return Implementation("numba", run, run_backward, per_element(*flops))


def fill_gelu(x: Array, output: Array) -> None:
    """Fill ``output`` with the GELU of ``x``, both dense float32 of one memory order."""
    threads.split(gelu_share, x.size, _FORWARD_NS, flat(x), flat(output))


_Kernels = tuple[Op, Callable[..., None], Callable[..., None], str, tuple[int, int]]
_ACTIVATIONS: tuple[_Kernels, ...] = (
    (ops.gelu, gelu_share, gelu_backward_share, "input", (7, 15)),
    (ops.silu, silu_share, silu_backward_share, "input", (5, 8)),
    (ops.sigmoid, sigmoid_share, sigmoid_backward_share, "output", (4, 3)),
    (ops.tanh, tanh_share, tanh_backward_share, "output", (1, 3)),
    (ops.relu, relu_share, relu_backward_share, "output", (1, 2)),
)
IMPLEMENTATIONS: dict[Op, Implementation] = {kernels[0]: _implementation(*kernels) for kernels in _ACTIVATIONS}
