"""Steps of attention in vectors: the online softmax of columns, forward and backward."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinytorch.perf.kernels.gemm.register_tiles import LANES, VECTOR
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.vectors import INT32

_WORDS = ir.VectorType(INT32, LANES)
_MAGIC = 12582912.0  # 1.5 * 2**23: adding it leaves a whole number in the low bits
_LOWEST = -87.33654  # below it the exponential is subnormal, and taken as 0
#: S. L. Moshier, Cephes library, single/expf.c: (e**r - 1 - r) / r**2, highest power first.
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def _constant(value: float) -> Any:
    return ir.Constant(VECTOR, [value] * LANES)


def _word(value: int) -> Any:
    return ir.Constant(_WORDS, [value] * LANES)


def exponential(builder: Any, x: Any) -> Any:
    """Emit e**x for a vector x <= 0: within 2 ulp, 0 where that would be subnormal, NaN for NaN."""
    tiny = builder.fcmp_ordered("<", x, _constant(_LOWEST))
    inside = builder.select(tiny, _constant(_LOWEST), x)
    shifted = vectors.fused_multiply_add(builder, inside, _constant(1.4426950408889634), _constant(_MAGIC))
    whole = builder.fsub(shifted, _constant(_MAGIC))
    r = vectors.fused_multiply_add(builder, whole, _constant(-0.693359375), inside)
    r = vectors.fused_multiply_add(builder, whole, _constant(2.12194440e-4), r)
    p = _constant(_EXP[0])
    for coefficient in _EXP[1:]:
        p = vectors.fused_multiply_add(builder, p, r, _constant(coefficient))
    value = builder.fadd(vectors.fused_multiply_add(builder, p, builder.fmul(r, r), r), _constant(1.0))
    exponent = builder.shl(builder.bitcast(shifted, _WORDS), _word(23))
    power = builder.bitcast(builder.add(exponent, _word(127 << 23)), VECTOR)
    return builder.select(tiny, _constant(0.0), builder.fmul(value, power))


@vectors.emitted()
def weigh(
    builder: Any, block: Any, at: Any, rows: Any, step: Any, highest: Any, sums: Any, factors: Any, column: Any
) -> None:
    """Make one step of the online softmax for `LANES` columns.

    Scores block[at + j step + lane], j < rows, become exponentials of their distance to the largest score so far.
    ``highest``, ``sums`` and ``factors`` (flat float32, from ``column`` on) hold the largest score and the sum of
    exponentials so far, and by how much earlier exponentials must be multiplied now. Source: M. Milakov,
    N. Gimelshein, Online normalizer calculation for softmax, arXiv:1805.02867.
    """
    data, before = builder.gep(block, [at]), vectors.load(builder, highest, column, VECTOR)
    (high, total) = vectors.variables(builder, VECTOR, 2)
    builder.store(before, high)
    with cgutils.for_range(builder, rows) as turn:
        scores = vectors.load(builder, data, builder.mul(turn.index, step), VECTOR)
        above = builder.load(high)
        builder.store(builder.select(builder.fcmp_ordered(">", scores, above), scores, above), high)
    after = builder.load(high)
    # Where nothing has been visible yet, any finite number in place of the maximum leaves weights of 0.
    nothing = builder.fcmp_ordered("==", after, _constant(float("-inf")))
    shift = builder.select(nothing, _constant(0.0), after)
    scale = exponential(builder, builder.fsub(before, shift))
    # A variable of a vector holds what it held at the end of the last call until it is set.
    builder.store(builder.fmul(vectors.load(builder, sums, column, VECTOR), scale), total)
    with cgutils.for_range(builder, rows) as turn:
        place = builder.mul(turn.index, step)
        weights = exponential(builder, builder.fsub(vectors.load(builder, data, place, VECTOR), shift))
        vectors.store(builder, weights, data, place)
        builder.store(builder.fadd(builder.load(total), weights), total)
    for value, kept in ((after, highest), (builder.load(total), sums), (scale, factors)):
        vectors.store(builder, value, kept, column)


@vectors.emitted()
def slope(builder: Any, weights: Any, slopes: Any, at: Any, rows: Any, step: Any, statistics: Any, column: Any) -> None:
    """Make softmax backward for `LANES` columns.

    ``weights`` holds scores at [at + j step + lane], j < rows, and becomes p = exp(score - highest) * inverse;
    ``slopes`` holds products of gradient and values, and becomes p * (product - along). The ``statistics`` (highest,
    inverse, along) of the columns are flat float32, read from ``column`` on.
    """
    data, changed = vectors.from_on(builder, weights, at, slopes, at)
    high, factor, product = (vectors.load(builder, each, column, VECTOR) for each in statistics)
    with cgutils.for_range(builder, rows) as turn:
        place = builder.mul(turn.index, step)
        p = exponential(builder, builder.fsub(vectors.load(builder, data, place, VECTOR), high))
        p = builder.fmul(p, factor)
        vectors.store(builder, p, data, place)
        change = builder.fsub(vectors.load(builder, changed, place, VECTOR), product)
        vectors.store(builder, builder.fmul(p, change), changed, place)


@vectors.emitted(types.int32)
def largest_bits(builder: Any, x: Any, size: Any) -> Any:
    """Give the largest magnitude of ``size`` float32, a multiple of `LANES`, as its bits; see `INFINITE_BITS`."""
    slot = cgutils.alloca_once(builder, _WORDS)
    builder.store(ir.Constant(_WORDS, None), slot)
    with cgutils.for_range_slice(builder, size.type(0), size, size.type(LANES), size.type) as (at, _):
        bits = builder.bitcast(vectors.load(builder, x, at, VECTOR), _WORDS)
        bits, most = builder.and_(bits, _word(0x7FFFFFFF)), builder.load(slot)
        builder.store(builder.select(builder.icmp_signed(">", bits, most), bits, most), slot)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(INT32, [_WORDS]), f"llvm.vector.reduce.smax.v{LANES}i32"
    )
    return builder.call(function, [builder.load(slot)])


#: The bits of infinity; those of NaN are above.
INFINITE_BITS = 0x7F800000
