"""Convolution and pooling of images, without a loop over pixels or channels, and the layout of images in memory.

Convolution, pooling and batch normalization make their results in this layout, and a chain of them never
copies to change it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Shape, Work, as_floating, contraction
from tinytorch.core.ops.elementwise import column_sums, widened

Pair = tuple[int, int]


def channels_last(x: Array) -> Array:
    """Return (N, C, H, W) as contiguous (N, H, W, C): a view where the memory is channels-last already."""
    if x.ndim != 4:
        raise ValueError(f"image ops need an input of shape (N, C, H, W), not {x.shape}")
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def channels_first(maps: Array) -> Array:
    """Return contiguous (N, H, W, C) as a view of shape (N, C, H, W)."""
    return maps.transpose(0, 3, 1, 2)


def padded(maps: Array, padding: tuple[int, int], value: Any = 0.0) -> Array:
    """Return (N, H, W, C) with ``padding`` rows and columns of ``value`` on each side; itself if there are none."""
    rows, columns = padding
    if not rows and not columns:
        return maps
    count, height, width, channels = maps.shape
    shape = (count, height + 2 * rows, width + 2 * columns, channels)
    wide = np.full(shape, value, maps.dtype) if value else np.zeros(shape, maps.dtype)
    wide[:, rows : rows + height, columns : columns + width] = maps
    return wide


def output_length(length: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    """Return how many positions a window of ``kernel`` taps has along an axis of ``length``.

    Raises:
        ValueError: if it fits nowhere.
    """
    positions = (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if positions < 1:
        raise ValueError(
            f"a window of {kernel} (dilation {dilation}) does not fit in {length} with padding {padding}: "
            "make the input or the padding larger"
        )
    return positions


@lru_cache(maxsize=256)
def output_positions(lengths: Shape, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair = (1, 1)) -> Pair:
    """Return `output_length` of the rows and of the columns of an image of ``lengths`` (H, W)."""
    return (
        output_length(lengths[0], kernel[0], stride[0], padding[0], dilation[0]),
        output_length(lengths[1], kernel[1], stride[1], padding[1], dilation[1]),
    )


def taps(
    maps: Array, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], positions: tuple[int, int]
) -> list[Array]:
    """Return, for each tap of the window, a view of (N, oh, ow, C): the elements that this tap meets."""
    (high, wide), (down, right), (far_down, far_right) = kernel, stride, dilation
    rows, columns = positions
    return [
        maps[
            :,
            i * far_down : i * far_down + down * (rows - 1) + 1 : down,
            j * far_right : j * far_right + right * (columns - 1) + 1 : right,
        ]
        for i in range(high)
        for j in range(wide)
    ]


#: Elements of unrolled windows that a convolution holds at a time: they stay in a level-2 cache.
_COLUMNS = 131_072


def _unrolled(maps: Array, kernel: Pair, stride: Pair, dilation: Pair, positions: Pair, groups: int) -> Array:
    """Return every window of (N, H, W, C) as a row: shape (groups, N * oh * ow, kh * kw * C / groups)."""
    count, _, _, channels = maps.shape
    image, row, column, channel = maps.strides
    each = channels // groups
    windows: Array = np.ndarray(  # `as_strided` takes ten times as long to say the same
        (groups, count, *positions, *kernel, each),
        maps.dtype,
        maps,
        0,
        (channel * each, image, row * stride[0], column * stride[1], row * dilation[0], column * dilation[1], channel),
    )
    return windows.reshape(groups, count * positions[0] * positions[1], kernel[0] * kernel[1] * each)


def _as_matrices(weight: Array, groups: int) -> Array:
    """Return weights (O, C / groups, kh, kw) as (groups, kh * kw * C / groups, O / groups)."""
    out, each, high, wide = weight.shape
    return (
        weight.reshape(groups, out // groups, each, high, wide)
        .transpose(0, 3, 4, 2, 1)
        .reshape(groups, high * wide * each, out // groups)
    )


def _checked_convolution(x: Array, weight: Array, groups: int) -> None:
    if x.ndim != 4 or x.shape[1] != weight.shape[1] * groups:
        raise ValueError(f"conv2d needs an input of shape (N, {weight.shape[1] * groups}, H, W), not {x.shape}")
    if weight.shape[0] % groups:
        raise ValueError(f"groups must divide the {weight.shape[0]} output channels, but it is {groups}")


def _images_at_a_time(positions: Pair, kernel: Pair, channels: int) -> int:
    return max(1, _COLUMNS // (positions[0] * positions[1] * kernel[0] * kernel[1] * channels))


def _conv2d_forward(
    keep: bool,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> tuple[Array, Saved]:
    """Cross-correlate (N, C, H, W) with (O, C / groups, kh, kw): windows unrolled into rows times a matrix.

    A few images are unrolled at a time, so that their rows are still in cache when the product reads them.
    """
    _checked_convolution(x, weight, groups)
    kernel: Pair = weight.shape[2], weight.shape[3]
    positions = output_positions(x.shape[2:], kernel, stride, padding, dilation)
    x = as_floating(x, weight.dtype)
    maps = channels_last(x)
    wide = padded(maps, padding)
    matrices = _as_matrices(weight, groups)
    out = weight.shape[0]
    dtype = x.dtype if x.dtype == weight.dtype else np.result_type(x, weight)
    output = np.empty((len(maps), *positions, out), dtype)
    by_group = output.reshape(-1, groups, out // groups).transpose(1, 0, 2)
    step = _images_at_a_time(positions, kernel, x.shape[1])
    area = positions[0] * positions[1]
    for start in range(0, len(maps), step):
        columns = _unrolled(wide[start : start + step], kernel, stride, dilation, positions, groups)
        np.matmul(columns, matrices, out=by_group[:, start * area : start * area + columns.shape[1]])
    if bias is not None:
        output += bias
    return channels_first(output), (maps, weight, stride, padding, dilation, groups) if keep else ()


def _conv2d_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    maps, weight, stride, padding, dilation, groups = saved
    kernel: Pair = weight.shape[2], weight.shape[3]
    out, each = weight.shape[:2]
    gradient_maps = channels_last(gradient)
    positions: Pair = gradient_maps.shape[1], gradient_maps.shape[2]
    by_group = gradient_maps.reshape(-1, groups, out // groups).transpose(1, 0, 2)
    wide = padded(maps, padding)
    matrices = _as_matrices(weight, groups).transpose(0, 2, 1)
    down_wide = np.zeros_like(wide) if needs[0] else None
    down_matrices = np.zeros((groups, kernel[0] * kernel[1] * each, out // groups), weight.dtype)
    step = _images_at_a_time(positions, kernel, maps.shape[3])
    area = positions[0] * positions[1]
    for start in range(0, len(maps), step):
        images = slice(start, start + step)
        rows = by_group[:, start * area : (start + step) * area]
        if needs[1]:
            columns = _unrolled(wide[images], kernel, stride, dilation, positions, groups)
            down_matrices += np.matmul(columns.transpose(0, 2, 1), rows)
        if down_wide is not None:
            _roll_back(np.matmul(rows, matrices), down_wide[images], kernel, stride, dilation, positions)
    down = down_weight = None
    if down_wide is not None:
        height, width = maps.shape[1:3]
        down = channels_first(down_wide[:, padding[0] : padding[0] + height, padding[1] : padding[1] + width])
    if needs[1]:
        shape = (groups, *kernel, each, out // groups)
        down_weight = np.ascontiguousarray(down_matrices.reshape(shape).transpose(0, 4, 3, 1, 2)).reshape(weight.shape)
    if len(needs) == 2:
        return down, down_weight
    return down, down_weight, column_sums(gradient_maps.reshape(-1, out)) if needs[2] else None


def _roll_back(columns: Array, maps: Array, kernel: Pair, stride: Pair, dilation: Pair, positions: Pair) -> None:
    """Add rows of windows to where their elements came from, one tap of the window at a time.

    ``columns`` is (groups, N * oh * ow, kh * kw * C / groups), ``maps`` is (N, H, W, C).
    """
    groups = len(columns)
    each = maps.shape[3] // groups
    windows = columns.reshape(groups, len(maps), *positions, kernel[0] * kernel[1], each)
    grouped = maps.reshape(*maps.shape[:3], groups, each)
    for tap, target in enumerate(taps(grouped, kernel, stride, dilation, positions)):
        target += windows[:, :, :, :, tap].transpose(1, 2, 3, 0, 4)


def least(dtype: np.dtype[Any]) -> Any:
    """Return what is below every other number of ``dtype``, which a maximum over nothing else is."""
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min if dtype.kind in "iu" else False


def _max_pool2d_forward(keep: bool, x: Array, *, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Array, Saved]:
    maps = channels_last(x)
    positions = output_positions(x.shape[2:], kernel, stride, padding)
    wide = padded(maps, padding, least(maps.dtype))
    first, *others = taps(wide, kernel, stride, (1, 1), positions)
    output = first.copy()
    for other in others:
        np.maximum(output, other, out=output)
    return channels_first(output), (wide, output, kernel, stride, padding) if keep else ()


def _max_pool2d_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Hand each gradient to the first element of its window that is the maximum."""
    wide, output, kernel, stride, padding = saved
    gradient_maps = channels_last(gradient)
    down = np.zeros_like(wide)
    positions: Pair = output.shape[1], output.shape[2]
    left = np.ones(output.shape, bool)
    sources = taps(wide, kernel, stride, (1, 1), positions)
    for source, target in zip(sources, taps(down, kernel, stride, (1, 1), positions), strict=True):
        hit = source == output
        hit &= left
        left ^= hit
        target += gradient_maps * hit
    height, width = wide.shape[1] - 2 * padding[0], wide.shape[2] - 2 * padding[1]
    return (channels_first(down[:, padding[0] : padding[0] + height, padding[1] : padding[1] + width]),)


