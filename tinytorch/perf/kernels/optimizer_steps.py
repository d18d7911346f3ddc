"""A step of Adam, AdamW or SGD over a parameter in one pass: everything is read once and written once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.core.optimizers import REFERENCE_RULES, AdamSettings, SGDSettings, StepRules
from tinytorch.perf.kernels import threads
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.vector_math import multiply_add

#: About how long an element takes, in nanoseconds.
_ADAM_NS, _SGD_NS = 0.7, 0.4


@kernel
def adam_share(
    start: Any,
    stop: Any,
    values: Any,
    gradient: Any,
    first: Any,
    second: Any,
    betas: Any,
    rate: Any,
    epsilon: Any,
    shrink: Any,
    decay: Any,
) -> None:
    """Change ``values``, ``first`` and ``second`` from ``start`` to ``stop``.

    ``rate`` and ``epsilon`` carry the bias corrections; values are first multiplied by ``shrink`` (decoupled decay),
    and ``decay`` times them is added to the gradient.
    """
    values, gradient = values[start:stop], gradient[start:stop]
    first, second = first[start:stop], second[start:stop]
    beta, beta_square, fresh, fresh_square = betas
    for i in range(values.size):
        value = values[i] * shrink
        slope = multiply_add(decay, values[i], gradient[i])
        mean = multiply_add(beta, first[i], fresh * slope)
        square = multiply_add(beta_square, second[i], fresh_square * slope * slope)
        first[i], second[i] = mean, square
        values[i] = value - rate * mean / (np.float32(math.sqrt(square)) + epsilon)


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


def _fits(values: Array, *others: Array) -> bool:
    """Return whether all are float32 and lie in C order; the others are the reference's to do, or to refuse."""
    return all(array.dtype == np.float32 and array.flags.c_contiguous for array in (values, *others))


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


def _adam(values: Array, gradient: Array, first: Array, second: Array, settings: AdamSettings) -> None:
    if not _fits(gradient, values, first, second):
        REFERENCE_RULES.adam(values, gradient, first, second, settings)
        return
    beta, beta_square = settings.betas
    # What is fresh is taken from 1 before rounding: 1 - 0.999 in float32 is off by 1e-5.
    betas = tuple(np.float32(number) for number in (beta, beta_square, 1 - beta, 1 - beta_square))
    numbers = (np.float32(number) for number in settings[1:])
    flat = [array.reshape(-1) for array in (values, gradient, first, second)]
    threads.split(adam_share, values.size, _ADAM_NS, *flat, betas, *numbers)


#: The steps of optimizers, compiled: float32 in C order; anything else runs in NumPy.
RULES = StepRules(_sgd, _adam)
