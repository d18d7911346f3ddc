"""Convolution as products of register tiles: windows are read where they lie, no matrix of them is made.

Each row of a tile is one position of the window, found through its offset. Source: M. Dukhan, The Indirect Convolution
Algorithm, arXiv:1907.02129.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.tiles import COLUMNS, LANES, ROWS, tile, transpose

#: Places in a plan of `correlate`: the source (images, rows, columns, channels, zeros above and left, padded sizes),
IMAGES, HEIGHT, WIDTH, CHANNELS, TOP, LEFT, PADDED_ROWS, PADDED_COLUMNS = range(8)
#: the positions (rows, columns, and the first one and the distance of two in the padded source),
GRID_ROWS, GRID_COLUMNS, FIRST_ROW, FIRST_COLUMN, ROW_STEP, COLUMN_STEP = range(8, 14)
#: groups, channels of a group in and out, taps of the window, their distance, and images padded at a time,
GROUPS, EACH, OUTS, TAP_ROWS, TAP_COLUMNS, TAP_ROW_STEP, TAP_COLUMN_STEP, CHUNK = range(14, 22)
#: and where the target's positions lie, in elements: the first, and the distance of images, rows and columns.
TARGET, TARGET_IMAGE, TARGET_ROW, TARGET_COLUMN = range(22, 26)
SCRATCH = ROWS * COLUMNS


@kernel
def pad_images(padded: Any, maps: Any, first: Any, count: Any, plan: Any) -> None:
    """Copy ``count`` images from ``first`` on into the middle of their padded places; the borders stay."""
    row = plan[WIDTH] * plan[CHANNELS]
    wide = plan[PADDED_COLUMNS] * plan[CHANNELS]
    for image in range(count):
        at = (image * plan[PADDED_ROWS] + plan[TOP]) * wide + plan[LEFT] * plan[CHANNELS]
        begin = (first + image) * plan[HEIGHT] * row
        for y in range(plan[HEIGHT]):
            padded[at + y * wide : at + y * wide + row] = maps[begin + y * row : begin + y * row + row]


@kernel
def locate(x_rows: Any, target_rows: Any, position: Any, last: Any, first: Any, plan: Any) -> None:
    """Find `ROWS` positions from ``position`` on in the padded images and in the target; ``last`` stands for more."""
    area = plan[GRID_ROWS] * plan[GRID_COLUMNS]
    image, rest = position // area, position % area
    y, x = rest // plan[GRID_COLUMNS], rest % plan[GRID_COLUMNS]
    for row in range(ROWS):
        source_y = image * plan[PADDED_ROWS] + plan[FIRST_ROW] + y * plan[ROW_STEP]
        source_x = plan[FIRST_COLUMN] + x * plan[COLUMN_STEP]
        x_rows[row] = (source_y * plan[PADDED_COLUMNS] + source_x) * plan[CHANNELS]
        target_rows[row] = (
            plan[TARGET] + (first + image) * plan[TARGET_IMAGE] + y * plan[TARGET_ROW] + x * plan[TARGET_COLUMN]
        )
        if position + row < last:
            x += 1
            if x == plan[GRID_COLUMNS]:
                x, y = 0, y + 1
                if y == plan[GRID_ROWS]:
                    y, image = 0, image + 1


@kernel
def correlate_positions(
    padded: Any, panels: Any, bias: Any, target: Any, x_rows: Any, target_rows: Any, rows: Any, scratch: Any, plan: Any
) -> None:
    """Make all channels of the first ``rows`` of `ROWS` positions."""
    own_rows, block = scratch
    each, outs, channels = plan[EACH], plan[OUTS], plan[CHANNELS]
    wide = plan[PADDED_COLUMNS] * channels
    taps = plan[TAP_COLUMNS]
    if plan[TAP_COLUMN_STEP] == 1 and plan[GROUPS] == 1:
        counts = (plan[TAP_ROWS], 1, taps * each)
    else:
        counts = (plan[TAP_ROWS], taps, each)
    steps = (plan[TAP_ROW_STEP] * wide, plan[TAP_COLUMN_STEP] * channels, 1)
    y_steps = (taps * each * COLUMNS, each * COLUMNS, COLUMNS)
    size = plan[TAP_ROWS] * taps * each * COLUMNS
    at = 0
    for group in range(plan[GROUPS]):
        for column in range(0, outs, COLUMNS):
            count = min(COLUMNS, outs - column)
            if count <= LANES:
                tile(1, 0, block, 0, own_rows, padded, group * each, x_rows, panels, at, counts, steps, y_steps)
            else:
                tile(2, 0, block, 0, own_rows, padded, group * each, x_rows, panels, at, counts, steps, y_steps)
            first = group * outs + column
            for row in range(rows):
                begin = target_rows[row] + first
                for lane in range(count):
                    target[begin + lane] = block[row * COLUMNS + lane] + bias[first + lane]
            at += size


@kernel
def correlate(
    start: Any, stop: Any, shares: Any, maps: Any, panels: Any, bias: Any, target: Any, plan: Any, memory: Any
) -> None:
    """Correlate the images of shares ``start`` to ``stop`` of ``shares`` with a window of weights, and add ``bias``.

    ``maps`` and ``target`` are channels-last and flat, ``panels`` is what `pack_weights` or `pack_adjoint` made.
    ``memory`` is (shares, chunk of padded images + `SCRATCH`).
    """
    area = plan[GRID_ROWS] * plan[GRID_COLUMNS]
    chunk = plan[CHUNK]
    x_rows, target_rows = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
    own_rows = np.arange(ROWS) * COLUMNS
    for share in range(start, stop):
        block, padded = memory[share][:SCRATCH], memory[share][SCRATCH:]
        padded[:] = 0
        first, end = share * plan[IMAGES] // shares, (share + 1) * plan[IMAGES] // shares
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

    ``panels`` has `LANES` floats more than that, into which missing columns go.
    """
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
    into which all others go.
    """
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
    start: Any, stop: Any, shares: Any, maps: Any, gradient: Any, down: Any, plan: Any, memory: Any
) -> None:
    """Fill the weights' gradient (groups * outs, each, taps), flat, in the rows of shares ``start`` to ``stop``.

    ``gradient`` is channels-last and flat, with `COLUMNS` floats behind it that are read and not used. ``memory`` is
    (shares, sums [row][column] of a group's tiles + chunk of padded images).
    """
    each, outs, channels = plan[EACH], plan[OUTS], plan[CHANNELS]
    taps = plan[TAP_ROWS] * plan[TAP_COLUMNS]
    reduction = each * taps
    wide = (outs + COLUMNS - 1) // COLUMNS * COLUMNS
    tiles = (reduction + ROWS - 1) // ROWS
    out = plan[GROUPS] * outs
    area = plan[GRID_ROWS] * plan[GRID_COLUMNS]
    row = plan[PADDED_COLUMNS] * channels
    x_rows, own_rows = np.empty(ROWS, np.int64), np.arange(ROWS) * wide
    steps = (plan[PADDED_ROWS] * row, plan[ROW_STEP] * row, plan[COLUMN_STEP] * channels)
    y_steps = (area * out, plan[GRID_COLUMNS] * out, out)
    for share in range(start, stop):
        first, end = share * tiles // shares, (share + 1) * tiles // shares
        room = (tiles + shares - 1) // shares * ROWS * wide
        sums, padded = memory[share][: plan[GROUPS] * room], memory[share][plan[GROUPS] * room :]
        sums[:], padded[:] = 0, 0
        for image in range(0, plan[IMAGES], plan[CHUNK]):
            count = min(plan[CHUNK], plan[IMAGES] - image)
            pad_images(padded, maps, image, count, plan)
            counts = (count, plan[GRID_ROWS], plan[GRID_COLUMNS])
            for group in range(plan[GROUPS]):
                for number in range(first, end):
                    for lane in range(ROWS):
                        place = min(number * ROWS + lane, reduction - 1)
                        channel, tap = place // taps, place % taps
                        y = tap // plan[TAP_COLUMNS] * plan[TAP_ROW_STEP]
                        x = tap % plan[TAP_COLUMNS] * plan[TAP_COLUMN_STEP]
                        x_rows[lane] = y * row + x * channels + group * each + channel
                    for column in range(0, outs, COLUMNS):
                        at = group * room + (number - first) * ROWS * wide + column
                        y_at = image * area * out + group * outs + column
                        if outs - column <= LANES:
                            tile(1, 1, sums, at, own_rows, padded, 0, x_rows, gradient, y_at, counts, steps, y_steps)
                        else:
                            tile(2, 1, sums, at, own_rows, padded, 0, x_rows, gradient, y_at, counts, steps, y_steps)
        for group in range(plan[GROUPS]):
            write_weights(down, sums, group * room, wide, group, first * ROWS, min(end * ROWS, reduction), plan)


@kernel
def write_weights(down: Any, sums: Any, at: Any, wide: Any, group: Any, first: Any, end: Any, plan: Any) -> None:
    """Write sums [row][output], whose first row is ``first``, as rows of outputs."""
    outs = plan[OUTS]
    reduction = plan[EACH] * plan[TAP_ROWS] * plan[TAP_COLUMNS]
    places = np.arange(LANES) * reduction
    whole = (end - first) // LANES * LANES if outs % LANES == 0 else 0
    for row in range(0, whole, LANES):
        for out in range(0, outs, LANES):
            into = (group * outs + out) * reduction + first + row
            transpose(down, into, places, sums, at + row * wide + out, wide, LANES, LANES)
    for row in range(whole, end - first):
        for out in range(outs):
            down[(group * outs + out) * reduction + first + row] = sums[at + row * wide + out]
