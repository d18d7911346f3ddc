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

#: Kernel, stride and padding.
Window = tuple[Pair, Pair, Pair]
#: About how long an element of a window takes, in nanoseconds.
_NS = 0.15
#: The number of a tap that nothing came from: the maximum is NaN.
NOWHERE = 255
#: Taps of the largest window whose numbers fit beside `NOWHERE`.
MOST_TAPS = 255


@kernel
def reach(position: Any, stride: Any, padding: Any, length: Any, taps: Any) -> Any:
    """Return where a window begins along one axis, and its first tap and the one after its last that are inside."""
    begin = position * stride - padding
    return begin, max(0, -begin), min(taps, length - begin)


@kernel
def max_images(
    start: Any, stop: Any, maps: Any, output: Any, places: Any, kept: Any, window: Any, stride: Any, padding: Any
) -> None:
    """Fill the output (N, oh, ow, C) of images ``start`` to ``stop``, and the number of each maximum's tap if kept."""
    _, rows, columns, channels = output.shape
    for image in range(start, stop):
        for y in range(rows):
            top, first_row, last_row = reach(y, stride[0], padding[0], maps.shape[1], window[0])
            for x in range(columns):
                left, first, last = reach(x, stride[1], padding[1], maps.shape[2], window[1])
                most = output[image, y, x]
                most[:] = -np.inf
                begun = False
                for i in range(first_row, last_row):
                    for j in range(first, last):
                        pixel = maps[image, top + i, left + j]
                        tap = np.uint8(i * window[1] + j)
                        if kept:
                            here = places[image, y, x]
                            if begun:
                                for c in range(channels):
                                    above = pixel[c] > most[c]
                                    here[c] = tap if above else here[c]
                                    here[c] = np.uint8(NOWHERE) if pixel[c] != pixel[c] else here[c]
                            else:
                                for c in range(channels):
                                    here[c] = np.uint8(NOWHERE) if pixel[c] != pixel[c] else tap
                        for c in range(channels):
                            # A comparison with NaN is false: what is NaN stays, and what becomes NaN is taken.
                            above = pixel[c] > most[c] or pixel[c] != pixel[c]
                            most[c] = pixel[c] if above else most[c]
                        begun = True


@kernel
def max_images_backward(
    start: Any, stop: Any, gradient: Any, places: Any, down: Any, window: Any, stride: Any, padding: Any
) -> None:
    """Hand each gradient of images ``start`` to ``stop`` to the element that its maximum came from."""
    _, rows, columns, channels = gradient.shape
    down[start:stop] = 0
    for image in range(start, stop):
        for y in range(rows):
            top, first_row, last_row = reach(y, stride[0], padding[0], down.shape[1], window[0])
            for x in range(columns):
                left, first, last = reach(x, stride[1], padding[1], down.shape[2], window[1])
                here, share = places[image, y, x], gradient[image, y, x]
                for i in range(first_row, last_row):
                    for j in range(first, last):
                        pixel, tap = down[image, top + i, left + j], np.uint8(i * window[1] + j)
                        for c in range(channels):
                            pixel[c] += share[c] if here[c] == tap else np.float32(0)


@kernel
def mean_images(start: Any, stop: Any, maps: Any, output: Any, window: Any, stride: Any, padding: Any) -> None:
    """Fill the output (N, oh, ow, C) of images ``start`` to ``stop``; padded zeros count as elements."""
    _, rows, columns, channels = output.shape
    share = np.float32(1 / (window[0] * window[1]))
    for image in range(start, stop):
        for y in range(rows):
            top, first_row, last_row = reach(y, stride[0], padding[0], maps.shape[1], window[0])
            for x in range(columns):
                left, first, last = reach(x, stride[1], padding[1], maps.shape[2], window[1])
                mean = output[image, y, x]
                mean[:] = 0
                for i in range(first_row, last_row):
                    for j in range(first, last):
                        pixel = maps[image, top + i, left + j]
                        for c in range(channels):
                            mean[c] += pixel[c]
                for c in range(channels):
                    mean[c] *= share


