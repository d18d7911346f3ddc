"""Ops that treat every element alike, with NumPy's broadcasting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core.op import Array, Gradients, Op, Saved, Shape, as_floating, gradient_only, operands_once, per_element

#: Elements that a blocked op treats at a time: two float32 blocks of this length stay in a level-2 cache.
BLOCK = 16_384

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_GELU_CUBIC = 0.044715


#: Numbers that are added up in float32, one after the other; the sums of as many are added up in float64.
ADDENDS = 512


def column_sums(rows: Array, others: Array | None = None) -> Array:
    """Return the sum of each column of ``rows`` (n, m), or of its product with ``others``; shape (m,), of their dtype.

    A float32 sum that adds one row at a time stops growing at 2^24 ones, so blocks of rows are summed first.
    """
    dtype = rows.dtype if others is None else np.result_type(rows, others)
    rows, others = widened(rows), None if others is None else widened(others)
    whole = len(rows) - len(rows) % ADDENDS if len(rows) > ADDENDS else 0
    # Sums over rows are a vector times a matrix, which BLAS does at the speed of memory.
    if others is None:
        rest = np.dot(np.ones(len(rows) - whole, rows.dtype), rows[whole:])
        parts = np.matmul(np.ones(ADDENDS, rows.dtype), _blocks(rows[:whole])) if whole else None
    else:
        rest = np.einsum("ij,ij->j", rows[whole:], others[whole:])
        parts = np.einsum("bij,bij->bj", _blocks(rows[:whole]), _blocks(others[:whole])) if whole else None
    total = rest if parts is None else rest + parts.sum(axis=0, dtype=np.float64)
    return np.asarray(total.astype(dtype, copy=False))


def _blocks(rows: Array) -> Array:
    return rows.reshape(-1, ADDENDS, rows.shape[1])


def outer_sum(a: Array, b: Array) -> Array:
    """Return a^T b of (n, i) and (n, j); where it is a vector, its n products are added up as in `column_sums`."""
    if len(a) <= ADDENDS or 1 not in (a.shape[1], b.shape[1]):
        return np.dot(a.T, b)
    whole = len(a) - len(a) % ADDENDS
    parts = np.matmul(_blocks(a[:whole]).swapaxes(1, 2), _blocks(b[:whole]))
    total = np.dot(a[whole:].T, b[whole:]) + parts.sum(axis=0, dtype=np.float64)
    return np.asarray(total.astype(parts.dtype))


def row_products(a: Array, b: Array) -> Array:
    """Return the sums over the last axis of a * b, of one shape, added up as in `column_sums`."""
    if a.shape[-1] <= ADDENDS:
        return np.asarray(np.vecdot(a, b))
    whole = a.shape[-1] - a.shape[-1] % ADDENDS
    blocks = (*a.shape[:-1], -1, ADDENDS)
    total = np.vecdot(a[..., :whole].reshape(blocks), b[..., :whole].reshape(blocks)).sum(axis=-1, dtype=np.float64)
    return np.asarray(total + np.vecdot(a[..., whole:], b[..., whole:])).astype(np.result_type(a, b))


def widened(x: Array) -> Array:
    """Return halves as float32, in which their sums and squares do not overflow, and everything else as it is."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def sums_along(x: Array, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Return the sums of ``x`` over ``axis`` (all, if None); those of halves are float32.

    NumPy adds up in pairs only along the innermost axes in memory; what it would add up one after the other is added
    up in float64 where it is more than `column_sums` takes at a time.
    """
    kept = widened(x)
    one_by_one = kept.dtype == np.float32 and kept.size > ADDENDS and _added_one_by_one(kept, axis) > ADDENDS
    if not one_by_one:
        return np.asarray(kept.sum(axis=axis, keepdims=keepdims))
    return np.asarray(kept.sum(axis=axis, keepdims=keepdims, dtype=np.float64).astype(np.float32))


def _added_one_by_one(x: Array, axis: int | tuple[int, ...] | None) -> int:
    """Return how many partial sums NumPy adds up one after the other for an element of the sum over ``axis``."""
    every = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = {each % x.ndim for each in every}
    inner, reach = 1, 0
    for each in sorted((each for each in range(x.ndim) if x.shape[each] > 1), key=lambda each: abs(x.strides[each])):
        if each not in axes or not x.strides[each] or reach not in (0, abs(x.strides[each])):
            break
        inner, reach = inner * x.shape[each], abs(x.strides[each]) * x.shape[each]
    return math.prod(x.shape[each] for each in axes) // max(inner, 1)


def unbroadcast(gradient: Array, shape: Shape) -> Array:
    """Return ``gradient`` summed over the axes along which an operand of ``shape`` was repeated."""
    if gradient.shape == shape:
        return gradient
    extra = gradient.ndim - len(shape)
    repeated = tuple(range(extra)) + tuple(
        extra + axis for axis, length in enumerate(shape) if length == 1 and gradient.shape[extra + axis] != 1
    )
    if repeated == tuple(range(len(repeated))) and gradient.flags.c_contiguous and gradient.size:
        matrix = gradient.reshape(math.prod(gradient.shape[: len(repeated)]), -1)
        if matrix.dtype.kind == "f":
            return column_sums(matrix).reshape(shape)
    return sums_along(gradient, repeated).reshape(shape)


def factor_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Multiply the gradient by the factor that the forward saved: the slope of each element."""
    return (np.multiply(gradient, saved[0], out=gradient if owned else None),)


