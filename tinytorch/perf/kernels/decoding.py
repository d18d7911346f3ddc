"""One new token of each sequence through a whole GPT in one call, its arrays found by a table of addresses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np

from tinytorch.core.op import Array, Implementation, Saved
from tinytorch.perf.kernels.gemm.packed_matmul import add_line, gelu_line
from tinytorch.perf.kernels.gemm.row_products import affine, dot, long_dot, weighted_sum
from tinytorch.perf.kernels.normalization import layer_norm_share
from tinytorch.perf.kernels.row_ops import weigh_line
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import bytes_at, floats_at, matrix_at, records_of
from tinytorch.perf.kernels.runtime.vector_math import multiply_add
from tinytorch.perf.kernels.weight_only import LANES, add_codes, row_product
from tinytorch.perf.ops.decode import Weight, check_step, decode_token, parts_of
from tinytorch.perf.ops.packed_codes import TILE, codes_per_byte

_FLOAT32, _ADDRESS = np.dtype(np.float32), np.int64
#: What the kernel reads of a GPT: addresses of arrays, and in which order and size they are.
_TABLE = np.dtype([("numbers", _ADDRESS), ("scale", _ADDRESS)])
_NORM = np.dtype([("weight", _ADDRESS), ("bias", _ADDRESS), ("epsilon", np.float64)])
_PRODUCT = np.dtype([("numbers", _ADDRESS), ("scale", _ADDRESS), ("bias", _ADDRESS), ("is_tiled", np.int64)])
_BLOCK = np.dtype(
    [("norm1", _NORM), ("norm2", _NORM), *((name, _PRODUCT) for name in ("qkv", "projection", "expand", "contract"))]
)
_SIZES = [(name, np.int64) for name in ("vocabulary", "width", "inside")]
_ENDS = np.dtype([*_SIZES, ("token", _TABLE), ("position", _TABLE), ("norm", _NORM)])
_ends_of, _blocks_of = records_of(_ENDS, "of_ends"), records_of(_BLOCK, "of_blocks")


class Table:
    """Addresses of the operands of `decode_token`, kept: changes in place show, and other arrays make it void.

    Attributes:
        ends, blocks: what `step` reads: an `_ENDS`, and a `_BLOCK` for each block, as numbers.
        is_taken: whether the kernel can read these operands.
        coding: bits and group (0 for none) of codes, None for floats.
    """

    def __init__(
        self, operands: Sequence[Array], epsilons: Sequence[float], bits: int | None, group: int | None
    ) -> None:
        self.operands = tuple(operands)
        parts = parts_of(operands, len(epsilons) // 2, bits)
        # Scales stand without the axis of length 1.
        self.cached = tuple(each if index in (0, 1) else each[..., 0] for index, each in enumerate(parts.cached))
        self.coding = None if bits is None else (bits, group or 0)
        self.vocabulary, self.width = len(parts.token.numbers), parts.norm[0].size
        products = [product for block in parts.blocks for product in block.products]
        self.is_taken = _takes(parts, [product.weight for product in products], bits, group)
        ends, blocks = np.zeros(1, _ENDS), np.zeros(len(parts.blocks), _BLOCK)
        if self.is_taken:
            self._fill(ends, blocks, parts, epsilons)
        self.ends, self.blocks = ends.view(np.int64), blocks.view(np.int64)

    def holds(self, operands: Sequence[Array]) -> bool:
        """Return whether these are the very arrays that it was made of."""
        return len(operands) == len(self.operands) and all(map(is_, self.operands, operands))

    def _fill(self, ends: Array, blocks: Array, parts: Any, epsilons: Sequence[float]) -> None:
        inside = parts.blocks[0].products[2].bias.size if parts.blocks else 0
        embeddings = (tuple(map(_address, (each.numbers, each.scale))) for each in (parts.token, parts.position))
        ends[0] = self.vocabulary, self.width, inside, *embeddings, (*map(_address, parts.norm), epsilons[-1])
        for number, block in enumerate(parts.blocks):
            norms = zip((block.norm1, block.norm2), epsilons[2 * number :], strict=False)
            blocks[number] = (
                *((*map(_address, norm), epsilon) for norm, epsilon in norms),
                *(
                    (_address(weight.numbers), _address(weight.scale), _address(bias), weight.numbers.ndim == 3)
                    for weight, bias in block.products
                ),
            )


def _address(array: Array | None) -> int:
    return 0 if array is None else int(array.ctypes.data)


def _takes(parts: Any, weights: list[Weight], bits: int | None, group: int | None) -> bool:
    """Return whether the kernel can read these operands."""
    small = [each for block in parts.blocks for each in (*block.norm1, *block.norm2)]
    small += [*parts.norm, *[product.bias for block in parts.blocks for product in block.products]]
    tables = (parts.token, parts.position, *weights)
    small += [each.numbers if bits is None else each.scale for each in tables]
    small += parts.cached[:2] if len(parts.cached) == 2 else parts.cached[2:]
    return (
        all(each.flags.c_contiguous for each in (*parts.cached, *small))
        and all(each.dtype == _FLOAT32 for each in small)
        and _has_usual_shapes(parts, 1 if bits is None else codes_per_byte(bits))
        and (bits is None or (bits in (8, 4) and _takes_codes(parts, weights, bits, group)))
    )


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


def _takes_codes(parts: Any, weights: list[Weight], bits: int, group: int | None) -> bool:
    """Return whether codes are in whole vectors and groups, with scales of their own and without zero points."""
    width, per_byte, tables = parts.norm[0].size, codes_per_byte(bits), (parts.token, parts.position)
    whole = group or width
    if whole % (per_byte * LANES) or width % whole or any(each.zero is not None for each in (*tables, *weights)):
        return False
    for table in tables:
        if table.scale.shape != (len(table.numbers), width // whole) or not table.numbers.flags.c_contiguous:
            return False
    for each in weights:
        length, columns = len(each.numbers), each.numbers.size // len(each.numbers)
        groups = length * per_byte // group if group else 1
        if each.scale.shape != (groups, columns) or columns % LANES or (group and length * per_byte % group):
            return False
        tiles = each.numbers.ndim == 3 and each.numbers.shape[2] == TILE
        if not (each.numbers.transpose(1, 0, 2) if tiles else each.numbers).flags.c_contiguous:
            return False
    return True


#: What the largest code of a cache stands for; see `QuantizedKVCache`.
_LARGEST = np.float32(127)
_SMALLEST = np.finfo(np.float32).tiny


@kernel
def normalize_rows(x: Any, norm: Any, output: Any) -> None:
    """Fill ``output`` with the layer norm of each row."""
    width, nothing = x.shape[1], matrix_at(norm.weight, 0, 2)
    weight, bias = floats_at(norm.weight, width), floats_at(norm.bias, width)
    layer_norm_share(0, len(x), x, weight, bias, norm.epsilon, output, nothing)


@kernel
def multiply(x: Any, product: Any, coding: Any, output: Any) -> None:
    """Fill ``output`` (rows, columns) with x times a weight, plus its bias."""
    rows, inner = x.shape
    columns = output.shape[1]
    bias = floats_at(product.bias, columns)
    if coding is None:
        affine(x, floats_at(product.numbers, inner * columns).reshape(inner, columns), bias, output)
    else:
        for row in range(rows):
            for j in range(columns):
                output[row, j] = bias[j]
        length = inner * coding[0] // 8
        group = coding[1] * coding[0] // 8 if coding[1] else length
        codes, scale = bytes_at(product.numbers, length * columns), floats_at(product.scale, length // group * columns)
        add_codes(x, codes, coding[0], product.is_tiled == 1, group, scale, output)


@kernel
def pick_row(table: Any, row: Any, coding: Any, output: Any) -> None:
    """Add to ``output`` a row of an embedding's table."""
    width = output.size
    if coding is None:
        numbers = floats_at(table.numbers + 4 * row * width, width)
        for i in range(width):
            output[i] += numbers[i]
    else:
        bits, group = coding[0], coding[1] if coding[1] else width
        codes = bytes_at(table.numbers + row * width * bits // 8, width * bits // 8)
        scale = floats_at(table.scale + 4 * row * (width // group), width // group)
        for i in range(width):
            code = np.int32(codes[i]) if bits == 8 else ((np.int32(codes[i // 2]) >> (i % 2 * 4)) & 15) - 8
            output[i] += np.float32(code) * scale[i // group]


@kernel
def project(x: Any, table: Any, coding: Any, vocabulary: Any, logits: Any) -> None:
    """Fill flat ``logits`` with the products of rows of x with all rows of the token embedding."""
    rows, width = x.shape
    if coding is None:
        numbers, flat = floats_at(table.numbers, vocabulary * width), x.reshape(-1)
        for token in range(vocabulary):
            for row in range(rows):
                logits[row * vocabulary + token] = long_dot(flat, row * width, numbers, token * width, width)
    else:
        bits = coding[0]
        length = width * bits // 8
        groups = width // coding[1] if coding[1] else 1
        codes, scale = bytes_at(table.numbers, vocabulary * length), floats_at(table.scale, vocabulary * groups)
        planes, turns = np.empty(width, np.float32), length // groups // 16
        for row in range(rows):
            for i in range(width):
                planes[i if bits == 8 else i % 2 * length + i // 2] = x[row, i]
            for token in range(vocabulary):
                at, to = token * length, row * vocabulary + token
                logits[to] = row_product(
                    bits, 0, codes, at, planes, 0, length, scale, codes, token * groups, groups, turns
                )


@kernel
def encode(numbers: Any, codes: Any) -> Any:
    """Fill ``codes`` with what `QuantizedKVCache` keeps of some numbers, as floats; return their scale.

    It is NaN if a number is not finite.
    """
    largest = nothing = np.float32(0)
    for i in range(numbers.size):
        magnitude = abs(numbers[i])
        largest = largest if largest >= magnitude else magnitude
        nothing += magnitude * np.float32(0)
    scale = largest / _LARGEST + nothing
    scale = np.float32(1) if scale < _SMALLEST else scale
    for i in range(numbers.size):
        codes[i] = np.rint(numbers[i] / scale)
    return scale


@kernel
def attend(packed: Any, count: Any, held: Any, scales: Any, made: Any, made_scales: Any, output: Any) -> None:
    """Fill ``output`` (B, C) with the attention of packed (B, 3 C) over ``count`` earlier positions and its own.

    Args:
        held: keys and values, a tuple of (B, H, S, D); int8 codes where there are ``scales``, which are (B, H, S).
        made: to be filled with the new keys and values, a tuple of (B, C); codes where there are scales.
        made_scales: to be filled with their scales, a tuple of (B, H); None where there are none.
    """
    keys, values = held
    batch, heads, _, depth = keys.shape
    width = heads * depth
    scores = np.empty(count + 1, np.float32)
    scale = np.float32(1 / math.sqrt(depth))
    flat, joined = packed.reshape(-1), output.reshape(-1)
    for row in range(batch):
        for head in range(heads):
            to, own = row * width + head * depth, head * depth
            query = 3 * row * width + own
            new_key, new_value = made[0][row], made[1][row]
            key_scale = value_scale = np.float32(1)
            if scales is None:
                for d in range(own, own + depth):
                    new_key[d], new_value[d] = packed[row, width + d], packed[row, 2 * width + d]
            else:
                key_scale = encode(packed[row, width + own : width + own + depth], new_key[own : own + depth])
                value_scale = encode(
                    packed[row, 2 * width + own : 2 * width + own + depth], new_value[own : own + depth]
                )
                made_scales[0][row, head], made_scales[1][row, head] = key_scale, value_scale
            for s in range(count):
                scores[s] = dot(flat, query, keys[row, head], s * depth, depth)
            if scales is not None:
                for s in range(count):
                    scores[s] *= scales[0][row, head, s]
            scores[count] = dot(flat, query, new_key, own, depth) * key_scale
            factor = weigh_line(scores, scale)
            if scales is not None:
                for s in range(count):
                    scores[s] *= scales[1][row, head, s]
            weighted_sum(scores, count, values[row, head], joined, to)
            weight = scores[count] * value_scale
            for d in range(depth):
                joined[to + d] = multiply_add(weight, new_value[own + d], joined[to + d]) * factor


@kernel
def step(
    tokens: Any, count: Any, keys: Any, values: Any, scales: Any, ends: Any, blocks: Any, coding: Any, output: Any
) -> Any:
    """Fill flat ``output`` as `decode_token` does; return whether all tokens have a row in the table.

    Args:
        tokens: one of each sequence, which stands at position ``count``.
        keys, values: of earlier positions, (layers, B, H, S, D) each.
        scales: of both, (layers, B, H, S) each in a tuple; None if they are floats.
        ends, blocks: where the weights are; see `Table`.
        coding: bits and group of codes; None if weights are floats.
    """
    outer, inner = _ends_of(ends)[0], _blocks_of(blocks)
    vocabulary, width = outer.vocabulary, outer.width
    layers, heads, batch = len(keys), keys.shape[2], tokens.size
    for row in range(batch):
        if not 0 <= tokens[row] < vocabulary:
            return False
    x = np.zeros((batch, width), np.float32)
    for row in range(batch):
        pick_row(outer.token, tokens[row], coding, x[row])
        pick_row(outer.position, count, coding, x[row])
    # One function and not one for a block: Numba optimizes all that a kernel calls again for each that calls it.
    normal, hidden = np.empty((batch, width), np.float32), np.empty((batch, outer.inside), np.float32)
    packed, added = np.empty((batch, 3 * width), np.float32), np.empty((batch, width), np.float32)
    logits = batch * vocabulary
    size = layers * batch * width
    new = output[logits : logits + 2 * size].reshape(2, layers, batch, width)
    for layer in range(layers):
        block, held, made = inner[layer], (keys[layer], values[layer]), (new[0, layer], new[1, layer])
        normalize_rows(x, block.norm1, normal)
        multiply(normal, block.qkv, coding, packed)
        if scales is None:
            attend(packed, count, held, None, made, None, normal)
        else:
            rest = output[logits + 2 * size :].reshape(2, layers, batch, heads)
            of_held, of_made = (scales[0][layer], scales[1][layer]), (rest[0, layer], rest[1, layer])
            attend(packed, count, held, of_held, made, of_made, normal)
        multiply(normal, block.projection, coding, added)
        add_line(x.reshape(-1), added.reshape(-1))
        normalize_rows(x, block.norm2, normal)
        multiply(normal, block.expand, coding, hidden)
        gelu_line(hidden.reshape(-1))
        multiply(hidden, block.contract, coding, added)
        add_line(x.reshape(-1), added.reshape(-1))
    normalize_rows(x, outer.norm, normal)
    project(normal, outer.token, coding, vocabulary, output[:logits])
    return True


def _forward(
    keep: bool,
    tokens: Array,
    *operands: Array,
    position: int,
    epsilons: tuple[float, ...],
    bits: int | None,
    group: int | None,
    prepared: dict[str, Any],
) -> tuple[Array, Saved]:
    """`decode_token` on the calling thread; what `Table` does not take goes to the op's reference."""
    params = {"position": position, "epsilons": epsilons, "bits": bits, "group": group, "prepared": prepared}
    table = prepared.get("table")
    if table is None or not table.holds(operands):
        table = prepared["table"] = Table(operands, epsilons, bits, group)
    if not table.is_taken:
        return decode_token.reference.forward(keep, tokens, *operands, **params)
    keys, values, *scales = table.cached
    check_step(tokens, keys, position)
    size = tokens.size * table.vocabulary + 2 * len(keys) * tokens.size * table.width
    output = np.empty(size + (2 * len(keys) * tokens.size * keys.shape[2] if scales else 0), np.float32)
    of_cache = tuple(scales) if scales else None
    if not step(tokens, position, keys, values, of_cache, table.ends, table.blocks, table.coding, output):
        return decode_token.reference.forward(keep, tokens, *operands, **params)
    return output, ()


IMPLEMENTATIONS = {decode_token: Implementation("numba", _forward, decode_token.reference.backward)}
