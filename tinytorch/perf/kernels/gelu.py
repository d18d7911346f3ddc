"""GELU in its tanh form and its slope, as functions of one number that kernels inline."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.vector_math import (
    ROUNDER,
    bits_of,
    difference_of,
    exp2_fraction,
    multiply_add,
    power_of_two,
)

#: x (1 + tanh(u)) / 2 is x / (1 + 2**v) with v = -2 log2(e) u = x (_LINEAR + _CUBIC x^2).
_LINEAR = np.float32(-2 * math.sqrt(2 / math.pi) * math.log2(math.e))
_CUBIC = np.float32(-2 * math.sqrt(2 / math.pi) * 0.044715 * math.log2(math.e))
#: d v / d x = _LINEAR + 3 _CUBIC x^2, and times ln 2 it is a slope in e.
_SLOPE_LINEAR = np.float32(2 * math.sqrt(2 / math.pi))
_SLOPE_CUBIC = np.float32(2 * math.sqrt(2 / math.pi) * 3 * 0.044715)
#: 2**v is 0 to a float32 sum with 1 below the first, and infinite above the second.
_LEAST, _MOST = np.float32(-127), np.float32(128)
_ONE = np.float32(1)


@kernel
def _decay(x: Any, square: Any) -> Any:
    """Return 2**v for an x and its square: 0 below 2**-126.5, infinite above 2**127.5."""
    v = x * multiply_add(square, _CUBIC, _LINEAR)
    v = _LEAST if v < _LEAST else v
    v = _MOST if v > _MOST else v
    shifted = v + ROUNDER
    scale = power_of_two(difference_of(bits_of(shifted), bits_of(ROUNDER)))
    return exp2_fraction(v - (shifted - ROUNDER)) * scale


@kernel
def gelu(x: Any) -> Any:
    """Return x (1 + tanh(u)) / 2 of a float32, u = sqrt(2/pi) (x + 0.044715 x^3), as x / (1 + e**(-2 u)).

    Written so, neither tail cancels. The relative error is at most (2 + |2 u|) 2**-23: the exponent's own rounding
    is all that grows. Results below about 4e-38 are 0.
    """
    return x / (_ONE + _decay(x, x * x))


@kernel
def gelu_slope(x: Any) -> Any:
    """Return the derivative of `gelu`: s + x s (1 - s) 2 u' with s = 1 / (1 + e**(-2 u))."""
    square = x * x
    decay = _decay(x, square)
    gate = _ONE / (_ONE + decay)
    inner = x * multiply_add(square, _SLOPE_CUBIC, _SLOPE_LINEAR)
    # Where the decay is small 1 - s would cancel, where it is infinite its product with s is NaN.
    rest = _ONE - gate if decay > _ONE else decay * gate
    return multiply_add(gate * rest, inner, gate)
