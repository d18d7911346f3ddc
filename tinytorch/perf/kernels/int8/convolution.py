"""Convolution of images as an integer product: quantize an image once, gather its windows as bytes, multiply."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import Array, Implementation, Op, Saved
from tinytorch.core.ops.spatial import Pair, channels_first, output_positions
from tinytorch.perf.kernels.int8.instructions import Dot
from tinytorch.perf.kernels.int8.matmul import (
    BLOCK_BYTES,
    ENCODE_NS,
    MAC_NS,
    NO_BIAS,
    NO_ZEROS,
    fastest_dot,
    given_parameters,
    multiply_panels,
    not_finite,
    operands_of,
    takes,
)
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
)
from tinytorch.perf.kernels.int8.tile import CHUNK, ROWS, copy_chunk
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.ops.packed_codes import PanelLayout
from tinytorch.perf.ops.quantized import Activations, check_channels, inside_range, quantized_conv2d

#: About how long a byte under a window takes to gather, in nanoseconds.
GATHER_NS = 0.1
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
    number: Any, count: Any, wide: Any, scales: Any, zeros: Any, shape: Any, geometry: Any, positions: Any,
    segment: Any, placed: Any,
) -> None:  # fmt: skip
    """Place ``count`` windows of quantized images, from ``number`` on, as rows from 0 on."""
    kernel_size, stride, padding, dilation = geometry
    a, line, row_scale, row_zero, adjust = placed
    channels, depth = shape[3], kernel_size[0] * kernel_size[1] * shape[3]
    segments = (depth + segment - 1) // segment
    row_bytes = segments * ((segment + CHUNK - 1) // CHUNK) * CHUNK
    width_bytes = (shape[2] + 2 * padding[1]) * channels
    for row in range(count):
        image, window = divmod(number + row, positions[0] * positions[1])
        i, j = divmod(window, positions[1])
        at = i * stride[0] * width_bytes + j * stride[1] * channels
        gather_window(wide[image], at, width_bytes, channels, kernel_size, dilation, line)
        shifted = _INT(zeros[image]) + _INT(128)
        row_scale[row], row_zero[row] = scales[image], shifted
        place = row // ROWS * ROWS * row_bytes + row % ROWS * CHUNK
        place_row(line, depth, segment, a, place, shifted, adjust, row * segments)


@kernel
def encode_images(
    start: Any, stop: Any, maps: Any, padding: Any, how: Any, wide: Any, scales: Any, zeros: Any, bad: Any
) -> None:
    """Quantize images ``start`` to ``stop`` into the first rows of ``wide``; set ``bad`` if a number is not finite."""
    dynamic, symmetric, given_scale, given_zero = how
    for image in range(start, stop):
        low, high = extremes(maps[image].reshape(maps[image].size).view(np.int32))
        if not is_finite(low, high):
            bad[0] = 1
            return
        scale, zero = _FLOAT(given_scale), _FLOAT(given_zero)
        if dynamic:
            scale, zero = parameters(as_float(low), as_float(high), symmetric)
        scales[image - start], zeros[image - start] = scale, zero
        encode_image(maps[image], padding, scale, zero, symmetric, wide[image - start])


@kernel
def convolve(
    start: Any, stop: Any, parts: Any, blocks: Any, marker: Any, maps: Any, geometry: Any, positions: Any, how: Any,
    codes: Any, sums: Any, sizes: Any, scale: Any, zero_point: Any, bias: Any, output: Any, bad: Any,
) -> None:  # fmt: skip
    """Convolve the images of parts ``start`` to ``stop`` of ``parts``.

    ``blocks`` are how many images are quantized at a time, how many of their windows are placed at a time, and the
    depth of a window; ``sizes`` holds `SIZES` of the weight. A number that is not finite sets ``bad``.
    """
    together, block, depth = blocks
    size, (count, height, width, channels) = sizes_of(sizes)[0], maps.shape
    padding, windows = geometry[2], positions[0] * positions[1]
    wide = np.empty((together, (height + 2 * padding[0]) * (width + 2 * padding[1]) * channels + CHUNK), np.uint8)
    image_scales, image_zeros = np.empty(together, np.float32), np.empty(together, np.float32)
    operands, space = operands_of(block, depth, codes, sums, size, scale, zero_point, bias, output)
    end = count * stop // parts
    for image in range(count * start // parts, end, together):
        some = min(together, end - image)
        encode_images(image, image + some, maps, padding, how, wide, image_scales, image_zeros, bad)
        if bad[0]:
            return
        for first in range(0, some * windows, block):
            rows = min(block, some * windows - first)
            place_windows(
                first, rows, wide, image_scales, image_zeros, maps.shape, geometry, positions, size.segment, space
            )
            multiply_panels(0, size.panels, marker, rows, image * windows + first, size.bits, operands)


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
    count, height, width, _ = maps.shape
    kernel_size, stride, padding, dilation = geometry
    positions = output_positions((height, width), kernel_size, stride, padding, dilation)
    windows = positions[0] * positions[1]
    dot = dot or fastest_dot()
    maps = maps if maps.flags.carray else owned(maps)
    output, bad = np.empty((count * windows, panels.layout.columns), np.float32), np.zeros(1, np.uint8)
    how = (given is None, symmetric, *(given or (1.0, 0.0)))
    image_ns = windows * panels.layout.length * (panels.layout.columns * MAC_NS + GATHER_NS) + maps[0].size * ENCODE_NS
    parts = min(threads.limit(), count) if count * image_ns > 2 * threads.WORTH_A_THREAD_NS else 1
    block = max(ROWS, BLOCK_BYTES // panels.layout.length // ROWS * ROWS)
    together = min(max(1, block // windows), -(-count // parts))
    block = min(block, together * windows)
    threads.split(
        convolve,
        parts,
        count * image_ns / parts,
        parts,
        (together, block, panels.layout.length),
        dot.marker,
        maps,
        geometry,
        positions,
        how,
        panels.codes,
        panels.sums,
        panels.sizes,
        scale if scale.flags.carray else owned(scale),
        NO_ZEROS if zero_point is None else owned(zero_point),
        NO_BIAS if bias is None else bias if bias.flags.carray else owned(bias),
        output,
        bad,
    )
    return None if bad[0] else output.reshape(count, *positions, panels.layout.columns)


def _conv2d(
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
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> tuple[Array, Saved]:
    """Return the convolution and what backward needs; ``x`` is one that `takes` accepts, ``groups`` 1."""
    check_channels(x, length // (kernel[0] * kernel[1]))
    maps = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    panels = packed.get("int8") or kept_panels(packed, codes, PanelLayout(bits, length, columns, group))
    has_own = x_scale is None and activations == "row"
    shared = None if has_own else given_parameters(maps, activations, symmetric, x_scale, x_zero_point)
    geometry = (kernel, stride, padding, dilation)
    output = convolved_maps(maps, panels, scale, zero_point, bias, shared, symmetric, geometry)
    if output is None:
        raise not_finite()
    saved: Saved = ()
    if keep:
        inside = None if shared is None or x_scale is None else inside_range(maps, *shared, symmetric)
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        saved = (x, codes, scale, zero_point, bits, group, length, kernel, options, inside)
    return channels_first(output), saved


def _conv2d_forward(keep: bool, x: Array, *operands: Any, **params: Any) -> tuple[Array, Saved]:
    """Run the kernel as `_linear_forward` does; groups of channels are the reference's too."""
    taken = params["groups"] == 1 and takes(x, params["length"], params["symmetric"], operands[2])
    return (_conv2d if taken else quantized_conv2d.reference.forward)(keep, x, *operands, **params)


#: Bit for bit the results of the reference.
IMPLEMENTATIONS: dict[Op, Implementation] = {
    quantized_conv2d: Implementation("numba", _conv2d_forward, quantized_conv2d.reference.backward),
}
