"""A small GPT in one call: a few sequences go through all layers before the next, and what they make stays in cache."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from tinytorch.core.op import Array, Implementation, Saved
from tinytorch.perf.acceleration.packed_gpt import Sizes, check_range, checked_tokens, packed_gpt, places
from tinytorch.perf.kernels.gemm.packed_matmul import FLOPS_PER_NS, NOTHING, finish, multiply_one, tile_height, writable
from tinytorch.perf.kernels.gemm.packing import panel_start
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS, WIDTH, multiply_tile
from tinytorch.perf.kernels.linear import LAYOUT
from tinytorch.perf.kernels.normalization import row_moments
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.vector_math import add_in_any_order, exp_of_negative, multiply_add
from tinytorch.perf.kernels.softmax import row_maximum
from tinytorch.perf.ops.fused import Layout, no_backward

#: Rows that go through all layers together: as many sequences as have so many positions, and one at least.
_ROWS = 24
#: Numbers of a line of the table: places of weight and bias of the six parts of a block.
_PARTS = 6
_ZERO, _ONE, _HIDDEN = np.float32(0), np.float32(1), np.float32(-np.inf)


@kernel
def affine_rows(x: Any, weights: Any, panels: Any, out: Any, edge: Any) -> None:
    """Fill ``out`` with the rows of ``x`` times the weight whose panels begin at ``panels``: each is used for all."""
    rows, columns = out.shape
    inner = x.shape[1]
    for panel in range((columns + WIDTH - 1) // WIDTH):
        first, last = LANES * panel_start(panel, columns), LANES * panel_start(panel + 1, columns)
        right = weights.ctypes.data + 4 * (panels + inner * first)
        row = 0
        while row < rows:
            height = tile_height(rows - row)
            left = x.ctypes.data + 4 * row * inner
            width = (last - first) // LANES
            multiply_one(height, width, left, inner, 1, right, last - first, out, row, first, inner, 0, edge)
            row += height


@kernel
def normalize_line(row: Any, weight: Any, bias: Any, epsilon: Any, result: Any) -> None:
    """Fill ``result`` with the layer norm of one row."""
    mean, inverse = row_moments(row, epsilon)
    for i in range(row.size):
        result[i] = multiply_add((row[i] - mean) * inverse, weight[i], bias[i])


@kernel
def normalize(x: Any, weights: Any, weight: Any, bias: Any, epsilon: Any, result: Any) -> None:
    """Fill ``result`` with the layer norm of each row; weight and bias begin at these places."""
    width = x.shape[1]
    for row in range(x.shape[0]):
        scale, shift = weights[weight : weight + width], weights[bias : bias + width]
        normalize_line(x[row], scale, shift, epsilon, result[row])


@kernel
def add_lines(a: Any, b: Any, result: Any) -> None:
    """Fill ``result`` with the sum of two lines."""
    for i in range(result.size):
        result[i] = a[i] + b[i]


@kernel
def scale_line(line: Any, factor: Any, result: Any) -> None:
    """Fill ``result`` with a line times a factor."""
    for i in range(result.size):
        result[i] = line[i] * factor


@kernel
def weigh_line(line: Any, scale: Any) -> Any:
    """Replace scores by e**(scale (score - largest)); return 1 / their sum."""
    largest = row_maximum(line)
    total = _ZERO
    for i in range(line.size):
        weight = exp_of_negative((line[i] - largest) * scale)
        line[i] = weight
        total = add_in_any_order(total, weight)
    return _ONE / total


@kernel
def attend_head(packed: Any, offset: Any, depth: Any, keys: Any, scores: Any, sums: Any, out: Any) -> None:
    """Fill the columns of one head, from ``offset`` on, of ``out`` (T, C): causal attention of packed (T, 3 C).

    Scratch: ``keys`` (depth, T filled up) for the keys' transpose, ``scores`` (`ROWS`, T filled up) and ``sums``
    (`ROWS`, depth filled up and one vector more).
    """
    length, width = out.shape
    scale = np.float32(1 / math.sqrt(depth))
    filled, deep, step = keys.shape[1], sums.shape[1] - LANES, packed.shape[1]
    for d in range(depth):
        for t in range(length):
            keys[d, t] = packed[t, width + offset + d]
    row = 0
    while row < length:
        height = tile_height(length - row)
        seen = row + height  # later keys are hidden from all of these rows
        vectors = (seen + LANES - 1) // LANES
        query = packed.ctypes.data + 4 * (row * step + offset)
        multiply_wide(height, vectors, query, step, keys.ctypes.data, filled, scores.ctypes.data, filled, depth)
        for i in range(height):
            scores[i, row + i + 1 : vectors * LANES] = _HIDDEN
            sums[i, deep] = weigh_line(scores[i, : vectors * LANES], scale)
        value = packed.ctypes.data + 4 * (2 * width + offset)
        to = sums.ctypes.data
        multiply_wide(height, deep // LANES, scores.ctypes.data, filled, value, step, to, sums.shape[1], seen)
        for i in range(height):
            scale_line(sums[i, :depth], sums[i, deep], out[row + i, offset : offset + depth])
        row += height


@kernel
def multiply_wide(
    height: int, vectors: int, a: int, a_step: int, b: int, b_step: int, to: int, to_step: int, count: int
) -> None:
    """Write a product of ``height`` rows and any number of vectors, tile by tile; see `product_tiles.tile`."""
    done = 0
    while done < vectors:
        wide = min(VECTORS, vectors - done)
        place = 4 * done * LANES
        multiply_tile(height, wide, a, a_step, 1, b + place, b_step, to + place, to_step, count, 0)
        done += wide


@kernel
def take_block(
    x: Any, line: Any, weights: Any, epsilons: Any, normal: Any, packed: Any, hidden: Any, scratch: Any, sizes: Any
) -> None:
    """Take rows ``x`` (R, C), whole sequences, through one block in place; ``line`` has the places of its weights."""
    heads, length = sizes
    keys, scores, sums, edge, nothing = scratch
    rows, width = x.shape
    depth = width // heads
    normalize(x, weights, line[0], line[1], epsilons[0], normal)
    affine_rows(normal, weights, line[2], packed, edge)
    finish(packed, nothing, weights[line[3] : line[3] + 3 * width], nothing, 0, rows, 0, 3 * width, 0)
    for start in range(0, rows, length):
        for head in range(heads):
            one, to = packed[start : start + length], normal[start : start + length]
            attend_head(one, head * depth, depth, keys, scores, sums, to)
    # What attention made of packed is done, so the projection may go where it was.
    made = packed.reshape(-1)[: rows * width].reshape((rows, width))
    affine_rows(normal, weights, line[4], made, edge)
    finish(made, nothing, weights[line[5] : line[5] + width], x, 0, rows, 0, width, 0)
    normalize(made, weights, line[6], line[7], epsilons[1], normal)
    affine_rows(normal, weights, line[8], hidden, edge)
    wide = hidden.shape[1]
    finish(hidden, nothing, weights[line[9] : line[9] + wide], nothing, 0, rows, 0, wide, 2)
    affine_rows(hidden, weights, line[10], x, edge)
    finish(x, nothing, weights[line[11] : line[11] + width], made, 0, rows, 0, width, 0)


@kernel
def embed(tokens: Any, weights: Any, table: Any, positions: Any, vocabulary: Any, x: Any) -> bool:
    """Fill ``x`` with the sum of each token's row and its position's; return whether all tokens are known."""
    length, width = tokens.shape[1], x.shape[1]
    known = True
    for row in range(x.shape[0]):
        token = tokens[row // length, row % length]
        if token < 0 or token >= vocabulary:
            known = False
            token = 0
        of_token, of_position = table + token * width, positions + row % length * width
        add_lines(weights[of_token : of_token + width], weights[of_position : of_position + width], x[row])
    return known


@kernel
def gpt_items(
    start: Any,
    stop: Any,
    tokens: Any,
    weights: Any,
    table: Any,
    epsilons: Any,
    sizes: Any,
    last: Any,
    nothing: Any,
    out: Any,
    known: Any,
) -> None:
    """Take groups ``start`` to ``stop`` of sequences from tokens to logits; ``known`` [0] is cleared by a bad token."""
    vocabulary, width, wide, heads, together = sizes[0], sizes[2], sizes[3], sizes[5], sizes[6]
    length, depth = tokens.shape[1], width // heads
    most = together * length
    filled, deep = (length + LANES - 1) // LANES * LANES, (depth + LANES - 1) // LANES * LANES
    scratch = (
        np.empty((depth, filled), np.float32),
        np.empty((ROWS, filled), np.float32),
        np.empty((ROWS, deep + LANES), np.float32),
        np.empty((ROWS, WIDTH), np.float32),
        nothing,
    )
    first_x, first_normal = np.empty((most, width), np.float32), np.empty((most, width), np.float32)
    # One vector more, because the last head's values are read as whole vectors.
    first_packed, first_hidden = np.empty(3 * most * width + LANES, np.float32), np.empty((most, wide), np.float32)
    final = table[-1]
    for item in range(start, stop):
        begin, end = item * together, min((item + 1) * together, tokens.shape[0])
        rows = (end - begin) * length
        x, normal, hidden = first_x[:rows], first_normal[:rows], first_hidden[:rows]
        packed = first_packed[: 3 * rows * width].reshape((rows, 3 * width))
        if not embed(tokens[begin:end], weights, final[3], final[4], vocabulary, x):
            known[0] = 0
        for layer in range(table.shape[0] - 1):
            of_norms = epsilons[2 * layer : 2 * layer + 2]
            take_block(x, table[layer], weights, of_norms, normal, packed, hidden, scratch, (heads, length))
        if last:
            for sequence in range(end - begin):
                normal[sequence, :] = x[(sequence + 1) * length - 1]
            rows = end - begin
            x, normal = x[:rows], normal[:rows]
            x[:, :] = normal
        normalize(x, weights, final[0], final[1], epsilons[-1], normal)
        affine_rows(normal, weights, final[2], out[begin * rows // (end - begin) :][:rows], scratch[3])


@lru_cache(maxsize=64)
def _table(sizes: Sizes) -> Array:
    """Return places of weight and bias of each part, a line a block; last those of norm, logits, and both tables."""
    found = places(sizes, LAYOUT)
    lines = [[place for part in block for place in (part.weight, part.bias)] for block in found.blocks]
    final = [found.norm.weight, found.norm.bias, found.logits.weight, found.tokens, found.positions]
    return np.array([*lines, final + [0] * (2 * _PARTS - len(final))], np.int64)


@lru_cache(maxsize=64)
def _plan(sizes: Sizes, length: int) -> tuple[Array, int, float]:
    """Return the numbers that the kernel is told, how many sequences are an item, and an item's nanoseconds."""
    together = max(1, _ROWS // length)
    macs = sizes.layers * (4 * sizes.width**2 + 2 * sizes.width * sizes.hidden) + sizes.width * sizes.vocabulary
    return np.array([*sizes, together], np.int64), together, 2.0 * macs * together * length / FLOPS_PER_NS


@lru_cache(maxsize=64)
def _numbers(epsilons: tuple[float, ...]) -> Array:
    return np.array(epsilons, np.float32)


def _forward(
    keep: bool,
    tokens: Array,
    weights: Array,
    *,
    sizes: tuple[int, ...],
    layout: Layout,
    epsilons: tuple[float, ...],
    last: bool,
) -> tuple[Array, Saved]:
    """All layers in one call, for weights of float32 in this CPU's layout; others go to the op's reference."""
    del keep
    if layout != LAYOUT or weights.dtype != np.float32:
        given: dict[str, Any] = {"sizes": sizes, "layout": layout, "epsilons": epsilons, "last": last}
        return packed_gpt.reference.forward(False, tokens, weights, **given)
    found = Sizes(*sizes)
    checked_tokens(tokens, weights, found, layout)
    batch, length = tokens.shape
    numbers, together, ns = _plan(found, length)
    out = np.empty((batch, 1 if last else length, found.vocabulary), np.float32)
    known = np.ones(1, np.int64)
    threads.split(
        gpt_items,
        -(-batch // together),
        ns,
        writable(tokens.astype(np.int64, copy=False)),
        writable(weights),
        _table(found),
        _numbers(epsilons),
        numbers,
        last,
        NOTHING,
        out.reshape(-1, found.vocabulary),
        known,
    )
    if not known[0]:
        check_range(tokens, found.vocabulary)
    return out, ()


IMPLEMENTATIONS = {packed_gpt: Implementation("numba", _forward, no_backward)}
