"""Attention that never stores the score matrix, forward: blocks of queries, an online softmax over blocks of keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.perf.kernels.attention.vectors import INFINITE_BITS, largest_bits, weigh
from tinytorch.perf.kernels.gemm.register_tiles import COLUMNS, LANES, ROWS, tile, transpose
from tinytorch.perf.kernels.gemm.row_products import long_dot
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.vector_math import exp_of_negative

#: Queries and keys of a block: two panels of queries, whose scores with a block of keys stay in the first cache.
PANELS = 2
QUERIES = PANELS * COLUMNS
KEYS = 64
#: Places in a plan: sizes, then offset and steps of batch, head and position of queries, keys, values and output.
HEADS, QUERY_COUNT, KEY_COUNT, DEPTH, CAUSAL, Q, K, V, OUT = 0, 1, 2, 3, 4, 5, 9, 13, 17
PLAN = 21
_BELOW_ALL = np.float32(-np.inf)


@kernel
def rounded(count: Any, multiple: Any) -> Any:
    """Return the next multiple of ``multiple`` that is at least ``count``."""
    return (count + multiple - 1) // multiple * multiple


@kernel
def place(plan: Any, operand: Any, item: Any) -> Any:
    """Return where the rows of one head of one image begin in an operand."""
    heads = plan[HEADS]
    return plan[operand] + item // heads * plan[operand + 1] + item % heads * plan[operand + 2]


@kernel
def copy_rows(target: Any, target_at: Any, source: Any, at: Any, step: Any, rows: Any, depth: Any, padded: Any) -> None:
    """Copy rows of ``depth`` into rows of the rounded depth, zeros at the end, and rows of zeros up to ``padded``."""
    wide = rounded(depth, LANES)
    for row in range(rows):
        for column in range(depth):
            target[target_at + row * wide + column] = source[at + row * step + column]
        for column in range(depth, wide):
            target[target_at + row * wide + column] = 0
    target[target_at + rows * wide : target_at + padded * wide] = 0


@kernel
def copy_panel(
    target: Any, target_at: Any, width: Any, places: Any, source: Any, at: Any, step: Any, rows: Any, depth: Any
) -> None:
    """Write up to `LANES` rows as columns, target[target_at + column * width + row], zeros for what is missing.

    ``places`` is scratch of `LANES` int64. The columns are rounded up to `LANES`.
    """
    for column in range(LANES):
        places[column] = column * width
    for column in range(0, depth, LANES):
        transpose(target, target_at + column * width, places, source, at + column, step, rows, depth - column)


@kernel
def copy_panels(target: Any, places: Any, source: Any, at: Any, step: Any, rows: Any, depth: Any) -> None:
    """Write rows as panels of `LANES` of them: [panel][column][row]."""
    wide = rounded(depth, LANES)
    for row in range(0, rows, LANES):
        copy_panel(target, row * wide, LANES, places, source, at + row * step, step, rows - row, depth)


@kernel
def copy_queries(target: Any, places: Any, source: Any, at: Any, step: Any, rows: Any, depth: Any, scale: Any) -> None:
    """Write ``scale`` times up to `QUERIES` rows as panels of `COLUMNS` of them, zeros for those missing."""
    wide = rounded(depth, LANES)
    for row in range(0, rounded(rows, COLUMNS), LANES):
        begin = row // COLUMNS * COLUMNS * wide + row % COLUMNS
        copy_panel(target, begin, COLUMNS, places, source, at + row * step, step, rows - row, depth)
    for i in range(rounded(rows, COLUMNS) * wide):
        target[i] *= scale


@kernel
def scores(
    target: Any, panels: Any, x: Any, first: Any, keys: Any, y: Any, depth: Any, rows: Any, target_rows: Any, few: Any
) -> None:
    """Fill target[panel][key][query] with products of ``keys`` columns of x from ``first`` on, and query panels y."""
    for panel in range(panels):
        for key in range(0, keys, ROWS):
            begin = (first + key) // LANES * LANES * rounded(depth, LANES) + (first + key) % LANES
            at, y_at = (panel * KEYS + key) * COLUMNS, panel * COLUMNS * rounded(depth, LANES)
            counts, steps, y_steps = (1, 1, depth), (0, 0, LANES), (0, 0, COLUMNS)
            if few:
                tile(1, 0, target, at, target_rows, x, begin, rows, y, y_at, counts, steps, y_steps)
            else:
                tile(2, 0, target, at, target_rows, x, begin, rows, y, y_at, counts, steps, y_steps)


@kernel
def hide(target: Any, queries: Any, begin: Any, keys: Any, padded: Any) -> None:
    """Add minus infinity to scores of keys that a query must not see: key > query + ``begin``, and those padded."""
    for panel in range((queries + COLUMNS - 1) // COLUMNS):
        at = panel * KEYS * COLUMNS
        for key in range(max(0, panel * COLUMNS + begin + 1), keys):
            for lane in range(min(COLUMNS, key - begin - panel * COLUMNS)):
                target[at + key * COLUMNS + lane] += _BELOW_ALL
        target[at + keys * COLUMNS : at + padded * COLUMNS] = _BELOW_ALL


@kernel
def weighted_sum(
    target: Any, queries: Any, weights: Any, keys: Any, y: Any, y_at: Any, depth: Any, rows: Any, target_rows: Any
) -> None:
    """Add sum over keys of weights[panel][key][query] * y[key] to each query's row of target."""
    wide = rounded(depth, LANES)
    for column in range(0, wide, COLUMNS):
        for query in range(0, queries, ROWS):
            x_at = query // COLUMNS * KEYS * COLUMNS + query % COLUMNS
            at, from_at = query * wide + column, y_at + column
            counts, steps, y_steps = (1, 1, keys), (0, 0, COLUMNS), (0, 0, wide)
            if wide - column < COLUMNS:
                tile(1, 1, target, at, target_rows, weights, x_at, rows, y, from_at, counts, steps, y_steps)
            else:
                tile(2, 1, target, at, target_rows, weights, x_at, rows, y, from_at, counts, steps, y_steps)


