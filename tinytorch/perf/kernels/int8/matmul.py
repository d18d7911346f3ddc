"""The integer product in one pass: quantize rows, multiply in registers, rescale and add the bias on the tile."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tinytorch.core.op import Array, Implementation, Op, Saved
from tinytorch.perf.kernels.int8.instructions import Dot, available_dots
from tinytorch.perf.kernels.int8.packing import (
    Panels,
    as_float,
    encode_row,
    extremes,
    is_finite,
    kept_panels,
    owned,
    parameters,
    place_row,
    sizes_of,
    unpack_panels,
    whole_range,
)
from tinytorch.perf.kernels.int8.tile import CHUNK, ROWS, STEP, tile
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import FLOAT32
from tinytorch.perf.ops.affine import Scheme, range_parameters
from tinytorch.perf.ops.packed_codes import PANEL, PanelLayout
from tinytorch.perf.ops.quantized import GREATEST_DEPTH, Activations, inside_range, quantized_linear
from tinytorch.perf.ops.weight_only import check_features

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
def operands_of(
    rows: Any, depth: Any, codes: Any, sums: Any, size: Any, scale: Any, zero_point: Any, bias: Any, output: Any
) -> Any:
    """Return what `multiply_panels` takes, and memory for so many quantized rows; zero points and bias may be empty."""
    segments, columns, offsets = size.segments, size.columns, zero_point.reshape(zero_point.size)
    scales = by_panels(scale.reshape(scale.size), segments, columns)
    zeros = by_panels(offsets, segments, columns) if zero_point.size else offsets
    padded = (columns + PANEL - 1) // PANEL * PANEL + PANEL
    biases = by_panels(bias, 1, columns) if len(bias) else np.zeros(padded, np.float32)
    space = space_for(rows, depth, size.segment, len(zeros) > 0)
    a, _, row_scale, row_zero, adjust = space
    operands = (
        a, codes, size.steps, segments, output, columns, row_scale, row_zero, adjust, sums, scales, zeros, biases
    )  # fmt: skip
    return operands, space


@kernel
def rescaled_blocks(
    start: Any, stop: Any, by_rows: Any, block: Any, marker: Any, x: Any, dynamic: Any, symmetric: Any,
    given_scale: Any, given_zero: Any, codes: Any, sums: Any, sizes: Any, scale: Any, zero_point: Any, bias: Any,
    output: Any, bad: Any,
) -> None:  # fmt: skip
    """Quantize and multiply the rows of blocks ``start`` to ``stop`` ``by_rows``, or all rows by such panels.

    ``block`` rows are quantized at a time, each by a range of its own if ``dynamic``. ``sizes`` holds `SIZES` of the
    weight. A number that is not finite sets ``bad``.
    """
    size, (rows, depth) = sizes_of(sizes)[0], x.shape
    first_panel, last_panel, top, bottom = 0, size.panels, start * block, min(stop * block, rows)
    if not by_rows:
        first_panel, last_panel, top, bottom = start, stop, 0, rows
    operands, space = operands_of(min(block, rows), depth, codes, sums, size, scale, zero_point, bias, output)
    how = (dynamic, symmetric, given_scale, given_zero)
    for first in range(top, bottom, block):
        some = min(block, bottom - first)
        if not encode_rows(some, x, first, size.segment, how, space):
            bad[0] = 1
            return
        multiply_panels(first_panel, last_panel, marker, some, first, size.bits, operands)


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
    output, bad = np.empty((rows, panels.layout.columns), np.float32), np.zeros(1, np.uint8)
    nanoseconds = rows * depth * (panels.layout.columns * MAC_NS + ENCODE_NS)
    parts, block, by_rows = _parts(rows, depth, panels.panel_count, nanoseconds)
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
        rescaled_blocks(0, -(-rows // block) if by_rows else panels.panel_count, *arguments)
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


#: Depth up to which int32 holds sums of products of codes less their zero points, each at most 255^2.
_AFFINE_DEPTH = (2**31 - 1) // 255**2


def takes(x: Array, length: int, symmetric: bool, zero_point: Array | None) -> bool:
    """Return whether the kernels do this product: float32, not empty, and no sum beyond int32."""
    greatest = GREATEST_DEPTH if symmetric and zero_point is None else _AFFINE_DEPTH
    return x.dtype == FLOAT32 and x.size > 0 and length <= greatest


def given_parameters(
    x: Array, activations: Activations, symmetric: bool, scale: Array | None, zero_point: Array | None
) -> tuple[float, float] | None:
    """Return the scale and zero point that all of x shares; None if each row has its own.

    Raises:
        ValueError: if x shares one, and a number of it is not finite.
    """
    if scale is not None:
        return float(scale), 0.0 if zero_point is None else float(zero_point)
    if activations == "row":
        return None
    extremes = whole_range(x)
    if extremes is None:
        raise not_finite()
    step, offset = range_parameters(*extremes, Scheme(symmetric=symmetric))
    return float(step), float(offset)


def not_finite() -> ValueError:
    """Return the error of `affine.check_finite` for x."""
    return ValueError("x must be finite float32 numbers, but holds NaN, infinity or more than float32 can")


def _linear(
    keep: bool,
    x: Array,
    codes: Array,
    scale: Array,
    zero_point: Array | None,
    bias: Array | None,
    x_scale: Array | None,
    x_zero_point: Array | None,
    *,
    activations: Activations,
    symmetric: bool,
    bits: int,
    group: int | None,
    length: int,
    columns: int,
    packed: dict[str, Any],
) -> tuple[Array, Saved]:
    """Return x W + b and what backward needs; ``x`` is one that `takes` accepts."""
    check_features(x, length, "quantized_linear")
    rows = x if x.ndim == 2 else x.reshape(-1, length)
    panels = packed.get("int8") or kept_panels(packed, codes, PanelLayout(bits, length, columns, group))
    shared = given_parameters(rows, activations, symmetric, x_scale, x_zero_point)
    output = rescaled_rows(rows, panels, scale, zero_point, bias, shared, symmetric)
    if output is None:
        raise not_finite()
    saved: Saved = ()
    if keep:
        inside = None if shared is None or x_scale is None else inside_range(x, *shared, symmetric)
        saved = (codes, scale, zero_point, bits, group, length, x.shape, inside)
    return output if x.ndim == 2 else output.reshape(*x.shape[:-1], columns), saved


def _linear_forward(keep: bool, x: Array, *operands: Any, **params: Any) -> tuple[Array, Saved]:
    """Run the kernel; what `takes` does not accept goes to the op's reference."""
    taken = takes(x, params["length"], params["symmetric"], operands[2])
    return (_linear if taken else quantized_linear.reference.forward)(keep, x, *operands, **params)


#: Bit for bit the results of the reference.
IMPLEMENTATIONS: dict[Op, Implementation] = {
    quantized_linear: Implementation("numba", _linear_forward, quantized_linear.reference.backward),
}
