"""Layer and batch normalization, forward and backward, without temporaries.

Declared: float32, at least one element, rows of at most 65,536. Gradients by given statistics, other dtypes, wider rows
and bad shapes go to the op's reference.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Saved
from tinytorch.core.ops.elementwise import sums_along
from tinytorch.core.ops.spatial import channels_first, channels_last
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import FLOAT32, SMALL, line, rows_of
from tinytorch.perf.kernels.runtime.vector_math import add_in_any_order, multiply_add
from tinytorch.perf.kernels.runtime.vectors import ask_ahead

#: About how long an element takes, forward and backward, in nanoseconds.
_FORWARD_NS, _BACKWARD_NS = 0.2, 0.4
#: Rows whose gradients of weight and bias are one partial sum, so that the sums do not depend on the threads.
_LAYER_NORM_ROWS = 64
#: Numbers of a row whose sum is one of float32.
_WIDEST = 2**16
_ZERO, _ONE = np.float32(0), np.float32(1)
_NO_MOMENTS = np.empty((0, 2), np.float32)


@kernel
def row_moments(row: Any, epsilon: Any) -> Any:
    """Return the mean of a row and 1 / sqrt(variance + epsilon), the variance the biased one."""
    total = _ZERO
    for i in range(row.size):
        total = add_in_any_order(total, row[i])
    mean = total / np.float32(row.size)
    squares = _ZERO
    for i in range(row.size):
        squares = add_in_any_order(squares, (row[i] - mean) * (row[i] - mean))
    return mean, _ONE / np.float32(math.sqrt(squares / np.float32(row.size) + epsilon))


@kernel
def layer_norm_share(
    start: Any, stop: Any, x: Any, weight: Any, bias: Any, epsilon: Any, output: Any, moments: Any
) -> None:
    """Fill rows ``start`` to ``stop`` of ``output``, and of ``moments``, if any, the mean and inverse deviation."""
    keep = moments.size > 0
    for number in range(start, stop):
        ask_ahead(x, number, stop)
        row, result = line(x, number), line(output, number)
        mean, inverse = row_moments(row, np.float32(epsilon))
        if keep:
            moments[number, 0], moments[number, 1] = mean, inverse
        for i in range(row.size):
            result[i] = multiply_add((row[i] - mean) * inverse, weight[i], bias[i])


@kernel
def layer_norm_backward_share(
    start: Any, stop: Any, gradient: Any, x: Any, weight: Any, moments: Any, down: Any, down_weight: Any, down_bias: Any
) -> None:
    """Fill blocks ``start`` to ``stop`` of `_LAYER_NORM_ROWS` rows of ``down``, and partial sums for weight and bias.

    With n the normalized row and h = g * weight: down = inverse (h - mean(h) - n mean(h n)). ``down`` may be the
    gradient itself.
    """
    width = x.shape[1]
    share = _ONE / np.float32(width)
    for block in range(start, stop):
        sums, bias_sums = down_weight[block], down_bias[block]
        sums[:] = _ZERO
        bias_sums[:] = _ZERO
        for number in range(block * _LAYER_NORM_ROWS, min(block * _LAYER_NORM_ROWS + _LAYER_NORM_ROWS, x.shape[0])):
            g, row, result = line(gradient, number), line(x, number), line(down, number)
            mean, inverse = moments[number, 0], moments[number, 1]
            level, along = _ZERO, _ZERO
            for i in range(width):
                normal = (row[i] - mean) * inverse
                product = g[i] * weight[i]
                level = add_in_any_order(level, product)
                along = add_in_any_order(along, product * normal)
                sums[i] += g[i] * normal
                bias_sums[i] += g[i]
            level *= share
            along *= share
            for i in range(width):
                normal = (row[i] - mean) * inverse
                result[i] = inverse * (g[i] * weight[i] - level - normal * along)


def _layer_norm_forward(keep: bool, x: Array, weight: Array, bias: Array, *, epsilon: float) -> tuple[Array, Saved]:
    """Layer norm of float32 of any shape and strides; other dtypes, and bad shapes, go to the op's reference."""
    width = x.shape[-1] if x.ndim else 0
    fits = weight.shape == bias.shape == (width,) and 0 < width <= _WIDEST
    if not fits or not x.dtype == weight.dtype == bias.dtype == FLOAT32:
        output, saved = ops.layer_norm.reference.forward(keep, x, weight, bias, epsilon=epsilon)
        return output, (None, saved) if keep else ()
    rows = rows_of(x)
    weight, bias = np.ascontiguousarray(weight), np.ascontiguousarray(bias)
    output = np.empty(x.shape, FLOAT32)
    moments = np.empty((len(rows), 2), FLOAT32) if keep else _NO_MOMENTS
    ns = width * _FORWARD_NS
    threads.split(layer_norm_share, len(rows), ns, rows, weight, bias, epsilon, rows_of(output), moments)
    return output, (rows, moments, weight, x.shape) if keep else ()


