"""Image layout: shapes are (N, C, H, W), memory is channels-last, so that a pixel's channels are neighbours.

Convolution, pooling and batch normalization make their results in this layout, and a chain of them never
copies to change it.
"""

from __future__ import annotations

import numpy as np

from tinytorch.core.op import Array, Shape

Pair = tuple[int, int]


def channels_last(x: Array) -> Array:
    """Return (N, C, H, W) as contiguous (N, H, W, C): a view where the memory is channels-last already."""
    if x.ndim != 4:
        raise ValueError(f"image ops need an input of shape (N, C, H, W), not {x.shape}")
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def channels_first(maps: Array) -> Array:
    """Return contiguous (N, H, W, C) as a view of shape (N, C, H, W)."""
    return maps.transpose(0, 3, 1, 2)


def padded(maps: Array, padding: tuple[int, int], value: float = 0.0) -> Array:
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
