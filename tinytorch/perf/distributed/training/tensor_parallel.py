"""Tensor parallelism: each rank holds a part of each large matrix, and all work on the same examples.

Columns of one matrix, then rows of the next, so that a pair takes one all-reduce forward and one backward. Attention
is cut by heads. Source: M. Shoeybi et al., Megatron-LM, 2019 (arXiv:1909.08053), section 3, where the two ops of
communication that autograd can pass are called f and g. All that is not cut (norms, embeddings, residuals) is computed
by every rank alike, and its gradients are the same on all.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array, Gradients, Op, Saved, no_traffic
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import FeedForward
from tinytorch.perf.distributed.ranks.collective_ops import no_work
from tinytorch.perf.distributed.ranks.communicator import Communicator, check_agreement, model_facts


def _copy_forward(keep: bool, x: Array, *, communicator: Communicator) -> tuple[Array, Saved]:
    """Hand on what all ranks hold alike; the gradient is the sum of the ranks'."""
    return x, (communicator,) if keep else ()


def _copy_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    del needs, owned
    communicator: Communicator = saved[0]
    return (communicator.all_reduce(gradient),)


def _sum_forward(keep: bool, x: Array, *, communicator: Communicator) -> tuple[Array, Saved]:
    """Add up the ranks' arrays; every rank goes on alike with the sum, so its gradient is each one's."""
    del keep
    return communicator.all_reduce(x), ()


def _sum_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    del saved, needs, owned
    return (gradient,)


copy_to_ranks = Op("copy_to_ranks", _copy_forward, _copy_backward, no_work, no_traffic)
sum_over_ranks = Op("sum_over_ranks", _sum_forward, _sum_backward, no_work, no_traffic)


def _own_part(whole: Array, communicator: Communicator) -> Array:
    """Return this rank's part of the last axis, a view."""
    part = whole.shape[-1] // communicator.size
    return whole[..., part * communicator.rank : part * (communicator.rank + 1)]


def _own_parameter(whole: Parameter, communicator: Communicator) -> Parameter:
    return Parameter(_own_part(whole.data, communicator), whole.requires_grad)


def _check_division(name: str, length: int, communicator: Communicator) -> None:
    if length % communicator.size:
        raise ValueError(f"{name} must be a multiple of {communicator.size} ranks, but is {length}")


class ColumnParallelLinear(Module):
    """`Linear` whose output features are shared out: the whole input, and this rank's part of the output.

    Raises:
        ValueError: if the output features are no multiple of the ranks.
    """

    def __init__(self, whole: Linear, communicator: Communicator) -> None:
        _check_division("out_features", whole.out_features, communicator)
        self.weight = _own_parameter(whole.weight, communicator)
        self.bias = None if whole.bias is None else _own_parameter(whole.bias, communicator)
        self._communicator = communicator

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., out_features / ranks) of the same (..., in_features) on all ranks."""
        x = apply(copy_to_ranks, x, communicator=self._communicator)
        return apply(ops.linear, x, self.weight) if self.bias is None else apply(ops.linear, x, self.weight, self.bias)


class RowParallelLinear(Module):
    """`Linear` whose input features are shared out: this rank's part of the input, and the whole output.

    The bias is added after the sum, by every rank alike.

    Raises:
        ValueError: if the input features are no multiple of the ranks.
    """

    def __init__(self, whole: Linear, communicator: Communicator) -> None:
        _check_division("in_features", whole.in_features, communicator)
        self.weight = Parameter(_own_part(whole.weight.data.T, communicator).T, whole.weight.requires_grad)
        self.bias = None if whole.bias is None else Parameter(whole.bias)
        self._communicator = communicator

    def forward(self, x: Tensor) -> Tensor:
        """Return the same (..., out_features) on all ranks, of (..., in_features / ranks)."""
        y = apply(sum_over_ranks, apply(ops.linear, x, self.weight), communicator=self._communicator)
        return y if self.bias is None else y + self.bias


class HeadParallelAttention(Module):
    """`MultiHeadAttention` of which each rank computes some heads.

    Raises:
        ValueError: if the heads are no multiple of the ranks.
    """

    def __init__(self, whole: MultiHeadAttention, communicator: Communicator) -> None:
        _check_division("num_heads", whole.num_heads, communicator)
        self.num_heads = whole.num_heads // communicator.size
        self.causal = whole.causal
        width = whole.embed_dim // communicator.size
        self.qkv = Linear(whole.embed_dim, 3 * width)
        self.qkv.weight = Parameter(_heads_part(whole.qkv.weight.data, communicator), whole.qkv.weight.requires_grad)
        assert whole.qkv.bias is not None
        self.qkv.bias = Parameter(_heads_part(whole.qkv.bias.data, communicator), whole.qkv.bias.requires_grad)
        self.projection = RowParallelLinear(whole.projection, communicator)
        self._communicator = communicator

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, embed_dim) of (B, T, embed_dim), the same on all ranks."""
        packed = self.qkv(apply(copy_to_ranks, x, communicator=self._communicator))
        heads = apply(ops.self_attention, packed, heads=self.num_heads, causal=self.causal)
        output: Tensor = self.projection(heads)
        return output


class ParallelFeedForward(Module):
    """`FeedForward` whose hidden features are shared out.

    Raises:
        ValueError: if they are no multiple of the ranks.
    """

    def __init__(self, whole: FeedForward, communicator: Communicator) -> None:
        self.expand = ColumnParallelLinear(whole.expand, communicator)
        self.activation = whole.activation
        self.contract = RowParallelLinear(whole.contract, communicator)

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., embed_dim) of (..., embed_dim), the same on all ranks."""
        output: Tensor = self.contract(self.activation(self.expand(x)))
        return output


def _heads_part(packed: Array, communicator: Communicator) -> Array:
    """Return this rank's heads out of queries, keys and values that lie side by side in the last axis."""
    thirds = np.split(packed, 3, axis=-1)
    return np.concatenate([_own_part(third, communicator) for third in thirds], axis=-1)


def tensor_parallel(model: Module, communicator: Communicator) -> Module:
    """Return a copy of ``model`` in which attention and feed-forward layers are shared out to the ranks.

    Raises:
        ValueError: if the ranks' models differ, or heads or hidden features are no multiple of the ranks.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.core.transformers import GPT
        >>> from tinytorch.perf.distributed import tensor_parallel, world
        >>> model, tokens = GPT(11, 16, 1, 2, 8, seed=0).eval(), np.array([[3, 1]])
        >>> cut = tensor_parallel(model, world())  # heads and hidden features, shared out to the ranks
        >>> np.allclose(cut(tokens).numpy(), model(tokens).numpy(), atol=1e-5)
        True
    """
    check_agreement(communicator, model_facts(model))
    made: dict[int, Any] = {}
    for _, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            made[id(module)] = HeadParallelAttention(module, communicator)
        elif isinstance(module, FeedForward):
            made[id(module)] = ParallelFeedForward(module, communicator)
    # What deepcopy finds in its memo it takes for copied already.
    return copy.deepcopy(model, made)
