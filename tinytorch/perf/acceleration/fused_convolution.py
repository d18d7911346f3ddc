"""The op of frozen convolutions: convolution, ReLU and maximum of windows, layer after layer, as one primitive."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Op, Saved, Shape, Work
from tinytorch.core.ops.layout import Pair, output_positions
from tinytorch.perf.ops.fused import Layout, no_backward, padded_columns, panel_bounds, unpacked

ONE: Pair = (1, 1)
NONE: Pair = (0, 0)


class Stage(NamedTuple):
    """A convolution with bias, ReLU if ``relu``, and the maximum of windows ``pool`` unless that is (0, 0).

    ``kernel`` (0, 0) stands for a window over the whole map with ``taps`` positions: a linear layer of flattened maps.
    """

    channels: int
    out: int
    kernel: Pair
    taps: int
    stride: Pair = ONE
    padding: Pair = NONE
    dilation: Pair = ONE
    relu: bool = False
    pool: Pair = NONE
    pool_stride: Pair = ONE
    pool_padding: Pair = NONE


#: Stages as an op's parameter: plain tuples, of which an event may keep a copy.
Stages = tuple[tuple[Any, ...], ...]


class Traced(NamedTuple):
    """A stage on maps of a known size: its window, its positions before the maxima, and the size of what it makes."""

    stage: Stage
    size: Pair
    kernel: Pair
    positions: Pair
    made: Pair


def traced(shape: Shape, stages: Stages) -> list[Traced]:
    """Return each stage on images of ``shape`` (N, C, H, W).

    Raises:
        ValueError: if channels do not fit, a window fits nowhere, or a linear layer does not fit its map.
    """
    if len(shape) != 4 or shape[1] != Stage._make(stages[0]).channels:
        raise ValueError(f"images must have shape (N, {Stage._make(stages[0]).channels}, H, W), not {shape}")
    found: list[Traced] = []
    size: Pair = (shape[2], shape[3])
    for stage in map(Stage._make, stages):
        kernel = stage.kernel
        if kernel == NONE:
            kernel = size
            if math.prod(size) != stage.taps:
                given = f"{stage.channels} maps of {size[0]} x {size[1]}"
                raise ValueError(f"linear needs {stage.channels * stage.taps} features, but there are {given}")
        positions = output_positions(size, kernel, stage.stride, stage.padding, stage.dilation)
        made = positions
        if stage.pool != NONE:
            made = output_positions(positions, stage.pool, stage.pool_stride, stage.pool_padding)
        found.append(Traced(stage, size, kernel, positions, made))
        size = made
    return found


def convolution_places(stages: Stages, layout: Layout) -> list[tuple[int, int, int]]:
    """Return, for each stage, where its panels begin, its bias, and what follows; all lie in one flat array."""
    found, start = [], 0
    for stage in map(Stage._make, stages):
        filled = padded_columns(stage.out, layout)
        bias = start + stage.taps * stage.channels * filled
        found.append((start, bias, bias + filled))
        start = found[-1][2]
    return found


def fill_stage(weights: Array, place: tuple[int, int, int], weight: Array, bias: Array | None, layout: Layout) -> None:
    """Write ``weight`` (out, channels, taps) as panels [panel][tap][channel][column], and the bias; zeros fill up."""
    start, at, end = place
    out, channels, taps = weight.shape
    matrix = weight.transpose(2, 1, 0).reshape(taps * channels, out)
    for first, last in panel_bounds(out, layout):
        panel = weights[start + len(matrix) * first : start + len(matrix) * last].reshape(len(matrix), last - first)
        panel[:, : out - first] = matrix[:, first:last]
        panel[:, out - first :] = 0
    weights[at:end] = 0
    if bias is not None:
        weights[at : at + out] = bias


def output_shape(shape: Shape, stages: Stages) -> Shape:
    """Return (N, out, oh, ow), or (N, out) after a linear layer; raise ValueError as `traced` does."""
    last = traced(shape, stages)[-1]
    whole = (shape[0], last.stage.out)
    return whole if last.stage.kernel == NONE else (*whole, *last.made)


def _forward(keep: bool, x: Array, weights: Array, *, stages: Stages, layout: Layout) -> tuple[Array, Saved]:
    """Run the layers one after the other."""
    del keep  # nothing is kept for the backward that there is none of
    shape = output_shape(x.shape, stages)
    for line, (panels, bias, _) in zip(traced(x.shape, stages), convolution_places(stages, layout), strict=True):
        stage = line.stage
        matrix = unpacked(weights[panels:bias], (stage.taps * stage.channels, stage.out), layout)
        weight = matrix.reshape(*line.kernel, stage.channels, stage.out).transpose(3, 2, 0, 1)
        moves = {"stride": stage.stride, "padding": stage.padding, "dilation": stage.dilation, "groups": 1}
        x, _ = ops.conv2d.reference.forward(False, x, weight, weights[bias : bias + stage.out], **moves)
        if stage.relu:
            x = np.maximum(x, 0)
        if stage.pool != NONE:
            window = {"kernel": stage.pool, "stride": stage.pool_stride, "padding": stage.pool_padding}
            x, _ = ops.max_pool2d.reference.forward(False, x, **window)
    return x.reshape(shape), ()


def _work(call: Call) -> Work:
    """What the separate layers count: products, bias, ReLU, and a comparison for each tap of each maximum."""
    macs = others = 0
    for line in traced(call.inputs[0].shape, call.params["stages"]):
        stage = line.stage
        positions = call.output.shape[0] * math.prod(line.positions) * stage.out
        macs += positions * stage.channels * stage.taps
        others += positions * (1 + stage.relu)
        others += call.output.shape[0] * math.prod(line.made) * stage.out * math.prod(stage.pool)
    return Work(macs, others)


#: ``(x, weights; stages, layout)``: convolutions for inference, whose weights lie as `convolution_places` says.
packed_convolutions = Op("packed_convolutions", _forward, no_backward, _work)
