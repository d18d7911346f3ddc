"""GELU in its tanh form, one pass over memory, and for backward its slope in the same pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Implementation, Saved
from tinytorch.perf.kernels import threads
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.vector_math import exp, multiply_add

#: The argument of the tanh is x (LINEAR + CUBIC x^2); of the exponential of the sigmoid, twice that, negative.
_LINEAR = np.float32(-2 * math.sqrt(2 / math.pi))
_CUBIC = np.float32(-2 * math.sqrt(2 / math.pi) * 0.044715)
_ONE, _THREE = np.float32(1), np.float32(3)
#: About how long an element takes in memory, in nanoseconds.
_NS = 0.4


@kernel
def gelu(x: Any) -> Any:
    """Return x (1 + tanh(u)) / 2 of a float32, written as x / (1 + e**(-2 u)), which is exact in both tails."""
    return x / (_ONE + exp(x * multiply_add(x * x, _CUBIC, _LINEAR)))


@kernel
def gelu_block(start: Any, stop: Any, x: Any, output: Any) -> None:
    """Fill ``output[start:stop]`` of flat arrays."""
    for i in range(start, stop):
        output[i] = gelu(x[i])


@kernel
def gelu_and_slope_block(start: Any, stop: Any, x: Any, output: Any, slope: Any) -> None:
    """Fill ``output`` and ``slope`` of flat arrays: with s the sigmoid of v, s + x s (1 - s) v'."""
    for i in range(start, stop):
        square = x[i] * x[i]
        gate = _ONE / (_ONE + exp(x[i] * multiply_add(square, _CUBIC, _LINEAR)))
        output[i] = x[i] * gate
        inner = -x[i] * multiply_add(square, _THREE * _CUBIC, _LINEAR)
        slope[i] = multiply_add(gate * (_ONE - gate), inner, gate)


def _forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    """GELU of float32 of any shape and strides; other dtypes go to the op's reference."""
    if x.dtype != np.float32:
        return ops.gelu.reference.forward(keep, x)
    x = np.asarray(x, order="C")
    output = np.empty_like(x)
    if not keep:
        threads.split(gelu_block, x.size, _NS, x.reshape(-1), output.reshape(-1))
        return output, ()
    slope = np.empty_like(x)
    threads.split(gelu_and_slope_block, x.size, _NS, x.reshape(-1), output.reshape(-1), slope.reshape(-1))
    return output, (slope,)


IMPLEMENTATIONS = {ops.gelu: Implementation("numba", _forward, ops.gelu.reference.backward)}
