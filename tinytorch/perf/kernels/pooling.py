"""Maximum and mean of windows: one pass over channels-last maps, without padded copies.

Declared: float32, any window, stride and padding. Other dtypes and empty batches go to the op's reference.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Op, Saved
from tinytorch.core.ops.spatial import Pair, channels_first, channels_last, output_positions
from tinytorch.perf.kernels.gemm.register_tiles import LANES
from tinytorch.perf.kernels.plan_ops.windows import MAXIMA, MEANS, channels_tile
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import FLOAT32, SMALL, floats_at, pixel_at

#: About how long an element of a window takes, in nanoseconds.
_NS = 0.15
#: Channels below which maps are few, and pixels from which on each is large; see `_is_ours`.
_FEW, _LARGE = 4, 4_096
#: The number of a tap that nothing came from: the maximum is NaN.
NOWHERE = 255
#: Taps of the largest window whose numbers fit beside `NOWHERE`.
MOST_TAPS = 255
#: Window, stride and padding of cells.
NO_PAIR: Pair = (0, 0)
_ZERO, _LEAST = np.float32(0), np.float32(-np.inf)


@kernel
def reach(position: Any, positions: Any, stride: Any, padding: Any, length: Any, taps: Any) -> Any:
    """Return where a window begins along one axis, and where it begins and ends inside of the map.

    A window of 0 taps is a cell: one of as many parts of the axis as there are positions, which overlap if uneven.
    """
    if taps == 0:
        begin = position * length // positions
        return begin, begin, ((position + 1) * length + positions - 1) // positions
    begin = position * stride - padding
    return begin, max(begin, 0), min(begin + taps, length)


@kernel
def mean_of(at: Any, steps: Any, taps: Any, share: Any, to: Any, channels: Any) -> None:
    """Write the sum of a window's pixels times ``share``; ``at`` is the address of the first, ``to`` of the sum.

    ``steps`` are floats from row to row and from pixel to pixel, ``taps`` rows and columns of the window.
    """
    if channels % LANES == 0:
        channels_tile(MEANS, 1, (at, to, 0, 0), (_ZERO, share), taps, (steps[0], steps[1], 0, 0), channels)
        return
    mean = floats_at(to, channels)
    mean[:] = _ZERO
    for i in range(taps[0]):
        for j in range(taps[1]):
            pixel = floats_at(at + 4 * (i * steps[0] + j * steps[1]), channels)
            for c in range(channels):
                mean[c] += pixel[c]
    for c in range(channels):
        mean[c] *= share


@kernel
def spread(at: Any, steps: Any, taps: Any, share: Any, of: Any, channels: Any) -> None:
    """Add what is at ``of`` times ``share`` to a window's pixels; arguments are those of `mean_of`."""
    given = floats_at(of, channels)
    for i in range(taps[0]):
        for j in range(taps[1]):
            pixel = floats_at(at + 4 * (i * steps[0] + j * steps[1]), channels)
            for c in range(channels):
                pixel[c] += given[c] * share


@kernel
def max_of(at: Any, steps: Any, taps: Any, to: Any, channels: Any) -> None:
    """Write the maxima of a window's pixels; arguments are those of `mean_of`."""
    if channels % LANES == 0:
        channels_tile(MAXIMA, 1, (at, to, 0, 0), (_LEAST, _ZERO), taps, (steps[0], steps[1], 0, 0), channels)
        return
    most = floats_at(to, channels)
    most[:] = _LEAST
    for i in range(taps[0]):
        for j in range(taps[1]):
            pixel = floats_at(at + 4 * (i * steps[0] + j * steps[1]), channels)
            for c in range(channels):
                # A comparison with NaN is false: what is NaN stays, and what becomes NaN is taken.
                above = pixel[c] > most[c] or pixel[c] != pixel[c]
                most[c] = pixel[c] if above else most[c]


@kernel
def find_places(at: Any, steps: Any, taps: Any, first: Any, wide: Any, of: Any, places: Any) -> None:
    """Fill ``places`` (C,) with the number of the first tap that is the maximum, which is at ``of``.

    The window's pixel at ``at`` is tap ``first``, and there are ``wide`` taps in a row.
    """
    most = floats_at(of, places.size)
    places[:] = NOWHERE
    for i in range(taps[0]):
        for j in range(taps[1]):
            pixel, tap = floats_at(at + 4 * (i * steps[0] + j * steps[1]), places.size), np.uint8(first + i * wide + j)
            for c in range(places.size):
                # Always written: of what is written sometimes LLVM makes branches, which are guessed wrong.
                places[c] = min(places[c], tap if pixel[c] == most[c] else np.uint8(NOWHERE))


