"""Convolution of images as an integer product: quantize an image once, gather its windows as bytes, multiply."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.core.ops.layout import Pair, output_positions
from tinytorch.perf.kernels import threads
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.int8_instructions import Dot
from tinytorch.perf.kernels.int8_matmul import (
    BLOCK_BYTES,
    ENCODE_NS,
    MAC_NS,
    Space,
    column_operands,
    fastest_dot,
    multiply_panels,
    operands_of,
)
from tinytorch.perf.kernels.int8_packing import Panels
from tinytorch.perf.kernels.int8_tile import CHUNK, PANEL, ROWS, copy_chunk
from tinytorch.perf.kernels.quantize_rows import as_float, encode_row, extremes, is_finite, owned, parameters, place_row

_FLOAT, _INT = np.float32, np.int32


@kernel
def encode_image(maps: Any, padding: Any, scale: Any, zero: Any, symmetric: Any, wide: Any) -> None:
    """Fill ``wide`` with the bytes of an image (H, W, C), and with that of 0 for ``padding`` around it."""
    height, width, channels = maps.shape
    line = (width + 2 * padding[1]) * channels
    least = _FLOAT(-127) if symmetric else _FLOAT(-128)
    wide[:] = np.uint8(zero + _FLOAT(128))
    for row in range(height):
        first = (row + padding[0]) * line + padding[1] * channels
        encode_row(maps[row].reshape(width * channels), scale, zero, least, wide[first : first + width * channels])


@kernel
def gather_window(wide: Any, at: Any, line: Any, channels: Any, kernel_size: Any, dilation: Any, window: Any) -> None:
    """Fill ``window`` with the bytes under a window whose first tap is at ``at``; taps of a row are neighbours.

    It copies 16 bytes at a time: both arrays must have 16 more than are needed.
    """
    together = kernel_size[1] if dilation[1] == 1 else 1
    run = together * channels
    to = 0
    for i in range(kernel_size[0]):
        for j in range(0, kernel_size[1], together):
            source = at + i * dilation[0] * line + j * dilation[1] * channels
            for place in range(0, run, CHUNK):
                copy_chunk(window, to + place, wide, source + place)
            to += run


@kernel
def place_windows(
    wide: Any,
    shape: Any,
    geometry: Any,
    positions: Any,
    number: Any,
    count: Any,
    segment: Any,
    scale: Any,
    zero: Any,
    row: Any,
    placed: Any,
) -> None:
    """Place ``count`` windows of an image, from ``number`` on, as rows from ``row`` on."""
    kernel_size, stride, padding, dilation = geometry
    a, line, row_scale, row_zero, adjust = placed
    channels, depth = shape[3], kernel_size[0] * kernel_size[1] * shape[3]
    segments = (depth + segment - 1) // segment
    row_bytes = segments * ((segment + CHUNK - 1) // CHUNK) * CHUNK
    width_bytes = (shape[2] + 2 * padding[1]) * channels
    shifted = _INT(zero) + _INT(128)
    for window in range(number, number + count):
        i, j = divmod(window, positions[1])
        at = i * stride[0] * width_bytes + j * stride[1] * channels
        gather_window(wide, at, width_bytes, channels, kernel_size, dilation, line)
        row_scale[row], row_zero[row] = scale, shifted
        place = row // ROWS * ROWS * row_bytes + row % ROWS * CHUNK
        place_row(line, depth, segment, a, place, shifted, adjust, row * segments)
        row += 1


@kernel
def convolve_images(
    start: Any,
    stop: Any,
    parts: Any,
    block: Any,
    marker: Any,
    maps: Any,
    geometry: Any,
    positions: Any,
    segment: Any,
    how: Any,
    wide: Any,
    space: Any,
    bad: Any,
    weight: Any,
    output: Any,
    by_column: Any,
) -> None:
    """Convolve the images of parts ``start`` to ``stop`` of ``parts``, ``block`` windows at a time."""
    dynamic, symmetric, given = how
    a, line, row_scale, row_zero, adjust = space
    count, windows = len(maps), positions[0] * positions[1]
    panels = (output.shape[1] + PANEL - 1) // PANEL
    for part in range(start, stop):
        placed = (a[part], line[part], row_scale[part], row_zero[part], adjust[part])
        operands = operands_of(placed, weight, output, by_column)
        filled, first = 0, count * part // parts * windows
        for image in range(count * part // parts, count * (part + 1) // parts):
            low, high = extremes(maps[image].reshape(maps[image].size).view(np.int32))
            if not is_finite(low, high):
                bad[0] = 1
                return
            scale, zero = given[0], given[1]
            if dynamic:
                scale, zero = parameters(as_float(low), as_float(high), symmetric)
            encode_image(maps[image], geometry[2], scale, zero, symmetric, wide[part])
            number = 0
            while number < windows:
                some = min(block - filled, windows - number)
                place_windows(
                    wide[part], maps.shape, geometry, positions, number, some, segment, scale, zero, filled, placed
                )
                filled += some
                number += some
                last = number == windows and image + 1 == count * (part + 1) // parts
                if filled == block or last:
                    multiply_panels(0, panels, marker, filled, first, operands)
                    first += filled
                    filled = 0


def convolved_maps(
    maps: Array,
    panels: Panels,
    scale: Array,
    zero_point: Array | None,
    bias: Array | None,
    given: tuple[float, float] | None,
    symmetric: bool,
    geometry: tuple[Pair, Pair, Pair, Pair],
    dot: Dot | None = None,
) -> Array | None:
    """Return float32 (N, oh, ow, O): images (N, H, W, C) quantized, convolved with the panels, rescaled, plus the bias.

    What `int8_matmul.rescaled_rows` does, with images in place of rows, each with a scale of its own or ``given``.

    Args:
        maps: float32, not empty.
        geometry: kernel, stride, padding and dilation.

    Returns:
        None if a number of ``maps`` is not finite.

    Raises:
        ValueError: if a window fits nowhere.
    """
    count, height, width, channels = maps.shape
    kernel_size, stride, padding, dilation = geometry
    positions = output_positions((height, width), kernel_size, stride, padding, dilation)
    windows = positions[0] * positions[1]
    output = np.empty((count * windows, panels.columns), np.float32)
    image_ns = windows * panels.depth * (panels.columns * MAC_NS + 0.1) + height * width * channels * ENCODE_NS
    parts = min(threads.limit(), count) if count * image_ns > 2 * threads.WORTH_A_THREAD_NS else 1
    block = min(max(ROWS, BLOCK_BYTES // panels.depth // ROWS * ROWS), windows * -(-count // parts))
    wide_bytes = (height + 2 * padding[0]) * (width + 2 * padding[1]) * channels + CHUNK
    wide, bad = np.empty((parts, wide_bytes), np.uint8), np.zeros(1, np.uint8)
    how = (given is None, symmetric, np.array(given or (1, 0), np.float32))
    space = Space.of(parts, block, panels, zero_point is not None)
    marker = (dot or fastest_dot()).marker
    arguments = (parts, block, marker, owned(maps), geometry, positions, panels.segment, how, wide, space.arrays, bad)
    weight = (panels.operands, output, column_operands(panels, scale, zero_point, bias))
    threads.split(convolve_images, parts, count * image_ns / parts, *arguments, *weight)
    return None if bad[0] else output.reshape(count, *positions, panels.columns)
