"""Products of float32 rows with packed codes, which become floats in registers and never in memory.

Columns of codes are multiplied tile by tile; a few rows with the rows of a quantized table, as the logits of a tied
embedding are, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from tinytorch.core.op import Array, Implementation, Saved
from tinytorch.perf.kernels.runtime import threads, vectors
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import FLOAT32
from tinytorch.perf.ops.packed_codes import TILE, codes_per_byte
from tinytorch.perf.ops.weight_only import check_features, weight_only_linear, weight_only_projection

#: Floats of a vector; a CPU with shorter ones runs them in parts.
LANES = 16
#: Lines of codes that are asked for ahead of use: DRAM answers after that many lines' work.
_LINES_AHEAD = 128

_BYTE = ir.IntType(8)
_BYTES = ir.VectorType(_BYTE, LANES)
_WORDS = ir.VectorType(vectors.INT32, LANES)
_FLOATS = ir.VectorType(vectors.FLOAT, LANES)


#: Whether codes of fewer than 8 bits are looked up in a register of 16 floats, which AVX-512 does at once, instead of
#: masked, shifted and converted.
LOOKS_UP = "avx512f" in vectors.cpu_features()


def _words(value: int) -> Any:
    """Return the vector of 16 equal words."""
    return ir.Constant(_WORDS, [value] * LANES)


def splat(builder: Any, pointer: Any, index: Any) -> Any:
    """Return 16 times the float at ``index``."""
    return vectors.filled(builder, builder.load(builder.gep(pointer, [index])), _FLOATS)


def _looked_up(builder: Any, words: Any, bits: int) -> Any:
    """Return the numbers of the codes in the lowest bits of each word, from a table of 16 floats."""
    mask, half = 2**bits - 1, 2 ** (bits - 1)
    table = ir.Constant(_FLOATS, [ir.Constant(vectors.FLOAT, float((index & mask) - half)) for index in range(LANES)])
    shape = ir.FunctionType(_FLOATS, [_FLOATS, _WORDS])
    permute = cgutils.get_or_insert_function(builder.module, shape, "llvm.x86.avx512.permvar.sf.512")
    return builder.call(permute, [table, words])


def _numbers(builder: Any, words: Any, bits: int, first_bit: int) -> Any:
    """Return as floats the codes of fewer than 8 bits that begin at ``first_bit`` of each word."""
    shifted = builder.lshr(words, _words(first_bit)) if first_bit else words
    if LOOKS_UP:
        return _looked_up(builder, shifted, bits)
    code = builder.and_(shifted, _words(2**bits - 1))
    return builder.sitofp(builder.sub(code, _words(2 ** (bits - 1))), _FLOATS)


def packed_numbers(builder: Any, pointer: Any, at: Any, bits: int) -> list[Any]:
    """Return as floats the codes of 16 bytes, those in the lowest bits of each first."""
    raw = vectors.load(builder, pointer, at, _BYTES, align=1)
    if bits == 8:
        return [builder.sitofp(builder.sext(raw, _WORDS), _FLOATS)]
    word = builder.zext(raw, _WORDS)
    return [_numbers(builder, word, bits, first_bit) for first_bit in range(0, 8, bits)]


def signed_bytes(builder: Any, byte: Any) -> Any:
    """Return 16 times a signed byte, as floats."""
    number = builder.sitofp(builder.sext(byte, vectors.INT32), vectors.FLOAT)
    return vectors.filled(builder, number, _FLOATS)


def _in_column_order(builder: Any, parts: Sequence[Any]) -> list[Any]:
    """Return four vectors of which number j has column 4 i + j in lane i as vectors of 16 columns in order."""

    def mixed(a: Any, b: Any, order: list[int]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(vectors.INT32, len(order)), order))

    # Neighbours of columns 4 i and 4 i + 1, and of 4 i + 2 and 4 i + 3; then both pairs.
    made = []
    for first in range(0, LANES, 4):
        order = [lane + other for lane in range(first, first + 4) for other in (0, LANES)]
        low, high = mixed(parts[0], parts[1], order), mixed(parts[2], parts[3], order)
        made.append(mixed(low, high, [lane + other for lane in range(0, 8, 2) for other in (0, 1, 8, 9)]))
    return made


class _Tile:
    """Emits the instructions of one tile: its accumulators, one byte of each column, and the end of a group."""

    def __init__(self, builder: Any, pointers: Any, bits: int, rows: int, wide: bool) -> None:
        self.builder, self.bits, self.rows, self.per_byte = builder, bits, rows, 8 // bits
        self.codes, self.x, self.scale, self.zero, self.output = pointers
        self.wide, self.parts = wide, TILE // LANES if wide else 1
        self.interleaved = wide and bits < 8
        # A sum depends on the one before: few rows need more sums at a time to hide the latency.
        self.ways = 2 if rows * self.parts < 8 else 1
        self.sums = vectors.variables(builder, _FLOATS, rows * self.parts * self.ways)

    def numbers(self, at: Any) -> list[list[Any]]:
        """Return for each vector of columns the codes of one byte of each column, as floats, first code first.

        Of packed codes a wide tile reads words of four neighbouring columns: shifts are cheaper than moving bytes
        apart. Its vector j then has column 4 i + j in lane i.
        """
        builder, places = self.builder, range(self.per_byte)
        if not self.interleaved:
            starts = [builder.add(at, at.type(part * LANES)) for part in range(self.parts)]
            return [packed_numbers(builder, self.codes, start, self.bits) for start in starts]
        word = vectors.load(builder, self.codes, at, _WORDS, align=1)
        return [
            [_numbers(builder, word, self.bits, 8 * part + place * self.bits) for place in places]
            for part in range(self.parts)
        ]

    def zeros(self, at: Any) -> list[Any]:
        """Return the zero points of the columns as floats, in the order of `numbers`."""
        builder = self.builder
        if not self.interleaved:
            starts = [builder.add(at, at.type(part * LANES)) for part in range(self.parts)]
            return [packed_numbers(builder, self.zero, start, 8)[0] for start in starts]
        word = vectors.load(builder, self.zero, at, _WORDS, align=1)
        lifted = [builder.shl(word, _words(24 - 8 * part)) for part in range(self.parts)]
        return [builder.sitofp(builder.ashr(each, _words(24)), _FLOATS) for each in lifted]

    def add_byte(self, at: Any, x_at: Any, x_stride: Any, zeros: Sequence[Any], turn: int) -> None:
        """Add what one byte of each column holds, times the inputs that it belongs to."""
        builder, index = self.builder, x_at.type
        inputs = [
            [
                splat(builder, self.x, builder.add(builder.add(x_at, index(place)), builder.mul(x_stride, index(row))))
                for row in range(self.rows)
            ]
            for place in range(self.per_byte)
        ]
        for part, numbers in enumerate(self.numbers(at)):
            for place, (code, of_rows) in enumerate(zip(numbers, inputs, strict=True)):
                number = builder.fsub(code, zeros[part]) if zeros else code
                way = (turn * self.per_byte + place) % self.ways
                for row, value in enumerate(of_rows):
                    slot = self.sums[(way * self.rows + row) * self.parts + part]
                    total = vectors.fused_multiply_add(builder, number, value, builder.load(slot))
                    builder.store(total, slot)

    def prefetch_scales(self, at: Any, affine: bool) -> None:
        """Ask for scales, and zero points, that a later group needs."""
        for part in range(self.parts):
            place = self.builder.add(at, at.type(part * LANES))
            vectors.prefetch(self.builder, self.builder.gep(self.scale, [place]))
        if affine:
            vectors.prefetch(self.builder, self.builder.gep(self.zero, [at]))

    def finish(self, scale_at: Any, output_at: Any, output_stride: Any) -> None:
        """Add the scaled sums to the output."""
        builder, index, size = self.builder, scale_at.type, self.rows * self.parts
        for row in range(self.rows):
            totals = []
            for part in range(self.parts):
                slots = [self.sums[way * size + row * self.parts + part] for way in range(self.ways)]
                total = builder.load(slots[0])
                for slot in slots[1:]:
                    total = builder.fadd(total, builder.load(slot))
                totals.append(total)
            row_at = builder.add(output_at, builder.mul(output_stride, index(row)))
            for part, total in enumerate(_in_column_order(builder, totals) if self.interleaved else totals):
                place = builder.add(row_at, index(part * LANES))
                scale = vectors.load(builder, self.scale, builder.add(scale_at, index(part * LANES)), _FLOATS)
                before = vectors.load(builder, self.output, place, _FLOATS)
                vectors.store(builder, vectors.fused_multiply_add(builder, scale, total, before), self.output, place)


@vectors.emitted(constants=((8, 4, 2), (4, 2, 1), (1, 0), (1, 0)))
def add_tile(
    builder: Any, bits: int, rows: int, wide: int, affine: int, codes: Any, at: Any, stride: Any, count: Any, x: Any,
    x_at: Any, x_stride: Any, scale: Any, zero: Any, scale_at: Any, scale_next: Any, output: Any, output_at: Any,
    output_stride: Any,
) -> None:  # fmt: skip
    """Add scale · Σ x (code − zero) to a tile of ``rows`` rows and 64 columns, or 16 where not ``wide``.

    All arrays are flat: codes (bytes of a column are ``stride`` apart, ``count`` of them), x and output with a stride
    from row to row. Without ``affine`` zero is not read. The scales at ``scale_next`` are asked for, as a stride of
    rows is more than the hardware foresees.
    """
    tile, index = _Tile(builder, (codes, x, scale, zero, output), bits, rows, bool(wide)), at.type
    zeros = tile.zeros(scale_at) if affine else []
    tile.prefetch_scales(scale_next, bool(affine))

    def turn(number: Any, which: int) -> None:
        """Add what byte ``number`` of each column holds to the sums of ``which``."""
        here = builder.add(at, builder.mul(number, stride))
        ahead = builder.add(here, builder.mul(stride, index(_LINES_AHEAD)))
        vectors.prefetch(builder, builder.gep(tile.codes, [ahead]))
        tile.add_byte(here, builder.add(x_at, builder.mul(number, index(tile.per_byte))), x_stride, zeros, which)

    vectors.in_turns(builder, count, 2, turn)
    tile.finish(scale_at, output_at, output_stride)


#: Rows of a tile: each code is made a float once for so many.
_ROWS = (4, 2, 1)
#: Bytes of a column between two looks at the next tile, where a tile's bytes are not neighbours in memory.
_SLAB = 8
#: Groups between a scale's use and the moment it is asked for.
_GROUPS_AHEAD = 4
#: About how many bytes of codes go through a core in a nanosecond.
_BYTES_A_NS = 25


@cache
def tiles_product(bits: int, rows: int, affine: int) -> Any:
    """Return the kernel that adds, tile by tile, the product of blocks of ``rows`` rows with codes of ``bits`` bits.

    Its arguments after the range of tiles are flat arrays (output, x, codes, scales, zero points) and numbers: blocks
    of rows; columns; elements of a row of x; bytes of a column; bytes from one byte of a column to the next, and from
    tile to tile; bytes of a column that share a scale; those after which the next tile follows; elements from the
    scales of one group to those of the next, and from a tile's to the next one's.
    """
    per_byte = codes_per_byte(bits)

    def add_tiles(
        start: Any,
        stop: Any,
        output: Any,
        x: Any,
        codes: Any,
        scale: Any,
        zero: Any,
        blocks: Any,
        columns: Any,
        depth: Any,
        length: Any,
        stride: Any,
        tile_stride: Any,
        group: Any,
        slab: Any,
        scale_stride: Any,
        scale_tile: Any,
    ) -> None:
        """Add tiles ``start`` to ``stop``: 64 columns each, and the last ones 16 each."""
        whole = columns // TILE
        for top in range(0, length, slab):
            bottom = min(top + slab, length)
            for number in range((stop - start) * blocks):
                tile, block = start + number // blocks, number % blocks
                wide = tile < whole
                column = tile * TILE if wide else whole * TILE + (tile - whole) * LANES
                first = tile * tile_stride if wide else column
                scale_first = tile * scale_tile if wide else column
                x_first, to = block * rows * depth, block * rows * columns + column
                here = top
                while here < bottom:
                    index = here // group
                    count = min(bottom, (index + 1) * group) - here
                    at, x_at = first + here * stride, x_first + here * per_byte
                    scale_at = scale_first + index * scale_stride
                    ahead = scale_at + _GROUPS_AHEAD * scale_stride
                    add_tile(
                        bits, rows, int(wide), affine, codes, at, stride, count, x, x_at, depth, scale, zero, scale_at,
                        ahead, output, to, columns,
                    )  # fmt: skip
                    here += count

    return kernel(add_tiles, f"of_{bits}_bits_{rows}_rows_{'affine' if affine else 'symmetric'}")


_eight_by_four, _eight_by_one = tiles_product(8, 4, 0), tiles_product(8, 1, 0)
_four_by_four, _four_by_one = tiles_product(4, 4, 0), tiles_product(4, 1, 0)


@kernel
def add_codes(x: Any, codes: Any, bits: Any, tiled: Any, group: Any, scale: Any, output: Any) -> None:
    """Add to ``output`` (rows, columns) the product of x (rows, inner) with flat codes of 8 or 4 bits.

    Args:
        x, output: float32 in C order; columns are a multiple of 16.
        codes: in rows, or with ``tiled`` tile after tile of 64 columns (see `in_tiles`).
        group: bytes of a column that share a scale.
        scale: flat (groups, columns), float32.
    """
    rows, columns = output.shape
    inner = x.shape[1]
    length = inner * bits // 8
    stride, tile_stride = (TILE, length * TILE) if tiled else (columns, TILE)
    tiles, fours = columns // TILE + columns % TILE // LANES, rows // 4
    sizes = (columns, inner, length, stride, tile_stride, group, length, columns, TILE)
    to, source = output.reshape(-1), x.reshape(-1)
    to_rest, source_rest = to[4 * fours * columns :], source[4 * fours * inner :]
    if bits == 8:
        _eight_by_four(0, tiles, to, source, codes, scale, codes, fours, *sizes)
        _eight_by_one(0, tiles, to_rest, source_rest, codes, scale, codes, rows - 4 * fours, *sizes)
    else:
        _four_by_four(0, tiles, to, source, codes, scale, codes, fours, *sizes)
        _four_by_one(0, tiles, to_rest, source_rest, codes, scale, codes, rows - 4 * fours, *sizes)


@cache
def last_columns(bits: int, affine: int) -> Any:
    """Return the kernel for columns after the last tile, fewer than 16; its arguments are as in `tiles_product`."""
    per_byte, mask, half = codes_per_byte(bits), 2**bits - 1, 2 ** (bits - 1)

    def add_columns(
        output: Any,
        x: Any,
        codes: Any,
        scale: Any,
        zero: Any,
        first: Any,
        columns: Any,
        depth: Any,
        length: Any,
        group: Any,
        scale_stride: Any,
    ) -> None:
        """Add columns ``first`` to ``columns`` of all rows."""
        for row in range(len(output) // columns):
            for column in range(first, columns):
                total = np.float32(0)
                for top in range(0, length, group):
                    at = top // group * scale_stride + column
                    part, offset = np.float32(0), np.int32(zero[at]) if affine else np.int32(0)
                    for k in range(top, min(top + group, length)):
                        byte = np.int32(codes[k * columns + column])
                        for place in range(per_byte):
                            code = byte if bits == 8 else ((byte >> (place * bits)) & mask) - half
                            part += x[row * depth + k * per_byte + place] * np.float32(code - offset)
                    total += part * scale[at]
                output[row * columns + column] += total

    return kernel(add_columns, f"of_{bits}_bits_{'affine' if affine else 'symmetric'}")


def filled_up(numbers: Array, shape: tuple[int, int]) -> Array:
    """Return ``numbers`` of columns and groups, repeated up to ``shape``, in C order."""
    return np.ascontiguousarray(numbers if numbers.shape == shape else np.broadcast_to(numbers, shape))


class Weight:
    """A weight as the kernels read it: flat arrays, and the steps from one number to the next.

    Args:
        codes, scale, zero_point, bits, group: as `weight_only_linear` takes them; ``group`` must be a multiple of the
            codes in a byte.
    """

    def __init__(self, codes: Array, scale: Array, zero_point: Array | None, bits: int, group: int | None) -> None:
        self.bits, self.affine, self.length = bits, int(zero_point is not None), len(codes)
        self.columns = codes.size // max(self.length, 1)
        self.tiled = codes.ndim == 3 and codes.shape[2] == TILE and codes.transpose(1, 0, 2).flags.c_contiguous
        if self.tiled:
            self.codes, self.stride, self.tile_stride = codes.transpose(1, 0, 2).reshape(-1), TILE, codes[:, 0].size
        else:
            self.codes, self.stride, self.tile_stride = codes.reshape(-1), self.columns, TILE
        # Without zero points there is nothing to read, so nothing is made.
        zero_point = np.empty((1, 1), np.int8) if zero_point is None else zero_point
        if scale.ndim == 3:
            self.scale_stride, self.scale_tile = TILE, scale[0].size
        else:
            shape = (len(scale), self.columns)
            scale = filled_up(scale, shape)
            zero_point = filled_up(zero_point, shape) if self.affine else zero_point
            self.scale_stride, self.scale_tile = self.columns if shape[0] > 1 else 0, TILE
        self.scale, self.zero = scale.reshape(-1), zero_point.reshape(-1)
        self.group = max(self.length if group is None else group * bits // 8, 1)

    def add_product(self, output: Array, rows: Array) -> None:
        """Add to ``output`` (rows, columns) the product of ``rows``, with 0 where the last byte holds no code.

        Both are float32 and C-contiguous.
        """
        columns, depth = self.columns, rows.shape[1]
        tiles = columns // TILE + columns % TILE // LANES
        slab = max(self.length, 1) if self.tiled else _SLAB
        steps = (self.stride, self.tile_stride, self.group, slab, self.scale_stride, self.scale_tile)
        sizes = (columns, depth, self.length, *steps)
        first = 0
        for size in _ROWS:
            blocks = (len(rows) - first) // size
            some = slice(first, first + blocks * size)
            if blocks:
                arrays = (output[some].reshape(-1), rows[some].reshape(-1), self.codes, self.scale, self.zero)
                cost = self.length * TILE * blocks / _BYTES_A_NS
                threads.split(tiles_product(self.bits, size, self.affine), tiles, cost, *arrays, blocks, *sizes)
            first = some.stop
        rest = columns // LANES * LANES
        if rest < columns:
            arrays = (output.reshape(-1), rows.reshape(-1), self.codes, self.scale, self.zero)
            last_columns(self.bits, self.affine)(
                *arrays, rest, columns, depth, self.length, self.group, self.scale_stride
            )


def _linear_forward(
    keep: bool,
    x: Array,
    codes: Array,
    scale: Array,
    zero_point: Array | None,
    bias: Array | None,
    *,
    bits: int,
    group: int | None,
    length: int,
    packed: dict[str, Any],
) -> tuple[Array, Saved]:
    """The product of float32 x of any shape and strides.

    Other dtypes, and groups that end inside of a byte, go to the op's reference.
    """
    if x.dtype != FLOAT32 or (group is not None and group * bits % 8):
        params = {"bits": bits, "group": group, "length": length, "packed": packed}
        return weight_only_linear.reference.forward(keep, x, codes, scale, zero_point, bias, **params)
    check_features(x, length, "weight_only_linear")
    weight = Weight(codes, scale, zero_point, bits, group)
    rows = np.ascontiguousarray(x.reshape(-1, length))
    output = np.empty((len(rows), weight.columns), np.float32)
    output[...] = 0 if bias is None else bias
    if output.size:
        given = len(codes) * 8 // bits
        if given > length:
            whole = np.zeros((len(rows), given), np.float32)
            whole[:, :length] = rows
            rows = whole
        weight.add_product(output, rows)
    saved = (codes, scale, zero_point, bits, group, length, x.shape) if keep else ()
    return output.reshape(*x.shape[:-1], weight.columns), saved


#: Up to so many rows of x each row of the table is made float anew in registers; for more, blocks of it are, for BLAS.
FEW = 8
#: About how many bytes of codes go through a core in a nanosecond.
_ROW_BYTES_A_NS = 15


@vectors.emitted(types.float32, constants=((8, 4, 2), (1, 0)))
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


def _projection_forward(
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
    run, cost = table_product(bits, int(zero_point is not None)), codes.shape[1] * count / _ROW_BYTES_A_NS
    arrays = (output.reshape(-1), planes.reshape(-1), np.ascontiguousarray(codes).reshape(-1), scales, offsets)
    threads.split(run, len(codes), cost, *arrays, len(codes), codes.shape[1], length, groups)
    saved = (codes, scale, zero_point, bits, group, length, x.shape) if keep else ()
    return output.reshape(*x.shape[:-1], len(codes)), saved


IMPLEMENTATIONS = {
    weight_only_linear: Implementation("numba", _linear_forward, weight_only_linear.reference.backward),
    weight_only_projection: Implementation("numba", _projection_forward, weight_only_projection.reference.backward),
}
