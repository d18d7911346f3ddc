"""Transposed convolution: the adjoint of a convolution as an op of its own, which makes images larger."""

from __future__ import annotations

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work
from tinytorch.core.ops.spatial import Pair


def _forward(
    keep: bool,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    lengths: Pair,
) -> tuple[Array, Saved]:
    """Return what backward of a convolution with this weight hands to an input of ``lengths`` for a gradient ``x``."""
    if x.ndim != 4 or x.shape[1] != weight.shape[0]:
        raise ValueError(f"conv2d_transposed needs an input of shape (N, {weight.shape[0]}, H, W), not {x.shape}")
    # Only the shape of what went into that convolution is looked at.
    maps = np.broadcast_to(np.zeros((), x.dtype), (len(x), *lengths, weight.shape[1] * groups))
    (output, _) = ops.conv2d.reference.backward(
        x, (maps, weight, stride, padding, dilation, groups), (True, False), False
    )
    assert output is not None
    if bias is not None:
        output += bias[:, None, None]
    return output, (x, weight, stride, padding, dilation, groups) if keep else ()


def _backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    x, weight, stride, padding, dilation, groups = saved
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    down, kept = ops.conv2d.reference.forward(True, gradient, weight, **how)
    down_weight = ops.conv2d.reference.backward(x, kept, (False, True), False)[1] if needs[1] else None
    down_bias = gradient.sum(axis=(0, 2, 3)) if len(needs) == 3 and needs[2] else None
    return (down if needs[0] else None, down_weight, down_bias)[: len(needs)]


def _work(call: Call) -> Work:
    """Each element of the input times its window for all channels of its group; a bias is one addition an output."""
    _, each, high, wide = call.inputs[1].shape
    macs = call.inputs[0].size * each * high * wide
    has_bias = len(call.inputs) == 3
    if call.phase == "forward":
        return Work(macs, call.output.size if has_bias else 0)
    return Work(macs * (1 + call.needs[1]), call.output.size if has_bias and call.needs[2] else 0)


#: (N, C, H, W) and a weight (C, O / groups, kh, kw) to (N, O, *lengths); params as of `core.ops.conv2d`.
conv2d_transposed = Op("conv2d_transposed", _forward, _backward, _work)
