"""The decoder transformer: blocks of attention and MLP, and the GPT that stacks them."""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tinytorch.core.activations import GELU
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Embedding, LayerNorm, Linear, as_indices, checked_positive
from tinytorch.core.module import Module
from tinytorch.core.op import Array, whole_numbers
from tinytorch.core.random import Seed, generator_from
from tinytorch.core.tensor import Tensor


@whole_numbers
class FeedForward(Module):
    """Linear, GELU, Linear: ``embed_dim`` to ``hidden_dim`` and back.

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.transformers import FeedForward
        >>> FeedForward(8, 32)(Tensor([[1.0] * 8])).shape
        (1, 8)
    """

    def __init__(self, embed_dim: int, hidden_dim: int, seed: Seed = None) -> None:
        generator = generator_from(seed)
        self.expand = Linear(embed_dim, hidden_dim, seed=generator)
        self.activation = GELU()
        self.contract = Linear(hidden_dim, embed_dim, seed=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., embed_dim) of (..., embed_dim)."""
        output: Tensor = self.contract(self.activation(self.expand(x)))
        return output


@whole_numbers
class TransformerBlock(Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): the pre-norm block of GPT-2, causal.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.transformers import TransformerBlock
        >>> TransformerBlock(16, num_heads=2)(Tensor(np.ones((1, 5, 16), np.float32))).shape
        (1, 5, 16)
    """

    def __init__(self, embed_dim: int, num_heads: int, mlp_ratio: int = 4, seed: Seed = None) -> None:
        checked_positive(mlp_ratio=mlp_ratio)
        generator = generator_from(seed)
        self.norm1 = LayerNorm(embed_dim)
        self.attention = MultiHeadAttention(embed_dim, num_heads, causal=True, seed=generator)
        self.norm2 = LayerNorm(embed_dim)
        self.mlp = FeedForward(embed_dim, mlp_ratio * embed_dim, seed=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, embed_dim) of (B, T, embed_dim)."""
        x = x + self.attention(self.norm1(x))
        output: Tensor = x + self.mlp(self.norm2(x))
        return output


@runtime_checkable
class Remembering(Protocol):
    """A memory of earlier positions that all attention layers of a GPT share."""

    def begin(self, batch: int, count: int) -> int:
        """Return the position of the first of ``count`` new tokens; raise ValueError if they do not fit."""

    def advance(self, count: int = 1) -> None:
        """Count the new positions in, once every layer has seen them."""


@whole_numbers
class GPT(Module):
    """Token and position embeddings, causal transformer blocks, and logits over the vocabulary.

    The logits' projection is the token embedding itself, transposed, as in GPT-2 (A. Radford et al., 2019):
    GPT(50257, 768, 12, 12, 1024) has its 124,439,808 parameters. Weights start from N(0, 0.02), those that
    write to the residual stream from 0.02 / sqrt(2 num_layers), biases from 0.

    Where ``memory`` is set, the tokens given are those that follow the ones it remembers, and nothing is recorded
    for a backward pass.

    Examples:
        >>> from tinytorch import Profiler, Tensor
        >>> from tinytorch.core.transformers import GPT
        >>> model = GPT(vocab_size=11, embed_dim=16, num_layers=1, num_heads=2, max_seq_len=8)
        >>> model(Tensor([[0, 1, 2]])).shape
        (1, 3, 11)
        >>> Profiler().count_parameters(model)
        3616
    """

    memory: Remembering | None = None

    def __init__(
        self, vocab_size: int, embed_dim: int, num_layers: int, num_heads: int, max_seq_len: int, seed: Seed = None
    ) -> None:
        checked_positive(vocab_size=vocab_size, num_layers=num_layers, max_seq_len=max_seq_len)
        generator = generator_from(seed)
        self.vocab_size, self.embed_dim, self.max_seq_len = vocab_size, embed_dim, max_seq_len
        self.token_embedding = Embedding(vocab_size, embed_dim, std=0.02, seed=generator)
        self.position_embedding = Embedding(max_seq_len, embed_dim, std=0.02, seed=generator)
        self.blocks = [TransformerBlock(embed_dim, num_heads, seed=generator) for _ in range(num_layers)]
        self.norm = LayerNorm(embed_dim)
        residual_std = 0.02 / math.sqrt(2 * num_layers)
        for block in self.blocks:
            for layer in (block.attention.qkv, block.attention.projection, block.mlp.expand, block.mlp.contract):
                writes = layer is block.attention.projection or layer is block.mlp.contract
                layer.weight.data[...] = generator.normal(0, residual_std if writes else 0.02, layer.weight.shape)
                assert layer.bias is not None
                layer.bias.data[...] = 0

    def forward(self, tokens: Any, last: bool = False) -> Tensor:
        """Return logits (B, T, vocab_size) of whole numbers (B, T); with ``last`` (B, 1, vocab_size), the last one's.

        Raises:
            ValueError: if there are more than ``max_seq_len`` positions, or the shape is another.
        """
        indices = as_indices(tokens)
        if indices.ndim != 2:
            raise ValueError(f"tokens must have shape (batch, positions), not {indices.shape}")
        batch, count = indices.shape
        if not 0 < count <= self.max_seq_len:
            raise ValueError(f"tokens must have 1 to {self.max_seq_len} positions, not {count}")
        if self.memory is None:
            return self._logits(indices, 0, last)
        first = self.memory.begin(batch, count)
        with no_grad():
            logits = self._logits(indices, first, last)
        self.memory.advance(count)
        return logits

    def _logits(self, indices: Array, first: int, last: bool) -> Tensor:
        """Return the logits of tokens whose first one stands at position ``first``."""
        positions = np.arange(first, first + indices.shape[1])
        x = self.token_embedding(indices) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        if last:
            x = x[:, -1:]
        return self.token_embedding.project(self.norm(x))

    def _described(self) -> str:
        return f"vocab_size={self.vocab_size}, max_seq_len={self.max_seq_len}"


class Transformer(GPT):
    """A `GPT` whose arguments have the names that the course uses.

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.transformers import Transformer
        >>> model = Transformer(vocab_size=1000, d_model=16, n_heads=2, n_layers=1)
        >>> model(Tensor([[0, 1, 2]])).shape
        (1, 3, 1000)
    """

    def __init__(
        self, vocab_size: int, d_model: int, n_heads: int, n_layers: int, max_seq_len: int = 512, seed: Seed = None
    ) -> None:
        checked_positive(d_model=d_model, n_heads=n_heads, n_layers=n_layers)
        super().__init__(vocab_size, d_model, n_layers, n_heads, max_seq_len, seed)
