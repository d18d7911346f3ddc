"""Activations, bias with GELU, mask with softmax, and dropout, each in one pass over memory.

GELU and SiLU keep their input for backward and compute the slope there: reading the input again is cheaper than
writing the slope and reading that.

Element i's number is the i-th of the sequence of splitmix64 from a seed, so no thread and no order changes it. Source:
G. Steele, D. Lea and C. Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Gradients, Implementation, Op, Saved, Work, per_element
from tinytorch.core.ops.elementwise import sums_along
from tinytorch.perf.kernels.row_ops import FORWARD_NS, causal_softmax_share, softmax_backward
from tinytorch.perf.kernels.runtime import threads, vector_math
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import FLOAT32, beside, flat, in_order_of, line, rows_of
from tinytorch.perf.kernels.runtime.vector_math import gelu, gelu_slope, multiply_add
from tinytorch.perf.kernels.runtime.vectors import cpu_features
from tinytorch.perf.ops import fused, pointwise

#: About how long an element takes, forward and backward, in nanoseconds.
_FORWARD_NS, _BACKWARD_NS = 0.2, 0.3
#: Elements from which on a kernel is faster than NumPy: of powers, of the slopes of tanh, and of dropout.
_LEAST_POWERS, _LEAST_TANH, _LEAST_DROPOUT = {2.0: 16_384, 3.0: 32}, 2_048, 1_024
_ZERO, _MIDDLE, _ROOT_HALF, _ONE, _THREE = (np.float32(number) for number in (0, 0.5, math.sqrt(0.5), 1, 3))


def of_elements(function: Any, name: str) -> Any:
    """Return a function of single elements, written as a lambda, as the kernel ``name``; a kernel as it is."""
    if isinstance(function, FunctionType):
        function.__qualname__ = name
        return kernel(function)
    return function


def _share(of_one: Any, name: str, takes_numbers: bool = False) -> Any:
    """Return the kernel ``f(start, stop, x, output, *numbers)``: each output is ``of_one(x, *numbers)``."""
    of_one = of_elements(of_one, name)

    def share(start: Any, stop: Any, x: Any, output: Any) -> None:
        x, output = x[start:stop], output[start:stop]
        for i in range(x.size):
            output[i] = of_one(x[i])

    def share_with(start: Any, stop: Any, x: Any, output: Any, *numbers: Any) -> None:
        """Fill ``output[start:stop]``; as `share`, whose calls are shorter."""
        x, output = x[start:stop], output[start:stop]
        for i in range(x.size):
            output[i] = of_one(x[i], *numbers)

    return kernel(share_with if takes_numbers else share, name)


def _backward_share(slope: Any, name: str, takes_numbers: bool = False) -> Any:
    """Return the kernel ``f(start, stop, gradient, kept, down, *numbers)``: each is gradient times ``slope`` of kept.

    ``down`` may be the gradient itself.
    """
    slope = of_elements(slope, f"{name}_slope")

    def backward_share(start: Any, stop: Any, gradient: Any, kept: Any, down: Any) -> None:
        gradient, kept, down = gradient[start:stop], kept[start:stop], down[start:stop]
        for i in range(kept.size):
            down[i] = gradient[i] * slope(kept[i])

    def backward_share_with(start: Any, stop: Any, gradient: Any, kept: Any, down: Any, *numbers: Any) -> None:
        gradient, kept, down = gradient[start:stop], kept[start:stop], down[start:stop]
        for i in range(kept.size):
            down[i] = gradient[i] * slope(kept[i], *numbers)

    return kernel(backward_share_with if takes_numbers else backward_share, name)


@kernel
def clipped(x: Any, low: Any, high: Any) -> Any:
    """Return x, or the end that it lies beyond."""
    return low if x < low else high if x > high else x


@kernel
def silu_slope(x: Any) -> Any:
    """Return the slope of SiLU at x: s + x s (1 - s), with s the sigmoid."""
    gate = vector_math.sigmoid(x)
    return multiply_add(x * gate, _ONE - gate, gate)


#: The kernel of each op of one operand; see `_share`.
SHARES: dict[Op, Any] = {
    ops.relu: _share(lambda x: _ZERO if x < _ZERO else x, "relu"),  # NaN stays
    ops.gelu: _share(gelu, "gelu"),
    ops.silu: _share(lambda x: x * vector_math.sigmoid(x), "silu"),
    ops.sigmoid: _share(vector_math.sigmoid, "sigmoid"),
    ops.tanh: _share(vector_math.tanh, "tanh"),
    ops.leaky_relu: _share(lambda x, slope: x if x > _ZERO else x * np.float32(slope), "leaky_relu", True),
    ops.exp: _share(vector_math.exp, "exp"),
    ops.log: _share(lambda x: np.float32(math.log(x)), "log"),
    ops.sqrt: _share(lambda x: np.float32(math.sqrt(x)), "sqrt"),
    ops.negative: _share(lambda x: -x, "negative"),
    ops.absolute: _share(lambda x: abs(x), "absolute"),
    ops.power: _share(lambda x, exponent: x**exponent, "power", True),
    pointwise.erf: _share(vector_math.erf, "erf"),
    pointwise.exact_gelu: _share(lambda x: x * _MIDDLE * (_ONE + vector_math.erf(x * _ROOT_HALF)), "exact_gelu"),
    pointwise.without_nan: _share(lambda x, value: x if x == x else value, "without_nan", True),
    pointwise.softplus: _share(vector_math.softplus, "softplus"),
    pointwise.floor: _share(vector_math.floor, "floor"),
    pointwise.ceil: _share(vector_math.ceil, "ceil"),
    pointwise.clip: _share(clipped, "clip", True),
    pointwise.hard_sigmoid: _share(
        lambda x, slope, shift: clipped(x * slope + shift, _ZERO, _ONE), "hard_sigmoid", True
    ),
}
#: The parameters of those ops that their kernels take as numbers.
NUMBERS: dict[Op, tuple[str, ...]] = {
    ops.leaky_relu: ("slope",),
    ops.power: ("exponent",),
    pointwise.clip: ("low", "high"),
    pointwise.without_nan: ("value",),
    pointwise.hard_sigmoid: ("slope", "shift"),
}
#: Powers that need no power: their kernels forward and backward.
POWERS = {
    2.0: (_share(lambda x: x * x, "square"), _backward_share(lambda x: x + x, "square")),
    3.0: (_share(lambda x: x * x * x, "cube"), _backward_share(lambda x: _THREE * x * x, "cube")),
}
gelu_share, gelu_backward_share = SHARES[ops.gelu], _backward_share(gelu_slope, "gelu")
leaky_relu_backward_share = _backward_share(
    lambda x, slope: _ONE if x > _ZERO else np.float32(slope), "leaky_relu", True
)


def _implementation(op: Op, backward: Any, keeps: str, flops: tuple[int, int]) -> Implementation:
    """Return the implementation of a float32 activation; other dtypes are the op's reference's to run.

    ``keeps`` is "input" or "output", of which the backward kernel makes its slope; ``flops`` are for each element.
    """
    forward = SHARES[op]

    def run(keep: bool, x: Array) -> tuple[Array, Saved]:
        if x.dtype != FLOAT32:
            output, saved = op.reference.forward(keep, x)
            return output, (None, saved) if keep else ()
        x, flat_x, output, flat_output = beside(x)
        threads.split(forward, x.size, _FORWARD_NS, flat_x, flat_output)
        return output, (x if keeps == "input" else output, backward) if keep else ()

    return Implementation("numba", run, partial(_slopes, op), per_element(*flops))


def _slopes(op: Op, gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Return the gradient by what the forward saved: an array, the kernel that makes its slope, and numbers for it."""
    kept, backward, *numbers = saved
    if kept is None:
        return op.reference.backward(gradient, backward, needs, owned)
    ordered = in_order_of(gradient, kept)
    down = ordered if owned or ordered is not gradient else np.empty_like(ordered)
    threads.split(backward, ordered.size, _BACKWARD_NS, flat(ordered), flat(kept), flat(down), *numbers)
    return (down,)


