"""Fusion over a model: a new model in which layers that follow each other are one op."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from tinytorch.core import ops
from tinytorch.core.activations import GELU, ReLU
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Sequential, check_module
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import FeedForward, TransformerBlock
from tinytorch.perf.ops.fused import Activation, fused_linear

Kind = TypeVar("Kind", bound=Module)
#: What `copy.deepcopy` knows already, by the ``id`` of the original.
Memo = dict[int, Any]


class FusedLinear(Linear):
    """A linear layer with its activation, or with the residual that is added to its output, as one op. It trains."""

    activation: Activation = "none"

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return (..., out_features): ``activation(x W + b)``, or ``x W + b + residual``."""
        return apply(fused_linear, x, self.weight, self.bias, residual, activation=self.activation)

    def _described(self) -> str:
        return f"{super()._described()}, activation={self.activation!r}"


class FusedFeedForward(FeedForward):
    """`FeedForward` in two ops: the activation belongs to the first product, the residual sum to the second."""

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return (..., embed_dim), with ``residual`` added if it is given."""
        output: Tensor = self.contract(self.expand(x), residual)
        return output


class FusedAttention(MultiHeadAttention):
    """`MultiHeadAttention` whose projection adds the residual."""

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return (B, T, embed_dim), with ``residual`` added if it is given."""
        packed = self.qkv(x)
        if self.memory is None:
            heads = apply(ops.self_attention, packed, heads=self.num_heads, causal=self.causal)
        else:
            heads = self.memory.attend(packed)
        output: Tensor = self.projection(heads, residual)
        return output


class FusedBlock(TransformerBlock):
    """`TransformerBlock` in seven ops instead of ten: both sums and the activation belong to products."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, embed_dim) of (B, T, embed_dim)."""
        x = self.attention(self.norm1(x), x)
        output: Tensor = self.mlp(self.norm2(x), x)
        return output


def fuse(model: Module, *, frozen: bool = False) -> Module:
    """Return a copy of ``model`` in which a product, its activation and its residual sum are one op.

    Found in any module tree: a linear layer and the ReLU or GELU after it in a `Sequential`, ``FeedForward``,
    `MultiHeadAttention` and ``TransformerBlock``. Modules of other classes with forwards of their own keep these, and
    what they hold is fused inside. Results are those of ``model`` within float32 rounding, and so are gradients; names
    of parameters are the same, but in a `Sequential` those after a fused activation move up.

    The ops run on NumPy; within `accelerated` the kernel does activation and sum before the product leaves the cache.

    Args:
        model: any module; a shared module or parameter stays shared.
        frozen: for inference only: what is returned makes a `plan` for each shape of input that it meets, and fuses by
            the ops that run, whatever their modules. No parameter requires a gradient, and later changes to ``model``
            do not show. A model that runs an op without an entry point is refused when it is called.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear, Profiler, Sequential, Tensor
        >>> from tinytorch.core.activations import GELU
        >>> from tinytorch.perf.acceleration import fuse
        >>> model, x = Sequential(Linear(8, 8), GELU()), Tensor([[1.0] * 8])
        >>> with Profiler() as p:
        ...     y = fuse(model)(x)
        >>> len(p.key_averages()), np.allclose(y.numpy(), model(x).numpy(), atol=1e-6)
        (1, True)
    """
    check_module(model)
    if frozen:
        from tinytorch.perf.acceleration.plans import Planned  # imports Numba, which takes long

        return Planned(model)
    memo: Memo = {}
    # Inner modules first, so that a copy of an outer one finds them in the memo.
    for _, module in reversed(list(model.named_modules())):
        if id(module) not in memo:
            _fuse_one(module, memo)
    made: Module = copy.deepcopy(model, memo)
    return made


def _fuse_one(module: Module, memo: Memo) -> None:
    """Put the fused form of ``module`` into the memo, if there is one for its very class and those of its parts."""
    kind = type(module)
    if isinstance(module, Sequential) and kind is Sequential:
        _fuse_sequence(module, memo)
    elif isinstance(module, FeedForward) and kind is FeedForward and _are_linear(module.expand, module.contract):
        feed = _retyped(module, FusedFeedForward, memo, without=("activation",))
        vars(feed)["expand"] = _followed(module.expand, "gelu", memo)
        vars(feed)["contract"] = _followed(module.contract, "none", memo)
    elif isinstance(module, MultiHeadAttention) and kind is MultiHeadAttention and _are_linear(module.projection):
        attention = _retyped(module, FusedAttention, memo)
        vars(attention)["projection"] = _followed(module.projection, "none", memo)
    elif isinstance(module, TransformerBlock) and kind is TransformerBlock:
        parts = (memo.get(id(module.attention)), memo.get(id(module.mlp)))
        if isinstance(parts[0], FusedAttention) and isinstance(parts[1], FusedFeedForward):
            _retyped(module, FusedBlock, memo)


def _are_linear(*layers: Module) -> bool:
    """Return whether all are plain linear layers, not ones that something else was made of."""
    return all(type(layer) is Linear for layer in layers)


def _retyped(module: Module, kind: type[Kind], memo: Memo, without: tuple[str, ...] = ()) -> Kind:
    """Return a copy of ``module`` as ``kind``, one of its subclasses, and put it into the memo."""
    made = kind.__new__(kind)
    memo[id(module)] = made
    vars(made).update({name: copy.deepcopy(value, memo) for name, value in vars(module).items() if name not in without})
    return made


def _followed(linear: Linear, activation: Activation, memo: Memo) -> Module:
    """Return the fused form of a linear layer and what follows it."""
    made = FusedLinear.__new__(FusedLinear)
    vars(made).update({name: copy.deepcopy(value, memo) for name, value in vars(linear).items()})
    made.activation = activation
    return made


def _fuse_sequence(sequence: Sequential, memo: Memo) -> None:
    """Fuse neighbours of a sequence: linear and activation."""
    layers = list(sequence)
    kept: list[Module] = []
    while layers:
        layer = layers.pop(0)
        following = type(layers[0]) if layers else None
        if isinstance(layer, Linear) and _are_linear(layer) and following in (ReLU, GELU):
            kept.append(_followed(layer, "relu" if following is ReLU else "gelu", memo))
            layers.pop(0)
        else:
            kept.append(copy.deepcopy(layer, memo))
    made = Sequential(*kept)
    made.training = sequence.training
    memo[id(sequence)] = made
