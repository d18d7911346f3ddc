"""Ladder of matrix products, from loops in Python to BLAS and a second core."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tinytorch.chapters.acceleration.tiles import SERVED, Timed, block_depth, drawn, limits
from tinytorch.perf.acceleration import products
from tinytorch.perf.acceleration.techniques import with_threads
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, WIDTH
from tinytorch.perf.machine import Ceilings, identity
from tinytorch.perf.measuring import Measurement, Modelled, Unmeasured, blas_threads, interleave, ratio
from tinytorch.perf.measuring.planning import has_tiny_budget

ONE_CORE = "the process that built this page could use one core only"
FREE_BLAS = "NumPy's BLAS chooses the number of its threads by itself here"
#: What is timed beside the steps: one read of the second matrix, for as many operations as a row does with it.
READING = "reading B once for each row"
#: Width of the product that a second core is given.
_WIDE = 1536
#: Seconds for the samples of the page's ladder.
_SECONDS = 8.0


class Step(NamedTuple):
    """One way to multiply: its function, and how many rows of the result are worth a reader's time, None for all.

    ``widest`` is the width that it is tried with at most, None for any.
    """

    function: Callable[[Any, Any], Any]
    rows: int | None = None
    widest: int | None = None


class Ladder(Timed):
    """All ways to multiply, beside the peak and one read of the second matrix."""

    @property
    def width(self) -> int:
        """Rows and columns of the second matrix."""
        return math.isqrt(self.operations[READING] // 2)

    @property
    def bytes(self) -> int:
        """Bytes of the second matrix."""
        return 4 * self.width**2

    @property
    def panel_bytes(self) -> int:
        """Bytes of all its rows, as wide as a tile."""
        return 4 * self.width * WIDTH

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each way as a row of a table."""
        return [
            {"name": name, "rows": step.rows or step.widest, "rate": self.rates[name], "of_peak": self.of_peak[name]}
            for name, step in steps().items()
        ]

    @property
    def inner_cycles(self) -> Measurement:
        """Cycles of a step in the order i, j, k."""
        return self.cycles("compiled, i j k", self.width**2)

    @property
    def of_allowed(self) -> Measurement:
        """Share that the tile in registers reaches of what its rows allow where reading the second matrix is all."""
        return self.gain(READING, "tile in registers").scaled(1 / ROWS, "%")


def steps(deep: int = 128) -> dict[str, Step]:
    """Return all ways by name, in the order of the page; cache tiles are ``deep`` rows deep.

    Each row of a product needs all of the second matrix, so that a loop's rate does not depend on how many are
    computed; what is kept in a cache must serve many.
    """
    return {
        "Python, lists": Step(products.python_loops, widest=48),
        "compiled, i j k": Step(products.compiled_loops, rows=1),
        "compiled, i k j": Step(products.compiled_loops_by_rows, rows=12),
        "tile in registers": Step(products.register_tiles, rows=48),
        "panel by panel": Step(lambda a, b: products.cache_tiles(a, b, deep=len(b)), rows=SERVED),
        "in cache tiles": Step(partial(products.cache_tiles, deep=deep), rows=SERVED),
        "packed": Step(partial(products.packed_blocks, deep=deep), rows=SERVED),
        "BLAS": Step(products.blas, rows=SERVED),
    }


def matmul_ladder(width: int = 480, *, deep: int = 128, repeats: int = 15, at_most_seconds: float = 20.0) -> Ladder:
    """Return the time of every step at ``width`` in turns, on one thread, beside the peak and a read of the matrix.

    Each is checked against float64 before it is timed. A step may take fewer rows, or narrower matrices.

    Args:
        width: rows and columns of both matrices; a multiple of 48 has whole tiles.
        deep: rows of the second matrix in a cache tile.
        repeats: samples of each.
        at_most_seconds: for all samples.

    Raises:
        ValueError: if ``width`` is below 1, or has no whole tiles.
        ArithmeticError: if a step's result is wrong.

    Examples:
        >>> from tinytorch.chapters.acceleration.ladder import matmul_ladder
        >>> matmul_ladder(0)
        Traceback (most recent call last):
        ...
        ValueError: width must be at least 1, not 0
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, not {width}")
    every, (loops, operations) = steps(deep), limits()
    for name, step in every.items():
        _check_result(name, step, min(width, 96))
    shapes = {name: (min(width, step.widest or width), step.rows or width) for name, step in every.items()}

    def fresh() -> dict[str, Callable[[], Any]]:
        a, b = drawn(min(width, SERVED), width), drawn(width, width)
        runs: dict[str, Callable[[], Any]] = {
            name: partial(every[name].function, a[:rows, :wide], b[:wide, :wide])
            for name, (wide, rows) in shapes.items()
        }
        read = b.reshape(-1)[: b.size // probes.STREAM_MULTIPLE * probes.STREAM_MULTIPLE]
        return {**runs, **loops, READING: partial(probes.read(LANES), read, 1)}

    operations |= {name: 2 * min(rows, wide) * wide**2 for name, (wide, rows) in shapes.items()}
    with blas_threads(1):
        seconds = interleave(fresh, repeats=repeats, at_most_seconds=at_most_seconds, warmup_seconds=0.1)
    return Ladder(seconds, {**operations, READING: 2 * width**2})


def _check_result(name: str, step: Step, width: int) -> None:
    """Raise ArithmeticError unless the step multiplies within float32 rounding."""
    a, b = drawn(width, width), drawn(width, width)
    wide = a.astype(np.float64), b.astype(np.float64)
    error = np.abs(step.function(a, b) - wide[0] @ wide[1])
    allowed = 2 * np.finfo(np.float32).eps * np.sqrt(width) * (np.abs(wide[0]) @ np.abs(wide[1]))
    if not (error <= allowed).all():
        raise ArithmeticError(f"{name} is wrong by up to {error.max():.3g}")


def study_ladder(machine: Ceilings) -> Ladder:
    """Return all steps with a second matrix that no cache holds."""
    width = 480 if has_tiny_budget() else width_beyond(machine)  # one round of the wide ladder takes a second
    return matmul_ladder(width, deep=block_depth(machine), repeats=12, at_most_seconds=_SECONDS)


def width_beyond(machine: Ceilings) -> int:
    """Return the first multiple of 960 at which a matrix takes twice the last cache, 5,760 at the most."""
    last = max(level.capacity or 0 for level in machine.levels)
    return next((width for width in range(960, 5760, 960) if 4 * width**2 >= 2 * last), 5760)


def second_core() -> Measurement | Unmeasured:
    """Return what a second core brings to BLAS, in turns with one, or the reason why that cannot be measured here."""
    if identity().cores_usable < 2:
        return Unmeasured(ONE_CORE)
    if limited_blas_threads(2) != 2:
        return Unmeasured(FREE_BLAS)
    a, b = drawn(_WIDE, _WIDE), drawn(_WIDE, _WIDE)
    runs = {str(count): with_threads(lambda: np.matmul(a, b), count) for count in (1, 2)}
    times = interleave(runs, repeats=9, at_most_seconds=1.2, warmup_seconds=0.1)
    return ratio(times["1"], times["2"], f"time of BLAS with one thread over two, {_WIDE} wide")


def least_for_1024(machine: Ceilings) -> Modelled:
    """Return the least seconds of a product 1,024 wide."""
    seconds = machine.fp32_peak.per(2 * 1024**3, "s", "operations over the peak")
    return Modelled.by("the operations, at the peak", seconds)
