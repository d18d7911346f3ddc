"""What can be removed from a model as a whole: neurons, channels and heads, and who makes and reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tinytorch.core import activations, spatial
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.layers import Dropout, Flatten, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.transformers import FeedForward

Kind = Literal["neurons", "channels", "heads"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Product = Linear | Conv2d

#: Modules that treat each unit by itself, so that one may stand between its maker and its reader.
_APART = (
    activations.ReLU,
    activations.GELU,
    activations.SiLU,
    activations.Sigmoid,
    activations.Tanh,
    activations.LeakyReLU,
    Dropout,
    Flatten,
    spatial.MaxPool2d,
    spatial.AvgPool2d,
    spatial.AdaptiveAvgPool2d,
    BatchNorm2d,
)


@dataclass(frozen=True)
class UnitGroup:
    """Units of one layer: who makes them, who reads them, and the batch norms between.

    A unit is an output of a linear layer (``neurons``), an output channel of a convolution (``channels``), or a head of
    attention (``heads``, where producer and consumer are the attention module and its projection). The consumer reads
    ``spread`` inputs of each unit: more than one where a map of a channel was flattened.
    """

    name: str
    kind: Kind
    units: int
    producer: Product | MultiHeadAttention
    consumer: Product
    norms: tuple[BatchNorm2d, ...] = ()
    spread: int = 1

    @property
    def product(self) -> Product:
        """The producer where it is a layer.

        Raises:
            TypeError: if it is attention.
        """
        if isinstance(self.producer, MultiHeadAttention):
            raise TypeError(f"{self.name!r} is attention, not one layer")
        return self.producer


def unit_groups(model: Module) -> dict[str, UnitGroup]:
    """Return every group of units that can be removed, by dotted name of the layer or attention that makes them.

    Found are: a linear or convolution layer of a `Sequential` whose output reaches another one through activations,
    dropout, pools, batch norms and flattening alone; the inner neurons of a `FeedForward`; the heads of a
    `MultiHeadAttention`. Left out are layers that stand in more than one place, grouped convolutions, and what a module
    does in a forward of its own, as nobody can know who reads it. Layers of a `Sequential` must run in it alone.
    """
    uses = Counter(id(child) for _, module in model.named_modules() for _, child in module.named_children())
    inside = {id(child) for _, module in model.named_modules() if type(module) is Sequential for child in module}
    found: dict[str, UnitGroup] = {}
    for name, module in model.named_modules():
        if type(module) is Sequential and id(module) not in inside:
            for group in _in_chain(list(_chain(module, name)), uses):
                found[group.name] = group
        elif type(module) is FeedForward and not _shared(uses, module.expand, module.contract):
            joined = f"{name}.expand" if name else "expand"
            group = UnitGroup(joined, "neurons", module.expand.out_features, module.expand, module.contract)
            found[joined] = group
        elif type(module) is MultiHeadAttention and not _shared(uses, module.qkv, module.projection):
            found[name] = UnitGroup(name, "heads", module.num_heads, module, module.projection)
    return found


def _shared(uses: Counter[int], *modules: Module) -> bool:
    return any(uses[id(module)] > 1 for module in modules)


def _chain(sequential: Sequential, prefix: str) -> Iterator[tuple[str, Module]]:
    """Yield the modules that run one after the other, those of a Sequential inside of it in its place."""
    for index, module in enumerate(sequential):
        name = f"{prefix}.{index}" if prefix else str(index)
        if type(module) is Sequential:
            yield from _chain(module, name)
        else:
            yield name, module


def _in_chain(chain: list[tuple[str, Module]], uses: Counter[int]) -> Iterator[UnitGroup]:
    for index, (name, module) in enumerate(chain):
        if type(module) not in (Linear, Conv2d):
            continue
        between: list[Module] = []
        for _, after in chain[index + 1 :]:
            if type(after) in (Linear, Conv2d):
                group = _joined(name, module, between, after)  # type: ignore[arg-type]
                if group and not _shared(uses, module, after, *group.norms):
                    yield group
                break
            if type(after) not in _APART:
                break
            between.append(after)


def _joined(name: str, producer: Product, between: list[Module], consumer: Product) -> UnitGroup | None:
    """Return the group of two neighbours; None where a unit's inputs of the consumer cannot be told."""
    norms = tuple(module for module in between if isinstance(module, BatchNorm2d))
    if isinstance(producer, Linear):
        if isinstance(consumer, Conv2d) or norms or consumer.in_features != producer.out_features:
            return None
        return UnitGroup(name, "neurons", producer.out_features, producer, consumer)
    channels = producer.out_channels
    if producer.groups > 1 or (isinstance(consumer, Conv2d) and consumer.groups > 1):
        return None
    if isinstance(consumer, Conv2d):
        return UnitGroup(name, "channels", channels, producer, consumer, norms)
    flat = [index for index, module in enumerate(between) if isinstance(module, Flatten)]
    if not flat or consumer.in_features % channels:
        return None
    return UnitGroup(name, "channels", channels, producer, consumer, norms, consumer.in_features // channels)


def unit_scores(group: UnitGroup) -> npt.NDArray[np.float64]:
    """Return how important each unit is taken to be: the sum of the absolute weights that make it, shape (units,).

    For a head these are its columns of queries, keys and values, and its rows of the projection.

    Source: H. Li et al., Pruning Filters for Efficient ConvNets, 2017, arXiv:1608.08710 (of filters).
    """
    if isinstance(group.producer, MultiHeadAttention):
        attention = group.producer
        made = np.abs(attention.qkv.weight.data).sum(axis=0, dtype=np.float64)
        read = np.abs(attention.projection.weight.data).sum(axis=1, dtype=np.float64)
        return np.asarray(made.reshape(3, group.units, -1).sum(axis=(0, 2)) + read.reshape(group.units, -1).sum(axis=1))
    weight = np.abs(group.product.weight.data)
    axes = (0,) if weight.ndim == 2 else (1, 2, 3)
    return np.asarray(weight.sum(axis=axes, dtype=np.float64))
