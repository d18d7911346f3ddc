"""Layer and batch normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work
from tinytorch.core.ops.elementwise import BLOCK, column_sums, row_products, sums_along
from tinytorch.core.ops.spatial import channels_first, channels_last


def _dtypes(x: Array, weight: Array) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the dtype of the result, which of integers is that of the weights, and the one to compute in.

    Halves are computed in float32: they cannot hold the square of 300.
    """
    dtype = np.result_type(x, weight) if x.dtype.kind == "f" else weight.dtype
    return dtype, np.promote_types(dtype, np.float32)


def _row_means(rows: Array, averaging: Array) -> Array:
    """Return the mean of each row, ``averaging`` being 1 / width as often."""
    if len(averaging) > BLOCK:
        return sums_along(rows, 1) / rows.dtype.type(len(averaging))
    return np.dot(rows, averaging)


def _layer_norm_forward(keep: bool, x: Array, weight: Array, bias: Array, *, epsilon: float) -> tuple[Array, Saved]:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias over the last axis, in blocks that stay in cache.

    Source: J. Ba, J. Kiros and G. Hinton, arXiv:1607.06450; the variance is the biased one.
    """
    width = x.shape[-1]
    if weight.shape != (width,) or bias.shape != weight.shape:
        raise ValueError(f"layer_norm needs a last axis of {weight.size}, but the input's shape is {x.shape}")
    dtype, wide = _dtypes(x, weight)
    rows = np.ascontiguousarray(x, wide).reshape(-1, width)
    output = np.empty_like(rows)
    normal = np.empty_like(rows) if keep else output
    inverse = np.empty((len(rows), 1), rows.dtype)
    averaging = np.full(width, 1 / width, rows.dtype)
    step = max(1, BLOCK // width)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        # Sums over rows are products with a constant vector, which BLAS does at the speed of memory.
        mean = _row_means(rows[part], averaging)
        centred = np.subtract(rows[part], mean[:, None], out=normal[part])
        variance = row_products(centred, centred)
        variance *= 1 / width
        variance += epsilon
        np.sqrt(variance, out=variance)
        np.reciprocal(variance, out=inverse[part, 0])
        centred *= inverse[part]
        scaled = np.multiply(centred, weight, out=output[part])
        scaled += bias
    return output.reshape(x.shape).astype(dtype, copy=False), (normal, inverse, weight, x.shape) if keep else ()


def _layer_norm_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    normal, inverse, weight, shape = saved
    width = normal.shape[1]
    gradient = np.ascontiguousarray(gradient, normal.dtype).reshape(-1, width)
    down = np.empty_like(gradient) if needs[0] else None
    down_weight = np.zeros(width)
    averaging = np.full(width, 1 / width, gradient.dtype)
    step = max(1, BLOCK // width)
    scratch = np.empty((min(step, len(gradient)), width), gradient.dtype)
    for start in range(0, len(gradient), step):
        part = slice(start, start + step)
        product = np.multiply(gradient[part], normal[part], out=scratch[: len(gradient[part])])
        if needs[1]:
            down_weight += column_sums(product)
        if down is None:
            continue
        # inverse * (g - mean(g) - normal * mean(g * normal)), where g is the gradient times the weight.
        along = np.dot(product, weight) if width <= BLOCK else sums_along(product * weight, 1)
        along *= 1 / width
        inner = np.multiply(gradient[part], weight, out=down[part])
        mean = _row_means(inner, averaging)
        inner -= mean[:, None]
        inner -= np.multiply(normal[part], along[:, None], out=product)
        inner *= inverse[part]
    return (
        None if down is None else down.reshape(shape),
        down_weight.astype(weight.dtype) if needs[1] else None,
        column_sums(gradient) if needs[2] else None,
    )


def _batch_norm_forward(
    keep: bool,
    x: Array,
    weight: Array,
    bias: Array,
    mean: Array | None = None,
    variance: Array | None = None,
    *,
    epsilon: float,
    statistics: list[Array] | None = None,
) -> tuple[Array, Saved]:
    """Normalize each channel of (N, C, H, W): by the batch's own statistics, or by ``mean`` and ``variance``.

    With own statistics, the batch's mean and unbiased variance, shape (C,) each, are appended to
    ``statistics``. Source: S. Ioffe and C. Szegedy, arXiv:1502.03167.
    """
    maps = channels_last(x)
    if weight.shape != (maps.shape[3],) or bias.shape != weight.shape:
        raise ValueError(f"batch_norm needs an input of shape (N, {weight.size}, H, W), not {x.shape}")
    if not maps.size:
        raise ValueError(f"batch_norm needs at least one element, but the input's shape is {x.shape}")
    dtype, wide = _dtypes(x, weight)
    rows = maps.reshape(-1, maps.shape[-1]).astype(wide, copy=False)
    own = mean is None or variance is None
    if own and len(rows) == 1:
        raise ValueError(
            f"batch_norm needs at least two elements of each channel to take their variance, but the input's shape is "
            f"{x.shape}: give it more images, or call eval()"
        )
    if own:
        mean = column_sums(rows) / wide.type(len(rows))
        centred = rows - mean
        variance = column_sums(centred, centred) / wide.type(len(rows))
        if statistics is not None:
            statistics += [mean, variance * (len(rows) / (len(rows) - 1))]
    assert variance is not None
    inverse = 1 / np.sqrt(variance + wide.type(epsilon))
    if not own:  # constants of the channel fold into one factor and one shift
        factor = weight * inverse
        output = rows * factor
        output += bias - mean * factor
        output = output.astype(dtype, copy=False)
        return channels_first(output.reshape(maps.shape)), (False, rows, mean, inverse, weight) if keep else ()
    centred *= inverse
    output = centred * weight
    output += bias
    output = output.astype(dtype, copy=False)
    return channels_first(output.reshape(maps.shape)), (True, centred, inverse, weight) if keep else ()


def _batch_norm_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    maps = channels_last(gradient)
    rows = maps.reshape(-1, maps.shape[-1]).astype(np.promote_types(maps.dtype, np.float32), copy=False)
    down = None
    if not saved[0]:
        _, x, mean, inverse, weight = saved
        normal = (x - mean) * inverse
        if needs[0]:
            down = rows * (weight * inverse)
    else:
        _, normal, inverse, weight = saved
        if needs[0]:
            count = rows.dtype.type(len(rows))
            along = column_sums(rows, normal)
            down = normal * (along / -count)
            down += rows
            down -= column_sums(rows) / count
            down *= weight * inverse
    return (
        None if down is None else channels_first(down.reshape(maps.shape)),
        column_sums(rows, normal) if needs[1] else None,
        column_sums(rows) if needs[2] else None,
        *[None] * len(needs[3:]),
    )


def _layer_norm_work(call: Call) -> Work:
    """Forward an element: mean 1, centre 1, variance 2, scale 1, weight and bias 2; backward 8 and the sums."""
    size = call.output.size
    if call.phase == "forward":
        return Work(elementwise=7 * size)
    return Work(elementwise=8 * size * call.needs[0] + 2 * size * call.needs[1] + size * call.needs[2])


def _batch_norm_work(call: Call) -> Work:
    """With own statistics as layer norm; with given ones a factor and a shift, whose backward is a factor."""
    size = call.output.size
    if len(call.inputs) == 3:
        return _layer_norm_work(call)
    if call.phase == "forward":
        return Work(elementwise=2 * size)
    return Work(elementwise=size * call.needs[0] + 4 * size * call.needs[1] + size * call.needs[2])


layer_norm = Op("layer_norm", _layer_norm_forward, _layer_norm_backward, _layer_norm_work)
batch_norm = Op("batch_norm", _batch_norm_forward, _batch_norm_backward, _batch_norm_work)
