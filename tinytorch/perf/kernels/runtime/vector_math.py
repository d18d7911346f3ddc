"""Exponential and hyperbolic functions of float32 as polynomials, which LLVM inlines and vectorizes in loops.

No branches: NaN, infinities and both tails come out of selections and of the arithmetic itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.compiling import kernel

#: log2(e) in two parts, whose sum is exact to 48 bits.
_LOG2_E = np.float32(1.4426950408889634)
_LOG2_E_LOW = np.float32(1.4426950408889634 - float(_LOG2_E))
#: 1.5 * 2**23: added to a float32 it leaves the nearest whole number in the lowest bits.
ROUNDER = np.float32(12582912.0)
#: Beyond these the exponential is 0 (also as a subnormal number) and infinite.
_LOWEST, _HIGHEST = np.float32(-104.0), np.float32(89.0)
#: Below this the exponential is subnormal.
_LOWEST_NORMAL = np.float32(-87.33654)
_ONE, _TWO = np.float32(1), np.float32(2)


_FLOAT, _INT = types.float32, types.int32


def _named(builder: Any, name: str, *arguments: Any) -> Any:
    """Return what LLVM's function of a name gives, for arguments of its result's type."""
    kind = arguments[0].type
    shape = ir.FunctionType(kind, [kind] * len(arguments))
    return builder.call(cgutils.get_or_insert_function(builder.module, shape, name), arguments)


def _flipped(builder: Any, bits: Any) -> Any:
    """Return ``bits`` with all but the sign flipped where the sign is set: from sign and size to two's complement."""
    sign = builder.ashr(bits, vectors.INT32(31))
    return builder.xor(bits, builder.and_(sign, vectors.INT32(0x7FFFFFFF)))


@vectors.emitted(_INT, [_FLOAT])
def sort_key(builder: Any, x: Any) -> Any:
    """Give an int32 that sorts as the float32 does: NaN above infinity, or below minus infinity if its sign is set."""
    return _flipped(builder, builder.bitcast(x, vectors.INT32))


@vectors.emitted(_FLOAT, [_INT])
def of_sort_key(builder: Any, key: Any) -> Any:
    """Give the float32 of a `sort_key`."""
    return builder.bitcast(_flipped(builder, key), vectors.FLOAT)


@vectors.emitted(_INT, [_INT, _INT])
def larger(builder: Any, a: Any, b: Any) -> Any:
    """Give the larger of two int32, of which LLVM makes vectors; of comparing float32, for NaN's sake, it does not."""
    return _named(builder, "llvm.smax.i32", a, b)


@vectors.emitted(_FLOAT, [_FLOAT, _FLOAT])
def add_in_any_order(builder: Any, a: Any, b: Any) -> Any:
    """Give a + b, for a running sum that may be taken in several parts, which is what makes vectors of it."""
    return builder.fadd(a, b, flags=["reassoc", "nsz"])


