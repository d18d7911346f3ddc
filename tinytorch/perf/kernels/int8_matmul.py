"""The integer product in one pass: quantize rows, multiply in registers, rescale and add the bias on the tile."""

from __future__ import annotations

from dataclasses import dataclass
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


@kernel
def encode_rows(rows: Any, x: Any, first: Any, segment: Any, how: Any, placed: Any, bad: Any) -> None:
    """Quantize ``rows`` rows of x from ``first`` on into ``placed``; set ``bad`` if a number is not finite."""
    dynamic, symmetric, given = how
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
        scale, zero = given[0], given[1]
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


@kernel
def multiply_blocks(
    start: Any,
    stop: Any,
    parts: Any,
    block: Any,
    marker: Any,
    x: Any,
    segment: Any,
    how: Any,
    space: Any,
    bad: Any,
    weight: Any,
    output: Any,
    by_column: Any,
) -> None:
    """Quantize and multiply ``block`` rows at a time, the blocks of parts ``start`` to ``stop`` of ``parts``."""
    rows, columns = output.shape
    a, line, row_scale, row_zero, adjust = space
    blocks = (rows + block - 1) // block
    for part in range(start, stop):
        placed = (a[part], line[part], row_scale[part], row_zero[part], adjust[part])
        operands = operands_of(placed, weight, output, by_column)
        for number in range(blocks * part // parts, blocks * (part + 1) // parts):
            first = number * block
            some = min(block, rows - first)
            encode_rows(some, x, first, segment, how, placed, bad)
            if bad[0]:
                return
            multiply_panels(0, (columns + PANEL - 1) // PANEL, marker, some, first, operands)


@kernel
def operands_of(placed: Any, weight: Any, output: Any, by_column: Any) -> Any:
    """Return the tuple that `tile` takes."""
    a, _, row_scale, row_zero, adjust = placed
    b, steps, segments, sums = weight
    scale, zero, bias = by_column
    return (a, b, steps, segments, output, output.shape[1], row_scale, row_zero, adjust, sums, scale, zero, bias)


@kernel
def place_codes(codes: Any, a: Any, line: Any, row_scale: Any, row_zero: Any, adjust: Any) -> None:
    """Place rows of int8 codes in ``a`` as unsigned bytes."""
    rows, depth = codes.shape
    row_bytes = (depth + CHUNK - 1) // CHUNK * CHUNK
    for row in range(rows):
        shift_row(codes[row], line)
        row_scale[row], row_zero[row] = _FLOAT(1), _INT(128)
        place_row(line, depth, depth, a, row // ROWS * ROWS * row_bytes + row % ROWS * CHUNK, 0, adjust, 0)


@dataclass(frozen=True)
class Space:
    """Memory of a product, for each part (the first axis of each array).

    Attributes:
        a: uint8, the placed rows.
        line: uint8, one row as it is quantized.
        scale, zero: float32 and int32, of each row.
        adjust: int32, sums of each row's segments less their zero points; empty where the weight has none.
    """

    a: Array
    line: Array
    scale: Array
    zero: Array
    adjust: Array

    @classmethod
    def of(cls, parts: int, rows: int, panels: Panels, adjusted: bool) -> Space:
        """Return the memory for ``parts`` times ``rows`` rows."""
        whole = -(-rows // ROWS) * ROWS
        chunks = panels.segments * -(-panels.segment // CHUNK)
        return cls(
            np.empty((parts, whole * chunks * CHUNK), np.uint8),
            np.empty((parts, panels.depth + 2 * CHUNK), np.uint8),
            np.empty((parts, whole), np.float32),
            np.empty((parts, whole), np.int32),
            np.empty((parts, whole * panels.segments if adjusted else 0), np.int32),
        )

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What the kernels take."""
        return self.a, self.line, self.scale, self.zero, self.adjust

    @property
    def first(self) -> tuple[Array, ...]:
        """The same of the first part alone."""
        return self.a[0], self.line[0], self.scale[0], self.zero[0], self.adjust[0]


@cache
def fastest_dot() -> Dot:
    """Return the fastest instruction of this CPU."""
    return available_dots()[0]


def by_panels(values: Array | None, panels: Panels, dtype: Any) -> Array:
    """Return values of columns, (1 or segments, 1 or columns), flat for the columns of whole panels; zeros for None."""
    if values is None:
        return np.zeros(panels.padded_columns, dtype)
    wanted = values.astype(dtype, copy=False)
    if wanted.shape == (panels.segments, panels.padded_columns):
        return owned(wanted).reshape(-1)
    wide = np.zeros((panels.segments, panels.padded_columns), dtype)
    wide[:, : panels.columns] = wanted
    return wide.reshape(-1)


def column_operands(panels: Panels, scale: Array, zero_point: Array | None, bias: Array | None) -> tuple[Array, ...]:
    """Return scales, zero points and bias of the columns as the kernels take them."""
    zeros = np.zeros(0, np.int8) if zero_point is None else by_panels(zero_point, panels, np.int8)
    biases = None if bias is None else np.broadcast_to(bias, (panels.segments, len(bias)))
    return by_panels(scale, panels, np.float32), zeros, by_panels(biases, panels, np.float32)


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
    panels = pack_panels(b) if packed is None else kept_panels(packed, b, len(b), None)
    space = Space.of(1, len(a), panels, False)
    place_codes(owned(a), *space.first)
    nothing = np.zeros(0, np.float32)
    multiply_placed(dot, len(a), space, panels, output, (nothing, np.zeros(0, np.int8), nothing))
    return output


def multiply_placed(
    dot: Dot | None, rows: int, space: Space, panels: Panels, output: Array, by_column: tuple[Array, ...]
) -> None:
    """Multiply the rows placed in the first part of ``space``; threads share the panels."""
    operands = operands_of(space.first, panels.operands, output, by_column)
    marker = (dot or fastest_dot()).marker
    each_ns = rows * PANEL * panels.depth * MAC_NS
    threads.split(multiply_panels, panels.padded_columns // PANEL, each_ns, marker, rows, 0, operands)


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
    output, bad = np.empty((rows, panels.columns), np.float32), np.zeros(1, np.uint8)
    nanoseconds = rows * depth * (panels.columns * MAC_NS + ENCODE_NS)
    parts, block = _parts(rows, depth, nanoseconds)
    space = Space.of(parts, block, panels, zero_point is not None)
    by_column = column_operands(panels, scale, zero_point, bias)
    how = (given is None, symmetric, np.array(given or (1, 0), np.float32))
    if block >= rows and nanoseconds > 2 * threads.WORTH_A_THREAD_NS:
        encode_rows(rows, owned(x), 0, panels.segment, how, space.first, bad)
        if not bad[0]:
            multiply_placed(dot, rows, space, panels, output, by_column)
    else:
        marker = (dot or fastest_dot()).marker
        arguments = (parts, block, marker, owned(x), panels.segment, how, space.arrays, bad)
        weight = (panels.operands, output, by_column)
        threads.split(multiply_blocks, parts, nanoseconds / parts, *arguments, *weight)
    return None if bad[0] else output


def _parts(rows: int, depth: int, nanoseconds: float) -> tuple[int, int]:
    """Return how many threads share the rows, and how many rows are quantized at a time."""
    block = max(ROWS, BLOCK_BYTES // depth // ROWS * ROWS)
    if rows <= block:
        return 1, rows
    parts = min(threads.limit(), -(-rows // block)) if nanoseconds > 2 * threads.WORTH_A_THREAD_NS else 1
    rounds = -(-rows // (block * parts))
    return parts, -(-rows // (rounds * parts * ROWS)) * ROWS
