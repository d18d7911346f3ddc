"""Codes of fewer than 8 bits, several to a byte; and codes in the order in which a kernel reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinytorch.core.op import Array, whole_numbers

#: Bits that a code can have.
BITS = (8, 4, 2)
#: Columns of a tile: a cache line of bytes.
TILE = 64
#: Columns of a panel, and neighbours along the depth that lie together there: what one instruction multiplies.
PANEL, TOGETHER = 16, 4


@whole_numbers
def codes_per_byte(bits: int) -> int:
    """Return how many codes share a byte.

    Raises:
        ValueError: if ``bits`` is not 8, 4 or 2.
    """
    if bits not in BITS:
        raise ValueError(f"bits must be one of {', '.join(map(str, BITS))}, not {bits!r}")
    return 8 // bits


@whole_numbers
def packed_length(length: int, bits: int) -> int:
    """Return the bytes that ``length`` codes take."""
    return -(-length // codes_per_byte(bits))


@whole_numbers
def pack(codes: Array, bits: int, axis: int = 0) -> Array:
    """Pack int8 codes into bytes: neighbours along ``axis`` share a byte, the first one in the lowest bits.

    A code c is stored as c + 2^(bits - 1), without a sign: uint8 of the same shape, but for ``axis``, which is as
    long as the bytes that its codes fill; what is left over in the last byte is code 0. With 8 bits the codes are
    returned as they are, int8.

    Raises:
        ValueError: if ``codes`` are not int8 or one does not fit into ``bits``.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import pack
        >>> pack(np.array([-8, 7, 0, 1], np.int8), bits=4)  # two codes in each byte
        array([240, 152], dtype=uint8)
    """
    together, half = codes_per_byte(bits), 2 ** (bits - 1)
    if codes.dtype != np.int8:
        raise ValueError(f"codes must have dtype int8, not {codes.dtype}")
    if together == 1:
        return codes
    if codes.size and not -half <= codes.min() <= codes.max() < half:
        raise ValueError(f"codes must lie in {-half}..{half - 1} for {bits} bits, not {codes.min()}..{codes.max()}")
    first = np.moveaxis(codes, axis, 0)
    length = len(first)
    padded = np.full((packed_length(length, bits) * together, *first.shape[1:]), half, np.uint8)
    padded[:length] = (first + np.int8(half)).view(np.uint8)
    packed = padded[::together].copy()
    for place in range(1, together):
        packed |= padded[place::together] << np.uint8(place * bits)
    return np.ascontiguousarray(np.moveaxis(packed, 0, axis))


@whole_numbers
def unpack(packed: Array, bits: int, length: int, axis: int = 0) -> Array:
    """Return the int8 codes that `pack` packed, ``length`` of them along ``axis``.

    Raises:
        ValueError: if the bytes do not have that length.
    """
    together = codes_per_byte(bits)
    if packed.shape[axis] != packed_length(length, bits):
        wanted = packed_length(length, bits)
        raise ValueError(
            f"packed must have {wanted} bytes along axis {axis} for {length} codes of {bits} bits, "
            f"not {packed.shape[axis]}"
        )
    if together == 1:
        return packed
    first = np.moveaxis(packed, axis, 0)
    mask, half = np.uint8(2**bits - 1), np.int8(2 ** (bits - 1))
    codes = np.empty((len(first) * together, *first.shape[1:]), np.int8)
    for place in range(together):
        codes[place::together] = ((first >> np.uint8(place * bits)) & mask).view(np.int8) - half
    return np.ascontiguousarray(np.moveaxis(codes[:length], 0, axis))


def in_tiles(packed: Array) -> Array:
    """Return packed codes (bytes, columns) as (bytes, tiles, 64), in memory tile after tile, which streams fastest.

    The numbers and their order by index stay as they are: a reshape to two axes gives the matrix back. Columns that
    are no whole tiles are returned as they came.
    """
    length, columns = packed.shape
    if columns % TILE or not columns:
        return packed
    tiles = packed.reshape(length, columns // TILE, TILE)
    return np.ascontiguousarray(tiles.transpose(1, 0, 2)).transpose(1, 0, 2)


def in_rows(packed: Array) -> Array:
    """Return what `in_tiles` made as a matrix again, its rows one after the other; a matrix as it is."""
    return packed if packed.ndim == 2 else np.ascontiguousarray(packed).reshape(len(packed), -1)


@dataclass(frozen=True)
class PanelLayout:
    """Layout of a weight for an integer product: panels of 16 columns, 4 of the depth at a time.

    Panels are an array (panels, segments, steps of 4 of the depth, 16 columns, bytes), C-contiguous. A segment is a
    group of the depth that has scales of its own; without groups there is one. What lies beyond the weight is code 0.
    The layout is the same for every CPU.

    Attributes:
        bits: of a code.
        length: depth of the weight in codes.
        columns: of the weight.
        group: codes of the depth that share scales; None for all.
    """

    bits: int
    length: int
    columns: int
    group: int | None
    #: Of panels.
    axes = 5

    @property
    def segment(self) -> int:
        """Depth of a segment in codes; the last may be shorter."""
        return max(1, min(self.group or self.length, self.length))

    @property
    def segments(self) -> int:
        """How many there are, at least 1."""
        return max(1, -(-self.length // self.segment))

    @property
    def steps(self) -> int:
        """Groups of 4 along the depth of a segment."""
        return -(-self.segment // TOGETHER)

    @property
    def panels(self) -> int:
        """How many there are."""
        return -(-self.columns // PANEL)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix of packed codes."""
        return packed_length(self.length, self.bits), self.columns

    def arranged(self, packed: Array) -> Array:
        """Return the packed matrix `pack` made, along its first axis, as panels."""
        codes = unpack(packed, self.bits, self.length)
        deep, high, wide = self.segments * self.segment, self.steps * TOGETHER, self.panels * PANEL
        if codes.shape != (deep, wide):
            codes = np.pad(codes, ((0, deep - self.length), (0, wide - self.columns)))
        parts = codes.reshape(self.segments, self.segment, wide)
        if high != self.segment:
            parts = np.pad(parts, ((0, 0), (0, high - self.segment), (0, 0)))
        steps = parts.reshape(self.segments, self.steps, TOGETHER, self.panels, PANEL)
        return pack(np.ascontiguousarray(steps.transpose(3, 0, 1, 4, 2)), self.bits, axis=-1)

    def restored(self, panels: Array) -> Array:
        """Return what `arranged` arranged."""
        codes = unpack(panels, self.bits, TOGETHER, axis=-1).transpose(1, 2, 4, 0, 3)
        parts = codes.reshape(self.segments, self.steps * TOGETHER, self.panels * PANEL)[:, : self.segment]
        matrix = parts.reshape(-1, self.panels * PANEL)[: self.length, : self.columns]
        return pack(np.ascontiguousarray(matrix), self.bits)


