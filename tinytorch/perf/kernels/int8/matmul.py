"""The integer product in one pass: quantize rows, multiply in registers, rescale and add the bias on the tile."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.kernels.int8.instructions import Dot, available_dots
from tinytorch.perf.kernels.int8.packing import (
    Panels,
    as_float,
    encode_row,
    extremes,
    is_finite,
    owned,
    parameters,
    place_row,
    unpack_panels,
)
from tinytorch.perf.kernels.int8.tile import CHUNK, ROWS, STEP, tile
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.ops.packed_codes import PANEL

#: Bytes of rows that are quantized before they are multiplied: they wait in the second cache.
BLOCK_BYTES = 128 * 1024
#: About how long a multiply-accumulate takes, and quantizing a number, in nanoseconds.
MAC_NS, ENCODE_NS = 0.002, 0.15
_FLOAT, _INT = np.float32, np.int32
_LINE = 64
#: Zero points of a weight that has none, and the bias of a layer without.
NO_ZEROS, NO_BIAS = np.zeros((0, 0), np.int8), np.zeros(0, np.float32)


@kernel
def space_for(rows: Any, depth: Any, segment: Any, adjusted: Any) -> Any:
    """Return memory for quantized rows; ``adjusted`` if the weight has zero points.

    It is uint8 the bytes where `tile` reads them, and of one row as it is quantized; float32 and int32 scale and zero
    point of each row; int32 sums of each row's segments less their zero points, none if not ``adjusted``.
    """
    whole = (rows + ROWS - 1) // ROWS * ROWS
    segments = max(1, (depth + segment - 1) // segment)
    chunks = segments * ((segment + CHUNK - 1) // CHUNK)
    return (
        np.empty(whole * chunks * CHUNK, np.uint8),
        np.empty(depth + 2 * CHUNK, np.uint8),
        np.empty(whole, np.float32),
        np.empty(whole, np.int32),
        np.empty(whole * segments if adjusted else 0, np.int32),
    )


@kernel
def encode_rows(rows: Any, x: Any, first: Any, segment: Any, how: Any, placed: Any) -> Any:
    """Quantize ``rows`` rows of x from ``first`` on into ``placed``; return whether all their numbers are finite."""
    dynamic, symmetric, given_scale, given_zero = how
    a, line, row_scale, row_zero, adjust = placed
    depth = x.shape[1]
    segments = (depth + segment - 1) // segment
    row_bytes = segments * ((segment + CHUNK - 1) // CHUNK) * CHUNK
    least = _FLOAT(-127) if symmetric else _FLOAT(-128)
    for row in range(rows):
        numbers = x[first + row]
        low, high = extremes(numbers.view(np.int32))
        if not is_finite(low, high):
            return False
        scale, zero = _FLOAT(given_scale), _FLOAT(given_zero)
        if dynamic:
            scale, zero = parameters(as_float(low), as_float(high), symmetric)
        encode_row(numbers, scale, zero, least, line)
        shifted = _INT(zero) + _INT(128)
        row_scale[row], row_zero[row] = scale, shifted
        place = row // ROWS * ROWS * row_bytes + row % ROWS * CHUNK
        place_row(line, depth, segment, a, place, shifted, adjust, row * segments)
    return True


@kernel
def multiply_panels(start: Any, stop: Any, marker: Any, rows: Any, first: Any, bits: Any, operands: Any) -> None:
    """Multiply all placed rows by panels ``start`` to ``stop`` into rows from ``first`` on of the output.

    Of few rows more panels are taken at once: an instruction waits for the one before it on the same sums. Tiles of
    rows share the work of asking for the next panels. A last odd panel is taken twice, as a pair of which one is not
    written.
    """
    panel_bytes = operands[2] * operands[3] * STEP
    packed, aside = operands[1], np.empty(0 if bits == 8 else min(4, stop - start + 1) * panel_bytes, np.int8)
    tiles = (rows + ROWS - 1) // ROWS
    panel = start
    while panel < stop:
        panels = 4 if rows <= 4 and panel + 4 <= stop else 2
        at, b = panel, packed
        if bits < 8:
            unpack_panels(panel, min(panels, stop - panel), panel_bytes, packed, bits, aside)
            at, b = 0, aside
        for row in range(0, rows, ROWS):
            left = rows - row
            share = row // ROWS * panels * panel_bytes // tiles
            apart = panel_bytes if panel + 1 < stop else 0
            walk = (apart, panels * panel_bytes + share, (_LINE + tiles - 1) // tiles)
            given = (operands[0], b, *operands[2:])
            if panels == 4:
                if left == 1:
                    tile(marker, 1, 4, row, left, panel, at, walk, first, given)
                else:
                    tile(marker, 4, 4, row, left, panel, at, walk, first, given)
            elif left > 8:
                tile(marker, 12, 2, row, left, panel, at, walk, first, given)
            elif left > 4:
                tile(marker, 8, 2, row, left, panel, at, walk, first, given)
            else:
                tile(marker, 4, 2, row, left, panel, at, walk, first, given)
        panel += panels


@kernel
def by_panels(values: Any, segments: Any, columns: Any) -> Any:
    """Return flat numbers of columns, one for all, for each, or for each of each segment, for those of whole panels.

    After the last panel's follow those of one more, which a pair of panels may read.
    """
    padded = (columns + PANEL - 1) // PANEL * PANEL
    wide = np.zeros(segments * padded + PANEL, values.dtype)
    step = columns if len(values) >= segments * columns else 0
    for segment in range(segments):
        for column in range(columns):
            wide[segment * padded + column] = values[segment * step + column] if len(values) > 1 else values[0]
    return wide


@kernel
def by_column(segments: Any, columns: Any, scale: Any, zero_point: Any, bias: Any) -> Any:
    """Return scales, zero points and bias of the columns as `tile` takes them; the last two may be empty."""
    offsets = zero_point.reshape(zero_point.size)
    zeros = by_panels(offsets, segments, columns) if zero_point.size else offsets
    padded = (columns + PANEL - 1) // PANEL * PANEL + PANEL
    biases = by_panels(bias, 1, columns) if len(bias) else np.zeros(padded, np.float32)
    return by_panels(scale.reshape(scale.size), segments, columns), zeros, biases


@kernel
def rescaled_blocks(
    start: Any,
    stop: Any,
    by_rows: Any,
    block: Any,
    marker: Any,
    x: Any,
    dynamic: Any,
    symmetric: Any,
    given_scale: Any,
    given_zero: Any,
    codes: Any,
    sums: Any,
    sizes: Any,
    scale: Any,
    zero_point: Any,
    bias: Any,
    output: Any,
    bad: Any,
) -> None:
    """Quantize and multiply the rows of blocks ``start`` to ``stop`` ``by_rows``, or all rows by such panels.

    ``block`` rows are quantized at a time, each by a range of its own if ``dynamic``. ``sizes`` are columns, segment,
    steps, segments, panels and bits of the weight. A number that is not finite sets ``bad``.
    """
    columns, segment, steps, segments, panels, bits = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]
    rows, depth = x.shape
    first_panel, last_panel, top, bottom = 0, panels, start * block, min(stop * block, rows)
    if not by_rows:
        first_panel, last_panel, top, bottom = start, stop, 0, rows
    scales, zeros, biases = by_column(segments, columns, scale, zero_point, bias)
    space = space_for(min(block, rows), depth, segment, len(zeros) > 0)
    a, _, row_scale, row_zero, adjust = space
    operands = (
        a, codes, steps, segments, output, columns, row_scale, row_zero, adjust, sums, scales, zeros, biases
    )  # fmt: skip
    how = (dynamic, symmetric, given_scale, given_zero)
    for first in range(top, bottom, block):
        some = min(block, bottom - first)
        if not encode_rows(some, x, first, segment, how, space):
            bad[0] = 1
            return
        multiply_panels(first_panel, last_panel, marker, some, first, bits, operands)


@cache
def fastest_dot() -> Dot:
    """Return the fastest instruction of this CPU."""
    return available_dots()[0]


def rescaled_rows(
    x: Array,
    panels: Panels,
    scale: Array,
    zero_point: Array | None,
    bias: Array | None,
    given: tuple[float, float] | None,
    symmetric: bool,
    dot: Dot | None = None,
) -> Array | None:
    """Return float32 (rows, columns): x (rows, depth) quantized, times the panels, rescaled, plus the bias.

    Every operation is that of `quantized.rescaled_product`, in its order, so that the result is the same bit for bit.

    Args:
        x: float32, not empty.
        panels: the weight, with its groups as segments.
        scale: of the weight, float32 (1, 1), (1, columns) or (segments, columns).
        zero_point: of the weight, int8 of the shape of ``scale``, or None for 0.
        bias: float32 (columns,) or None.
        given: scale and zero point of x; None if each row has its own.
        symmetric: whether codes of x run from -127 to 127, and of rows with their own range have zero point 0.
        dot: the instruction; the fastest of this CPU by default.

    Returns:
        None if a number of x is not finite.
    """
    rows, depth = x.shape
    output, bad = np.empty((rows, panels.columns), np.float32), np.zeros(1, np.uint8)
    nanoseconds = rows * depth * (panels.columns * MAC_NS + ENCODE_NS)
    parts, block, by_rows = _parts(rows, depth, panels.count, nanoseconds)
    arguments = (
        by_rows,
        block,
        (dot or fastest_dot()).marker,
        x if x.flags.carray else owned(x),  # asked here: a call that has nothing to do is a frame, too
        given is None,
        symmetric,
        *(given or (1.0, 0.0)),
        panels.codes,
        panels.sums,
        panels.sizes,
        scale if scale.flags.carray else owned(scale),
        NO_ZEROS if zero_point is None else owned(zero_point),
        NO_BIAS if bias is None else bias if bias.flags.carray else owned(bias),
        output,
        bad,
    )
    if parts == 1:
        rescaled_blocks(0, -(-rows // block) if by_rows else panels.count, *arguments)
    else:
        threads.split(rescaled_blocks, parts, nanoseconds / parts, *arguments)
    return None if bad[0] else output


def _parts(rows: int, depth: int, panels: int, nanoseconds: float) -> tuple[int, int, bool]:
    """Return how many items threads share, the rows that are quantized at a time, and whether the items are rows.

    Few rows are quantized by every thread anew: each then multiplies them by panels of its own.
    """
    block = max(ROWS, BLOCK_BYTES // depth // ROWS * ROWS)
    shares = threads.limit() if nanoseconds > 2 * threads.WORTH_A_THREAD_NS else 1
    if rows <= block:
        return (1 if shares == 1 else panels), rows, shares == 1
    shares = min(shares, -(-rows // block))
    rounds = -(-rows // (block * shares))
    block = -(-rows // (rounds * shares * ROWS)) * ROWS
    return (1 if shares == 1 else -(-rows // block)), block, True
