"""Ways through memory, compiled, to be read on a page: the same few operations, whose places alone differ.

The walks add whole numbers, which takes one cycle: what such a loop waits for is memory. One compiled body takes views
of any stride, so that a column is walked by the code that walks a row.
"""

from __future__ import annotations

from typing import Any

from tinytorch.perf.kernels.runtime.compiling import kernel


@kernel
def add_up(numbers: Any) -> Any:
    """Return the sum of a matrix, row by row."""
    total = 0
    for row in range(numbers.shape[0]):
        for column in range(numbers.shape[1]):
            total += numbers[row, column]
    return total


@kernel
def follow(following: Any, places: Any, steps: int) -> None:
    """Go ``steps`` steps in each chain: from each of ``places`` to where ``following`` leads from there."""
    for _ in range(steps):
        for chain in range(places.size):
            places[chain] = following[places[chain]]


@kernel
def overwrite(numbers: Any, value: Any) -> None:
    """Write ``value`` into each number, and read none."""
    for at in range(numbers.size):
        numbers[at] = value


@kernel
def update(numbers: Any, value: Any) -> None:
    """Add ``value`` to each number: read it and write it."""
    for at in range(numbers.size):
        numbers[at] += value
