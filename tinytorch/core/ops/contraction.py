"""Matrix products: the general one, and the affine map of a linear layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import Array, Gradients, Op, Saved, Shape, as_floating, contraction
from tinytorch.core.ops.elementwise import column_sums, outer_sum, unbroadcast


def _checked_shapes(a: Shape, b: Shape) -> None:
    if not a or not b:
        raise ValueError(f"matmul needs operands of at least one axis, but their shapes are {a} and {b}")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ValueError(f"matmul has a shape mismatch: {a} ends in {a[-1]}, but {b} needs {inner} there")


def _matmul_forward(keep: bool, a: Any, b: Any) -> tuple[Array, Saved]:
    a, b = np.asarray(a), np.asarray(b)
    _checked_shapes(a.shape, b.shape)
    return np.matmul(a, b), (a, b) if keep else ()


def _matmul_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    a, b = saved
    # Vectors become matrices with one row or column, as they did in the product.
    wide_a = a[None, :] if a.ndim == 1 else a
    wide_b = b[:, None] if b.ndim == 1 else b
    if b.ndim == 1:
        gradient = gradient[..., None]
    if a.ndim == 1:
        gradient = gradient[..., None, :]
    down_a = down_b = None
    if needs[0]:
        down_a = unbroadcast(np.matmul(gradient, wide_b.swapaxes(-1, -2)), wide_a.shape).reshape(a.shape)
    if needs[1]:
        if wide_b.ndim == 2 and wide_a.size and gradient.size:
            # One product over all rows instead of one for each matrix, summed.
            rows = wide_a.reshape(-1, wide_a.shape[-1])
            down_b = outer_sum(rows, gradient.reshape(-1, gradient.shape[-1]))
        else:
            down_b = unbroadcast(np.matmul(wide_a.swapaxes(-1, -2), gradient), wide_b.shape)
        down_b = down_b.reshape(b.shape)
    return down_a, down_b


def _linear_forward(keep: bool, x: Array, weight: Array, bias: Array | None = None) -> tuple[Array, Saved]:
    if x.ndim == 0 or x.shape[-1] != weight.shape[0]:
        raise ValueError(
            f"the last axis of linear's input must have length {weight.shape[0]}, but its shape is {x.shape}"
        )
    rows = as_floating(x, weight.dtype)
    if x.ndim != 2:
        rows = rows.reshape(-1, x.shape[-1])
    output = np.dot(rows, weight)
    if bias is not None:
        output += bias
    if x.ndim != 2:
        output = output.reshape(*x.shape[:-1], weight.shape[1])
    return output, (rows, weight, x.shape) if keep else ()


def _linear_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    rows, weight, shape = saved
    gradient = gradient.reshape(-1, gradient.shape[-1])
    down_x = np.dot(gradient, weight.T).reshape(shape) if needs[0] else None
    down_weight = outer_sum(rows, gradient) if needs[1] else None
    if len(needs) == 2:
        return down_x, down_weight
    down_bias = column_sums(gradient) if needs[2] else None
    return down_x, down_weight, down_bias


matmul = Op(
    "matmul", _matmul_forward, _matmul_backward, contraction(lambda call: call.output.size * call.inputs[0].shape[-1])
)
linear = Op(
    "linear",
    _linear_forward,
    _linear_backward,
    contraction(lambda call: call.output.size * call.inputs[1].shape[0], bias=2),
)
