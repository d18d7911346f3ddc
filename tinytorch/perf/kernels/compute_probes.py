"""Kernels that do nothing but arithmetic: float32 multiply-adds, 8-bit dot products, and a chain of integers."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytorch.perf.kernels import vectors
from tinytorch.perf.kernels.int8_instructions import Dot, emitters
from tinytorch.perf.quantization.packing import PANEL

#: Independent accumulators: two units with a latency of five cycles need ten; sixteen registers must hold them.
CHAINS = 12
#: Multiply-adds for one load and one store of an element; twice as many FLOPs. The sweep finds where arithmetic bounds.
MULTIPLY_ADDS = (1, 2, 4, 8, 16, 32, 64)
#: Floats of a vector that are tried: 512, 256 and 128 bits. A CPU without the wide ones runs them in parts.
LANES = (16, 8, 4)
#: Elements of the block: 24 KiB would fill a small first cache, so a quarter of that.
BLOCK_ELEMENTS = 8 * CHAINS * max(LANES)
#: Steps of the 8-bit probe's round: its right operand stays in the first cache.
INT8_STEPS = 32


@cache
def multiply_add(lanes: int, per_element: int) -> Any:
    """Return the kernel ``f(block, rounds, factor, addend)``: ``x = x * factor + addend``, ``per_element`` times.

    It loads each element of ``block`` (float32, its length a multiple of ``lanes * CHAINS``), works on it in
    registers of ``lanes`` floats, and stores it; all that ``rounds`` times: 2 * per_element * len(block) * rounds
    FLOPs. The order of operations on an element is as written, so no fast-math flag is needed.
    """
    vector = ir.VectorType(vectors.FLOAT, lanes)

    def sweep(_typing: Any, block: Any, rounds: Any, factor: Any, addend: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = vectors.data_pointer(context, builder, signature.args[0], arguments[0])
            size = vectors.length(context, builder, signature.args[0], arguments[0])
            times, plus = (vectors.filled(builder, scalar, vector) for scalar in arguments[2:])
            step = size.type(lanes * CHAINS)
            with (
                cgutils.for_range(builder, arguments[1]),
                cgutils.for_range_slice(builder, size.type(0), size, step, size.type) as (start, _),
            ):
                places = vectors.offsets(builder, start, lanes, CHAINS)
                values = [vectors.load(builder, data, place, vector) for place in places]
                for _ in range(per_element):
                    values = [vectors.fused_multiply_add(builder, value, times, plus) for value in values]
                for value, place in zip(values, places, strict=True):
                    vectors.store(builder, value, data, place)
            return context.get_dummy_value()

        return types.void(block, rounds, factor, addend), emit

    sweep_block = intrinsic(sweep)

    def kernel(block: Any, rounds: Any, factor: Any, addend: Any) -> None:
        """Run the rounds."""
        sweep_block(block, rounds, factor, addend)

    return vectors.compiled(kernel, types.void(types.float32[::1], types.intp, types.float32, types.float32))


@cache
def int8_dots(dot: Dot) -> Any:
    """Return the kernel ``f(left, right, sums, rounds)`` that adds 8-bit dot products into 32-bit ``sums``.

    It does what a tile of a product does whose operands are ready: ``left`` holds a vector of unsigned bytes for each
    row of ``dot``'s tile, ``right`` one of signed bytes for each of `INT8_STEPS` steps and each vector of a step, and
    ``sums`` (int32) one for each row and each vector of a step. Each of the ``rounds`` goes through all steps and adds,
    in each lane, the products of each row with each vector (see `Dot`). Bytes that the instruction cannot take as they
    are change, or come apart, before the first round. Only for a CPU that has ``dot``: see
    `int8_instructions.available_dots`.
    """
    rows, wide = int8_tile_shape(dot)
    vector = ir.VectorType(vectors.INT32, dot.lanes)

    def products(_typing: Any, left: Any, right: Any, sums: Any, rounds: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointers = [vectors.data_pointer(context, builder, signature.args[i], arguments[i]) for i in range(3)]
            words = [builder.bitcast(pointer, vectors.INT32.as_pointer()) for pointer in pointers]
            unsigned, signed, add = emitters(builder, dot)
            zero = ir.Constant(ir.IntType(64), 0)
            lefts = [
                unsigned(vectors.load(builder, words[0], place, vector, align=1))
                for place in vectors.offsets(builder, zero, dot.lanes, rows)
            ]
            ready = _ready_in_memory(builder, signed, words[1], INT8_STEPS * wide, vector)
            sums_of = vectors.variables(builder, vector, rows * wide)
            with (
                cgutils.for_range(builder, arguments[3]),
                cgutils.for_range(builder, ir.Constant(ir.IntType(64), INT8_STEPS)) as step,
            ):
                for column in range(wide):
                    place = builder.add(builder.mul(step.index, step.index.type(wide)), step.index.type(column))
                    one = tuple(builder.load(builder.gep(slot, [place])) for slot in ready)
                    for row in range(rows):
                        total = sums_of[row * wide + column]
                        builder.store(add(builder.load(total), lefts[row], one), total)
            for slot, place in zip(sums_of, vectors.offsets(builder, zero, dot.lanes, rows * wide), strict=True):
                vectors.store(builder, builder.load(slot), words[2], place)
            return context.get_dummy_value()

        return types.void(left, right, sums, rounds), emit

    shapes = types.void(types.uint8[::1], types.int8[::1], types.int32[::1], types.intp)

    add_products = intrinsic(products)

    def kernel(left: Any, right: Any, sums: Any, rounds: Any) -> None:
        """Run the rounds."""
        add_products(left, right, sums, rounds)

    return vectors.compiled(kernel, shapes)


def _ready_in_memory(builder: Any, signed: Any, words: Any, count: int, vector: Any) -> list[Any]:
    """Emit the preparation of ``count`` vectors of signed bytes; return a pointer to memory for each of their parts.

    In memory, so that the compiler cannot know that each round multiplies the same numbers.
    """
    slots: list[Any] = []
    for number, place in enumerate(vectors.offsets(builder, ir.Constant(ir.IntType(64), 0), vector.count, count)):
        parts = signed(vectors.load(builder, words, place, vector, align=1))
        slots = slots or [cgutils.alloca_once(builder, part.type, size=count) for part in parts]
        for slot, part in zip(slots, parts, strict=True):
            builder.store(part, builder.gep(slot, [vectors.INT32(number)]))
    return slots


def int8_tile_shape(dot: Dot) -> tuple[int, int]:
    """Return the rows of the tile that `int8_dots` keeps in registers, and the vectors of a row."""
    return dot.rows, dot.panels * PANEL // dot.lanes


def int8_macs(dot: Dot) -> int:
    """Return the multiply-accumulates of one round of `int8_dots`."""
    rows, wide = int8_tile_shape(dot)
    return INT8_STEPS * rows * wide * dot.lanes * dot.products


@cache
def integer_chain() -> Any:
    """Return the kernel ``f(start, addend, mask, rounds)``: ``x = (x + addend) ^ mask``, ``rounds`` times.

    Two dependent integer operations a round, which no compiler can shorten as it does not know the two numbers.
    """

    def kernel(start: Any, addend: Any, mask: Any, rounds: Any) -> Any:
        """Return the last x."""
        x = start
        for _ in range(rounds):
            x = (x + addend) ^ mask
        return x

    return vectors.compiled(kernel, types.uint64(types.uint64, types.uint64, types.uint64, types.intp))
