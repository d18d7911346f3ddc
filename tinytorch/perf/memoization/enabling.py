"""Give a model a cache, and take it away again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.memoization.cache import KVCache


@dataclass(slots=True)
class LayerMemory:
    """One attention layer's part of a cache: what `MultiHeadAttention.memory` is set to."""

    cache: KVCache
    layer: int

    def attend(self, packed: Tensor) -> Tensor:
        """Return (B, T, H D) of the new positions' queries, keys and values side by side, (B, T, 3 H D)."""
        batch, count, width = packed.shape
        split = packed.data.reshape(batch, count, 3, self.cache.num_heads, self.cache.head_dim)
        q, k, v = split.transpose(2, 0, 3, 1, 4)
        heads: Array = self.cache.attend(self.layer, q, k, v).data
        return Tensor(heads.transpose(0, 2, 1, 3).reshape(batch, count, width // 3))


def enable_kv_cache(
    model: Any, batch_size: int = 1, max_seq_len: int | None = None, cache: KVCache | None = None
) -> KVCache:
    """Let ``model`` remember what it has read: from now on it takes only the tokens that follow. Return the cache.

    Logits equal those without a cache to rounding. Nothing is recorded for a backward. What is remembered belongs to
    the weights that made it: `KVCache.reset` it after changing them.

    Args:
        model: a GPT, with float or quantized layers.
        batch_size: sequences that will be generated together.
        max_seq_len: positions that fit, at most the model's own, which is the default.
        cache: one to use instead of a new float32 one; it is reset.

    Raises:
        TypeError: if ``model`` is not a GPT, or attends with other layers than `MultiHeadAttention`.
        ValueError: if it has a cache already, a size is out of range, or ``cache`` is of another model's shape or in
            another model's use.
    """
    layers = _attention_layers(model)
    if model.memory is not None:
        raise ValueError("model must not have a cache already: call disable_kv_cache(model) first")
    first = layers[0]
    shape = (len(layers), first.num_heads, first.embed_dim // first.num_heads)
    if cache is None:
        positions = model.max_seq_len if max_seq_len is None else max_seq_len
        cache = KVCache(batch_size, positions, *shape)
    if cache.max_seq_len > model.max_seq_len:
        raise ValueError(f"max_seq_len must be at most the model's {model.max_seq_len}, not {cache.max_seq_len}")
    if cache.shape != shape:
        raise ValueError(
            f"cache must have the model's layers, heads and head_dim {shape}, but has {cache.shape}: it is another's"
        )
    cache.claim(model)
    model.memory = cache
    for index, layer in enumerate(layers):
        layer.memory = LayerMemory(cache, index)
    return cache


def disable_kv_cache(model: Any) -> None:
    """Let ``model`` read whole sequences again; a model without a cache stays as it is.

    Raises:
        TypeError: if ``model`` is not a GPT, or attends with other layers than `MultiHeadAttention`.
    """
    layers = _attention_layers(model)
    cache = cache_of(model)
    if cache is not None:
        cache.release()
    for module in (model, *layers):
        module.memory = None


def cache_of(model: GPT) -> KVCache | None:
    """Return the cache that `enable_kv_cache` gave the model, if any."""
    return model.memory if isinstance(model.memory, KVCache) else None


def _attention_layers(model: Any) -> list[MultiHeadAttention]:
    """Return the attention layers in order; raise TypeError unless ``model`` is a GPT."""
    if not isinstance(model, GPT):
        raise TypeError(
            f"model must be a GPT from tinytorch.core.transformers, not {type(model).__name__}: of a model that was "
            "frozen for inference take the original, whose steps fuse_decoding makes fast"
        )
    layers = [module for _, module in model.named_modules() if isinstance(module, MultiHeadAttention)]
    if len(layers) != len(model.blocks):
        raise TypeError(f"model must attend with a MultiHeadAttention in each block, but has {len(layers)} of them")
    return layers
