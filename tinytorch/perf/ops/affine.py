"""Affine quantization: real numbers as small integers (codes), x ≈ scale · (code − zero point)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tinytorch.core.op import Array, Shape, whole_numbers
from tinytorch.core.tensor import Tensor
from tinytorch.perf.ops.packed_codes import BITS, packed_length

Granularity = Literal["tensor", "channel", "group"]
Ranges = Literal["min-max", "mse"]

_FLOAT32 = np.finfo(np.float32)
#: Factors by which ``ranges="mse"`` tries to narrow a range.
_FACTORS = np.linspace(1.0, 0.3, 36)


@whole_numbers
@dataclass(frozen=True)
class Scheme:
    """Quantization scheme: bits, granularity and symmetry.

    Attributes:
        bits: 8, 4 or 2 for each code.
        symmetric: the zero point is 0 and codes run from -127 to 127 (-7 to 7, -1 to 1), so that a number and its
            negative have opposite codes and the largest magnitude has a code of its own. PyTorch divides by 127.5
            for -128 to 127, where neither holds. Not symmetric is affine: codes run from -128 to 127 (-8 to 7,
            -2 to 1) over the range of the data, widened to hold 0.
        per: what shares a scale: the whole ``tensor``, each ``channel`` (an index of ``axis``), or of a matrix each
            ``group`` of neighbours within a channel.
        axis: the channels' axis.
        group: neighbours in a group; the last one of a channel may be shorter.

    Raises:
        ValueError: if ``bits``, ``per`` or ``group`` is none of these.

    Examples:
        >>> from tinytorch.perf.quantization import Scheme
        >>> scheme = Scheme(bits=4, per="group", group=32)
        >>> scheme.low, scheme.high
        (-7, 7)
        >>> Scheme(bits=3)
        Traceback (most recent call last):
        ValueError: bits must be one of 8, 4, 2, not 3
    """

    bits: int = 8
    symmetric: bool = True
    per: Granularity = "tensor"
    axis: int = -1
    group: int = 32

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise ValueError(f"bits must be one of {', '.join(map(str, BITS))}, not {self.bits!r}")
        if self.per not in ("tensor", "channel", "group"):
            raise ValueError(f"per must be 'tensor', 'channel' or 'group', not {self.per!r}")
        if self.group < 1:
            raise ValueError(f"group must be at least 1, not {self.group}")

    @property
    def low(self) -> int:
        """The smallest code."""
        return -(2 ** (self.bits - 1)) + (1 if self.symmetric else 0)

    @property
    def high(self) -> int:
        """The largest code."""
        return int(2 ** (self.bits - 1) - 1)


@dataclass(frozen=True)
class Quantized:
    """Quantized array: codes, scales and zero points.

    Attributes:
        codes: int8, of the shape of what was quantized.
        scale: float32; shape () per tensor, length 1 along all axes but the channels' per channel, and per group
            (groups, channels), or (channels, groups) if ``scheme.axis`` is 0.
        zero_point: int32 of the same shape: the code of 0.
        scheme: how they were made.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import Scheme, quantize
        >>> found = quantize(np.ones((64, 64), np.float32), Scheme(bits=4))
        >>> found.dequantize().shape, found.nbytes < 64 * 64
        ((64, 64), True)
    """

    codes: Array
    scale: Array
    zero_point: Array
    scheme: Scheme

    def dequantize(self) -> Array:
        """Return the values of the codes, float32."""
        return decode(self.codes, *spread(self.scale, self.zero_point, self.codes.shape, self.scheme))

    @property
    def nbytes(self) -> int:
        """Bytes in storage: packed codes, scales, and zero points of 1 byte each."""
        shape = list(self.codes.shape) or [1]
        along = packing_axis(len(shape), self.scheme)
        shape[along] = packed_length(shape[along], self.scheme.bits)
        zero_points = 0 if self.scheme.symmetric else self.scale.size
        return int(np.prod(shape)) + self.scale.nbytes + zero_points


def packing_axis(ndim: int, scheme: Scheme) -> int:
    """Return the axis along which codes share bytes: the first, or the last if the channels run along the first."""
    return ndim - 1 if scheme.axis % max(ndim, 1) == 0 and ndim > 1 else 0


def floats(x: Any, name: str = "x") -> Array:
    """Return a Tensor's or array's numbers, float32 or float64, without a copy if they are that already.

    Raises:
        ValueError: if it is not an array of a floating dtype, or is empty.
    """
    array = x.data if isinstance(x, Tensor) else x
    if not isinstance(array, (np.ndarray, np.generic)):
        raise ValueError(f"{name} must be a Tensor or an array of float32, not {type(x).__name__}")
    if array.dtype.kind != "f":
        raise ValueError(f"{name} must have a floating dtype, not {array.dtype}: convert it with astype(np.float32)")
    if not array.size:
        raise ValueError(f"{name} must hold at least one number, but its shape is {array.shape}")
    return np.asarray(array, dtype=np.float32 if array.dtype.itemsize < 4 else None)


def extremes(x: Array, scheme: Scheme, name: str = "x") -> tuple[Array, Array]:
    """Return the smallest and largest number of whatever shares a scale, in the shape of `Quantized.scale`.

    Raises:
        ValueError: if one is NaN, infinite or beyond float32, or groups are asked of anything but a matrix.
    """
    if scheme.per == "group" and x.ndim != 2:
        raise ValueError(f"{name} must be a matrix to be quantized per group, but its shape is {x.shape}")
    if scheme.per == "channel" and not -x.ndim <= scheme.axis < x.ndim:
        raise ValueError(f"{name} must have the axis {scheme.axis} of the channels, but its shape is {x.shape}")
    low, high = _joined(np.minimum, x, scheme), _joined(np.maximum, x, scheme)
    check_finite(low, high, name)
    return low, high


def _joined(by: np.ufunc, x: Array, scheme: Scheme) -> Array:
    """Return what ``by`` makes of whatever shares a scale, in the shape of `Quantized.scale`."""
    if scheme.per == "group":
        along = packing_axis(2, scheme)
        return np.asarray(by.reduceat(x, np.arange(0, x.shape[along], scheme.group), along))
    axes = None
    if scheme.per == "channel":
        axes = tuple(axis for axis in range(x.ndim) if axis != scheme.axis % x.ndim)
    return np.asarray(by.reduce(x, axis=axes, keepdims=axes is not None))


def check_finite(low: Array, high: Array, name: str) -> None:
    """Raise ValueError unless the smallest and the largest of ``name`` are numbers that float32 can hold."""
    if not (np.abs(low) <= _FLOAT32.max).all() or not (np.abs(high) <= _FLOAT32.max).all():
        raise ValueError(f"{name} must be finite float32 numbers, but holds NaN, infinity or more than float32 can")


def range_parameters(low: Any, high: Any, scheme: Scheme) -> tuple[Array, Array]:
    """Return scale (float32) and zero point (int32) for numbers between ``low`` and ``high``, of their shape.

    The range is widened to hold 0, which then has a code of its own. Symmetric: scale = max(−low, high) / 127.
    Affine: scale = (high − low) / 255, zero point = −128 − round(low / scale), half to even. A range of nothing but 0
    gets scale 1. Arithmetic is that of float32, as in PyTorch's observers and ONNX's DynamicQuantizeLinear, but where
    a range or its scale leaves the normal numbers of float32: there it is exact, and a scale is rounded up, so that
    the range is covered. PyTorch never goes below a scale of 2⁻²³, and so loses tiny ranges.

    Examples:
        >>> from tinytorch.perf.quantization import Scheme, range_parameters
        >>> scale, zero_point = range_parameters(0.0, 255.0, Scheme(symmetric=False))
        >>> float(scale), int(zero_point)  # 256 codes from -128 on
        (1.0, -128)
    """
    low = np.minimum(np.asarray(low, np.float32), np.float32(0))
    high = np.maximum(np.asarray(high, np.float32), np.float32(0))
    if scheme.symmetric:
        span = np.maximum(-low, high).astype(np.float64) / scheme.high
    else:
        with np.errstate(over="ignore"):
            rounded = (high - low).astype(np.float64)
        exact = high.astype(np.float64) - low
        span = np.where(np.isfinite(rounded), rounded, exact) / (scheme.high - scheme.low)
    scale = np.asarray(_as_scale(span))
    if scheme.symmetric:
        return scale, np.zeros(scale.shape, np.int32)
    zero_point = scheme.low - np.rint(low.astype(np.float32) / scale)
    return scale, np.asarray(np.clip(zero_point, scheme.low, scheme.high)).astype(np.int32)


def _as_scale(span: Array) -> Array:
    """Return positive steps as float32, 1 for 0; those that only a subnormal can hold are rounded up."""
    with np.errstate(under="ignore"):
        scale = np.asarray(span, np.float64).astype(np.float32)
    up = (scale < span) & (scale < _FLOAT32.tiny)
    scale = np.where(up, np.nextafter(scale, np.float32(1)), scale)
    return np.where(span == 0, np.float32(1), scale).astype(np.float32)


def spread(scale: Array, zero_point: Array, shape: Shape, scheme: Scheme) -> tuple[Array, Array]:
    """Return scale and zero point in shapes that broadcast with codes of ``shape``."""
    if scheme.per != "group":
        return scale, zero_point
    along = packing_axis(2, scheme)

    def repeated(values: Array) -> Array:
        return np.repeat(values, scheme.group, axis=along).take(np.arange(shape[along]), axis=along)

    # Zeros need not be repeated for each number: of a large weight they fill as much memory as the weight itself.
    return repeated(scale), repeated(zero_point) if zero_point.any() else np.zeros((1,) * len(shape), np.int32)


def encode(x: Array, scale: Any, zero_point: Any, scheme: Scheme) -> Array:
    """Return the int8 codes of values: round(x / scale) + zero point, clipped to the scheme's codes.

    Halves are rounded to an even level, before the zero point is added, and the quotient is that of float32 (float64
    for float64): both as in ONNX. PyTorch rounds x · (1 / scale) + zero point: with an odd zero point its halves go the
    other way, to an even code, and its product can move a number that is within a rounding of a half.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import Scheme, encode
        >>> encode(np.array([-1, 0, 0.5, 9], np.float32), scale=0.5, zero_point=1, scheme=Scheme())
        array([-1,  1,  2, 19], dtype=int8)
    """
    with np.errstate(over="ignore"):
        quotient = np.asarray(np.divide(x, scale))
    np.rint(quotient, out=quotient)
    if np.any(zero_point):
        quotient += np.asarray(zero_point, quotient.dtype)
    return np.asarray(np.clip(quotient, scheme.low, scheme.high, out=quotient)).astype(np.int8)


def decode(codes: Array, scale: Any, zero_point: Any) -> Array:
    """Return scale · (codes − zero point), float32.

    A level beyond the largest float32, half a step outside of a range that reaches it, becomes that largest number.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import decode
        >>> decode(np.array([-1, 1, 2], np.int8), scale=0.5, zero_point=1)
        array([-1. ,  0. ,  0.5], dtype=float32)
    """
    return decode_in_place(np.asarray(codes.astype(np.float32)), scale, zero_point)


def decode_in_place(numbers: Array, scale: Any, zero_point: Any) -> Array:
    """Do what `decode` does to codes that are float32 already, in their memory."""
    if np.any(zero_point):
        numbers -= np.asarray(zero_point, np.float32)
    with np.errstate(over="ignore"):
        numbers *= np.asarray(scale, np.float32)
    if np.max(scale) > _FLOAT32.max / 2**9:
        np.clip(numbers, _FLOAT32.min, _FLOAT32.max, out=numbers)
    return numbers


def quantize(x: Any, scheme: Scheme | None = None, ranges: Ranges = "min-max") -> Quantized:
    """Quantize a Tensor or array, with scales from its own values.

    With the range ``"min-max"`` the error is at most half a scale (plus rounding of float32). Numbers that are all one
    constant c get the scale abs(c) and code 1, 0 or -1, and so are exact.

    Args:
        x: floating numbers.
        scheme: 8 bits, symmetric, per tensor by default.
        ranges: ``"min-max"`` covers every number; ``"mse"`` narrows each range to the factor (1 to 0.3 in steps of
            0.02) with the smallest sum of squared errors: with few bits a finer step for many is worth the clipping of
            a few.

    Raises:
        ValueError: if ``x`` is empty, not floating, or holds NaN or infinity, or ``ranges`` is neither.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import Scheme, quantize
        >>> x = np.array([[1.0, -2.0], [0.5, 2.0]], np.float32)
        >>> found = quantize(x, Scheme(bits=8, per="channel"))
        >>> found.codes
        array([[ 127, -127],
               [  64,  127]], dtype=int8)
        >>> found.scale.shape  # a scale for each column
        (1, 2)
    """
    scheme = scheme or Scheme()
    if ranges not in ("min-max", "mse"):
        raise ValueError(f"ranges must be 'min-max' or 'mse', not {ranges!r}")
    array = floats(x)
    low, high = extremes(array, scheme)
    if ranges == "mse":
        low, high = _narrowed(array, low, high, scheme)
    scale, zero_point = range_parameters(low, high, scheme)
    constant = (low == high) & (low != 0)
    scale = np.where(constant, np.abs(low), scale).astype(np.float32)
    zero_point = np.where(constant, 0, zero_point).astype(np.int32)
    codes = encode(array, *spread(scale, zero_point, array.shape, scheme), scheme)
    return Quantized(codes, scale, zero_point, scheme)


def _narrowed(x: Array, low: Array, high: Array, scheme: Scheme) -> tuple[Array, Array]:
    """Return the ranges with the smallest squared error among ``_FACTORS`` times low and high."""
    least = np.full(low.shape, np.inf)
    best_low, best_high = low, high
    for factor in _FACTORS.astype(np.float32):
        scale, zero_point = spread(*range_parameters(low * factor, high * factor, scheme), x.shape, scheme)
        error = decode(encode(x, scale, zero_point, scheme), scale, zero_point).astype(np.float64) - x
        total = _joined(np.add, error * error, scheme)
        better = total < least
        least = np.where(better, total, least)
        best_low = np.where(better, low * factor, best_low)
        best_high = np.where(better, high * factor, best_high)
    constant = low == high
    return np.where(constant, low, best_low), np.where(constant, high, best_high)


def quantize_int8(tensor: Any) -> tuple[Tensor, float, int]:
    """Return int8 codes (a Tensor), scale and zero point: affine quantization to 8 bits, per tensor.

    It raises the errors of `quantize`.

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.perf.quantization import dequantize_int8, quantize_int8
        >>> codes, scale, zero_point = quantize_int8(Tensor([-1.0, 0.0, 1.55]))
        >>> codes.dtype, round(scale, 4), zero_point
        (dtype('int8'), 0.01, -28)
        >>> dequantize_int8(codes, scale, zero_point).numpy().round(2)
        array([-1.  ,  0.  ,  1.55], dtype=float32)
    """
    scheme = Scheme(symmetric=False)
    array = floats(tensor, "tensor")
    extremes(array, scheme, "tensor")
    made = quantize(array, scheme)
    return Tensor(made.codes), float(made.scale), int(made.zero_point)


def dequantize_int8(q: Any, scale: float, zero_point: int) -> Tensor:
    """Return the values scale · (q − zero point) of int8 codes, float32.

    Raises:
        ValueError: if ``q`` is not int8, ``scale`` not above 0 and finite, or ``zero_point`` not a code.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import dequantize_int8
        >>> dequantize_int8(np.array([-128, 0, 127], np.int8), scale=0.5, zero_point=0).numpy()
        array([-64. ,   0. ,  63.5], dtype=float32)
    """
    codes = q.data if isinstance(q, Tensor) else np.asarray(q)
    if codes.dtype != np.int8:
        raise ValueError(f"q must have dtype int8, not {codes.dtype}")
    if not 0 < scale <= _FLOAT32.max:
        raise ValueError(f"scale must be above 0 and finite, not {scale}")
    if not -128 <= zero_point <= 127:
        raise ValueError(f"zero_point must lie in -128..127, not {zero_point}")
    return Tensor(decode(codes, scale, zero_point))
