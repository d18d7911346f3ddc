"""A tile of a product of float32 rows with packed codes: codes become floats in registers, and never in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.ops.packed_codes import TILE

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


@vectors.emitted(constants=4)
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
