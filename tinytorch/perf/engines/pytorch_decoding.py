"""Greedy decoding in PyTorch eager with a cache of keys and values of its own, as its users write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch.nn import functional

from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines.pytorch import TorchBlock, TorchGPT, twin_of

#: "preallocated" writes into buffers for all positions, "concatenated" makes longer arrays with every token.
CacheKind = Literal["preallocated", "concatenated"]


class _Cache:
    """Keys and values of every block, (B, heads, positions, head_dim) each."""

    def __init__(self, kind: CacheKind, shape: tuple[int, int, int, int], layers: int) -> None:
        self.kind, self.end = kind, 0
        shape = shape if kind == "preallocated" else (*shape[:2], 0, shape[3])
        self.keys, self.values = ([torch.empty(shape) for _ in range(layers)] for _ in range(2))

    def extended(self, layer: int, k: Any, v: Any) -> tuple[Any, Any]:
        """Return all keys and values of a layer, the new ones remembered."""
        end = self.end + k.shape[2]
        if self.kind == "concatenated":
            self.keys[layer] = torch.cat([self.keys[layer], k], 2)
            self.values[layer] = torch.cat([self.values[layer], v], 2)
            return self.keys[layer], self.values[layer]
        self.keys[layer][:, :, self.end : end] = k
        self.values[layer][:, :, self.end : end] = v
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]


def _block(block: TorchBlock, layer: int, x: Any, cache: _Cache) -> Any:
    batch, count, width = x.shape
    packed = block.qkv(block.norm1(x)).view(batch, count, 3, block.heads, width // block.heads)
    q, k, v = packed.permute(2, 0, 3, 1, 4)
    keys, values = cache.extended(layer, k, v)
    # The prompt comes into an empty cache, a token after it sees all.
    heads = functional.scaled_dot_product_attention(q, keys, values, is_causal=count > 1)
    x = x + block.projection(heads.transpose(1, 2).reshape(batch, count, width))
    return x + block.contract(functional.gelu(block.expand(block.norm2(x)), approximate="tanh"))


def _next(model: TorchGPT, tokens: Any, cache: _Cache) -> Any:
    """Return the likeliest token after ``tokens``, (B, 1)."""
    x = model.token(tokens) + model.position(model.index[cache.end : cache.end + tokens.shape[1]])
    for layer, block in enumerate(model.blocks):
        x = _block(block, layer, x, cache)
    cache.end += tokens.shape[1]
    logits = functional.linear(model.norm(x[:, -1]), model.token.weight)
    return logits.argmax(-1, keepdim=True)


def generation(model: GPT, prompt: Array, new_tokens: int, kind: CacheKind) -> Callable[[], Array]:
    """Return a call that generates ``new_tokens`` after each prompt (B, P) and returns all tokens, int64."""
    twin = twin_of(model).module.eval()
    attention = model.blocks[0].attention
    head = attention.embed_dim // attention.num_heads
    shape = (len(prompt), attention.num_heads, model.max_seq_len, head)
    start = torch.from_numpy(np.ascontiguousarray(prompt))

    def call() -> Array:
        with torch.inference_mode():
            cache, found = _Cache(kind, shape, len(model.blocks)), [start]
            for _ in range(new_tokens):
                found.append(_next(twin, found[-1], cache))
            tokens: Array = torch.cat(found, 1).numpy()
        return tokens

    return call
