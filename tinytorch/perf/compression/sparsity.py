"""Sparsity: zeros counted layer by layer, and a linear layer that stores only what is not zero (CSR)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Parameter, check_module
from tinytorch.core.op import Array, whole_numbers
from tinytorch.core.tensor import Tensor
from tinytorch.perf.ops.sparse import matrix_of, sparse_linear
from tinytorch.perf.quantization.convert import replaced
from tinytorch.perf.quantization.storage import QuantizedModule

#: Up to so many inputs an index takes two bytes, beyond it four.
_SHORT = 1 << 16


def index_dtype(in_features: int) -> np.dtype[Any]:
    """Return the dtype of the indices of a layer: uint16 where it is wide enough, else int32."""
    return np.dtype(np.uint16 if in_features <= _SHORT else np.int32)


@whole_numbers
def csr_nbytes(in_features: int, out_features: int, count: int) -> int:
    """Return the bytes of ``count`` weights in compressed sparse rows: 6 or 8 for each, and 4 for each output.

    Examples:
        >>> from tinytorch.perf.compression import csr_nbytes
        >>> csr_nbytes(256, 128, count=1000)  # four bytes a weight, two its column, and where each row begins
        6516
    """
    return count * (4 + index_dtype(in_features).itemsize) + 4 * (out_features + 1)


class SparseLinear(Module):
    """x W + b with W in compressed sparse rows: for each output, the weights that are not zero and their inputs.

    ``values`` is float32 (count,), trained; ``indices`` uint16 or int32 (count,), the input of each value; ``starts``
    int32 (out_features + 1,), where each output's values begin and end; ``bias`` a copy of the layer's. A state fits
    layers with as many weights. The FLOPs are those of the weights that are left.

    Raises:
        ValueError: if the layer's weight is not finite.

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.compression import SparseLinear, magnitude_prune
        >>> pruned = magnitude_prune(Sequential(Linear(64, 64)), 0.9)
        >>> layer = SparseLinear(next(layer for _, layer in pruned.named_children()))
        >>> layer.weight_nbytes  # six bytes for each weight that is left, four for each row
        2720
    """

    def __init__(self, linear: Linear) -> None:
        weight = linear.weight.data
        if not np.isfinite(weight).all():
            raise ValueError("linear must have finite weights, but they hold NaN or infinity")
        self.in_features, self.out_features = linear.in_features, linear.out_features
        by_output = np.ascontiguousarray(weight.T)
        outputs, inputs = np.nonzero(by_output)
        self.values = Parameter(by_output[outputs, inputs].astype(np.float32), linear.weight.requires_grad)
        self.indices = Tensor(inputs.astype(index_dtype(linear.in_features)))
        self.starts = Tensor(np.searchsorted(outputs, np.arange(linear.out_features + 1)).astype(np.int32))
        self.bias = None if linear.bias is None else Parameter(linear.bias)

    @property
    def weight_nbytes(self) -> int:
        """Bytes of the stored weight."""
        return self.values.nbytes + self.indices.nbytes + self.starts.nbytes

    @property
    def sparsity(self) -> float:
        """Share of the weight that is not stored, 0 to 1."""
        return 1 - self.values.size / (self.in_features * self.out_features)

    def dense(self) -> Array:
        """Return the weight as a new float32 matrix (in_features, out_features)."""
        stored = (self.values.data, self.indices.data, self.starts.data)
        return np.ascontiguousarray(matrix_of(*stored, self.in_features).toarray().T)

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., out_features) of (..., in_features)."""
        bias = () if self.bias is None else (self.bias,)
        operands = (self.values, self.indices.data, self.starts.data, *bias)
        return apply(sparse_linear, x, *operands, in_features=self.in_features)

    def _described(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self.values.size} weights"


def sparse_model(model: Module, least_sparsity: float | None = None) -> Module:
    """Return a copy of ``model`` in which sparse linear layers are stored as `SparseLinear`.

    Layers that share a weight also share the new weight.

    Args:
        model: any module tree.
        least_sparsity: share of zeros from which a layer is replaced; by default where it then takes fewer bytes.

    Raises:
        ValueError: if ``least_sparsity`` is not between 0 and 1, or no layer is sparse enough.

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.compression import magnitude_prune, sparse_model
        >>> model = sparse_model(magnitude_prune(Sequential(Linear(64, 64)), 0.9))
        >>> [type(layer).__name__ for _, layer in model.named_children()]
        ['SparseLinear']
    """
    check_module(model)
    if least_sparsity is not None and not 0 <= least_sparsity <= 1:
        raise ValueError(f"least_sparsity must be a share from 0 to 1, not {least_sparsity!r}")
    made: dict[int, Module] = {}
    shared: dict[int, SparseLinear] = {}
    for _, layer in model.named_modules():
        if type(layer) is Linear and _is_sparse_enough(layer, least_sparsity):
            twin = SparseLinear(layer)
            first = shared.setdefault(id(layer.weight), twin)
            twin.values, twin.indices, twin.starts = first.values, first.indices, first.starts
            twin.training = layer.training
            made[id(layer)] = twin
    if not made:
        raise ValueError("model must hold a linear layer that is sparse enough, but holds none: prune it first")
    return replaced(model, made)


def _is_sparse_enough(layer: Linear, least_sparsity: float | None) -> bool:
    weight = layer.weight.data
    count = int(np.count_nonzero(weight))
    if least_sparsity is None:
        return csr_nbytes(layer.in_features, layer.out_features, count) < weight.nbytes
    return 1 - count / weight.size >= least_sparsity


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
    """Return the sparsity of each weight array with two or more axes, in the order of the model; a shared array once.

    Weights are parameters of at least two axes (no biases, no norms), the matrices that `SparseLinear` stands for, and
    codes that stand for zero or not.

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.compression import layer_sparsity, magnitude_prune
        >>> model = magnitude_prune(Sequential(Linear(10, 10), Linear(10, 4)), 0.5, scope="layer")
        >>> [(row.name, row.weights, row.zeros) for row in layer_sparsity(model)]
        [('0.weight', 100, 50), ('1.weight', 40, 20)]
    """
    check_module(model)
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
    """Return the percentage of weights that are zero; `layer_sparsity` says which weights count.

    Raises:
        ValueError: if the model has no weights.

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.compression import magnitude_prune, measure_sparsity
        >>> measure_sparsity(magnitude_prune(Sequential(Linear(10, 10)), 0.75))  # per cent
        75.0
    """
    rows = layer_sparsity(model)
    if not rows:
        raise ValueError("model must have weights of two or more axes, but has none")
    return 100 * sum(row.zeros for row in rows) / sum(row.weights for row in rows)
