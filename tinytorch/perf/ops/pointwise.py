"""Elementwise functions of other frameworks' models: the error function, clipping, steps, comparisons and logic."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tinytorch.core.op import Array, Backward, Gradients, Op, Saved, gradient_only, no_gradient, per_element
from tinytorch.core.ops.elementwise import extreme, factor_backward


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


def _flat(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Return 0: the function is constant between its steps."""
    return (np.zeros_like(gradient),)


def _function(name: str, function: Callable[..., Array], backward: Backward | None = None) -> Op:
    """Return an op that is a function of NumPy; without a ``backward`` its result, such as a truth value, has none."""

    def forward(keep: bool, *operands: Array) -> tuple[Array, Saved]:
        return function(*operands), ()

    none = no_gradient(f"{name} has no gradient: pass operands with requires_grad=False, or use no_grad()")
    return Op(name, forward, backward or none, per_element(1), gradient_only)


def _whole_quotient(a: Array, b: Array) -> Array:
    """Return a / b of whole numbers, towards 0."""
    return (a - np.fmod(a, b)) // b


#: The error function, 2 / sqrt(pi) times the integral of exp(-t²) from 0 to x.
erf = Op("erf", _erf_forward, _erf_backward, per_element(1, 4))
#: x times the normal distribution's share below x. Source: D. Hendrycks and K. Gimpel, arXiv:1606.08415.
exact_gelu = Op("exact_gelu", _exact_gelu_forward, factor_backward, per_element(5, 1))
#: x, or ``value`` where it is not a number.
without_nan = Op("without_nan", _without_nan_forward, factor_backward, per_element(1))
#: min(max(x, low), high); the gradient passes at the ends, too.
clip = Op("clip", _clip_forward, factor_backward, per_element(2, 1))
#: min(max(slope x + shift, 0), 1). Source: A. Howard et al., arXiv:1905.02244.
hard_sigmoid = Op("hard_sigmoid", _hard_sigmoid_forward, factor_backward, per_element(4, 1))
#: x above 0, alpha (exp(x) - 1) below. Source: D.-A. Clevert, T. Unterthiner and S. Hochreiter, arXiv:1511.07289.
elu = Op("elu", _elu_forward, factor_backward, per_element(3, 1))
#: log(1 + exp(x)), without overflow.
softplus = Op("softplus", _softplus_forward, factor_backward, per_element(4, 1))
sin = Op("sin", _sin_forward, factor_backward, per_element(1))
cos = Op("cos", _cos_forward, factor_backward, per_element(1))
minimum = extreme("minimum", np.minimum, np.less)

floor = _function("floor", np.floor, _flat)
ceil = _function("ceil", np.ceil, _flat)
#: To the nearest whole number, halves to the even one.
round_ = _function("round", np.rint, _flat)
sign = _function("sign", np.sign, _flat)

equal = _function("equal", np.equal)
less = _function("less", np.less)
less_equal = _function("less_equal", np.less_equal)
greater = _function("greater", np.greater)
greater_equal = _function("greater_equal", np.greater_equal)
logical_and = _function("logical_and", np.logical_and)
logical_or = _function("logical_or", np.logical_or)
logical_not = _function("logical_not", np.logical_not)
is_nan = _function("is_nan", np.isnan)
#: Of whole numbers, towards 0.
whole_quotient = _function("whole_quotient", _whole_quotient)
