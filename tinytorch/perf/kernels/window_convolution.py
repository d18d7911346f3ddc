"""Frozen convolutions in one call: a few images go through all layers while their maps are in the second cache."""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

import numpy as np

from tinytorch.core.op import Array, Implementation, Saved
from tinytorch.core.ops.layout import channels_last
from tinytorch.perf.acceleration.fused_convolution import (
    Stages,
    Traced,
    convolution_places,
    output_shape,
    packed_convolutions,
    traced,
)
from tinytorch.perf.kernels.gemm.packed_matmul import FLOPS_PER_NS, writable
from tinytorch.perf.kernels.gemm.packing import aligned_empty
from tinytorch.perf.kernels.gemm.register_tiles import COLUMNS, LANES, ROWS
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.window_tables import LINE, Window, tiles_of
from tinytorch.perf.kernels.window_tiles import window_tile
from tinytorch.perf.ops.fused import Layout, no_backward

#: How panels are laid out: a tile's vector, and two of them.
LAYOUT: Layout = (LANES, 2)
#: Floats of a share's maps: half a second cache of 1 MiB.
_FLOATS = 131_072
#: Places in a stage's line of a plan. Tables come twice: for whole blocks of images and for the last one.
CHANNELS, OUT, FILLED, RELU, PANELS, BIAS, POSITIONS, MADE, POOL, POOL_STRIDE, POOL_PADDING = (
    *range(6),
    *range(6, 16, 2),
)
LINES, TILES, ENTRIES = range(16, 22, 2)
FIELDS = 22
_scratch = threading.local()


