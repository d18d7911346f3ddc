"""Ladder of matrix products, from loops in Python to BLAS and a second core, and the chart of it that grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tinytorch.chapters.acceleration.tiles import block_depth, drawn
from tinytorch.perf.acceleration import products
from tinytorch.perf.acceleration.techniques import with_threads
from tinytorch.perf.host.blas import limited_blas_threads, numpy_blas
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS
from tinytorch.perf.machine import Ceilings, ceilings, identity
from tinytorch.perf.measuring import (
    Measurement,
    Modelled,
    Unmeasured,
    blas_threads,
    interleave,
    measure,
    quotient,
    ratio,
)
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.values import as_measurement

ONE_CORE = "the process that built this page could use one core only"
FREE_BLAS = "NumPy's BLAS chooses the number of its threads by itself here"
#: Width of the product that a second core is given.
_WIDE = 2048


@dataclass(frozen=True)
class Step:
    """One way to multiply: what it is called, its function, and how much of a product is worth a reader's time.

    ``widest`` is the width that it is tried with at most, None for any; ``rows`` are those of the result, None for all.
    """

    name: str
    function: Callable[[Any, Any], Any]
    widest: int | None = None
    rows: int | None = None


_ELEMENTS, _LISTS = "Python, array elements", "Python, lists"
_INNER, _ROWS = "compiled, i j k", "compiled, i k j"
_REGISTERS, _CACHES, _PACKED, _BLAS = "tile in registers", "in cache tiles", "packed", "BLAS"
#: Rows of the result where a panel must serve many: whole tiles of any CPU.
SERVED = 384
#: In the order of the page. Each row of a product needs all of the second matrix, so that a loop's rate does not depend
#: on how many are computed; what is kept in a cache must serve many.
STEPS = (
    Step(_ELEMENTS, products.array_element_loops, 48),
    Step(_LISTS, products.python_loops, 96),
    Step(_INNER, products.compiled_loops, rows=1),
    Step(_ROWS, products.compiled_loops_by_rows, rows=12),
    Step(_REGISTERS, products.register_tiles, rows=96),
    Step(_CACHES, products.cache_tiles, rows=SERVED),
    Step(_PACKED, products.packed_blocks, rows=SERVED),
    Step(_BLAS, products.blas, rows=SERVED),
)
#: How many sums show the wait for an addition by itself, and how many products each adds up.
SUMS = (8, 4096)


@dataclass(frozen=True)
class Rung:
    """A step that was measured: ``seconds`` of ``rows`` rows of a product of float32 matrices ``width`` wide.

    ``threads`` are those of BLAS, ``peak`` is the FP32 ceiling of as many, which was measured too.
    """

    step: Step
    width: int
    rows: int
    threads: int
    seconds: Measurement
    peak: Measurement

    @property
    def flops(self) -> int:
        """Floating-point operations: 2 rows width²."""
        return 2 * self.rows * self.width**2

    @property
    def rate(self) -> Measurement:
        """FLOP/s."""
        return self.seconds.per(self.flops, "FLOP/s", f"rate of {self.step.name}")

    @property
    def of_peak(self) -> Measurement:
        """Share of the peak that the rate reaches, 0 to 1."""
        return quotient(self.rate, self.peak, f"share of the peak, {self.step.name}", "%")


@dataclass(frozen=True)
class Ladder:
    """All `STEPS` by name, in turns; seconds of the last three by themselves; and `SUMS` in near caches."""

    rungs: Mapping[str, Rung]
    last: Mapping[str, Measurement]
    sums: Measurement
    machine: Ceilings

    def gain(self, before: str, after: str) -> Measurement:
        """Return how many times the rate of one step another has at the same width; both were sampled in turns."""
        one, other = self.rungs[before], self.rungs[after]
        name = f"rate of {after} over {before}, {one.width} wide"
        return ratio(one.seconds, other.seconds).scaled(other.rows / one.rows, "", name)

    def compared(self, before: str, after: str, matters: float) -> Comparison:
        """Return two of the last steps, compared."""
        return compare_paired(self.last[before], self.last[after], matters=matters)

    @property
    def tiles_over_copy(self) -> Measurement:
        """How many times as much cache tiles gain as the copy of their panels does after them."""
        tiles, copy = self.gain("tile in registers", "in cache tiles"), self.gain("in cache tiles", "packed")
        return quotient(tiles, copy, "gain of cache tiles over that of the copy")

    @property
    def near_cycles(self) -> Measurement:
        """Cycles of a step of a long sum in near caches."""
        steps = self.sums.per(SUMS[0] * SUMS[1], "1/s")
        return quotient(self.machine.clock, steps, "a step of a long sum in near caches", "cycles")

    @property
    def inner_cycles(self) -> Measurement:
        """Cycles of a step in the order i, j, k."""
        steps = self.rungs[_INNER].rate.scaled(0.5, "1/s")
        return quotient(self.machine.clock, steps, "a step in the order i, j, k, second matrix in memory", "cycles")

    @property
    def bytes(self) -> int:
        """Bytes of the second matrix."""
        return 4 * self.rungs[_ROWS].width ** 2

    @property
    def loops_for_1024(self) -> Modelled:
        """Seconds of loops over elements for a product 1,024 wide, by their rate."""
        what = "operations over the rate of loops over elements"
        seconds = self.rungs[_ELEMENTS].rate.per(2 * 1024**3, "s", what)
        return Modelled.by("the operations, at the rate of a smaller product", seconds)


def square_matrices(width: int) -> tuple[Any, Any]:
    """Return two float32 matrices ``width`` wide of standard normal numbers."""
    a, b = np.random.default_rng(0).standard_normal((2, width, width), dtype=np.float32)
    return a, b


def matmul_ladder(
    width: int = 480,
    *,
    threads: int = 1,
    steps: Sequence[Step] | None = None,
    made: Ceilings | None = None,
    repeats: int = 15,
    at_most_seconds: float = 20.0,
) -> list[Rung]:
    """Return every step at ``width``, or at its own widest where that is less, in the order of ``steps``.

    Steps of one width are sampled in turns. Each is checked against float64 before it is timed.

    Args:
        width: rows and columns of both matrices; a multiple of 48 has whole tiles.
        threads: of BLAS; the other steps know only one.
        steps: which; by default all of the page.
        made: the ceilings that rates are held against; by default those of this machine.
        repeats: samples of each.
        at_most_seconds: for the samples of one width.

    Raises:
        ValueError: if ``width`` is below 1, or has no whole tiles and a step needs them.
        ArithmeticError: if a step's result is wrong.

    Examples:
        >>> from tinytorch.chapters.acceleration.ladder import matmul_ladder
        >>> matmul_ladder(0)
        Traceback (most recent call last):
        ValueError: width must be at least 1, not 0
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, not {width}")
    made, steps = made or ceilings(threads), STEPS if steps is None else steps
    by_width: dict[int, list[Step]] = {}
    for step in steps:
        by_width.setdefault(min(width, step.widest or width), []).append(step)
    rungs: dict[str, Rung] = {}
    with blas_threads(threads):
        for each, group in sorted(by_width.items()):
            a, b = square_matrices(min(each, 96))
            for step in group:
                _check_result(step, a, b)
            fresh = partial(_runs, group, each)
            times = interleave(fresh, repeats=repeats, at_most_seconds=at_most_seconds, warmup_seconds=0.1)
            for step in group:
                rows = min(each, step.rows or each)
                rungs[step.name] = Rung(step, each, rows, threads, times[step.name], made.fp32_peak)
    return [rungs[step.name] for step in steps]


