"""Fusion over a model: a new model in which layers that follow each other are one op, for training or for inference."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

from tinytorch.core import ops
from tinytorch.core.activations import GELU, ReLU
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Dropout, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, FeedForward, TransformerBlock
from tinytorch.perf.acceleration.frozen_convolutions import folded, take_convolutions
from tinytorch.perf.acceleration.frozen_gpt import FrozenGPT, is_small_gpt
from tinytorch.perf.acceleration.fused_chain import packed_chain, places
from tinytorch.perf.kernels.registry import run_by_kernel
from tinytorch.perf.ops.fused import Activation, Layout, fused_linear, packed_linear, unpacked

Kind = TypeVar("Kind", bound=Module)
#: Floats of a chain's weights: half a second cache of 1 MiB, as every few rows read them all.
_CHAIN_FLOATS = 131_072
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


class FrozenLinear(Module):
    """A `FusedLinear` for inference: it owns its weight, packed once as the kernel reads it, and nothing can train.

    ``panels`` is the only copy of the weight, in the layout of this CPU, its last vector filled up with zeros.
    """

    def __init__(self, linear: Linear, activation: Activation = "none") -> None:
        from tinytorch.perf.kernels.gemm.packing import pack
        from tinytorch.perf.kernels.linear import LAYOUT

        run_by_kernel(packed_linear)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.activation = activation
        self.layout: Layout = LAYOUT
        self.panels = Tensor(pack(linear.weight.data))
        self.bias = None if linear.bias is None else Tensor(linear.bias.data.copy())
        self.training = False

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return (..., out_features): ``activation(x W + b)``, or ``x W + b + residual``."""
        features = (self.in_features, self.out_features)
        operands = (x, self.panels, self.bias, residual)
        return apply(packed_linear, *operands, features=features, layout=self.layout, activation=self.activation)

    def weight(self) -> Tensor:
        """Return the weight (in_features, out_features), laid out anew."""
        return Tensor(unpacked(self.panels.data, (self.in_features, self.out_features), self.layout))

    def _described(self) -> str:
        bias, activation = self.bias is not None, self.activation
        return f"{self.in_features}, {self.out_features}, bias={bias}, activation={activation!r}"


