"""A step of Adam, AdamW or SGD in one pass over a parameter: everything is read once and written once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.core.optimizers import REFERENCE_RULES, AdamPart, AdamSettings, SGDSettings, StepRules
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.vector_math import multiply_add

#: About how long an element takes, in nanoseconds.
_ADAM_NS, _SGD_NS = 0.7, 0.4
#: Parameters of one call, and elements of one item of its work.
_TOGETHER, _PIECE = 8, 16_384
_FLOAT32 = np.dtype(np.float32)
#: Fills a call up.
_NOTHING = np.empty(0, np.float32)


@kernel
def adam_line(values: Any, gradient: Any, first: Any, second: Any, numbers: Any) -> None:
    """Change flat ``values``, ``first`` and ``second`` of one size.

    ``numbers``: both betas, what is fresh by each, the rate and epsilon with the bias corrections, what values are
    first multiplied by (decoupled decay), and how much of them is added to the gradient.
    """
    beta, beta_square, fresh, fresh_square = numbers[0], numbers[1], numbers[2], numbers[3]
    rate, epsilon, shrink, decay = numbers[4], numbers[5], numbers[6], numbers[7]
    for i in range(values.size):
        value = values[i] * shrink
        slope = multiply_add(decay, values[i], gradient[i])
        mean = multiply_add(beta, first[i], fresh * slope)
        square = multiply_add(beta_square, second[i], fresh_square * slope * slope)
        first[i], second[i] = mean, square
        values[i] = value - rate * mean / (np.float32(math.sqrt(square)) + epsilon)


@kernel
def adam_share(start: Any, stop: Any, pieces: Any, arrays: Any, numbers: Any) -> None:
    """Change pieces ``start`` to ``stop``: a piece is (parameter, first element, one after the last).

    ``arrays`` holds four for each parameter: values, gradient and both moments.
    """
    for piece in range(start, stop):
        which, begin, end = 4 * pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
        values, gradient = arrays[which][begin:end], arrays[which + 1][begin:end]
        adam_line(values, gradient, arrays[which + 2][begin:end], arrays[which + 3][begin:end], numbers)


@kernel
def sgd_share(
    start: Any, stop: Any, values: Any, gradient: Any, velocity: Any, momentum: Any, rate: Any, decay: Any
) -> None:
    """Change ``values`` and ``velocity`` from ``start`` to ``stop``."""
    values, gradient, velocity = values[start:stop], gradient[start:stop], velocity[start:stop]
    for i in range(values.size):
        speed = multiply_add(momentum, velocity[i], multiply_add(decay, values[i], gradient[i]))
        velocity[i] = speed
        values[i] = multiply_add(-rate, speed, values[i])


@kernel
def plain_sgd_share(start: Any, stop: Any, values: Any, gradient: Any, rate: Any, decay: Any) -> None:
    """Change ``values`` from ``start`` to ``stop``."""
    values, gradient = values[start:stop], gradient[start:stop]
    for i in range(values.size):
        values[i] = multiply_add(-rate, multiply_add(decay, values[i], gradient[i]), values[i])


def _fits(*arrays: Array) -> bool:
    """Return whether all are writable float32 in C order; others are the reference's to do, or to refuse."""
    return False not in [array.dtype == _FLOAT32 and array.flags.carray for array in arrays]


def _sgd(values: Array, gradient: Array, velocity: Array | None, settings: SGDSettings) -> None:
    changed = (values,) if velocity is None else (values, velocity)
    if not _fits(gradient, *changed):
        REFERENCE_RULES.sgd(values, gradient, velocity, settings)
        return
    rate, momentum, decay = (np.float32(number) for number in settings)
    flat = [array.reshape(-1) for array in (values, gradient)]
    if velocity is None:
        threads.split(plain_sgd_share, values.size, _SGD_NS, *flat, rate, decay)
    else:
        threads.split(sgd_share, values.size, _SGD_NS, *flat, velocity.reshape(-1), momentum, rate, decay)


@lru_cache(maxsize=256)
def _pieces(sizes: tuple[int, ...]) -> Array:
    """Return the pieces (parameter, first element, one after the last) of parameters of these sizes."""
    found = [
        (which, start, min(start + _PIECE, size))
        for which, size in enumerate(sizes)
        for start in range(0, size, _PIECE)
    ]
    return np.array(found, np.int64).reshape(-1, 3)


def _adam(parts: Sequence[AdamPart], settings: AdamSettings) -> None:
    """A few parameters at a time, because the kernel is compiled for a fixed number."""
    arrays = [array for part in parts for array in part]
    if not _fits(*arrays):
        REFERENCE_RULES.adam([part for part in parts if not _fits(*part)], settings)
        arrays = [array for part in parts if _fits(*part) for array in part]
    (beta, beta_square), *rest = settings
    # What is fresh is taken from 1 before rounding: 1 - 0.999 in float32 is off by 1e-5.
    numbers = np.array((beta, beta_square, 1 - beta, 1 - beta_square, *rest), np.float32)
    for start in range(0, len(arrays), 4 * _TOGETHER):
        flat = [array.reshape(-1) for array in arrays[start : start + 4 * _TOGETHER]]
        sizes = tuple([array.size for array in flat[::4]])
        flat += [_NOTHING] * (4 * _TOGETHER - len(flat))
        pieces = _pieces(sizes)
        ns = _ADAM_NS * sum(sizes) / max(len(pieces), 1)
        threads.split(adam_share, len(pieces), ns, pieces, tuple(flat), numbers)


#: The steps of optimizers, compiled: float32 in C order; anything else runs in NumPy.
RULES = StepRules(_sgd, _adam)
