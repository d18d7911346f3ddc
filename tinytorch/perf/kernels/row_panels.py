"""The product of one row with a packed matrix: as fast as the weights come, from a cache or from memory.

One row meets each weight once, so nothing is reused. Several steps of the inner axis are added up side by side, as a
sum of one accumulator would wait for the unit that adds; and what lies in memory is asked for well ahead, across the
pages at which hardware stops to look ahead.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytorch.perf.kernels.gemm.packing import panel_start
from tinytorch.perf.kernels.gemm.product_tiles import LANES, WIDTH
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.compiling import kernel

_INDEX = ir.IntType(64)
_VECTOR = ir.VectorType(vectors.FLOAT, LANES)
#: Steps of the inner axis that have accumulators of their own, and floats of a cache line.
_WAYS, _LINE = 4, 16
#: Bytes of weights above which they come from memory and not from a cache, and floats that are then asked for ahead.
FAR_BYTES, _AHEAD = 4 << 20, 1536


def _panel(width: int, far: bool) -> Any:
    """Return the intrinsic ``f(x, panel, bias, out, count)`` for a panel of ``width`` vectors.

    It writes bias + sum over k < count of x[k] * panel[k]; all are addresses.
    """

    def panel_product(_typing: Any, x: Any, panel: Any, bias: Any, out: Any, count: Any) -> Any:
        def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            *addresses, count = arguments
            x, panel, bias, out = (builder.inttoptr(each, vectors.FLOAT.as_pointer()) for each in addresses)
            sums = [vectors.variables(builder, _VECTOR, width) for _ in range(_WAYS)]
            places = [_INDEX(LANES * number) for number in range(width)]
            for slot, place in zip(sums[0], places, strict=True):
                builder.store(vectors.load(builder, bias, place, _VECTOR), slot)

            def step(index: Any, slots: list[Any]) -> None:
                """Add the product of one element of x and its row of the panel."""
                here = builder.gep(panel, [builder.mul(index, _INDEX(width * LANES))])
                if far:
                    for line in range(max(1, width * LANES // _LINE)):
                        vectors.prefetch(builder, builder.gep(here, [_INDEX(_AHEAD + _LINE * line)]))
                factor = vectors.filled(builder, builder.load(builder.gep(x, [index])), _VECTOR)
                for slot, place in zip(slots, places, strict=True):
                    value = vectors.load(builder, here, place, _VECTOR)
                    builder.store(vectors.fused_multiply_add(builder, factor, value, builder.load(slot)), slot)

            whole = builder.and_(count, _INDEX(-_WAYS))
            with cgutils.for_range_slice(builder, _INDEX(0), whole, _INDEX(_WAYS), _INDEX) as (start, _):
                for way in range(_WAYS):
                    step(builder.add(start, _INDEX(way)), sums[way])
            with cgutils.for_range_slice(builder, whole, count, _INDEX(1), _INDEX) as (index, _):
                step(index, sums[0])
            for number, place in enumerate(places):
                pairs = [builder.load(slots[number]) for slots in sums]
                while len(pairs) > 1:
                    pairs = [builder.fadd(a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
                vectors.store(builder, pairs[0], out, place)
            return context.get_dummy_value()

        return types.void(*[types.intp for _ in (x, panel, bias, out, count)]), emit

    return intrinsic(panel_product)


_near_1, _near_2, _near_3 = (_panel(width, False) for width in (1, 2, 3))
_far_1, _far_2, _far_3 = (_panel(width, True) for width in (1, 2, 3))


@kernel
def row_product(x: int, panels: int, bias: int, out: int, inner: int, columns: int) -> None:
    """Write a row of ``inner`` floats times a packed matrix, plus ``bias``; all but the sizes are addresses.

    ``bias`` and ``out`` have whole vectors: those beyond ``columns`` are read and written as well.
    """
    count = (columns + WIDTH - 1) // WIDTH
    far = 4 * inner * columns > FAR_BYTES
    for number in range(count):
        first = LANES * panel_start(number, columns)
        width = LANES * panel_start(number + 1, columns) - first
        panel, added, to = panels + 4 * inner * first, bias + 4 * first, out + 4 * first
        if far:
            if width == 3 * LANES:
                _far_3(x, panel, added, to, inner)
            elif width == 2 * LANES:
                _far_2(x, panel, added, to, inner)
            else:
                _far_1(x, panel, added, to, inner)
        elif width == 3 * LANES:
            _near_3(x, panel, added, to, inner)
        elif width == 2 * LANES:
            _near_2(x, panel, added, to, inner)
        else:
            _near_1(x, panel, added, to, inner)
