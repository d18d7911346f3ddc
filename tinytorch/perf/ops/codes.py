"""Ops between numbers and codes, and integer products, as files of quantized models write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Spec, Work, no_gradient, per_element
from tinytorch.perf.ops.affine import Scheme, check_finite, range_parameters


def along(values: Array, shape: tuple[int, ...], axis: int, block: int = 0) -> Array:
    """Return scales or zero points in a shape that broadcasts with ``shape``.

    They are one for all, one for each place along ``axis``, or with ``block`` one for so many neighbours along it.
    """
    if values.size == 1:
        return values.reshape(())
    if block:
        axis %= len(shape)
        return np.repeat(values, block, axis=axis).take(np.arange(shape[axis]), axis=axis)
    if values.ndim > 1:  # of stacked matrices, in their shape already
        return values
    lengths = [1] * len(shape)
    lengths[axis] = values.size
    return values.reshape(lengths)


def bounds(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the smallest and largest code of a dtype: 2 to 32 bits, with a sign or without; or 8-bit floats."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    import ml_dtypes

    small: Any = ml_dtypes
    found = small.iinfo(dtype) if _is_whole(dtype) else small.finfo(dtype)
    return float(found.min), float(found.max)


def _is_whole(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or "int" in dtype.name


def _quantize_forward(
    keep: bool, x: Array, scale: Array, zero_point: Array | None, *, dtype: str, axis: int, block: int
) -> tuple[Array, Saved]:
    """Return round(x / scale) + zero point, halves to even, clipped to what the dtype holds."""
    kind = _dtype(dtype)
    with np.errstate(over="ignore"):
        level = np.asarray(x.astype(np.float32, copy=False) / along(scale, x.shape, axis, block).astype(np.float32))
    if _is_whole(kind):
        np.rint(level, out=level)
    if zero_point is not None:
        level += along(zero_point, x.shape, axis, block).astype(np.float32)
    return np.clip(level, *bounds(kind), out=level).astype(kind), ()


def _dtype(name: str) -> np.dtype[Any]:
    """Return a dtype by its name, also those that NumPy has from the ml_dtypes package."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def decoded(codes: Array, scale: Array, zero_point: Array | None, axis: int = 1, block: int = 0) -> Array:
    """Return scale · (code − zero point), of the scale's dtype; arguments as of `dequantize_linear`."""
    # int32 biases lie beyond what float32 holds; their difference is exact in float64.
    wide = np.float64 if codes.dtype.itemsize > 2 else np.float32
    level = np.asarray(codes.astype(wide))
    if zero_point is not None and zero_point.astype(wide).any():
        level -= along(zero_point, codes.shape, axis, block).astype(wide)
    with np.errstate(over="ignore"):
        made = level.astype(np.float32) * along(scale, codes.shape, axis, block).astype(np.float32)
    return made.astype(scale.dtype, copy=False)


def _dequantize_forward(
    keep: bool, codes: Array, scale: Array, zero_point: Array | None, *, axis: int, block: int
) -> tuple[Array, Saved]:
    return decoded(codes, scale, zero_point, axis, block), ()


def _fake_quantize_forward(
    keep: bool, x: Array, scale: Array, zero_point: Array, *, low: int, high: int
) -> tuple[Array, Saved]:
    """Return the numbers that the codes of x stand for; keep which were not clipped."""
    offset = np.asarray(zero_point, x.dtype)
    level = np.asarray(x / np.asarray(scale, x.dtype))
    np.rint(level, out=level)
    level += offset
    inside = (level >= low) & (level <= high) if keep else None
    np.clip(level, low, high, out=level)
    level -= offset
    return level * np.asarray(scale, x.dtype), (inside,) if keep else ()


def _fake_quantize_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Straight-through: as if rounding were the identity, and clipping what it is.

    Source: Y. Bengio, N. Léonard and A. Courville, arXiv:1308.3432; the same as torch.fake_quantize_per_tensor_affine.
    """
    return np.multiply(gradient, saved[0], out=gradient if owned else None), None, None


def _dynamic_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    low, high = x.min(initial=0), x.max(initial=0)
    check_finite(low, high, "x")
    if low == high:  # nothing but zeros, to which the standard gives this scale
        return np.array([1, 0], np.float32), ()
    scale, zero_point = range_parameters(low, high, Scheme(symmetric=False))
    return np.array([scale, zero_point + 128], np.float32), ()


def _exact(codes: Array, zero_point: Array | None) -> Array:
    """Return codes less their zero point as float64, which holds every sum of their products."""
    wide = codes.astype(np.float64)
    return wide if zero_point is None else wide - zero_point


def _integer_matmul_forward(
    keep: bool, a: Array, b: Array, a_zero: Array | None, b_zero: Array | None
) -> tuple[Array, Saved]:
    rows = a_zero.reshape(*a_zero.shape, 1) if a_zero is not None and a_zero.ndim == 1 and a_zero.size > 1 else a_zero
    return np.matmul(_exact(a, rows), _exact(b, b_zero)).astype(np.int64).astype(np.int32), ()


def _integer_conv2d_forward(
    keep: bool, x: Array, weight: Array, x_zero: Array | None, weight_zero: Array | None, **geometry: Any
) -> tuple[Array, Saved]:
    zero = None if weight_zero is None else along(weight_zero, weight.shape, 0)
    sums, _ = ops.conv2d.reference.forward(False, _exact(x, x_zero), _exact(weight, zero), None, **geometry)
    return sums.astype(np.int64).astype(np.int32), ()


def _work(depth: Callable[[tuple[Spec, ...]], int]) -> Callable[[Call], Work]:
    """Return the formula of integer products with ``depth`` terms for each output, and of subtracting zero points."""

    def work(call: Call) -> Work:
        macs = call.output.size * depth(call.inputs)
        zeros = sum(call.inputs[at].size for at in (0, 1) if call.inputs[at + 2].dtype is not None)
        return Work(macs, zeros, integer_macs=macs)

    return work


_CODES = no_gradient("codes are integers and have no gradient: train the model that they were made of")

#: Codes of x: operands x, scale and zero point (or None), one, along ``axis``, or of each ``block`` along it; ``dtype``
#: is the codes', by name.
quantize_linear = Op("quantize_linear", _quantize_forward, _CODES, per_element(4, 0))
#: The numbers that codes stand for, with the same operands.
dequantize_linear = Op("dequantize_linear", _dequantize_forward, _CODES, per_element(2, 0))
#: Both in one: operands x, scale and zero point that broadcast with it; ``low`` and ``high`` bound the codes.
fake_quantize = Op("fake_quantize", _fake_quantize_forward, _fake_quantize_backward, per_element(5, 1))
#: float32 (2,): scale and zero point of the uint8 codes of all of x, by its range.
dynamic_parameters = Op("dynamic_parameters", _dynamic_forward, _CODES, per_element(2, 0))
#: int32 sums of products of codes less their zero points: a, b, and a zero point of each (of b one a column) or None.
integer_matmul = Op("integer_matmul", _integer_matmul_forward, _CODES, _work(lambda inputs: inputs[0].shape[-1]))
#: The same of images (N, C, H, W) and weights (O, C / groups, kh, kw); a zero point of the weight may be one an output.
integer_conv2d = Op(
    "integer_conv2d", _integer_conv2d_forward, _CODES, _work(lambda inputs: inputs[1].size // inputs[1].shape[0])
)
