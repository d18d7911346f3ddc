"""A register tile of a convolution: positions anywhere in the maps, bias and ReLU included, stored where it belongs."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytorch.perf.kernels.gemm.register_tiles import INT64, LANES, ROWS, VECTOR
from tinytorch.perf.kernels.runtime import vectors

#: Numbers of an entry of `window_tile`: the tap, and where it meets each row's map.
ENTRY = 1 + ROWS


def _numbers(builder: Any, data: Any, at: Any, count: int) -> list[Any]:
    """Return ``count`` int64 from element ``at`` on."""
    return [builder.load(builder.gep(data, [builder.add(at, INT64(number))])) for number in range(count)]


def _window_tile(
    _typing: Any,
    across: Any,
    relu: Any,
    target: Any,
    column: Any,
    x: Any,
    x_at: Any,
    panel: Any,
    bias: Any,
    tables: Any,
    places: Any,
    entries: Any,
    taps: Any,
    channels: Any,
) -> Any:
    """Type and emit `window_tile`."""
    del relu
    if not isinstance(across, types.IntegerLiteral):
        return None
    wide = across.literal_value

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        into, maps, panels, added, table = (
            vectors.data_pointer(context, builder, kinds[i], arguments[i]) for i in (2, 4, 6, 7, 8)
        )
        _, positive, _, first, _, origin, _, _, _, place, entry, count, each = arguments
        into, maps = builder.gep(into, [first]), builder.gep(maps, [origin])
        parts = [INT64(part * LANES) for part in range(wide)]
        sums = [vectors.variables(builder, VECTOR, wide) for _ in range(ROWS)]
        for slots in sums:
            for slot, part in zip(slots, parts, strict=True):
                builder.store(vectors.load(builder, added, builder.add(first, part), VECTOR), slot)
        with cgutils.for_range(builder, count, intp=INT64) as turn:
            at = builder.add(entry, builder.mul(turn.index, INT64(ENTRY)))
            tap, *offsets = _numbers(builder, table, at, ENTRY)
            rows = [builder.gep(maps, [offset]) for offset in offsets]
            weights = builder.gep(panels, [builder.mul(tap, builder.mul(each, INT64(wide * LANES)))])
            with cgutils.for_range(builder, each, intp=INT64) as step:
                here = builder.mul(step.index, INT64(wide * LANES))
                columns = [vectors.load(builder, weights, builder.add(here, part), VECTOR) for part in parts]
                for row, slots in zip(rows, sums, strict=True):
                    factor = vectors.filled(builder, builder.load(builder.gep(row, [step.index])), VECTOR)
                    for slot, values in zip(slots, columns, strict=True):
                        builder.store(vectors.fused_multiply_add(builder, factor, values, builder.load(slot)), slot)
        # Without ReLU nothing lies below the least number, and NaN is below none.
        zero, lowest = (ir.Constant(vectors.FLOAT, value) for value in (0.0, float("-inf")))
        least = vectors.filled(builder, builder.select(builder.trunc(positive, ir.IntType(1)), zero, lowest), VECTOR)
        for row, slots in zip(_numbers(builder, table, place, ROWS), sums, strict=True):
            for slot, part in zip(slots, parts, strict=True):
                value = builder.load(slot)
                value = builder.select(builder.fcmp_ordered("<", value, least), least, value)
                vectors.store(builder, value, into, builder.add(row, part))
        return context.get_dummy_value()

    arguments = (across, types.int64, target, column, x, x_at, panel, bias, tables, places, entries, taps, channels)
    return types.void(*arguments), emit


#: ``window_tile(across, relu, target, column, x, x_at, panel, bias, tables, places, entries, taps, channels)``: `ROWS`
#: positions and ``across`` (1 or 2) vectors of `LANES` output channels from ``column`` on,
#:
#:     target[column + p[m] + n] = bias[column + n] + sum over t < taps, c < channels of
#:         x[x_at + e[t, 1 + m] + c] * panel[(e[t, 0] channels + c) across LANES + n],
#:
#: where p are the `ROWS` numbers of ``tables`` from ``places`` on, and e the lines of `ENTRY` numbers from ``entries``
#: on; what is below 0 is stored as 0 if ``relu`` is 1. Arrays are flat, float32 but for ``tables`` of int64.
window_tile = intrinsic(prefer_literal=True)(_window_tile)
