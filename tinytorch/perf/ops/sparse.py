"""The product of rows with a weight in compressed sparse rows, as an op."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import Array, Call, Gradients, Op, Saved, contraction
from tinytorch.core.ops.elementwise import column_sums

#: Products of gradients and inputs that are held at a time for the gradients of values.
_AT_A_TIME = 1 << 20


def matrix_of(values: Array, indices: Array, starts: Array, in_features: int) -> Any:
    """Return SciPy's CSR matrix (out_features, in_features), whose indices are int32."""
    from scipy.sparse import csr_array  # takes longer to import than all else here

    return csr_array((values, indices.astype(np.int32), starts), shape=(len(starts) - 1, in_features))


def check_operands(x: Array, values: Array, indices: Array, in_features: int) -> None:
    """Raise ValueError unless x ends in ``in_features`` and there is an index for each value."""
    if x.ndim == 0 or x.shape[-1] != in_features:
        raise ValueError(
            f"the last axis of sparse_linear's input must have length {in_features}, but its shape is {x.shape}"
        )
    if values.shape != indices.shape:
        raise ValueError(f"values and indices must have the same length, not {values.size} and {indices.size}")


def _forward(
    keep: bool, x: Array, values: Array, indices: Array, starts: Array, bias: Array | None = None, *, in_features: int
) -> tuple[Array, Saved]:
    check_operands(x, values, indices, in_features)
    rows = x.reshape(-1, in_features)
    output = np.ascontiguousarray((matrix_of(values, indices, starts, in_features) @ rows.T).T)
    if bias is not None:
        output += bias
    saved = (rows, values, indices, starts, x.shape) if keep else ()
    return output.reshape(*x.shape[:-1], len(starts) - 1), saved


def _backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Give x, values and bias their gradients; where weights are missing there is none to give."""
    rows, values, indices, starts, shape = saved
    down = gradient.reshape(-1, gradient.shape[-1])
    down_x = down_values = down_bias = None
    if needs[0]:
        transposed = matrix_of(values, indices, starts, rows.shape[1]).T
        down_x = np.ascontiguousarray((transposed @ down.T).T).reshape(shape)
    if needs[1]:
        down_values = _values_gradient(down, rows, indices, starts, values.dtype)
    if len(needs) == 5 and needs[4]:
        down_bias = column_sums(down)
    return (down_x, down_values, None, None, down_bias)[: len(needs)]


def _values_gradient(down: Array, rows: Array, indices: Array, starts: Array, dtype: np.dtype[Any]) -> Array:
    """Return, for each value, the sum over rows of its output's gradient times its input."""
    outputs = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    found = np.empty(len(indices), dtype)
    step = max(1, _AT_A_TIME // max(len(rows), 1))
    for first in range(0, len(indices), step):
        some = slice(first, first + step)
        found[some] = np.einsum("rk,rk->k", down[:, outputs[some]], rows[:, indices[some]])
    return found


def _macs(call: Call) -> int:
    """Return a multiply-accumulate for each stored weight and row."""
    return call.inputs[1].size * (call.inputs[0].size // max(call.params["in_features"], 1))


#: x W + b: operands x (..., in_features), values, indices and starts as `csr.SparseLinear` holds them, bias if there is
#: one; param in_features.
sparse_linear = Op("sparse_linear", _forward, _backward, contraction(_macs, bias=4))