def _runs(steps: Sequence[Step], width: int) -> dict[str, Callable[[], Any]]:
    """Return the product by each step, of matrices that lie elsewhere each time."""
    rows = {step.name: min(width, step.rows or width) for step in steps}
    a, b = drawn(max(rows.values()), width), drawn(width, width)
    return {step.name: partial(step.function, a[: rows[step.name]], b) for step in steps}


def _check_result(step: Step, a: Any, b: Any) -> None:
    """Raise ArithmeticError unless the step multiplies within float32 rounding."""
    wide = a.astype(np.float64), b.astype(np.float64)
    error = np.abs(step.function(a, b) - wide[0] @ wide[1])
    allowed = 2 * np.finfo(np.float32).eps * np.sqrt(len(a)) * (np.abs(wide[0]) @ np.abs(wide[1]))
    if not (error <= allowed).all():
        raise ArithmeticError(f"{step.name} is wrong by up to {error.max():.3g}")


def study_ladder(made: Ceilings) -> Ladder:
    """Return all steps, with a second matrix that no cache holds, and long sums of numbers in near ones."""
    deep = block_depth(made)
    cut = {_CACHES: partial(products.cache_tiles, deep=deep), _PACKED: partial(products.packed_blocks, deep=deep)}
    steps = [replace(step, function=cut.get(step.name, step.function)) for step in STEPS]
    width = width_beyond(made)
    rungs = matmul_ladder(width, steps=steps, made=made, repeats=31, at_most_seconds=8)
    near = {step.name: step for step in steps}
    # Without the loops, which take most of a round: what is compared by a verdict has as many rounds as decide it.
    with blas_threads(1):
        last = interleave(
            partial(_runs, [near[_CACHES], near[_PACKED], near[_BLAS]], width),
            resolve=0.1,
            at_most_seconds=5,
            warmup_seconds=0.1,
        )
    count, length = SUMS
    run = partial(products.compiled_loops, drawn(count, length), drawn(length, 1))
    sums = measure(run, "long sums", repeats=15, at_most_seconds=0.5, warmup_seconds=0.05)
    return Ladder({rung.step.name: rung for rung in rungs}, last, sums, made)


