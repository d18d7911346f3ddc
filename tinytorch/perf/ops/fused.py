"""Fused ops, each one primitive in place of two: linear layer and what follows it, bias and GELU, mask and softmax."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Backward, Call, Gradients, Op, Saved, Shape, Work
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


Activation = Literal["none", "relu", "gelu"]
#: The op of each activation, and what it counts for an element: forward, backward.
_ACTIVATIONS: dict[str, Op] = {"relu": ops.relu, "gelu": ops.gelu}


def checked(x: Array, features: tuple[int, int], residual: Array | None, activation: str) -> Shape:
    """Return the output's shape.

    Raises:
        ValueError: if the input does not end in ``features[0]``, the residual has not the output's shape, the
            activation is unknown, or both are asked for.
    """
    if x.ndim == 0 or x.shape[-1] != features[0]:
        raise ValueError(f"the last axis of linear's input must have length {features[0]}, but its shape is {x.shape}")
    shape = (*x.shape[:-1], features[1])
    if residual is not None and residual.shape != shape:
        raise ValueError(f"residual must have the output's shape {shape}, not {residual.shape}")
    if activation != "none" and activation not in _ACTIVATIONS:
        raise ValueError(f"activation must be 'none' or one of {', '.join(_ACTIVATIONS)}, not {activation!r}")
    if activation != "none" and residual is not None:
        raise ValueError(f"residual and activation {activation!r} cannot both follow one product: fuse one of them")
    return shape


def _forward(
    keep: bool, x: Array, weight: Array, bias: Array | None, residual: Array | None, *, activation: Activation
) -> tuple[Array, Saved]:
    """activation(x W + b), or x W + b + residual."""
    checked(x, weight.shape, residual, activation)
    output, of_product = ops.linear.reference.forward(keep, x, weight, bias)
    of_activation: Saved = ()
    if activation != "none":
        output, of_activation = _ACTIVATIONS[activation].reference.forward(keep, output)
    if residual is not None:
        output += residual
    return output, (of_product, activation, of_activation) if keep else ()


def backward_through(linear_backward: Backward) -> Backward:
    """Return the backward of `fused_linear` whose products are those of ``linear_backward``."""

    def backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
        of_product, activation, of_activation = saved
        to_residual = gradient if needs[3] else None
        if activation != "none":
            (down,) = _ACTIVATIONS[activation].reference.backward(gradient, of_activation, (True,), owned)
            assert down is not None
            gradient, owned = down, True
        down_x, down_weight, down_bias = linear_backward(gradient, of_product, needs[:3], owned and not needs[3])
        return down_x, down_weight, down_bias, to_residual

    return backward


def _work(call: Call) -> Work:
    """What the separate ops count together: the products, the bias, the activation, the sum with the residual."""
    macs, size = call.output.size * call.inputs[1].shape[0], call.output.size
    _, _, bias, residual = call.inputs
    activation = call.params["activation"]
    alone = Work() if activation == "none" else _activation_work(call, _ACTIVATIONS[activation])
    if call.phase == "forward":
        return Work(macs, size * (bias.dtype is not None) + size * (residual.dtype is not None) + alone.elementwise)
    return Work(macs * sum(call.needs[:2]), size * call.needs[2] + alone.elementwise)


def _activation_work(call: Call, op: Op) -> Work:
    """Return what the activation would count if it ran by itself."""
    assert op.work is not None
    return op.work(
        Call(op, op.reference, call.phase, call.path, (call.output,), call.output, {}, (True,), call.start, call.end)
    )


def rows_of(x: Array) -> Array:
    """Return (rows, features) of (..., features), also where there are no elements."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


#: ``(x, weight, bias or None, residual or None; activation)``: a linear layer and what follows it.
fused_linear = Op("fused_linear", _forward, backward_through(ops.linear.reference.backward), _work)
