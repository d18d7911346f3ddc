"""Products of a few float32 rows with a quantized table's rows, as the logits of a tied embedding are."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinytorch.core.op import Array, Implementation, Saved
from tinytorch.perf.kernels.runtime import threads, vectors
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.weight_only.products import filled_up
from tinytorch.perf.kernels.weight_only.tiles import LANES, packed_numbers, signed_bytes, splat
from tinytorch.perf.ops.packed_codes import codes_per_byte
from tinytorch.perf.ops.weight_only import check_features, weight_only_projection

#: Up to so many rows of x each row of the table is made float anew in registers; for more, blocks of it are, for BLAS.
FEW = 8
#: About how many bytes of codes go through a core in a nanosecond.
_BYTES_A_NS = 15
_FLOATS = ir.VectorType(vectors.FLOAT, LANES)


@vectors.emitted(types.float32, constants=2)
def row_product(
    builder: Any, bits: int, affine: int, codes: Any, at: Any, x: Any, x_at: Any, plane: Any, scale: Any, zero: Any,
    scale_at: Any, groups: Any, turns: Any,
) -> Any:  # fmt: skip
    """Give Σ scale Σ x (code − zero) of one row, ``groups`` groups of ``turns`` times 16 bytes.

    x is in planes, ``plane`` apart: what belongs to the first code of each byte, to the second, and so on.
    """
    places, index = range(codes_per_byte(bits)), at.type
    total, *parts = vectors.variables(builder, _FLOATS, 1 + max(2, len(places)))

    def turn(begin: Any, offset: Any, number: Any, which: int) -> None:
        number = builder.add(begin, number)
        here = builder.add(at, builder.mul(number, index(LANES)))
        for place, value in zip(places, packed_numbers(builder, codes, here, bits), strict=True):
            code = builder.fsub(value, offset) if affine else value
            where = builder.add(x_at, builder.mul(number, index(LANES)))
            where = builder.add(where, builder.mul(plane, index(place)))
            slot = parts[(which + place) % len(parts)]
            vectors.add_product(builder, slot, code, vectors.load(builder, x, where, _FLOATS))

    with cgutils.for_range(builder, groups) as loop:
        for slot in parts:
            builder.store(ir.Constant(_FLOATS, None), slot)
        own = builder.add(scale_at, loop.index)
        offset = signed_bytes(builder, builder.load(builder.gep(zero, [own]))) if affine else None
        begin = builder.mul(loop.index, turns)
        vectors.in_turns(builder, turns, 2, partial(turn, begin, offset))
        found = builder.load(parts[0])
        for slot in parts[1:]:
            found = builder.fadd(found, builder.load(slot))
        vectors.add_product(builder, total, splat(builder, scale, own), found)
    return vectors.sum_of_lanes(builder, [builder.load(total)])


@cache
def table_product(bits: int, affine: int) -> Any:
    """Return the kernel that fills columns of the output: the products of x with rows of the table."""

    def fill(
        start: Any,
        stop: Any,
        output: Any,
        x: Any,
        codes: Any,
        scale: Any,
        zero: Any,
        table_rows: Any,
        length: Any,
        depth: Any,
        groups: Any,
    ) -> None:
        """Fill columns ``start`` to ``stop`` of the flat output; a row of the table is ``length`` bytes."""
        turns = length // groups // LANES
        for column in range(start, stop):
            for row in range(len(output) // table_rows):
                output[row * table_rows + column] = row_product(
                    bits, affine, codes, column * length, x, row * depth, length, scale, zero, column * groups,
                    groups, turns,
                )  # fmt: skip

    return kernel(fill, f"of_{bits}_bits_{'affine' if affine else 'symmetric'}")


def _forward(
    keep: bool,
    x: Array,
    codes: Array,
    scale: Array,
    zero_point: Array | None,
    *,
    bits: int,
    group: int | None,
    length: int,
) -> tuple[Array, Saved]:
    """The product of a few rows of float32 x of any strides.

    More rows, other dtypes, and rows or groups that are no whole multiple of 16 bytes go to the op's reference.
    """
    per_byte = 8 // bits
    count = x.size // max(length, 1)
    whole = length if group is None else group
    if x.dtype != np.float32 or not 0 < count <= FEW or length % whole or whole % (per_byte * LANES) or not len(codes):
        params = {"bits": bits, "group": group, "length": length}
        return weight_only_projection.reference.forward(keep, x, codes, scale, zero_point, **params)
    check_features(x, length, "weight_only_projection")
    planes = np.ascontiguousarray(x.reshape(count, -1, per_byte).transpose(0, 2, 1))
    groups = length // whole
    zeros = np.zeros((1, 1), np.int8) if zero_point is None else zero_point
    shape = len(codes), groups
    scales, offsets = filled_up(scale, shape).ravel(), filled_up(zeros, shape).ravel()
    output = np.empty((count, len(codes)), np.float32)
    run, cost = table_product(bits, int(zero_point is not None)), codes.shape[1] * count / _BYTES_A_NS
    arrays = (output.reshape(-1), planes.reshape(-1), np.ascontiguousarray(codes).reshape(-1), scales, offsets)
    threads.split(run, len(codes), cost, *arrays, len(codes), codes.shape[1], length, groups)
    saved = (codes, scale, zero_point, bits, group, length, x.shape) if keep else ()
    return output.reshape(*x.shape[:-1], len(codes)), saved


IMPLEMENTATIONS = {
    weight_only_projection: Implementation("numba", _forward, weight_only_projection.reference.backward),
}
