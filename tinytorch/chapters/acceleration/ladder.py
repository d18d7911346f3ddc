"""Ladder of matrix products, from loops in Python to BLAS and a second core."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tinytorch.chapters.acceleration.tiles import LINE_BYTES, LINES, SERVED, Timed, block_depth, drawn, limits
from tinytorch.perf.acceleration import products
from tinytorch.perf.acceleration.techniques import with_threads
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS
from tinytorch.perf.machine import Ceilings, identity
from tinytorch.perf.measuring import (
    Measurement,
    Modelled,
    Unmeasured,
    blas_threads,
    derived,
    interleave,
    quotient,
    ratio,
)
from tinytorch.perf.measuring.planning import has_tiny_budget

ONE_CORE = "the process that built this page could use one core only"
FREE_BLAS = "NumPy's BLAS chooses the number of its threads by itself here"
#: What is timed beside the steps: one read of the second matrix, for as many operations as a row does with it.
READING = "reading B once for each row"
#: Loops of Python, which no plot over the width has.
PYTHON = "Python, lists"
#: Odd multiples of 48: whole tiles, and rows that spread over all sets of a cache.
WIDTHS = (48, 144, 240, 432, 720, 1200)
#: One of them whose matrices fit in near caches.
NARROW = 240
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
        """Bytes of the cache lines on which a panel with all its rows lies."""
        return LINE_BYTES * LINES * self.width

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each way as a row of a table."""
        return [
            {"name": name, "rows": step.rows or step.widest, "rate": self.rates[name], "of_peak": self.of_peak[name]}
            for name, step in steps().items()
        ]

    def expected(self, near: Measurement) -> Modelled:
        """Return the share of the peak of the product in cache tiles if one tile in many fetches its panel.

        The others reach the share ``near``, and this one the share of the tile in registers.
        """
        far = self.of_peak["tile in registers"]
        share = derived("share of the peak if a panel is fetched once", _once_fetched, near, far, unit="%")
        return Modelled.by("one tile in many fetches the panel", share)

    def of_expected(self, near: Measurement) -> Measurement:
        """Return the share that the product in cache tiles reaches over the expected one."""
        far, found = self.of_peak["tile in registers"], self.of_peak["in cache tiles"]
        what = "share of the peak in cache tiles, measured over expected"
        return derived(what, lambda near, far, found: found / _once_fetched(near, far), near, far, found)


def _once_fetched(near: Any, far: Any) -> Any:
    return 1 / (1 / near + ROWS / SERVED / far)


def steps(deep: int = 128) -> dict[str, Step]:
    """Return all ways by name, in the order of the page; cache tiles are ``deep`` rows deep.

    Each row of a product needs all of the second matrix, so that a loop's rate does not depend on how many are
    computed; what is kept in a cache must serve many.
    """
    return {
        PYTHON: Step(products.python_loops, widest=24),
        "compiled, i j k": Step(products.compiled_loops, rows=1),
        "compiled, i k j": Step(products.compiled_loops_by_rows, rows=12),
        "tile in registers": Step(products.register_tiles, rows=96),
        "panel by panel": Step(lambda a, b: products.cache_tiles(a, b, deep=len(b)), rows=SERVED),
        "in cache tiles": Step(partial(products.cache_tiles, deep=deep), rows=SERVED),
        "packed": Step(partial(products.packed_blocks, deep=deep), rows=SERVED),
        "BLAS": Step(products.blas, rows=SERVED),
    }


def matmul_ladder(width: int = 480, *, deep: int = 128, repeats: int = 15, at_most_seconds: float = 20.0) -> Ladder:
    """Return the interleaved times of all steps at ``width`` on a thread, with the peak and the time to read a matrix.

    Each result is compared with float64 before it is timed. A slow step may use fewer rows or narrower matrices.

    Args:
        width: rows and columns of both matrices; a multiple of 48 has whole tiles.
        deep: rows of the second matrix in a cache tile.
        repeats: samples of each.
        at_most_seconds: time limit for all samples.

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
        _check_result(name, step, min(width, step.widest or 96))
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
        warm = min(0.1, at_most_seconds / 40)
        seconds = interleave(fresh, repeats=repeats, at_most_seconds=at_most_seconds, warmup_seconds=warm)
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
    width = 528 if has_tiny_budget() else width_beyond(machine)  # one round of the wide ladder takes a second
    return matmul_ladder(width, deep=block_depth(machine), repeats=12, at_most_seconds=_SECONDS)


def study_widths(machine: Ceilings, climb: Ladder) -> tuple[list[dict[str, Any]], dict[str, Measurement]]:
    """Return the share of the peak of each compiled way by width, and how much of it each keeps from `NARROW` on.

    The first has a row for each point of a plot, and the second is by name. The widest matrix is that of ``climb``.
    """
    deep = block_depth(machine)
    found = {width: matmul_ladder(width, deep=deep, repeats=8, at_most_seconds=0.6) for width in WIDTHS}
    found[climb.width] = climb
    names = [name for name in steps() if name != PYTHON]
    rows = [
        {"width": width, "name": name, "share": each.of_peak[name]} for width, each in found.items() for name in names
    ]
    narrow = found[NARROW].of_peak
    what = "share of the peak, widest matrix over narrow one"
    return rows, {name: quotient(climb.of_peak[name], narrow[name], f"{what}, {name}", "%") for name in names}


def width_beyond(machine: Ceilings) -> int:
    """Return the first odd multiple of 48, in steps of 960, at which a matrix takes twice the last cache.

    It is 5,808 at the most. Rows of such a matrix spread over all sets of a cache.
    """
    last = max(level.capacity or 0 for level in machine.levels)
    return next((width for width in range(1008, 5808, 960) if 4 * width**2 >= 2 * last), 5808)


def second_core() -> Measurement | Unmeasured:
    """Return what a second core brings to BLAS, in turns with one, or the reason why that cannot be measured here."""
    if identity().cores_usable < 2:
        return Unmeasured(ONE_CORE)
    if limited_blas_threads(2) != 2:
        return Unmeasured(FREE_BLAS)
    a, b = drawn(_WIDE, _WIDE), drawn(_WIDE, _WIDE)
    runs = {str(count): with_threads(lambda: np.matmul(a, b), count) for count in (1, 2)}
    times = interleave(runs, repeats=9, at_most_seconds=0.8, warmup_seconds=0.1)
    return ratio(times["1"], times["2"], f"time of BLAS with one thread over two, {_WIDE} wide")


def least_for_1024(machine: Ceilings) -> Modelled:
    """Return the least seconds of a product 1,024 wide."""
    seconds = machine.fp32_peak.per(2 * 1024**3, "s", "operations over the peak")
    return Modelled.by("the operations, at the peak", seconds)
