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


def _share(of_one: Any, name: str) -> Any:
    """Return the kernel ``f(start, stop, x, output)`` that fills ``output[start:stop]`` with ``of_one`` of each x."""

    def share(start: Any, stop: Any, x: Any, output: Any) -> None:
        """Fill ``output[start:stop]``."""
        x, output = x[start:stop], output[start:stop]
        for i in range(x.size):
            output[i] = of_one(x[i])

    return kernel(share, name)


def _backward_share(slope: Any, name: str) -> Any:
    """Return the kernel ``f(start, stop, gradient, kept, down)``: ``down`` is gradient times ``slope`` of ``kept``.

    ``down`` may be the gradient itself.
    """

    def backward_share(start: Any, stop: Any, gradient: Any, kept: Any, down: Any) -> None:
        """Fill ``down[start:stop]``."""
        gradient, kept, down = gradient[start:stop], kept[start:stop], down[start:stop]
        for i in range(kept.size):
            down[i] = gradient[i] * slope(kept[i])

    return kernel(backward_share, name)


@kernel
def silu(x: Any) -> Any:
    """Return x times its sigmoid."""
    return x * vector_math.sigmoid(x)


@kernel
def silu_slope(x: Any) -> Any:
    """Return the slope of SiLU at x: s + x s (1 - s), with s the sigmoid."""
    gate = vector_math.sigmoid(x)
    return multiply_add(x * gate, _ONE - gate, gate)


@kernel
def sigmoid_slope(y: Any) -> Any:
    """Return the slope of the sigmoid where it is y."""
    return y * (_ONE - y)


@kernel
def tanh_slope(y: Any) -> Any:
    """Return the slope of tanh where it is y."""
    return _ONE - y * y


@kernel
def relu(x: Any) -> Any:
    """Return 0 where x is below 0, and NaN where it is NaN."""
    return _ZERO if x < _ZERO else x


@kernel
def relu_slope(y: Any) -> Any:
    """Return 1 where ReLU is above 0, else 0."""
    return _ONE if y > _ZERO else _ZERO


gelu_share, gelu_backward_share = _share(gelu, "gelu"), _backward_share(gelu_slope, "gelu")
silu_share, silu_backward_share = _share(silu, "silu"), _backward_share(silu_slope, "silu")
sigmoid_share, sigmoid_backward_share = (
    _share(vector_math.sigmoid, "sigmoid"),
    _backward_share(sigmoid_slope, "sigmoid"),
)
tanh_share, tanh_backward_share = _share(vector_math.tanh, "tanh"), _backward_share(tanh_slope, "tanh")
relu_share, relu_backward_share = _share(relu, "relu"), _backward_share(relu_slope, "relu")


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