def _power(keep: bool, x: Array, *, exponent: float) -> tuple[Array, Saved]:
    """Cube of many float32, and what a square's gradient needs; the rest is NumPy's, which squares as fast."""
    if x.dtype != FLOAT32 or x.size < _LEAST_POWERS.get(exponent, math.inf) or (exponent == 2 and not keep):
        output, saved = ops.power.reference.forward(keep, x, exponent=exponent)
        return output, (None, saved) if keep else ()
    return _with_numbers(keep, x, *POWERS[exponent])


def _leaky_relu(keep: bool, x: Array, *, slope: float) -> tuple[Array, Saved]:
    """Leaky ReLU of float32; other dtypes go to the op's reference."""
    if x.dtype != FLOAT32:
        output, saved = ops.leaky_relu.reference.forward(keep, x, slope=slope)
        return output, (None, saved) if keep else ()
    return _with_numbers(keep, x, SHARES[ops.leaky_relu], leaky_relu_backward_share, slope)


def _with_numbers(keep: bool, x: Array, forward: Any, backward: Any, *numbers: Any) -> tuple[Array, Saved]:
    """Run a kernel that takes numbers; save the input."""
    x, flat_x, output, flat_output = beside(x)
    threads.split(forward, x.size, _FORWARD_NS, flat_x, flat_output, *numbers)
    return output, (x, backward, *numbers) if keep else ()


def fill_gelu(x: Array, output: Array) -> None:
    """Fill ``output`` with the GELU of ``x``, both dense float32 of one memory order."""
    threads.split(gelu_share, x.size, _FORWARD_NS, flat(x), flat(output))


def _tanh_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """One pass over many float32 in place of three; NumPy's forward, a table looked up in vectors, none is faster."""
    kept = saved[0]
    if kept.size < _LEAST_TANH or kept.dtype != FLOAT32:
        return ops.tanh.reference.backward(gradient, saved, needs, owned)
    return _slopes(ops.tanh, gradient, (kept, tanh_backward_share), needs, owned)


