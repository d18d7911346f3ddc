"""Scaled dot-product attention: softmax(q k^T / sqrt(d)) v, a few heads at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work, as_floating
from tinytorch.core.ops.elementwise import widened

#: Scores that are held at a time: one block of this many float32 elements stays in a level-2 cache.
_SCORES = 131_072

Part = tuple[slice, slice]


def _parts(batch: int, heads: int, scores: int) -> Iterator[Part]:
    """Yield slices of batch and heads whose scores, ``scores`` for each head, are small enough to stay in cache."""
    at_a_time = max(1, _SCORES // max(scores, 1))
    if at_a_time >= heads:
        step = at_a_time // heads
        for start in range(0, batch, step):
            yield slice(start, start + step), slice(None)
        return
    for index in range(batch):
        for start in range(0, heads, at_a_time):
            yield slice(index, index + 1), slice(start, start + at_a_time)


@lru_cache(maxsize=4)
def causal_mask(queries: int, keys: int, dtype: np.dtype[np.floating]) -> Array:
    """Return (queries, keys): 0 where a query may look, minus infinity at later keys; both end together.

    The last few are kept: to a short sequence, making its mask costs as much as its attention.
    """
    late = np.arange(keys) > np.arange(queries)[:, None] + (keys - queries)
    mask = np.where(late, dtype.type(-np.inf), dtype.type(0))
    mask.flags.writeable = False
    return mask


def _forward(q: Array, k: Array, v: Array, output: Array, causal: bool, scores: Array | None) -> tuple[Array, Array]:
    """Fill ``output`` (B, H, T, D); return the scaled queries and 1 / the sum of each row's weights.

    The weights are left unnormalized, so that the division runs over (T, D) and not over (T, S). They go to
    ``scores`` (B, H, T, S) for backward; without it each part reuses one block.
    """
    batch, heads, queries, depth = q.shape
    keys = k.shape[2]
    if not q.size or not keys:  # of no keys the weighted sum is 0
        output[...] = 0
        return q, np.zeros((batch, heads, queries, 1), q.dtype)
    scaled = q * q.dtype.type(1 / math.sqrt(depth))
    mask = causal_mask(queries, keys, q.dtype) if causal and queries > 1 else None
    ones = np.ones(keys, q.dtype)
    inverse = np.empty((batch, heads, queries, 1), q.dtype)
    block: Array | None = None
    for part in _parts(batch, heads, queries * keys):
        if scores is not None:
            block = scores[part]
        elif block is None or block.shape[:2] != scaled[part].shape[:2]:
            block = np.empty((*scaled[part].shape[:2], queries, keys), q.dtype)
        np.matmul(scaled[part], k[part].swapaxes(2, 3), out=block)
        if mask is not None:
            block += mask
        block -= block.max(axis=3, keepdims=True)
        np.exp(block, out=block)
        sums = np.matmul(block, ones)
        np.divide(1, sums, out=inverse[part][..., 0])
        np.matmul(block, v[part], out=output[part])
    output *= inverse
    return scaled, inverse


def _backward(
    gradient: Array,
    q: Array,
    k: Array,
    v: Array,
    output: Array,
    scores: Array,
    inverse: Array,
    down: tuple[Array | None, Array | None, Array | None],
) -> None:
    """Fill ``down`` = gradients of q, k and v (views of (B, H, T, D)) where not None; ``q`` is the scaled one."""
    down_q, down_k, down_v = down
    batch, heads, queries, depth = q.shape
    if not q.size or not k.shape[2]:
        for each in down:
            if each is not None:
                each[...] = 0
        return
    # With weights w = scores * inverse: dv = w^T g; ds = w * (g v^T - rowsum(g * output)).
    scaled = gradient * inverse
    along = np.einsum("bhtd,bhtd->bht", scaled, output)[..., None]
    for part in _parts(batch, heads, queries * k.shape[2]):
        weights = scores[part]
        if down_v is not None:
            np.matmul(weights.swapaxes(2, 3), scaled[part], out=down_v[part])
        if down_q is None and down_k is None:
            continue
        slope = np.matmul(scaled[part], v[part].swapaxes(2, 3))
        slope -= along[part]
        slope *= weights
        if down_q is not None:
            np.matmul(slope, k[part], out=down_q[part])
        if down_k is not None:
            np.matmul(slope.swapaxes(2, 3), q[part], out=down_k[part])
    if down_q is not None:
        down_q *= q.dtype.type(1 / math.sqrt(depth))


def _heads_first(packed: Array, heads: int) -> tuple[Array, Array, Array]:
    """Return views (B, H, T, D) of queries, keys and values out of (B, T, 3 H D)."""
    batch, length, width = packed.shape
    q, k, v = packed.reshape(batch, length, 3, heads, width // (3 * heads)).transpose(2, 0, 3, 1, 4)
    return q, k, v


def _one_head_first(joined: Array, heads: int) -> Array:
    """Return (B, T, H D) as a view (B, H, T, D)."""
    batch, length, width = joined.shape
    return joined.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def _self_attention_forward(keep: bool, packed: Array, *, heads: int, causal: bool) -> tuple[Array, Saved]:
    """Attention of queries, keys and values that lie side by side: (B, T, 3 H D) to (B, T, H D), no copies."""
    if packed.ndim != 3 or packed.shape[2] % (3 * heads):
        raise ValueError(f"self_attention needs an input of shape (B, T, 3 * {heads} * D), not {packed.shape}")
    packed = as_floating(packed)
    dtype = packed.dtype
    packed = np.ascontiguousarray(widened(packed))
    q, k, v = _heads_first(packed, heads)
    batch, length, width = packed.shape
    output = np.empty((batch, length, width // 3), packed.dtype)
    scores = np.empty((batch, heads, length, length), packed.dtype) if keep else None
    scaled, inverse = _forward(q, k, v, _one_head_first(output, heads), causal, scores)
    return output.astype(dtype, copy=False), (packed, scaled, scores, inverse, output, heads) if keep else ()


def _self_attention_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    packed, scaled, scores, inverse, output, heads = saved
    _, k, v = _heads_first(packed, heads)
    down = np.empty_like(packed)
    gradient = np.ascontiguousarray(gradient, packed.dtype)
    views = _heads_first(down, heads)
    _backward(_one_head_first(gradient, heads), scaled, k, v, _one_head_first(output, heads), scores, inverse, views)
    return (down,)


def _attention_forward(keep: bool, q: Array, k: Array, v: Array, *, causal: bool) -> tuple[Array, Saved]:
    """Attention of q (B, H, T, D) over k and v (B, H, S, D) to (B, H, T, D); causal aligns the last positions."""
    if q.ndim != 4 or k.shape != v.shape or k.shape[:2] != q.shape[:2] or k.shape[3] != q.shape[3]:
        raise ValueError(
            "attention needs q of shape (B, H, T, D) and k, v of shape (B, H, S, D), "
            f"not {q.shape}, {k.shape}, {v.shape}"
        )
    if causal and q.shape[2] > k.shape[2]:
        raise ValueError(f"causal attention needs at least as many keys as queries, not {k.shape[2]} for {q.shape[2]}")
    q, k, v = (as_floating(each) for each in (q, k, v))
    dtype = q.dtype
    q, k, v = (widened(each) for each in (q, k, v))
    output = np.empty_like(q)
    scores = np.empty((*q.shape[:3], k.shape[2]), q.dtype) if keep else None
    scaled, inverse = _forward(q, k, v, output, causal, scores)
    return output.astype(dtype, copy=False), (scaled, k, v, scores, inverse, output) if keep else ()


def _attention_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    scaled, k, v, scores, inverse, output = saved
    down_q, down_k, down_v = (
        np.empty_like(x) if needed else None for x, needed in zip((scaled, k, v), needs, strict=True)
    )
    _backward(gradient, scaled, k, v, output, scores, inverse, (down_q, down_k, down_v))
    return down_q, down_k, down_v


def _work(batch: int, heads: int, queries: int, keys: int, depth: int, call: Call, all_needed: bool) -> Work:
    """Two products forward, four backward; for each score mask, maximum, shift, exponential and sum.

    The whole square of scores is computed and counted, also where the mask hides half of it.
    """
    scores, outputs = batch * heads * queries * keys, batch * heads * queries * depth
    product = scores * depth
    if call.phase == "forward":
        return Work(2 * product, 5 * scores + 2 * outputs)
    needs = (True, True, True) if all_needed else call.needs
    products = needs[2] + (needs[0] or needs[1]) + needs[0] + needs[1]
    return Work(products * product, 2 * scores + 4 * outputs)


def _self_attention_work(call: Call) -> Work:
    batch, length, width = call.inputs[0].shape
    heads = call.params["heads"]
    return _work(batch, heads, length, length, width // (3 * heads), call, all_needed=True)


def _attention_work(call: Call) -> Work:
    batch, heads, queries, depth = call.inputs[0].shape
    return _work(batch, heads, queries, call.inputs[1].shape[2], depth, call, all_needed=False)


self_attention = Op("self_attention", _self_attention_forward, _self_attention_backward, _self_attention_work)
attention = Op("attention", _attention_forward, _attention_backward, _attention_work)
