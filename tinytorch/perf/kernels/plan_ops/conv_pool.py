"""Entry points of ops on images: convolution with what follows it, pooling, and normalization by channel.

Maps lie channels last, a pixel's channels filled up to whole vectors where a convolution made them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Shape
from tinytorch.core.ops.spatial import output_positions
from tinytorch.perf.kernels.convolution import (
    PLAN,
    SCRATCH,
    Geometry,
    correlate,
    forward_pass,
    pack_weights,
    weight_panels,
)
from tinytorch.perf.kernels.gemm.register_tiles import COLUMNS, LANES
from tinytorch.perf.kernels.normalization import folded, scale_share
from tinytorch.perf.kernels.plan_ops.binding import Binder, RecordedOp, View, aligned, constant_of, filled_up
from tinytorch.perf.kernels.plan_ops.driver import Entry, entry_of, part
from tinytorch.perf.kernels.plan_ops.windows import (
    ACROSS,
    LINE,
    MAXIMA,
    MEANS,
    PRODUCTS,
    Window,
    channels_tile,
    tiles_of,
    window_tile,
)
from tinytorch.perf.kernels.pooling import NO_PAIR, mean_share
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import floats_at, maps_at, matrix_at, words_at

#: Numbers of the largest table of tiles: beyond, windows are found as they come.
_MOST_NUMBERS = 1 << 21
#: Channels up to which a convolution's taps that lie side by side are taken as one.
_FEW = 16
_ZERO = np.float32(0)
_PLAN_WORDS = PLAN.itemsize // 8


@kernel
def reach(position: Any, stride: Any, padding: Any, dilation: Any, length: Any, taps: Any) -> Any:
    """Return where a window begins along one axis, the first of its taps inside of the map, and the one after those."""
    begin = position * stride - padding
    return begin, (max(-begin, 0) + dilation - 1) // dilation, min(taps, (length - begin + dilation - 1) // dilation)


def _convolve_windows(w: Any) -> None:
    low, high = np.float32(w.low), np.float32(w.high)
    floats_at(w.source, w.zeros)[:] = _ZERO
    source, into, bias = floats_at(w.source, 1 << 40), floats_at(w.target, 1 << 40), floats_at(w.bias, w.filled)
    tables, behind = words_at(w.lines, 1 << 40), (w.entries - w.lines) // 8
    panels = (w.filled + COLUMNS - 1) // COLUMNS
    first, last = part(w, w.tiles)
    for panel in range(panels):
        # Widths differ by one vector at most, as in `panels.panel_bounds`.
        column = panel * (w.filled // LANES) // panels * LANES
        wide = (panel + 1) * (w.filled // LANES) // panels * LANES - column
        packed = floats_at(w.panels + 4 * w.taps * w.channels * column, 1 << 40)
        for number in range(first, last):
            at = number * LINE
            sizes = at + 2, behind + tables[at], tables[at + 1], w.channels
            window_tile(wide // LANES, (low, high), into, column, source, packed, bias, tables, sizes)


def _convolve(w: Any) -> None:
    target, low, high = floats_at(w.target, w.size), np.float32(w.low), np.float32(w.high)
    maps, panels, plan = floats_at(w.maps, 1 << 40), floats_at(w.panels, 1 << 40), words_at(w.plan, _PLAN_WORDS)
    correlate(0, 1, 1, maps, panels, floats_at(w.bias, w.channels), target, plan, matrix_at(w.scratch, 1, w.floats))
    if low > -math.inf or high < math.inf:
        for i in range(target.size):
            target[i] = low if target[i] < low else high if target[i] > high else target[i]


def _by_channel(kind: int, name: str) -> Entry:
    """Return the entry that walks windows with each channel by itself, in places of which neighbours lie in a row.

    The pixel's floats are ``pixel`` in the source and ``filled`` in the target; see `windows.channels_tile`.
    """

    def by_channel(w: Any) -> None:
        ends, pixel, filled = (np.float32(w.low), np.float32(w.high)), w.pixel, w.filled
        width, columns, taps, down = w.width, w.columns, w.tap_columns, w.width * w.pixel
        steps = w.dilation_y * down, w.dilation_x * pixel, w.stride_x * pixel, taps * filled
        first, last = part(w, w.images * w.rows)
        for line in range(first, last):
            y, top, bottom = reach(line % w.rows, w.stride_y, w.padding_y, w.dilation_y, w.height, w.tap_rows)
            lines = w.source + 4 * (line // w.rows * w.height + y + top * w.dilation_y) * down
            weights = w.weights + 4 * top * taps * filled
            column = 0
            while column < columns:
                x, left, stop = reach(column, w.stride_x, w.padding_x, w.dilation_x, width, taps)
                _, after, end = reach(column + ACROSS - 1, w.stride_x, w.padding_x, w.dilation_x, width, taps)
                source = lines + 4 * (x + left * w.dilation_x) * pixel
                target = w.target + 4 * (line * columns + column) * filled
                places = source, target, weights + 4 * left * filled, w.bias
                is_inside = left == after == 0 and stop == end == taps and column + ACROSS <= columns
                count = ACROSS if is_inside else 1
                channels_tile(kind, count, places, ends, (bottom - top, stop - left), steps, filled)
                column += count

    words = "source target weights bias images height width rows columns tap_rows tap_columns"
    steps = "stride_y stride_x padding_y padding_x dilation_y dilation_x pixel filled"
    return Entry(by_channel, f"{words} {steps}", "low high", name)


@kernel
def _cell_operands(w: Any) -> Any:
    maps = maps_at(w.source, w.images, w.height, w.width, w.pixel)
    output = maps_at(w.target, w.images, w.rows, w.columns, w.channels)
    return w.images * w.rows, (maps, output, NO_PAIR, NO_PAIR, NO_PAIR)


@kernel
def _channel_operands(w: Any) -> Any:
    x, output = matrix_at(w.x, w.pixels, w.pixel), matrix_at(w.output, w.pixels, w.channels)
    return w.pixels, (x, floats_at(w.factors, w.channels), floats_at(w.shifts, w.channels), output)


#: The source begins with as many zeros, which stand for what is outside of the map, and are written by the entry.
convolve_windows = Entry(
    _convolve_windows, "source target panels bias lines entries tiles channels filled taps zeros", "low high"
)
#: The plan is that of `convolution.correlate`.
convolve = Entry(_convolve, "maps target panels bias plan scratch floats size channels", "low high")
convolve_channels = _by_channel(PRODUCTS, "products")
_POOLS = {ops.max_pool2d: _by_channel(MAXIMA, "maxima"), ops.avg_pool2d: _by_channel(MEANS, "means")}
_CELLS = "source target images height width rows columns channels pixel"
mean_cells = entry_of(mean_share, _cell_operands, "adaptive_avg_pool2d", _CELLS)
scale_channels = entry_of(scale_share, _channel_operands, "batch_norm", "x factors shifts output pixels channels pixel")


def _maps(binder: Binder, operand: Any) -> tuple[View, int]:
    """Return maps (N, C, H, W) as they lie channels last, and the floats from pixel to pixel; copied where needed."""
    view = binder.view(operand)
    view = binder.contiguous(view) if view.source is not None else view
    images, channels, height, width = view.shape
    steps = dict(zip("nchw", view.strides, strict=True))
    pixel = steps["w"] if width > 1 else steps["h"] if height > 1 else steps["n"] if images > 1 else channels
    wanted = {"c": 1, "w": pixel, "h": width * pixel, "n": height * width * pixel}
    lengths = {"n": images, "c": channels, "h": height, "w": width}
    if pixel >= channels and all(lengths[axis] == 1 or steps[axis] == wanted[axis] for axis in "nchw"):
        return view, pixel
    copied = _channels_last(binder, view.shape, channels)
    binder.copy(view, copied)
    return copied, channels


def _channels_last(binder: Binder, shape: Shape, pixel: int) -> View:
    """Return a new view of maps (N, C, H, W) that lie channels last, ``pixel`` floats from pixel to pixel."""
    images, _, height, width = shape
    strides = (height * width * pixel, 1, width * pixel, pixel)
    return binder.new(shape, strides, images * height * width * pixel)


class _Convolution(NamedTuple):
    """A convolution to bind, of maps with ``pixel`` floats from pixel to pixel, between two ends."""

    node: RecordedOp
    maps: View
    pixel: int
    weight: Array
    bias: Array | None
    window: Window
    ends: tuple[float, float]

    def added(self, binder: Binder, filled: int) -> View:
        """Return the bias, or zeros, of ``filled`` channels."""
        return binder.prepared(("channel bias", filled), self.bias, lambda: filled_up(self.bias, filled))


def _bind_conv2d(node: RecordedOp, binder: Binder) -> View:
    """Bind a convolution with a constant weight and bias, and the ends of the activation that was joined with it."""
    weight, bias = (constant_of(operand) for operand in (*node.operands[1:], None)[:2])
    if weight is None or (len(node.operands) > 2 and bias is None):
        raise binder.refuse("has a weight that depends on the input")
    maps, pixel = _maps(binder, node.operands[0])
    positions = (node.output.shape[2], node.output.shape[3])
    steps = (node.params[name] for name in ("stride", "padding", "dilation"))
    window = Window((maps.shape[2], maps.shape[3]), (weight.shape[2], weight.shape[3]), positions, *steps)
    ends = node.params.get("ends", (-math.inf, math.inf))
    one = _Convolution(node, maps, pixel, weight, bias, window, ends)
    groups = node.params["groups"]
    if groups == maps.shape[1] == len(weight) > 1:
        return _bind_channels(one, binder)
    numbers = maps.shape[0] * math.prod(positions) * math.prod(window.kernel)
    if groups != 1 or numbers > _MOST_NUMBERS or not np.isfinite(weight).all():
        return _bind_correlation(one, binder)
    return _bind_windows(one, binder)


def _bind_channels(one: _Convolution, binder: Binder) -> View:
    """Bind a depthwise convolution: a window for each channel."""
    channels = len(one.weight)
    filled = -(-channels // LANES) * LANES

    def taps() -> Array:
        made = np.zeros((*one.window.kernel, filled), np.float32)
        made[..., :channels] = one.weight[:, 0].transpose(1, 2, 0)
        return aligned(made)

    weights = binder.prepared(("channel taps", filled), one.weight, taps)
    constants = (weights, one.added(binder, filled))
    return _walk(one.node, binder, convolve_channels, (one.maps, one.pixel), one.window, constants, one.ends)


def _walk(
    node: RecordedOp,
    binder: Binder,
    entry: Entry,
    source: tuple[View, int],
    window: Window,
    constants: Sequence[View],
    ends: tuple[float, float],
) -> View:
    """Emit an entry that walks windows, and return its target, whose pixels are whole vectors."""
    maps, pixel = source
    filled = -(-maps.shape[1] // LANES) * LANES
    if filled > pixel and maps.buffer.kind != "arena":  # behind its last pixel lies what is not ours to read
        maps, pixel = _copied(binder, maps, maps.shape[1]), maps.shape[1]
    output = _channels_last(binder, node.output.shape, filled)
    shape = (maps.shape[0], *window.size, *window.positions)
    steps = (*window.kernel, *window.stride, *window.padding, *window.dilation, pixel, filled)
    words = (maps, output, *(constants or (0, 0)), *shape, *steps, *ends)
    binder.emit(entry, words, (maps, *constants), output, divisible=True)
    return output


def _copied(binder: Binder, maps: View, pixel: int) -> View:
    copied = _channels_last(binder, maps.shape, pixel)
    binder.copy(maps, copied)
    return copied


def _bind_windows(one: _Convolution, binder: Binder) -> View:
    """Bind a convolution whose tiles are found beforehand."""
    maps, pixel, window = one.maps, one.pixel, one.window
    out, channels, high, wide = one.weight.shape
    filled = -(-out // LANES) * LANES
    if wide > 1 and window.dilation[1] == 1 and channels <= _FEW:
        maps, window = _with_margins(binder, maps, window)
        # Taps side by side lie in a row: they are more channels of one.
        pixel, channels, wide = channels, wide * channels, 1
    elif maps.buffer.kind != "arena" or maps.offset:
        maps = _copied(binder, maps, pixel)
    zeros = -(-channels // LANES) * LANES
    maps.buffer.before = max(maps.buffer.before, zeros)
    tables = tiles_of(window, maps.shape[0], (pixel, filled), zeros)
    key = (window, maps.shape[0], pixel, filled, zeros)
    lines, entries = (
        binder.prepared((name, key), None, partial(table.reshape, -1))
        for name, table in zip(("lines", "entries"), tables, strict=True)
    )
    panels = binder.prepared("window panels", one.weight, lambda: aligned(window_panels(one.weight)))
    added, output = one.added(binder, filled), _channels_last(binder, one.node.output.shape, filled)
    source = View(maps.buffer, -zeros, (zeros,), (1,))
    sizes = (len(tables[0]), channels, filled, high * wide, zeros)
    words = (source, output, panels, added, lines, entries, *sizes, *one.ends)
    binder.emit(convolve_windows, words, (maps, panels, added, lines, entries), output, divisible=True)
    return output


def _with_margins(binder: Binder, maps: View, window: Window) -> tuple[View, Window]:
    """Return a copy of maps with the zeros of the padding on the left and the right, and the window over it.

    The window has taps one below another: each begins where those beside it did.
    """
    images, channels, height, width = maps.shape
    margin = window.padding[1]
    wide = width + 2 * margin
    copied = _channels_last(binder, (images, channels, height, wide), channels)
    for begin, stop in ((0, margin), (margin + width, wide)) if margin else ():
        zero = View(
            binder.constant(np.zeros(1, np.float32)).buffer, 0, (images, channels, height, margin), (0, 0, 0, 0)
        )
        binder.copy(zero, copied.moved(lambda array, begin=begin, stop=stop: array[..., begin:stop]))  # type: ignore[misc]
    binder.copy(maps, copied.moved(lambda array: array[..., margin : margin + width]))
    (down, _), (high, _), (top, _) = window.dilation, window.kernel, window.padding
    return copied, window._replace(size=(height, wide), kernel=(high, 1), padding=(top, 0), dilation=(down, 1))


def _bind_correlation(one: _Convolution, binder: Binder) -> View:
    """Bind a convolution whose windows are found as they come: with groups, or over large maps."""
    maps, weight, window, groups = one.maps, one.weight, one.window, one.node.params["groups"]
    images, channels, height, width = maps.shape
    if one.pixel != channels:
        maps = _copied(binder, maps, channels)
    out, each, high, wide = weight.shape
    sizes = (images, height, width, channels)
    steps = (window.positions, window.stride, window.padding, window.dilation)
    forward = forward_pass(Geometry(sizes, weight.shape, *steps, groups))

    def panels() -> Array:
        made = weight_panels(groups, each * high * wide, out // groups)
        pack_weights(made, np.array(weight).reshape(-1), groups, out // groups, each, high * wide)
        return made

    packed = binder.prepared(("panels of groups", groups), weight, panels)
    added = one.added(binder, out)
    plan = binder.prepared(("correlation", forward.plan.tobytes()), None, lambda: forward.plan)
    floats = SCRATCH + forward.padded
    scratch = binder.new((floats,))
    output = _channels_last(binder, one.node.output.shape, out)
    words = (maps, output, packed, added, plan, scratch, floats, output.size, out, *one.ends)
    binder.emit(convolve, words, (maps, packed, added, plan), output, scratch=(scratch,))
    return output


def window_panels(weight: Array) -> Array:
    """Return a weight (out, channels, kh, kw) as panels of at most two vectors: [panel][tap][channel][column]."""
    out, channels, high, wide = weight.shape
    matrix = weight.transpose(2, 3, 1, 0).reshape(high * wide * channels, out)
    vectors = -(-out // LANES)
    panels = -(-vectors // 2)
    filled = np.zeros((len(matrix), vectors * LANES), np.float32)
    filled[:, :out] = matrix
    bounds = [LANES * (panel * vectors // panels) for panel in range(panels + 1)]
    return np.concatenate([filled[:, a:b].reshape(-1) for a, b in pairwise(bounds)])


def _bind_pool(node: RecordedOp, binder: Binder) -> View:
    maps, pixel = _maps(binder, node.operands[0])
    size = (maps.shape[2], maps.shape[3])
    kernel, stride, padding = (node.params[name] for name in ("kernel", "stride", "padding"))
    window = Window(size, kernel, output_positions(size, kernel, stride, padding), stride, padding, (1, 1))
    return _walk(node, binder, _POOLS[node.op], (maps, pixel), window, (), (-math.inf, 1 / math.prod(kernel)))


def _bind_adaptive_pool(node: RecordedOp, binder: Binder) -> View:
    maps, pixel = _maps(binder, node.operands[0])
    images, channels, height, width = maps.shape
    rows, columns = node.params["size"]
    output = _channels_last(binder, node.output.shape, channels)
    words = (maps, output, images, height, width, rows, columns, channels, pixel)
    binder.emit(mean_cells, words, (maps,), output, divisible=True)
    return output


def _bind_batch_norm(node: RecordedOp, binder: Binder) -> View:
    """Bind normalization by running statistics, which is a factor and a shift for each channel."""
    constants = [constant_of(operand) for operand in node.operands[1:]]
    weight, bias, mean, variance = (*constants, None, None)[:4]
    if weight is None or bias is None or mean is None or variance is None:
        raise binder.refuse("normalizes by the batch's own statistics: call model.eval() first")
    maps, pixel = _maps(binder, node.operands[0])
    channels = maps.shape[1]
    factor, shift = (
        binder.prepared(("of channels", each.tobytes()), None, partial(aligned, each))
        for each in folded(weight, bias, mean, variance, node.params["epsilon"])
    )
    output = _channels_last(binder, node.output.shape, channels)
    words = (maps, factor, shift, output, output.size // channels, channels, pixel)
    binder.emit(scale_channels, words, (maps, factor, shift), output, divisible=True)
    return output


BINDINGS = {
    ops.conv2d: _bind_conv2d,
    ops.max_pool2d: _bind_pool,
    ops.avg_pool2d: _bind_pool,
    ops.adaptive_avg_pool2d: _bind_adaptive_pool,
    ops.batch_norm: _bind_batch_norm,
}
