"""Structured pruning: whole neurons, channels and heads are removed, and the model really is smaller."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.spatial import BatchNorm2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression.masks import remade
from tinytorch.perf.compression.units import KINDS, Kind, Product, UnitGroup, unit_groups, unit_scores

#: Units by name of their group.
Units = Mapping[str, Collection[int]]


def structured_prune(
    model: Module, prune_ratio: float = 0.5, kinds: Sequence[Kind] = KINDS, keep: Sequence[str] = ()
) -> Module:
    """Return a copy of ``model`` without the least important units of each group: fewer and smaller arrays.

    Of a group's units ``floor(prune_ratio * units)`` go, those with the lowest `unit_scores`; of equal ones the earlier
    go first. The outputs are those of `mask_units` with the same units, up to rounding.

    Args:
        model: any module tree; it stays as it was.
        prune_ratio: share of each group's units, at least 0 and below 1: one unit is always left.
        kinds: which groups, see `unit_groups`: ``neurons``, ``channels``, ``heads``.
        keep: names of groups that stay whole.

    Raises:
        ValueError: if an argument is out of its range, or the model has no such group.
    """
    return remove_units(model, units_to_remove(model, prune_ratio, kinds, keep))


def units_to_remove(
    model: Module, prune_ratio: float = 0.5, kinds: Sequence[Kind] = KINDS, keep: Sequence[str] = ()
) -> dict[str, list[int]]:
    """Return which units of each group `structured_prune` removes with these arguments; errors are its own."""
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


def remove_units(model: Module, removed: Units) -> Module:
    """Return a copy of ``model`` without the units named, by group (see `unit_groups`): a physically smaller model.

    Raises:
        ValueError: if a group or unit is unknown, or no unit of a group would be left.
    """
    _check(unit_groups(model), removed)
    smaller = copy.deepcopy(model)
    groups = unit_groups(smaller)
    for name, units in removed.items():
        group = groups[name]
        kept = np.setdiff1d(np.arange(group.units), [*units])
        if isinstance(group.producer, MultiHeadAttention):
            _remove_heads(group.producer, kept)
            continue
        _pick_outputs(group.producer, kept)
        for norm in group.norms:
            _pick_norm(norm, kept)
        _pick_inputs(group.consumer, _positions(kept, group.spread))
    return smaller


def mask_units(model: Module, removed: Units) -> Module:
    """Return a copy of ``model``, as large as it, with zeros for everything that `remove_units` takes out.

    Zeroed are the units' weights, biases and norms, and what the next layer reads of them. It is what `remove_units` is
    checked against, and what saves nothing.

    Raises:
        ValueError: as `remove_units` does.
    """
    _check(unit_groups(model), removed)
    masked = copy.deepcopy(model)
    groups = unit_groups(masked)
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


def _check(groups: Mapping[str, UnitGroup], removed: Units) -> None:
    unknown = sorted(removed.keys() - groups.keys())
    if unknown:
        raise ValueError(f"removed must name groups of units, but {unknown} are not in {[*groups]}")
    for name, units in removed.items():
        count = groups[name].units
        if any(not 0 <= unit < count for unit in units) or len(set(units)) >= count:
            raise ValueError(f"removed must leave a unit of {name!r} and name units below {count}, not {sorted(units)}")


def _positions(units: Array, spread: int) -> Array:
    """Return the inputs that belong to ``units``: ``spread`` neighbours each."""
    return np.asarray((units[:, None] * spread + np.arange(spread)).reshape(-1))


def _axis(product: Product, side: str) -> int:
    """Return the axis of a weight that runs over its ``outputs`` or ``inputs``."""
    return int(isinstance(product, Linear) == (side == "outputs"))


def _picker(axis: int, kept: Array) -> Callable[[Array], Array]:
    return lambda array: np.take(array, kept, axis=axis)


def _pick_outputs(product: Product, kept: Array) -> None:
    product.weight = remade(product.weight, _picker(_axis(product, "outputs"), kept))
    if product.bias is not None:
        product.bias = remade(product.bias, _picker(0, kept))
    if isinstance(product, Linear):
        product.out_features = len(kept)
    else:
        product.out_channels = len(kept)


def _pick_inputs(product: Product, kept: Array) -> None:
    product.weight = remade(product.weight, _picker(_axis(product, "inputs"), kept))
    if isinstance(product, Linear):
        product.in_features = len(kept)
    else:
        product.in_channels = len(kept)


def _pick_norm(norm: BatchNorm2d, kept: Array) -> None:
    pick = _picker(0, kept)
    norm.weight, norm.bias = remade(norm.weight, pick), remade(norm.bias, pick)
    norm.running_mean, norm.running_var = Tensor(pick(norm.running_mean.data)), Tensor(pick(norm.running_var.data))


def _head_columns(attention: MultiHeadAttention, heads: Array) -> tuple[Array, Array]:
    """Return the outputs of ``qkv`` and the inputs of ``projection`` that belong to heads."""
    rows = _positions(heads, attention.projection.in_features // attention.num_heads)
    width = attention.projection.in_features
    return np.concatenate([rows, width + rows, 2 * width + rows]), rows


def _remove_heads(attention: MultiHeadAttention, kept: Array) -> None:
    columns, rows = _head_columns(attention, kept)
    _pick_outputs(attention.qkv, columns)
    _pick_inputs(attention.projection, rows)
    attention.num_heads = len(kept)
    # What the heads hold together: caches of keys and values ask for it.
    attention.embed_dim = len(rows)


def _zero(product: Product, side: str, which: Array) -> None:
    product.weight.data[(slice(None),) * _axis(product, side) + (which,)] = 0
    if side == "outputs" and product.bias is not None:
        product.bias.data[which] = 0
