"""Weights that stay zero: parameters that hold zeros through training, and the layers whose weights may go."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor

Mask = npt.NDArray[np.bool_]


class MaskedParameter(Parameter):
    """A parameter whose elements are zero where ``pruned`` is true, and stay so in training.

    Its gradient is zero there. With zero as value, gradient and state of the optimizer, no step of SGD, Adam or AdamW,
    with momentum and weight decay or without, moves an element; and no optimizer that was made before the parameter
    can hold it.

    Args:
        data: values; they are copied, and set to zero where pruned.
        pruned: bool, of the same shape.

    Raises:
        ValueError: if the shapes differ.
    """

    __slots__ = ("pruned",)

    def __init__(self, data: Any, pruned: Mask) -> None:
        self.pruned: Mask = np.array(pruned, dtype=np.bool_)
        super().__init__(data)
        if self.pruned.shape != self.data.shape:
            raise ValueError(f"pruned must have the shape {self.data.shape} of data, not {self.pruned.shape}")
        np.copyto(self.data, 0, where=self.pruned)

    @property
    def grad(self) -> Array | None:
        """The gradient, zero where pruned; None before a backward."""
        found: Array | None = _GRADIENT.__get__(self)
        return found

    @grad.setter
    def grad(self, gradient: Array | None) -> None:
        if gradient is not None:
            np.copyto(gradient, 0, where=self.pruned)
        _GRADIENT.__set__(self, gradient)


#: Where a Tensor keeps its gradient.
_GRADIENT: Any = vars(Tensor)["grad"]


def prunable(model: Module) -> dict[str, Linear | Conv2d]:
    """Return the linear and convolution layers of ``model`` by dotted name ("" if it is one itself)."""
    return {name: module for name, module in model.named_modules() if isinstance(module, (Linear, Conv2d))}


def chosen_layers(model: Module, keep: Sequence[str] = ()) -> dict[str, Linear | Conv2d]:
    """Return the `prunable` layers that ``keep`` does not name.

    Raises:
        ValueError: if none is left, ``keep`` names something else, or a weight is not finite.
    """
    layers = prunable(model)
    if not layers:
        raise ValueError("model must hold a Linear or Conv2d layer to prune, but holds none")
    unknown = sorted(set(keep) - layers.keys())
    if unknown:
        raise ValueError(f"keep must name linear or convolution layers, but {unknown} are not in {[*layers]}")
    chosen = {name: layer for name, layer in layers.items() if name not in keep}
    if not chosen:
        raise ValueError("keep must leave at least one layer to prune, but names all of them")
    for name, layer in chosen.items():
        if not np.isfinite(layer.weight.data).all():
            raise ValueError(f"model must have finite weights, but those of {name!r} hold NaN or infinity")
    return chosen


def with_masks(model: Module, masks: Mapping[str, Mask]) -> Module:
    """Return a copy of ``model`` in which the weights of the named layers are zero where the mask is true.

    What was held at zero before stays so.

    Args:
        model: any module tree; it stays as it was.
        masks: by name of the layer, of the shape of its weight.
    """
    layers = prunable(model)
    made: dict[int, Any] = {}
    for name, mask in masks.items():
        weight = layers[name].weight
        held = mask | weight.pruned if isinstance(weight, MaskedParameter) else mask
        made[id(weight)] = MaskedParameter(weight.data, held)
    # What deepcopy finds in its memo it takes for copied already: shared weights stay shared.
    return copy.deepcopy(model, made)


def hold_zeros(model: Module) -> Module:
    """Return a copy of ``model`` whose weights that are zero now will stay zero in training.

    For a pruned model that was read from a file, which holds values and no masks.

    Raises:
        ValueError: as `chosen_layers` does.
    """
    return with_masks(model, {name: layer.weight.data == 0 for name, layer in chosen_layers(model).items()})


def remade(parameter: Parameter, change: Callable[[Array], Array]) -> Parameter:
    """Return a new parameter of ``change`` of the values, with its mask changed alike if it has one."""
    if isinstance(parameter, MaskedParameter):
        return MaskedParameter(change(parameter.data), change(parameter.pruned))
    return Parameter(change(parameter.data))