@kernel
def multiply_rows(target: Any, queries: Any, wide: Any, factors: Any) -> None:
    """Multiply each query's row by its factor, if that is not 1."""
    for query in range(queries):
        factor = factors[query]
        if factor != np.float32(1):
            for column in range(wide):
                target[query * wide + column] *= factor


@kernel
def attend_queries(
    query: Any, rows: Any, packed: Any, plan: Any, head: Any, finite: Any, scratch: Any, offsets: Any, out: Any
) -> None:
    """Attend ``rows`` queries from ``query`` on over packed keys and values; leave sums, maxima and output rows."""
    keys, depth = plan[KEY_COUNT], plan[DEPTH]
    columns, values = packed
    panel, block, output, highest, sums, factors = scratch
    _, straight, wide_rows, score_rows = offsets
    wide = rounded(depth, LANES)
    panels = (rows + COLUMNS - 1) // COLUMNS
    few = rows <= LANES
    highest[:], sums[:] = _BELOW_ALL, 0
    output[: rounded(rows, ROWS) * wide] = 0
    begin = keys - plan[QUERY_COUNT] + query if plan[CAUSAL] else keys
    visible = min(keys, begin + rows) if finite else keys
    for first in range(0, visible, KEYS):
        count = min(KEYS, visible - first)
        padded = rounded(count, ROWS)
        scores(block, panels, columns, first, padded, panel, depth, straight, score_rows, few)
        if padded > count or first + count > begin + 1:
            hide(block, rows, begin - first, count, padded)
        for lane in range(0, rows, LANES):
            at = lane // COLUMNS * KEYS * COLUMNS + lane % COLUMNS
            weigh(block, at, padded, COLUMNS, highest, sums, factors, lane)
        if first:
            multiply_rows(output, rows, wide, factors)
        weighted_sum(output, rows, block, count, values, first * wide, depth, straight, wide_rows)
    at = place(plan, OUT, head) + query * plan[OUT + 3]
    for row in range(rows):
        inverse = np.float32(1) / sums[row]
        for column in range(depth):
            out[at + row * plan[OUT + 3] + column] = output[row * wide + column] * inverse


@kernel
def row_offsets(depth: Any) -> Any:
    """Return scratch for places, and offsets of rows: next to each other, of output, and of scores."""
    straight = np.arange(LANES)
    return np.empty(LANES, np.int64), straight, straight * rounded(depth, LANES), straight * COLUMNS


@kernel
def scratch_sizes(keys: Any, depth: Any) -> Any:
    """Return the floats that a share of the work needs: key columns, values, query panel, block of scores, output."""
    wide = rounded(depth, LANES)
    return rounded(keys, LANES) * wide, keys * wide, QUERIES * wide, KEYS * QUERIES, QUERIES * wide


