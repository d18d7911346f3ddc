"""Entry points of ops on images: convolution with what follows it, pooling, and normalization by channel.

Maps lie channels last, a pixel's channels filled up to whole vectors where a convolution made them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Shape
from tinytorch.core.ops.spatial import output_positions
from tinytorch.perf.kernels.convolution import SCRATCH, Geometry, correlate, forward_pass, pack_weights, weight_panels
from tinytorch.perf.kernels.gemm.register_tiles import COLUMNS, LANES
from tinytorch.perf.kernels.normalization import folded, scale_share
from tinytorch.perf.kernels.plan_ops.binding import Binder, RecordedOp, Value, View, aligned
from tinytorch.perf.kernels.plan_ops.driver import WORDS, Entry, bits_of_float, entry_of, part
from tinytorch.perf.kernels.plan_ops.windows import (
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
#: Windows side by side that `channels_tile` makes at a time.
_ACROSS = 4
_ZERO = np.float32(0)


@kernel
def reach(position: Any, stride: Any, padding: Any, dilation: Any, length: Any, taps: Any) -> Any:
    """Return where a window begins along one axis, the first of its taps inside of the map, and the one after those."""
    begin = position * stride - padding
    return begin, (max(-begin, 0) + dilation - 1) // dilation, min(taps, (length - begin + dilation - 1) // dilation)


def _convolve_windows(row: int) -> None:
    """Convolve; words: source, target, panels, bias, lines, entries, tiles, channels, out filled up, taps, zeros, ends.

    The source begins with that many zeros, which stand for what is outside of the map, and are written here. Nothing
    is written below or above the two ends.
    """
    w = words_at(row, WORDS)
    channels, filled, taps = w[8], w[9], w[10]
    low, high = floats_at(row + 96, 1)[0], floats_at(row + 104, 1)[0]
    floats_at(w[1], w[11])[:] = _ZERO
    source, into, bias = floats_at(w[1], 1 << 40), floats_at(w[2], 1 << 40), floats_at(w[4], filled)
    tables, behind = words_at(w[5], 1 << 40), (w[6] - w[5]) // 8
    panels = (filled + COLUMNS - 1) // COLUMNS
    first, last = part(w, w[7])
    for panel in range(panels):
        # Widths differ by one vector at most, as in `panels.panel_bounds`.
        column = panel * (filled // LANES) // panels * LANES
        wide = (panel + 1) * (filled // LANES) // panels * LANES - column
        packed = floats_at(w[3] + 4 * taps * channels * column, 1 << 40)
        for number in range(first, last):
            at = number * LINE
            sizes = at + 2, behind + tables[at], tables[at + 1], channels
            if wide > LANES:
                window_tile(2, (low, high), into, column, source, packed, bias, tables, sizes)
            else:
                window_tile(1, (low, high), into, column, source, packed, bias, tables, sizes)


def _convolve(row: int) -> None:
    """Convolve; words: maps, target, panels, bias, plan, scratch, its floats, floats of the target, channels, ends.

    The plan is that of `convolution.correlate`.
    """
    w = words_at(row, WORDS)
    target, low, high = floats_at(w[2], w[8]), floats_at(row + 80, 1)[0], floats_at(row + 88, 1)[0]
    maps, panels, plan = floats_at(w[1], 1 << 40), floats_at(w[3], 1 << 40), words_at(w[5], 26)
    correlate(0, 1, 1, maps, panels, floats_at(w[4], w[9]), target, plan, matrix_at(w[6], 1, w[7]))
    if low > -math.inf or high < math.inf:
        for i in range(target.size):
            target[i] = low if target[i] < low else high if target[i] > high else target[i]


def _by_channel(kind: int, name: str) -> Entry:
    """Return the entry that walks windows with each channel by itself, in places of which neighbours lie in a row.

    Words: source, target, weights, bias, images, height, width, rows, columns, window (2), stride (2), padding (2),
    dilation (2), floats of a pixel of the source and of the target, and two numbers: see `windows.channels_tile`.
    """

    def by_channel(row: int) -> None:
        """Write what is made of each window."""
        w = words_at(row, WORDS)
        height, width, rows, columns, high, wide = w[6], w[7], w[8], w[9], w[10], w[11]
        pixel, filled = w[18], w[19]
        ends = floats_at(row + 160, 1)[0], floats_at(row + 168, 1)[0]
        steps = w[16] * width * pixel, w[17] * pixel, w[13] * pixel, wide * filled
        first, last = part(w, w[5] * rows)
        for line in range(first, last):
            y, top, bottom = reach(line % rows, w[12], w[14], w[16], height, high)
            lines = w[1] + 4 * (line // rows * height + y + top * w[16]) * width * pixel
            weights = w[3] + 4 * top * wide * filled
            column = 0
            while column < columns:
                x, left, stop = reach(column, w[13], w[15], w[17], width, wide)
                _, after, end = reach(column + _ACROSS - 1, w[13], w[15], w[17], width, wide)
                source, weight = lines + 4 * (x + left * w[17]) * pixel, weights + 4 * left * filled
                places = source, w[2] + 4 * (line * columns + column) * filled, weight, w[4]
                taps = bottom - top, stop - left
                if left == after == 0 and stop == end == wide and column + _ACROSS <= columns:
                    channels_tile(kind, _ACROSS, places, ends, taps, steps, filled)
                    column += _ACROSS
                else:
                    channels_tile(kind, 1, places, ends, taps, steps, filled)
                    column += 1

    return Entry(by_channel, name)


@kernel
def _cell_operands(row: int) -> Any:
    """Return operands of `mean_share` over cells.

    Words: source, target, rows of all outputs, images, height, width, rows, columns, channels, floats of a pixel.
    """
    w = words_at(row, WORDS)
    maps, output = maps_at(w[1], w[4], w[5], w[6], w[10]), maps_at(w[2], w[4], w[7], w[8], w[9])
    return maps, output, NO_PAIR, NO_PAIR, NO_PAIR


@kernel
def _channel_operands(row: int) -> Any:
    """Return operands of `scale_share`; words: x, factors, shifts, target, pixels, channels, floats of a pixel of x."""
    w = words_at(row, WORDS)
    return matrix_at(w[1], w[5], w[7]), floats_at(w[2], w[6]), floats_at(w[3], w[6]), matrix_at(w[4], w[5], w[6])


convolve_windows, convolve = Entry(_convolve_windows), Entry(_convolve)
convolve_channels = _by_channel(PRODUCTS, "products")
_POOLS = {ops.max_pool2d: _by_channel(MAXIMA, "maxima"), ops.avg_pool2d: _by_channel(MEANS, "means")}
mean_cells = entry_of(mean_share, 3, _cell_operands, "adaptive_avg_pool2d")
scale_channels = entry_of(scale_share, 5, _channel_operands, "batch_norm")


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


def _bind_conv2d(node: RecordedOp, binder: Binder) -> View:
    """Bind a convolution with a constant weight and bias, and the ends of the activation that was joined with it."""
    weight, bias = (_constant(operand) for operand in (*node.operands[1:], None)[:2])
    if weight is None or (len(node.operands) > 2 and bias is None):
        raise binder.refuse("has a weight that depends on the input")
    params = {name: value for name, value in node.params.items() if name != "ends"}
    ends = [bits_of_float(end) for end in node.params.get("ends", (-math.inf, math.inf))]
    maps, pixel = _maps(binder, node.operands[0])
    positions = (node.output.shape[2], node.output.shape[3])
    window = Window(
        (maps.shape[2], maps.shape[3]),
        (weight.shape[2], weight.shape[3]),
        positions,
        params["stride"],
        params["padding"],
        params["dilation"],
    )
    if params["groups"] == maps.shape[1] == len(weight) > 1:
        return _bind_channels(node, binder, maps, pixel, weight, bias, window, ends)
    numbers = maps.shape[0] * math.prod(positions) * math.prod(window.kernel)
    if params["groups"] != 1 or numbers > _MOST_NUMBERS or not np.isfinite(weight).all():
        return _bind_correlation(node, binder, maps, pixel, weight, bias, ends)
    return _bind_windows(node, binder, maps, pixel, weight, bias, window, ends)


def _bind_channels(
    node: RecordedOp,
    binder: Binder,
    maps: View,
    pixel: int,
    weight: Array,
    bias: Array | None,
    window: Window,
    ends: Sequence[int],
) -> View:
    """Bind a depthwise convolution: a window for each channel."""
    channels = len(weight)
    filled = -(-channels // LANES) * LANES

    def taps() -> Array:
        made = np.zeros((*window.kernel, filled), np.float32)
        made[..., :channels] = weight[:, 0].transpose(1, 2, 0)
        return aligned(made)

    weights = binder.prepared(("channel taps", filled), weight, taps)
    added = binder.prepared(("channel bias", filled), bias, lambda: _filled_bias(bias, channels, filled))
    return _walk(node, binder, convolve_channels, maps, pixel, window, (weights, added), ends)


def _walk(
    node: RecordedOp,
    binder: Binder,
    entry: Entry,
    maps: View,
    pixel: int,
    window: Window,
    constants: Sequence[View],
    ends: Sequence[int],
) -> View:
    """Emit an entry that walks windows, and return its target, whose pixels are whole vectors."""
    channels = maps.shape[1]
    filled = -(-channels // LANES) * LANES
    if filled > pixel and maps.buffer.kind != "arena":  # behind its last pixel lies what is not ours to read
        maps = _copied(binder, maps, channels)
        pixel = channels
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


def _bind_windows(
    node: RecordedOp,
    binder: Binder,
    maps: View,
    pixel: int,
    weight: Array,
    bias: Array | None,
    window: Window,
    ends: Sequence[int],
) -> View:
    """Bind a convolution whose tiles are found beforehand."""
    out, channels, high, wide = weight.shape
    filled = -(-out // LANES) * LANES
    if wide > 1 and window.dilation[1] == 1 and channels <= _FEW:
        maps, window = _with_margins(binder, maps, window)
        # Taps side by side lie in a row: they are more channels of one.
        pixel, channels, wide = channels, wide * channels, 1
    elif maps.buffer.kind != "arena" or maps.offset:
        maps = _copied(binder, maps, pixel)
    zeros = -(-channels // LANES) * LANES
    maps.buffer.before = max(maps.buffer.before, zeros)
    lines, entries = tiles_of(window, maps.shape[0], (pixel, filled), zeros)
    key = (window, maps.shape[0], pixel, filled, zeros)
    of_lines = binder.prepared(("lines", key), None, lambda: lines.reshape(-1))
    of_entries = binder.prepared(("entries", key), None, lambda: entries.reshape(-1))
    panels = binder.prepared("window panels", weight, lambda: aligned(window_panels(weight)))
    added = binder.prepared(("channel bias", filled), bias, lambda: _filled_bias(bias, out, filled))
    output = _channels_last(binder, node.output.shape, filled)
    source = View(maps.buffer, -zeros, (zeros,), (1,))
    sizes = (len(lines), channels, filled, high * wide, zeros)
    words = (source, output, panels, added, of_lines, of_entries, *sizes, *ends)
    binder.emit(convolve_windows, words, (maps, panels, added, of_lines, of_entries), output, divisible=True)
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


def _bind_correlation(
    node: RecordedOp, binder: Binder, maps: View, pixel: int, weight: Array, bias: Array | None, ends: Sequence[int]
) -> View:
    """Bind a convolution whose windows are found as they come: with groups, or over large maps."""
    if pixel != maps.shape[1]:
        copied = _channels_last(binder, maps.shape, maps.shape[1])
        binder.copy(maps, copied)
        maps = copied
    images, channels, height, width = maps.shape
    out, each, high, wide = weight.shape
    groups = node.params["groups"]
    positions = (node.output.shape[2], node.output.shape[3])
    stride, padding, dilation = (node.params[name] for name in ("stride", "padding", "dilation"))
    sizes = (images, height, width, channels)
    geometry = Geometry(sizes, weight.shape, positions, stride, padding, dilation, groups)
    one = forward_pass(geometry)

    def panels() -> Array:
        made = weight_panels(groups, each * high * wide, out // groups)
        pack_weights(made, np.array(weight).reshape(-1), groups, out // groups, each, high * wide)
        return made

    packed = binder.prepared(("panels of groups", groups), weight, panels)
    added = binder.prepared(("channel bias", out), bias, lambda: _filled_bias(bias, out, out))
    plan = binder.prepared(("correlation", one.plan.tobytes()), None, lambda: one.plan)
    floats = SCRATCH + one.padded
    scratch = binder.new((floats,))
    output = _channels_last(binder, node.output.shape, out)
    words = (maps, output, packed, added, plan, scratch, floats, output.size, out, *ends)
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


def _filled_bias(bias: Array | None, out: int, filled: int) -> Array:
    made = np.zeros(filled, np.float32)
    if bias is not None:
        made[:out] = bias
    return aligned(made)


def _constant(operand: Any) -> Array | None:
    return operand.array if isinstance(operand, Value) else None


def _bind_pool(node: RecordedOp, binder: Binder) -> View:
    maps, pixel = _maps(binder, node.operands[0])
    size = (maps.shape[2], maps.shape[3])
    kernel, stride, padding = (node.params[name] for name in ("kernel", "stride", "padding"))
    window = Window(size, kernel, output_positions(size, kernel, stride, padding), stride, padding, (1, 1))
    numbers = [bits_of_float(number) for number in (-math.inf, 1 / math.prod(kernel))]
    return _walk(node, binder, _POOLS[node.op], maps, pixel, window, (), numbers)


def _bind_adaptive_pool(node: RecordedOp, binder: Binder) -> View:
    maps, pixel = _maps(binder, node.operands[0])
    images, channels, height, width = maps.shape
    rows, columns = node.params["size"]
    output = _channels_last(binder, node.output.shape, channels)
    words = (maps, output, images * rows, images, height, width, rows, columns, channels, pixel)
    binder.emit(mean_cells, words, (maps,), output, divisible=True)
    return output


def _bind_batch_norm(node: RecordedOp, binder: Binder) -> View:
    """Bind normalization by running statistics, which is a factor and a shift for each channel."""
    constants = [_constant(operand) for operand in node.operands[1:]]
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
