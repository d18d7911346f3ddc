"""The ops of fusion: a linear layer with the activation or the residual sum that follows it, as one primitive."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Backward, Call, Gradients, Op, Saved, Shape, Spec, Work
from tinytorch.perf.acceleration.panels import unpacked

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
        raise ValueError(f"linear needs an input that ends in {features[0]} features, not one of shape {x.shape}")
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
    return _counted(call, call.inputs[1].shape[0])


def _counted(call: Call, inner: int) -> Work:
    macs, size = call.output.size * inner, call.output.size
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


def activation_operations(activation: str) -> int:
    """Return what an activation counts for one element of a forward."""
    if activation == "none":
        return 0
    op = _ACTIVATIONS[activation]
    one = Spec((1,), np.dtype(np.float32))
    assert op.work is not None
    return op.work(Call(op, op.reference, "forward", "", (one,), one, {}, (), 0, 0)).elementwise


def _packed_forward(
    keep: bool,
    x: Array,
    panels: Array,
    bias: Array | None,
    residual: Array | None,
    *,
    features: tuple[int, int],
    layout: tuple[int, int],
    activation: Activation,
) -> tuple[Array, Saved]:
    """Do what `fused_linear` does with a weight (``features``) that lies in panels of ``layout``; see `panels`."""
    del keep  # nothing is kept for the backward that there is none of
    weight = unpacked(panels, features, layout)
    output, _ = _forward(False, x, weight, bias, residual, activation=activation)
    return output, ()


def no_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Raise RuntimeError: a frozen layer keeps nothing for a backward."""
    del gradient, saved, needs, owned
    raise RuntimeError("a frozen model is for inference: train fuse(model), and freeze it again afterwards")


def rows_of(x: Array) -> Array:
    """Return (rows, features) of (..., features), also where there are no elements."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


#: ``(x, weight, bias or None, residual or None; activation)``: a linear layer and what follows it.
fused_linear = Op("fused_linear", _forward, backward_through(ops.linear.reference.backward), _work)
#: The same with a weight in panels, for inference; ``traffic`` counts the panels, with their filling.
packed_linear = Op(
    "packed_linear", _packed_forward, no_backward, lambda call: _counted(call, call.params["features"][0])
)
