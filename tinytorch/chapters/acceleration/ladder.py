"""Ladder of matrix products, from loops in Python to BLAS and a second core, and the chart of it that grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tinytorch.core.op import Array
from tinytorch.perf.acceleration import products
from tinytorch.perf.acceleration.techniques import with_threads
from tinytorch.perf.host.blas import limited_blas_threads, numpy_blas
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS, WIDTH
from tinytorch.perf.kernels.runtime.vectors import cpu_features
from tinytorch.perf.machine import Ceilings, ceilings, identity
from tinytorch.perf.machine.levels import Level
from tinytorch.perf.measuring import (
    Counted,
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
from tinytorch.report.colors import color
from tinytorch.report.figures import draw_bars, subplots

ONE_CORE = "the process that built this page could use one core only"
FREE_BLAS = "NumPy's BLAS chooses the number of its threads by itself here"
#: Width of the product that a second core is given.
_WIDE = 2048
#: Tiles that the page weighs, rows by vectors, beside the one that is used.
_SHAPES = ((1, 1), (2, 2), (4, 3), (6, 2), (6, 4), (8, 3), (8, 4))


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
_REGISTERS, _PACKED, _BLOCKS, _BLAS = "tile in registers", "packed tile", "packed blocks", "BLAS"
#: Rows of the result where a panel must serve many: whole tiles of any CPU.
SERVED = 384
#: In the order of the page. Each row of a product needs all of the second matrix, so that a loop's rate does not depend
#: on how many are computed; a packed panel must serve many.
STEPS = (
    Step(_ELEMENTS, products.array_element_loops, 48),
    Step(_LISTS, products.python_loops, 96),
    Step(_INNER, products.compiled_loops, rows=1),
    Step(_ROWS, products.compiled_loops_by_rows, rows=12),
    Step(_REGISTERS, products.register_tiles, rows=96),
    Step(_PACKED, products.packed_tiles, rows=SERVED),
    Step(_BLOCKS, products.packed_blocks, rows=SERVED),
    Step(_BLAS, products.blas, rows=SERVED),
)
#: A single row of tiles, which takes hardly longer than to copy the panels.
COPY = Step("packed tile, one row of tiles", products.packed_tiles, rows=ROWS)
#: How many sums show the wait for an addition by itself, and how many products each adds up.
SUMS = (8, 4096)
#: What bounds a rate by bytes.
_BYTES = "the bytes of each operation, at the bandwidth"


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
    """All `STEPS` by name and `COPY`, in turns; seconds of the last three by themselves; and `SUMS` in near caches."""

    rungs: Mapping[str, Rung]
    copied: Rung
    last: Mapping[str, Measurement]
    sums: Measurement
    machine: Ceilings

    def gain(self, before: str, after: str) -> Measurement:
        """Return how many times the rate of one step another has at the same width; both were sampled in turns."""
        one, other = self.rungs[before], self.rungs[after]
        name = f"rate of {after} over {before}, {one.width} wide"
        return ratio(one.seconds, other.seconds).scaled(other.rows / one.rows, "", name)

    def rates(self, before: str, after: str, what: str) -> Measurement:
        """Return the rate of one step over that of another, of whatever width."""
        return quotient(self.rungs[after].rate, self.rungs[before].rate, what)

    def compared(self, before: str, after: str, matters: float) -> Comparison:
        """Return two of the last steps, compared."""
        return compare_paired(self.last[before], self.last[after], matters=matters)

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
    def copy_share(self) -> Measurement:
        """Time of a single row of tiles, its panels copied, over that of all rows."""
        what = "time of a single row of tiles, its panels copied, over that of all rows"
        return ratio(self.copied.seconds, self.rungs[_PACKED].seconds, what).scaled(1, "%")

    @property
    def bytes(self) -> int:
        """Bytes of the second matrix."""
        return 4 * self.rungs[_ROWS].width ** 2

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel as deep as the second matrix."""
        return 4 * self.rungs[_PACKED].width * WIDTH

    @property
    def block_bytes(self) -> int:
        """Bytes of a block of B, all its panels."""
        return 4 * block_depth(self.machine) * self.rungs[_PACKED].width

    @property
    def loops_for_1024(self) -> Modelled:
        """Seconds of loops over elements for a product 1,024 wide, by their rate."""
        what = "operations over the rate of loops over elements"
        seconds = self.rungs[_ELEMENTS].rate.per(2 * 1024**3, "s", what)
        return Modelled.by("the operations, at the rate of a smaller product", seconds)