def _add_forward(keep: bool, a: Any, b: Any) -> tuple[Array, Saved]:
    return a + b, (np.shape(a), np.shape(b)) if keep else ()


def _add_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    a, b = saved
    return unbroadcast(gradient, a) if needs[0] else None, unbroadcast(gradient, b) if needs[1] else None


def _subtract_forward(keep: bool, a: Any, b: Any) -> tuple[Array, Saved]:
    return a - b, (np.shape(a), np.shape(b)) if keep else ()


def _subtract_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    a, b = saved
    return unbroadcast(gradient, a) if needs[0] else None, unbroadcast(-gradient, b) if needs[1] else None


def _multiply_forward(keep: bool, a: Any, b: Any) -> tuple[Array, Saved]:
    return a * b, (a, b) if keep else ()


def _multiply_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    a, b = saved
    return (
        unbroadcast(gradient * b, np.shape(a)) if needs[0] else None,
        unbroadcast(gradient * a, np.shape(b)) if needs[1] else None,
    )


def _divide_forward(keep: bool, a: Any, b: Any) -> tuple[Array, Saved]:
    return a / b, (a, b) if keep else ()


def _divide_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    a, b = saved
    down_a = gradient / b
    return (
        unbroadcast(down_a, np.shape(a)) if needs[0] else None,
        unbroadcast(-down_a * a / b, np.shape(b)) if needs[1] else None,
    )


def _negative_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    return -x, ()


def _negative_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (np.negative(gradient, out=gradient if owned else None),)


def _power_forward(keep: bool, x: Array, *, exponent: float) -> tuple[Array, Saved]:
    return x**exponent, (x, exponent) if keep else ()


def _power_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    x, exponent = saved
    if exponent == 0:  # the slope is 0 also at 0, where 0 * x**-1 is not
        return (np.zeros_like(gradient),)
    return (exponent * x ** (exponent - 1) * gradient,)


def _powers_forward(keep: bool, x: Any, exponents: Any) -> tuple[Array, Saved]:
    output = np.power(x, exponents)
    return output, (x, exponents, output) if keep else ()


def _powers_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    x, exponents, output = saved
    # 0**y is flat in y, where the logarithm of 0 is infinite, and x**0 is flat in x, where 0 * 0**-1 is not a number.
    logarithm = np.log(np.where(x == 0, 1, x)) if needs[1] else 0
    slope = exponents * np.power(x, np.where(exponents == 0, 1, exponents) - 1) if needs[0] else 0
    return (
        unbroadcast(gradient * slope, np.shape(x)) if needs[0] else None,
        unbroadcast(gradient * output * logarithm, np.shape(exponents)) if needs[1] else None,
    )


