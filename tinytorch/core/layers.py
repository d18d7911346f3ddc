"""Layers of vectors: affine map, embedding, layer normalization, dropout, flatten."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.activations import ReLU as ReLU  # the course's texts import these three from here
from tinytorch.core.activations import Softmax as Softmax
from tinytorch.core.dispatch import apply
from tinytorch.core.module import Module, Parameter
from tinytorch.core.module import Sequential as Sequential
from tinytorch.core.op import Array, whole_numbers
from tinytorch.core.random import Seed, generator_from, uniform
from tinytorch.core.tensor import Tensor


def checked_positive(**lengths: int) -> None:
    """Raise ValueError, naming the argument, unless every length is an integer above 0."""
    for name, value in lengths.items():
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{name} must be a whole number above 0, not {value!r}")


def as_indices(tokens: Any, name: str = "tokens") -> Array:
    """Return tokens or labels, a Tensor, array or list, as integers; floats count that are whole, as a Tensor's are.

    Raises:
        TypeError: if one of them, which the message calls ``name``, is no whole number.
    """
    array = np.asarray(tokens._data if isinstance(tokens, Tensor) else tokens)
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind == "f" and np.isfinite(array).all() and (np.floor(array) == array).all():
        return array.astype(np.int64)
    raise TypeError(
        f"{name} must be whole numbers, such as Tensor([[0, 1]]), but some values of dtype {array.dtype} are not"
    )


def check_scores(scores: Array) -> None:
    """Raise ValueError unless each row of scores (..., classes) has a largest that is a number.

    Minus infinity beside it rules a class out. NaN has no order, and of what is infinite no share can be drawn.
    """
    if not np.isfinite(scores.max(axis=-1)).all():
        raise ValueError("logits must not contain NaN or +infinity, and each row needs at least one finite value")


@whole_numbers
class Linear(Module):
    """Linear layer: x W + b on the last axis; ``weight`` is (in_features, out_features), ``bias`` (out_features,).

    Both are initialized uniformly in +-1/sqrt(in_features), as in PyTorch.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> layer = Linear(3, 2, seed=0)
        >>> layer.weight.shape, layer.bias.shape
        ((3, 2), (2,))
        >>> layer(Tensor([[1, 2, 3]])).shape
        (1, 2)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, seed: Seed = None) -> None:
        checked_positive(in_features=in_features, out_features=out_features)
        generator = generator_from(seed)
        bound = 1 / math.sqrt(in_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(uniform(generator, bound, (in_features, out_features)))
        self.bias = Parameter(uniform(generator, bound, (out_features,))) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., out_features) of (..., in_features)."""
        if self.bias is None:
            return apply(ops.linear, x, self.weight)
        return apply(ops.linear, x, self.weight, self.bias)

    def _described(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


@whole_numbers
class Embedding(Module):
    """Table of ``num_embeddings`` rows of ``embedding_dim``, initialized with a normal distribution of ``std``.

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.layers import Embedding
        >>> Embedding(50, 8)(Tensor([[3, 1, 4]])).shape
        (1, 3, 8)
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, std: float = 1.0, seed: Seed = None) -> None:
        checked_positive(num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        table = generator_from(seed).normal(0, std, (num_embeddings, embedding_dim))
        self.weight = Parameter(table.astype(np.float32))

    def forward(self, indices: Any) -> Tensor:
        """Return (..., embedding_dim) of whole numbers (...), each in 0..num_embeddings - 1."""
        return apply(ops.embedding, as_indices(indices), self.weight)

    def project(self, x: Tensor) -> Tensor:
        """Return x times the table, transposed: (..., num_embeddings) of (..., embedding_dim), as tied logits are."""
        return apply(ops.linear, x, self.weight.T)

    def _described(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


@whole_numbers
class LayerNorm(Module):
    """Normalize the last axis to mean 0 and variance 1, then scale by ``weight`` and shift by ``bias``.

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.layers import LayerNorm
        >>> y = LayerNorm(4)(Tensor([[1, 2, 3, 4]]))
        >>> abs(y.mean().item()) < 1e-6
        True
    """

    def __init__(self, normalized_shape: int, eps: float = 1e-5) -> None:
        checked_positive(normalized_shape=normalized_shape)
        self.eps = eps
        self.weight = Parameter(np.ones(normalized_shape, np.float32))
        self.bias = Parameter(np.zeros(normalized_shape, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalized input, of the same shape."""
        return apply(ops.layer_norm, x, self.weight, self.bias, epsilon=self.eps)

    def _described(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"


class Dropout(Module):
    """In train mode, zero each element with probability ``p`` (1: all) and scale the rest by 1 / (1 - p).

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.layers import Dropout
        >>> x, layer = Tensor(np.ones(1000, np.float32)), Dropout(0.5, seed=0)
        >>> sorted({float(value) for value in layer(x).numpy()})
        [0.0, 2.0]
        >>> layer.eval()(x) is x
        True
    """

    def __init__(self, p: float = 0.5, seed: Seed = None) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"p must be at least 0 and at most 1, not {p}")
        self.p = float(p)
        self.generator = generator_from(seed)

    def forward(self, x: Tensor) -> Tensor:
        """Return the input with elements dropped; itself in eval mode."""
        if not self.training or self.p == 0:
            return x
        return apply(ops.dropout, x, probability=self.p, generator=self.generator)

    def _described(self) -> str:
        return f"p={self.p}"


class Flatten(Module):
    """Join all axes but the first.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.layers import Flatten
        >>> Flatten()(Tensor(np.zeros((2, 3, 4, 5), np.float32))).shape
        (2, 60)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, everything else)."""
        return x.reshape(x.shape[0], -1)