@kernel
def steps_of(maps: Any) -> Any:
    """Return the floats from row to row and from pixel to pixel of contiguous maps (N, H, W, C)."""
    return maps.shape[2] * maps.shape[3], maps.shape[3]


@kernel
def max_share(
    start: Any, stop: Any, maps: Any, output: Any, places: Any, window: Any, stride: Any, padding: Any
) -> None:
    """Fill rows ``start`` to ``stop`` of all rows of the output (N, oh, ow, C) with maxima of windows.

    ``places``, unless empty, gets the number of each maximum's tap.
    """
    steps, channels, keep = steps_of(maps), output.shape[3], places.size > 0
    for row in range(start, stop):
        image, y = row // output.shape[1], row % output.shape[1]
        begin, top, bottom = reach(y, output.shape[1], stride[0], padding[0], maps.shape[1], window[0])
        for x in range(output.shape[2]):
            edge, left, right = reach(x, output.shape[2], stride[1], padding[1], maps.shape[2], window[1])
            at, to = pixel_at(maps, image, top, left), pixel_at(output, image, y, x)
            taps = (bottom - top, right - left)
            max_of(at, steps, taps, to, channels)
            if keep:
                first = (top - begin) * window[1] + left - edge
                find_places(at, steps, taps, first, window[1], to, places[image, y, x])


@kernel
def mean_share(start: Any, stop: Any, maps: Any, output: Any, window: Any, stride: Any, padding: Any) -> None:
    """Do what `max_share` does with means, for which padded zeros count as elements; see `reach` for cells.

    Pixels of ``maps`` may have more channels than are read.
    """
    steps, channels, whole = steps_of(maps), output.shape[3], window[0] * window[1]
    for row in range(start, stop):
        image, y = row // output.shape[1], row % output.shape[1]
        _, top, bottom = reach(y, output.shape[1], stride[0], padding[0], maps.shape[1], window[0])
        for x in range(output.shape[2]):
            _, left, right = reach(x, output.shape[2], stride[1], padding[1], maps.shape[2], window[1])
            at, to = pixel_at(maps, image, top, left), pixel_at(output, image, y, x)
            share = np.float32(1 / (whole if whole else (bottom - top) * (right - left)))
            mean_of(at, steps, (bottom - top, right - left), share, to, channels)


@kernel
def mean_backward_share(
    start: Any, stop: Any, gradient: Any, down: Any, window: Any, stride: Any, padding: Any
) -> None:
    """Spread each gradient of images ``start`` to ``stop`` evenly over its window."""
    steps, channels, whole = steps_of(down), down.shape[3], window[0] * window[1]
    down[start:stop] = 0
    for row in range(start * gradient.shape[1], stop * gradient.shape[1]):
        image, y = row // gradient.shape[1], row % gradient.shape[1]
        _, top, bottom = reach(y, gradient.shape[1], stride[0], padding[0], down.shape[1], window[0])
        for x in range(gradient.shape[2]):
            _, left, right = reach(x, gradient.shape[2], stride[1], padding[1], down.shape[2], window[1])
            at, of = pixel_at(down, image, top, left), pixel_at(gradient, image, y, x)
            share = np.float32(1 / (whole if whole else (bottom - top) * (right - left)))
            spread(at, steps, (bottom - top, right - left), share, of, channels)


@kernel
def max_backward_share(
    start: Any, stop: Any, gradient: Any, down: Any, places: Any, window: Any, stride: Any, padding: Any
) -> None:
    """Hand each gradient of images ``start`` to ``stop`` to the element that its maximum came from."""
    channels = down.shape[3]
    down[start:stop] = 0
    for row in range(start * gradient.shape[1], stop * gradient.shape[1]):
        image, y = row // gradient.shape[1], row % gradient.shape[1]
        begin, top, bottom = reach(y, gradient.shape[1], stride[0], padding[0], down.shape[1], window[0])
        for x in range(gradient.shape[2]):
            edge, left, right = reach(x, gradient.shape[2], stride[1], padding[1], down.shape[2], window[1])
            here, share = places[image, y, x], floats_at(pixel_at(gradient, image, y, x), channels)
            for i in range(top, bottom):
                for j in range(left, right):
                    pixel = floats_at(pixel_at(down, image, i, j), channels)
                    tap = np.uint8((i - begin) * window[1] + j - edge)
                    for c in range(channels):
                        pixel[c] += share[c] if here[c] == tap else _ZERO


