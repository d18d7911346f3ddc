"""Kernels that do nothing but move memory: read, copy and triad of streams, and loads that depend on each other."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytorch.perf.kernels import vectors

#: Vectors that one turn of a loop loads; as many accumulators hide the latency of the additions of `read`.
UNROLLED = 8
#: Bytes between two elements of a pointer chase: one a cache line.
LINE_BYTES = 64
LINE_ELEMENTS = LINE_BYTES // 8
#: A stream's length must be a multiple of this many float32: one turn of the loop with the widest vectors.
STREAM_MULTIPLE = UNROLLED * 16


@cache
def read(lanes: int) -> Any:
    """Return the kernel ``f(source, rounds)``: the sum of float32 ``source``, ``rounds`` times over.

    It is taken in `UNROLLED` accumulators of ``lanes`` floats. It moves 4 * len(source) * rounds bytes. The length
    of ``source`` must be a multiple of `STREAM_MULTIPLE`, as for all streams.
    """
    vector = ir.VectorType(vectors.FLOAT, lanes)

    def total(_typing: Any, source: Any, rounds: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = vectors.data_pointer(context, builder, signature.args[0], arguments[0])
            size = vectors.length(context, builder, signature.args[0], arguments[0])
            sums = vectors.variables(builder, vector, UNROLLED)
            with (
                cgutils.for_range(builder, arguments[1]),
                cgutils.for_range_slice(builder, size.type(0), size, size.type(lanes * UNROLLED), size.type) as (at, _),
            ):
                for slot, place in zip(sums, vectors.offsets(builder, at, lanes, UNROLLED), strict=True):
                    builder.store(builder.fadd(builder.load(slot), vectors.load(builder, data, place, vector)), slot)
            return vectors.sum_of_lanes(builder, [builder.load(slot) for slot in sums])

        return types.float32(source, rounds), emit

    add_all = intrinsic(total)

    def kernel(source: Any, rounds: Any) -> Any:
        """Return the sum."""
        return add_all(source, rounds)

    return vectors.compiled(kernel, types.float32(types.float32[::1], types.intp))


@cache
def copy(lanes: int) -> Any:
    """Return the kernel ``f(target, source, rounds)``: ``target = source``; 8 * len(source) * rounds bytes."""
    vector = ir.VectorType(vectors.FLOAT, lanes)

    def copied(_typing: Any, target: Any, source: Any, rounds: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, data = (vectors.data_pointer(context, builder, signature.args[i], arguments[i]) for i in range(2))
            size = vectors.length(context, builder, signature.args[1], arguments[1])
            with (
                cgutils.for_range(builder, arguments[2]),
                cgutils.for_range_slice(builder, size.type(0), size, size.type(lanes * UNROLLED), size.type) as (at, _),
            ):
                places = vectors.offsets(builder, at, lanes, UNROLLED)
                values = [vectors.load(builder, data, place, vector) for place in places]
                for value, place in zip(values, places, strict=True):
                    vectors.store(builder, value, to, place)
            return context.get_dummy_value()

        return types.void(target, source, rounds), emit

    copy_all = intrinsic(copied)

    def kernel(target: Any, source: Any, rounds: Any) -> None:
        """Copy."""
        copy_all(target, source, rounds)

    return vectors.compiled(kernel, types.void(types.float32[::1], types.float32[::1], types.intp))


@cache
def triad(lanes: int) -> Any:
    """Return the kernel ``f(target, left, right, factor, rounds)``: ``target = left + factor * right``.

    It moves 12 * len(target) * rounds bytes. Source: J. D. McCalpin, Memory Bandwidth and Machine Balance in Current
    High Performance Computers, IEEE TCCA Newsletter, December 1995 (STREAM).
    """
    vector = ir.VectorType(vectors.FLOAT, lanes)

    def combined(_typing: Any, target: Any, left: Any, right: Any, factor: Any, rounds: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, a, b = (vectors.data_pointer(context, builder, signature.args[i], arguments[i]) for i in range(3))
            size = vectors.length(context, builder, signature.args[0], arguments[0])
            times = vectors.filled(builder, arguments[3], vector)
            with (
                cgutils.for_range(builder, arguments[4]),
                cgutils.for_range_slice(builder, size.type(0), size, size.type(lanes * UNROLLED), size.type) as (at, _),
            ):
                for place in vectors.offsets(builder, at, lanes, UNROLLED):
                    x, y = (vectors.load(builder, data, place, vector) for data in (a, b))
                    vectors.store(builder, vectors.fused_multiply_add(builder, y, times, x), to, place)
            return context.get_dummy_value()

        return types.void(target, left, right, factor, rounds), emit

    stream = types.float32[::1]

    combine = intrinsic(combined)

    def kernel(target: Any, left: Any, right: Any, factor: Any, rounds: Any) -> None:
        """Fill the target."""
        combine(target, left, right, factor, rounds)

    return vectors.compiled(kernel, types.void(stream, stream, stream, types.float32, types.intp))


@cache
def random_cycle() -> Any:
    """Return the kernel ``f(following, seed)`` that writes one random cycle through all cache lines.

    ``following`` is uint64, `LINE_ELEMENTS` a line; the first element of a line holds the index of the first of the
    next line. It is one cycle, not several: Sattolo's shuffle. Source: S. Sattolo, An algorithm to generate a random
    cyclic permutation, Information Processing Letters 22 (1986).
    """

    def kernel(following: Any, seed: Any) -> None:
        """Write the cycle."""
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

    return vectors.compiled(kernel, types.void(types.uint64[::1], types.uint64))


@cache
def chase() -> Any:
    """Return the kernel ``f(following, start, steps)``: go from line to line and return the index it ends at."""

    def kernel(following: Any, start: Any, steps: Any) -> Any:
        """Return the last index."""
        at = start
        for _ in range(steps):
            at = following[at]
        return at

    return vectors.compiled(kernel, types.uint64(types.uint64[::1], types.uint64, types.intp))
