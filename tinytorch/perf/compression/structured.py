"""Structured pruning: whole neurons, channels and heads are removed, and the model really is smaller."""

from __future__ import annotations

import ast
import copy
import inspect
import math
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tinytorch.core import activations, spatial
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.layers import Dropout, Flatten, Linear
from tinytorch.core.module import Module, Sequential, check_module
from tinytorch.core.op import Array
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import FeedForward
from tinytorch.perf.compression.pruning import Model, remade

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


def unit_groups(model: Module) -> dict[str, UnitGroup]:
    """Return every group of units that can be removed, by the dotted name of the layer that computes them.

    Found are: a linear or convolution layer of a `Sequential` whose output reaches another one through activations,
    dropout, pools, batch norms and flattening alone; the inner neurons of a ``FeedForward``; the heads of a
    `MultiHeadAttention`. Left out are layers that stand in more than one place, grouped convolutions, and what a module
    does in a forward pass of its own, as nobody can know who reads it. So are the layers of a `Sequential` that a
    module takes apart in its code, as ``self.body[0](x)`` or ``for layer in self.body`` do: they must run in it alone.

    Raises:
        TypeError: if ``model`` is not a Module.

    Examples:
        >>> from tinytorch.models import mlp
        >>> from tinytorch.perf.compression import unit_groups
        >>> [(name, group.kind, group.units) for name, group in unit_groups(mlp()).items()]
        [('1', 'neurons', 256), ('3', 'neurons', 128)]
    """
    check_module(model)
    apart = _taken_apart(model)
    uses = Counter(id(child) for _, module in model.named_modules() for _, child in module.named_children())
    inside = {id(child) for _, module in model.named_modules() if type(module) is Sequential for child in module}
    found: dict[str, UnitGroup] = {}
    for name, module in model.named_modules():
        if type(module) is Sequential and id(module) not in inside | apart:
            for group in _in_chain(list(_chain(module, name)), uses):
                found[group.name] = group
        elif type(module) is FeedForward and not _shared(uses, module.expand, module.contract):
            joined = f"{name}.expand" if name else "expand"
            group = UnitGroup(joined, "neurons", module.expand.out_features, module.expand, module.contract)
            found[joined] = group
        elif type(module) is MultiHeadAttention and not _shared(uses, module.qkv, module.projection):
            found[name] = UnitGroup(name, "heads", module.num_heads, module, module.projection)
    return found


def _taken_apart(model: Module) -> set[int]:
    """Return the ids of Sequentials that modules hold and do more with than to call them."""
    held = ((type(module), name, each) for _, module in model.named_modules() for name, each in vars(module).items())
    return {id(each) for kind, name, each in held if type(each) is Sequential and name in _not_only_called(kind)}


def _not_only_called(kind: type[Module]) -> frozenset[str]:
    """Return the names of attributes that the code of a class does not only call, or read attributes of.

    Nothing is known of a class without source, such as one that was typed into a prompt.
    """
    found: set[str] = set()
    for base in kind.__mro__[: kind.__mro__.index(Module)]:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            continue
        plain = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        plain |= {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr != "layers"
        }
        found |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in plain
        }
    return frozenset(found)


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
    weight = np.abs(group.producer.weight.data)
    axes = (0,) if weight.ndim == 2 else (1, 2, 3)
    return np.asarray(weight.sum(axis=axes, dtype=np.float64))


#: Units by name of their group.
Units = Mapping[str, Collection[int]]


def structured_prune(
    model: Model, prune_ratio: float = 0.5, kinds: Sequence[Kind] = KINDS, keep: Sequence[str] = ()
) -> Model:
    """Return a copy of ``model`` with smaller arrays, without the least important units of each group.

    Of a group's units ``floor(prune_ratio * units)`` go, those whose absolute weights have the smallest sum;
    of equal ones the earlier go first. The outputs are those of `mask_units` with the same units, up to rounding.

    Args:
        model: any module tree; it is not changed.
        prune_ratio: share of each group's units, at least 0 and below 1: one unit is always left.
        kinds: which groups, see `unit_groups`: ``neurons``, ``channels``, ``heads``.
        keep: names of groups that stay whole.

    Raises:
        ValueError: if an argument is out of its range, or the model has no such group.

    Examples:
        >>> from tinytorch.models import example, mlp
        >>> from tinytorch.perf.compression import structured_prune
        >>> model = structured_prune(mlp(), prune_ratio=0.5)
        >>> [parameter.shape for parameter in model.parameters() if len(parameter.shape) == 2]
        [(64, 128), (128, 64), (64, 10)]
        >>> model(example("mlp", 2)).shape
        (2, 10)
    """
    return remove_units(model, units_to_remove(model, prune_ratio, kinds, keep))


