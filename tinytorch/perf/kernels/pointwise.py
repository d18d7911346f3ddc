"""Activations, bias with GELU, mask with softmax, and dropout, each in one pass over memory.

GELU and SiLU keep their input for backward and compute the slope there: reading the input again is cheaper than
writing the slope and reading that.

Element i's number is the i-th of the sequence of splitmix64 from a seed, so no thread and no order changes it. Source:
G. Steele, D. Lea and C. Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Gradients, Implementation, Op, Saved, Work, per_element
from tinytorch.core.ops.elementwise import sums_along
from tinytorch.perf.kernels.runtime import threads, vector_math
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import dense, empty_like, flat, in_order_of, rows_of
from tinytorch.perf.kernels.runtime.vector_math import gelu, gelu_slope, multiply_add
from tinytorch.perf.kernels.runtime.vectors import cpu_features
from tinytorch.perf.kernels.softmax import fill_softmax, softmax_backward
from tinytorch.perf.ops import fused

#: About how long an element takes, forward and backward, in nanoseconds.
_FORWARD_NS, _BACKWARD_NS = 0.2, 0.3
_ZERO, _ONE = np.float32(0), np.float32(1)


def _share(of_one: Any, name: str) -> Any:
    """Return the kernel ``f(start, stop, x, output)`` that fills ``output[start:stop]`` with ``of_one`` of each x."""

    def share(start: Any, stop: Any, x: Any, output: Any) -> None:
        """Fill ``output[start:stop]``."""
        x, output = x[start:stop], output[start:stop]
        for i in range(x.size):
            output[i] = of_one(x[i])

    return kernel(share, name)


def _backward_share(slope: Any, name: str) -> Any:
    """Return the kernel ``f(start, stop, gradient, kept, down)``: ``down`` is gradient times ``slope`` of ``kept``.

    ``down`` may be the gradient itself.
    """

    def backward_share(start: Any, stop: Any, gradient: Any, kept: Any, down: Any) -> None:
        """Fill ``down[start:stop]``."""
        gradient, kept, down = gradient[start:stop], kept[start:stop], down[start:stop]
        for i in range(kept.size):
            down[i] = gradient[i] * slope(kept[i])

    return kernel(backward_share, name)


@kernel
def silu(x: Any) -> Any:
    """Return x times its sigmoid."""
    return x * vector_math.sigmoid(x)


@kernel
def silu_slope(x: Any) -> Any:
    """Return the slope of SiLU at x: s + x s (1 - s), with s the sigmoid."""
    gate = vector_math.sigmoid(x)
    return multiply_add(x * gate, _ONE - gate, gate)


@kernel
def sigmoid_slope(y: Any) -> Any:
    """Return the slope of the sigmoid where it is y."""
    return y * (_ONE - y)


@kernel
def tanh_slope(y: Any) -> Any:
    """Return the slope of tanh where it is y."""
    return _ONE - y * y


@kernel
def relu(x: Any) -> Any:
    """Return 0 where x is below 0, and NaN where it is NaN."""
    return _ZERO if x < _ZERO else x


@kernel
def relu_slope(y: Any) -> Any:
    """Return 1 where ReLU is above 0, else 0."""
    return _ONE if y > _ZERO else _ZERO


gelu_share, gelu_backward_share = _share(gelu, "gelu"), _backward_share(gelu_slope, "gelu")
silu_share, silu_backward_share = _share(silu, "silu"), _backward_share(silu_slope, "silu")
sigmoid_share, sigmoid_backward_share = (
    _share(vector_math.sigmoid, "sigmoid"),
    _backward_share(sigmoid_slope, "sigmoid"),
)
tanh_share, tanh_backward_share = _share(vector_math.tanh, "tanh"), _backward_share(tanh_slope, "tanh")
relu_share, relu_backward_share = _share(relu, "relu"), _backward_share(relu_slope, "relu")


def _implementation(op: Op, forward: Any, backward: Any, keeps: str, flops: tuple[int, int]) -> Implementation:
    """Return the implementation of a float32 activation; other dtypes are the op's reference's to run.

    ``keeps`` is "input" or "output", of which the backward kernel makes its slope; ``flops`` are for each element.
    """

    def run(keep: bool, x: Array) -> tuple[Array, Saved]:
        if x.dtype != np.float32:
            output, saved = op.reference.forward(keep, x)
            return output, (None, saved) if keep else ()
        x = dense(x)
        output, flat_output = empty_like(x)
        threads.split(forward, x.size, _FORWARD_NS, flat(x), flat_output)
        return output, (x if keeps == "input" else output,) if keep else ()

    def run_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
        if saved[0] is None:
            return op.reference.backward(gradient, saved[1], needs, owned)
        ordered = in_order_of(gradient, saved[0])
        down = ordered if owned or ordered is not gradient else np.empty_like(ordered)
        threads.split(backward, ordered.size, _BACKWARD_NS, flat(ordered), flat(saved[0]), flat(down))
        return (down,)

    return Implementation("numba", run, run_backward, per_element(*flops))


def fill_gelu(x: Array, output: Array) -> None:
    """Fill ``output`` with the GELU of ``x``, both dense float32 of one memory order."""
    threads.split(gelu_share, x.size, _FORWARD_NS, flat(x), flat(output))


_Kernels = tuple[Op, Callable[..., None], Callable[..., None], str, tuple[int, int]]
_ACTIVATIONS: tuple[_Kernels, ...] = (
    (ops.gelu, gelu_share, gelu_backward_share, "input", (7, 15)),
    (ops.silu, silu_share, silu_backward_share, "input", (5, 8)),
    (ops.sigmoid, sigmoid_share, sigmoid_backward_share, "output", (4, 3)),
    (ops.tanh, tanh_share, tanh_backward_share, "output", (1, 3)),
    (ops.relu, relu_share, relu_backward_share, "output", (1, 2)),
)
_POINTWISE: dict[Op, Implementation] = {kernels[0]: _implementation(*kernels) for kernels in _ACTIVATIONS}


#: About how long an element takes, forward and backward, in nanoseconds.
_ROWS_FORWARD_NS, _ROWS_BACKWARD_NS = 0.2, 0.3
#: Rows whose gradients of the bias are one partial sum, so that the sum does not depend on the threads.
_ROWS = 64


@kernel
def bias_gelu_share(start: Any, stop: Any, x: Any, bias: Any, output: Any) -> None:
    """Fill rows ``start`` to ``stop``."""
    for number in range(start, stop):
        row, result = x[number], output[number]
        for i in range(row.size):
            result[i] = gelu(row[i] + bias[i])


@kernel
def bias_gelu_backward_share(
    start: Any, stop: Any, gradient: Any, x: Any, bias: Any, down: Any, down_bias: Any
) -> None:
    """Fill blocks ``start`` to ``stop`` of `_ROWS` rows of ``down``, and their partial sums for the bias."""
    for block in range(start, stop):
        sums = down_bias[block]
        sums[:] = np.float32(0)
        for number in range(block * _ROWS, min(block * _ROWS + _ROWS, x.shape[0])):
            g, row, result = gradient[number], x[number], down[number]
            for i in range(row.size):
                slope = g[i] * gelu_slope(row[i] + bias[i])
                result[i] = slope
                sums[i] += slope


def _bias_gelu(keep: bool, x: Array, bias: Array) -> tuple[Array, Saved]:
    """GELU of x + bias, float32 of any shape and strides; the reference runs other dtypes and refuses bad shapes."""
    fits = x.ndim and bias.shape == (x.shape[-1],) and x.dtype == bias.dtype == np.float32
    if not fits:
        output, saved = fused.bias_gelu.reference.forward(keep, x, bias)
        return output, (None, saved) if keep else ()
    rows, bias = rows_of(x), np.ascontiguousarray(bias)
    output = np.empty(rows.shape, np.float32)
    threads.split(bias_gelu_share, len(rows), rows.shape[1] * _ROWS_FORWARD_NS, rows, bias, output)
    return output.reshape(x.shape), (rows, bias, x.shape) if keep else ()


def _bias_gelu_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if saved[0] is None:
        return fused.bias_gelu.reference.backward(gradient, saved[1], needs, owned)
    x, bias, shape = saved
    rows = rows_of(gradient)
    down = rows if owned else np.empty_like(rows)
    blocks = -(-len(x) // _ROWS)
    sums = np.empty((blocks, x.shape[1]), np.float32)
    ns = _ROWS * x.shape[1] * _ROWS_BACKWARD_NS
    threads.split(bias_gelu_backward_share, blocks, ns, rows, x, bias, down, sums)
    return down.reshape(shape) if needs[0] else None, sums_along(sums, 0) if needs[1] else None


def _causal_softmax(keep: bool, x: Array) -> tuple[Array, Saved]:
    """Causal softmax of float32 of any strides; the reference runs other dtypes and refuses bad shapes."""
    if x.dtype != np.float32 or not x.size or x.ndim < 2 or x.shape[-2] > x.shape[-1]:
        output, saved = fused.causal_softmax.reference.forward(keep, x)
        return output, (None, saved) if keep else ()
    rows = rows_of(x)
    output = np.empty(x.shape, np.float32)
    fill_softmax(rows, output.reshape(rows.shape), x.shape[-2])
    return output, (output,) if keep else ()


def _causal_softmax_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if saved[0] is None:
        return fused.causal_softmax.reference.backward(gradient, saved[1], needs, owned)
    return (softmax_backward(gradient, saved[0], owned),)


def _bias_gelu_work(call: Call) -> Work:
    """Addition and seven operations an element; backward the slope anew."""
    size = call.output.size
    return Work(elementwise=8 * size if call.phase == "forward" else size * (16 + call.needs[1]))


def _causal_softmax_work(call: Call) -> Work:
    """Five operations forward for each key that a query sees; backward four for each pair."""
    queries, keys = call.output.shape[-2:]
    if call.phase == "backward":
        return Work(elementwise=4 * call.output.size)
    seen = queries * keys - queries * (queries - 1) // 2
    return Work(elementwise=5 * seen * (call.output.size // max(queries * keys, 1)))


_FUSED_ROWS = {
    fused.bias_gelu: Implementation("numba", _bias_gelu, _bias_gelu_backward, _bias_gelu_work),
    fused.causal_softmax: Implementation("numba", _causal_softmax, _causal_softmax_backward, _causal_softmax_work),
}


#: About how long an element takes, in nanoseconds.
_NS = 0.5
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_HALF, _WORD, _WIDE = np.uint64(32), np.uint32, np.uint64
#: Arm's NEON multiplies vectors of 32 bits, but none of 64.
BY_HALVES = "neon" in cpu_features()


@kernel
def random_bits(seed: Any, index: Any) -> Any:
    """Return the 64 random bits of an element (uint64 of both)."""
    z = seed + (index + np.uint64(1)) * _STEP
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@kernel
def product_of_halves(low: Any, high: Any, factor: Any) -> Any:
    """Return the halves of a product modulo 2^64, as uint32, from those of one of its factors; the other is uint64."""
    product = _WIDE(low) * _WIDE(_WORD(factor))
    across = _WORD(low * _WORD(factor >> _HALF)) + _WORD(high * _WORD(factor))
    return _WORD(product), _WORD(_WORD(product >> _HALF) + _WORD(across))


@kernel
def upper_bits(z: Any) -> Any:
    """Return the upper 32 of an element's random bits, as uint64, without a product of 64 bits.

    ``z`` is the seed and a step for each element up to this one.
    """
    z = z ^ (z >> np.uint64(30))
    low, high = product_of_halves(_WORD(z), _WORD(z >> _HALF), _FIRST)
    low ^= _WORD(low >> _WORD(27)) | _WORD(high << _WORD(5))
    low, high = product_of_halves(_WORD(low), _WORD(high ^ _WORD(high >> _WORD(27))), _SECOND)
    return _WIDE(high ^ _WORD(high >> _WORD(31)))


@kernel
def dropout_share(start: Any, stop: Any, x: Any, output: Any, seed: Any, threshold: Any, factor: Any) -> None:
    """Fill ``output[start:stop]``: x times ``factor`` where the number is at least ``threshold``, else times 0."""
    x, output = x[start:stop], output[start:stop]
    z = seed + np.uint64(start) * _STEP
    for i in range(x.size):
        z += _STEP
        bits = upper_bits(z) if BY_HALVES else random_bits(seed, np.uint64(start + i)) >> _HALF
        output[i] = x[i] * (factor if bits >= threshold else _ZERO)


def _run(x: Array, output: Array, seed: np.uint64, probability: float) -> None:
    """Fill ``output``; both contiguous."""
    factor = np.float32(0 if probability == 1 else 1 / (1 - probability))
    threshold = np.uint64(round(probability * 2**32))
    threads.split(dropout_share, x.size, _NS, x.reshape(-1), output.reshape(-1), seed, threshold, factor)


def _forward(keep: bool, x: Array, *, probability: float, generator: np.random.Generator) -> tuple[Array, Saved]:
    """Dropout of float32 of any shape and strides; other dtypes go to the op's reference.

    It draws one seed from ``generator``, so what is dropped is not what the reference drops; how much is.
    """
    if x.dtype != np.float32:
        output, saved = ops.dropout.reference.forward(keep, x, probability=probability, generator=generator)
        return output, (None, saved) if keep else ()
    seed = np.uint64(generator.integers(2**64, dtype=np.uint64))
    x = np.ascontiguousarray(x)
    output = np.empty_like(x)
    _run(x, output, seed, probability)
    return output, (seed, probability) if keep else ()


def _backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if saved[0] is None:
        return ops.dropout.reference.backward(gradient, saved[1], needs, owned)
    ordered = np.ascontiguousarray(gradient)
    down = ordered if owned or ordered is not gradient else np.empty_like(ordered)
    _run(ordered, down, *saved)
    return (down,)


_DROPOUT = {ops.dropout: Implementation("numba", _forward, _backward, per_element(2))}

IMPLEMENTATIONS: dict[Op, Implementation] = {**_POINTWISE, **_FUSED_ROWS, **_DROPOUT}
