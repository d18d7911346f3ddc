"""Which places of the maps each tile of a convolution reads: padding is left out, or read from a place of zeros."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tinytorch.core.op import Array
from tinytorch.core.ops.layout import Pair
from tinytorch.perf.kernels.gemm.register_tiles import ROWS
from tinytorch.perf.kernels.window_tiles import ENTRY

#: A line for each tile: its first entry, how many it has, and where its positions lie in the target.
LINE = 2 + ROWS


class Window(NamedTuple):
    """How a window moves over a map: sizes of map and window, positions, and what is between positions and taps."""

    size: Pair
    kernel: Pair
    positions: Pair
    stride: Pair
    padding: Pair
    dilation: Pair


@lru_cache(maxsize=128)
def tiles_of(window: Window, images: int, steps: tuple[int, int], zeros: int) -> tuple[Array, Array]:
    """Return lines (tiles, `LINE`) and entries (taps of all tiles, `ENTRY`) of a window on ``images`` maps.

    Positions with the same taps inside the map come together, so that few tiles multiply with padding. ``steps`` are
    the floats from pixel to pixel in source and target; the source begins with ``zeros`` zeros, which stand for what
    is outside of the map.
    """
    sources, inside = _meetings(window, images, steps[0], zeros)
    raster = np.arange(len(sources))
    classes = np.unique(inside, axis=0, return_inverse=True)[1].reshape(-1)
    orders = [raster, np.argsort(classes, kind="stable")]
    whole = -(-len(raster) // ROWS) * ROWS
    # The last tile is filled up with its last position, which is then made more than once.
    orders = [np.append(order, np.repeat(order[-1:], whole - len(order))) for order in orders]
    used = [inside[order].reshape(-1, ROWS, inside.shape[1]).any(axis=1) for order in orders]
    best = int(used[1].sum() < used[0].sum())
    order, met = orders[best], used[best]
    tile, tap = np.nonzero(met)
    entries = np.empty((len(tile), ENTRY), np.int64)
    entries[:, 0] = tap
    entries[:, 1:] = sources[order].reshape(-1, ROWS, inside.shape[1])[tile, :, tap]
    lines = np.empty((len(met), LINE), np.int64)
    counts = met.sum(axis=1)
    lines[:, 0] = (np.cumsum(counts) - counts) * ENTRY
    lines[:, 1] = counts
    lines[:, 2:] = order.reshape(-1, ROWS) * steps[1]
    return lines, entries


def _meetings(window: Window, images: int, step: int, zeros: int) -> tuple[Array, Array]:
    """Return, for each position and tap, the source's element, and whether it is inside; outside it is 0."""
    (height, width), (rows, columns), (high, wide) = window.size, window.positions, window.kernel
    image, y, x, i, j = np.ogrid[:images, :rows, :columns, :high, :wide]
    y = y * window.stride[0] - window.padding[0] + i * window.dilation[0]
    x = x * window.stride[1] - window.padding[1] + j * window.dilation[1]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    inside = np.broadcast_to(inside, (images, *inside.shape[1:]))
    sources = np.where(inside, zeros + ((image * height + y) * width + x) * step, 0)
    shape = (images * rows * columns, high * wide)
    return sources.reshape(shape), inside.reshape(shape)