def units_to_remove(
    model: Module, prune_ratio: float = 0.5, kinds: Sequence[Kind] = KINDS, keep: Sequence[str] = ()
) -> dict[str, list[int]]:
    """Return the units of each group that `structured_prune` removes with these arguments; it raises the same errors.

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.compression import units_to_remove
        >>> found = units_to_remove(Sequential(Linear(8, 6, seed=0), Linear(6, 2, seed=0)), prune_ratio=0.5)
        >>> [len(units) for units in found.values()]  # three of six neurons
        [3]
    """
    if isinstance(prune_ratio, bool) or not isinstance(prune_ratio, (int, float)) or not 0 <= prune_ratio < 1:
        raise ValueError(f"prune_ratio must be at least 0 and below 1, so that a unit is left, not {prune_ratio!r}")
    if not kinds or not set(kinds) <= set(KINDS):
        raise ValueError(f"kinds must be some of {', '.join(KINDS)}, not {kinds!r}")
    groups = unit_groups(model)
    unknown = sorted(set(keep) - groups.keys())
    if unknown:
        raise ValueError(f"keep must name groups of units, but {unknown} are not in {[*groups]}")
    chosen = {name: group for name, group in groups.items() if group.kind in kinds and name not in keep}
    if not chosen:
        raise ValueError(f"model must hold {', '.join(kinds)} that can be removed, but holds none: see unit_groups")
    removed = {}
    for name, group in chosen.items():
        # A ratio such as 0.29 is not exact in binary, and its product with 100 lies just below 29.
        count = math.floor(prune_ratio * group.units + 1e-9)
        order = np.argsort(unit_scores(group), kind="stable")
        removed[name] = sorted(int(unit) for unit in order[:count])
    return removed


def remove_units(model: Model, removed: Units) -> Model:
    """Return a copy of ``model`` with smaller arrays, without the named units of each group (see `unit_groups`).

    Raises:
        ValueError: if a group or unit is unknown, no unit of a group would be left, or a layer that would be cut shares
            its weight or bias with another.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.models import example, mlp
        >>> from tinytorch.perf.compression import mask_units, remove_units
        >>> model, units, x = mlp(), {"1": [0, 1, 2]}, example("mlp", 2)
        >>> smaller = remove_units(model, units)
        >>> smaller.parameters()[0].shape
        (64, 253)
        >>> np.allclose(smaller(x).numpy(), mask_units(model, units)(x).numpy(), atol=1e-5)
        True
    """
    smaller, groups = _copied(model, removed)
    for name, units in removed.items():
        group = groups[name]
        kept = np.setdiff1d(np.arange(group.units), [*units])
        if isinstance(group.producer, MultiHeadAttention):
            _remove_heads(group.producer, kept)
            continue
        _pick(group.producer, "outputs", kept)
        for norm in group.norms:
            norm.weight, norm.bias = remade(norm.weight, kept), remade(norm.bias, kept)
            norm.running_mean, norm.running_var = (Tensor(e.data[kept]) for e in (norm.running_mean, norm.running_var))
        _pick(group.consumer, "inputs", _positions(kept, group.spread))
    return smaller


