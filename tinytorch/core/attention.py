"""Multi-head self-attention."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

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

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, embed_dim) of (B, T, embed_dim)."""
        packed = self.qkv(x)
        if self.memory is None:
            heads = apply(ops.self_attention, packed, heads=self.num_heads, causal=self.causal)
        else:
            heads = self.memory.attend(packed)
        output: Tensor = self.projection(heads)
        return output

    def _described(self) -> str:
        return f"{self.embed_dim}, num_heads={self.num_heads}, causal={self.causal}"
