"""The convolution kernels at the seam: forward, and the gradients of images, weights and bias.

Declared: float32, any strides, padding, dilation and groups. Other dtypes and empty batches go to the op's reference.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Saved
from tinytorch.core.ops.layout import Pair, channels_first, channels_last, output_positions
from tinytorch.perf.kernels import threads
from tinytorch.perf.kernels.convolution import SCRATCH, correlate, pack_adjoint, pack_weights, sum_weights
from tinytorch.perf.kernels.tiles import COLUMNS, LANES, ROWS

#: Floats of padded images that are held at a time: with their weights they stay in a second cache.
_CHUNK = 65_536
#: About how long a multiply-accumulate takes, in nanoseconds.
_NS = 0.009


class Geometry(NamedTuple):
    """What decides a convolution's loops: shapes of channels-last maps and of weights, and how the window moves."""

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
def _forward_pass(geometry: Geometry) -> Pass:
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
    return Pass(np.array([*source, *grid, *window, *target], np.int64), chunk * floats, np.empty(0, np.int64), 0)


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
        down, right = (
            _axis_taps(
                length,
                geometry.weight[2 + axis],
                geometry.stride[axis],
                geometry.padding[axis],
                geometry.dilation[axis],
                phase[axis],
            )
            for axis, length in enumerate((height, width))
        )
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
        plan = np.array([*source, *grid, *window, first, *steps], np.int64)
        passes.append(Pass(plan, chunk * floats, order.reshape(-1), chosen))
    return tuple(passes)


def _shares(items: int, macs: int) -> tuple[int, float]:
    """Return into how many shares to cut the work, and the nanoseconds of each."""
    ns = macs * _NS
    shares = threads.shares(items, ns)
    return shares, ns / shares


def _correlated(one: Pass, macs: int, maps: Array, panels: Array, bias: Array, target: Array) -> None:
    shares, ns = _shares(int(one.plan[0]), macs)
    memory = np.empty((shares, SCRATCH + one.padded), np.float32)
    threads.split(correlate, shares, ns, shares, maps.reshape(-1), panels, bias, target.reshape(-1), one.plan, memory)


def _panels(groups: int, reduction: int, columns: int) -> Array:
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
    if not fits or not x.size or any(array.dtype != np.float32 for array in (x, *others)):
        return ops.conv2d.reference.forward(
            keep, x, *others, stride=stride, padding=padding, dilation=dilation, groups=groups
        )
    positions = output_positions(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    maps, weight = channels_last(x), np.ascontiguousarray(weight)
    geometry = Geometry(maps.shape, weight.shape, positions, stride, padding, dilation, groups)
    out, each, high, wide = weight.shape
    panels = _panels(groups, each * high * wide, out // groups)
    pack_weights(panels, weight.reshape(-1), groups, out // groups, each, high * wide)
    output = np.empty((len(maps), *positions, out), np.float32)
    added = np.zeros(out, np.float32) if bias is None else np.ascontiguousarray(bias)
    _correlated(_forward_pass(geometry), geometry.macs, maps, panels, added, output)
    return channels_first(output), (geometry, maps, weight) if keep else ()


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
    return down, down_weight, np.dot(np.ones(len(rows), np.float32), rows) if needs[2] else None


def _image_gradient(geometry: Geometry, weight: Array, gradient: Array) -> Array:
    """Return the gradient (N, C, H, W) of the images: correlations of the output's gradient."""
    out, each, high, wide = weight.shape
    groups = geometry.groups
    passes = _adjoint_passes(geometry)
    # Between the positions of a stride some inputs may meet no tap.
    down = np.zeros(geometry.maps, np.float32) if geometry.stride != (1, 1) else np.empty(geometry.maps, np.float32)
    nothing = np.zeros(geometry.maps[3], np.float32)
    for one in passes:
        panels = _panels(groups, one.chosen * (out // groups), each)
        pack_adjoint(panels, weight.reshape(-1), groups, out // groups, each, high * wide, one.order, one.chosen)
        _correlated(one, geometry.macs // len(passes), gradient, panels, nothing, down)
    return channels_first(down)


def _weight_gradient(geometry: Geometry, maps: Array, gradient: Array) -> Array:
    """Return the gradient (O, C / groups, kh, kw) of the weights."""
    one = _forward_pass(geometry)
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
