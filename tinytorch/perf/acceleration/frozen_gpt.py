"""A small GPT for inference, as one op: made by `fuse`, when all its weights and activations fit near caches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import LayerNorm, Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, FeedForward, TransformerBlock
from tinytorch.perf.acceleration.packed_gpt import Sizes, packed_gpt, places

#: Floats of a block's weights, and of its widest activations for a sequence: half a second cache of 1 MiB.
_NEAR_FLOATS = 131_072


class FrozenGPT(Module):
    """A `GPT` for inference as one op: ``weights`` holds all of its numbers, and nothing else does.

    It reads whole sequences, and takes no cache.
    """

    def __init__(self, model: GPT) -> None:
        from tinytorch.perf.kernels import gpt
        from tinytorch.perf.kernels.gemm.packing import aligned_empty, pack
        from tinytorch.perf.kernels.linear import LAYOUT

        packed_gpt.selected = gpt.IMPLEMENTATIONS[packed_gpt]
        self.sizes, self.layout = sizes_of(model), LAYOUT
        self.epsilons = tuple(norm.eps for block in model.blocks for norm in (block.norm1, block.norm2))
        self.epsilons += (model.norm.eps,)
        found = places(self.sizes, self.layout)
        weights = aligned_empty(found.end)
        weights[:] = 0

        def put(place: int, values: Array) -> None:
            weights[place : place + values.size] = values.reshape(-1)

        for block, parts in zip(model.blocks, found.blocks, strict=True):
            for layer, part in zip(_layers(block), parts, strict=True):
                put(part.weight, layer.weight.data if part.shape is None else pack(layer.weight.data))
                put(part.bias, layer.bias.data)
        put(found.norm.weight, model.norm.weight.data)
        put(found.norm.bias, model.norm.bias.data)
        put(found.logits.weight, pack(model.token_embedding.weight.data.T))
        put(found.tokens, model.token_embedding.weight.data)
        put(found.positions, model.position_embedding.weight.data)
        self.weights = Tensor(weights)
        self.training = False

    def forward(self, tokens: Any, last: bool = False) -> Tensor:
        """Return logits (B, T, vocabulary) of tokens (B, T); with ``last`` (B, 1, vocabulary), the last one's."""
        indices = np.asarray(tokens.data if isinstance(tokens, Tensor) else tokens)
        given = {"sizes": tuple(self.sizes), "layout": self.layout, "epsilons": self.epsilons, "last": last}
        return apply(packed_gpt, indices, self.weights, **given)

    def _described(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.sizes._asdict().items())


def sizes_of(model: GPT) -> Sizes:
    """Return the sizes of a GPT that has blocks."""
    block = model.blocks[0]
    hidden, heads = block.mlp.expand.out_features, block.attention.num_heads
    return Sizes(model.vocab_size, model.max_seq_len, model.embed_dim, hidden, len(model.blocks), heads)


def is_small_gpt(module: Module) -> bool:
    """Return whether ``module`` is a GPT of plain float layers, without a cache, that `FrozenGPT` is faster for."""
    if type(module) is not GPT or module.memory is not None or not module.blocks:
        return False
    plain = all(_is_plain(block) for block in module.blocks)
    if not plain or len({block.attention.num_heads for block in module.blocks}) > 1:
        return False
    sizes = sizes_of(module)
    block = sizes.width * (4 * sizes.width + 2 * sizes.hidden)
    return max(block, sizes.vocabulary * sizes.width, sizes.positions * sizes.hidden) <= _NEAR_FLOATS


def _is_plain(block: Module) -> bool:
    """Return whether a block and its parts are of the very classes that the op computes, in float32."""
    if type(block) is not TransformerBlock:
        return False
    attention, feed = block.attention, block.mlp
    if type(attention) is not MultiHeadAttention or type(feed) is not FeedForward or not attention.causal:
        return False
    layers = list(_layers(block))
    kinds = [type(layer) for layer in layers]
    if kinds != [LayerNorm, Linear, Linear, LayerNorm, Linear, Linear]:
        return False
    return all(layer.bias is not None and layer.weight.dtype == np.float32 for layer in layers)


def _layers(block: TransformerBlock) -> Iterator[Any]:
    """Yield the layers of a block in the order of `packed_gpt.Places`."""
    yield from (block.norm1, block.attention.qkv, block.attention.projection)
    yield from (block.norm2, block.mlp.expand, block.mlp.contract)
