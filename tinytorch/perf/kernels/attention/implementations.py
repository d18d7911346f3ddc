"""The attention kernels at the seam: packed self-attention, and separate queries, keys and values.

Declared: float32, sequences of any length, heads of any depth, positions in any order in memory. Other dtypes go
to the op's reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Gradients, Implementation, Saved, Work
from tinytorch.perf.kernels.attention.backward import attend_backward, backward_sizes
from tinytorch.perf.kernels.attention.forward import QUERIES, Layout, attend, attend_one, plan_of, scratch_sizes
from tinytorch.perf.kernels.gemm.product_tiles import LANES
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.flat import FLOAT32

#: Keys up to which NumPy takes a forward and its backward sooner, causal ones or on wide vectors, and others on narrow
#: ones, of so many scores: it keeps what our backward makes anew, and its own few calls are then nothing. Raced on
#: AVX2 (`benchmarks.beside_numpy`); on wide vectors only 20 keys were, so that the number for them is a careful one.
_SHORT, _SHORT_ON_NARROW, _MANY_SCORES = 40, 128, 10_000
#: About how long a multiply-accumulate of a whole attention takes, in nanoseconds.
_NS = 0.011
_NOTHING = np.empty(0, np.float32)


@lru_cache(maxsize=64)
def _scratch(keys: int, depth: int, backward: bool) -> int:
    """Return the floats of scratch of a share of the work: linear in ``keys``."""
    return int(sum((backward_sizes if backward else scratch_sizes)(keys, depth)))


def _run(kernel: Any, heads: int, macs: int, scratch: int, *arguments: Any) -> None:
    """Run a kernel over shares of the work, each with ``scratch`` floats of its own."""
    ns = macs * _NS
    shares = threads.shares(heads, ns) if ns > threads.WORTH_A_THREAD_NS else 1
    threads.split(kernel, shares, ns / shares, shares, *arguments, np.empty((shares, scratch), FLOAT32))


def _flat(*parts: Array) -> tuple[list[Array], list[Layout]]:
    """Return the memory of each (B, H, T, D) as one axis, and its layout; a copy if a row's floats are apart."""
    arrays, layouts = [], []
    for x in parts:
        size = x.itemsize
        if x.strides[3] != size or min(x.strides) < 0:
            x = np.ascontiguousarray(x)
        batch, head, position, _ = x.strides
        layouts.append((0, batch // size, head // size, position // size))
        if x.flags.c_contiguous or not x.size:
            arrays.append(x.ravel())
        else:
            last = sum([(length - 1) * step for length, step in zip(x.shape, x.strides, strict=True)])
            arrays.append(as_strided(x, (last // size + 1,), (size,)))
    return arrays, layouts


def _attended(
    keep: bool, arrays: Sequence[Array], out: Array, sizes: tuple[int, int, int, int, int], plan: Array
) -> Array:
    """Fill ``out``; return the statistics for backward. Sizes are batch, heads, queries, keys and depth."""
    batch, heads, queries, keys, depth = sizes
    statistics = np.empty(2 * batch * heads * queries, FLOAT32) if keep else _NOTHING
    macs = 2 * batch * heads * queries * keys * depth
    if not macs:
        return statistics
    if queries == 1:
        _run(attend_one, batch * heads, macs, keys, *arrays, out.ravel(), statistics, plan)
    else:
        blocks = batch * heads * -(-queries // QUERIES)
        _run(attend, blocks, macs, _scratch(keys, depth, False), *arrays, out.ravel(), statistics, plan)
    return statistics


def _slopes(
    arrays: Sequence[Array],
    output: Array,
    gradient: Array,
    statistics: Array,
    downs: tuple[Array, Array, Array],
    batch: int,
    plans: tuple[Array, Array],
) -> None:
    """Fill ``downs``, flat, with the gradients of queries, keys and values."""
    heads, queries, keys, depth = plans[0][:4].tolist()
    macs = 5 * batch * heads * queries * keys * depth
    if not macs:
        for down in downs:
            down[:] = 0
        return
    given = output.reshape(-1), np.ascontiguousarray(gradient, np.float32).reshape(-1), statistics
    _run(attend_backward, batch * heads, macs, _scratch(keys, depth, True), *arrays, *given, *downs, *plans)


@lru_cache(maxsize=256)
def _packed_plan(length: int, heads: int, depth: int, causal: bool) -> Array:
    width = heads * depth
    parts = tuple([(part * width, 3 * length * width, depth, 3 * width) for part in range(3)])
    return plan_of(heads, length, length, depth, causal, (*parts, (0, length * width, depth, width)))


def _numpy_trains(rows: int, keys: int, causal: bool) -> bool:
    """Return whether NumPy takes attention with its backward sooner, for ``rows`` queries of all heads."""
    most = _SHORT if causal or LANES == 16 else _SHORT_ON_NARROW
    return keys <= most and rows * keys >= _MANY_SCORES


def _self_attention_forward(keep: bool, packed: Array, *, heads: int, causal: bool) -> tuple[Array, Saved]:
    if packed.dtype != FLOAT32 or packed.ndim != 3 or packed.shape[2] % (3 * heads):
        return ops.self_attention.reference.forward(keep, packed, heads=heads, causal=causal)
    batch, length, width = packed.shape
    if keep and _numpy_trains(batch * heads * length, length, causal):
        return ops.self_attention.reference.forward(keep, packed, heads=heads, causal=causal)
    packed, depth = np.ascontiguousarray(packed), width // (3 * heads)
    plan = _packed_plan(length, heads, depth, causal)
    output = np.empty((batch, length, width // 3), FLOAT32)
    flat = packed.ravel()
    statistics = _attended(keep, (flat, flat, flat), output, (batch, heads, length, length, depth), plan)
    return output, (packed, output, statistics, plan) if keep else ()


def _self_attention_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if len(saved) != 4:
        return ops.self_attention.reference.backward(gradient, saved, needs, owned)
    packed, output, statistics, plan = saved
    down = np.empty_like(packed)
    flat, into = packed.reshape(-1), down.reshape(-1)
    arrays, downs = (flat, flat, flat), (into, into, into)
    _slopes(arrays, output, gradient, statistics, downs, len(packed), (plan, plan))
    return (down,)


def _declared(q: Array, k: Array, v: Array, causal: bool) -> bool:
    """Return whether the kernel takes these; the reference takes the rest, or says what is wrong with them."""
    if not (q.dtype == k.dtype == v.dtype == FLOAT32 and q.ndim == k.ndim == 4):
        return False
    fits = k.shape == v.shape and q.shape[:2] == k.shape[:2] and q.shape[3] == k.shape[3]
    return fits and k.shape[2] > 0 and not (causal and q.shape[2] > k.shape[2])


def _attention_forward(keep: bool, q: Array, k: Array, v: Array, *, causal: bool) -> tuple[Array, Saved]:
    """q (B, H, T, D) over k and v (B, H, S, D) to (B, H, T, D)."""
    if not _declared(q, k, v, causal):
        return ops.attention.reference.forward(keep, q, k, v, causal=causal)
    batch, heads, queries, depth = q.shape
    if keep and _numpy_trains(batch * heads * queries, k.shape[2], causal):
        return ops.attention.reference.forward(keep, q, k, v, causal=causal)
    output, keys = np.empty(q.shape, FLOAT32), k.shape[2]
    arrays, layouts = _flat(q, k, v)
    straight = (0, heads * queries * depth, queries * depth, depth)
    plan = plan_of(heads, queries, keys, depth, causal, (*layouts, straight))
    statistics = _attended(keep, arrays, output, (batch, heads, queries, keys, depth), plan)
    return output, (arrays, output, statistics, plan, k.shape) if keep else ()


def _attention_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if len(saved) != 5:
        return ops.attention.reference.backward(gradient, saved, needs, owned)
    arrays, output, statistics, plan, shape = saved
    batch, heads, queries, depth = output.shape
    down_q, down_k, down_v = (np.empty(x, np.float32) for x in (output.shape, shape, shape))
    of_q, of_k = ((0, heads * length * depth, length * depth, depth) for length in (queries, shape[2]))
    down_plan = plan_of(heads, queries, shape[2], depth, False, (of_q, of_k, of_k, of_q))
    downs = down_q.reshape(-1), down_k.reshape(-1), down_v.reshape(-1)
    _slopes(arrays, output, gradient, statistics, downs, batch, (plan, down_plan))
    return (
        down_q if needs[0] else None,
        down_k if needs[1] else None,
        down_v if needs[2] else None,
    )


def _work(call: Call, batch: int, heads: int, queries: int, keys: int, depth: int) -> Work:
    """Two products forward and five backward, over the scores that are visible, which causal attention halves."""
    pairs = queries * keys - (queries * (queries - 1) // 2 if call.params["causal"] else 0)
    scores = batch * heads * pairs
    outputs = batch * heads * queries * depth
    if call.phase == "forward":
        return Work(2 * scores * depth, 4 * scores + 2 * outputs)
    return Work(5 * scores * depth, 5 * scores + 4 * outputs)


def _self_attention_work(call: Call) -> Work:
    batch, length, width = call.inputs[0].shape
    heads = call.params["heads"]
    return _work(call, batch, heads, length, length, width // (3 * heads))


def _attention_work(call: Call) -> Work:
    batch, heads, queries, depth = call.inputs[0].shape
    return _work(call, batch, heads, queries, call.inputs[1].shape[2], depth)


IMPLEMENTATIONS = {
    ops.self_attention: Implementation(
        "numba", _self_attention_forward, _self_attention_backward, _self_attention_work
    ),
    ops.attention: Implementation("numba", _attention_forward, _attention_backward, _attention_work),
}
