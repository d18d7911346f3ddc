"""Exponential and hyperbolic functions of float32 as polynomials, which LLVM inlines and vectorizes in loops.

No branches: NaN, infinities and both tails come out of selections and of the arithmetic itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytorch.perf.kernels import vectors
from tinytorch.perf.kernels.compiling import kernel

_LOG2_E = np.float32(1.4426950408889634)
#: ln 2 in two parts, the first with so few bits that whole multiples of it are exact.
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
#: 1.5 * 2**23: added to a float32 it leaves the nearest whole number in the lowest bits.
_ROUNDER = np.float32(12582912.0)
#: Beyond these the exponential is 0 (also as a subnormal number) and infinite.
_LOWEST, _HIGHEST = np.float32(-104.0), np.float32(89.0)
#: Below this the exponential is subnormal.
_LOWEST_NORMAL = np.float32(-87.33654)
_ONE, _HALF, _TWO = np.float32(1), np.float32(0.5), np.float32(2)


def _multiply_add(_typing: Any, _x: Any, _y: Any, _z: Any) -> Any:
    """Type and emit `multiply_add`."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        shape = ir.FunctionType(vectors.FLOAT, [vectors.FLOAT] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, shape, "llvm.fmuladd.f32"), arguments)

    return types.float32(types.float32, types.float32, types.float32), emit


def _bits_of(_typing: Any, _x: Any) -> Any:
    """Type and emit `bits_of`."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], vectors.INT32)

    return types.int32(types.float32), emit


def _power_of_two(_typing: Any, _exponent: Any) -> Any:
    """Type and emit `power_of_two`."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        biased = builder.add(arguments[0], vectors.INT32(127))
        return builder.bitcast(builder.shl(biased, vectors.INT32(23)), vectors.FLOAT)

    return types.float32(types.int32), emit


def _half_of(_typing: Any, _exponent: Any) -> Any:
    """Type and emit `half_of`."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ashr(arguments[0], vectors.INT32(1))

    return types.int32(types.int32), emit


def _difference_of(_typing: Any, _a: Any, _b: Any) -> Any:
    """Type and emit `difference_of`."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.sub(*arguments)

    return types.int32(types.int32, types.int32), emit


#: ``x * y + z`` of float32, rounded once where the CPU has an instruction for it.
multiply_add = intrinsic(_multiply_add)
#: The 32 bits of a float32 as an int32.
bits_of = intrinsic(_bits_of)
#: 2 ** exponent as a float32, for an int32 exponent from -126 to 127.
power_of_two = intrinsic(_power_of_two)
#: An int32 divided by 2, rounded down.
half_of = intrinsic(_half_of)
#: ``a - b`` of int32 as int32; Numba's own would be 64 bits wide, and half as many in a vector.
difference_of = intrinsic(_difference_of)


@kernel
def exp_remainder(r: Any) -> Any:
    """Return e**r - 1 for float32 |r| <= ln(2) / 2, within 1 ulp of e**r.

    Source of the coefficients: S. L. Moshier, Cephes library, single/expf.c.
    """
    p = multiply_add(np.float32(1.9875691500e-4), r, np.float32(1.3981999507e-3))
    p = multiply_add(p, r, np.float32(8.3334519073e-3))
    p = multiply_add(p, r, np.float32(4.1665795894e-2))
    p = multiply_add(p, r, np.float32(1.6666665459e-1))
    p = multiply_add(p, r, np.float32(5.0000001201e-1))
    return multiply_add(p, r * r, r)


@kernel
def exp(x: Any) -> Any:
    """Return e**x of a float32 over its whole range: 0 to inf, subnormal results included; NaN for NaN."""
    x = _LOWEST if x < _LOWEST else x
    x = _HIGHEST if x > _HIGHEST else x
    shifted = multiply_add(x, _LOG2_E, _ROUNDER)
    n = shifted - _ROUNDER
    exponent = difference_of(bits_of(shifted), bits_of(_ROUNDER))
    r = multiply_add(n, -_LN2_LOW, multiply_add(n, -_LN2_HIGH, x))
    half = half_of(exponent)
    value = exp_remainder(r) + _ONE
    return value * power_of_two(half) * power_of_two(difference_of(exponent, half))


@kernel
def exp_of_negative(x: Any) -> Any:
    """Return e**x of a float32 x <= 0, cheaper than `exp`: 0 where the result would be subnormal; NaN for NaN.

    This is what softmax takes of its shifted scores, whose largest is 0.
    """
    shifted = multiply_add(_LOWEST_NORMAL if x < _LOWEST_NORMAL else x, _LOG2_E, _ROUNDER)
    n = shifted - _ROUNDER
    exponent = difference_of(bits_of(shifted), bits_of(_ROUNDER))
    r = multiply_add(n, -_LN2_LOW, multiply_add(n, -_LN2_HIGH, x))
    value = (exp_remainder(r) + _ONE) * power_of_two(exponent)
    return np.float32(0) if x < _LOWEST_NORMAL else value


@kernel
def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + e**-x) of a float32, exact in both tails: no overflow."""
    below = exp(-abs(x))
    return (below if x < 0 else _ONE) / (_ONE + below)


@kernel
def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent of a float32: -m / (2 + m) with m = e**(-2 |x|) - 1, and the sign of x."""
    magnitude = abs(x)
    down = np.float32(-20) if magnitude > np.float32(10) else -_TWO * magnitude
    shifted = multiply_add(down, _LOG2_E, _ROUNDER)
    n = shifted - _ROUNDER
    scale = power_of_two(difference_of(bits_of(shifted), bits_of(_ROUNDER)))
    r = multiply_add(n, -_LN2_LOW, multiply_add(n, -_LN2_HIGH, down))
    below = multiply_add(exp_remainder(r), scale, scale - _ONE)
    value = -below / (_TWO + below)
    return -value if x < 0 else (value if x > 0 else x)
