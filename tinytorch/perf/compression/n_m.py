"""N:M sparsity: at most N of each M neighbouring inputs of an output have a weight, and how that is stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinytorch.core.module import Module
from tinytorch.core.op import Array, Shape
from tinytorch.perf.compression.masks import Mask, chosen_layers, with_masks


def checked_n_m(n: int, m: int) -> None:
    """Raise ValueError unless 1 <= n <= m <= 256."""
    if (
        any(isinstance(each, bool) or not isinstance(each, (int, np.integer)) for each in (n, m))
        or not 0 < n <= m <= 256
    ):
        raise ValueError(f"n and m must be whole numbers with 1 <= n <= m <= 256, not {n!r} and {m!r}")


def n_m_prune(model: Module, n: int = 2, m: int = 4, keep: Sequence[str] = ()) -> Module:
    """Return a copy of ``model`` in which each output keeps the ``n`` largest of each ``m`` weights, for good.

    The ``m`` weights are those of neighbouring inputs: rows of a linear layer's weight; input channels of a
    convolution's, at one place of the window. Of equal weights the earlier one goes first. What was pruned stays zero
    in training.

    Raises:
        ValueError: if n and m do not fit together, ``m`` does not divide the inputs of a layer that ``keep`` does not
            name, or as `magnitude_prune` does.

    Source: A. Mishra et al., Accelerating Sparse Deep Neural Networks, 2021, arXiv:2104.08378 (2:4).
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


def compact_n_m(weight: Array, n: int = 2, m: int = 4) -> CompactNM:
    """Return the weight of a linear (in, out) or convolution (out, in, kh, kw) layer in compact form.

    Raises:
        ValueError: if a group of ``m`` inputs has more than ``n`` weights that are not zero, or as `n_m_prune` does.
    """
    checked_n_m(n, m)
    if weight.ndim not in (2, 4):
        raise ValueError(f"weight must be that of a linear or convolution layer, not of shape {weight.shape}")
    inner = _inputs_last(weight)
    if inner.shape[-1] % m:
        raise ValueError(f"m must divide the inputs, but {m} does not divide {inner.shape[-1]}")
    groups = inner.reshape(-1, m)
    most = int(np.count_nonzero(groups, axis=1).max(initial=0))
    if most > n:
        raise ValueError(f"weight must have at most {n} numbers in each {m}, but has {most} in one: use n_m_prune")
    places = np.sort(np.argsort(groups == 0, axis=1, kind="stable")[:, :n], axis=1)
    bits = _place_bits(m)
    flags = (places[..., None] >> np.arange(bits)[::-1]) & 1
    values = np.take_along_axis(groups, places, axis=1).astype(np.float32)
    return CompactNM(values, np.packbits(flags.astype(np.uint8)), n, m, weight.shape)
