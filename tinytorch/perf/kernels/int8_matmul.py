"""The integer product in one pass: quantize rows, multiply in registers, rescale and add the bias on the tile."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.kernels import threads
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.int8_instructions import Dot, available_dots
from tinytorch.perf.kernels.int8_packing import Panels, kept_panels, pack_panels
from tinytorch.perf.kernels.int8_tile import CHUNK, PANEL, ROWS, tile
from tinytorch.perf.kernels.quantize_rows import (
    as_float,
    encode_row,
    extremes,
    is_finite,
    owned,
    parameters,
    place_row,
    shift_row,
)
from tinytorch.perf.quantization.integer import check_operands

#: Bytes of rows that are quantized before they are multiplied: they wait in the second cache.
BLOCK_BYTES = 128 * 1024
#: About how long a multiply-accumulate takes, and quantizing a number, in nanoseconds.
MAC_NS, ENCODE_NS = 0.002, 0.3
_FLOAT, _INT = np.float32, np.int32
#: Zero points of a weight that has none.
NO_ZEROS = np.zeros(0, np.int8)

#: Quantized rows, and memory for them: uint8 the bytes where `tile` reads them, and of one row as it is quantized;
#: float32 and int32 scale and zero point of each row; int32 sums of each row's segments less their zero points, none
#: where the weight has no zero points.
Placed = tuple[Array, Array, Array, Array, Array]


@kernel
def encode_rows(rows: Any, x: Any, first: Any, segment: Any, how: Any, placed: Any, bad: Any) -> None:
    """Quantize ``rows`` rows of x from ``first`` on into ``placed``; set ``bad`` if a number is not finite."""
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
            bad[0] = 1
            return
        scale, zero = _FLOAT(given_scale), _FLOAT(given_zero)
        if dynamic:
            scale, zero = parameters(as_float(low), as_float(high), symmetric)
        encode_row(numbers, scale, zero, least, line)
        shifted = _INT(zero) + _INT(128)
        row_scale[row], row_zero[row] = scale, shifted
        place = row // ROWS * ROWS * row_bytes + row % ROWS * CHUNK
        place_row(line, depth, segment, a, place, shifted, adjust, row * segments)


@kernel
def multiply_panels(start: Any, stop: Any, marker: Any, rows: Any, first: Any, operands: Any) -> None:
    """Multiply all placed rows by panels ``start`` to ``stop`` into rows from ``first`` on of the output.

    Of few rows more panels are taken at once: an instruction waits for the one before it on the same sums.
    """
    wide = 4 if rows <= 4 else 2
    panel = start
    while panel < stop:
        panels = wide if panel + wide <= stop else 1
        for row in range(0, rows, ROWS):
            left = rows - row
            if panels == 4:
                if left == 1:
                    tile(marker, 1, 4, row, left, panel, first, operands)
                else:
                    tile(marker, 4, 4, row, left, panel, first, operands)
            elif panels == 2:
                if left > 8:
                    tile(marker, 12, 2, row, left, panel, first, operands)
                elif left > 4:
                    tile(marker, 8, 2, row, left, panel, first, operands)
                else:
                    tile(marker, 4, 2, row, left, panel, first, operands)
            elif left > 4:
                tile(marker, 12, 1, row, left, panel, first, operands)
            else:
                tile(marker, 4, 1, row, left, panel, first, operands)
        panel += panels


def operands_of(placed: Placed, panels: Panels, output: Array, by_column: tuple[Array, ...]) -> tuple[Any, ...]:
    """Return the tuple that `tile` takes."""
    a, _, row_scale, row_zero, adjust = placed
    scale, zero, bias = by_column
    weight = (panels.codes, panels.steps, panels.segments, output, panels.columns)
    return (a, *weight, row_scale, row_zero, adjust, panels.sums, scale, zero, bias)


@kernel
def place_codes(codes: Any, a: Any, line: Any, row_scale: Any, row_zero: Any, adjust: Any) -> None:
    """Place rows of int8 codes in ``a`` as unsigned bytes."""
    rows, depth = codes.shape
    row_bytes = (depth + CHUNK - 1) // CHUNK * CHUNK
    for row in range(rows):
        shift_row(codes[row], line)
        row_scale[row], row_zero[row] = _FLOAT(1), _INT(128)
        place_row(line, depth, depth, a, row // ROWS * ROWS * row_bytes + row % ROWS * CHUNK, 0, adjust, 0)


def space_for(rows: int, panels: Panels, adjusted: bool) -> Placed:
    """Return the memory for some rows; ``adjusted`` if the weight has zero points."""
    whole = -(-rows // ROWS) * ROWS
    chunks = panels.segments * -(-panels.segment // CHUNK)
    return (
        np.empty(whole * chunks * CHUNK, np.uint8),
        np.empty(panels.depth + 2 * CHUNK, np.uint8),
        np.empty(whole, np.float32),
        np.empty(whole, np.int32),
        np.empty(whole * panels.segments if adjusted else 0, np.int32),
    )


@cache
def fastest_dot() -> Dot:
    """Return the fastest instruction of this CPU."""
    return available_dots()[0]


def by_panels(values: Array, panels: Panels, dtype: Any) -> Array:
    """Return values of columns, (1 or segments, 1 or columns), flat for the columns of whole panels."""
    if values.dtype == dtype and values.shape == (panels.segments, panels.padded_columns):
        return owned(values).reshape(-1)
    wide = np.zeros((panels.segments, panels.padded_columns), dtype)
    wide[:, : panels.columns] = values
    return wide.reshape(-1)


def column_operands(panels: Panels, scale: Array, zero_point: Array | None, bias: Array | None) -> tuple[Array, ...]:
    """Return scales, zero points and bias of the columns as the kernels take them."""
    zeros = NO_ZEROS if zero_point is None else by_panels(zero_point, panels, np.int8)
    if bias is not None and bias.dtype == np.float32 and len(bias) == panels.padded_columns:
        biases = owned(bias)
    else:
        biases = np.zeros(panels.padded_columns, np.float32)
        biases[: panels.columns] = 0 if bias is None else bias
    return by_panels(scale, panels, np.float32), zeros, biases


def int8_product(a: Array, b: Array, packed: dict[str, Any] | None = None, dot: Dot | None = None) -> Array:
    """Return the exact int32 product of int8 matrices (rows, depth) and (depth, columns).

    Args:
        packed: where to keep b as panels for the next call (see `Codes.packed`); not kept if None.
        dot: the instruction; the fastest of this CPU by default.

    Raises:
        ValueError: as `integer_product`.
    """
    check_operands(a, b)
    output = np.zeros((len(a), b.shape[1]), np.int32)
    if not a.size or not b.size:
        return output
    panels = pack_panels(b) if packed is None else kept_panels(packed, lambda: b, None)
    space = space_for(len(a), panels, False)
    place_codes(owned(a), *space)
    nothing = np.zeros(0, np.float32)
    operands = operands_of(space, panels, output, (nothing, NO_ZEROS, nothing))
    multiply_placed(dot or fastest_dot(), len(a), 0, panels, operands)
    return output


def multiply_placed(dot: Dot, rows: int, first: int, panels: Panels, operands: tuple[Any, ...]) -> None:
    """Multiply rows that are placed into the output's from ``first`` on; threads share the panels."""
    each_ns = rows * PANEL * panels.depth * MAC_NS
    threads.split(multiply_panels, panels.padded_columns // PANEL, each_ns, dot.marker, rows, first, operands)


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

    Every operation is that of `ops.rescaled_product`, in its order, so that the result is the same bit for bit.

    Args:
        x: float32, not empty.
        panels: the weight, packed with its groups as segments.
        scale: of the weight, float32 (1, 1), (1, columns) or (segments, columns).
        zero_point: of the weight, int8 of the shape of ``scale``, or None for 0.
        bias: (columns,) or None.
        given: scale and zero point of x; None if each row has its own.
        symmetric: whether codes of x run from -127 to 127, and of rows with their own range have zero point 0.
        dot: the instruction; the fastest of this CPU by default.

    Returns:
        None if a number of x is not finite.
    """
    rows, depth = x.shape
    x, dot = owned(x), dot or fastest_dot()
    output, bad = np.empty((rows, panels.columns), np.float32), np.zeros(1, np.uint8)
    by_column = column_operands(panels, scale, zero_point, bias)
    how = (given is None, symmetric, *(given or (1.0, 0.0)))
    nanoseconds = rows * depth * (panels.columns * MAC_NS + ENCODE_NS)
    parts, block = _parts(rows, depth, nanoseconds)

    def multiply(start: int, stop: int) -> None:
        """Quantize and multiply the blocks of some parts."""
        blocks = -(-rows // block)
        space = space_for(block, panels, zero_point is not None)
        operands = operands_of(space, panels, output, by_column)
        for first in range(blocks * start // parts * block, min(blocks * stop // parts * block, rows), block):
            some = min(block, rows - first)
            encode_rows(some, x, first, panels.segment, how, space, bad)
            if bad[0]:
                return
            if parts == 1:
                multiply_placed(dot, some, first, panels, operands)
            else:
                multiply_panels(0, panels.padded_columns // PANEL, dot.marker, some, first, operands)

    if parts == 1:
        multiply(0, 1)
    else:
        threads.split(multiply, parts, nanoseconds / parts)
    return None if bad[0] else output


def _parts(rows: int, depth: int, nanoseconds: float) -> tuple[int, int]:
    """Return how many threads share the rows, and how many rows are quantized at a time."""
    block = max(ROWS, BLOCK_BYTES // depth // ROWS * ROWS)
    if rows <= block:
        return 1, rows
    parts = min(threads.limit(), -(-rows // block)) if nanoseconds > 2 * threads.WORTH_A_THREAD_NS else 1
    rounds = -(-rows // (block * parts))
    return parts, -(-rows // (rounds * parts * ROWS)) * ROWS
