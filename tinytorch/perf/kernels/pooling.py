"""Maximum and mean of windows: one pass over channels-last maps, without padded copies.

Declared: float32, any window, stride and padding. Other dtypes and empty batches go to the op's reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Op, Saved
from tinytorch.core.ops.spatial import Pair, channels_first, channels_last, output_positions
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import floats_at, pixel_at

#: About how long an element of a window takes, in nanoseconds.
_NS = 0.15
#: The number of a tap that nothing came from: the maximum is NaN.
NOWHERE = 255
#: Taps of the largest window whose numbers fit beside `NOWHERE`.
MOST_TAPS = 255
_ZERO = np.float32(0)


@kernel
def reach(position: Any, stride: Any, padding: Any, length: Any, taps: Any) -> Any:
    """Return where a window begins along one axis, and where it begins and ends inside of the map."""
    begin = position * stride - padding
    return begin, max(begin, 0), min(begin + taps, length)


@kernel
def cell(position: Any, length: Any, cells: Any) -> Any:
    """Return where one of ``cells`` parts of an axis begins and ends; they overlap where they are uneven."""
    return position * length // cells, ((position + 1) * length + cells - 1) // cells


@kernel
def mean_of(at: Any, steps: Any, taps: Any, share: Any, to: Any, channels: Any) -> None:
    """Write the sum of a window's pixels times ``share``; ``at`` is the address of the first, ``to`` of the sum.

    ``steps`` are floats from row to row and from pixel to pixel, ``taps`` rows and columns of the window.
    """
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
    most = floats_at(to, channels)
    most[:] = -np.inf
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
        begin, top, bottom = reach(y, stride[0], padding[0], maps.shape[1], window[0])
        for x in range(output.shape[2]):
            edge, left, right = reach(x, stride[1], padding[1], maps.shape[2], window[1])
            at, to = pixel_at(maps, image, top, left), pixel_at(output, image, y, x)
            taps = (bottom - top, right - left)
            max_of(at, steps, taps, to, channels)
            if keep:
                first = (top - begin) * window[1] + left - edge
                find_places(at, steps, taps, first, window[1], to, places[image, y, x])


@kernel
def mean_share(start: Any, stop: Any, maps: Any, output: Any, window: Any, stride: Any, padding: Any) -> None:
    """Do what `max_share` does with means, for which padded zeros count as elements."""
    steps, channels, share = steps_of(maps), output.shape[3], np.float32(1 / (window[0] * window[1]))
    for row in range(start, stop):
        image, y = row // output.shape[1], row % output.shape[1]
        _, top, bottom = reach(y, stride[0], padding[0], maps.shape[1], window[0])
        for x in range(output.shape[2]):
            _, left, right = reach(x, stride[1], padding[1], maps.shape[2], window[1])
            at, to = pixel_at(maps, image, top, left), pixel_at(output, image, y, x)
            mean_of(at, steps, (bottom - top, right - left), share, to, channels)


@kernel
def mean_backward_share(
    start: Any, stop: Any, gradient: Any, down: Any, window: Any, stride: Any, padding: Any
) -> None:
    """Spread each gradient of images ``start`` to ``stop`` evenly over its window."""
    steps, channels, share = steps_of(down), down.shape[3], np.float32(1 / (window[0] * window[1]))
    down[start:stop] = 0
    for row in range(start * gradient.shape[1], stop * gradient.shape[1]):
        image, y = row // gradient.shape[1], row % gradient.shape[1]
        _, top, bottom = reach(y, stride[0], padding[0], down.shape[1], window[0])
        for x in range(gradient.shape[2]):
            _, left, right = reach(x, stride[1], padding[1], down.shape[2], window[1])
            at, of = pixel_at(down, image, top, left), pixel_at(gradient, image, y, x)
            spread(at, steps, (bottom - top, right - left), share, of, channels)


@kernel
def cell_share(start: Any, stop: Any, maps: Any, output: Any) -> None:
    """Fill rows ``start`` to ``stop`` of all rows of the output (N, oh, ow, C) with means of as many cells.

    Pixels of ``maps`` may have more channels than are read.
    """
    steps, channels = steps_of(maps), output.shape[3]
    for row in range(start, stop):
        image, y = row // output.shape[1], row % output.shape[1]
        top, bottom = cell(y, maps.shape[1], output.shape[1])
        for x in range(output.shape[2]):
            left, right = cell(x, maps.shape[2], output.shape[2])
            share = np.float32(1 / ((bottom - top) * (right - left)))
            at, to = pixel_at(maps, image, top, left), pixel_at(output, image, y, x)
            mean_of(at, steps, (bottom - top, right - left), share, to, channels)


@kernel
def cell_backward_share(start: Any, stop: Any, gradient: Any, down: Any) -> None:
    """Spread each gradient of images ``start`` to ``stop`` evenly over its cell."""
    steps, channels = steps_of(down), down.shape[3]
    down[start:stop] = 0
    for row in range(start * gradient.shape[1], stop * gradient.shape[1]):
        image, y = row // gradient.shape[1], row % gradient.shape[1]
        top, bottom = cell(y, down.shape[1], gradient.shape[1])
        for x in range(gradient.shape[2]):
            left, right = cell(x, down.shape[2], gradient.shape[2])
            share = np.float32(1 / ((bottom - top) * (right - left)))
            at, of = pixel_at(down, image, top, left), pixel_at(gradient, image, y, x)
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
        begin, top, bottom = reach(y, stride[0], padding[0], down.shape[1], window[0])
        for x in range(gradient.shape[2]):
            edge, left, right = reach(x, stride[1], padding[1], down.shape[2], window[1])
            here, share = places[image, y, x], floats_at(pixel_at(gradient, image, y, x), channels)
            for i in range(top, bottom):
                for j in range(left, right):
                    pixel = floats_at(pixel_at(down, image, i, j), channels)
                    tap = np.uint8((i - begin) * window[1] + j - edge)
                    for c in range(channels):
                        pixel[c] += share[c] if here[c] == tap else _ZERO


def _declared(x: Array, kernel: Pair) -> bool:
    return x.ndim == 4 and x.size > 0 and x.dtype == np.float32 and kernel[0] * kernel[1] <= MOST_TAPS


def _lies_as_numpy_likes(x: Array) -> bool:
    """Return whether maps lie one behind the other, of which NumPy takes maxima sooner than we turn their axes."""
    return x.flags.c_contiguous


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
    if not _declared(x, kernel) or (not keep and _lies_as_numpy_likes(x)):
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
    """(N, C, H, W) to (N, C, oh, ow)."""
    if not _declared(x, kernel) or (not keep and x.shape[1] == 1):
        return ops.avg_pool2d.reference.forward(keep, x, kernel=kernel, stride=stride, padding=padding)
    window = kernel, stride, padding
    maps = channels_last(x)
    output = np.empty((len(maps), *output_positions(x.shape[2:], *window), maps.shape[3]), np.float32)
    return _fill(mean_share, maps, output, kernel, *window), (maps.shape, window) if keep else ()


def _mean_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if len(saved) != 2:
        return ops.avg_pool2d.reference.backward(gradient, saved, needs, owned)
    shape, window = saved
    return _spread(mean_backward_share, gradient, shape, *window)


def _cells_forward(keep: bool, x: Array, *, size: Pair) -> tuple[Array, Saved]:
    """(N, C, H, W) to (N, C, *size)."""
    if not _declared(x, (1, 1)):
        output, saved = ops.adaptive_avg_pool2d.reference.forward(keep, x, size=size)
        return output, (None, saved) if keep else ()
    maps = channels_last(x)
    output = np.empty((len(maps), *size, maps.shape[3]), np.float32)
    taps = -(-maps.shape[1] // size[0]), -(-maps.shape[2] // size[1])
    return _fill(cell_share, maps, output, taps), (maps.shape,) if keep else ()


def _cells_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if saved[0] is None:
        return ops.adaptive_avg_pool2d.reference.backward(gradient, saved[1], needs, owned)
    return _spread(cell_backward_share, gradient, saved[0])


IMPLEMENTATIONS: dict[Op, Implementation] = {
    ops.max_pool2d: Implementation("numba", _max_forward, _max_backward),
    ops.avg_pool2d: Implementation("numba", _mean_forward, _mean_backward),
    ops.adaptive_avg_pool2d: Implementation("numba", _cells_forward, _cells_backward),
}