def _layer_norm_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if saved[0] is None:
        return ops.layer_norm.reference.backward(gradient, saved[1], needs, owned)
    x, moments, weight, shape = saved
    rows = rows_of(gradient)
    down = rows if owned else np.empty_like(rows)
    blocks = -(-len(x) // _LAYER_NORM_ROWS)
    down_weight, down_bias = np.empty((2, blocks, x.shape[1]), np.float32)
    ns = _LAYER_NORM_ROWS * x.shape[1] * _BACKWARD_NS
    threads.split(layer_norm_backward_share, blocks, ns, rows, x, weight, moments, down, down_weight, down_bias)
    return (
        down.reshape(shape) if needs[0] else None,
        sums_along(down_weight, 0) if needs[1] else None,
        sums_along(down_bias, 0) if needs[2] else None,
    )


_LAYER_NORM = {ops.layer_norm: Implementation("numba", _layer_norm_forward, _layer_norm_backward)}


#: Rows whose sum is one of float32; such sums are added up in float64.
_BATCH_NORM_ROWS = 64


@kernel
def channel_sums(x: Any, mean: Any, other: Any, power: Any, sums: Any) -> None:
    """Fill ``sums`` (2, C), float64, with the sums over rows of ``x`` and of its product with (other - mean).

    With ``power`` 0 the second is left out; ``x`` (P, C) and ``other`` are float32.
    """
    channels = x.shape[1]
    plain, product = np.empty(channels, np.float32), np.empty(channels, np.float32)
    sums[:] = 0
    for first in range(0, x.shape[0], _BATCH_NORM_ROWS):
        plain[:], product[:] = _ZERO, _ZERO
        for row in range(first, min(first + _BATCH_NORM_ROWS, x.shape[0])):
            values, others = line(x, row), line(other, row)
            if power:
                for c in range(channels):
                    product[c] = multiply_add(values[c], others[c] - mean[c], product[c])
            for c in range(channels):
                plain[c] += values[c]
        for c in range(channels):
            sums[0, c] += plain[c]
            sums[1, c] += product[c]


@kernel
def channel_squares(x: Any, mean: Any, squares: Any) -> None:
    """Fill ``squares`` (C,), float64, with the sums over rows of (x - mean)**2."""
    channels = x.shape[1]
    part = np.empty(channels, np.float32)
    squares[:] = 0
    for first in range(0, x.shape[0], _BATCH_NORM_ROWS):
        part[:] = _ZERO
        for row in range(first, min(first + _BATCH_NORM_ROWS, x.shape[0])):
            values = line(x, row)
            for c in range(channels):
                part[c] = multiply_add(values[c] - mean[c], values[c] - mean[c], part[c])
        for c in range(channels):
            squares[c] += part[c]


@kernel
def scale_share(start: Any, stop: Any, x: Any, factor: Any, shift: Any, output: Any) -> None:
    """Fill rows ``start`` to ``stop`` of ``output`` (P, C) with x factor + shift; rows of ``x`` may be longer."""
    for row in range(start, stop):
        values, made = line(x, row), line(output, row)
        for c in range(made.size):
            made[c] = values[c] * factor[c] + shift[c]


@kernel
def normalize_given(
    start: Any, stop: Any, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, epsilon: Any, output: Any
) -> None:
    """Fill rows ``start`` to ``stop`` of ``output`` (P, C) with x normalized by given statistics; see `folded`."""
    factor, shift = np.empty(x.shape[1], np.float32), np.empty(x.shape[1], np.float32)
    for c in range(factor.size):
        exact = weight[c] / math.sqrt(variance[c] + epsilon)
        factor[c], shift[c] = exact, bias[c] - mean[c] * exact
    scale_share(start, stop, x, factor, shift, output)


def folded(weight: Array, bias: Array, mean: Array, variance: Array, epsilon: float) -> tuple[Array, Array]:
    """Return the factor and the shift of each channel, float32, that normalize by given statistics."""
    factor = weight / np.sqrt(variance.astype(np.float64) + epsilon)
    return factor.astype(np.float32), (bias - mean * factor).astype(np.float32)


@kernel
def normalize(x: Any, weight: Any, bias: Any, epsilon: Any, output: Any, moments: Any, sums: Any) -> None:
    """Fill ``output`` (P, C), and ``moments`` (3, C) with mean, inverse deviation and unbiased variance.

    ``sums`` (2, C) is float64 scratch.
    """
    rows, channels = x.shape
    mean, inverse = moments[0], moments[1]
    channel_sums(x, mean, x, 0, sums)
    for c in range(channels):
        mean[c] = sums[0, c] / rows
    channel_squares(x, mean, sums[1])
    for c in range(channels):
        variance = sums[1, c] / rows
        inverse[c] = 1 / math.sqrt(variance + epsilon)
        moments[2, c] = sums[1, c] / (rows - 1)
    for row in range(rows):
        values, made = line(x, row), line(output, row)
        for c in range(channels):
            made[c] = multiply_add((values[c] - mean[c]) * inverse[c], weight[c], bias[c])


@kernel
def normalize_backward(gradient: Any, x: Any, weight: Any, moments: Any, down: Any, sums: Any) -> None:
    """Fill ``down`` (P, C), which may be the gradient itself, and ``sums`` (2, C), float64.

    With n the normalized input and N rows: down = weight inverse (g - sum(g) / N - n sum(g n) / N). The sums become
    those of g, the bias's gradient, and of g n, the weight's.
    """
    rows, channels = x.shape
    mean, inverse = moments[0], moments[1]
    channel_sums(gradient, mean, x, 1, sums)
    level, along, factor = np.empty((3, channels), np.float32)
    for c in range(channels):
        sums[1, c] *= inverse[c]
        level[c], along[c] = sums[0, c] / rows, sums[1, c] / rows * inverse[c]
        factor[c] = weight[c] * inverse[c]
    for row in range(rows):
        g, values, made = line(gradient, row), line(x, row), line(down, row)
        for c in range(channels):
            made[c] = factor[c] * (g[c] - level[c] - (values[c] - mean[c]) * along[c])


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
    """Normalize each channel of (N, C, H, W)."""
    floats = x.dtype == weight.dtype == bias.dtype == FLOAT32
    fits = floats and x.ndim == 4 and x.size and weight.shape == bias.shape == x.shape[1:2]
    given = () if mean is None and variance is None else (mean, variance)
    fits = fits and (x.shape[1] > 1 or x.size <= SMALL)  # a single channel is done sooner along its rows
    fits = fits and (bool(given) or x.size > x.shape[1])  # the reference refuses one element a channel
    if not fits or (given and (keep or mean is None or variance is None)):
        return ops.batch_norm.reference.forward(keep, x, weight, bias, *given, epsilon=epsilon, statistics=statistics)
    maps = channels_last(x)
    rows = maps.reshape(-1, maps.shape[3])
    output = np.empty(rows.shape, np.float32)
    weight, bias = np.ascontiguousarray(weight), np.ascontiguousarray(bias)
    if mean is not None and variance is not None:
        mean, variance = np.ascontiguousarray(mean), np.ascontiguousarray(variance)
        ns = rows.shape[1] * _FORWARD_NS
        threads.split(normalize_given, len(rows), ns, rows, weight, bias, mean, variance, epsilon, output)
        return channels_first(output.reshape(maps.shape)), ()
    moments = np.empty((3, rows.shape[1]), np.float32)
    normalize(rows, weight, bias, epsilon, output, moments, np.empty((2, rows.shape[1])))
    if statistics is not None:
        statistics += [moments[0], moments[2]]
    return channels_first(output.reshape(maps.shape)), ("numba", rows, weight, moments, maps.shape) if keep else ()


def _batch_norm_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if not isinstance(saved[0], str):
        return ops.batch_norm.reference.backward(gradient, saved, needs, owned)
    _, rows, weight, moments, shape = saved
    given = channels_last(np.asarray(gradient, np.float32))
    flat = given.reshape(rows.shape)
    down = flat if owned or not np.may_share_memory(given, gradient) else np.empty_like(flat)
    sums = np.empty((2, rows.shape[1]))
    normalize_backward(flat, rows, weight, moments, down, sums)
    return (
        channels_first(down.reshape(shape)) if needs[0] else None,
        sums[1].astype(np.float32) if needs[1] else None,
        sums[0].astype(np.float32) if needs[2] else None,
    )


_BATCH_NORM = {ops.batch_norm: Implementation("numba", _batch_norm_forward, _batch_norm_backward)}

IMPLEMENTATIONS = {**_LAYER_NORM, **_BATCH_NORM}
