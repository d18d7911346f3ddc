"""Ops on images: windows as rows of a matrix, rows added up into images, and the transposed convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Gradients, Op, Phase, Saved, Shape, Work, gradient_only
from tinytorch.core.ops.spatial import Pair, channels_first, output_positions, padded, taps


def _im2col_forward(keep: bool, x: Array, *, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Array, Saved]:
    """Copy (N, C, H, W) into (N oh ow, C kh kw): rows by image and position, columns as weights (O, C, kh, kw) lie."""
    if x.ndim != 4:
        raise ValueError(f"x must be images (N, C, H, W), 4D, not {x.shape}")
    positions = output_positions(x.shape[2:], kernel, stride, padding)
    maps = padded(x.transpose(0, 2, 3, 1), padding)
    columns = np.empty((len(x), *positions, x.shape[1], kernel[0] * kernel[1]), x.dtype)
    for tap, values in enumerate(taps(maps, kernel, stride, (1, 1), positions)):
        columns[..., tap] = values
    rows = columns.reshape(len(x) * positions[0] * positions[1], -1)
    return rows, (x.shape, kernel, stride, padding) if keep else ()


def _col2im_forward(
    keep: bool, columns: Array, *, shape: Shape, kernel: Pair, stride: Pair, padding: Pair
) -> tuple[Array, Saved]:
    """Add rows (N oh ow, C kh kw) into images of ``shape``: an element is the sum over the windows that hold it."""
    count, channels, height, width = shape
    positions = output_positions((height, width), kernel, stride, padding)
    expected = (count * positions[0] * positions[1], channels * kernel[0] * kernel[1])
    if columns.shape != expected:
        raise ValueError(f"cols must have shape {expected} for images {shape}, but {columns.shape} does not match")
    high, wide = padding
    maps = np.zeros((count, height + 2 * high, width + 2 * wide, channels), columns.dtype)
    values = columns.reshape(count, *positions, channels, kernel[0] * kernel[1])
    for tap, target in enumerate(taps(maps, kernel, stride, (1, 1), positions)):
        target += values[..., tap]
    images = channels_first(maps[:, high : high + height, wide : wide + width])
    return images, (kernel, stride, padding) if keep else ()


def _im2col_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    shape, kernel, stride, padding = saved
    return (_col2im_forward(False, gradient, shape=shape, kernel=kernel, stride=stride, padding=padding)[0],)


def _col2im_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    kernel, stride, padding = saved
    return (_im2col_forward(False, gradient, kernel=kernel, stride=stride, padding=padding)[0],)


def _additions(adding: Phase) -> Callable[[Call], Work]:
    """Return a formula of one addition an element of the rows in the phase that adds them up; copies are no work."""

    def work(call: Call) -> Work:
        rows = call.output if adding == "backward" else call.inputs[0]
        return Work(elementwise=rows.size if call.phase == adding else 0)

    return work


#: Windows of images as rows; its backward adds them up.
im2col = Op("im2col", _im2col_forward, _im2col_backward, _additions("backward"), gradient_only)
#: Rows added up into images; its backward copies windows.
col2im = Op("col2im", _col2im_forward, _col2im_backward, _additions("forward"), gradient_only)


def _transposed_forward(
    keep: bool, x: Array, weight: Array, bias: Array | None = None, *, lengths: Pair, **geometry: Any
) -> tuple[Array, Saved]:
    """Return what backward of a convolution with this weight hands to an input of ``lengths`` for a gradient ``x``."""
    if x.ndim != 4 or x.shape[1] != weight.shape[0]:
        raise ValueError(f"conv2d_transposed needs an input of shape (N, {weight.shape[0]}, H, W), not {x.shape}")
    # Only the shape of what went into that convolution is looked at.
    maps = np.broadcast_to(np.zeros((), x.dtype), (len(x), *lengths, weight.shape[1] * geometry["groups"]))
    (output, _) = ops.conv2d.reference.backward(
        x,
        (maps, weight, geometry["stride"], geometry["padding"], geometry["dilation"], geometry["groups"]),
        (True, False),
        False,
    )
    assert output is not None
    if bias is not None:
        output += bias[:, None, None]
    return output, (x, weight, geometry) if keep else ()


def _transposed_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    x, weight, geometry = saved
    down, kept = ops.conv2d.reference.forward(True, gradient, weight, **geometry)
    down_weight = ops.conv2d.reference.backward(x, kept, (False, True), False)[1] if needs[1] else None
    down_bias = gradient.sum(axis=(0, 2, 3)) if len(needs) == 3 and needs[2] else None
    return (down if needs[0] else None, down_weight, down_bias)[: len(needs)]


def _transposed_work(call: Call) -> Work:
    """Each element of the input times its window for all channels of its group; a bias is one addition an output."""
    _, each, high, wide = call.inputs[1].shape
    macs = call.inputs[0].size * each * high * wide
    has_bias = len(call.inputs) == 3
    if call.phase == "forward":
        return Work(macs, call.output.size if has_bias else 0)
    return Work(macs * (1 + call.needs[1]), call.output.size if has_bias and call.needs[2] else 0)


#: (N, C, H, W) and a weight (C, O / groups, kh, kw) to (N, O, *lengths); params as of `core.ops.conv2d`.
conv2d_transposed = Op("conv2d_transposed", _transposed_forward, _transposed_backward, _transposed_work)
