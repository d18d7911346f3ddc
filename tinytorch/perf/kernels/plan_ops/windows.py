"""Windows of convolutions: which places of the maps a tile reads, and the register tile that reads them."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from tinytorch.core.op import Array
from tinytorch.core.ops.spatial import Pair
from tinytorch.perf.kernels.gemm.register_tiles import INT64, LANES, VECTOR, TileStep, add_up
from tinytorch.perf.kernels.gemm.register_tiles import ROWS as PRODUCT_ROWS
from tinytorch.perf.kernels.runtime import vectors

#: Positions of a tile. AVX2 has two sums a cycle that take four: 8 accumulators, of 4 positions, are just as many as
#: have to be under way, so that each wait shows; 12 and what they are made of fill its 16 registers.
ROWS = 6 if LANES == 8 and "avx2" in vectors.cpu_features() else PRODUCT_ROWS
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


def _between(builder: Any, value: Any, ends: list[Any]) -> Any:
    """Return a vector with what is below or above two ``ends`` at them; NaN is neither."""
    for sign, end in zip("<>", ends, strict=True):
        value = builder.select(builder.fcmp_ordered(sign, value, end), end, value)
    return value


@vectors.emitted(constants=((2, 1),))
def window_tile(
    builder: Any, wide: int, ends: Any, into: Any, at: Any, maps: Any, panels: Any, added: Any, table: Any, sizes: Any
) -> None:
    """Convolve `ROWS` positions for ``wide`` (1 or 2) vectors of `LANES` output channels from ``at`` on.

    With (places, entries, taps, channels) = ``sizes`` it makes

        into[at + p[m] + n] = added[at + n] + sum over t < taps, c < channels of
            maps[e[t, 1 + m] + c] * panels[(e[t, 0] channels + c) wide LANES + n],

    where p are the `ROWS` numbers of ``table`` from ``places`` on, and e its lines of `ENTRY` numbers from ``entries``
    on; none is stored below or above the two ``ends``. Arrays are flat, float32 but for ``table`` of int64.
    """
    place, entry, count, each = sizes
    into = builder.gep(into, [at])
    parts = [INT64(part * LANES) for part in range(wide)]
    begin = [vectors.load(builder, added, builder.add(at, part), VECTOR) for part in parts]

    def sweep(step: TileStep) -> None:
        with cgutils.for_range(builder, count, intp=INT64) as turn:
            line = builder.add(entry, builder.mul(turn.index, INT64(ENTRY)))
            tap, *offsets = _numbers(builder, table, line, ENTRY)
            rows = [builder.gep(maps, [offset]) for offset in offsets]
            weights = builder.gep(panels, [builder.mul(tap, builder.mul(each, INT64(wide * LANES)))])
            with cgutils.for_range(builder, each, intp=INT64) as channel:
                here = builder.gep(weights, [builder.mul(channel.index, INT64(wide * LANES))])
                step([builder.gep(row, [channel.index]) for row in rows], here)

    made = add_up(builder, (ROWS, wide, VECTOR), sweep, begin * ROWS)
    ends = [vectors.filled(builder, end, VECTOR) for end in ends]
    rows = _numbers(builder, table, place, ROWS)
    for value, (row, part) in zip(made, itertools.product(rows, parts), strict=True):
        vectors.store(builder, _between(builder, value, ends), into, builder.add(row, part))


#: What a walk over windows of one channel makes of them.
PRODUCTS, MEANS, MAXIMA = range(3)
#: Windows side by side that `channels_tile` makes at a time.
ACROSS = 4


@vectors.emitted(constants=((MAXIMA, MEANS, PRODUCTS), (ACROSS, 1)))
def channels_tile(
    builder: Any, made: int, wide: int, places: Any, ends: Any, taps: Any, steps: Any, channels: Any
) -> None:
    """Make ``wide`` windows of (rows, columns) ``taps``, each of ``channels``, a multiple of `LANES`, by itself.

    ``places`` are the addresses of float32 x, target, weight and first, ``steps`` those of rows, columns, windows and
    rows of the weight, in floats. For `PRODUCTS` it makes

        target[channels n + c] = first[c] + sum over i < rows, j < columns of
            x[window_step n + row_step i + column_step j + c] * weight[weight_step i + channels j + c]

    between the two ``ends``; for `MEANS` the sum of x alone times the second end; for `MAXIMA` the largest x, or the
    first end if that is larger.
    """
    maps, into, weights, begin = vectors.float_pointers(builder, *places)
    (count, width), (down, right, further, weights_down) = taps, steps
    ends = [vectors.filled(builder, end, VECTOR) for end in ends]
    nexts = [builder.mul(further, INT64(number)) for number in range(wide)]
    sums = vectors.variables(builder, VECTOR, wide)
    with cgutils.for_range_slice(builder, INT64(0), channels, INT64(LANES), INT64) as (channel, _):
        start = ends[0] if made != PRODUCTS else vectors.load(builder, begin, channel, VECTOR)
        start = ir.Constant(VECTOR, None) if made == MEANS else start
        for total in sums:
            builder.store(start, total)
        with cgutils.for_range(builder, count, intp=INT64) as down_turn:
            here = builder.add(builder.mul(down_turn.index, down), channel)
            there = builder.add(builder.mul(down_turn.index, weights_down), channel)
            with cgutils.for_range(builder, width, intp=INT64) as turn:
                at = builder.add(here, builder.mul(turn.index, right))
                factor = None
                if made == PRODUCTS:
                    place = builder.add(there, builder.mul(turn.index, channels))
                    factor = vectors.load(builder, weights, place, VECTOR)
                for step, total in zip(nexts, sums, strict=True):
                    value = vectors.load(builder, maps, builder.add(at, step), VECTOR)
                    before = builder.load(total)
                    if factor is not None:
                        now = vectors.fused_multiply_add(builder, value, factor, before)
                    elif made == MEANS:
                        now = builder.fadd(before, value)
                    else:  # NaN is taken, and stays
                        above = builder.fcmp_ordered(">", value, before)
                        above = builder.or_(above, builder.fcmp_unordered("uno", value, value))
                        now = builder.select(above, value, before)
                    builder.store(now, total)
        for number, total in enumerate(sums):
            value = builder.load(total)
            if made == PRODUCTS:
                value = _between(builder, value, ends)
            elif made == MEANS:
                value = builder.fmul(value, ends[1])
            vectors.store(builder, value, into, builder.add(channel, builder.mul(channels, INT64(number))))
