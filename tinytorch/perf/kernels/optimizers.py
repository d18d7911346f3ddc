"""A step of Adam, AdamW or SGD in one pass over all parameters: everything is read once and written once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import addressof, c_char
from functools import partial
from itertools import cycle
from operator import attrgetter, is_
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tinytorch.core.op import Array
from tinytorch.core.optimizers import AdamSettings, Optimizer, SGDSettings, StepRules, numpy_adam, numpy_sgd
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import floats_at
from tinytorch.perf.kernels.runtime.vector_math import multiply_add

#: About how long an element takes, in nanoseconds.
_ADAM_NS, _SGD_NS = 0.7, 0.4
#: Elements of one item of a call's work.
_PIECE = 16_384
_FLOAT32 = np.dtype(np.float32)
_data, _writable = attrgetter("_data"), attrgetter("flags.writeable")


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
def sgd_line(values: Any, gradient: Any, velocity: Any, numbers: Any) -> None:
    """Change flat ``values`` and ``velocity``; ``numbers``: rate, momentum, how much of values the gradient gets."""
    rate, momentum, decay = numbers[0], numbers[1], numbers[2]
    for i in range(values.size):
        speed = multiply_add(momentum, velocity[i], multiply_add(decay, values[i], gradient[i]))
        velocity[i] = speed
        values[i] = multiply_add(-rate, speed, values[i])


@kernel
def plain_sgd_line(values: Any, gradient: Any, numbers: Any) -> None:
    """Change flat ``values``; ``numbers`` are those of `sgd_line`."""
    rate, decay = numbers[0], numbers[2]
    for i in range(values.size):
        values[i] = multiply_add(-rate, multiply_add(decay, values[i], gradient[i]), values[i])


@kernel
def adam_share(start: Any, stop: Any, pieces: Any, places: Any, numbers: Any) -> None:
    """Change pieces ``start`` to ``stop``: a piece is (parameter, its first byte, how many elements).

    ``places`` has a row for each parameter: addresses of values, gradient and state.
    """
    for piece in range(start, stop):
        which, offset, count = pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
        values, gradient = floats_at(places[which, 0] + offset, count), floats_at(places[which, 1] + offset, count)
        first, second = floats_at(places[which, 2] + offset, count), floats_at(places[which, 3] + offset, count)
        adam_line(values, gradient, first, second, numbers)


@kernel
def sgd_share(start: Any, stop: Any, pieces: Any, places: Any, numbers: Any) -> None:
    """Do what `adam_share` does, by SGD, with momentum if there is a place for the velocity."""
    for piece in range(start, stop):
        which, offset, count = pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
        values, gradient = floats_at(places[which, 0] + offset, count), floats_at(places[which, 1] + offset, count)
        if places.shape[1] > 2:
            sgd_line(values, gradient, floats_at(places[which, 2] + offset, count), numbers)
        else:
            plain_sgd_line(values, gradient, numbers)


def _address(array: Any, size: int) -> int:
    """Return where an array begins; 0 unless it is writable float32 in C order and holds ``size`` elements, if any."""
    if array is None or not size or array.size != size or array.dtype != _FLOAT32 or not array.flags.carray:
        return 0
    return addressof(c_char.from_buffer(array))


class _Table:
    """Where values and state of an optimizer lie, for as long as ``arrays`` are what holds them.

    Attributes:
        sizes: elements of each parameter, 0 of one that the kernel cannot change.
        places, pieces: what `adam_share` reads; the gradients' addresses are of the step.
        elements: of a piece, on average.
    """

    def __init__(self, optimizer: Optimizer, arrays: list[Array]) -> None:
        self.arrays = arrays
        sizes = [array.size for array in arrays[: len(optimizer.parameters)]]
        found = np.array(list(map(_address, arrays, cycle(sizes))), np.int64).reshape(-1, len(sizes))
        self.places = np.zeros((len(sizes), len(found) + 1), np.int64)
        self.places[:, 0], self.places[:, 2:] = found[0], found[1:].T
        self.sizes = [size if all(column) else 0 for size, column in zip(sizes, found.T, strict=True)]
        pieces = [
            (which, 4 * start, min(_PIECE, size - start))
            for which, size in enumerate(self.sizes)
            for start in range(0, size, _PIECE)
        ]
        self.pieces = np.array(pieces, np.int64).reshape(-1, 3)
        self.elements = sum(self.sizes) / max(len(pieces), 1)

    def holds(self, arrays: list[Array]) -> bool:
        """Return whether these are the arrays, and may be written to."""
        same = len(arrays) == len(self.arrays) and all(map(is_, arrays, self.arrays))
        return same and all(map(_writable, arrays[: len(self.sizes)]))


#: Tables of optimizers that made a step.
_tables: WeakKeyDictionary[Optimizer, _Table] = WeakKeyDictionary()


def _step(
    optimizer: Optimizer, indices: Sequence[int], share: Any, ns: float, numbers: Any, reference: Callable[..., None]
) -> None:
    """Run ``share``, which takes ``ns`` an element, on what is float32 in C order, and ``reference`` on the others.

    Both change the parameters at ``indices`` alone.
    """
    arrays = [*map(_data, optimizer.parameters), *optimizer.state_arrays()]
    table = _tables.get(optimizer)
    if table is None or not table.holds(arrays):
        table = _tables[optimizer] = _Table(optimizer, arrays)
    gradients: list[Array | None] = [None] * len(optimizer.parameters)
    for index in indices:
        gradients[index] = optimizer.parameters[index].grad
    pieces = table.pieces
    found = list(map(_address, gradients, table.sizes))
    table.places[:, 1] = found
    if 0 in found:
        pieces = pieces[table.places[pieces[:, 0], 1] != 0]
        for index, gradient in enumerate(gradients):
            if gradient is not None and not found[index]:
                values, *state = arrays[index :: len(gradients)]
                reference(values, gradient, *state)
    threads.split(share, len(pieces), ns * table.elements, pieces, table.places, np.array(numbers, np.float32))


def _sgd(optimizer: Optimizer, settings: SGDSettings, indices: Sequence[int]) -> None:
    _step(optimizer, indices, sgd_share, _SGD_NS, settings, partial(numpy_sgd, settings))


def _adam(optimizer: Optimizer, settings: AdamSettings, indices: Sequence[int]) -> None:
    (beta, beta_square), *rest = settings
    # What is fresh is taken from 1 before rounding: 1 - 0.999 in float32 is off by 1e-5.
    numbers = (beta, beta_square, 1 - beta, 1 - beta_square, *rest)
    _step(optimizer, indices, adam_share, _ADAM_NS, numbers, partial(numpy_adam, settings))


#: The steps of optimizers, compiled: float32 in C order; anything else runs in NumPy.
RULES = StepRules(_sgd, _adam)
