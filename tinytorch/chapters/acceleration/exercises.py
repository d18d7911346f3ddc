"""Checks for the exercises on one product: each passes or fails a reader's function, and says on what it failed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.chapters.acceleration.tiles import memory_operations, needed
from tinytorch.chapters.checking import exercise_check, judged_faster
from tinytorch.core.op import Array
from tinytorch.perf.acceleration.products import array_element_loops
from tinytorch.perf.measuring import interleave
from tinytorch.perf.measuring.comparison import compare_paired

#: CPUs of the exercise: registers, latency of a multiply-add, and units.
CPUS = ((12, 4, 1), (16, 5, 2), (16, 4, 2), (32, 4, 2), (32, 4, 4), (64, 5, 4))


def _least_operations(registers: int, chains: int) -> float:
    """Return the fewest memory operations for each multiply-add of any tile that fits."""
    return min(
        memory_operations(rows, vectors)
        for rows in range(1, registers)
        for vectors in range(1, registers)
        if needed(rows, vectors) <= registers and rows * vectors >= chains
    )


@exercise_check
def check_best_tile(function: Callable[[int, int, int], tuple[int, int]]) -> None:
    """Return "... passed" if ``function(registers, latency, units)`` is the tile with the fewest memory operations.

    Its sums, a row of B and a number of A fit the registers, and it has ``latency * units`` sums.
    """
    for registers, latency, units in CPUS:
        answer = function(registers, latency, units)
        assert np.shape(answer) == (2,), (
            f"with {registers} registers the answer must be (rows, vectors), not {answer!r}"
        )
        rows, vectors = answer
        shown = f"with {registers} registers {rows} × {vectors}"
        assert needed(rows, vectors) <= registers, f"{shown} does not fit: it needs {needed(rows, vectors)}"
        chains = latency * units
        assert rows * vectors >= chains, f"{shown} has fewer than {chains} sums"
        found, least = memory_operations(rows, vectors), _least_operations(registers, chains)
        assert found <= least + 1e-12, f"{shown} takes {found:.3f} memory operations per multiply-add, not {least:.3f}"


@exercise_check
def check_by_rows(function: Callable[[Array, Array], Any]) -> str:
    """Return "... passed" if ``function(a, b)`` is their product, and faster than loops over elements.

    Where the interval of the speedup leaves it open, the result says to run it again.
    """
    draw = np.random.default_rng(0)
    for rows, inner, columns in ((1, 1, 1), (5, 7, 3), (24, 16, 40)):
        a = draw.standard_normal((rows, inner), dtype=np.float32)
        b = draw.standard_normal((inner, columns), dtype=np.float32)
        found = np.asarray(function(a, b))
        assert found.shape == (rows, columns), f"the product must have shape {(rows, columns)}, not {found.shape}"
        error = float(np.abs(found - a.astype(np.float64) @ b).max())
        assert error <= 1e-4, f"for shapes {a.shape} and {b.shape} the result has an error of {error:.2g}"
    functions = {"elements": lambda: array_element_loops(a, b), "yours": lambda: function(a, b)}
    times = interleave(functions, repeats=20, at_most_seconds=1.0, warmup_seconds=0.05)
    return judged_faster("by_rows", compare_paired(times["elements"], times["yours"], matters=0.02))


@exercise_check
def check_panels(function: Callable[[Array, int], Any]) -> None:
    """Return "... passed" if ``function(b, width)`` lays ``b`` out in panels of ``width`` columns.

    The result has the shape (panels, rows, width), lies in one piece of memory, and is zero beyond the last column.
    """
    for rows, columns, width in ((4, 6, 3), (5, 7, 3), (3, 2, 8), (96, 100, 48)):
        b = np.arange(1, rows * columns + 1, dtype=np.float32).reshape(rows, columns)
        found = np.asarray(function(b, width))
        panels = -(-columns // width)
        shown = f"{columns} columns in panels of {width}"
        assert found.shape == (panels, rows, width), f"{shown}: the shape is {found.shape}"
        assert found.flags.c_contiguous, f"{shown}: rows of a panel must follow each other in memory"
        filled = np.zeros((rows, panels * width), np.float32)
        filled[:, :columns] = b
        for panel in range(panels):
            expected = filled[:, panel * width : (panel + 1) * width]
            assert np.array_equal(found[panel], expected), f"{shown}: panel {panel} has wrong elements"
