"""Gradients of attention without its score matrix: scores are made again, block by block, from saved statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.perf.kernels.attention.forward import (
    INFINITE_BITS,
    KEYS,
    QUERIES,
    copy_panels,
    copy_queries,
    copy_rows,
    hide,
    largest_bits,
    place,
    plans_of,
    rounded,
    row_offsets,
    scores,
    slope,
    weighted_sum,
)
from tinytorch.perf.kernels.gemm.register_tiles import COLUMNS, LANES, ROWS, tile
from tinytorch.perf.kernels.gemm.row_products import long_dot
from tinytorch.perf.kernels.runtime.compiling import kernel


@kernel
def backward_sizes(keys: Any, depth: Any) -> Any:
    """Return the floats that a share needs.

    Key and value columns, key rows, gradients of keys and values; query and gradient panels, query and gradient rows,
    the queries' gradient; two blocks of scores.
    """
    wide = rounded(depth, LANES)
    every, few, block = rounded(keys, KEYS) * wide, QUERIES * wide, KEYS * QUERIES
    return every, every, every, every, every, few, few, few, few, few, block, block


@kernel
def transposed_sum(
    target: Any, first: Any, keys: Any, weights: Any, panels: Any, y: Any, depth: Any, rows: Any, target_rows: Any
) -> None:
    """Add sum over queries of weights[panel][key][query] * y[query] to each key's row of target from ``first`` on.

    ``rows`` are the offsets of the keys' rows of a panel.
    """
    wide = rounded(depth, LANES)
    for column in range(0, wide, COLUMNS):
        for key in range(0, keys, ROWS):
            x_at, at = key * COLUMNS, (first + key) * wide + column
            counts, steps = (1, panels, COLUMNS), (0, KEYS * COLUMNS, 1)
            y_steps = (0, COLUMNS * wide, wide)
            width = 1 if wide - column < COLUMNS else 2
            tile(width, 1, target, at, target_rows, weights, x_at, rows, y, column, counts, steps, y_steps)


@kernel
def write_rows(target: Any, at: Any, step: Any, source: Any, rows: Any, depth: Any, scale: Any) -> None:
    """Write ``scale`` times rows of the rounded depth into rows of ``depth``."""
    wide = rounded(depth, LANES)
    for row in range(rows):
        for column in range(depth):
            target[at + row * step + column] = source[row * wide + column] * scale


@kernel
def query_statistics(
    query: Any, rows: Any, head: Any, plan: Any, gradient: Any, output: Any, statistics: Any, held: Any
) -> None:
    """Fill ``held`` with each query's largest score, inverse sum, and product of gradient and output; zeros beyond."""
    highest, inverse, along = held
    half, first = statistics.size // 2, head * plan.queries + query
    at = place(plan, plan.out, head) + query * plan.out.position
    for row in range(QUERIES):
        highest[row], inverse[row], along[row] = 0, 0, 0
    for row in range(rows):
        low = statistics[first + row]
        # As in forward: a query to which every score is minus infinity has no weights to shift.
        highest[row] = np.float32(0) if low == -np.inf else low
        inverse[row] = statistics[half + first + row]
        begin = at + row * plan.out.position
        along[row] = long_dot(gradient, begin, output, begin, plan.depth)


@kernel
def query_block(query: Any, rows: Any, finite: Any, keyed: Any, owned: Any, held: Any, offsets: Any, plan: Any) -> None:
    """Add what ``rows`` queries from ``query`` on give to the gradients of keys and values; make their own."""
    keys, depth = plan.keys, plan.depth
    key_columns, value_columns, key_rows, down_keys, down_values = keyed
    query_panel, gradient_panel, query_rows, gradient_rows, down_queries, weights, slopes = owned
    highest, inverse, along = held
    _, straight, wide_rows, score_rows = offsets
    wide = rounded(depth, LANES)
    panels = (rows + COLUMNS - 1) // COLUMNS
    few = False
    down_queries[: rounded(rows, ROWS) * wide] = 0
    begin = keys - plan.queries + query if plan.is_causal else keys
    visible = min(keys, begin + rows) if finite else keys
    for first in range(0, visible, KEYS):
        count = min(KEYS, visible - first)
        padded = rounded(count, ROWS)
        scores(weights, panels, key_columns, first, padded, query_panel, depth, straight, score_rows, few)
        scores(slopes, panels, value_columns, first, padded, gradient_panel, depth, straight, score_rows, few)
        if padded > count or first + count > begin + 1:
            hide(weights, rows, begin - first, count, padded)
        for lane in range(0, panels * COLUMNS, LANES):
            at = lane // COLUMNS * KEYS * COLUMNS + lane % COLUMNS
            slope(weights, slopes, at, padded, COLUMNS, (highest, inverse, along), lane)
        weighted_sum(down_queries, rows, slopes, count, key_rows, first * wide, depth, straight, wide_rows)
        transposed_sum(down_keys, first, padded, slopes, panels, query_rows, depth, score_rows, wide_rows)
        transposed_sum(down_values, first, padded, weights, panels, gradient_rows, depth, score_rows, wide_rows)


