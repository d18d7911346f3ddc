"""Ops that join what a model writes as two: bias and GELU, mask and softmax. In NumPy here, compiled in kernels."""

from __future__ import annotations

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work
from tinytorch.core.ops.elementwise import unbroadcast


def _checked_bias(x: Array, bias: Array) -> None:
    if not x.ndim or bias.shape != (x.shape[-1],):
        raise ValueError(f"bias must have shape ({x.shape[-1] if x.ndim else 'features'},), not {bias.shape}")


def _bias_gelu_forward(keep: bool, x: Array, bias: Array) -> tuple[Array, Saved]:
    _checked_bias(x, bias)
    output, saved = ops.gelu.reference.forward(keep, x + bias)
    return output, (saved, bias.shape) if keep else ()


def _bias_gelu_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    (down,) = ops.gelu.reference.backward(gradient, saved[0], needs, owned)
    assert down is not None
    return (down if needs[0] else None, unbroadcast(down, saved[1]) if needs[1] else None)


def _causal_softmax_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    if x.ndim < 2 or x.shape[-2] > x.shape[-1]:
        raise ValueError(f"x must have shape (..., T, S) with at most as many queries T as keys S, not {x.shape}")
    queries, keys = x.shape[-2:]
    late = np.arange(keys) > np.arange(queries)[:, None] + (keys - queries)
    masked = np.where(late, x.dtype.type(-np.inf), x)
    return ops.softmax.reference.forward(keep, masked, axis=-1)


def _bias_gelu_work(call: Call) -> Work:
    """Addition and eight operations of GELU an element; backward the product with the slope, and the bias's sum."""
    size = call.output.size
    return Work(elementwise=9 * size if call.phase == "forward" else size * (1 + call.needs[1]))


def _causal_softmax_work(call: Call) -> Work:
    """As softmax, over the whole matrix: what the mask hides is computed too."""
    return Work(elementwise=(5 if call.phase == "forward" else 4) * call.output.size)


#: gelu(x + bias) for x (..., features) and bias (features,).
bias_gelu = Op("bias_gelu", _bias_gelu_forward, _bias_gelu_backward, _bias_gelu_work)
#: Softmax over the last axis of (..., T, S) in which query t sees keys up to S - T + t, as in `ops.attention`.
causal_softmax = Op("causal_softmax", _causal_softmax_forward, ops.softmax.reference.backward, _causal_softmax_work)
