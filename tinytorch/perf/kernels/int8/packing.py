"""Operands of the integer product: panels of a weight's codes, and rows of float32 quantized to bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.kernels.int8.tile import CHUNK, ROWS, STEP, copy_chunk
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import records_of
from tinytorch.perf.ops.packed_codes import PANEL, PanelLayout

_CODE, _INT = np.int8, np.int32


#: What kernels read of a weight: `PanelLayout`, as numbers.
_NAMES = ("columns", "segment", "steps", "segments", "panels", "bits")
SIZES = np.dtype([(name, np.int64) for name in _NAMES])
sizes_of = records_of(SIZES, "of_sizes")


class Panels(NamedTuple):
    """A weight in `PanelLayout`, and what a product needs to know of it.

    Attributes:
        codes: int8, flat; of 4 and 2 bits they are packed, and come apart for each call, a few panels at a time.
        sums: int32, flat: [segment][column], the sums of each column over a segment's depth, for pairs of panels.
        layout: of the codes.
        panel_count: how many panels there are.
        sizes: `SIZES` of the layout, as numbers.
    """

    codes: Array
    sums: Array
    layout: PanelLayout
    panel_count: int
    sizes: Array


@kernel
def unpack_panels(panel: Any, count: Any, panel_bytes: Any, codes: Any, bits: Any, target: Any) -> None:
    """Fill ``target`` with the codes of ``count`` panels of fewer than 8 bits, a byte each, from ``panel`` on.

    ``panel_bytes`` are those of a panel in ``target``.
    """
    many = count * panel_bytes // (8 // bits)
    packed = codes[panel * panel_bytes // (8 // bits) :][:many]
    if bits == 4:
        for i in range(many):
            byte = _CODE(packed[i])
            target[2 * i] = (byte & _CODE(15)) - _CODE(8)
            target[2 * i + 1] = ((byte >> _CODE(4)) & _CODE(15)) - _CODE(8)
    else:
        for i in range(many):
            byte = _CODE(packed[i])
            for place in range(4):
                target[4 * i + place] = ((byte >> _CODE(2 * place)) & _CODE(3)) - _CODE(2)


@kernel
def add_columns(codes: Any, bits: Any, count: Any, segments: Any, steps: Any, sums: Any) -> None:
    """Add the codes of each column of ``count`` panels to ``sums``, a segment at a time."""
    panel_bytes = segments * steps * STEP
    aside = np.empty(0 if bits == 8 else panel_bytes, np.int8)
    for panel in range(count):
        if bits < 8:
            unpack_panels(panel, 1, panel_bytes, codes, bits, aside)
            numbers = aside
        else:
            numbers = codes[panel * panel_bytes :][:panel_bytes]
        for segment in range(segments):
            total = sums[segment * count * PANEL + panel * PANEL :][:PANEL]
            for step in range(steps):
                four = numbers[(segment * steps + step) * STEP :][:STEP]
                for column in range(PANEL):
                    for place in range(4):
                        total[column] += _INT(four[4 * column + place])


def panels_of(codes: Array, layout: PanelLayout) -> Panels:
    """Return packed codes, a matrix or panels of ``layout``, as a product reads them; panels are not copied."""
    if codes.ndim != 5:
        codes = layout.arranged(codes)
    flat = codes.reshape(-1).view(np.int8)
    # A pair of panels may begin with the last one: what is read of the other counts for nothing, but must be there.
    sums = np.zeros((layout.segments * layout.panels + layout.panels % 2) * PANEL, np.int32)
    add_columns(flat, layout.bits, layout.panels, layout.segments, layout.steps, sums)
    sizes = np.array([tuple(getattr(layout, name) for name in _NAMES)], SIZES)
    return Panels(flat, sums, layout, layout.panels, sizes.view(np.int64))


def kept_panels(packed: dict[str, Any], codes: Array, layout: PanelLayout) -> Panels:
    """Return `panels_of` the codes, whose sums ``packed`` (`Codes.packed`) keeps.

    The sums are kept by name too, so that `memory_usage` counts them.
    """
    made: Panels | None = packed.get("int8")
    if made is None:
        made = packed["int8"] = panels_of(codes, layout)
        packed["int8_sums"] = made.sums
        if codes.ndim != 5:
            packed["int8_panels"] = made.codes
    return made


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
