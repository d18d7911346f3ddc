"""Fused functions to call by name, on arrays or Tensors: one pass over memory, no temporaries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core import dispatch, ops
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.accelerated import kernel_implementations
from tinytorch.perf.acceleration.by_name import Values, check_values, run_compiled
from tinytorch.perf.acceleration.fused_ops import bias_gelu, causal_softmax


def unfused_gelu(x: Values) -> Values:
    """Return the GELU in its tanh form, one NumPy operation at a time: each writes a temporary of x's size.

    The honest expression of it: float32 stays float32, and the cube is two products, not a power.

    Raises:
        TypeError: if ``x`` is neither a float32 or float64 array nor such a Tensor.
    """
    check_values("x", x)
    # Python's floats take the array's dtype; NumPy's own float64 would widen it.
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    if isinstance(x, Tensor):
        return 0.5 * x * (1 + dispatch.apply(ops.tanh, inner))
    return 0.5 * x * (1 + np.tanh(inner))


def fused_gelu(x: Values, out: Array | None = None) -> Values:
    """Return the GELU in its tanh form, of x's shape and dtype, in one pass; float32 is compiled.

    The only memory it takes is that of the result, and none with ``out``. Source: D. Hendrycks and K. Gimpel,
    arXiv:1606.08415.

    Args:
        x: float32 or float64, any shape and strides.
        out: contiguous float32 array of x's shape to write to, for a contiguous float32 array ``x``.

    Raises:
        TypeError: if ``x`` is neither a float32 or float64 array nor such a Tensor.
        ValueError: if ``out`` does not fit.
        ModuleNotFoundError: if Numba is not installed; so for all functions here.
    """
    check_values("x", x)
    if out is None:
        return run_compiled(ops.gelu, x)
    return _gelu_into(x, out)


def fused_bias_gelu(x: Values, bias: Values) -> Values:
    """Return the GELU of ``x + bias``, shape (..., features), without writing the sum; ``bias`` is (features,).

    Raises:
        TypeError: if one is neither a float32 or float64 array nor such a Tensor.
        ValueError: if the bias is not of the length of x's last axis.
    """
    check_values("x", x)
    check_values("bias", bias)
    return run_compiled(bias_gelu, x, bias)


def fused_softmax(x: Values, axis: int = -1) -> Values:
    """Return e**x over its sum along ``axis``, of x's shape and dtype; each row is read from memory once.

    Raises:
        TypeError: if ``x`` is neither a float32 or float64 array nor such a Tensor.
    """
    check_values("x", x)
    return run_compiled(ops.softmax, x, axis=axis)


def fused_causal_softmax(x: Values) -> Values:
    """Return the softmax of scores (..., T, S) where query t sees keys up to S - T + t; 0 where it does not look.

    Raises:
        TypeError: if ``x`` is neither a float32 or float64 array nor such a Tensor.
        ValueError: if there are more queries than keys, or fewer than two axes.
    """
    check_values("x", x)
    return run_compiled(causal_softmax, x)


def fused_layer_norm(x: Values, weight: Values, bias: Values, epsilon: float = 1e-5) -> Values:
    """Return (x - mean) / sqrt(variance + epsilon) * weight + bias over the last axis, the variance the biased one.

    Raises:
        TypeError: if one is neither a float32 or float64 array nor such a Tensor.
        ValueError: if weight or bias are not of the length of x's last axis.
    """
    for name, values in (("x", x), ("weight", weight), ("bias", bias)):
        check_values(name, values)
    return run_compiled(ops.layer_norm, x, weight, bias, epsilon=epsilon)


def _gelu_into(x: Any, out: Array) -> Any:
    """Fill ``out`` and return it."""
    fits = isinstance(x, np.ndarray) and out.shape == x.shape and out.dtype == x.dtype == np.float32
    if not (fits and out.flags.c_contiguous and x.flags.c_contiguous and out.flags.writeable):
        raise ValueError(f"out must be a contiguous float32 array of shape {x.shape}, and x such an array too")
    kernel_implementations()  # says what is missing without Numba
    from tinytorch.perf.kernels.pointwise import fill_gelu

    fill_gelu(x, out)
    return out
