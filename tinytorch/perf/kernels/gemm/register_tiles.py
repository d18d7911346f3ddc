"""Register tiles of float products, which all come from one generator, and a transpose in registers.

`tile` and `transpose` are what attention and convolution are made of; matrix products, products of a few rows and
convolutions in plans have tiles of their own, whose operands are found otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from tinytorch.perf.kernels.runtime import vectors

INT64 = ir.IntType(64)


def _register_file() -> tuple[int, int]:
    """Return (floats of a vector, rows of a tile) for the CPU that Numba compiles for; never more rows than floats.

    Two vectors a row: 8 rows are 16 accumulators, which leave half of 32 registers free; 4 rows fit 16 registers. On
    NEON a vector is two registers, so 4 rows are 16 accumulators of 32, with fewer loads than 8 rows of one would need.
    """
    features = vectors.cpu_features()
    if "avx512f" in features:
        return 16, 8
    return (8, 4) if features & {"avx2", "neon"} else (4, 4)


#: Floats of a vector, rows of a tile, and columns of a tile of two vectors.
LANES, ROWS = _register_file()
COLUMNS = 2 * LANES
VECTOR = ir.VectorType(vectors.FLOAT, LANES)


#: ``step(left, right, way)``: add to the sums of a way the outer product of the numbers at the pointers ``left``, one a
#: row, and of the vectors from the pointer ``right`` on.
TileStep = Callable[..., None]


def add_up(
    builder: Any,
    shape: tuple[int, int, Any],
    sweep: Callable[[TileStep], None],
    begin: Iterable[Any] = (),
    load: Callable[..., Any] = vectors.load,
    ways: int = 1,
) -> list[Any]:
    """Emit a tile, whose sums stay in registers while its steps go by; return the sums, row after row.

    Args:
        builder: LLVM's.
        shape: rows, vectors of a row, and the vector's type.
        sweep: emits the loops, and in the innermost calls the step that it is given.
        begin: what the sums begin with; zeros if nothing is given.
        load: how a vector of the right operand is read; see `vectors.load`.
        ways: sets of sums, which steps may take in turns: one sum would wait for the unit that adds. They are added up.
    """
    rows, wide, vector = shape
    parts = vectors.offsets(builder, INT64(0), vector.count, wide)
    sums = [vectors.variables(builder, vector, rows * wide) for _ in range(ways)]
    for slot, value in zip(sums[0], begin, strict=False):
        builder.store(value, slot)

    def step(left: list[Any], right: Any, way: int = 0) -> None:
        row = [load(builder, right, part, vector) for part in parts]
        vectors.add_outer_product(builder, sums[way], left, row)

    sweep(step)
    made = [[builder.load(slot) for slot in slots] for slots in sums]
    while len(made) > 1:
        made = [
            [builder.fadd(x, y) for x, y in zip(one, other, strict=True)]
            for one, other in zip(made[::2], made[1::2], strict=True)
        ]
    return made[0]


def _loop(builder: Any, count: Any, pointers: list[Any], steps: list[Any], inner: Any) -> None:
    """Emit ``count`` turns of ``inner(pointers)``; after each the pointers move by ``steps`` elements."""
    slots = []
    for pointer in pointers:
        slot = cgutils.alloca_once(builder, pointer.type)
        builder.store(pointer, slot)
        slots.append(slot)
    with cgutils.for_range(builder, count):
        here = [builder.load(slot) for slot in slots]
        inner(here)
        for slot, pointer, step in zip(slots, here, steps, strict=True):
            builder.store(builder.gep(pointer, [step]), slot)


@vectors.emitted(constants=((2, 1), (1, 0)))
def tile(
    builder: Any, wide: int, adds: int, target: Any, target_at: Any, target_rows: Any, x: Any, x_at: Any, x_rows: Any,
    y: Any, y_at: Any, counts: Any, x_steps: Any, y_steps: Any,
) -> None:  # fmt: skip
    """Make a tile of `ROWS` rows and ``wide`` (1 or 2) vectors of `LANES` columns, whose sums stay in registers.

        target[target_at + target_rows[m] + n] = sum over i, j, k of
            x[x_at + x_rows[m] + i x_steps[0] + j x_steps[1] + k x_steps[2]]
            * y[y_at + n + i y_steps[0] + j y_steps[1] + k y_steps[2]],  i, j, k < counts,

    added to what is there if ``adds`` is 1. Arrays are flat float32, ``*_rows`` int64 of at least `ROWS` offsets, the
    last three are tuples of three int64.
    """
    into, left, right = vectors.from_on(builder, target, target_at, x, x_at, y, y_at)
    into_rows, left_rows = (
        [builder.load(builder.gep(rows, [INT64(row)])) for row in range(ROWS)] for rows in (target_rows, x_rows)
    )
    places = [place for row in into_rows for place in vectors.offsets(builder, row, LANES, wide)]
    begin = [vectors.load(builder, into, place, VECTOR) for place in places] if adds else ()

    def sweep(step: TileStep, level: int = 0, here: Any = (left, right)) -> None:
        """Emit the loops from ``level`` on, the innermost of which takes the steps."""
        if level == 3:
            step([builder.gep(here[0], [place]) for place in left_rows], here[1])
            return
        steps = [x_steps[level], y_steps[level]]
        _loop(builder, counts[level], here, steps, lambda there: sweep(step, level + 1, there))

    for value, place in zip(add_up(builder, (ROWS, wide, VECTOR), sweep, begin), places, strict=True):
        vectors.store(builder, value, into, place)


def _masked_rows(builder: Any, data: Any, at: Any, step: Any, rows: Any, columns: Any) -> list[Any]:
    """Return `LANES` vectors, row after row, with zeros beyond ``rows`` and ``columns``; those are not read."""
    numbers = ir.Constant(ir.VectorType(INT64, LANES), list(range(LANES)))
    inside = builder.icmp_signed("<", numbers, vectors.filled(builder, columns, numbers.type))
    nothing = ir.Constant(inside.type, None)
    kind = ir.FunctionType(VECTOR, [VECTOR.as_pointer(), vectors.INT32, inside.type, VECTOR])
    load = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.load.v{LANES}f32.p0")
    loaded = []
    for row in range(LANES):
        mask = builder.select(builder.icmp_signed("<", INT64(row), rows), inside, nothing)
        pointer = vectors.vector_pointer(builder, data, builder.add(at, builder.mul(step, INT64(row))), VECTOR)
        loaded.append(builder.call(load, [pointer, vectors.INT32(4), mask, ir.Constant(VECTOR, None)]))
    return loaded


def transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Return the columns of a square of vectors: off-diagonal quarters of ever larger squares change places."""
    lanes, rows = len(rows), list(rows)
    kind, half = ir.VectorType(vectors.INT32, lanes), 1
    while half < lanes:
        low = [lane if not lane & half else lane - half + lanes for lane in range(lanes)]
        high = [lane + half if not lane & half else lane + lanes for lane in range(lanes)]
        for row in range(lanes):
            if not row & half:
                upper, lower = rows[row], rows[row + half]
                rows[row] = builder.shuffle_vector(upper, lower, ir.Constant(kind, low))
                rows[row + half] = builder.shuffle_vector(upper, lower, ir.Constant(kind, high))
        half *= 2
    return rows


@vectors.emitted()
def transpose(
    builder: Any, target: Any, target_at: Any, target_rows: Any, source: Any, at: Any, step: Any, rows: Any,
    columns: Any,
) -> None:  # fmt: skip
    """Turn a square of `LANES` rows and columns: ``target[target_at + target_rows[c] + r] = source[at + r step + c]``.

    Where r >= rows or c >= columns zeros are written. Arrays are flat float32, ``target_rows`` int64 of at least
    `LANES` offsets.
    """
    for row, values in enumerate(transposed(builder, _masked_rows(builder, source, at, step, rows, columns))):
        place = builder.add(target_at, builder.load(builder.gep(target_rows, [INT64(row)])))
        vectors.store(builder, values, target, place)
