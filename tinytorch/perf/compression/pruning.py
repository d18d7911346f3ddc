"""Pruning of single weights, by magnitude or N of each M, and the masks that keep them zero in training."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Parameter, check_module
from tinytorch.core.op import Array, Shape, whole_numbers
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor

Mask = npt.NDArray[np.bool_]
#: A kind of module tree: copies of a model are of its own.
Model = TypeVar("Model", bound=Module)


class MaskedParameter(Parameter):
    """A parameter whose elements are zero where ``pruned`` is true, and stay so in training.

    Its gradient is zero there. With zero as value, gradient and state of the optimizer, no step of SGD, Adam or AdamW,
    with momentum and weight decay or without, moves an element; and no optimizer that was made before the parameter
    can hold it.

    Args:
        data: values; they are copied, and set to zero where pruned.
        pruned: bool, of the same shape.
        requires_grad: see `Parameter`.

    Raises:
        ValueError: if the shapes differ.
    """

    __slots__ = ("pruned",)

    def __init__(self, data: Any, pruned: Mask, requires_grad: bool | None = None) -> None:
        self.pruned: Mask = np.array(pruned, dtype=np.bool_)
        super().__init__(data, requires_grad)
        if self.pruned.shape != self.data.shape:
            raise ValueError(f"pruned must have the shape {self.data.shape} of data, not {self.pruned.shape}")
        np.copyto(self.data, 0, where=self.pruned)

    def holding(self, values: Any) -> Array:
        """Do what `Tensor.holding` does.

        Raises:
            ValueError: also if a value is not 0 where the parameter is pruned.
        """
        made = super().holding(values)
        count = np.count_nonzero(made[self.pruned])
        if count:
            raise ValueError(
                f"must be 0 where the model's weight is pruned, but {count} of {made.size} values are not: load them "
                "into the model that is not pruned yet, and prune it"
            )
        return made

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
    """Return the linear and convolution layers of ``model`` by dotted name ("" if it is one itself).

    Raises:
        TypeError: if ``model`` is not a Module.
    """
    check_module(model)
    return {name: module for name, module in model.named_modules() if isinstance(module, (Linear, Conv2d))}


def chosen_layers(model: Module, keep: Sequence[str] = ()) -> dict[str, Linear | Conv2d]:
    """Return the `prunable` layers that ``keep`` does not name; of layers that share a weight, the first.

    Raises:
        ValueError: if none is left, ``keep`` names something else or only some of the layers that share a weight, or a
            weight is not finite.
    """
    layers = prunable(model)
    if not layers:
        raise ValueError("model must hold a Linear or Conv2d layer to prune, but holds none")
    unknown = sorted(set(keep) - layers.keys())
    if unknown:
        raise ValueError(f"keep must name linear or convolution layers, but {unknown} are not in {[*layers]}")
    first: dict[int, str] = {}
    for name, layer in layers.items():
        named = first.setdefault(id(layer.weight), name)
        if (name in keep) != (named in keep):
            raise ValueError(f"keep must name both or none of {named!r} and {name!r}, which share one weight")
    chosen = {name: layers[name] for name in first.values() if name not in keep}
    if not chosen:
        raise ValueError("keep must leave at least one layer to prune, but names all of them")
    for name, layer in chosen.items():
        if not np.isfinite(layer.weight.data).all():
            raise ValueError(f"model must have finite weights, but those of {name!r} hold NaN or infinity")
    return chosen


def with_masks(model: Model, masks: Mapping[str, Mask]) -> Model:
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
        made[id(weight)] = MaskedParameter(weight, held)
    # What deepcopy finds in its memo it takes for copied already: shared weights stay shared.
    return copy.deepcopy(model, made)


def hold_zeros(model: Model) -> Model:
    """Return a copy of ``model`` in which all weights that are zero stay zero in training.

    For a pruned model that was read from a file, which holds values and no masks.

    Raises:
        ValueError: if no layer can be pruned, or a weight is not finite.

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.compression import hold_zeros
        >>> model = Sequential(Linear(10, 10))
        >>> model.parameters()[0].numpy()[:5] = 0
        >>> type(hold_zeros(model).parameters()[0]).__name__
        'MaskedParameter'
    """
    return with_masks(model, {name: layer.weight.data == 0 for name, layer in chosen_layers(model).items()})


def remade(parameter: Parameter, kept: Array, axis: int = 0) -> Parameter:
    """Return a new parameter of the values ``kept`` along an axis, frozen as it is, its mask cut alike."""
    values = np.take(parameter.data, kept, axis)
    if isinstance(parameter, MaskedParameter):
        return MaskedParameter(values, np.take(parameter.pruned, kept, axis), parameter.requires_grad)
    return Parameter(values, parameter.requires_grad)


Scope = Literal["global", "layer"]


def magnitude_prune(model: Model, sparsity: float = 0.9, scope: Scope = "global", keep: Sequence[str] = ()) -> Model:
    """Return a copy of ``model`` whose smallest weights by absolute value are zero, and stay zero in training.

    Of N weights, ``round(sparsity * N)`` become zero, exactly: none for 0, all for 1. Of equal weights the earlier ones
    go first, in the order of the model's layers and of the rows of a weight. Weights that were pruned before count
    among them and stay zero. Biases are left alone. The model is as large and as fast as before.

    Args:
        model: any module tree; it is not changed.
        sparsity: share of the weights of its linear and convolution layers.
        scope: ``global`` ranks the weights of all layers together; ``layer`` takes the same share of each layer.
        keep: names of layers that are not pruned.

    Raises:
        ValueError: if an argument is out of its range, there is nothing to prune, or weights are not finite.

    Source: S. Han et al., Learning both Weights and Connections for Efficient Neural Networks, 2015, arXiv:1506.02626
    (layer by layer, with a threshold).

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.compression import magnitude_prune
        >>> model = magnitude_prune(Sequential(Linear(10, 10)), sparsity=0.9)
        >>> int((model.parameters()[0].numpy() == 0).sum())
        90
    """
    if isinstance(sparsity, bool) or not isinstance(sparsity, (int, float, np.number)) or not 0 <= sparsity <= 1:
        raise ValueError(f"sparsity must be a share from 0 to 1, not {sparsity!r}")
    share = float(sparsity)
    if scope not in ("global", "layer"):
        raise ValueError(f"scope must be 'global' or 'layer', not {scope!r}")
    weights = {name: layer.weight.data for name, layer in chosen_layers(model, keep).items()}
    if scope == "layer":
        return with_masks(model, {name: smallest([weight], share)[0] for name, weight in weights.items()})
    return with_masks(model, dict(zip(weights, smallest([*weights.values()], share), strict=True)))


def smallest(weights: Sequence[Array], share: float) -> list[Mask]:
    """Return masks, of the shapes of ``weights``, of the ``round(share * all)`` smallest absolute values of all."""
    magnitudes: npt.NDArray[np.floating] = np.concatenate([np.abs(weight).reshape(-1) for weight in weights])
    count = round(share * len(magnitudes))
    mask = np.zeros(len(magnitudes), np.bool_)
    if count:
        largest = np.partition(magnitudes, count - 1)[count - 1]
        mask = magnitudes < largest
        mask[np.flatnonzero(magnitudes == largest)[: count - np.count_nonzero(mask)]] = True  # of equals the first
    ends = np.cumsum([weight.size for weight in weights])[:-1]
    return [part.reshape(weight.shape) for part, weight in zip(np.split(mask, ends), weights, strict=True)]


@whole_numbers
def checked_n_m(n: int, m: int) -> None:
    """Raise ValueError unless 1 <= n <= m <= 256."""
    whole = all(isinstance(each, (int, np.integer)) and not isinstance(each, bool) for each in (n, m))
    if not whole or not 0 < n <= m <= 256:
        raise ValueError(f"n and m must be whole numbers with 1 <= n <= m <= 256, not {n!r} and {m!r}")


@whole_numbers
def n_m_prune(model: Model, n: int = 2, m: int = 4, keep: Sequence[str] = ()) -> Model:
    """Return a copy of ``model`` in which each output keeps the ``n`` largest of every ``m`` weights.

    The ``m`` weights are those of neighbouring inputs: rows of a linear layer's weight; input channels of a
    convolution's, at one place of the window. Of equal weights the earlier one goes first. What was pruned stays zero
    in training.

    Raises:
        ValueError: if n and m do not fit together, ``m`` does not divide the inputs of a layer that ``keep`` does not
            name, or as `magnitude_prune` does.

    Source: A. Mishra et al., Accelerating Sparse Deep Neural Networks, 2021, arXiv:2104.08378 (2:4).

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.compression import measure_sparsity, n_m_prune
        >>> measure_sparsity(n_m_prune(Sequential(Linear(16, 8)), n=2, m=4))
        50.0
    """
    checked_n_m(n, m)
    weights = {name: _inputs_last(layer.weight.data) for name, layer in chosen_layers(model, keep).items()}
    uneven = [name for name, weight in weights.items() if weight.shape[-1] % m]
    if uneven:
        raise ValueError(
            f"m must divide the inputs of every layer, but {m} does not divide those of {uneven}: keep them"
        )
    return with_masks(model, {name: _inputs_back(_all_but_largest(weight, n, m)) for name, weight in weights.items()})


def _inputs_last(weight: Array) -> Array:
    """Return (in, out) as (out, in), and (out, in, kh, kw) as (out, kh, kw, in)."""
    return weight.T if weight.ndim == 2 else weight.transpose(0, 2, 3, 1)


def _inputs_back(weight: Array) -> Array:
    return weight.T if weight.ndim == 2 else weight.transpose(0, 3, 1, 2)


def _all_but_largest(weight: Array, n: int, m: int) -> Mask:
    """Return the mask of what goes: in each ``m`` of the last axis all but the ``n`` largest absolute values."""
    groups = np.abs(weight).reshape(-1, m)
    mask = np.zeros(groups.shape, np.bool_)
    np.put_along_axis(mask, np.argsort(groups, axis=1, kind="stable")[:, : m - n], True, axis=1)
    return mask.reshape(weight.shape)


@dataclass(frozen=True)
class CompactNM:
    """A weight with at most ``n`` numbers in each ``m``: the numbers, and where in its group each stands.

    ``values`` is (groups, n) float32. ``places`` holds a group's places in as few bits as they need, eight of these to
    a byte, as uint8.
    """

    values: npt.NDArray[np.float32]
    places: npt.NDArray[np.uint8]
    n: int
    m: int
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Bytes of numbers and places."""
        return self.values.nbytes + self.places.nbytes

    def dense(self) -> Array:
        """Return the weight as it was, in the layer's own layout."""
        bits = _place_bits(self.m)
        count = self.values.size * bits
        flags = np.unpackbits(self.places)[:count].reshape(*self.values.shape, bits)
        places = (flags * (1 << np.arange(bits))[::-1]).sum(axis=-1)
        groups = np.zeros((len(self.values), self.m), np.float32)
        np.put_along_axis(groups, places, self.values, axis=1)
        inner = self.shape[::-1] if len(self.shape) == 2 else tuple(self.shape[axis] for axis in (0, 2, 3, 1))
        return np.ascontiguousarray(_inputs_back(groups.reshape(inner)))