def width_beyond(machine: Ceilings) -> int:
    """Return the first multiple of 960 at which a matrix takes twice the last cache, 5,760 at the most."""
    last = max(level.capacity or 0 for level in machine.levels)
    return next((width for width in range(960, 5760, 960) if 4 * width**2 >= 2 * last), 5760)


@dataclass(frozen=True)
class TwoCores:
    """A product 2,048 wide by BLAS on two threads: its rate, and its gain over one."""

    rate: Measurement
    gain: Measurement


def second_core() -> TwoCores | Unmeasured:
    """Return what a second core brings to BLAS, in turns with one, or the reason why that cannot be measured here."""
    if identity().cores_usable < 2:
        return Unmeasured(ONE_CORE)
    if limited_blas_threads(2) != 2:
        return Unmeasured(FREE_BLAS)
    a, b = square_matrices(_WIDE)
    runs = {str(count): with_threads(lambda: np.matmul(a, b), count) for count in (1, 2)}
    times = interleave(runs, repeats=9, at_most_seconds=2, warmup_seconds=0.2)
    return TwoCores(
        times["2"].per(2 * _WIDE**3, "FLOP/s", "rate of BLAS on two threads, 2048 wide"),
        ratio(times["1"], times["2"], "time of BLAS with one thread over two, 2048 wide"),
    )


def vector_rate(machine: Ceilings) -> Measurement:
    """Return multiply-adds of vectors in a cycle, at the peak."""
    each = machine.fp32_peak.scaled(1 / (2 * LANES), "1/s", "multiply-adds of vectors a second, at the peak")
    return quotient(each, machine.clock, "multiply-adds of vectors in a cycle, at the peak", "instructions")


def over_bound(rate: Measurement, bound: Modelled) -> Measurement:
    """Return a rate over the bound that was worked out for it."""
    return quotient(rate, as_measurement(bound), f"{rate.name}, over its bound")


def of_allowed(gain: Measurement) -> Measurement:
    """Return the gain of the tile in registers over the one that its rows allow where bytes are the limit."""
    return gain.scaled(1 / ROWS, "%", "gain of the tile in registers over the number of its rows")


def least_for_1024(machine: Ceilings) -> Modelled:
    """Return the least seconds of a product 1,024 wide."""
    seconds = machine.fp32_peak.per(2 * 1024**3, "s", "operations over the peak")
    return Modelled.by("the operations, at the peak", seconds)


def blas_name() -> str:
    """Return the name of NumPy's BLAS."""
    return numpy_blas().label()
