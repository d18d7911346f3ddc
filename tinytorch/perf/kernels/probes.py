"""Probes: kernels that only move memory or only compute; they measure the ceilings, and pages show their source.

`add_up`, `follow`, `overwrite` and `update` are shown on a page: the same few operations, whose places alone differ.
They add whole numbers, which takes one cycle: what such a loop waits for is memory. They take views of any stride, so
that a column goes through the code that a row goes through.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinytorch.perf.kernels.int8.instructions import Dot, emitters
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.ops.packed_codes import PANEL

#: Vectors that one turn of a loop loads; as many accumulators hide the latency of the additions of `read`.
UNROLLED = 8
#: Bytes between two elements of a pointer chase: one a cache line.
LINE_BYTES = 64
LINE_ELEMENTS = LINE_BYTES // 8
#: A stream's length must be a multiple of this many float32: one turn of the loop with the widest vectors.
STREAM_MULTIPLE = UNROLLED * 16
_STREAM = types.float32[::1]


@contextmanager
def _sweep(builder: Any, size: Any, rounds: Any, lanes: int, together: int = UNROLLED) -> Iterator[list[Any]]:
    """Emit ``rounds`` loops over ``size`` floats; the body gets the places of ``together`` vectors."""
    step = size.type(lanes * together)
    with (
        cgutils.for_range(builder, rounds),
        cgutils.for_range_slice(builder, size.type(0), size, step, size.type) as (at, _),
    ):
        yield vectors.offsets(builder, at, lanes, together)


@cache
def read(lanes: int) -> Any:
    """Return the kernel ``f(source, rounds)``: the sum of float32 ``source``, ``rounds`` times over.

    It is taken in `UNROLLED` accumulators of ``lanes`` floats. It moves 4 * len(source) * rounds bytes. The length
    of ``source`` must be a multiple of `STREAM_MULTIPLE`, as for all streams.
    """
    vector = ir.VectorType(vectors.FLOAT, lanes)

    @vectors.emitted(types.float32)
    def add_all(builder: Any, source: Any, size: Any, rounds: Any) -> Any:
        sums = vectors.variables(builder, vector, UNROLLED)
        with _sweep(builder, size, rounds, lanes) as places:
            for slot, place in zip(sums, places, strict=True):
                builder.store(builder.fadd(builder.load(slot), vectors.load(builder, source, place, vector)), slot)
        return vectors.sum_of_lanes(builder, [builder.load(slot) for slot in sums])

    def probe(source: Any, rounds: Any) -> Any:
        return add_all(source, source.size, rounds)

    return vectors.compiled(probe, types.float32(_STREAM, types.intp))


@cache
def copy(lanes: int) -> Any:
    """Return the kernel ``f(target, source, rounds)``: ``target = source``; 8 * len(source) * rounds bytes."""
    vector = ir.VectorType(vectors.FLOAT, lanes)

    @vectors.emitted()
    def copy_all(builder: Any, target: Any, source: Any, size: Any, rounds: Any) -> None:
        with _sweep(builder, size, rounds, lanes) as places:
            values = [vectors.load(builder, source, place, vector) for place in places]
            for value, place in zip(values, places, strict=True):
                vectors.store(builder, value, target, place)

    def probe(target: Any, source: Any, rounds: Any) -> None:
        copy_all(target, source, source.size, rounds)

    return vectors.compiled(probe, types.void(_STREAM, _STREAM, types.intp))


@cache
def triad(lanes: int) -> Any:
    """Return the kernel ``f(target, left, right, factor, rounds)``: ``target = left + factor * right``.

    It moves 12 * len(target) * rounds bytes. Source: J. D. McCalpin, Memory Bandwidth and Machine Balance in Current
    High Performance Computers, IEEE TCCA Newsletter, December 1995 (STREAM).
    """
    vector = ir.VectorType(vectors.FLOAT, lanes)

    @vectors.emitted()
    def combine(builder: Any, target: Any, left: Any, right: Any, factor: Any, size: Any, rounds: Any) -> None:
        times = vectors.filled(builder, factor, vector)
        with _sweep(builder, size, rounds, lanes) as places:
            for place in places:
                x, y = (vectors.load(builder, data, place, vector) for data in (left, right))
                vectors.store(builder, vectors.fused_multiply_add(builder, y, times, x), target, place)

    def probe(target: Any, left: Any, right: Any, factor: Any, rounds: Any) -> None:
        combine(target, left, right, factor, target.size, rounds)

    return vectors.compiled(probe, types.void(_STREAM, _STREAM, _STREAM, types.float32, types.intp))


@cache
def random_cycle() -> Any:
    """Return the kernel ``f(following, seed)`` that writes one random cycle through all cache lines.

    ``following`` is uint64, `LINE_ELEMENTS` a line; the first element of a line holds the index of the first of the
    next line. It is one cycle, not several: Sattolo's shuffle. Source: S. Sattolo, An algorithm to generate a random
    cyclic permutation, Information Processing Letters 22 (1986).
    """

    def probe(following: Any, seed: Any) -> None:
        line = types.uint64(LINE_ELEMENTS)
        lines = types.uint64(len(following)) // line
        for i in range(lines):
            following[types.uint64(i) * line] = types.uint64(i) * line
        state = seed | types.uint64(1)
        for step in range(1, lines):
            last = lines - types.uint64(step)
            # A xorshift generator: any numbers without a pattern that a prefetcher knows will do.
            state ^= state << types.uint64(13)
            state ^= state >> types.uint64(7)
            state ^= state << types.uint64(17)
            other = (state >> types.uint64(11)) % last
            held = following[last * line]
            following[last * line] = following[other * line]
            following[other * line] = held

    return vectors.compiled(probe, types.void(types.uint64[::1], types.uint64))


@cache
def chase() -> Any:
    """Return the kernel ``f(following, start, steps)``: go from line to line and return the index it ends at."""

    def probe(following: Any, start: Any, steps: Any) -> Any:
        at = start
        for _ in range(steps):
            at = following[at]
        return at

    return vectors.compiled(probe, types.uint64(types.uint64[::1], types.uint64, types.intp))


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

    @vectors.emitted()
    def sweep_block(builder: Any, block: Any, size: Any, rounds: Any, factor: Any, addend: Any) -> None:
        times, plus = (vectors.filled(builder, scalar, vector) for scalar in (factor, addend))
        with _sweep(builder, size, rounds, lanes, CHAINS) as places:
            values = [vectors.load(builder, block, place, vector) for place in places]
            for _ in range(per_element):
                values = [vectors.fused_multiply_add(builder, value, times, plus) for value in values]
            for value, place in zip(values, places, strict=True):
                vectors.store(builder, value, block, place)

    def probe(block: Any, rounds: Any, factor: Any, addend: Any) -> None:
        sweep_block(block, block.size, rounds, factor, addend)

    return vectors.compiled(probe, types.void(_STREAM, types.intp, types.float32, types.float32))


@cache
def int8_dots(dot: Dot) -> Any:
    """Return the kernel ``f(left, right, sums, rounds)`` that adds 8-bit dot products into 32-bit ``sums``.

    It does what a tile of a product does whose operands are ready: ``left`` holds a vector of unsigned bytes for each
    row of ``dot``'s tile, ``right`` one of signed bytes for each of `INT8_STEPS` steps and each vector of a step, and
    ``sums`` (int32) one for each row and each vector of a step. Each of the ``rounds`` goes through all steps and adds,
    in each lane, the products of each row with each vector (see `Dot`). Bytes that the instruction cannot take as they
    are change, or come apart, before the first round. Only for a CPU that has ``dot``: see
    `int8.instructions.available_dots`.
    """
    rows, wide = int8_tile_shape(dot)
    vector = ir.VectorType(vectors.INT32, dot.lanes)

    @vectors.emitted()
    def add_products(builder: Any, left: Any, right: Any, sums: Any, rounds: Any) -> None:
        words = [builder.bitcast(pointer, vectors.INT32.as_pointer()) for pointer in (left, right, sums)]
        unsigned, signed, add = emitters(builder, dot)
        zero = ir.Constant(ir.IntType(64), 0)
        lefts = [
            unsigned(vectors.load(builder, words[0], place, vector, align=1))
            for place in vectors.offsets(builder, zero, dot.lanes, rows)
        ]
        ready = _ready_in_memory(builder, signed, words[1], INT8_STEPS * wide, vector)
        sums_of = vectors.variables(builder, vector, rows * wide)
        with (
            cgutils.for_range(builder, rounds),
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

    def probe(left: Any, right: Any, sums: Any, rounds: Any) -> None:
        add_products(left, right, sums, rounds)

    return vectors.compiled(probe, types.void(types.uint8[::1], types.int8[::1], types.int32[::1], types.intp))


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
    """Return the rows of the tile that `int8_dots` keeps in registers, and the vectors of a row.

    The tile of a product reads its rows from memory, a number at a time. Here they stay in registers, too, so that
    fewer fit: what the compiler has to store and load again would take longer than the products.
    """
    wide = dot.panels * PANEL // dot.lanes
    registers, parts = (16 if dot.lanes == 8 else 32), (1 if dot.is_dot_product else 2)
    return min(dot.rows, (registers - wide * parts) // (wide + parts)), wide


def int8_macs(dot: Dot) -> int:
    """Return the multiply-accumulates of one round of `int8_dots`."""
    rows, wide = int8_tile_shape(dot)
    return INT8_STEPS * rows * wide * dot.lanes * dot.products


@cache
def integer_chain() -> Any:
    """Return the kernel ``f(start, addend, mask, rounds)``: ``x = (x + addend) ^ mask``, ``rounds`` times.

    Two dependent integer operations a round, which no compiler can shorten as it does not know the two numbers.
    """

    def probe(start: Any, addend: Any, mask: Any, rounds: Any) -> Any:
        x = start
        for _ in range(rounds):
            x = (x + addend) ^ mask
        return x

    return vectors.compiled(probe, types.uint64(types.uint64, types.uint64, types.uint64, types.intp))


@kernel
def add_up(numbers: Any) -> Any:
    """Return the sum of a matrix, row by row."""
    total = 0
    for row in range(numbers.shape[0]):
        for column in range(numbers.shape[1]):
            total += numbers[row, column]
    return total


@kernel
def follow(following: Any, places: Any, steps: int) -> None:
    """Follow one chain of indices from each of ``places``, for ``steps`` loads each."""
    for _ in range(steps):
        for chain in range(places.size):
            places[chain] = following[places[chain]]


@kernel
def gather(numbers: Any, places: Any) -> Any:
    """Return the sum of the numbers at ``places``, whose loads do not depend on one another."""
    total = numbers[places[0]]
    for at in range(1, places.size):
        total += numbers[places[at]]
    return total


@kernel
def overwrite(numbers: Any, value: Any) -> None:
    """Write ``value`` into each number, and read none."""
    for at in range(numbers.size):
        numbers[at] = value


@kernel
def update(numbers: Any, value: Any) -> None:
    """Add ``value`` to each number: read it and write it."""
    for at in range(numbers.size):
        numbers[at] += value