def _place_bits(m: int) -> int:
    return math.ceil(math.log2(m))


@whole_numbers
def compact_n_m(weight: Tensor | Array, n: int = 2, m: int = 4) -> CompactNM:
    """Return the weight of a linear (in, out) or convolution (out, in, kh, kw) layer in compact form.

    Raises:
        ValueError: if a group of ``m`` inputs has more than ``n`` weights that are not zero, or as `n_m_prune` does.

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.compression import compact_n_m, n_m_prune
        >>> weight = n_m_prune(Sequential(Linear(16, 8))).parameters()[0].numpy()
        >>> compact = compact_n_m(weight, n=2, m=4)
        >>> compact.nbytes, weight.nbytes  # half of the numbers, and two bits for the place of each
        (272, 512)
        >>> bool((compact.dense() == weight).all())
        True
    """
    checked_n_m(n, m)
    array = np.asarray(weight)
    if array.ndim not in (2, 4) or array.dtype.kind != "f":
        raise ValueError(
            f"weight must be that of a linear or convolution layer, not {array.dtype} of shape {array.shape}"
        )
    inner = _inputs_last(array)
    if inner.shape[-1] % m:
        raise ValueError(f"m must divide the inputs, but {m} does not divide {inner.shape[-1]}")
    groups = inner.reshape(-1, m)
    most = int(np.count_nonzero(groups, axis=1).max(initial=0))
    if most > n:
        raise ValueError(f"weight may have at most {n} nonzero values in each {m}, not {most}: call n_m_prune first")
    places = np.sort(np.argsort(groups == 0, axis=1, kind="stable")[:, :n], axis=1)
    bits = _place_bits(m)
    flags = (places[..., None] >> np.arange(bits)[::-1]) & 1
    values = np.take_along_axis(groups, places, axis=1).astype(np.float32)
    return CompactNM(values, np.packbits(flags.astype(np.uint8)), n, m, array.shape)