@vectors.emitted(_FLOAT, [_FLOAT, _FLOAT, _FLOAT])
def multiply_add(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """Give x y + z, rounded once."""
    return _named(builder, "llvm.fma.f32", x, y, z)


@vectors.emitted(_FLOAT, [_FLOAT])
def floor(builder: Any, x: Any) -> Any:
    """Give the nearest whole number that is not above x."""
    return _named(builder, "llvm.floor.f32", x)


@vectors.emitted(_FLOAT, [_FLOAT])
def ceil(builder: Any, x: Any) -> Any:
    """Give the nearest whole number that is not below x."""
    return _named(builder, "llvm.ceil.f32", x)


@vectors.emitted(_INT, [_FLOAT])
def bits_of(builder: Any, x: Any) -> Any:
    """Give the bits of a float32 as an int32."""
    return builder.bitcast(x, vectors.INT32)


@vectors.emitted(_FLOAT, [_INT])
def power_of_two(builder: Any, exponent: Any) -> Any:
    """Give 2**exponent for exponents from -126 to 127."""
    biased = builder.add(exponent, vectors.INT32(127))
    return builder.bitcast(builder.shl(biased, vectors.INT32(23)), vectors.FLOAT)


@vectors.emitted(_FLOAT, [_FLOAT, _FLOAT])
def times_power(builder: Any, value: Any, shifted: Any) -> Any:
    """Give ``value * 2**n`` for n added to `ROUNDER` and a normal product, or 1 times 2**128, which is infinite.

    n is added to the exponent's bits; of a NaN with a payload something else may come.
    """
    value, shifted = (builder.bitcast(each, vectors.INT32) for each in (value, shifted))
    return builder.bitcast(builder.add(value, builder.shl(shifted, vectors.INT32(23))), vectors.FLOAT)


@vectors.emitted(_INT, [_INT])
def half_of(builder: Any, exponent: Any) -> Any:
    """Give an int32 divided by 2, rounded down."""
    return builder.ashr(exponent, vectors.INT32(1))


@vectors.emitted(_INT, [_INT, _INT])
def difference_of(builder: Any, a: Any, b: Any) -> Any:
    """Give a - b as int32; Numba's own would be 64 bits wide, and half as many in a vector."""
    return builder.sub(a, b)


@kernel
def exp2_fraction_less_one(f: Any) -> Any:
    """Return 2**f - 1 for float32 |f| <= 1/2, to 2e-9 of 2**f and its own rounding.

    The polynomial of degree 6 whose largest relative error is least (Remez's algorithm), its coefficients rounded.
    """
    p = multiply_add(np.float32(0.0001534581242594868), f, np.float32(0.0013399930903688073))
    p = multiply_add(p, f, np.float32(0.009618489071726799))
    p = multiply_add(p, f, np.float32(0.05550328642129898))
    p = multiply_add(p, f, np.float32(0.24022646248340607))
    p = multiply_add(p, f, np.float32(0.6931471824645996))
    return p * f


@kernel
def exp2_fraction(f: Any) -> Any:
    """Return 2**f for float32 |f| <= 1/2, within 1 ulp."""
    p = multiply_add(np.float32(0.0001534581242594868), f, np.float32(0.0013399930903688073))
    p = multiply_add(p, f, np.float32(0.009618489071726799))
    p = multiply_add(p, f, np.float32(0.05550328642129898))
    p = multiply_add(p, f, np.float32(0.24022646248340607))
    p = multiply_add(p, f, np.float32(0.6931471824645996))
    return multiply_add(p, f, _ONE)


@kernel
def fraction_of(x: Any, n: Any) -> Any:
    """Return x log2(e) - n of float32, without the error that a product rounded first would have."""
    return multiply_add(x, _LOG2_E_LOW, multiply_add(x, _LOG2_E, -n))


@kernel
def exp(x: Any) -> Any:
    """Return e**x of a float32 over its whole range: 0 to inf, subnormal results included; NaN for NaN."""
    x = _LOWEST if x < _LOWEST else x
    x = _HIGHEST if x > _HIGHEST else x
    shifted = multiply_add(x, _LOG2_E, ROUNDER)
    exponent = difference_of(bits_of(shifted), bits_of(ROUNDER))
    half = half_of(exponent)
    value = exp2_fraction(fraction_of(x, shifted - ROUNDER))
    return value * power_of_two(half) * power_of_two(difference_of(exponent, half))


@kernel
def exp_of_negative(x: Any) -> Any:
    """Return e**x of a float32 x <= 0, cheaper than `exp`: 0 where the result would be subnormal; NaN for NaN.

    This is what softmax takes of its shifted scores, whose largest is 0.
    """
    shifted = multiply_add(x, _LOG2_E, ROUNDER)
    value = exp2_fraction(fraction_of(x, shifted - ROUNDER))
    value *= power_of_two(difference_of(bits_of(shifted), bits_of(ROUNDER)))
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
    shifted = multiply_add(down, _LOG2_E, ROUNDER)
    scale = power_of_two(difference_of(bits_of(shifted), bits_of(ROUNDER)))
    below = multiply_add(exp2_fraction_less_one(fraction_of(down, shifted - ROUNDER)), scale, scale - _ONE)
    value = -below / (_TWO + below)
    return -value if x < 0 else (value if x > 0 else x)


@kernel
def erf(x: Any) -> Any:
    """Return the error function of a float32, within 2 ulp: a polynomial near 0, 1 - e**p(|x|) beyond.

    Source of the polynomials: N. Juffa, a minimax approximation of erff.
    """
    t = abs(x)
    t = np.float32(4) if t > np.float32(4) else t
    s = t * t
    p = multiply_add(np.float32(-1.72853470e-5), t, np.float32(3.83197126e-4))
    q = multiply_add(np.float32(-3.88396438e-3), t, np.float32(2.42546219e-2))
    p = multiply_add(p, s, q)
    p = multiply_add(p, t, np.float32(-1.06777877e-1))
    p = multiply_add(p, t, np.float32(-6.34846687e-1))
    p = multiply_add(p, t, np.float32(-1.28717512e-1))
    far = _ONE - exp_of_negative(multiply_add(p, t, -t))
    r = multiply_add(np.float32(-5.96761703e-4), s, np.float32(4.99119423e-3))
    r = multiply_add(r, s, np.float32(-2.67681349e-2))
    r = multiply_add(r, s, np.float32(1.12819925e-1))
    r = multiply_add(r, s, np.float32(-3.76125336e-1))
    r = multiply_add(r, s, np.float32(1.28379166e-1))
    value = far if t > np.float32(0.927734375) else multiply_add(r, t, t)
    return -value if x < 0 else (value if x > 0 else x)


@kernel
def softplus(x: Any) -> Any:
    """Return log(1 + e**x) of a float32 without overflow: log(1 + u) is 2 artanh(u / (2 + u)).

    The series of artanh up to z**17 errs by less than 1e-9 for z up to 1/3.
    """
    u = exp(-abs(x))
    z = u / (_TWO + u)
    s = z * z
    p = multiply_add(np.float32(1 / 17), s, np.float32(1 / 15))
    p = multiply_add(p, s, np.float32(1 / 13))
    p = multiply_add(p, s, np.float32(1 / 11))
    p = multiply_add(p, s, np.float32(1 / 9))
    p = multiply_add(p, s, np.float32(1 / 7))
    p = multiply_add(p, s, np.float32(1 / 5))
    p = multiply_add(p, s, np.float32(1 / 3))
    small = _TWO * multiply_add(p * s, z, z)
    return small if x < 0 else x + small


#: x (1 + tanh(u)) / 2 is x / (1 + 2**v) with v = -2 log2(e) u = x (_LINEAR + _CUBIC x^2).
_LINEAR = np.float32(-2 * math.sqrt(2 / math.pi) * math.log2(math.e))
_CUBIC = np.float32(-2 * math.sqrt(2 / math.pi) * 0.044715 * math.log2(math.e))
#: d v / d x = _LINEAR + 3 _CUBIC x^2, and times ln 2 it is a slope in e.
_SLOPE_LINEAR = np.float32(2 * math.sqrt(2 / math.pi))
_SLOPE_CUBIC = np.float32(2 * math.sqrt(2 / math.pi) * 3 * 0.044715)
#: 2**v is nothing to a float32 sum with 1 at the first, and infinite at the second.
_LEAST, _MOST = np.float32(-126), np.float32(128)


@kernel
def _decay(x: Any, square: Any) -> Any:
    """Return 2**v for an x and its square: 2**-126 and more, infinite above 2**127.5; anything for NaN.

    The polynomial is of degree 5, with 1 exact and else the least relative error, 9.2e-8: the sum with 1 that follows
    hides it where it would be the largest error.
    """
    v = x * multiply_add(square, _CUBIC, _LINEAR)
    v = _LEAST if v < _LEAST else v
    v = _MOST if v > _MOST else v
    shifted = v + ROUNDER
    f = v - (shifted - ROUNDER)
    p = multiply_add(np.float32(0.0013264708686619997), f, np.float32(0.009671511128544807))
    p = multiply_add(p, f, np.float32(0.05550733953714371))
    p = multiply_add(p, f, np.float32(0.24022242426872253))
    p = multiply_add(p, f, np.float32(0.6931470036506653))
    return times_power(multiply_add(p, f, _ONE), shifted)


@kernel
def gelu(x: Any) -> Any:
    """Return x (1 + tanh(u)) / 2 of a float32, u = sqrt(2/pi) (x + 0.044715 x^3), as x / (1 + e**(-2 u)).

    Written so, neither tail cancels. The relative error is at most (2 + 1.5 |2 u|) 2**-23: the exponent's own rounding
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
