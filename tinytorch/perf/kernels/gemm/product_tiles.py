"""The innermost loop of a matrix product: a tile of the output stays in registers while the inner axis goes by.

A tile of ``rows`` x ``vectors`` registers takes, for each step of the inner axis, ``vectors`` loads of the right
operand, ``rows`` broadcasts of the left one, and ``rows * vectors`` fused multiply-adds: so much arithmetic for each
load that the multiply-add units, not the caches, set the pace. Source: K. Goto and R. A. van de Geijn, Anatomy of
high-performance matrix multiplication, ACM TOMS 34(3), 2008.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinytorch.perf.kernels.gemm.register_tiles import INT64, TileStep, add_up
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.compiling import kernel

#: Steps of the inner axis that the right operand is asked for ahead: it streams from the second cache.
_AHEAD = 16

#: Floats of a vector, and the tallest and widest tile: 24 accumulators of 32 registers, or 12 of 16. A vector is two
#: registers of NEON: 24 of 32 too, with 10 loaded a step, where a tile of 8 rows and 3 single registers would load 11.
LANES, ROWS, VECTORS = (16, 8, 3) if "avx512f" in vectors.cpu_features() else (8, 4, 3)
#: Columns of the widest tile.
WIDTH = VECTORS * LANES


#: Heights of tiles, the tallest first.
_HEIGHTS = tuple(rows for rows in (8, 4, 2, 1) if rows <= ROWS)
_VECTOR = ir.VectorType(vectors.FLOAT, LANES)


@vectors.emitted(takes=[types.intp] * 9, constants=(_HEIGHTS, (3, 2, 1)))
def tile(
    builder: Any, rows: int, width: int, a: Any, a_row: Any, a_step: Any, b: Any, b_step: Any, c: Any, c_row: Any,
    count: Any, add: Any,
) -> None:  # fmt: skip
    """Make a tile of the output of ``rows`` (1, 2, 4 or `ROWS`) and ``width`` (1 to 3) vectors.

    It adds ``count`` outer products of a column of ``a`` (``rows`` floats, ``a_row`` apart) and a row of ``b``
    (``width`` vectors in a row), ``a_step`` and ``b_step`` apart, and writes the sums to ``c``, whose rows are
    ``c_row`` apart, or adds them to what is there if ``add`` is not 0. ``a``, ``b`` and ``c`` are addresses, distances
    are in floats. Each sum runs over the inner axis in order, so it is the same in any tile.
    """
    a, b, c = vectors.float_pointers(builder, a, b, c)
    starts = [builder.mul(a_row, INT64(row)) for row in range(rows)]
    a_slot, b_slot = cgutils.alloca_once(builder, a.type), cgutils.alloca_once(builder, b.type)
    builder.store(a, a_slot)
    builder.store(b, b_slot)

    def sweep(step: TileStep) -> None:
        # One step a turn: with more, where a step's distance is known, the compiler loads for all of them
        # first, and the accumulators leave the registers.
        with cgutils.for_range(builder, count):
            left, right = builder.load(a_slot), builder.load(b_slot)
            later = builder.gep(right, [builder.mul(b_step, INT64(_AHEAD))])
            vectors.prefetch(builder, later, width * LANES)
            step([builder.gep(left, [start]) for start in starts], right)
            builder.store(builder.gep(left, [a_step]), a_slot)
            builder.store(builder.gep(right, [b_step]), b_slot)

    for number, total in enumerate(add_up(builder, (rows, width, _VECTOR), sweep)):
        row, column = divmod(number, width)
        place = builder.add(builder.mul(c_row, INT64(row)), INT64(column * LANES))
        with builder.if_else(builder.icmp_signed("!=", add, INT64(0))) as (more, first):
            with more:
                vectors.store(builder, builder.fadd(vectors.load(builder, c, place, _VECTOR), total), c, place)
            with first:
                vectors.store(builder, total, c, place)


@kernel
def multiply_tile(
    rows: int, width: int, a: int, ar: int, at: int, b: int, bt: int, c: int, cr: int, count: int, add: int
) -> None:
    """Run `tile`, compiled once, so that what calls it for many sizes of tiles stays small."""
    tile(rows, width, a, ar, at, b, bt, c, cr, count, add)


def tile_kernel(rows: int, width: int) -> Any:
    """Return the tile of any height and width as a kernel of its own."""

    def product(a: int, ar: int, at: int, b: int, bt: int, c: int, cr: int, count: int, add: int) -> None:
        tile(rows, width, a, ar, at, b, bt, c, cr, count, add)

    return kernel(product, f"of_{rows}x{width}")
