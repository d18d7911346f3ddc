"""One new token of each sequence through a whole GPT as one op, and attention over a cache of int8 codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Op, Saved, Spec, Work, no_gradient, operands_once
from tinytorch.perf.ops.affine import check_finite
from tinytorch.perf.ops.weight_only import quantized_embedding, weight_only_linear, weight_only_projection

#: The largest magnitude of a cache's int8 codes.
_LARGEST_CODE = 127


class Weight(NamedTuple):
    """A weight of floats, or codes with scales and zero points (or None)."""

    numbers: Any
    scale: Any = None
    zero: Any = None


class Product(NamedTuple):
    """A linear layer: its weight and its bias."""

    weight: Weight
    bias: Any


class Block(NamedTuple):
    """Norms (weight, bias) and products (qkv, projection, expand, contract) of a `TransformerBlock`."""

    norm1: tuple[Any, Any]
    norm2: tuple[Any, Any]
    products: tuple[Product, Product, Product, Product]


class Parts(NamedTuple):
    """The operands of `decode_token` after the tokens, in this order; a block's norms each before its two products.

    ``cached`` holds keys and values (layers, B, H, S, D) with room for S positions; where they are codes, then their
    scales (layers, B, H, S, 1).
    """

    token: Weight
    position: Weight
    blocks: tuple[Block, ...]
    norm: tuple[Any, Any]
    cached: tuple[Any, ...]


def parts_of(operands: Sequence[Any], layers: int, bits: int | None) -> Parts:
    """Return the operands by what they are: arrays, or the specs of an event.

    A weight of floats (``bits`` None) is one operand, one of codes three: codes, scales and zero points or None.
    """
    rest = iter(operands)
    count = 1 if bits is None else 3
    token, position = _weight(rest, count), _weight(rest, count)
    blocks = tuple(_block(rest, count) for _ in range(layers))
    return Parts(token, position, blocks, (next(rest), next(rest)), tuple(rest))


def _weight(rest: Iterator[Any], count: int) -> Weight:
    return Weight(*islice(rest, count))


def _block(rest: Iterator[Any], count: int) -> Block:
    norms, products = [], []
    for _ in range(2):
        norms.append((next(rest), next(rest)))
        products += [Product(_weight(rest, count), next(rest)) for _ in range(2)]
    return Block(norms[0], norms[1], (products[0], products[1], products[2], products[3]))


def check_step(tokens: Array, keys: Array, position: int) -> None:
    """Raise ValueError unless tokens are one for each sequence of the cache, and there is room for them."""
    if tokens.shape != keys.shape[1:2]:
        raise ValueError(f"tokens must have shape ({keys.shape[1]},), one of each sequence, not {tokens.shape}")
    if not 0 <= position < keys.shape[3]:
        raise ValueError(f"position must lie in 0..{keys.shape[3] - 1}, where the cache has room, not {position}")


class _Model:
    """The operands as a model of reference ops."""

    def __init__(self, parts: Parts, bits: int | None, group: int | None) -> None:
        self.parts, self.width = parts, parts.norm[0].size
        self.coding = None if bits is None else {"bits": bits, "group": group}

    def picked(self, table: Weight, indices: Array) -> Array:
        """Return rows of an embedding, (..., C)."""
        if self.coding is None:
            return _run(ops.embedding, indices, table.numbers)
        return _run(quantized_embedding, indices, *table, **self.coding, length=self.width)

    def product(self, x: Array, layer: Product) -> Array:
        """Return a linear layer of x."""
        if self.coding is None:
            return _run(ops.linear, x, layer.weight.numbers, layer.bias)
        coding: dict[str, Any] = {**self.coding, "length": x.shape[-1], "packed": {}}
        return _run(weight_only_linear, x, *layer.weight, layer.bias, **coding)

    def logits(self, x: Array) -> Array:
        """Return x times the token embedding, transposed."""
        if self.coding is None:
            return _run(ops.linear, x, self.parts.token.numbers.T)
        return _run(weight_only_projection, x, *self.parts.token, **self.coding, length=self.width)


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
    """The logits of tokens (B,) that stand at ``position``, and what a cache is to remember of them, op by op.

    Operands after the tokens are `Parts`; epsilons those of all norms in order; bits and group those of all weights,
    None for floats; ``prepared`` is a kernel's memory. Returns all in one flat array: logits (B, V), new keys and
    values (2, layers, B, H, D), and with a cache of codes, where keys and values are codes too, their scales
    (2, layers, B, H).
    """
    layers = len(epsilons) // 2
    parts = parts_of(operands, layers, bits)
    check_step(tokens, parts.cached[0], position)
    model = _Model(parts, bits, group)
    x = model.picked(parts.token, tokens[:, None]) + model.picked(parts.position, np.array([position]))
    made = []
    for layer, block in enumerate(parts.blocks):
        held = tuple(each[layer, :, :, :position] for each in parts.cached)
        normal = _run(ops.layer_norm, x, *block.norm1, epsilon=epsilons[2 * layer])
        heads, new = _attended(model.product(normal, block.products[0]), held)
        made.append(new)
        x = x + model.product(heads, block.products[1])
        normal = _run(ops.layer_norm, x, *block.norm2, epsilon=epsilons[2 * layer + 1])
        x = x + model.product(_run(ops.gelu, model.product(normal, block.products[2])), block.products[3])
    logits = model.logits(_run(ops.layer_norm, x, *parts.norm, epsilon=epsilons[-1]))
    remembered = [np.stack([new[index] for new in made]).reshape(-1) for index in range(len(parts.cached))]
    return np.concatenate([logits.reshape(-1), *remembered]), ()


def _attended(packed: Array, held: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
    """Return attention (B, 1, C) of packed (B, 1, 3 C) over what is held and its own, and what is new to the cache."""
    batch, heads, _, depth = held[0].shape
    q, k, v = packed.reshape(batch, 1, 3, heads, depth).transpose(2, 0, 3, 1, 4)
    new: tuple[Array, ...] = (k, v)
    earlier, own = held, new
    if len(held) > 2:
        (key_codes, key_scale), (value_codes, value_scale) = quantized_rows(k, "key"), quantized_rows(v, "value")
        new = (key_codes, value_codes, key_scale, value_scale)
        own = (key_codes * key_scale, value_codes * value_scale)
        earlier = (held[0] * held[2], held[1] * held[3])
    along = [np.concatenate(each, axis=2) for each in zip(earlier, own, strict=True)]
    heads_of = _run(ops.attention, np.ascontiguousarray(q), *along, causal=True)
    return heads_of.reshape(batch, 1, heads * depth), new


def _run(op: Op, *arrays: Any, **params: Any) -> Array:
    return op.reference.forward(False, *arrays, **params)[0]


def _parts_of_call(call: Call) -> Parts:
    return parts_of(call.inputs[1:], len(call.params["epsilons"]) // 2, call.params["bits"])


def _work(call: Call) -> Work:
    """What the ops that it is made of count together, and one operation for each code of weights and cache."""
    parts, bits = _parts_of_call(call), call.params["bits"]
    batch, width, layers = call.inputs[0].size, parts.norm[0].size, len(parts.blocks)
    heads, length = parts.cached[0].shape[2], call.params["position"] + 1
    vocabulary = parts.token.numbers.shape[0]
    outputs = [product.bias.size for block in parts.blocks for product in block.products]
    inner = [size for block in parts.blocks for size in (width, width, width, block.products[2].bias.size)]
    weights = sum(outer * depth for outer, depth in zip(outputs, inner, strict=True))
    macs = batch * (weights + vocabulary * width) + 2 * layers * batch * width * length
    hidden = sum(outputs[2::4])
    attended = layers * (5 * batch * heads * length + 2 * batch * width)
    elementwise = batch * width * (1 + 7 * (2 * layers + 1) + 2 * layers) + batch * (sum(outputs) + 8 * hidden)
    if bits is not None:
        codes = weights + vocabulary * width + (batch + 1) * width
        elementwise += codes * (1 if parts.token.zero.dtype is None else 2)
    if len(parts.cached) > 2:
        elementwise += layers * 2 * batch * width * length
    return Work(macs, elementwise + attended)


def _traffic(call: Call) -> int:
    """Each operand once, but of the cache what it holds so far, and of the positions' embedding one row."""
    parts, position = _parts_of_call(call), call.params["position"]
    rows, room = parts.position.numbers.shape[0], parts.cached[0].shape[3]
    row = sum(_share(spec, rows) for spec in parts.position if spec is not None)
    table = sum(spec.nbytes for spec in parts.position if spec is not None)
    unread = sum(spec.nbytes * (room - position) // room for spec in parts.cached)
    return operands_once(call) - table + row - unread


def _share(spec: Spec, rows: int) -> int:
    """Return the bytes of one row; of something that all rows share, all of it."""
    return spec.nbytes // rows if spec.shape[:1] == (rows,) else spec.nbytes


#: One new token of each sequence: see `_forward`.
decode_token = Op(
    "decode_token",
    _forward,
    no_gradient("decode_token is for generation and has no gradient: train the model itself"),
    _work,
    _traffic,
)


def quantized_rows(numbers: Array, name: str = "numbers") -> tuple[Array, Array]:
    """Return int8 codes and float32 scales (one for the last axis, kept as length 1) of floating numbers.

    Raises:
        ValueError: if one is NaN or infinite.
    """
    largest = np.abs(numbers).max(axis=-1, keepdims=True)
    check_finite(largest, largest, name)
    scales = (largest / np.float32(_LARGEST_CODE)).astype(np.float32)
    # A row that float32 cannot divide by 127 is all 0 in codes, which is off by less than the smallest normal number.
    scales[scales < np.finfo(np.float32).tiny] = 1
    return np.rint(numbers / scales).astype(np.int8), scales


def _attention_forward(
    keep: bool, q: Array, key_codes: Array, key_scale: Array, value_codes: Array, value_scale: Array, *, causal: bool
) -> tuple[Array, Saved]:
    return ops.attention.reference.forward(False, q, key_codes * key_scale, value_codes * value_scale, causal=causal)


def _attention_work(call: Call) -> Work:
    """That of attention, and a multiplication for each code."""
    assert ops.attention.work is not None
    attended = ops.attention.work(call)
    return Work(attended.macs, attended.elementwise + 2 * call.inputs[1].size)


#: q (B, H, T, D) over int8 keys and values (B, H, S, D) with scales (B, H, S, 1): as `attention`.
quantized_attention = Op(
    "quantized_attention",
    _attention_forward,
    no_gradient("codes are integers and have no gradient: attend to float keys and values instead"),
    _attention_work,
)