@kernel
def run_stage(weights: Any, stage: Any, tables: Any, last: Any, source: Any, target: Any, target_at: Any) -> None:
    """Convolve a block of images from ``source`` into ``target`` from ``target_at`` on."""
    channels, filled, relu = stage[CHANNELS], stage[FILLED], stage[RELU]
    first, entries = stage[LINES + last], stage[ENTRIES + last]
    bias = weights[stage[BIAS] :]
    into = target[target_at:]
    taps = (stage[BIAS] - stage[PANELS]) // filled // channels
    panels = (filled + COLUMNS - 1) // COLUMNS
    for panel in range(panels):
        # Widths differ by one vector at most, as in `panels.panel_bounds`.
        column = panel * (filled // LANES) // panels * LANES
        wide = (panel + 1) * (filled // LANES) // panels * LANES - column
        packed = weights[stage[PANELS] + taps * channels * column :]
        for number in range(stage[TILES + last]):
            at = first + number * LINE
            begin, count = entries + tables[at], tables[at + 1]
            if wide > LANES:
                window_tile(2, relu, into, column, source, 0, packed, bias, tables, at + 2, begin, count, channels)
            else:
                window_tile(1, relu, into, column, source, 0, packed, bias, tables, at + 2, begin, count, channels)


@kernel
def pool_block(maps: Any, images: Any, stage: Any, target: Any, target_at: Any) -> None:
    """Write the maximum of each window of ``maps`` (images, *positions, filled), flat; NaN where one is in it."""
    height, width, rows, columns = stage[POSITIONS], stage[POSITIONS + 1], stage[MADE], stage[MADE + 1]
    filled = stage[FILLED]
    for position in range(images * rows * columns):
        image, rest = position // (rows * columns), position % (rows * columns)
        top = rest // columns * stage[POOL_STRIDE] - stage[POOL_PADDING]
        left = rest % columns * stage[POOL_STRIDE + 1] - stage[POOL_PADDING + 1]
        at = target_at + position * filled
        most = target[at : at + filled]
        begun = False
        for y in range(max(top, 0), min(top + stage[POOL], height)):
            for x in range(max(left, 0), min(left + stage[POOL + 1], width)):
                here = ((image * height + y) * width + x) * filled
                pixel = maps[here : here + filled]
                if begun:
                    for c in range(filled):
                        above = pixel[c] > most[c] or pixel[c] != pixel[c]
                        most[c] = pixel[c] if above else most[c]
                else:
                    most[:] = pixel
                    begun = True


@kernel
def convolve_blocks(
    start: Any, stop: Any, shares: Any, x: Any, weights: Any, plan: Any, tables: Any, sizes: Any, memory: Any, out: Any
) -> None:
    """Take the blocks of images of shares ``start`` to ``stop`` of ``shares`` through all stages.

    ``sizes`` are images, images of a block, zeros before a map, and floats of each of three parts of a share's
    ``memory`` (shares, 3, floats): two for maps, and one for a map before its maxima.
    """
    images, block, zeros = sizes
    blocks = (images + block - 1) // block
    each, made = x.size // images, out.size // images
    for share in range(start, stop):
        source, target, before = memory[share, 0], memory[share, 1], memory[share, 2]
        source[:zeros], target[:zeros] = 0, 0
        for number in range(share * blocks // shares, (share + 1) * blocks // shares):
            first = number * block
            count = min(block, images - first)
            last = 1 if count < block else 0
            source[zeros : zeros + count * each] = x[first * each : (first + count) * each]
            for line in range(len(plan)):
                stage = plan[line]
                if stage[POOL]:
                    run_stage(weights, stage, tables, last, source, before, 0)
                    pool_block(before, count, stage, target, zeros)
                else:
                    run_stage(weights, stage, tables, last, source, target, zeros)
                source, target = target, source
            filled, real = plan[-1][FILLED], plan[-1][OUT]
            for pixel in range(count * made // real):
                at, begin = first * made + pixel * real, zeros + pixel * filled
                out[at : at + real] = source[begin : begin + real]


def _filled(channels: int) -> int:
    return -(-channels // LANES) * LANES


def _block(lines: list[Traced], images: int) -> int:
    """Return how many images go through the stages together: `ROWS` fill tiles of any size, if there is room."""
    floats = max(math.prod(line.positions) * _filled(line.stage.out) for line in lines)
    return max(1, min(ROWS, images, _FLOATS // floats))


class _Plan(NamedTuple):
    """What a call with images of some shape needs, made once: ``stages`` is kept, as plans are found by its identity.

    ``stage_lines`` and ``tables`` are what the kernel reads; ``sizes`` are its images, images of a block and zeros;
    ``floats`` those of a part of its memory; ``made`` is the output's shape in memory and ``shape`` the op's.
    """

    stages: Stages
    stage_lines: Array
    tables: Array
    sizes: tuple[int, int, int]
    floats: int
    macs: int
    made: tuple[int, ...]
    shape: tuple[int, ...]


#: Plans by shape of the images and identity of the stages: to hash what the stages hold would take longer than to run.
_plans: dict[tuple[tuple[int, ...], int], _Plan] = {}
_MOST_PLANS = 64


def _planned(shape: tuple[int, ...], stages: Stages) -> _Plan:
    plan = _plans.get((shape, id(stages)))
    if plan is None:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        plan = _plans[shape, id(stages)] = _plan(shape, stages)
    return plan


def _plan(shape: tuple[int, ...], stages: Stages) -> _Plan:
    lines = traced(shape, stages)
    block = _block(lines, shape[0])
    zeros = max(_filled(line.stage.channels) for line in lines)
    plan, tables, at = np.zeros((len(lines), FIELDS), np.int64), [], 0
    step, floats = shape[1], block * math.prod(shape[1:])
    for line, row, (panels, bias, _) in zip(lines, plan, convolution_places(stages, LAYOUT), strict=True):
        stage, filled = line.stage, _filled(line.stage.out)
        windows = (*line.positions, *line.made, *stage.pool, *stage.pool_stride, *stage.pool_padding)
        row[:LINES] = stage.channels, stage.out, filled, stage.relu, panels, bias, *windows
        for last, images in enumerate((block, shape[0] % block)):
            if not images:
                continue
            window = Window(line.size, line.kernel, line.positions, stage.stride, stage.padding, stage.dilation)
            made, entries = tiles_of(window, images, (step, filled), zeros)
            row[LINES + last], row[TILES + last], row[ENTRIES + last] = at, len(made), at + made.size
            tables += [made.reshape(-1), entries.reshape(-1)]
            at += made.size + entries.size
        floats = max(floats, block * math.prod(line.positions) * filled)
        step = filled
    macs = sum(math.prod(line.positions) * math.prod(line.stage[:2]) * line.stage.taps for line in lines)
    out = output_shape(shape, stages)
    sizes = (shape[0], block, zeros)
    made_shape = (out[0], *out[2:], out[1])
    return _Plan(stages, plan, np.concatenate(tables), sizes, zeros + floats, macs * shape[0], made_shape, out)


def _memory(shares: int, floats: int) -> Array:
    """Return (shares, 3, floats) of any value; kept for the thread's next call, as new pages would take longer."""
    kept: Array | None = getattr(_scratch, "memory", None)
    size = shares * 3 * floats
    if kept is None or kept.size < size:
        kept = aligned_empty(size)
        if floats <= 2 * _FLOATS:
            _scratch.memory = kept
    return kept[:size].reshape(shares, 3, floats)


def _forward(keep: bool, x: Array, weights: Array, *, stages: Stages, layout: Layout) -> tuple[Array, Saved]:
    """All stages in one call, for float32 and panels of this CPU's layout; others go to the op's reference."""
    if layout != LAYOUT or x.dtype != np.float32 or not x.size:
        return packed_convolutions.reference.forward(keep, x, weights, stages=stages, layout=layout)
    plan = _planned(x.shape, stages)
    out = np.empty(plan.made, np.float32)
    ns = 2.0 * plan.macs / FLOPS_PER_NS
    shares = threads.shares(-(-plan.sizes[0] // plan.sizes[1]), ns)
    maps = writable(channels_last(x)).reshape(-1)
    lines, memory = (plan.stage_lines, plan.tables, plan.sizes), _memory(shares, plan.floats)
    threads.split(convolve_blocks, shares, ns / shares, shares, maps, weights, *lines, memory, out.reshape(-1))
    return out.transpose(0, 3, 1, 2) if out.ndim == 4 else out, ()


IMPLEMENTATIONS = {packed_convolutions: Implementation("numba", _forward, no_backward)}
# Panels are made for the kernel, so it runs also outside of accelerated().
packed_convolutions.selected = IMPLEMENTATIONS[packed_convolutions]
