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


def tile(rows: int, width: int, lanes: int) -> Any:
    """Return ``f(a, a_row, a_step, b, b_step, c, c_row, count, add)`` for a tile of the output.

    It adds ``count`` outer products of a column of ``a`` (``rows`` floats, ``a_row`` apart) and a row of ``b``
    (``width * lanes`` floats in a row), ``a_step`` and ``b_step`` apart, and writes the sums to ``c``, whose rows are
    ``c_row`` apart, or adds them to what is there if ``add`` is not 0. ``a``, ``b`` and ``c`` are addresses, distances
    are in floats. Each sum runs over the inner axis in order, so it is the same in any tile.
    """
    vector = ir.VectorType(vectors.FLOAT, lanes)

    @vectors.emitted(takes=[types.intp] * 9)
    def product(
        builder: Any, a: Any, a_row: Any, a_step: Any, b: Any, b_step: Any, c: Any, c_row: Any, count: Any, add: Any
    ) -> None:
        a, b, c = vectors.float_pointers(builder, a, b, c)
        starts = [builder.mul(a_row, INT64(row)) for row in range(rows)]
        a_slot, b_slot = cgutils.alloca_once_value(builder, a), cgutils.alloca_once_value(builder, b)

        def sweep(step: TileStep) -> None:
            # One step a turn: with more, where a step's distance is known, the compiler loads for all of them
            # first, and the accumulators leave the registers.
            with cgutils.for_range(builder, count):
                left, right = builder.load(a_slot), builder.load(b_slot)
                later = builder.gep(right, [builder.mul(b_step, INT64(_AHEAD))])
                vectors.prefetch(builder, later, width * lanes)
                step([builder.gep(left, [start]) for start in starts], right)
                builder.store(builder.gep(left, [a_step]), a_slot)
                builder.store(builder.gep(right, [b_step]), b_slot)

        for number, total in enumerate(add_up(builder, (rows, width, vector), sweep)):
            row, column = divmod(number, width)
            place = builder.add(builder.mul(c_row, INT64(row)), INT64(column * lanes))
            with builder.if_else(builder.icmp_signed("!=", add, INT64(0))) as (more, first):
                with more:
                    vectors.store(builder, builder.fadd(vectors.load(builder, c, place, vector), total), c, place)
                with first:
                    vectors.store(builder, total, c, place)

    return product


def tile_kernel(rows: int, width: int) -> Any:
    """Return the tile as a kernel of its own, which is compiled once and called by all."""
    add_up = tile(rows, width, LANES)

    def product(a: int, ar: int, at: int, b: int, bt: int, c: int, cr: int, count: int, add: int) -> None:
        add_up(a, ar, at, b, bt, c, cr, count, add)

    return kernel(product, f"of_{rows}x{width}")


_tile_1x1, _tile_1x2, _tile_1x3 = (tile_kernel(1, width) for width in (1, 2, 3))
_tile_2x1, _tile_2x2, _tile_2x3 = (tile_kernel(2, width) for width in (1, 2, 3))
_tile_4x1, _tile_4x2, _tile_4x3 = (tile_kernel(4, width) for width in (1, 2, 3))
_tile_8x1, _tile_8x2, _tile_8x3 = (
    (tile_kernel(8, width) for width in (1, 2, 3)) if ROWS == 8 else (_tile_4x1, _tile_4x2, _tile_4x3)
)


@kernel
def multiply_tile(
    rows: int, width: int, a: int, ar: int, at: int, b: int, bt: int, c: int, cr: int, count: int, add: int
) -> None:
    """Run the tile of 1, 2, 4 or 8 ``rows`` (8 only where `ROWS` is) and 1 to 3 vectors of ``width``; see `tile`."""
    if width == 3:
        if rows == 8:
            _tile_8x3(a, ar, at, b, bt, c, cr, count, add)
        elif rows == 4:
            _tile_4x3(a, ar, at, b, bt, c, cr, count, add)
        elif rows == 2:
            _tile_2x3(a, ar, at, b, bt, c, cr, count, add)
        else:
            _tile_1x3(a, ar, at, b, bt, c, cr, count, add)
    elif width == 2:
        if rows == 8:
            _tile_8x2(a, ar, at, b, bt, c, cr, count, add)
        elif rows == 4:
            _tile_4x2(a, ar, at, b, bt, c, cr, count, add)
        elif rows == 2:
            _tile_2x2(a, ar, at, b, bt, c, cr, count, add)
        else:
            _tile_1x2(a, ar, at, b, bt, c, cr, count, add)
    elif rows == 8:
        _tile_8x1(a, ar, at, b, bt, c, cr, count, add)
    elif rows == 4:
        _tile_4x1(a, ar, at, b, bt, c, cr, count, add)
    elif rows == 2:
        _tile_2x1(a, ar, at, b, bt, c, cr, count, add)
    else:
        _tile_1x1(a, ar, at, b, bt, c, cr, count, add)
