"""Linear layers on our own matrix product: with bias, activation or residual in the same pass."""

from __future__ import annotations

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Saved
from tinytorch.perf.kernels.gemm.packed_matmul import product
from tinytorch.perf.ops.fused import Activation, backward_through, checked, fused_linear, rows_of

#: Multiply-accumulates below which BLAS, whose call is shorter, is done first; and rows, as it reads a weight in place.
_LEAST_MACS = 500_000
_LEAST_ROWS = 2


def _is_ours(rows: int, weight: Array, *arrays: Array | None) -> bool:
    """Return whether our product takes these operands, and pays."""
    if rows < _LEAST_ROWS or rows * weight.size < _LEAST_MACS:
        return False
    return all(array is None or array.dtype == np.float32 for array in (weight, *arrays))


def _linear_forward(keep: bool, x: Array, weight: Array, bias: Array | None = None) -> tuple[Array, Saved]:
    """Product and bias of float32; other dtypes, one row and little work go to the op's reference."""
    if x.ndim == 0 or x.shape[-1] != weight.shape[0] or not _is_ours(x.size // x.shape[-1], weight, x, bias):
        return ops.linear.reference.forward(keep, x, weight, bias)
    rows = rows_of(x)
    output = product(rows, weight, bias)
    return output.reshape(*x.shape[:-1], weight.shape[1]), (rows, weight, x.shape) if keep else ()


def _linear_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """The input's gradient by our product, which packs a transpose as fast; the weight's by BLAS, which is faster."""
    rows, weight, shape = saved
    flat = gradient.reshape(-1, gradient.shape[-1])
    if not needs[0] or not _is_ours(len(rows), weight, flat):
        return ops.linear.reference.backward(gradient, saved, needs, owned)
    down_x = product(flat, weight.T).reshape(shape)
    _, *others = ops.linear.reference.backward(gradient, saved, (False, *needs[1:]), owned)
    return down_x, *others


def _fused_forward(
    keep: bool, x: Array, weight: Array, bias: Array | None, residual: Array | None, *, activation: Activation
) -> tuple[Array, Saved]:
    """As `_linear_forward`, and activation or residual in the same pass."""
    shape = checked(x, (weight.shape[0], weight.shape[1]), residual, activation)
    if not _is_ours(x.size // max(weight.shape[0], 1), weight, x, bias, residual):
        return fused_linear.reference.forward(keep, x, weight, bias, residual, activation=activation)
    rows = rows_of(x)
    flat = None if residual is None else rows_of(residual)
    slope = np.empty((len(rows), weight.shape[1]), np.float32) if keep and activation == "gelu" else None
    output = product(rows, weight, bias, flat, activation, slope).reshape(shape)
    if not keep:
        return output, ()
    of_activation = () if activation == "none" else (output if slope is None else slope.reshape(shape),)
    return output, ((rows, weight, x.shape), activation, of_activation)


IMPLEMENTATIONS = {
    ops.linear: Implementation("numba", _linear_forward, _linear_backward),
    fused_linear: Implementation("numba", _fused_forward, backward_through(_linear_backward)),
}