@kernel
def load_keys(head: Any, k: Any, v: Any, keyed: Any, straight: Any, plan: Any) -> Any:
    """Copy a head's keys and values, empty their gradients, and return whether all are finite."""
    keys, depth = plan.keys, plan.depth
    k_at, v_at = place(plan, plan.k, head), place(plan, plan.v, head)
    copy_panels(keyed[0], straight, k, k_at, plan.k.position, keys, depth)
    copy_panels(keyed[1], straight, v, v_at, plan.v.position, keys, depth)
    copy_rows(keyed[2], 0, k, k_at, plan.k.position, keys, depth, keys)
    for i in range(rounded(keys, ROWS) * rounded(depth, LANES)):
        keyed[3][i], keyed[4][i] = 0, 0
    packed = rounded(keys, LANES) * rounded(depth, LANES)
    return max(largest_bits(keyed[0], packed), largest_bits(keyed[1], packed)) < INFINITE_BITS


@kernel
def load_queries(
    query: Any, rows: Any, head: Any, q: Any, gradient: Any, owned: Any, straight: Any, plan: Any, scale: Any
) -> Any:
    """Copy ``rows`` scaled queries of a head and their gradients from ``query`` on; return whether all are finite."""
    depth, padded = plan.depth, rounded(rows, COLUMNS)
    q_at = place(plan, plan.q, head) + query * plan.q.position
    down_at = place(plan, plan.out, head) + query * plan.out.position
    copy_queries(owned[0], straight, q, q_at, plan.q.position, rows, depth, scale)
    copy_queries(owned[1], straight, gradient, down_at, plan.out.position, rows, depth, np.float32(1))
    copy_rows(owned[2], 0, q, q_at, plan.q.position, rows, depth, padded)
    copy_rows(owned[3], 0, gradient, down_at, plan.out.position, rows, depth, padded)
    filled = padded * rounded(depth, LANES)
    return max(largest_bits(owned[2], filled), largest_bits(owned[3], filled)) < INFINITE_BITS


@kernel
def attend_backward(
    start: Any, stop: Any, shares: Any, q: Any, k: Any, v: Any, output: Any, gradient: Any, statistics: Any,
    down_q: Any, down_k: Any, down_v: Any, plans: Any, down_plans: Any, memory: Any,
) -> None:  # fmt: skip
    """Fill the gradients of the heads of shares ``start`` to ``stop`` of ``shares``.

    ``output`` and ``gradient`` lie as the plan says for the output; the gradients as ``down_plans`` says for q, k, v.
    """
    plan, down_plan = plans_of(plans)[0], plans_of(down_plans)[0]
    queries, keys, depth = plan.queries, plan.keys, plan.depth
    total = output.size // (queries * depth)
    offsets = row_offsets(depth)
    end = np.cumsum(np.array(backward_sizes(keys, depth)))
    scale = np.float32(1 / np.sqrt(depth))
    for share in range(start, stop):
        mine = memory[share]
        # Columns of keys and values, key rows, gradients of keys and values.
        keyed = (
            mine[: end[0]],
            mine[end[0] : end[1]],
            mine[end[1] : end[2]],
            mine[end[2] : end[3]],
            mine[end[3] : end[4]],
        )
        # Panels and rows of queries and gradients, the queries' gradient, two blocks of scores.
        owned = (
            mine[end[4] : end[5]], mine[end[5] : end[6]], mine[end[6] : end[7]], mine[end[7] : end[8]],
            mine[end[8] : end[9]], mine[end[9] : end[10]], mine[end[10] : end[11]],
        )  # fmt: skip
        rest = np.empty(3 * QUERIES, np.float32)
        held = rest[:QUERIES], rest[QUERIES : 2 * QUERIES], rest[2 * QUERIES :]
        for head in range(share * total // shares, (share + 1) * total // shares):
            finite = load_keys(head, k, v, keyed, offsets[0], plan)
            for query in range(0, queries, QUERIES):
                rows = min(QUERIES, queries - query)
                clean = load_queries(query, rows, head, q, gradient, owned, offsets[0], plan, scale)
                query_statistics(query, rows, head, plan, gradient, output, statistics, held)
                query_block(query, rows, finite and clean, keyed, owned, held, offsets, plan)
                at = place(down_plan, down_plan.q, head) + query * down_plan.q.position
                write_rows(down_q, at, down_plan.q.position, owned[4], rows, depth, scale)
            write_rows(down_k, place(down_plan, down_plan.k, head), down_plan.k.position, keyed[3], keys, depth, scale)
            write_rows(
                down_v, place(down_plan, down_plan.v, head), down_plan.v.position, keyed[4], keys, depth, np.float32(1)
            )
