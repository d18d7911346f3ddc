"""Entry points of ops along rows: normalization, softmax, reductions, and attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Op
from tinytorch.perf.kernels.attention.forward import PLAN, Layout, attend, attend_one, plan_of, scratch_sizes
from tinytorch.perf.kernels.gemm.packed_matmul import tile_height
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS, multiply_tile
from tinytorch.perf.kernels.normalization import layer_norm_share
from tinytorch.perf.kernels.plan_ops.binding import Binder, RecordedOp, View, most_shares
from tinytorch.perf.kernels.plan_ops.driver import Entry, entry_of, part
from tinytorch.perf.kernels.row_ops import log_softmax_share, reduce_share, softmax_share, weigh_line
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import floats_at, matrix_at, words_at

#: Positions up to which a head's scores are held for a few queries at a time, without blocks of keys.
_SHORT = 128
_HIDDEN = np.float32(-np.inf)
#: Heads, queries, keys, depth, and whether later keys are hidden.
_Sizes = tuple[int, int, int, int, bool]
_PLAN_WORDS = PLAN.itemsize // 8


@kernel
def _layer_norm(w: Any) -> Any:
    x, output, nothing = matrix_at(w.x, w.rows, w.width), matrix_at(w.output, w.rows, w.width), matrix_at(w.x, 0, 2)
    return w.rows, (x, floats_at(w.weight, w.width), floats_at(w.bias, w.width), w.epsilon, output, nothing)


@kernel
def _matrices(w: Any) -> Any:
    return w.rows, (matrix_at(w.x, w.rows, w.width), matrix_at(w.output, w.rows, w.width))


@kernel
def _matrix_and_column(w: Any) -> Any:
    return w.rows, (matrix_at(w.x, w.rows, w.width), floats_at(w.output, w.rows), w.which)


@kernel
def multiply_wide(
    height: int, count: int, a: int, a_step: int, b: int, b_step: int, to: int, to_step: int, inner: int
) -> None:
    """Write a product of ``height`` rows and ``count`` vectors, tile by tile; see `product_tiles.tile`."""
    done = 0
    while done < count:
        wide = min(VECTORS, count - done)
        place = 4 * done * LANES
        multiply_tile(height, wide, a, a_step, 1, b + place, b_step, to + place, to_step, inner, 0)
        done += wide


@kernel
def attend_head(
    packed: int, head: int, length: int, width: int, depth: int, causal: bool, scratch: Any, out: Any
) -> None:
    """Fill the columns of one head of ``out`` (T, width) from ``packed`` (T, 3 width), an address.

    Scratch: (depth, T filled up) for the keys' transpose, (`ROWS`, T filled up) for scores, (`ROWS`, depth filled up)
    for sums, and `ROWS` for their factors.
    """
    keys, scores, sums, factors = scratch
    scale, step, offset = np.float32(1 / math.sqrt(depth)), 3 * width, head * depth
    filled, deep = keys.shape[1], sums.shape[1]
    given = matrix_at(packed, length, step)
    for d in range(depth):
        for t in range(length):
            keys[d, t] = given[t, width + offset + d]
    row = 0
    while row < length:
        height = tile_height(length - row)
        seen = row + height if causal else length  # later keys are hidden from all of these rows
        count = (seen + LANES - 1) // LANES
        query = packed + 4 * (row * step + offset)
        multiply_wide(height, count, query, step, keys.ctypes.data, filled, scores.ctypes.data, filled, depth)
        for i in range(height):
            scores[i, (row + i + 1 if causal else length) : count * LANES] = _HIDDEN
            factors[i] = weigh_line(scores[i, : count * LANES], scale)
        value, to = packed + 4 * (2 * width + offset), sums.ctypes.data
        multiply_wide(height, deep // LANES, scores.ctypes.data, filled, value, step, to, deep, seen)
        for i in range(height):
            for d in range(depth):
                out[row + i, offset + d] = sums[i, d] * factors[i]
        row += height


def _attend_short(w: Any) -> None:
    length, depth, width = w.positions, w.depth, w.heads * w.depth
    filled, deep = (length + LANES - 1) // LANES * LANES, (depth + LANES - 1) // LANES * LANES
    at = w.scratch + 4 * w.share * w.floats
    keys = matrix_at(at, depth, filled)
    scores = matrix_at(at + 4 * depth * filled, ROWS, filled)
    sums = matrix_at(at + 4 * (depth + ROWS) * filled, ROWS, deep)
    scratch = (keys, scores, sums, floats_at(at + 4 * ((depth + ROWS) * filled + ROWS * deep), ROWS))
    first, last = part(w, w.sequences * w.heads)
    for item in range(first, last):
        sequence, head = item // w.heads, item % w.heads
        out = matrix_at(w.output + 4 * sequence * length * width, length, width)
        attend_head(w.packed + 12 * sequence * length * width, head, length, width, depth, w.causal == 1, scratch, out)


def _attend(w: Any) -> None:
    # How far the operands reach is not asked for: a plan's steps stay inside.
    q, k, v = floats_at(w.q, 1 << 40), floats_at(w.k, 1 << 40), floats_at(w.v, 1 << 40)
    output, nothing = floats_at(w.output, w.size), floats_at(w.output, 0)
    plan, memory = words_at(w.plan, _PLAN_WORDS), matrix_at(w.scratch, w.shares, w.floats)
    if w.is_one:
        attend_one(w.share, w.share + 1, w.shares, q, k, v, output, nothing, plan, memory)
    else:
        attend(w.share, w.share + 1, w.shares, q, k, v, output, nothing, plan, memory)


_ROWS = "x output rows width"
normalize_rows = entry_of(layer_norm_share, _layer_norm, "layer_norm", "x weight bias output rows width", "epsilon")
reduce_rows = entry_of(reduce_share, _matrix_and_column, "reductions", f"{_ROWS} which")
softmax_rows = {
    ops.softmax: entry_of(softmax_share, _matrices, "softmax", _ROWS),
    ops.log_softmax: entry_of(log_softmax_share, _matrices, "log_softmax", _ROWS),
}
attend_short = Entry(_attend_short, "packed output sequences positions heads depth causal scratch floats")
#: The plan is that of `attention.attend`; ``floats`` are those of a share's scratch.
attend_blocks = Entry(_attend, "q k v output plan size scratch floats is_one")
_REDUCTIONS: dict[Op, int] = {ops.sum_: 0, ops.mean: 1, ops.max_: 2}


def _bind_layer_norm(node: RecordedOp, binder: Binder) -> View:
    x, weight, bias = (binder.contiguous(binder.view(operand)) for operand in node.operands)
    width = x.shape[-1]
    output = binder.new(x.shape)
    words = (x, weight, bias, output, x.size // width, width, float(node.params["epsilon"]))
    binder.emit(normalize_rows, words, (x, weight, bias), output, divisible=True)
    return output


def _bind_softmax(node: RecordedOp, binder: Binder) -> View:
    axis = node.params.get("axis", -1)
    x = _moved_last(binder, binder.view(node.operands[0]), (axis,))
    output = binder.new(x.shape)
    width = x.shape[-1]
    words = (x, output, x.size // width, width)
    binder.emit(softmax_rows[node.op], words, (x,), output, divisible=True)
    return output.moved(lambda array: np.moveaxis(array, -1, axis))


def _moved_last(binder: Binder, view: View, axes: tuple[int, ...]) -> View:
    """Return a view in C order with ``axes`` behind all others."""
    view = binder.contiguous(view) if view.source is not None else view
    behind = tuple(range(-len(axes), 0))
    return binder.contiguous(view.moved(lambda array: np.moveaxis(array, axes, behind)))


def _bind_reduction(node: RecordedOp, binder: Binder) -> View:
    view, axis = binder.view(node.operands[0]), node.params.get("axis")
    axes = tuple(range(len(view.shape))) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    x = _moved_last(binder, view, tuple(sorted(each % len(view.shape) for each in axes)))
    output = binder.new(node.output.shape)
    rows = output.size
    binder.emit(reduce_rows, (x, output, rows, x.size // rows, _REDUCTIONS[node.op]), (x,), output, divisible=True)
    return output


def _bind_self_attention(node: RecordedOp, binder: Binder) -> View:
    """Bind attention of (B, T, 3 H D): of short sequences by itself, of others by blocks."""
    packed, heads = binder.contiguous(binder.view(node.operands[0])), node.params["heads"]
    batch, length, width = (*packed.shape[:2], packed.shape[2] // 3)
    depth, causal = width // heads, node.params["causal"]
    if length > _SHORT or packed.buffer.kind != "arena":
        parts = tuple((part * width, 3 * length * width, depth, 3 * width) for part in range(3))
        layouts = (*parts, (0, length * width, depth, width))
        output = binder.new(node.output.shape)
        return _attention(binder, (packed,) * 3, output, (heads, length, length, depth, causal), layouts)
    output = binder.new(node.output.shape)
    filled, deep = (-(-size // LANES) * LANES for size in (length, depth))
    floats = (depth + ROWS) * filled + ROWS * deep + -(-ROWS // LANES) * LANES
    scratch = binder.new((most_shares(), floats))
    words = (packed, output, batch, length, heads, depth, int(causal), scratch, floats)
    binder.emit(attend_short, words, (packed,), output, scratch=(scratch,), divisible=True)
    return output


def _bind_attention(node: RecordedOp, binder: Binder) -> View:
    """Bind attention of (B, H, T, D) over (B, H, S, D), which may lie in any order but for the elements of a head."""
    views = [binder.view(operand) for operand in node.operands]
    views = [view if view.source is None and view.strides[3] == 1 else binder.contiguous(view) for view in views]
    output = binder.new(node.output.shape)
    _, heads, queries, depth = output.shape
    sizes = (heads, queries, views[1].shape[2], depth, node.params["causal"])
    layouts = tuple((0, view.strides[0], view.strides[1], view.strides[2]) for view in (*views, output))
    return _attention(binder, tuple(views), output, sizes, layouts)


def _attention(
    binder: Binder, views: tuple[View, ...], output: View, sizes: _Sizes, layouts: tuple[Layout, ...]
) -> View:
    plan = binder.prepared(("attention", sizes, layouts), None, lambda: plan_of(*sizes, layouts))
    floats = sizes[2] if sizes[1] == 1 else int(sum(scratch_sizes(sizes[2], sizes[3])))
    scratch = binder.new((most_shares(), floats))
    words: tuple[int | View, ...] = (*views, output, plan, output.size, scratch, floats, int(sizes[1] == 1))
    binder.emit(attend_blocks, words, (*views, plan), output, scratch=(scratch,), divisible=True)
    return output


BINDINGS = {
    ops.layer_norm: _bind_layer_norm,
    ops.softmax: _bind_softmax,
    ops.log_softmax: _bind_softmax,
    **dict.fromkeys(_REDUCTIONS, _bind_reduction),
    ops.self_attention: _bind_self_attention,
    ops.attention: _bind_attention,
}
