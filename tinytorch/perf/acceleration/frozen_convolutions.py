"""Convolutions, normalization, ReLU, maxima and a linear layer that follow each other in a sequence, as one module."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinytorch.core.activations import ReLU
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Flatten, Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.spatial import BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.fused_convolution import (
    NONE,
    ONE,
    Stage,
    Stages,
    convolution_places,
    fill_stage,
    packed_convolutions,
)
from tinytorch.perf.ops.fused import Layout

#: A stage with its weight (out, channels, taps) and bias.
Weighted = tuple[Stage, Array, Array | None]


class FrozenConvolutions(Module):
    """Convolutions that follow each other, as one op: a few images go through all before the next images do.

    ``weights`` holds the panels and the bias of each, in the layout of this CPU, and nothing else does.
    """

    def __init__(self, stages: Sequence[Weighted]) -> None:
        from tinytorch.perf.kernels import window_convolution
        from tinytorch.perf.kernels.gemm.packing import aligned_empty

        packed_convolutions.selected = window_convolution.IMPLEMENTATIONS[packed_convolutions]
        self.layout: Layout = window_convolution.LAYOUT
        self.stages: Stages = tuple(tuple(stage) for stage, _, _ in stages)
        places = convolution_places(self.stages, self.layout)
        weights = aligned_empty(places[-1][2])
        for place, (_, weight, bias) in zip(places, stages, strict=True):
            fill_stage(weights, place, weight, bias, self.layout)
        self.weights = Tensor(weights)
        self.training = False

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, out, oh, ow) of (N, channels, H, W); (N, out) if the last stage is a linear layer."""
        return apply(packed_convolutions, x, self.weights, stages=self.stages, layout=self.layout)

    def _described(self) -> str:
        stages = [Stage._make(stage) for stage in self.stages]
        return f"{(stages[0].channels, *[stage.out for stage in stages])}"


def take_convolutions(layers: list[Module]) -> FrozenConvolutions | None:
    """Return what the layers at the front of ``layers`` are together, and take them out; None if there is none.

    A stage is a convolution without groups and with finite weights, and the batch normalization, ReLU and maximum
    that follow it, in this order; a linear layer after a `Flatten` is the last one, with its ReLU.
    """
    stages: list[Weighted] = []
    while layers and _is_plain(layers[0]):
        stages.append(_take_stage(layers))
    if not stages:
        return None
    if len(layers) > 1 and type(layers[0]) is Flatten and type(layers[1]) is Linear:
        last = _take_linear(layers, stages[-1][0].out)
        stages += [] if last is None else [last]
    return FrozenConvolutions(stages)


def _is_plain(layer: Module) -> bool:
    return type(layer) is Conv2d and layer.groups == 1 and bool(np.isfinite(layer.weight.data).all())


def _take_stage(layers: list[Module]) -> Weighted:
    convolution = layers.pop(0)
    assert isinstance(convolution, Conv2d)
    weight, bias = convolution.weight.data, None if convolution.bias is None else convolution.bias.data
    if layers and type(layers[0]) is BatchNorm2d:
        weight, bias = folded(convolution, layers.pop(0))
    relu = _take(layers, ReLU) is not None
    pool = _take(layers, MaxPool2d)
    windows = (NONE, ONE, NONE)
    if isinstance(pool, MaxPool2d):
        windows = pool.kernel_size, pool.stride, pool.padding
    out, channels, high, wide = weight.shape
    moves = convolution.stride, convolution.padding, convolution.dilation
    stage = Stage(channels, out, (high, wide), high * wide, *moves, relu, *windows)
    return stage, weight.reshape(out, channels, high * wide), bias


def _take_linear(layers: list[Module], channels: int) -> Weighted | None:
    """Return the linear layer after a `Flatten` as a window over the whole map; None if channels do not fit."""
    linear = layers[1]
    assert isinstance(linear, Linear)
    if linear.in_features % channels or not np.isfinite(linear.weight.data).all():
        return None
    del layers[:2]
    taps = linear.in_features // channels
    relu = _take(layers, ReLU) is not None
    weight = linear.weight.data.T.reshape(linear.out_features, channels, taps)
    return Stage(channels, linear.out_features, NONE, taps, relu=relu), weight, _data(linear.bias)


def _take(layers: list[Module], kind: type[Module]) -> Module | None:
    return layers.pop(0) if layers and type(layers[0]) is kind else None


def _data(tensor: Tensor | None) -> Array | None:
    return None if tensor is None else tensor.data


def folded(convolution: Conv2d, norm: Module) -> tuple[Array, Array]:
    """Return weight and bias of one convolution that does what ``convolution`` and ``norm`` in eval mode do.

    They are w f and (b - mean) f + shift, worked out in float64 and rounded once.
    """
    assert isinstance(norm, BatchNorm2d)
    mean, variance = (tensor.data.astype(np.float64) for tensor in (norm.running_mean, norm.running_var))
    factor = norm.weight.data / np.sqrt(variance + norm.eps)
    before = 0 if convolution.bias is None else convolution.bias.data
    bias = (before - mean) * factor + norm.bias.data
    weight = convolution.weight.data * factor[:, None, None, None]
    return weight.astype(np.float32), np.asarray(bias, np.float32)
