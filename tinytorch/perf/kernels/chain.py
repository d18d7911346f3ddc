"""A chain of linear layers in one call: what one layer makes of a few rows is in the first caches for the next."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import Array, Implementation, Saved
from tinytorch.perf.acceleration.fused_chain import checked_chain, packed_chain, places
from tinytorch.perf.kernels.gemm.packed_matmul import (
    ACTIVATIONS,
    FLOPS_PER_NS,
    NOTHING,
    groups_of,
    product_items,
    writable,
)
from tinytorch.perf.kernels.linear import LAYOUT
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.ops.fused import Activation, Layout, no_backward, rows_of

#: Rows that go through all layers together.
_ROWS = 32
#: Tables of chains that have run; a program has a few.
_tables: dict[tuple[Any, ...], Array] = {}


@kernel
def chain_items(start: Any, stop: Any, x: Any, weights: Any, table: Any, nothing: Any, out: Any) -> None:
    """Take blocks ``start`` to ``stop`` of `_ROWS` rows of ``x`` through all layers; see `_table` for their lines."""
    widest = 0
    for layer in range(table.shape[0]):
        widest = max(widest, table[layer, 1])
    left, right = np.empty(_ROWS * widest, np.float32), np.empty(_ROWS * widest, np.float32)
    for block in range(start, stop):
        first, last = block * _ROWS, min((block + 1) * _ROWS, x.shape[0])
        given = x[first:last]
        for layer in range(table.shape[0]):
            columns, panels, bias, activation = table[layer, 1], table[layer, 2], table[layer, 3], table[layer, 4]
            if layer == table.shape[0] - 1:
                made = out[first:last]
            else:
                made = left[: (last - first) * columns].reshape((last - first, columns))
            packed, added = weights[panels:bias], weights[bias : bias + columns]
            items = table[layer, 5]
            product_items(0, items, given, False, nothing, False, packed, added, nothing, nothing, made, activation, 0)
            given = made
            left, right = right, left


def _table(widths: tuple[int, ...], activations: tuple[Activation, ...]) -> Array:
    """Return a line for each layer: inner, columns, start of panels, start of bias, activation, items of work."""
    key = (widths, activations)
    if key not in _tables:
        lines = [
            (widths[i], widths[i + 1], panels, bias, ACTIVATIONS[activations[i]], groups_of(widths[i + 1]))
            for i, (panels, bias, _) in enumerate(places(widths, LAYOUT))
        ]
        _tables[key] = np.array(lines, np.int64)
    return _tables[key]


def _forward(
    keep: bool,
    x: Array,
    weights: Array,
    *,
    widths: tuple[int, ...],
    layout: Layout,
    activations: tuple[Activation, ...],
) -> tuple[Array, Saved]:
    """All layers in one call, for float32 and panels of this CPU's layout; others go to the op's reference."""
    del keep
    shape = checked_chain(x, widths)
    if layout != LAYOUT or x.dtype != np.float32:
        given = {"widths": widths, "layout": layout, "activations": activations}
        return packed_chain.reference.forward(False, x, weights, **given)
    rows = writable(rows_of(x))
    out = np.empty((len(rows), widths[-1]), np.float32)
    blocks, ns = -(-len(rows) // _ROWS), 2.0 * _ROWS * weights.size / FLOPS_PER_NS
    threads.split(chain_items, blocks, ns, rows, weights, _table(widths, activations), NOTHING, out)
    return out.reshape(shape), ()


IMPLEMENTATIONS = {packed_chain: Implementation("numba", _forward, no_backward)}