def square_matrices(width: int, seed: int = 0) -> tuple[Any, Any]:
    """Return two float32 matrices ``width`` wide of standard normal numbers."""
    a, b = np.random.default_rng(seed).standard_normal((2, width, width), dtype=np.float32)
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


def drawn(rows: int, columns: int) -> Array:
    """Return standard normal numbers, of which a large matrix repeats the first million: to draw them takes longer."""
    few = np.random.default_rng(0).standard_normal(min(rows * columns, 1 << 20), dtype=np.float32)
    return np.resize(few, (rows, columns))


def _check_result(step: Step, a: Any, b: Any) -> None:
    """Raise ArithmeticError unless the step multiplies within float32 rounding."""
    wide = a.astype(np.float64), b.astype(np.float64)
    error = np.abs(step.function(a, b) - wide[0] @ wide[1])
    allowed = 2 * np.finfo(np.float32).eps * np.sqrt(len(a)) * (np.abs(wide[0]) @ np.abs(wide[1]))
    if not (error <= allowed).all():
        raise ArithmeticError(f"{step.name} is wrong by up to {error.max():.3g}")


def study_ladder(made: Ceilings) -> Ladder:
    """Return all steps, with a second matrix that no cache holds, and long sums of numbers in near ones."""
    blocks = partial(products.packed_blocks, deep=block_depth(made))
    steps = [replace(step, function=blocks) if step.name == _BLOCKS else step for step in STEPS]
    width = width_beyond(made)
    *rungs, copied = matmul_ladder(width, steps=[*steps, COPY], made=made, repeats=15, at_most_seconds=10)
    near = {step.name: step for step in steps}
    # Without the loops, which take most of a round: what is compared by a verdict has as many rounds as decide it.
    with blas_threads(1):
        last = interleave(
            partial(_runs, [near[_BLOCKS], near[_PACKED], near[_BLAS]], width),
            resolve=0.1,
            at_most_seconds=15,
            warmup_seconds=0.1,
        )
    count, length = SUMS
    run = partial(products.compiled_loops, drawn(count, length), drawn(length, 1))
    sums = measure(run, "long sums", repeats=15, at_most_seconds=0.5, warmup_seconds=0.05)
    return Ladder({rung.step.name: rung for rung in rungs}, copied, last, sums, made)


def width_beyond(machine: Ceilings) -> int:
    """Return the first multiple of 960 at which a matrix takes half more than the last cache, 7,680 at the most."""
    last = max(level.capacity or 0 for level in machine.levels)
    return next((width for width in range(960, 7680, 960) if 4 * width**2 >= 1.5 * last), 7680)


def block_depth(machine: Ceilings) -> int:
    """Return the depth of blocks, a multiple of 16, at which strips of `SERVED` rows and a panel fill half of a cache.

    It is the second one, or the first where there is none behind it; 128 where there is none.
    """
    held = block_level(machine).capacity
    return max(16, held // 2 // (4 * (SERVED + WIDTH)) // 16 * 16) if held else 128


def block_level(machine: Ceilings) -> Level:
    """Return the level that holds blocks: the second of the caches, or the only one."""
    caches = [level for level in machine.levels if level.capacity is not None]
    return caches[min(1, len(caches) - 1)] if caches else machine.levels[0]


def vector_registers() -> int:
    """Return how many vectors of `LANES` floats the registers of this CPU hold; on NEON a vector takes two."""
    return 32 if "avx512f" in cpu_features() else 16


def memory_operations(rows: int, vectors: int) -> float:
    """Return loads and stores for each multiply-add of vectors in a tile: in one step it loads a row and a column."""
    return (rows + vectors) / (rows * vectors)


@dataclass(frozen=True)
class TwoCores:
    """A product 2,048 wide by BLAS on two threads: its rate, its gain over one, and that of the peak."""

    rate: Measurement
    gain: Measurement
    of_peak: Measurement


def second_core(one: Ceilings) -> TwoCores | Unmeasured:
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
        quotient(ceilings(2).fp32_peak, one.fp32_peak, "peak of two threads over one"),
    )


