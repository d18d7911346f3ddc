"""How many weights are zero, counted layer by layer on what is stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinytorch.core.module import Module
from tinytorch.perf.compression.csr import SparseLinear
from tinytorch.perf.quantization.storage import QuantizedModule


@dataclass(frozen=True, slots=True)
class LayerSparsity:
    """Weights of one parameter or layer: how many there are, how many are zero, and the bytes they take."""

    name: str
    weights: int
    zeros: int
    stored_bytes: int

    @property
    def sparsity(self) -> float:
        """Share of zeros, 0 to 1."""
        return self.zeros / self.weights


def layer_sparsity(model: Module) -> list[LayerSparsity]:
    """Return one row for each weight of two or more axes, in the order of the model; a shared one once.

    Weights are parameters of at least two axes (no biases, no norms), the matrices that `SparseLinear` stands for, and
    codes that stand for zero or not.
    """
    rows = [
        LayerSparsity(name, each.size, each.size - int(np.count_nonzero(each.data)), each.nbytes)
        for name, each in model.named_parameters()
        if each.ndim > 1
    ]
    for name, module in model.named_modules():
        if isinstance(module, SparseLinear):
            weights = module.in_features * module.out_features
            zeros = weights - int(np.count_nonzero(module.values.data))
            rows.append(LayerSparsity(name, weights, zeros, module.weight_nbytes))
        elif isinstance(module, QuantizedModule):
            values = module.dequantized().data
            stored = int(module.memory_usage()["quantized_bytes"]) - (0 if module.bias is None else module.bias.nbytes)
            rows.append(LayerSparsity(name, values.size, values.size - int(np.count_nonzero(values)), stored))
    return rows


def measure_sparsity(model: Module) -> float:
    """Return how many of all weights (see `layer_sparsity`) are zero, in per cent.

    Raises:
        ValueError: if the model has no weights.
    """
    rows = layer_sparsity(model)
    if not rows:
        raise ValueError("model must have weights of two or more axes, but has none")
    return 100 * sum(row.zeros for row in rows) / sum(row.weights for row in rows)