class FrozenChain(Module):
    """Frozen linear layers that follow each other, as one op: a few rows go through all before the next rows do.

    ``weights`` holds the panels and the bias of each, and nothing else does. A layer without a bias has zeros.
    """

    def __init__(self, layers: Sequence[FrozenLinear]) -> None:
        from tinytorch.perf.kernels import chain
        from tinytorch.perf.kernels.gemm.packing import aligned_empty

        packed_chain.selected = chain.IMPLEMENTATIONS[packed_chain]
        self.widths = (layers[0].in_features, *[layer.out_features for layer in layers])
        self.layout = layers[0].layout
        self.activations = tuple(layer.activation for layer in layers)
        weights = aligned_empty(chain_size(layers))
        for layer, (panels, bias, end) in zip(layers, places(self.widths, self.layout), strict=True):
            weights[panels:bias] = layer.panels.data
            weights[bias:end] = 0
            if layer.bias is not None:
                weights[bias : bias + layer.out_features] = layer.bias.data
        self.weights = Tensor(weights)
        self.training = False

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., last width) of (..., first width)."""
        return apply(
            packed_chain, x, self.weights, widths=self.widths, layout=self.layout, activations=self.activations
        )

    def _described(self) -> str:
        return f"{self.widths}, activations={self.activations}"


def chain_size(layers: Sequence[FrozenLinear]) -> int:
    """Return how many floats panels and biases of ``layers`` take, with their filling."""
    return places((layers[0].in_features, *[layer.out_features for layer in layers]), layers[0].layout)[-1][2]


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
    """Return a copy of ``model`` in which products, activations and residual sums are one op each; it stays as it was.

    Found in any module tree: a linear layer and the ReLU or GELU after it in a `Sequential`, `FeedForward`,
    `MultiHeadAttention` and `TransformerBlock`. Modules of other classes with forwards of their own keep these, and
    what they hold is fused inside. Results are those of ``model`` within float32 rounding, and so are gradients; names
    of parameters are the same, but in a `Sequential` those after a fused activation move up.

    The ops run on NumPy; within `accelerated` the kernel does activation and sum before the product leaves the cache.

    Args:
        model: any module; a shared module or parameter stays shared.
        frozen: for inference only, in eval mode. Weights of linear layers are packed once as the kernel reads them,
            instead of in each call, and kept in no other way; batch normalization after a convolution goes into its
            weights; dropout is left out; small linear layers in a row are one op, and so are convolutions with their
            activations and maxima and the linear layer behind them. No parameter requires a gradient.
            Later changes to ``model`` do not show.
    """
    memo: Memo = {}
    # Inner modules first, so that a copy of an outer one finds them in the memo.
    for _, module in reversed(list(model.named_modules())):
        if id(module) not in memo:
            _fuse_one(module, frozen, memo)
    made: Module = copy.deepcopy(model, memo)
    if frozen:
        for parameter in made.parameters():
            parameter.requires_grad = False
        made.eval()
    return made


def _fuse_one(module: Module, frozen: bool, memo: Memo) -> None:
    """Put the fused form of ``module`` into the memo, if there is one for its very class and those of its parts."""
    kind = type(module)
    if isinstance(module, Linear) and kind is Linear and frozen:
        memo[id(module)] = FrozenLinear(module)
    elif frozen and isinstance(module, GPT) and is_small_gpt(module):
        memo[id(module)] = FrozenGPT(module)
    elif isinstance(module, Sequential) and kind is Sequential:
        _fuse_sequence(module, frozen, memo)
    elif isinstance(module, FeedForward) and kind is FeedForward and _are_linear(module.expand, module.contract):
        feed = _retyped(module, FusedFeedForward, memo, without=("activation",))
        vars(feed)["expand"] = _followed(module.expand, "gelu", frozen, memo)
        vars(feed)["contract"] = _followed(module.contract, "none", frozen, memo)
    elif isinstance(module, MultiHeadAttention) and kind is MultiHeadAttention and _are_linear(module.projection):
        attention = _retyped(module, FusedAttention, memo)
        vars(attention)["projection"] = _followed(module.projection, "none", frozen, memo)
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


def _followed(linear: Linear, activation: Activation, frozen: bool, memo: Memo) -> Module:
    """Return the fused form of a linear layer and what follows it."""
    if frozen:
        return FrozenLinear(linear, activation)
    made = FusedLinear.__new__(FusedLinear)
    vars(made).update({name: copy.deepcopy(value, memo) for name, value in vars(linear).items()})
    made.activation = activation
    return made


def _fuse_sequence(sequence: Sequential, frozen: bool, memo: Memo) -> None:
    """Fuse neighbours of a sequence: linear and activation; frozen also convolution and batch normalization."""
    layers = list(sequence)
    kept: list[Module] = []
    while layers:
        if frozen and (stages := take_convolutions(layers)) is not None:
            kept.append(stages)
            continue
        layer = layers.pop(0)
        following = type(layers[0]) if layers else None
        if isinstance(layer, Linear) and _are_linear(layer) and following in (ReLU, GELU):
            kept.append(_followed(layer, "relu" if following is ReLU else "gelu", frozen, memo))
            layers.pop(0)
        elif frozen and isinstance(layer, Conv2d) and isinstance(layers[0] if layers else None, BatchNorm2d):
            kept.append(_folded(layer, layers.pop(0), memo))
        elif not (frozen and type(layer) is Dropout):
            kept.append(copy.deepcopy(layer, memo))
    made = Sequential(*(_chained(kept) if frozen else kept))
    made.training = sequence.training
    memo[id(sequence)] = made


def _chained(layers: list[Module]) -> list[Module]:
    """Return ``layers`` with runs of frozen linear layers joined, as long as a run's weights stay in a second cache."""
    made: list[Module] = []
    run: list[FrozenLinear] = []
    for layer in [*layers, None]:
        if isinstance(layer, FrozenLinear) and layer.in_features * layer.out_features <= _CHAIN_FLOATS:
            if run and chain_size([*run, layer]) > _CHAIN_FLOATS:
                made.append(_joined(run))
                run = []
            run.append(layer)
            continue
        if run:
            made.append(_joined(run))
            run = []
        if layer is not None:
            made.append(layer)
    return made


def _joined(run: list[FrozenLinear]) -> Module:
    return FrozenChain(run) if len(run) > 1 else run[0]


def _folded(convolution: Conv2d, norm: Module, memo: Memo) -> Conv2d:
    """Return one convolution that does what ``convolution`` and ``norm`` in eval mode do."""
    made = copy.deepcopy(convolution, dict(memo))
    weight, bias = folded(convolution, norm)
    made.weight.data[...] = weight
    made.bias = type(made.weight)(Tensor(bias))
    return made