def _avg_pool2d_forward(keep: bool, x: Array, *, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Array, Saved]:
    """Mean of each window; padded zeros count as elements."""
    maps = channels_last(as_floating(x))
    positions = output_positions(x.shape[2:], kernel, stride, padding)
    first, *others = taps(padded(widened(maps), padding), kernel, stride, (1, 1), positions)
    output = first.copy()
    for other in others:
        output += other
    output *= 1 / (kernel[0] * kernel[1])
    return channels_first(output.astype(maps.dtype, copy=False)), (maps.shape, kernel, stride, padding) if keep else ()


def _avg_pool2d_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    (count, height, width, channels), kernel, stride, padding = saved
    share = channels_last(gradient) * (1 / (kernel[0] * kernel[1]))
    down = np.zeros((count, height + 2 * padding[0], width + 2 * padding[1], channels), gradient.dtype)
    for target in taps(down, kernel, stride, (1, 1), (share.shape[1], share.shape[2])):
        target += share
    return (channels_first(down[:, padding[0] : padding[0] + height, padding[1] : padding[1] + width]),)


def _averaging(length: int, parts: int, dtype: np.dtype[np.floating]) -> Array:
    """Return the (parts, length) matrix whose rows average length / parts neighbours, overlapping if uneven."""
    index = np.arange(parts)
    first = index * length // parts
    last = -(-(index + 1) * length // parts)
    position = np.arange(length)
    inside = (position >= first[:, None]) & (position < last[:, None])
    return (inside / inside.sum(axis=1, keepdims=True)).astype(dtype)


def _adaptive_avg_pool2d_forward(keep: bool, x: Array, *, size: Pair) -> tuple[Array, Saved]:
    """Average (N, C, H, W) into ``size`` cells: a product with an averaging matrix along each axis."""
    maps = channels_last(as_floating(x))
    kept = widened(maps)
    rows = _averaging(x.shape[2], size[0], kept.dtype)
    columns = _averaging(x.shape[3], size[1], kept.dtype)
    means = _both_ways(kept, rows, columns).astype(maps.dtype, copy=False)
    return channels_first(means), (rows, columns) if keep else ()


def _adaptive_avg_pool2d_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    rows, columns = saved
    return (channels_first(_both_ways(channels_last(gradient), rows.T, columns.T)),)


def _both_ways(maps: Array, rows: Array, columns: Array) -> Array:
    """Return rows @ maps @ columns.T for each image and channel of (N, H, W, C)."""
    count, height, width, channels = maps.shape
    across = np.matmul(rows, maps.reshape(count, height, width * channels))
    return np.matmul(columns, across.reshape(count, len(rows), width, channels))


def _conv2d_macs(call: Call) -> int:
    """Return window times channels of a group, for each output; zeros of the padding are multiplied like the rest."""
    return call.output.size * math.prod(call.inputs[1].shape[1:])


def _pool_work(call: Call) -> Work:
    high, wide = call.params["kernel"]
    return Work(elementwise=call.output.size * high * wide)


def _adaptive_work(call: Call) -> Work:
    """One addition for each input element and one scaling for each output."""
    return Work(elementwise=call.inputs[0].size + call.output.size)


conv2d = Op("conv2d", _conv2d_forward, _conv2d_backward, contraction(_conv2d_macs, bias=2))
max_pool2d = Op("max_pool2d", _max_pool2d_forward, _max_pool2d_backward, _pool_work)
avg_pool2d = Op("avg_pool2d", _avg_pool2d_forward, _avg_pool2d_backward, _pool_work)
adaptive_avg_pool2d = Op(
    "adaptive_avg_pool2d", _adaptive_avg_pool2d_forward, _adaptive_avg_pool2d_backward, _adaptive_work
)
