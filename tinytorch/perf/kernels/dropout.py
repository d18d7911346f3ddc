"""Dropout with random numbers made in the same pass, and made again for backward in place of a stored mask.

Element i's number is the i-th of the sequence of splitmix64 from a seed, so no thread and no order changes it. Source:
G. Steele, D. Lea and C. Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Gradients, Implementation, Saved, per_element
from tinytorch.perf.kernels import threads
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.vectors import cpu_features

#: About how long an element takes, in nanoseconds.
_NS = 0.5
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ZERO = np.float32(0)
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
    threshold, factor = np.uint64(round(probability * 2**32)), np.float32(1 / (1 - probability))
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


IMPLEMENTATIONS = {ops.dropout: Implementation("numba", _forward, _backward, per_element(2))}
