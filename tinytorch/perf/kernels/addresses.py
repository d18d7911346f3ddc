"""Where the arrays of a whole model lie: a table of addresses that a kernel reads in place of a hundred arguments."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from tinytorch.core.op import Array
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.weight_only_tiles import LANES
from tinytorch.perf.memoization.decode_op import Weight, parts_of
from tinytorch.perf.quantization.packing import TILE, codes_per_byte

#: Places in a table: after vocabulary and width the embeddings, then the blocks, each of so many, and the last norm.
#: An embedding has numbers and scales; a block the norm's weight and bias and how wide it is inside, then from 4 on
#: products (numbers, scales, bias, whether in tiles), of which the third comes after the second norm's four.
TOKEN, POSITION, HEADER, BLOCK = 2, 4, 6, 24
_FLOAT32 = np.dtype(np.float32)


def _pointer(kind: Any) -> Any:
    """Return ``f(address)``: a pointer to a number of that kind."""

    def from_address(_typing: Any, address: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(address), emit

    return intrinsic(from_address)


_to_float, _to_byte = _pointer(types.float32), _pointer(types.int8)


@kernel
def floats_at(address: Any, count: Any) -> Any:
    """Return the flat array of ``count`` float32 at an address."""
    return carray(_to_float(address), (count,))


@kernel
def bytes_at(address: Any, count: Any) -> Any:
    """Return the flat array of ``count`` bytes, int8, at an address."""
    return carray(_to_byte(address), (count,))


class Table:
    """Where the operands of `decode_token` lie, which it keeps; changes in place show, and other arrays make it void.

    Attributes:
        places: the table, int64.
        reason: why the kernel cannot take these operands; empty if it can.
        coding: bits and group (0 for none) of codes, None for floats.
    """

    def __init__(
        self, operands: Sequence[Array], epsilons: Sequence[float], bits: int | None, group: int | None
    ) -> None:
        self.operands = tuple(operands)
        parts = parts_of(operands, len(epsilons) // 2, bits)
        # Scales stand without the axis of length 1.
        self.cached = tuple(each if index in (0, 1) else each[..., 0] for index, each in enumerate(parts.cached))
        self.epsilons = np.array(epsilons, np.float64)
        self.coding = None if bits is None else (bits, group or 0)
        self.vocabulary, self.width = len(parts.token.numbers), parts.norm[0].size
        products = [product for block in parts.blocks for product in block.products]
        self.reason = _reason(parts, [product.weight for product in products], bits, group)
        self.places = np.zeros(0, np.int64)
        if not self.reason:
            self.places = np.array([self.vocabulary, self.width, *self._places(parts)], np.int64)

    def holds(self, operands: Sequence[Array]) -> bool:
        """Return whether these are the very arrays that it was made of."""
        return len(operands) == len(self.operands) and all(map(is_, self.operands, operands))

    @staticmethod
    def _places(parts: Any) -> list[int]:
        made = []
        for table in (parts.token, parts.position):
            made += [_address(table.numbers), _address(table.scale)]
        for block in parts.blocks:
            pairs = (block.products[:2], block.products[2:])
            inside = block.products[2].bias.size
            for norm, products, extra in zip((block.norm1, block.norm2), pairs, (inside, 0), strict=True):
                made += [_address(norm[0]), _address(norm[1]), extra, 0]
                for weight, bias in products:
                    tiled = int(weight.numbers.ndim == 3)
                    made += [_address(weight.numbers), _address(weight.scale), _address(bias), tiled]
        return [*made, *[_address(each) for each in parts.norm]]


def _address(array: Array | None) -> int:
    return 0 if array is None else int(array.ctypes.data)


def _reason(parts: Any, weights: list[Weight], bits: int | None, group: int | None) -> str:
    """Return why the kernel cannot read these operands; nothing if it can."""
    small = [each for block in parts.blocks for each in (*block.norm1, *block.norm2)]
    small += [*parts.norm, *[product.bias for block in parts.blocks for product in block.products]]
    if bits is None:
        small += [each.numbers for each in (parts.token, parts.position, *weights)]
    else:
        small += [each.scale for each in (parts.token, parts.position, *weights)]
    small += parts.cached[:2] if len(parts.cached) == 2 else parts.cached[2:]
    if not all(each.flags.c_contiguous for each in parts.cached):
        return "the cache is not in C order"
    if not _has_usual_shapes(parts, 1 if bits is None else codes_per_byte(bits)):
        return "blocks differ in size, or a weight does not fit the width"
    if not all(each.dtype == _FLOAT32 and each.flags.c_contiguous for each in small):
        return "an array is not of float32 in C order"
    return "" if bits is None else _reason_of_codes(parts, weights, bits, group)


def _has_usual_shapes(parts: Any, per_byte: int) -> bool:
    """Return whether all fit together as in a GPT whose blocks are alike: the kernel trusts these sizes."""
    width, (layers, _, heads, room, depth) = parts.norm[0].size, parts.cached[0].shape
    inside = parts.blocks[0].products[2].bias.size if parts.blocks else 0
    wanted = [(width, 3 * width), (width, width), (width, inside), (inside, width)]
    tables = [each.numbers.shape for each in (parts.token, parts.position)]
    norms = [parts.norm, *[norm for block in parts.blocks for norm in (block.norm1, block.norm2)]]
    return (
        (layers, heads * depth) == (len(parts.blocks), width)
        and room <= tables[1][0]
        and all(each.size == width for norm in norms for each in norm)
        and all(per_byte * columns == width for _, columns in tables)
        and all([_features(each, per_byte) for each in block.products] == wanted for block in parts.blocks)
    )


def _features(product: Any, per_byte: int) -> tuple[int, int]:
    """Return inputs and outputs of a linear layer, as its codes and its bias have them; (0, 0) if they disagree."""
    numbers = product.weight.numbers
    inputs, outputs = len(numbers), product.bias.size
    return (inputs * per_byte, outputs) if numbers.size == inputs * outputs else (0, 0)


def _reason_of_codes(parts: Any, weights: list[Weight], bits: int, group: int | None) -> str:
    """Return why the kernel cannot read these codes."""
    if bits not in (8, 4):
        return "codes have neither 8 nor 4 bits"
    if any(each.zero is not None for each in (parts.token, parts.position, *weights)):
        return "codes have zero points"
    width, per_byte = parts.norm[0].size, codes_per_byte(bits)
    whole = group or width
    if whole % (per_byte * LANES) or width % whole:
        return "groups are no whole vectors, or a row no whole groups"
    for table in (parts.token, parts.position):
        if table.scale.shape != (len(table.numbers), width // whole) or not table.numbers.flags.c_contiguous:
            return "an embedding has one scale for all rows, or is not in C order"
    for each in weights:
        length, columns = len(each.numbers), each.numbers.size // len(each.numbers)
        groups = length * per_byte // group if group else 1
        if each.scale.shape != (groups, columns) or columns % LANES or (group and length * per_byte % group):
            return "a weight has one scale for all columns, or columns or groups that are not whole"
        tiles = each.numbers.ndim == 3 and each.numbers.shape[2] == TILE
        if not (each.numbers.transpose(1, 0, 2) if tiles else each.numbers).flags.c_contiguous:
            return "codes are in another order"
    return ""