def mask_units(model: Model, removed: Units) -> Model:
    """Return a copy of ``model`` of the same size, with zeros for everything that removing the units would remove.

    The zeros are in the units' weights, biases and norms, and in the weights of the next layer that read them. The copy
    saves nothing; it is the reference that `remove_units` is tested with.

    Raises:
        ValueError: as `remove_units` does.

    Examples:
        >>> from tinytorch.models import mlp
        >>> from tinytorch.perf.compression import mask_units
        >>> model = mask_units(mlp(), {"1": [0, 1, 2]})
        >>> model.parameters()[0].shape  # as large as before
        (64, 256)
    """
    masked, groups = _copied(model, removed)
    for name, units in removed.items():
        group, gone = groups[name], np.array([*units], np.intp)
        if isinstance(group.producer, MultiHeadAttention):
            columns, rows = _head_columns(group.producer, gone)
            _zero(group.producer.qkv, "outputs", columns)
            _zero(group.producer.projection, "inputs", rows)
            continue
        _zero(group.producer, "outputs", gone)
        for norm in group.norms:
            norm.weight.data[gone] = 0
            norm.bias.data[gone] = 0
        _zero(group.consumer, "inputs", _positions(gone, group.spread))
    return masked


def _copied(model: Model, removed: Units) -> tuple[Model, dict[str, UnitGroup]]:
    """Return a copy of the model and its groups, once it is known that the units can be taken out."""
    copied = copy.deepcopy(model)
    groups = unit_groups(copied)
    unknown = sorted(removed.keys() - groups.keys())
    if unknown:
        raise ValueError(f"removed must name groups of units, but {unknown} are not in {[*groups]}")
    held = (each for _, module in copied.named_modules() for _, each in module._named_values())
    holders = Counter(id(each) for each in held if isinstance(each, Tensor))
    for name, units in removed.items():
        count = groups[name].units
        if any(not 0 <= unit < count for unit in units) or len(set(units)) >= count:
            raise ValueError(f"removed must leave a unit of {name!r} and name units below {count}, not {sorted(units)}")
        if units and any(holders[id(tensor)] > 1 for tensor in _cut(groups[name])):
            raise ValueError(
                f"keep must name {name!r}, whose layers share a weight or bias with another that stays whole"
            )
    return copied, groups


def _cut(group: UnitGroup) -> list[Tensor | None]:
    """Return the tensors that lose something when units of the group go."""
    if isinstance(group.producer, MultiHeadAttention):
        qkv, projection = group.producer.qkv, group.producer.projection
        return [qkv.weight, qkv.bias, projection.weight]
    cut: list[Tensor | None] = [group.producer.weight, group.producer.bias, group.consumer.weight]
    for norm in group.norms:
        cut += [norm.weight, norm.bias, norm.running_mean, norm.running_var]
    return cut


def _positions(units: Array, spread: int) -> Array:
    """Return the inputs that belong to ``units``: ``spread`` neighbours each."""
    return np.asarray((units[:, None] * spread + np.arange(spread)).reshape(-1))


def _axis(product: Product, side: str) -> int:
    """Return the axis of a weight that runs over its ``outputs`` or ``inputs``."""
    return int(isinstance(product, Linear) == (side == "outputs"))


def _pick(product: Product, side: str, kept: Array) -> None:
    """Leave a product the ``outputs`` or ``inputs`` that are kept."""
    product.weight = remade(product.weight, kept, _axis(product, side))
    if side == "outputs" and product.bias is not None:
        product.bias = remade(product.bias, kept)
    way, what = side.removesuffix("puts"), "features" if isinstance(product, Linear) else "channels"
    setattr(product, f"{way}_{what}", len(kept))


def _head_columns(attention: MultiHeadAttention, heads: Array) -> tuple[Array, Array]:
    """Return the outputs of ``qkv`` and the inputs of ``projection`` that belong to heads."""
    rows = _positions(heads, attention.projection.in_features // attention.num_heads)
    width = attention.projection.in_features
    return np.concatenate([rows, width + rows, 2 * width + rows]), rows


def _remove_heads(attention: MultiHeadAttention, kept: Array) -> None:
    columns, rows = _head_columns(attention, kept)
    _pick(attention.qkv, "outputs", columns)
    _pick(attention.projection, "inputs", rows)
    # What the heads hold together: caches of keys and values ask for it.
    attention.num_heads, attention.embed_dim = len(kept), len(rows)


def _zero(product: Product, side: str, which: Array) -> None:
    product.weight.data[(slice(None),) * _axis(product, side) + (which,)] = 0
    if side == "outputs" and product.bias is not None:
        product.bias.data[which] = 0