@kernel
def attend(
    start: Any, stop: Any, shares: Any, q: Any, k: Any, v: Any, out: Any, statistics: Any, plan: Any, memory: Any
) -> None:
    """Attend the blocks of queries of shares ``start`` to ``stop`` of ``shares``.

    ``memory`` is (shares, floats of scratch). ``statistics``, if not empty, gets each query's largest score and
    1 / the sum of its weights: flat (2, B, H, T).
    """
    queries, keys, depth = plan[QUERY_COUNT], plan[KEY_COUNT], plan[DEPTH]
    blocks = (queries + QUERIES - 1) // QUERIES
    total = out.size // (queries * depth) * blocks
    sizes = scratch_sizes(keys, depth)
    offsets = row_offsets(depth)
    scale = np.float32(1 / np.sqrt(depth))
    for share in range(start, stop):
        mine = memory[share]
        end = np.cumsum(np.array(sizes))
        packed = mine[: end[0]], mine[end[0] : end[1]]
        rest = np.empty(3 * QUERIES, np.float32)
        scratch = (
            mine[end[1] : end[2]],
            mine[end[2] : end[3]],
            mine[end[3] : end[4]],
            rest[:QUERIES],
            rest[QUERIES : 2 * QUERIES],
            rest[2 * QUERIES :],
        )
        held, finite = -1, True
        for item in range(share * total // shares, (share + 1) * total // shares):
            head, turn = item // blocks, item % blocks
            if head != held:
                copy_panels(packed[0], offsets[0], k, place(plan, K, head), plan[K + 3], keys, depth)
                copy_rows(packed[1], 0, v, place(plan, V, head), plan[V + 3], keys, depth, keys)
                if plan[CAUSAL]:
                    finite = (
                        max(largest_bits(packed[0], packed[0].size), largest_bits(packed[1], packed[1].size))
                        < INFINITE_BITS
                    )
                held = head
            # From both ends in turns: the last queries of causal attention see more keys than the first.
            query = (blocks - 1 - turn // 2 if turn % 2 else turn // 2) * QUERIES
            rows = min(QUERIES, queries - query)
            copy_queries(
                scratch[0], offsets[0], q, place(plan, Q, head) + query * plan[Q + 3], plan[Q + 3], rows, depth, scale
            )
            attend_queries(query, rows, packed, plan, head, finite, scratch, offsets, out)
            if statistics.size:
                at, half = head * queries + query, statistics.size // 2
                statistics[at : at + rows] = scratch[3][:rows]
                for row in range(rows):
                    statistics[half + at + row] = np.float32(1) / scratch[4][row]


@kernel
def attend_one(
    start: Any, stop: Any, shares: Any, q: Any, k: Any, v: Any, out: Any, statistics: Any, plan: Any, memory: Any
) -> None:
    """Do what `attend` does where each head has one query, which sees all keys: no vector of queries to fill.

    ``memory`` is (shares, keys).
    """
    keys, depth = plan[KEY_COUNT], plan[DEPTH]
    heads = out.size // depth
    scale = np.float32(1 / np.sqrt(depth))
    for share in range(start, stop):
        weights = memory[share]
        for head in range(share * heads // shares, (share + 1) * heads // shares):
            query, out_at = place(plan, Q, head), place(plan, OUT, head)
            at = place(plan, K, head)
            highest, total = _BELOW_ALL, np.float32(0)
            for key in range(keys):
                weights[key] = long_dot(q, query, k, at, depth) * scale
                highest = max(highest, weights[key])
                at += plan[K + 3]
            for key in range(keys):
                weights[key] = exp_of_negative(weights[key] - highest)
            for key in range(keys):
                total += weights[key]
            inverse = np.float32(1) / total
            sum_of_rows(out, out_at, weights, keys, v, place(plan, V, head), plan[V + 3], depth)
            for column in range(depth):
                out[out_at + column] *= inverse
            if statistics.size:
                statistics[head], statistics[heads + head] = highest, inverse


@kernel
def sum_of_rows(out: Any, out_at: Any, weights: Any, keys: Any, v: Any, v_at: Any, step: Any, depth: Any) -> None:
    """Write the weighted sum of rows, four at a time, so that sums go through memory a quarter as often."""
    row = out[out_at : out_at + depth]
    row[:] = 0
    whole = keys // 4 * 4
    for key in range(0, whole, 4):
        at = v_at + key * step
        a, b = v[at : at + depth], v[at + step : at + step + depth]
        c, d = v[at + 2 * step : at + 2 * step + depth], v[at + 3 * step : at + 3 * step + depth]
        for column in range(depth):
            both = weights[key] * a[column] + weights[key + 1] * b[column]
            row[column] += both + (weights[key + 2] * c[column] + weights[key + 3] * d[column])
    for key in range(whole, keys):
        for column in range(depth):
            row[column] += weights[key] * v[v_at + key * step + column]