tanh_backward_share = _backward_share(lambda y: _ONE - y * y, "tanh")
_ACTIVATIONS: tuple[tuple[Op, Any, str, tuple[int, int]], ...] = (
    (ops.gelu, gelu_backward_share, "input", (7, 15)),
    (ops.silu, _backward_share(silu_slope, "silu"), "input", (5, 8)),
    (ops.sigmoid, _backward_share(lambda y: y * (_ONE - y), "sigmoid"), "output", (4, 3)),
    (ops.relu, _backward_share(lambda y: _ONE if y > _ZERO else _ZERO, "relu"), "output", (1, 2)),
)
_POINTWISE: dict[Op, Implementation] = {
    **{each[0]: _implementation(*each) for each in _ACTIVATIONS},
    ops.tanh: Implementation("numba", ops.tanh.reference.forward, _tanh_backward, per_element(1, 3)),
    ops.leaky_relu: Implementation("numba", _leaky_relu, partial(_slopes, ops.leaky_relu), per_element(2, 2)),
    ops.power: Implementation("numba", _power, partial(_slopes, ops.power), per_element(2, 3)),
}


#: About how long an element takes, forward and backward, in nanoseconds.
_ROWS_FORWARD_NS, _ROWS_BACKWARD_NS = 0.2, 0.3
#: Rows whose gradients of the bias are one partial sum, so that the sum does not depend on the threads.
_ROWS = 64


@kernel
def bias_gelu_share(start: Any, stop: Any, x: Any, bias: Any, output: Any) -> None:
    """Fill rows ``start`` to ``stop``."""
    for number in range(start, stop):
        row, result = line(x, number), line(output, number)
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
            g, row, result = line(gradient, number), line(x, number), line(down, number)
            for i in range(row.size):
                slope = g[i] * gelu_slope(row[i] + bias[i])
                result[i] = slope
                sums[i] += slope


def _bias_gelu(keep: bool, x: Array, bias: Array) -> tuple[Array, Saved]:
    """GELU of x + bias, float32 of any shape and strides; the reference runs other dtypes and refuses bad shapes."""
    fits = x.ndim and bias.shape == (x.shape[-1],) and x.dtype == bias.dtype == FLOAT32
    if not fits:
        output, saved = fused.bias_gelu.reference.forward(keep, x, bias)
        return output, (None, saved) if keep else ()
    rows, bias = rows_of(x), np.ascontiguousarray(bias)
    output = np.empty(x.shape, FLOAT32)
    threads.split(bias_gelu_share, len(rows), rows.shape[1] * _ROWS_FORWARD_NS, rows, bias, rows_of(output))
    return output, (rows, bias, x.shape) if keep else ()


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
    if x.dtype != FLOAT32 or not x.size or x.ndim < 2 or x.shape[-2] > x.shape[-1]:
        output, saved = fused.causal_softmax.reference.forward(keep, x)
        return output, (None, saved) if keep else ()
    rows = rows_of(x)
    output = np.empty(x.shape, FLOAT32)
    threads.split(causal_softmax_share, len(rows), rows.shape[1] * FORWARD_NS, rows, rows_of(output), x.shape[-2])
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


@lru_cache(maxsize=64)
def _threshold_and_factor(probability: float) -> tuple[np.uint64, np.float32]:
    factor = np.float32(0 if probability == 1 else 1 / (1 - probability))
    return np.uint64(round(probability * 2**32)), factor


def _run(x: Array, output: Array, seed: np.uint64, probability: float) -> None:
    """Fill ``output``; both contiguous."""
    numbers = _threshold_and_factor(probability)
    threads.split(dropout_share, x.size, _NS, x.reshape(-1), output.reshape(-1), seed, *numbers)


def _forward(keep: bool, x: Array, *, probability: float, generator: np.random.Generator) -> tuple[Array, Saved]:
    """Dropout of many float32 of any shape and strides; few, and other dtypes, go to the op's reference.

    It draws one seed from ``generator``, so what is dropped is not what the reference drops; how much is.
    """
    if x.size < _LEAST_DROPOUT or x.dtype != FLOAT32:
        return ops.dropout.reference.forward(keep, x, probability=probability, generator=generator)
    seed = np.uint64(generator.bit_generator.random_raw())
    x = np.ascontiguousarray(x)
    output = np.empty_like(x)
    _run(x, output, seed, probability)
    return output, (seed, probability) if keep else ()


def _backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if len(saved) == 1:
        return ops.dropout.reference.backward(gradient, saved, needs, owned)
    ordered = np.ascontiguousarray(gradient)
    down = ordered if owned or ordered is not gradient else np.empty_like(ordered)
    _run(ordered, down, *saved)
    return (down,)


_DROPOUT = {ops.dropout: Implementation("numba", _forward, _backward, per_element(2))}

IMPLEMENTATIONS: dict[Op, Implementation] = {**_POINTWISE, **_FUSED_ROWS, **_DROPOUT}