def _exp_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    output = np.exp(as_floating(x))
    return output, (output,) if keep else ()


def _log_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    x = as_floating(x)
    return np.log(x), (x,) if keep else ()


def _log_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (np.divide(gradient, saved[0], out=gradient if owned else None),)


def _sqrt_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    output = np.sqrt(as_floating(x))
    return output, (output,) if keep else ()


def _sqrt_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (0.5 * gradient / saved[0],)


def _absolute_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    return np.abs(x), (x,) if keep else ()


def _absolute_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (gradient * np.sign(saved[0]),)


def _tanh_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    output = np.tanh(as_floating(x))
    return output, (output,) if keep else ()


def _tanh_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    (output,) = saved
    slope = np.multiply(output, output, out=np.empty_like(output))
    np.subtract(1, slope, out=slope)
    return (np.multiply(slope, gradient, out=slope),)


def _sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) as exp(min(x, 0)) / (1 + exp(-|x|)): no overflow, and exact in both tails."""
    x = as_floating(x)
    below = np.asarray(np.negative(np.abs(x)))
    np.exp(below, out=below)
    below += 1
    output = np.asarray(np.minimum(x, np.zeros(x.shape[-1:], x.dtype)))
    np.exp(output, out=output)
    output /= below
    return output


def _sigmoid_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    output = _sigmoid(x)
    return output, (output,) if keep else ()


def _sigmoid_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    (output,) = saved
    slope = 1 - output
    slope *= output
    slope *= gradient
    return (slope,)


def _relu_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    # Against a row of zeros NumPy's maximum is vectorized, against one zero it is not: 2 to 3 times slower.
    output = np.maximum(x, np.zeros(x.shape[-1:], x.dtype))
    return output, (output,) if keep else ()


def _relu_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (np.multiply(gradient, saved[0] > 0, out=gradient if owned else None),)


def _leaky_relu_forward(keep: bool, x: Array, *, slope: float) -> tuple[Array, Saved]:
    x = as_floating(x)
    factor = np.where(x > 0, x.dtype.type(1), x.dtype.type(slope))
    return x * factor, (factor,) if keep else ()


def _silu_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    x = as_floating(x)
    gate = _sigmoid(x)
    output = x * gate
    if not keep:
        return output, ()
    # d/dx x s = s + x s (1 - s) = s + y (1 - s)
    slope = 1 - gate
    slope *= output
    slope += gate
    return output, (slope,)


def _gelu_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    """Gaussian error linear unit in its tanh form, x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2.

    Source: D. Hendrycks and K. Gimpel, arXiv:1606.08415. It works on blocks that stay in cache. For backward
    it keeps the slope alone, one array, instead of the input and the hyperbolic tangent.
    """
    x = as_floating(x)
    dtype = x.dtype
    x = np.asarray(widened(x), order="C")
    output = np.empty_like(x)
    slope = np.empty_like(x) if keep else None
    flat, flat_output = x.reshape(-1), output.reshape(-1)
    flat_slope = None if slope is None else slope.reshape(-1)
    scratch = np.empty(min(BLOCK, flat.size), x.dtype)
    for start in range(0, flat.size, BLOCK):
        part = flat[start : start + BLOCK]
        stop = start + part.size
        slope_part = None if flat_slope is None else flat_slope[start:stop]
        _gelu_block(part, flat_output[start:stop], slope_part, scratch[: part.size])
    return output.astype(dtype, copy=False), () if slope is None else (slope,)


def _gelu_block(x: Array, output: Array, slope: Array | None, scratch: Array) -> None:
    """Fill ``output``, and ``slope`` if there is one, from ``x``; all flat and of one length."""
    np.multiply(x, x, out=scratch)
    if slope is not None:  # sqrt(2/pi) (x + 3 * 0.044715 x^3), the argument's slope times x
        np.multiply(scratch, 3 * _GELU_CUBIC * _SQRT_2_OVER_PI, out=slope)
        slope += _SQRT_2_OVER_PI
        slope *= x
    scratch *= _GELU_CUBIC * _SQRT_2_OVER_PI
    scratch += _SQRT_2_OVER_PI
    scratch *= x
    np.tanh(scratch, out=scratch)
    if slope is not None:  # (1 + t) (1 + (1 - t) x u') / 2
        np.subtract(1, scratch, out=output)
        slope *= output
        slope += 1
    scratch += 1
    scratch *= 0.5
    np.multiply(scratch, x, out=output)
    if slope is not None:
        slope *= scratch


def extreme(name: str, choose: np.ufunc, comes_first: np.ufunc) -> Op:
    """Return the op of the larger or the smaller of two elements; of equal ones each gets half of the gradient."""

    def forward(keep: bool, a: Any, b: Any) -> tuple[Array, Saved]:
        return choose(a, b), (a, b) if keep else ()

    def backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
        a, b = saved
        share = (comes_first(a, b) + 0.5 * np.equal(a, b)).astype(gradient.dtype)
        return (
            unbroadcast(gradient * share, np.shape(a)) if needs[0] else None,
            unbroadcast(gradient * (1 - share), np.shape(b)) if needs[1] else None,
        )

    return Op(name, forward, backward, per_element(1, 2))


def _where_forward(keep: bool, condition: Array, a: Any, b: Any) -> tuple[Array, Saved]:
    return np.where(condition, a, b), (np.array(condition, bool), np.shape(a), np.shape(b)) if keep else ()


def _where_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    condition, a, b = saved
    return (
        None,
        unbroadcast(gradient * condition, a) if needs[1] else None,
        unbroadcast(gradient * np.logical_not(condition), b) if needs[2] else None,
    )


def _cast_forward(keep: bool, x: Array, *, dtype: np.dtype[Any]) -> tuple[Array, Saved]:
    return x.astype(dtype), (x.dtype,) if keep else ()


def _cast_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (gradient.astype(saved[0]),)


def _dropout_forward(
    keep: bool, x: Array, *, probability: float, generator: np.random.Generator
) -> tuple[Array, Saved]:
    x = as_floating(x)
    factor = (generator.random(x.shape, dtype=np.float32) >= probability).astype(x.dtype)
    factor *= 0 if probability == 1 else 1 / (1 - probability)
    return x * factor, (factor,) if keep else ()


add = Op("add", _add_forward, _add_backward, per_element(1, 0), gradient_only)
subtract = Op("subtract", _subtract_forward, _subtract_backward, per_element(1, 1), gradient_only)
multiply = Op("multiply", _multiply_forward, _multiply_backward, per_element(1))
divide = Op("divide", _divide_forward, _divide_backward, per_element(1, 2))
negative = Op("negative", _negative_forward, _negative_backward, per_element(1), gradient_only)
power = Op("power", _power_forward, _power_backward, per_element(1, 3))
#: x to the power of each of ``exponents``; `power` has one exponent.
powers = Op("powers", _powers_forward, _powers_backward, per_element(1, 3))
exp = Op("exp", _exp_forward, factor_backward, per_element(1))
log = Op("log", _log_forward, _log_backward, per_element(1))
sqrt = Op("sqrt", _sqrt_forward, _sqrt_backward, per_element(1, 2))
absolute = Op("absolute", _absolute_forward, _absolute_backward, per_element(1, 2))
tanh = Op("tanh", _tanh_forward, _tanh_backward, per_element(1, 3))
sigmoid = Op("sigmoid", _sigmoid_forward, _sigmoid_backward, per_element(4, 3))
relu = Op("relu", _relu_forward, _relu_backward, per_element(1, 2))
leaky_relu = Op("leaky_relu", _leaky_relu_forward, factor_backward, per_element(2, 1))
silu = Op("silu", _silu_forward, factor_backward, per_element(5, 1))
gelu = Op("gelu", _gelu_forward, factor_backward, per_element(8, 1))
maximum = extreme("maximum", np.maximum, np.greater)
where = Op("where", _where_forward, _where_backward, per_element(1))
cast = Op("cast", _cast_forward, _cast_backward, per_element(0), operands_once)
dropout = Op("dropout", _dropout_forward, factor_backward, per_element(2, 1))
