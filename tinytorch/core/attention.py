"""Multi-head self-attention."""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Linear, checked_positive
from tinytorch.core.module import Module
from tinytorch.core.op import whole_numbers
from tinytorch.core.random import Seed, generator_from
from tinytorch.core.tensor import Tensor


@runtime_checkable
class Attending(Protocol):
    """Something that attends in a layer's place, because it remembers keys and values of earlier positions."""

    def attend(self, packed: Tensor) -> Tensor:
        """Return (B, T, embed_dim) of the new positions' queries, keys and values (B, T, 3 embed_dim)."""


@whole_numbers
class MultiHeadAttention(Module):
    """Self-attention of ``num_heads`` heads; ``causal`` hides later positions from earlier ones.

    ``qkv`` makes queries, keys and values side by side, ``projection`` mixes the heads. Where ``memory`` is set, the
    input holds only the positions that are new to it.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.attention import MultiHeadAttention
        >>> layer = MultiHeadAttention(embed_dim=16, num_heads=4, causal=True)
        >>> layer(Tensor(np.zeros((2, 5, 16), np.float32))).shape
        (2, 5, 16)
    """

    memory: Attending | None = None

    def __init__(self, embed_dim: int, num_heads: int, causal: bool = False, seed: Seed = None) -> None:
        checked_positive(embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise ValueError(f"num_heads must divide embed_dim {embed_dim}, but is {num_heads}")
        generator = generator_from(seed)
        self.embed_dim, self.num_heads, self.causal = embed_dim, num_heads, causal
        self.qkv = Linear(embed_dim, 3 * embed_dim, seed=generator)
        self.projection = Linear(embed_dim, embed_dim, seed=generator)

    def forward(self, x: Tensor, mask: Any = None) -> Tensor:
        """Return (B, T, embed_dim) of (B, T, embed_dim).

        Args:
            x: the positions.
            mask: (T, T), (B, T, T) or (B, num_heads or 1, T, T), true or 1 where a query (row) may look at a key
                (column), else false or 0. Scores are then held as a whole.

        Raises:
            ValueError: if ``mask`` has other shapes or values, hides every key from a query, or there is a memory.
        """
        packed = self.qkv(x)
        if mask is not None:
            heads = self._masked(packed, mask)
        elif self.memory is None:
            heads = apply(ops.self_attention, packed, heads=self.num_heads, causal=self.causal)
        else:
            heads = self.memory.attend(packed)
        output: Tensor = self.projection(heads)
        return output

    def _masked(self, packed: Tensor, mask: Any) -> Tensor:
        """Return the heads' outputs side by side, (B, T, embed_dim), as the mask lets them look."""
        if self.memory is not None:
            raise ValueError("mask must be left out if a cache is enabled, because attention is causal then")
        (batch, length, _), depth = packed.shape, self.embed_dim // self.num_heads
        given = np.asarray(mask._data if isinstance(mask, Tensor) else mask)
        shown = given[:, None] if given.ndim == 3 else given
        square = (length, length)
        fits = shown.ndim in (2, 4) and shown.shape[-2:] == square and np.isin(given, (0, 1)).all()
        if not fits or (shown.ndim == 4 and (shown.shape[0] != batch or shown.shape[1] not in (1, self.num_heads))):
            raise ValueError(f"mask must be of 0 and 1, of shape {square} or {(batch, *square)}, not {given.shape}")
        shown = shown.astype(bool) & np.tril(np.ones(square, bool)) if self.causal else shown.astype(bool)
        if not shown.any(axis=-1).all():
            raise ValueError("mask must leave each query at least one key, but it hides all keys from one query")
        parts = packed.reshape(batch, length, 3, self.num_heads, depth).transpose(2, 0, 3, 1, 4)
        scores = (parts[0] @ parts[1].transpose(2, 3)) * (1 / math.sqrt(depth))
        weights = apply(ops.softmax, apply(ops.where, shown, scores, -math.inf))
        return (weights @ parts[2]).transpose(1, 2).reshape(batch, length, self.embed_dim)

    def _described(self) -> str:
        return f"{self.embed_dim}, num_heads={self.num_heads}, causal={self.causal}"