def vector_rate(machine: Ceilings) -> Measurement:
    """Return multiply-adds of vectors in a cycle, at the peak."""
    each = machine.fp32_peak.scaled(1 / (2 * LANES), "1/s", "multiply-adds of vectors a second, at the peak")
    return quotient(each, machine.clock, "multiply-adds of vectors in a cycle, at the peak", "instructions")


def bound_by(level: Level, rows: int = 1) -> Modelled:
    """Return the rate that a level's bandwidth allows, at two operations for each number of four bytes and each row."""
    each = "" if rows == 1 else " and each row of the tile"
    what = f"bandwidth of {level.name}, at two operations for each number of four bytes{each}"
    return Modelled.by(_BYTES, level.read.scaled(0.5 * rows, "FLOP/s", what))


def least_for_1024(machine: Ceilings) -> Modelled:
    """Return the least seconds of a product 1,024 wide."""
    seconds = machine.fp32_peak.per(2 * 1024**3, "s", "operations over the peak")
    return Modelled.by("the operations, at the peak", seconds)


def blas_name() -> str:
    """Return the name of NumPy's BLAS."""
    return numpy_blas().label()


@dataclass(frozen=True)
class Shape:
    """A tile of rows by vectors: its sums, the registers that it needs, and what it asks of memory."""

    shape: str
    sums: int
    registers: int
    operations: Counted
    fits: str


def shapes(fits: str, does_not: str, used: str) -> list[Shape]:
    """Return tiles of some shapes with the words for whether they fit, and ``used`` behind the one of this CPU."""

    def made(rows: int, vectors: int) -> Shape:
        needed = rows * vectors + vectors + 1
        word = fits if needed <= vector_registers() else does_not
        word += used if (rows, vectors) == (ROWS, VECTORS) else ""
        each = Counted(memory_operations(rows, vectors), "1", "memory operations of a multiply-add")
        return Shape(f"{rows} × {vectors}", rows * vectors, needed, each, word)

    return [made(*each) for each in sorted({*_SHAPES, (ROWS, VECTORS)})]


def operations(rows: int = ROWS, vectors: int = VECTORS) -> Counted:
    """Return `memory_operations` of a tile, that of this CPU if none is given."""
    what = f"memory operations for each multiply-add of a tile of {rows} × {vectors} vectors"
    return Counted(memory_operations(rows, vectors), "operations", what)


#: Sums of the tile of this CPU, and loads of one of its steps.
TILE_SUMS, TILE_LOADS = ROWS * VECTORS, ROWS + VECTORS


def chart(ladder: Ladder, upto: int, xlabel: str) -> Figure:
    """Return the rates of the first ``upto`` ways on a logarithmic axis that stays, the last in another colour."""
    rungs = [*ladder.rungs.values()][:upto]
    figure, ax = subplots(height=1.3 + 0.3 * len(rungs))
    looks = [*["baseline"] * (len(rungs) - 1), "compiled"]
    draw_bars(ax, [rung.step.name for rung in rungs], [rung.rate for rung in rungs], quantity=xlabel, variants=looks)
    scale = 1e9 if max(rung.rate.median for rung in rungs) >= 1e9 else 1e6
    peak = rungs[0].peak.median / scale
    ax.axvline(peak, color=color("reference"), linestyle=":")
    ax.set_xscale("log")
    ax.set_xlim(1e6 / scale, 2 * peak)
    return figure
