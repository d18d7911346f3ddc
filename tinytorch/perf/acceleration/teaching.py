"""A transformer's ops as one first writes them, to see what they do: loops over elements, and nothing compiled.

They teach, and are here to be overtaken: the honest baseline is NumPy's implementation. None has a backward, so that
they raise ValueError outside of `no_grad`.
"""

from __future__ import annotations

import math

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Op, Saved
from tinytorch.perf.acceleration.products import dot_products

#: sqrt(2 / pi), of the tanh form of GELU.
_ROOT = math.sqrt(2 / math.pi)


def _refused(keep: bool) -> None:
    if keep:
        raise ValueError("keep must be False: teaching loops have no backward, so run them within no_grad()")


def linear_by_dot_products(keep: bool, x: Array, weight: Array, bias: Array | None = None) -> tuple[Array, Saved]:
    """Return x W + b with a call of `numpy.dot` for each number of the result."""
    _refused(keep)
    output = dot_products(x.reshape(-1, x.shape[-1]), weight)
    if bias is not None:
        for row in range(len(output)):
            for column in range(output.shape[1]):
                output[row, column] += bias[column]
    return output.reshape(*x.shape[:-1], weight.shape[1]), ()


def gelu_element_by_element(keep: bool, x: Array) -> tuple[Array, Saved]:
    """Return the GELU in its tanh form, one number after the other."""
    _refused(keep)
    flat = x.reshape(-1)
    output = np.empty_like(flat)
    for index in range(flat.size):
        value = float(flat[index])
        output[index] = 0.5 * value * (1 + math.tanh(_ROOT * (value + 0.044715 * value * value * value)))
    return output.reshape(x.shape), ()


def layer_norm_element_by_element(
    keep: bool, x: Array, weight: Array, bias: Array, *, epsilon: float
) -> tuple[Array, Saved]:
    """Return layer normalization over the last axis: a loop for the mean, one for the variance, one for the result."""
    _refused(keep)
    width = x.shape[-1]
    rows = x.reshape(-1, width)
    output = np.empty_like(rows)
    for row in range(len(rows)):
        mean = 0.0
        for column in range(width):
            mean += float(rows[row, column]) / width
        variance = 0.0
        for column in range(width):
            variance += (float(rows[row, column]) - mean) ** 2 / width
        inverse = 1 / math.sqrt(variance + epsilon)
        for column in range(width):
            output[row, column] = (float(rows[row, column]) - mean) * inverse * weight[column] + bias[column]
    return output.reshape(x.shape), ()


def self_attention_element_by_element(keep: bool, packed: Array, *, heads: int, causal: bool) -> tuple[Array, Saved]:
    """Return attention (B, T, H D) of packed (B, T, 3 H D), in loops over sequence, head and query."""
    _refused(keep)
    batch, length, width = packed.shape
    depth = width // (3 * heads)
    output = np.empty((batch, length, heads * depth), packed.dtype)
    for sequence in range(batch):
        for head in range(heads):
            for query in range(length):
                seen = query + 1 if causal else length
                _attend(packed[sequence], output[sequence], query, seen, head * depth, depth)
    return output, ()


def _attend(packed: Array, output: Array, query: int, seen: int, first: int, depth: int) -> None:
    """Fill one head's output (``depth`` columns from ``first`` on) of one query that sees ``seen`` keys."""
    width = output.shape[1]
    scores = []
    for key in range(seen):
        total = 0.0
        for column in range(first, first + depth):
            total += float(packed[query, column]) * float(packed[key, width + column])
        scores.append(total / math.sqrt(depth))
    largest = max(scores)
    weights = [math.exp(score - largest) for score in scores]
    whole = sum(weights)
    for column in range(first, first + depth):
        mixed = 0.0
        for key in range(seen):
            mixed += weights[key] * float(packed[key, 2 * width + column])
        output[query, column] = mixed / whole


def _no_backward(_gradient: Array, _saved: Saved, _needs: tuple[bool, ...], _owned: bool) -> Gradients:
    raise ValueError("teaching loops have no backward: run them within no_grad()")


#: The ops of a GPT that most of its time goes to, written so.
TEACHING: dict[Op, Implementation] = {
    ops.linear: Implementation("a dot product an element", linear_by_dot_products, _no_backward),
    ops.self_attention: Implementation("loops", self_attention_element_by_element, _no_backward),
    ops.gelu: Implementation("loops", gelu_element_by_element, _no_backward),
    ops.layer_norm: Implementation("loops", layer_norm_element_by_element, _no_backward),
}