@kernel
def mean_images_backward(
    start: Any, stop: Any, gradient: Any, down: Any, window: Any, stride: Any, padding: Any
) -> None:
    """Spread each gradient of images ``start`` to ``stop`` evenly over its window."""
    _, rows, columns, channels = gradient.shape
    share = np.float32(1 / (window[0] * window[1]))
    down[start:stop] = 0
    for image in range(start, stop):
        for y in range(rows):
            top, first_row, last_row = reach(y, stride[0], padding[0], down.shape[1], window[0])
            for x in range(columns):
                left, first, last = reach(x, stride[1], padding[1], down.shape[2], window[1])
                given = gradient[image, y, x]
                for i in range(first_row, last_row):
                    for j in range(first, last):
                        pixel = down[image, top + i, left + j]
                        for c in range(channels):
                            pixel[c] += given[c] * share


def _declared(x: Array, kernel: Pair) -> bool:
    return x.ndim == 4 and x.size > 0 and x.dtype == np.float32 and kernel[0] * kernel[1] <= MOST_TAPS


def _ns(output: Array, kernel: Pair) -> float:
    """Return about how many nanoseconds an image takes."""
    return float(output[0].size * kernel[0] * kernel[1] * _NS)


def _maps_and_output(x: Array, window: Window) -> tuple[Array, Array]:
    """Return (N, C, H, W) channels last, and an array for what its windows give, (N, oh, ow, C)."""
    maps = channels_last(x)
    positions = output_positions(x.shape[2:], *window)
    return maps, np.empty((len(maps), *positions, maps.shape[3]), np.float32)


def _spread(fill: Any, gradient: Array, shape: tuple[int, ...], window: Window, *places: Array) -> Gradients:
    """Return the gradient of maps of ``shape``, which the kernel ``fill`` makes of the output's."""
    down = np.empty(shape, np.float32)
    given = channels_last(np.asarray(gradient, np.float32))
    threads.split(fill, len(down), _ns(given, window[0]), given, *places, down, *window)
    return (channels_first(down),)


def _max_forward(keep: bool, x: Array, *, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Array, Saved]:
    """(N, C, H, W) to (N, C, oh, ow); for backward a byte for each output, the number of the maximum's tap."""
    if not _declared(x, kernel):
        return ops.max_pool2d.reference.forward(keep, x, kernel=kernel, stride=stride, padding=padding)
    window = kernel, stride, padding
    maps, output = _maps_and_output(x, window)
    places = np.full(output.shape if keep else (1, 1, 1, 1), NOWHERE, np.uint8)
    threads.split(max_images, len(maps), _ns(output, kernel), maps, output, places, keep, *window)
    return channels_first(output), (places, maps.shape, window) if keep else ()


def _max_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if len(saved) != 3:
        return ops.max_pool2d.reference.backward(gradient, saved, needs, owned)
    places, shape, window = saved
    return _spread(max_images_backward, gradient, shape, window, places)


def _mean_forward(keep: bool, x: Array, *, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Array, Saved]:
    """(N, C, H, W) to (N, C, oh, ow)."""
    if not _declared(x, kernel):
        return ops.avg_pool2d.reference.forward(keep, x, kernel=kernel, stride=stride, padding=padding)
    window = kernel, stride, padding
    maps, output = _maps_and_output(x, window)
    threads.split(mean_images, len(maps), _ns(output, kernel), maps, output, *window)
    return channels_first(output), (maps.shape, window) if keep else ()


def _mean_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if len(saved) != 2:
        return ops.avg_pool2d.reference.backward(gradient, saved, needs, owned)
    shape, window = saved
    return _spread(mean_images_backward, gradient, shape, window)


IMPLEMENTATIONS: dict[Op, Implementation] = {
    ops.max_pool2d: Implementation("numba", _max_forward, _max_backward),
    ops.avg_pool2d: Implementation("numba", _mean_forward, _mean_backward),
}
