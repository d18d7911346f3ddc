"""Elementwise functions of other frameworks' models: the error function, clipping, steps, comparisons and logic."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tinytorch.core.op import Array, Gradients, Op, Saved, gradient_only, per_element
from tinytorch.core.ops.elementwise import unbroadcast


def _erf_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    from scipy.special import erf as scipy_erf  # takes longer to import than all else here

    return np.asarray(scipy_erf(x), dtype=x.dtype), (x,) if keep else ()


def _erf_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    (x,) = saved
    return (gradient * np.exp(-x * x) * gradient.dtype.type(2 / math.sqrt(math.pi)),)


def _exact_gelu_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    share = (_erf_forward(False, x * x.dtype.type(math.sqrt(0.5)))[0] + 1) * x.dtype.type(0.5)
    density = np.exp(-x * x / 2) * x.dtype.type(1 / math.sqrt(2 * math.pi)) if keep else None
    return x * share, () if density is None else (share + x * density,)


def _without_nan_forward(keep: bool, x: Array, *, value: float) -> tuple[Array, Saved]:
    nowhere = np.isnan(x)
    return np.where(nowhere, x.dtype.type(value), x), (~nowhere,) if keep else ()


def _clip_forward(keep: bool, x: Array, *, low: float, high: float) -> tuple[Array, Saved]:
    return np.clip(x, x.dtype.type(low), x.dtype.type(high)), ((x >= low) & (x <= high),) if keep else ()


def _hard_sigmoid_forward(keep: bool, x: Array, *, slope: float, shift: float) -> tuple[Array, Saved]:
    output = x * x.dtype.type(slope)
    output += x.dtype.type(shift)
    np.clip(output, 0, 1, out=output)
    return output, (((output > 0) & (output < 1)) * x.dtype.type(slope),) if keep else ()


def _elu_forward(keep: bool, x: Array, *, alpha: float) -> tuple[Array, Saved]:
    below = x.dtype.type(alpha) * np.expm1(np.minimum(x, 0))
    slope = np.where(x > 0, x.dtype.type(1), below + x.dtype.type(alpha)) if keep else None
    return np.where(x > 0, x, below), (slope,) if keep else ()


def _softplus_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    output = np.logaddexp(x, x.dtype.type(0))
    return output, (-np.expm1(-output),) if keep else ()


def _sin_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    return np.sin(x), (np.cos(x),) if keep else ()


def _cos_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    return np.cos(x), (-np.sin(x),) if keep else ()


def _times_slope(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (gradient * saved[0],)


def _minimum_forward(keep: bool, a: Any, b: Any) -> tuple[Array, Saved]:
    return np.minimum(a, b), (a, b) if keep else ()


def _minimum_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    a, b = saved
    # Where both are equal each gets half, as for the maximum.
    share = (np.less(a, b) + 0.5 * np.equal(a, b)).astype(gradient.dtype)
    return (
        unbroadcast(gradient * share, np.shape(a)) if needs[0] else None,
        unbroadcast(gradient * (1 - share), np.shape(b)) if needs[1] else None,
    )


def _step_forward(keep: bool, x: Array, *, function: Callable[[Array], Array]) -> tuple[Array, Saved]:
    return function(x), ()


def _flat(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Return 0: the function is constant between its steps."""
    return (np.zeros_like(gradient),)


def _without_gradient(name: str, gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    raise TypeError(f"{name} has no gradient: give it operands that require none")


def _step(name: str, function: Callable[..., Array]) -> Op:
    """Return an op of one operand that is constant between steps."""
    return Op(name, partial(_step_forward, function=function), _flat, per_element(1), gradient_only)


def _two_forward(keep: bool, a: Array, b: Array, *, function: Callable[..., Array]) -> tuple[Array, Saved]:
    return function(a, b), ()


def _judged(name: str, function: Callable[..., Array]) -> Op:
    """Return an op of two operands whose answer, a truth value or whole number, has no gradient."""
    forward = partial(_two_forward, function=function)
    return Op(name, forward, partial(_without_gradient, name), per_element(1), gradient_only)


def _told(name: str, function: Callable[[Array], Array]) -> Op:
    """Return an op of one operand whose answer is a truth value."""
    forward = partial(_step_forward, function=function)
    return Op(name, forward, partial(_without_gradient, name), per_element(1), gradient_only)


def _whole_quotient(a: Array, b: Array) -> Array:
    """Return a / b of whole numbers, towards 0."""
    return (a - np.fmod(a, b)) // b


#: The error function, 2 / sqrt(pi) times the integral of exp(-t²) from 0 to x.
erf = Op("erf", _erf_forward, _erf_backward, per_element(1, 4))
#: x times the normal distribution's share below x. Source: D. Hendrycks and K. Gimpel, arXiv:1606.08415.
exact_gelu = Op("exact_gelu", _exact_gelu_forward, _times_slope, per_element(5, 1))
#: x, or ``value`` where it is not a number.
without_nan = Op("without_nan", _without_nan_forward, _times_slope, per_element(1))
#: min(max(x, low), high); the gradient passes at the ends, too.
clip = Op("clip", _clip_forward, _times_slope, per_element(2, 1))
#: min(max(slope x + shift, 0), 1). Source: A. Howard et al., arXiv:1905.02244.
hard_sigmoid = Op("hard_sigmoid", _hard_sigmoid_forward, _times_slope, per_element(4, 1))
#: x above 0, alpha (exp(x) - 1) below. Source: D.-A. Clevert, T. Unterthiner and S. Hochreiter, arXiv:1511.07289.
elu = Op("elu", _elu_forward, _times_slope, per_element(3, 1))
#: log(1 + exp(x)), without overflow.
softplus = Op("softplus", _softplus_forward, _times_slope, per_element(4, 1))
sin = Op("sin", _sin_forward, _times_slope, per_element(1))
cos = Op("cos", _cos_forward, _times_slope, per_element(1))
minimum = Op("minimum", _minimum_forward, _minimum_backward, per_element(1, 2))

floor = _step("floor", np.floor)
ceil = _step("ceil", np.ceil)
#: To the nearest whole number, halves to the even one.
round_ = _step("round", np.rint)
sign = _step("sign", np.sign)

equal = _judged("equal", np.equal)
less = _judged("less", np.less)
less_equal = _judged("less_equal", np.less_equal)
greater = _judged("greater", np.greater)
greater_equal = _judged("greater_equal", np.greater_equal)
logical_and = _judged("logical_and", np.logical_and)
logical_or = _judged("logical_or", np.logical_or)
logical_not = _told("logical_not", np.logical_not)
is_nan = _told("is_nan", np.isnan)
#: Of whole numbers, towards 0.
whole_quotient = _judged("whole_quotient", _whole_quotient)
