"""Convolution as products of register tiles: windows are read where they lie, no matrix of them is made.

A depthwise convolution, each of whose groups has one channel in and out, would leave all columns of a tile but one
empty: it goes along the channels instead.

Each row of a tile is one position of the window, found through its offset. Source: M. Dukhan, The Indirect Convolution
Algorithm, arXiv:1907.02129.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Saved
from tinytorch.core.ops.elementwise import column_sums
from tinytorch.core.ops.spatial import Pair, channels_first, channels_last, output_positions
from tinytorch.perf.kernels.gemm.register_tiles import COLUMNS, LANES, ROWS, tile, transpose
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import FLOAT32, SMALL, records_of

_NAMES = (
    *("images", "height", "width", "channels"),  # of the source
    *("top", "left", "padded_height", "padded_width"),  # zeros before it, and its sizes with zeros around it
    *("grid_height", "grid_width"),  # positions of the window
    *("first_row", "first_column", "row_step", "column_step"),  # where the first is in the padded source, and distances
    *("groups", "each", "outs"),  # and channels of a group, in and out
    *("tap_rows", "tap_columns", "tap_row_step", "tap_column_step"),  # of the window, and their distance
    "chunk",  # images padded at a time
    *("target", "target_image", "target_row", "target_column"),  # where positions lie: the first, and distances
)
#: A plan of `correlate`, in elements and positions.
PLAN = np.dtype([(name, np.int64) for name in _NAMES])
plans_of = records_of(PLAN, "of_convolution")
SCRATCH = ROWS * COLUMNS


@kernel
def pad_images(padded: Any, maps: Any, first: Any, count: Any, plan: Any) -> None:
    """Copy ``count`` images from ``first`` on into the middle of their padded places; the borders stay."""
    row = plan.width * plan.channels
    wide = plan.padded_width * plan.channels
    for image in range(count):
        at = (image * plan.padded_height + plan.top) * wide + plan.left * plan.channels
        begin = (first + image) * plan.height * row
        for y in range(plan.height):
            padded[at + y * wide : at + y * wide + row] = maps[begin + y * row : begin + y * row + row]


@kernel
def locate(x_rows: Any, target_rows: Any, position: Any, last: Any, first: Any, plan: Any) -> None:
    """Find `ROWS` positions from ``position`` on in the padded images and in the target; ``last`` stands for more."""
    area = plan.grid_height * plan.grid_width
    image, rest = position // area, position % area
    y, x = rest // plan.grid_width, rest % plan.grid_width
    for row in range(ROWS):
        source_y = image * plan.padded_height + plan.first_row + y * plan.row_step
        source_x = plan.first_column + x * plan.column_step
        x_rows[row] = (source_y * plan.padded_width + source_x) * plan.channels
        target_rows[row] = (
            plan.target + (first + image) * plan.target_image + y * plan.target_row + x * plan.target_column
        )
        if position + row < last:
            x += 1
            if x == plan.grid_width:
                x, y = 0, y + 1
                if y == plan.grid_height:
                    y, image = 0, image + 1


@kernel
def correlate_channels(
    padded: Any, taps: Any, bias: Any, target: Any, x_rows: Any, target_rows: Any, rows: Any, plan: Any
) -> None:
    """Make each channel of the first ``rows`` positions from itself alone; ``taps`` is [tap][channel]."""
    channels = plan.channels
    wide = plan.padded_width * channels
    for row in range(rows):
        made = target[target_rows[row] : target_rows[row] + channels]
        for channel in range(channels):
            made[channel] = bias[channel]
        for i in range(plan.tap_rows):
            for j in range(plan.tap_columns):
                at = x_rows[row] + i * plan.tap_row_step * wide + j * plan.tap_column_step * channels
                first = (i * plan.tap_columns + j) * channels
                x, tap = padded[at : at + channels], taps[first : first + channels]
                for channel in range(channels):
                    made[channel] += x[channel] * tap[channel]


@kernel
def correlate_positions(
    padded: Any, panels: Any, bias: Any, target: Any, x_rows: Any, target_rows: Any, rows: Any, scratch: Any, plan: Any
) -> None:
    """Make all channels of the first ``rows`` of `ROWS` positions."""
    if plan.each == 1 and plan.outs == 1:
        correlate_channels(padded, panels, bias, target, x_rows, target_rows, rows, plan)
        return
    own_rows, block = scratch
    each, outs, channels = plan.each, plan.outs, plan.channels
    wide = plan.padded_width * channels
    taps = plan.tap_columns
    if plan.tap_column_step == 1 and plan.groups == 1:
        counts = (plan.tap_rows, 1, taps * each)
    else:
        counts = (plan.tap_rows, taps, each)
    steps = (plan.tap_row_step * wide, plan.tap_column_step * channels, 1)
    y_steps = (taps * each * COLUMNS, each * COLUMNS, COLUMNS)
    size = plan.tap_rows * taps * each * COLUMNS
    at = 0
    for group in range(plan.groups):
        begin = group * each
        for column in range(0, outs, COLUMNS):
            count, first = min(COLUMNS, outs - column), group * outs + column
            width = 1 if count <= LANES else 2
            if (
                count % LANES == 0
            ):  # whole vectors, where they belong: positions that stand for missing ones are made twice
                for row in range(rows):
                    for lane in range(count):
                        target[target_rows[row] + first + lane] = bias[first + lane]
                tile(width, 1, target, first, target_rows, padded, begin, x_rows, panels, at, counts, steps, y_steps)
            else:
                tile(width, 0, block, 0, own_rows, padded, begin, x_rows, panels, at, counts, steps, y_steps)
                for row in range(rows):
                    to = target_rows[row] + first
                    for lane in range(count):
                        target[to + lane] = block[row * COLUMNS + lane] + bias[first + lane]
            at += size


@kernel
def correlate(
    start: Any, stop: Any, shares: Any, maps: Any, panels: Any, bias: Any, target: Any, plans: Any, memory: Any
) -> None:
    """Correlate the images of shares ``start`` to ``stop`` of ``shares`` with a window of weights, and add ``bias``.

    ``maps`` and ``target`` are channels-last and flat, ``panels`` is what `pack_weights` or `pack_adjoint` made, and
    ``plans`` holds a `PLAN`.
    ``memory`` is (shares, chunk of padded images + `SCRATCH`).
    """
    plan = plans_of(plans)[0]
    area, chunk = plan.grid_height * plan.grid_width, plan.chunk
    x_rows, target_rows = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
    own_rows = np.arange(ROWS) * COLUMNS
    for share in range(start, stop):
        block, padded = memory[share][:SCRATCH], memory[share][SCRATCH:]
        padded[:] = 0
        first, end = share * plan.images // shares, (share + 1) * plan.images // shares
        for image in range(first, end, chunk):
            count = min(chunk, end - image)
            pad_images(padded, maps, image, count, plan)
            for position in range(0, count * area, ROWS):
                rows = min(ROWS, count * area - position)
                locate(x_rows, target_rows, position, count * area - 1, image, plan)
                correlate_positions(padded, panels, bias, target, x_rows, target_rows, rows, (own_rows, block), plan)


@kernel
def panel_floats(reduction: Any, outs: Any) -> Any:
    """Return the floats of the panels of a group: ``reduction`` rows of `COLUMNS` for each, and a place to discard."""
    return (outs + COLUMNS - 1) // COLUMNS * reduction * COLUMNS


@kernel
def pack_weights(panels: Any, weight: Any, groups: Any, outs: Any, each: Any, taps: Any) -> None:
    """Write weights (groups * outs, each, taps) as [group][panel][tap][channel][column], columns being outputs.

    ``panels`` has `LANES` floats more than that, into which missing columns go. Of a depthwise convolution they are
    written as [tap][group].
    """
    if outs == 1 and each == 1:
        for group in range(groups):
            for tap in range(taps):
                panels[tap * groups + group] = weight[group * taps + tap]
        return
    reduction = each * taps
    size = panel_floats(reduction, outs)
    places = np.empty(LANES, np.int64)
    nowhere = groups * size
    for group in range(groups):
        for first in range(0, reduction, LANES):
            for out in range(0, outs, LANES):
                at = group * size + out // COLUMNS * reduction * COLUMNS + out % COLUMNS
                for lane in range(LANES):
                    channel, tap = (first + lane) // taps, (first + lane) % taps
                    places[lane] = (tap * each + channel) * COLUMNS if first + lane < reduction else nowhere - at
                begin = (group * outs + out) * reduction + first
                transpose(panels, at, places, weight, begin, reduction, outs - out, reduction - first)


@kernel
def pack_adjoint(
    panels: Any, weight: Any, groups: Any, outs: Any, each: Any, taps: Any, order: Any, chosen: Any
) -> None:
    """Write weights (groups * outs, each, taps) as [group][panel][chosen tap][output][column], columns being inputs.

    ``order`` holds the number that each tap has among the ``chosen`` ones, or -1. ``panels`` has `LANES` floats more,
    into which all others go. Of a depthwise convolution they are written as [chosen tap][group].
    """
    if outs == 1 and each == 1:
        for group in range(groups):
            for tap in range(taps):
                if order[tap] >= 0:
                    panels[order[tap] * groups + group] = weight[group * taps + tap]
        return
    reduction = chosen * outs
    size = panel_floats(reduction, each)
    places = np.empty(LANES, np.int64)
    nowhere = groups * size
    for group in range(groups):
        for channel in range(0, each, LANES):
            at = group * size + channel // COLUMNS * reduction * COLUMNS + channel % COLUMNS
            for first in range(0, taps, LANES):
                for out in range(outs):
                    for lane in range(LANES):
                        number = order[first + lane] if first + lane < taps else -1
                        places[lane] = (number * outs + out) * COLUMNS if number >= 0 else nowhere - at
                    begin = ((group * outs + out) * each + channel) * taps + first
                    transpose(panels, at, places, weight, begin, taps, each - channel, taps - first)


@kernel
def sum_weights(
    start: Any, stop: Any, shares: Any, maps: Any, gradient: Any, down: Any, plans: Any, memory: Any
) -> None:
    """Fill the weights' gradient (groups * outs, each, taps), flat, in the rows of shares ``start`` to ``stop``.

    ``gradient`` is channels-last and flat, with `COLUMNS` floats behind it that are read and not used. ``memory`` is
    (shares, sums [row][column] of a group's tiles + chunk of padded images).
    """
    plan = plans_of(plans)[0]
    each, outs, channels = plan.each, plan.outs, plan.channels
    taps = plan.tap_rows * plan.tap_columns
    reduction = each * taps
    wide = (outs + COLUMNS - 1) // COLUMNS * COLUMNS
    tiles = (reduction + ROWS - 1) // ROWS
    out = plan.groups * outs
    area = plan.grid_height * plan.grid_width
    row = plan.padded_width * channels
    x_rows, own_rows = np.empty(ROWS, np.int64), np.arange(ROWS) * wide
    steps = (plan.padded_height * row, plan.row_step * row, plan.column_step * channels)
    y_steps = (area * out, plan.grid_width * out, out)
    for share in range(start, stop):
        first, end = share * tiles // shares, (share + 1) * tiles // shares
        room = (tiles + shares - 1) // shares * ROWS * wide
        sums, padded = memory[share][: plan.groups * room], memory[share][plan.groups * room :]
        sums[:], padded[:] = 0, 0
        for image in range(0, plan.images, plan.chunk):
            count = min(plan.chunk, plan.images - image)
            pad_images(padded, maps, image, count, plan)
            counts = (count, plan.grid_height, plan.grid_width)
            for group in range(plan.groups):
                for number in range(first, end):
                    for lane in range(ROWS):
                        place = min(number * ROWS + lane, reduction - 1)
                        channel, tap = place // taps, place % taps
                        y = tap // plan.tap_columns * plan.tap_row_step
                        x = tap % plan.tap_columns * plan.tap_column_step
                        x_rows[lane] = y * row + x * channels + group * each + channel
                    for column in range(0, outs, COLUMNS):
                        at = group * room + (number - first) * ROWS * wide + column
                        y_at = image * area * out + group * outs + column
                        width = 1 if outs - column <= LANES else 2
                        tile(width, 1, sums, at, own_rows, padded, 0, x_rows, gradient, y_at, counts, steps, y_steps)
        for group in range(plan.groups):
            write_weights(down, sums, group * room, wide, group, first * ROWS, min(end * ROWS, reduction), plan)


@kernel
def write_weights(down: Any, sums: Any, at: Any, wide: Any, group: Any, first: Any, end: Any, plan: Any) -> None:
    """Write sums [row][output], whose first row is ``first``, as rows of outputs."""
    outs = plan.outs
    reduction = plan.each * plan.tap_rows * plan.tap_columns
    places = np.arange(LANES) * reduction
    whole = (end - first) // LANES * LANES if outs % LANES == 0 else 0
    for row in range(0, whole, LANES):
        for out in range(0, outs, LANES):
            into = (group * outs + out) * reduction + first + row
            transpose(down, into, places, sums, at + row * wide + out, wide, LANES, LANES)
    for row in range(whole, end - first):
        for out in range(outs):
            down[(group * outs + out) * reduction + first + row] = sums[at + row * wide + out]


#: Floats of padded images that are held at a time: with their weights they stay in a second cache.
_CHUNK = 65_536
#: About how long a multiply-accumulate takes, in nanoseconds.
_NS = 0.009


class Geometry(NamedTuple):
    """Geometry of a convolution's loops: shapes of channels-last maps and of weights, and how the window moves."""

    maps: tuple[int, ...]
    weight: tuple[int, ...]
    positions: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one pass."""
        return self.maps[0] * math.prod(self.positions) * math.prod(self.weight)


class Pass(NamedTuple):
    """One run of `correlate`: its plan, the floats of padded images, and for the adjoint its taps (number or -1)."""

    plan: Array
    padded: int
    order: Array
    chosen: int


def _chunk(images: int, floats: int) -> int:
    return max(1, min(images, _CHUNK // max(floats, 1)))


@lru_cache(maxsize=256)
def forward_pass(geometry: Geometry) -> Pass:
    """Return the one pass of a forward."""
    images, height, width, channels = geometry.maps
    out, each, high, wide = geometry.weight
    rows, columns = geometry.positions
    (top, left), (far_down, far_right) = geometry.padding, geometry.dilation
    padded = height + 2 * top, width + 2 * left
    floats = padded[0] * padded[1] * channels
    chunk = _chunk(images, floats)
    source = (images, height, width, channels, top, left, *padded)
    grid = (rows, columns, 0, 0, *geometry.stride)
    window = (geometry.groups, each, out // geometry.groups, high, wide, far_down, far_right, chunk)
    target = (0, rows * columns * out, columns * out, out)
    return Pass(
        np.array([(*source, *grid, *window, *target)], PLAN).view(np.int64), chunk * floats, np.empty(0, np.int64), 0
    )


def _axis_taps(length: int, taps: int, stride: int, padding: int, dilation: int, phase: int) -> tuple[int, ...]:
    """Return, for input positions ``phase``, ``phase`` + stride, ..., what meets them along one axis.

    That is the first tap, the distance of two, how many there are, the output position that meets the first tap at the
    first input, by how much that falls from tap to tap, and how many inputs there are.
    """
    meeting = [tap for tap in range(taps) if (phase + padding - tap * dilation) % stride == 0]
    count = len(range(phase, length, stride))
    if not meeting:
        return 0, 1, 0, 0, 0, count
    distance = meeting[1] - meeting[0] if len(meeting) > 1 else 1
    first = (phase + padding - meeting[0] * dilation) // stride
    return meeting[0], distance, len(meeting), first, distance * dilation // stride, count


@lru_cache(maxsize=256)
def _adjoint_passes(geometry: Geometry) -> tuple[Pass, ...]:
    """Return the passes over the output's gradient that make the images': one for each phase of the stride."""
    images, height, width, channels = geometry.maps
    out, each, high, wide = geometry.weight
    rows, columns = geometry.positions
    edges = []
    for axis, length in enumerate((height, width)):
        reach = (geometry.weight[2 + axis] - 1) * geometry.dilation[axis] - geometry.padding[axis]
        before = max(0, reach // geometry.stride[axis])
        last = (length - 1 + geometry.padding[axis]) // geometry.stride[axis]
        edges.append((before, before + max(last + 1, geometry.positions[axis])))
    (top, padded_rows), (left, padded_columns) = edges
    floats = padded_rows * padded_columns * out
    chunk = _chunk(images, floats)
    passes = []
    for phase in np.ndindex(*geometry.stride):
        axes = zip((height, width), (high, wide), *geometry[3:6], phase, strict=True)
        down, right = (_axis_taps(*axis) for axis in axes)
        chosen = down[2] * right[2]
        if not chosen or not down[5] or not right[5]:
            continue
        order = np.full((high, wide), -1, np.int64)
        order[down[0] :: down[1], right[0] :: right[1]][: down[2], : right[2]] = np.arange(chosen).reshape(down[2], -1)
        source = (images, rows, columns, out, top, left, padded_rows, padded_columns)
        grid = (down[5], right[5], top + down[3], left + right[3], 1, 1)
        window = (geometry.groups, out // geometry.groups, each, down[2], right[2], -down[4], -right[4], chunk)
        first = (phase[0] * width + phase[1]) * channels
        steps = (height * width * channels, geometry.stride[0] * width * channels, geometry.stride[1] * channels)
        plan = np.array([(*source, *grid, *window, first, *steps)], PLAN).view(np.int64)
        passes.append(Pass(plan, chunk * floats, order.reshape(-1), chosen))
    return tuple(passes)


def _shares(items: int, macs: int) -> tuple[int, float]:
    """Return into how many shares to cut the work, and the nanoseconds of each."""
    ns = macs * _NS
    shares = threads.shares(items, ns)
    return shares, ns / shares


def _correlated(one: Pass, macs: int, maps: Array, panels: Array, bias: Array, target: Array) -> None:
    ns = macs * _NS
    shares = threads.shares(len(maps), ns) if ns > threads.WORTH_A_THREAD_NS else 1
    memory = np.empty((shares, SCRATCH + one.padded), np.float32)
    threads.split(
        correlate, shares, ns / shares, shares, maps.reshape(-1), panels, bias, target.reshape(-1), one.plan, memory
    )


def weight_panels(groups: int, reduction: int, columns: int) -> Array:
    """Return room for packed weights; missing columns of the last panels are read but not used."""
    return np.empty(groups * -(-columns // COLUMNS) * reduction * COLUMNS + LANES, np.float32)


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
    """Cross-correlate (N, C, H, W) with (O, C / groups, kh, kw)."""
    others = (weight,) if bias is None else (weight, bias)
    fits = x.ndim == weight.ndim == 4 and (bias is None or bias.shape == weight.shape[:1])
    fits = fits and x.shape[1] == weight.shape[1] * groups and not weight.shape[0] % groups
    # Of maps one behind the other a tap alone is one product, which BLAS does sooner than we turn their axes.
    is_product = weight.shape[2:] == (1, 1) == stride and padding == (0, 0) and groups == 1 and x.flags.c_contiguous
    # So it is with single maps, unless they are small, and with few outputs unless there is a backward to gain by.
    is_thin = groups == 1 and x.size > SMALL and (x.shape[1] == 1 or (not keep and weight.shape[0] < LANES))
    if not fits or not x.size or is_product or is_thin or not x.dtype == weight.dtype == others[-1].dtype == FLOAT32:
        return ops.conv2d.reference.forward(
            keep, x, *others, stride=stride, padding=padding, dilation=dilation, groups=groups
        )
    positions = output_positions(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    maps, weight = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(weight)
    geometry = Geometry(maps.shape, weight.shape, positions, stride, padding, dilation, groups)
    out, each, high, wide = weight.shape
    panels = weight_panels(groups, each * high * wide, out // groups)
    pack_weights(panels, weight.reshape(-1), groups, out // groups, each, high * wide)
    output = np.empty((len(maps), *positions, out), np.float32)
    added = np.zeros(out, np.float32) if bias is None else np.ascontiguousarray(bias)
    _correlated(forward_pass(geometry), geometry.macs, maps, panels, added, output)
    return output.transpose(0, 3, 1, 2), (geometry, maps, weight) if keep else ()


def _conv2d_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if len(saved) != 3:
        return ops.conv2d.reference.backward(gradient, saved, needs, owned)
    geometry, maps, weight = saved
    gradient_maps = channels_last(np.asarray(gradient, np.float32))
    down = None
    if needs[0] and not math.isfinite(np.vdot(weight, weight)):
        # Zeros around the gradient would turn infinite weights into NaN where no window has met them.
        plain = maps, weight, geometry.stride, geometry.padding, geometry.dilation, geometry.groups
        down = ops.conv2d.reference.backward(gradient, plain, (True, False), owned)[0]
    elif needs[0]:
        down = _image_gradient(geometry, weight, gradient_maps)
    down_weight = _weight_gradient(geometry, maps, gradient_maps) if needs[1] else None
    if len(needs) == 2:
        return down, down_weight
    rows = gradient_maps.reshape(-1, geometry.weight[0])
    return down, down_weight, column_sums(rows) if needs[2] else None


def _image_gradient(geometry: Geometry, weight: Array, gradient: Array) -> Array:
    """Return the gradient (N, C, H, W) of the images: correlations of the output's gradient."""
    out, each, high, wide = weight.shape
    groups = geometry.groups
    passes = _adjoint_passes(geometry)
    # Between the positions of a stride some inputs may meet no tap.
    down = np.zeros(geometry.maps, np.float32) if geometry.stride != (1, 1) else np.empty(geometry.maps, np.float32)
    nothing = np.zeros(geometry.maps[3], np.float32)
    for one in passes:
        panels = weight_panels(groups, one.chosen * (out // groups), each)
        pack_adjoint(panels, weight.reshape(-1), groups, out // groups, each, high * wide, one.order, one.chosen)
        _correlated(one, geometry.macs // len(passes), gradient, panels, nothing, down)
    return channels_first(down)


def _weight_gradient(geometry: Geometry, maps: Array, gradient: Array) -> Array:
    """Return the gradient (O, C / groups, kh, kw) of the weights."""
    one = forward_pass(geometry)
    out, each, high, wide = geometry.weight
    outs = out // geometry.groups
    if outs % LANES:
        behind = np.empty(gradient.size + COLUMNS, np.float32)
        behind[: gradient.size] = gradient.reshape(-1)
        behind[gradient.size :] = 0
        gradient = behind
    tiles = -(-each * high * wide // ROWS)
    shares, ns = _shares(tiles, geometry.macs)
    sums = geometry.groups * -(-tiles // shares) * ROWS * -(-outs // COLUMNS) * COLUMNS
    memory = np.empty((shares, sums + one.padded), np.float32)
    down = np.empty(geometry.weight, np.float32)
    arguments: tuple[Any, ...] = (maps.reshape(-1), gradient.reshape(-1), down.reshape(-1), one.plan, memory)
    threads.split(sum_weights, shares, ns, shares, *arguments)
    return down


IMPLEMENTATIONS = {ops.conv2d: Implementation("numba", _conv2d_forward, _conv2d_backward)}