def _is_ours(x: Array, kernel: Pair, few: int) -> bool:
    """Return whether a kernel takes these maps, and pays.

    Of less than ``few`` channels, large ones, it does not: NumPy's passes along rows end before we have turned axes.
    """
    fits = x.ndim == 4 and x.size > 0 and x.dtype == FLOAT32 and kernel[0] * kernel[1] <= MOST_TAPS
    return fits and (x.size <= SMALL or x.shape[1] >= few or (x.shape[1] > 1 and x.shape[2] * x.shape[3] < _LARGE))


def _fill(share: Any, maps: Array, output: Array, kernel: Pair, *arguments: Any) -> Array:
    """Run a kernel over all rows of ``output``, and return it (N, C, oh, ow)."""
    ns = output.shape[2] * output.shape[3] * kernel[0] * kernel[1] * _NS
    threads.split(share, output.shape[0] * output.shape[1], ns, maps, output, *arguments)
    return channels_first(output)


def _spread(fill: Any, gradient: Array, shape: tuple[int, ...], *arguments: Any) -> Gradients:
    """Return the gradient of maps of ``shape``, which the kernel ``fill`` makes of the output's, image by image."""
    down = np.empty(shape, np.float32)
    given = channels_last(np.asarray(gradient, np.float32))
    threads.split(fill, len(down), max(down[0].size, given[0].size) * _NS, given, down, *arguments)
    return (channels_first(down),)


def _max_forward(keep: bool, x: Array, *, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Array, Saved]:
    """(N, C, H, W) to (N, C, oh, ow); for backward a byte for each output, the number of the maximum's tap."""
    if not _is_ours(x, kernel, _FEW):
        return ops.max_pool2d.reference.forward(keep, x, kernel=kernel, stride=stride, padding=padding)
    window = kernel, stride, padding
    maps = channels_last(x)
    output = np.empty((len(maps), *output_positions(x.shape[2:], *window), maps.shape[3]), np.float32)
    places = np.empty(output.shape if keep else (0, 0, 0, 0), np.uint8)
    made = _fill(max_share, maps, output, kernel, places, *window)
    return made, (places, maps.shape, window) if keep else ()


def _max_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if len(saved) != 3:
        return ops.max_pool2d.reference.backward(gradient, saved, needs, owned)
    places, shape, window = saved
    return _spread(max_backward_share, gradient, shape, places, *window)


def _mean_forward(keep: bool, x: Array, *, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Array, Saved]:
    if not _is_ours(x, kernel, 2 if keep else _FEW):
        output, saved = ops.avg_pool2d.reference.forward(keep, x, kernel=kernel, stride=stride, padding=padding)
        return output, (None, saved) if keep else ()
    return _means(keep, x, output_positions(x.shape[2:], kernel, stride, padding), kernel, (kernel, stride, padding))


def _cells_forward(keep: bool, x: Array, *, size: Pair) -> tuple[Array, Saved]:
    if not _is_ours(x, (1, 1), 1 if keep else _FEW):
        output, saved = ops.adaptive_avg_pool2d.reference.forward(keep, x, size=size)
        return output, (None, saved) if keep else ()
    return _means(keep, x, size, (-(-x.shape[2] // size[0]), -(-x.shape[3] // size[1])), (NO_PAIR, NO_PAIR, NO_PAIR))


def _means(keep: bool, x: Array, size: Pair, taps: Pair, window: tuple[Pair, Pair, Pair]) -> tuple[Array, Saved]:
    maps = channels_last(x)
    output = np.empty((len(maps), *size, maps.shape[3]), np.float32)
    return _fill(mean_share, maps, output, taps, *window), (maps.shape, window) if keep else ()


def _means_backward(op: Op, gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    shape, window = saved
    if shape is None:
        return op.reference.backward(gradient, window, needs, owned)
    return _spread(mean_backward_share, gradient, shape, *window)


IMPLEMENTATIONS: dict[Op, Implementation] = {
    ops.max_pool2d: Implementation("numba", _max_forward, _max_backward),
    ops.avg_pool2d: Implementation("numba", _mean_forward, partial(_means_backward, ops.avg_pool2d)),
    ops.adaptive_avg_pool2d: Implementation("numba", _cells_forward, partial(_means_backward, ops.adaptive_avg_pool2d)),
}
