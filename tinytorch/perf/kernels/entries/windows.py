"""Windows of convolutions: which places of the maps a tile reads, and the register tile that reads them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytorch.core.op import Array
from tinytorch.core.ops.spatial import Pair
from tinytorch.perf.kernels.gemm.register_tiles import INT64, LANES, ROWS, VECTOR
from tinytorch.perf.kernels.runtime import vectors

#: A line for each tile: its first entry, how many it has, and where its positions lie in the target.
LINE = 2 + ROWS


class Window(NamedTuple):
    """Window over a map: sizes of both, positions, and what is between positions and taps."""

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


#: Numbers of an entry of `window_tile`: the tap, and where it meets each row's map.
ENTRY = 1 + ROWS


def _numbers(builder: Any, data: Any, at: Any, count: int) -> list[Any]:
    """Return ``count`` int64 from element ``at`` on."""
    return [builder.load(builder.gep(data, [builder.add(at, INT64(number))])) for number in range(count)]


def _window_tile(
    _typing: Any,
    across: Any,
    relu: Any,
    target: Any,
    column: Any,
    x: Any,
    x_at: Any,
    panel: Any,
    bias: Any,
    tables: Any,
    places: Any,
    entries: Any,
    taps: Any,
    channels: Any,
) -> Any:
    """Type and emit `window_tile`."""
    del relu
    if not isinstance(across, types.IntegerLiteral):
        return None
    wide = across.literal_value

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        into, maps, panels, added, table = (
            vectors.data_pointer(context, builder, kinds[i], arguments[i]) for i in (2, 4, 6, 7, 8)
        )
        _, positive, _, first, _, origin, _, _, _, place, entry, count, each = arguments
        into, maps = builder.gep(into, [first]), builder.gep(maps, [origin])
        parts = [INT64(part * LANES) for part in range(wide)]
        sums = [vectors.variables(builder, VECTOR, wide) for _ in range(ROWS)]
        for slots in sums:
            for slot, part in zip(slots, parts, strict=True):
                builder.store(vectors.load(builder, added, builder.add(first, part), VECTOR), slot)
        with cgutils.for_range(builder, count, intp=INT64) as turn:
            at = builder.add(entry, builder.mul(turn.index, INT64(ENTRY)))
            tap, *offsets = _numbers(builder, table, at, ENTRY)
            rows = [builder.gep(maps, [offset]) for offset in offsets]
            weights = builder.gep(panels, [builder.mul(tap, builder.mul(each, INT64(wide * LANES)))])
            with cgutils.for_range(builder, each, intp=INT64) as step:
                here = builder.mul(step.index, INT64(wide * LANES))
                columns = [vectors.load(builder, weights, builder.add(here, part), VECTOR) for part in parts]
                for row, slots in zip(rows, sums, strict=True):
                    factor = vectors.filled(builder, builder.load(builder.gep(row, [step.index])), VECTOR)
                    for slot, values in zip(slots, columns, strict=True):
                        builder.store(vectors.fused_multiply_add(builder, factor, values, builder.load(slot)), slot)
        # Without ReLU nothing lies below the least number, and NaN is below none.
        zero, lowest = (ir.Constant(vectors.FLOAT, value) for value in (0.0, float("-inf")))
        least = vectors.filled(builder, builder.select(builder.trunc(positive, ir.IntType(1)), zero, lowest), VECTOR)
        for row, slots in zip(_numbers(builder, table, place, ROWS), sums, strict=True):
            for slot, part in zip(slots, parts, strict=True):
                value = builder.load(slot)
                value = builder.select(builder.fcmp_ordered("<", value, least), least, value)
                vectors.store(builder, value, into, builder.add(row, part))
        return context.get_dummy_value()

    arguments = (across, types.int64, target, column, x, x_at, panel, bias, tables, places, entries, taps, channels)
    return types.void(*arguments), emit


#: ``window_tile(across, relu, target, column, x, x_at, panel, bias, tables, places, entries, taps, channels)``: `ROWS`
#: positions and ``across`` (1 or 2) vectors of `LANES` output channels from ``column`` on,
#:
#:     target[column + p[m] + n] = bias[column + n] + sum over t < taps, c < channels of
#:         x[x_at + e[t, 1 + m] + c] * panel[(e[t, 0] channels + c) across LANES + n],
#:
#: where p are the `ROWS` numbers of ``tables`` from ``places`` on, and e the lines of `ENTRY` numbers from ``entries``
#: on; what is below 0 is stored as 0 if ``relu`` is 1. Arrays are flat, float32 but for ``tables`` of int64.
window_tile = intrinsic(prefer_literal=True)(_window_tile)
