"""Products of float32 rows with packed codes that become floats in registers: what decoding asks for, at its speed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tinytorch.core.op import Array, Implementation, Saved
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import FLOAT32
from tinytorch.perf.kernels.weight_only.tiles import LANES, add_tile
from tinytorch.perf.ops.packed_codes import TILE, codes_per_byte
from tinytorch.perf.ops.weight_only import check_features, weight_only_linear

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
                    at, x_at, scale_at = (
                        first + here * stride,
                        x_first + here * per_byte,
                        scale_first + index * scale_stride,
                    )
                    ahead = scale_at + _GROUPS_AHEAD * scale_stride
                    if wide:
                        add_tile(
                            bits, rows, 1, affine, codes, at, stride, count, x, x_at, depth, scale, zero, scale_at,
                            ahead, output, to, columns,
                        )  # fmt: skip
                    else:
                        add_tile(
                            bits, rows, 0, affine, codes, at, stride, count, x, x_at, depth, scale, zero, scale_at,
                            ahead, output, to, columns,
                        )  # fmt: skip
                    here += count

    return kernel(add_tiles, f"of_{bits}_bits_{rows}_rows_{'affine' if affine else 'symmetric'}")


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


def _forward(
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


IMPLEMENTATIONS = {
    weight_only_linear: Implementation("numba", _forward, weight_only_linear.reference.backward),
}