@dataclass(frozen=True)
class TileLayout:
    """Layout of the scales of groups beside codes `in_tiles`: (tiles, groups, 64), one tile after another.

    Attributes:
        groups: of the depth.
        columns: of the weight, a multiple of 64.
    """

    groups: int
    columns: int
    #: Of tiles.
    axes = 3

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.groups, self.columns

    def arranged(self, matrix: Array) -> Array:
        """Return (groups, columns) as tiles."""
        return np.ascontiguousarray(matrix.reshape(self.groups, -1, TILE).transpose(1, 0, 2))

    def restored(self, tiles: Array) -> Array:
        """Return what `arranged` arranged."""
        return by_group(tiles)


def by_group(values: Array) -> Array:
    """Return scales or zero points as a matrix (groups, columns), whether they are one or tiles (`TileLayout`)."""
    if values.ndim == 2:
        return values
    return np.ascontiguousarray(values.transpose(1, 0, 2)).reshape(values.shape[1], -1)


def as_matrix(codes: Array, bits: int, length: int, columns: int, group: int | None) -> Array:
    """Return packed codes as a matrix (bytes, columns), whether they are one, tiles (`in_tiles`), or panels."""
    return PanelLayout(bits, length, columns, group).restored(codes) if codes.ndim == 5 else in_rows(codes)
