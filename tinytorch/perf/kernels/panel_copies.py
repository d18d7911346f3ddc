"""How panels are filled at the speed of memory: rows copied as vectors, columns turned into rows in registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytorch.perf.kernels import vectors
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.product_tiles import LANES, prefetch

_INDEX = ir.IntType(64)
#: Rows that are asked for ahead: each begins a page of its own, which no hardware foresees.
_AHEAD = 24
_VECTOR = ir.VectorType(vectors.FLOAT, LANES)


def _row_copy(width: int) -> Any:
    """Return the intrinsic ``f(source, step, target, rows)`` that joins rows of ``width`` vectors, ``step`` apart."""

    def copy(_typing: Any, source: Any, step: Any, target: Any, rows: Any) -> Any:
        def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            source, step, target, rows = arguments
            data, to = (builder.inttoptr(each, vectors.FLOAT.as_pointer()) for each in (source, target))
            with cgutils.for_range(builder, rows, intp=_INDEX) as loop:
                row = builder.gep(data, [builder.mul(loop.index, step)])
                prefetch(builder, builder.gep(row, [builder.mul(step, _INDEX(_AHEAD))]), width * LANES)
                start = builder.mul(loop.index, _INDEX(width * LANES))
                for number in range(width):
                    value = vectors.load(builder, row, _INDEX(number * LANES), _VECTOR)
                    vectors.store(builder, value, to, builder.add(start, _INDEX(number * LANES)))
            return context.get_dummy_value()

        return types.void(*[types.intp for _ in (source, step, target, rows)]), emit

    return intrinsic(copy)


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Return the transpose of as many vectors as each has lanes: parts of pairs change places, round by round."""
    lanes = len(rows)
    distance = 1
    while distance < lanes:
        made: list[Any] = [None] * lanes
        for index in range(lanes):
            if index & distance:
                continue
            upper, lower = rows[index], rows[index + distance]
            first = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
            second = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
            kind = ir.VectorType(vectors.INT32, lanes)
            made[index] = builder.shuffle_vector(upper, lower, ir.Constant(kind, first))
            made[index + distance] = builder.shuffle_vector(upper, lower, ir.Constant(kind, second))
        rows = made
        distance *= 2
    return rows


@intrinsic  # type: ignore[untyped-decorator]
def _transpose_square(_typing: Any, source: Any, source_step: Any, target: Any, target_step: Any) -> Any:
    """Write the transpose of a square of `LANES` rows and columns; distances are in floats."""

    def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        source, source_step, target, target_step = arguments
        data, to = (builder.inttoptr(each, vectors.FLOAT.as_pointer()) for each in (source, target))
        rows = [
            vectors.load(builder, data, builder.mul(source_step, _INDEX(number)), _VECTOR) for number in range(LANES)
        ]
        for number, value in enumerate(_transposed(builder, rows)):
            vectors.store(builder, value, to, builder.mul(target_step, _INDEX(number)))
        return context.get_dummy_value()

    return types.void(*[types.intp for _ in (source, source_step, target, target_step)]), emit


_copy_1, _copy_2, _copy_3 = _row_copy(1), _row_copy(2), _row_copy(3)


@kernel
def copy_rows(source: int, step: int, target: int, rows: int, width: int) -> None:
    """Copy ``rows`` rows of ``width`` (1 to 3) vectors, ``step`` floats apart at ``source``, to one after another."""
    if width == 3:
        _copy_3(source, step, target, rows)
    elif width == 2:
        _copy_2(source, step, target, rows)
    else:
        _copy_1(source, step, target, rows)


@kernel
def transpose_rows(source: int, step: int, target: int, target_step: int, columns: int) -> None:
    """Write the transpose of `LANES` rows of ``columns`` floats; ``columns`` is a multiple of `LANES`."""
    for start in range(0, columns, LANES):
        _transpose_square(source + 4 * start, step, target + 4 * start * target_step, target_step)
