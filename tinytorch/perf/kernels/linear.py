"""Linear layers on our own matrix product, or BLAS: bias, activation and residual in the same pass, or in one behind.

Our product was the quicker one on vectors of 512 bits. On AVX2 BLAS is as quick or quicker (`benchmarks.beside_numpy`),
and what follows it takes one pass over its rows; other narrow vectors are treated alike, unraced.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Saved
from tinytorch.perf.kernels.gemm.packed_matmul import (
    ACTIVATIONS,
    NO_BIAS,
    NOTHING,
    finish,
    product,
    relu_line,
    writable,
)
from tinytorch.perf.kernels.gemm.product_tiles import LANES
from tinytorch.perf.kernels.gemm.row_products import affine_row, long_dot
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import FLOAT32, line
from tinytorch.perf.ops.fused import Activation, backward_through, checked, fused_linear, rows_of

#: Multiply-accumulates below which BLAS, whose call is shorter, is done first; rows, as it reads a weight in place;
#: terms of a sum, below which what is done once a tile takes longer than BLAS does it; and columns.
_LEAST_MACS, _LEAST_ROWS, _LEAST_DEPTH, _LEAST_COLUMNS = 2_500_000, 2, 192, 32
#: Weights up to which one row is one short call.
_MOST_OF_ONE_ROW = 500_000
#: Whether vectors are so wide that our product is quicker than BLAS.
_IS_WIDE = LANES == 16
#: Elements of the output from which on one pass behind BLAS is quicker than NumPy's few.
_LEAST_OUTPUTS = 4_096
#: About how long an element of the pass behind BLAS takes, in nanoseconds.
_FINISH_NS = 0.3


@kernel
def finish_rows(start: Any, stop: Any, out: Any, slope: Any, bias: Any, residual: Any, activation: Any) -> None:
    """Apply bias, activation and residual to rows ``start`` to ``stop`` of ``out``; see `packed_matmul.finish`."""
    finish(out, slope, bias, residual, start, stop, 0, out.shape[1], activation)


@kernel
def one_row(x: Any, weight: Any, bias: Any, out: Any) -> None:
    """Fill ``out`` (1, n) with the ReLU of the product of ``x`` (1, m) with ``weight`` plus ``bias``."""
    affine_row(x, weight, bias, out)
    relu_line(out[0])


@kernel
def one_row_backward(gradient: Any, x: Any, weight: Any, down_x: Any, down_weight: Any) -> None:
    """Fill ``down_x`` (1, m), unless it is empty, and ``down_weight`` (m, n) given one row's gradient (1, n).

    Each row of weights is read as its gradient is written.
    """
    columns = weight.shape[1]
    slope = gradient[0]
    for k in range(weight.shape[0]):
        if down_x.size > 0:
            down_x[0, k] = long_dot(gradient, 0, weight, k * columns, columns)
        made, factor = line(down_weight, k), x[0, k]
        for j in range(columns):
            made[j] = factor * slope[j]


def _is_ours(trains: bool, rows: int, weight: Array, *arrays: Array | None) -> bool:
    """Return whether our product takes these operands, and pays.

    Beside BLAS on several threads it does not pay in a training step, which needs BLAS for the weight's gradient: after
    each product BLAS's threads look for work for a tenth of a second, and take the cores of ours.
    """
    depth, columns = weight.shape
    worth = rows >= _LEAST_ROWS and rows * weight.size >= _LEAST_MACS and depth >= _LEAST_DEPTH
    pays = _IS_WIDE and worth and columns >= _LEAST_COLUMNS and not (trains and threads.limit() > 1)
    return pays and _are_floats(weight, *arrays)


def _is_one_row(first: Array, second: Array, weight: Array) -> bool:
    """Return whether these are one row, another one or a bias, and a weight that one short call is done with."""
    fits = len(first) == 1 and 0 < weight.size < _MOST_OF_ONE_ROW
    return fits and False not in [each.dtype == np.float32 and each.flags.carray for each in (first, second, weight)]


def _are_floats(*arrays: Array | None) -> bool:
    for array in arrays:  # noqa: SIM110 - each step of a generator is a frame of Python
        if array is not None and array.dtype != FLOAT32:
            return False
    return True


def _linear_forward(keep: bool, x: Array, weight: Array, bias: Array | None = None) -> tuple[Array, Saved]:
    """Product and bias of float32; other dtypes, one row and little work go to the op's reference."""
    depth, columns = weight.shape
    if depth < _LEAST_DEPTH or x.size * columns < _LEAST_MACS or x.ndim == 0 or x.shape[-1] != depth:
        return ops.linear.reference.forward(keep, x, weight, bias)
    if not _is_ours(keep, x.size // depth, weight, x, bias):
        return ops.linear.reference.forward(keep, x, weight, bias)
    rows = rows_of(x)
    output = product(rows, weight, bias)
    return output.reshape(*x.shape[:-1], weight.shape[1]), (rows, weight, x.shape) if keep else ()


def _linear_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """The input's gradient by our product, which packs a transpose as fast; the weight's by BLAS, which is faster."""
    rows, weight, shape = saved
    flat = gradient.reshape(-1, gradient.shape[-1])
    if needs[1] and weight.shape[1] >= LANES and _is_one_row(flat, rows, weight):
        down_x, down_weight = np.empty((int(needs[0]), len(weight)), np.float32), np.empty(weight.shape, np.float32)
        one_row_backward(flat, rows, weight, down_x, down_weight)
        down_bias = (np.array(flat[0]) if needs[2] else None,) if len(needs) > 2 else ()
        return down_x.reshape(shape) if needs[0] else None, down_weight, *down_bias
    if not needs[0] or not _is_ours(True, len(rows), weight.T, flat):
        return ops.linear.reference.backward(gradient, saved, needs, owned)
    down_x = product(flat, weight.T).reshape(shape)
    _, *others = ops.linear.reference.backward(gradient, saved, (False, *needs[1:]), owned)
    return down_x, *others


def _fused_forward(
    keep: bool, x: Array, weight: Array, bias: Array | None, residual: Array | None, *, activation: Activation
) -> tuple[Array, Saved]:
    """As `_linear_forward`, and activation or residual in the same pass, or behind BLAS."""
    if bias is not None and residual is None and activation == "relu" and x.ndim == 2 and _is_one_row(x, bias, weight):
        checked(x, (weight.shape[0], weight.shape[1]), residual, activation)
        output = np.empty((1, weight.shape[1]), np.float32)
        one_row(x, weight, bias, output)
        return output, ((x, weight, x.shape), activation, (output,)) if keep else ()
    outputs = x.size // max(weight.shape[0], 1) * weight.shape[1]
    is_short = outputs < _LEAST_OUTPUTS and activation != "gelu"
    if is_short or not x.size or not weight.size or not _are_floats(x, weight, bias, residual):
        return fused_linear.reference.forward(keep, x, weight, bias, residual, activation=activation)
    shape = checked(x, (weight.shape[0], weight.shape[1]), residual, activation)
    rows = rows_of(x)
    flat = None if residual is None else rows_of(residual)
    slope = np.empty((len(rows), weight.shape[1]), np.float32) if keep and activation == "gelu" else None
    if len(rows) * weight.size >= _LEAST_MACS and _is_ours(keep, len(rows), weight):
        output = product(rows, weight, bias, flat, activation, slope)
    else:
        output = rows.dot(weight)
        _finish(output, bias, flat, activation, slope)
    output = output.reshape(shape)
    if not keep:
        return output, ()
    of_activation = () if activation == "none" else (output if slope is None else slope.reshape(shape),)
    return output, ((rows, weight, x.shape), activation, of_activation)


def _finish(output: Array, bias: Array | None, residual: Array | None, activation: Activation, slope: Any) -> None:
    added = NO_BIAS if bias is None else writable(bias), NOTHING if residual is None else writable(residual)
    made = output, NOTHING if slope is None else slope
    threads.split(finish_rows, len(output), output.shape[1] * _FINISH_NS, *made, *added, ACTIVATIONS[activation])


IMPLEMENTATIONS = {
    ops.linear: Implementation("numba", _linear_forward, _linear_backward),
    fused_linear: Implementation("numba", _fused_forward, backward_through(_linear_backward)),
}
