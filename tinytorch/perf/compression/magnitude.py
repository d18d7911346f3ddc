"""Magnitude pruning: the smallest weights become zero, exactly as many as asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.perf.compression.masks import Mask, chosen_layers, with_masks

Scope = Literal["global", "layer"]


def checked_sparsity(sparsity: float) -> float:
    """Return ``sparsity`` as a float.

    Raises:
        ValueError: if it is not a number from 0 to 1.
    """
    if isinstance(sparsity, bool) or not isinstance(sparsity, (int, float, np.number)) or not 0 <= sparsity <= 1:
        raise ValueError(f"sparsity must be a share from 0 to 1, not {sparsity!r}")
    return float(sparsity)


def magnitude_prune(model: Module, sparsity: float = 0.9, scope: Scope = "global", keep: Sequence[str] = ()) -> Module:
    """Return a copy of ``model`` whose smallest weights, by absolute value, are zero and stay zero in training.

    Of N weights, ``round(sparsity * N)`` become zero, exactly: none for 0, all for 1. Of equal weights the earlier ones
    go first, in the order of the model's layers and of the rows of a weight. Weights that were pruned before count
    among them and stay zero. Biases are left alone. The model is as large and as fast as before.

    Args:
        model: any module tree; it stays as it was.
        sparsity: share of the weights of its linear and convolution layers.
        scope: ``global`` ranks the weights of all layers together; ``layer`` takes the same share of each layer.
        keep: names of layers that are not pruned.

    Raises:
        ValueError: if an argument is out of its range, there is nothing to prune, or weights are not finite.

    Source: S. Han et al., Learning both Weights and Connections for Efficient Neural Networks, 2015, arXiv:1506.02626
    (layer by layer, with a threshold).
    """
    share = checked_sparsity(sparsity)
    if scope not in ("global", "layer"):
        raise ValueError(f"scope must be 'global' or 'layer', not {scope!r}")
    weights = {name: layer.weight.data for name, layer in chosen_layers(model, keep).items()}
    if scope == "layer":
        return with_masks(model, {name: smallest([weight], share)[0] for name, weight in weights.items()})
    return with_masks(model, dict(zip(weights, smallest([*weights.values()], share), strict=True)))


def smallest(weights: Sequence[Array], share: float) -> list[Mask]:
    """Return masks, of the shapes of ``weights``, of the ``round(share * all)`` smallest absolute values of all."""
    magnitudes: npt.NDArray[np.floating] = np.concatenate([np.abs(weight).reshape(-1) for weight in weights])
    mask = np.zeros(len(magnitudes), np.bool_)
    mask[np.argsort(magnitudes, kind="stable")[: round(share * len(magnitudes))]] = True
    ends = np.cumsum([weight.size for weight in weights])[:-1]
    return [part.reshape(weight.shape) for part, weight in zip(np.split(mask, ends), weights, strict=True)]
