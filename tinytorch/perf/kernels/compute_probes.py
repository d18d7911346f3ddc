"""Kernels that do nothing but arithmetic: float32 multiply-adds, 8-bit dot products, and a chain of integers."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytorch.perf.kernels import vectors

#: Independent accumulators: two units with a latency of five cycles need ten; sixteen registers must hold them.
CHAINS = 12
#: Multiply-adds for one load and one store of an element; twice as many FLOPs. The sweep finds where arithmetic bounds.
MULTIPLY_ADDS = (1, 2, 4, 8, 16, 32, 64)
#: Floats of a vector that are tried: 512, 256 and 128 bits. A CPU without the wide ones runs them in parts.
LANES = (16, 8, 4)
#: Elements of the block: 24 KiB would fill a small first cache, so a quarter of that.
BLOCK_ELEMENTS = 8 * CHAINS * max(LANES)
#: Dot products of the 8-bit probe in one turn of its loop, for each accumulator.
_UNROLLED = 8
#: Multiply-accumulates of one 8-bit instruction: four for each of the 32-bit lanes.
MACS_PER_LANE = 4


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


def int8_instruction() -> tuple[int, str] | None:
    """Return (32-bit lanes, instruction) of the 8-bit dot product that Numba may use here; None if there is none."""
    features = vectors.cpu_features()
    if {"avx512f", "avx512vnni"} <= features:
        return 16, "AVX-512 VNNI vpdpbusd"
    if {"avx2", "avxvnni"} <= features:
        return 8, "AVX-VNNI vpdpbusd"
    return None


@cache
def int8_dot(lanes: int) -> Any:
    """Return the kernel ``f(left, right, sums, rounds)`` that adds 8-bit dot products into 32-bit ``sums``.

    ``left`` holds unsigned bytes and ``right`` signed ones, four a lane; ``sums`` int32, CHAINS times ``lanes``.
    Each round adds, 8 times, the four products of each lane to each accumulator: 8 * 4 * len(sums) MACs.
    Only for a CPU that `int8_instruction` accepts. Source: Intel 64 manual, volume 2, VPDPBUSD.
    """
    vector = ir.VectorType(vectors.INT32, lanes)
    name = f"llvm.x86.avx512.vpdpbusd.{lanes * 32}"

    def dot(_typing: Any, left: Any, right: Any, sums: Any, rounds: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointers = [vectors.data_pointer(context, builder, signature.args[i], arguments[i]) for i in range(3)]
            zero = ir.Constant(ir.IntType(64), 0)
            words = [builder.bitcast(pointer, vectors.INT32.as_pointer()) for pointer in pointers]
            bytes_of = [vectors.load(builder, word, zero, vector) for word in words[:2]]
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
            sums_of = vectors.variables(builder, vector, CHAINS)
            with cgutils.for_range(builder, arguments[3]):
                for _ in range(_UNROLLED):
                    for slot in sums_of:
                        builder.store(builder.call(function, [builder.load(slot), *bytes_of]), slot)
            for slot, place in zip(sums_of, vectors.offsets(builder, zero, lanes, CHAINS), strict=True):
                vectors.store(builder, builder.load(slot), words[2], place)
            return context.get_dummy_value()

        return types.void(left, right, sums, rounds), emit

    shapes = types.void(types.uint8[::1], types.int8[::1], types.int32[::1], types.intp)

    add_dots = intrinsic(dot)

    def kernel(left: Any, right: Any, sums: Any, rounds: Any) -> None:
        """Run the rounds."""
        add_dots(left, right, sums, rounds)

    return vectors.compiled(kernel, shapes)


def int8_macs(lanes: int, rounds: int) -> int:
    """Return the multiply-accumulates of ``rounds`` rounds of `int8_dot`."""
    return _UNROLLED * CHAINS * lanes * MACS_PER_LANE * rounds


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
