"""Rows of float32 as unsigned bytes, a code plus 128 each, in the order in which the register tile reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.int8_tile import CHUNK, ROWS, copy_chunk

_FLOAT, _INT = np.float32, np.int32
_SIGN = np.int32(0x7FFFFFFF)
#: Bits of infinity, and the integers that stand for it and for its negative in `ordered`.
_INFINITE = np.int32(0x7F800000)
_TINY = np.float32(np.finfo(np.float32).tiny)
_NOUGHT, _ONE, _SHIFT = np.float32(0), np.float32(1), np.float32(128)


@kernel
def extremes(bits: Any) -> Any:
    """Return the smallest and the largest of a row's float32, given as int32, in the order of numbers.

    A float's bits order like an integer's once those of a negative are turned over: the minimum and maximum of
    integers are vectors, those of floats, with their NaN, are not. NaN comes out beyond infinity.
    """
    low, high = _INT(0), _INT(0)
    for i in range(len(bits)):
        ordered = _INT(bits[i] ^ ((bits[i] >> _INT(31)) & _SIGN))
        low = ordered if ordered < low else low
        high = ordered if ordered > high else high
    return low, high


@kernel
def is_finite(low: Any, high: Any) -> Any:
    """Return whether what `extremes` found are numbers."""
    return high < _INFINITE and (low ^ _SIGN if low < 0 else low) & _SIGN < _INFINITE


@kernel
def as_float(ordered: Any) -> Any:
    """Return the float32 that an integer of `extremes` stands for."""
    return _INT(ordered ^ ((ordered >> _INT(31)) & _SIGN)).view(np.float32)


@kernel
def parameters(low: Any, high: Any, symmetric: Any) -> Any:
    """Return scale and zero point of 8 bits for a range that holds 0, bit for bit as `affine.range_parameters`."""
    if symmetric:
        span = np.float64(max(-low, high)) / 127.0
    else:
        width = _FLOAT(high - low)
        span = (np.float64(width) if np.isfinite(width) else np.float64(high) - np.float64(low)) / 255.0
    if span == 0:
        return _ONE, _NOUGHT
    scale = _FLOAT(span)
    if np.float64(scale) < span and scale < _TINY:
        scale = np.nextafter(scale, _ONE)
    if symmetric:
        return scale, _NOUGHT
    zero = _FLOAT(-128) - np.rint(_FLOAT(low / scale))
    return scale, min(max(_FLOAT(zero), _FLOAT(-128)), _FLOAT(127))


@kernel
def encode_row(x: Any, scale: Any, zero: Any, least: Any, codes: Any) -> None:
    """Fill ``codes`` with 128 + clip(round(x / scale) + zero, least, 127), halves to even."""
    most = _FLOAT(127)
    for i in range(len(x)):
        level = np.rint(x[i] / scale) + zero
        level = min(max(level, least), most)
        codes[i] = np.uint8(level + _SHIFT)


@kernel
def shift_row(codes: Any, line: Any) -> None:
    """Fill ``line`` with int8 codes plus 128."""
    for i in range(len(codes)):
        line[i] = np.uint8(np.int16(codes[i]) + np.int16(128))


@kernel
def place_row(
    codes: Any, depth: Any, segment: Any, target: Any, start: Any, zero: Any, adjust: Any, place: Any
) -> None:
    """Copy a row's bytes to ``target[start:]``, 16 by 16 between those of the tile's other rows.

    With a non-empty ``adjust`` fill it from ``place`` on: the sum of a segment's bytes less its depth times ``zero``.
    ``codes`` must have 16 bytes beyond the row.
    """
    chunks = (segment + CHUNK - 1) // CHUNK
    segments = max(1, (depth + segment - 1) // segment)
    for part in range(segments):
        first = part * segment
        for chunk in range(min(chunks, (depth - first + CHUNK - 1) // CHUNK)):
            copy_chunk(target, start + chunk * (ROWS * CHUNK), codes, first + chunk * CHUNK)
        start += (segment + 15) // 16 * (ROWS * CHUNK)
        if len(adjust):
            stop = min(first + segment, depth)
            total = _INT(0)
            for i in range(first, stop):
                total += _INT(codes[i])
            adjust[place + part] = total - _INT(stop - first) * zero


def whole_range(x: Array) -> tuple[np.float32, np.float32] | None:
    """Return the smallest and largest number of contiguous float32, widened to hold 0; None if one is not finite."""
    low, high = extremes(owned(x).reshape(-1).view(np.int32))
    if not is_finite(low, high):
        return None
    return np.float32(as_float(low)), np.float32(as_float(high))


def owned(array: Array) -> Array:
    """Return a contiguous array that may be written to: the one type that kernels are compiled for."""
    flags = array.flags
    if flags.c_contiguous and flags.writeable:
        return array
    array = np.asarray(array, order="C")
    return array if array.flags.writeable else array.copy()
