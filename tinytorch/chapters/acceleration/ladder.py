"""Ladder of matrix products, from loops in Python to BLAS and a second core, and the chart of it that grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.acceleration import products
from tinytorch.perf.acceleration.techniques import with_threads
from tinytorch.perf.host.blas import limited_blas_threads, numpy_blas
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS, WIDTH
from tinytorch.perf.kernels.runtime.vectors import cpu_features
from tinytorch.perf.machine import Ceilings, Level, ceilings, identity
from tinytorch.perf.measuring import (
    Counted,
    Measurement,
    Modelled,
    blas_threads,
    interleave,
    limit_blas_threads,
    measure,
    quotient,
    ratio,
)
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.report import Column, Page, color, format_measurement
from tinytorch.report.figures import draw_bars, subplots

LADDER = (
    Column("step", "Way"),
    Column("width", "Width", "1"),
    Column("rows", "Rows", "1"),
    Column("seconds", "Time"),
    Column("rate", "Rate"),
    Column("share", "Of the peak"),
)
SHAPES = (
    Column("shape", "Rows × vectors"),
    Column("sums", "Sums", "1"),
    Column("registers", "Registers", "1"),
    Column("operations", "Memory operations each", "1"),
    Column("fits", "Fits"),
)
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
#: Steps whose rates and whose shares of the peak the text tells, by what their keys end in.
_RATES = {"elements": _ELEMENTS, "lists": _LISTS, "ikj": _ROWS, "registers": _REGISTERS}
_SHARES = {"inner": _INNER, "ikj": _ROWS, "registers": _REGISTERS, "packed": _PACKED, "blas": _BLAS}


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
    """What the page measures of one product.

    Attributes:
        rungs: all of `STEPS`.
        copied: `COPY`, in turns with them.
        last: seconds of the last two steps and of BLAS, in turns with nothing else, by name.
        sums: seconds of `SUMS` in the order i, j, k, whose operands lie in near caches.
    """

    rungs: tuple[Rung, ...]
    copied: Rung
    last: Mapping[str, Measurement]
    sums: Measurement


def begin() -> tuple[Page, Ceilings]:
    """Return the page, and the ceilings of one thread, to which BLAS is held."""
    limit_blas_threads(1)
    return Page("acceleration"), ceilings(threads=1)


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
        >>> from tinytorch.chapters.acceleration import matmul_ladder
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
    return Ladder(tuple(rungs), copied, last, sums)


def width_beyond(machine: Ceilings) -> int:
    """Return the first multiple of 960 at which a matrix takes half more than the last cache, 7,680 at the most."""
    last = max(level.capacity or 0 for level in machine.levels)
    return next((width for width in range(960, 7680, 960) if 4 * width**2 >= 1.5 * last), 7680)


def block_depth(machine: Ceilings) -> int:
    """Return the depth of blocks, a multiple of 16, at which strips of `SERVED` rows and a panel fill half of a cache.

    It is the second one, or the first where there is none behind it; 128 where there is none.
    """
    held = _block_level(machine).capacity
    return max(16, held // 2 // (4 * (SERVED + WIDTH)) // 16 * 16) if held else 128


def _block_level(machine: Ceilings) -> Level:
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
    """A product 2,048 wide by BLAS, on one thread and on two in turns, and the FP32 peak of two threads."""

    one: Measurement
    two: Measurement
    peak: Measurement


def second_core() -> TwoCores | str:
    """Return what a second core brings to BLAS, or the reason why that cannot be measured here."""
    if identity().cores_usable < 2:
        return ONE_CORE
    if limited_blas_threads(2) != 2:
        return FREE_BLAS
    a, b = square_matrices(_WIDE)
    runs = {str(count): with_threads(lambda: np.matmul(a, b), count) for count in (1, 2)}
    times = interleave(runs, repeats=9, at_most_seconds=2, warmup_seconds=0.2)
    return TwoCores(times["1"], times["2"], ceilings(2).fp32_peak)


def record_peak(page: Page, machine: Ceilings) -> None:
    """Record what the peak is made of: the clock, the numbers of a vector, and the multiply-adds of a cycle."""
    page.number("peak", machine.fp32_peak)
    page.number("clock", machine.clock)
    page.number(
        "vector-lanes", LANES, unit="numbers", what="float32 of a vector, by which the kernels of this CPU compute"
    )
    each = machine.fp32_peak.scaled(1 / (2 * LANES), "1/s", "multiply-adds of vectors a second, at the peak")
    page.number(
        "vector-rate", quotient(each, machine.clock, "multiply-adds of vectors in a cycle, at the peak", "instructions")
    )


def record_ladder(page: Page, ladder: Ladder, machine: Ceilings) -> None:
    """Record the rate of every way to multiply, its share of the peak, and what each step gains.

    Args:
        page: where to.
        ladder: what `study_ladder` found.
        machine: ceilings of one thread.
    """
    rungs = {rung.step.name: rung for rung in ladder.rungs}
    for key, name in _RATES.items():
        page.number(f"rate-{key}", rungs[name].rate)
    for key, name in _SHARES.items():
        page.number(f"peak-{key}", rungs[name].of_peak)
    what = "rate of BLAS over that of loops over elements of arrays"
    page.number("loops-to-blas", quotient(rungs[_BLAS].rate, rungs[_ELEMENTS].rate, what))
    what = "rate of the same loops, compiled, over that in Python"
    page.number("compiled-gain", quotient(rungs[_INNER].rate, rungs[_ELEMENTS].rate, what))
    steps = ladder.sums.per(SUMS[0] * SUMS[1], "1/s")
    page.number("near-cycles", quotient(machine.clock, steps, "a step of a long sum in near caches", "cycles"))
    steps, what = (
        rungs[_INNER].rate.scaled(0.5, "1/s"),
        "a step in the order i, j, k, second matrix in memory",
    )
    page.number("inner-cycles", quotient(machine.clock, steps, what, "cycles"))
    page.number("order-gain", _gain(rungs, _INNER, _ROWS))
    page.number("register-gain", _gain(rungs, _ROWS, _REGISTERS))
    page.number("pack-gain", _gain(rungs, _REGISTERS, _PACKED))
    _record_blocks(page, rungs, machine)
    what = "time of a single row of tiles, its panels copied, over that of all rows"
    page.number("copy-share", ratio(ladder.copied.seconds, rungs[_PACKED].seconds, what).scaled(1, "%"))
    page.compare("block-gain", compare_paired(ladder.last[_PACKED], ladder.last[_BLOCKS], matters=0.1))
    page.compare("blas-gain", compare_paired(ladder.last[_BLOCKS], ladder.last[_BLAS], matters=0.1))
    page.word("our-blas", numpy_blas().label(), because="the library that NumPy loaded says so")
    page.number("tile-rows", ROWS, unit="rows", what="rows of the tile that the registers of this CPU hold")
    page.number("tile-vectors", VECTORS, unit="vectors", what="vectors of a row of that tile")
    page.number("tile-sums", ROWS * VECTORS, unit="sums", what="vectors of that tile")
    page.number("tile-loads", ROWS + VECTORS, unit="loads", what="loads of a step of that tile")
    page.number("registers", vector_registers(), unit="vectors", what="vectors that the registers of this CPU hold")
    what = "memory operations for each multiply-add of that tile"
    page.number("tile-operations", Counted(memory_operations(ROWS, VECTORS), "operations", what))
    width = rungs[_ROWS].width
    page.number("width", width, unit="numbers", what="width of the second matrix")
    page.number("width-bytes", 4 * width**2, unit="B", what="bytes of that matrix")
    memory, of = machine.levels[-1].read, "bandwidth of memory, at"
    page.number("memory-read", memory)
    what = f"{of} two operations for each number of four bytes"
    page.number(
        "ikj-bound", Modelled.by("the bytes of each operation, at the bandwidth", memory.scaled(0.5, "FLOP/s", what))
    )
    what = f"{of} two operations for each number of four bytes and each row of the tile"
    page.number(
        "register-bound",
        Modelled.by("the bytes of each operation, at the bandwidth", memory.scaled(0.5 * ROWS, "FLOP/s", what)),
    )


def _record_blocks(page: Page, rungs: Mapping[str, Rung], machine: Ceilings) -> None:
    """Record what whole panels take, how deep blocks are and where they are kept, and what they gain."""
    width, deep, level = rungs[_PACKED].width, block_depth(machine), _block_level(machine)
    page.number("served-rows", SERVED, unit="rows", what="rows of A that each panel serves here")
    page.number("panel-bytes", 4 * width * WIDTH, unit="B", what="bytes of a panel as deep as the second matrix")
    what = "rows of B in a block, of which the strips of A and a panel fill half of the cache"
    page.number("block-depth", deep, unit="rows", what=what)
    page.word("block-level", level.name, because="it is the second of the levels, or the only cache")
    page.number("block-bytes", 4 * deep * width, unit="B", what="bytes of a block of B, all its panels")
    what = f"bandwidth of {level.name}, at two operations for each number of four bytes and each row of the tile"
    page.number(
        "block-bound",
        Modelled.by("the bytes of each operation, at the bandwidth", level.read.scaled(0.5 * ROWS, "FLOP/s", what)),
    )


def _gain(rungs: Mapping[str, Rung], before: str, after: str) -> Measurement:
    """Return how many times the rate of one step another has at the same width; both were sampled in turns."""
    one, other = rungs[before], rungs[after]
    name = f"rate of {after} over {before}, {one.width} wide"
    return ratio(one.seconds, other.seconds).scaled(other.rows / one.rows, "", name)


def show_ladder(page: Page, ladder: Ladder, upto: int) -> None:
    """Draw the chart as far as its first ``upto`` bars, the last of them in another colour, and the peak."""
    rungs = ladder.rungs[:upto]
    figure, ax = subplots(height=1.3 + 0.3 * len(rungs))
    looks = [*["baseline"] * (len(rungs) - 1), "compiled"]
    draw_bars(ax, [rung.step.name for rung in rungs], [rung.rate for rung in rungs], quantity="rate", variants=looks)
    scale = 1e9 if max(rung.rate.median for rung in rungs) >= 1e9 else 1e6
    peak = ladder.rungs[0].peak.median / scale
    ax.axvline(peak, color=color("reference"), linestyle=":")
    ax.set_xscale("log")
    ax.set_xlim(1e6 / scale, 2 * peak)
    added = rungs[-1].step.name
    bare = any(not format_measurement(rung.rate).digits for rung in rungs)
    said = " A line without a bar is an interval that is wider than its median." if bare else ""
    page.figure(
        f"ladder-{upto}",
        figure,
        caption=f"The rate of one core by each way so far, the last of which is “{added}”, on a logarithmic axis: a "
        f"step to the right is a factor. The dotted line is the peak.{said}",
        alt=f"Horizontal bars on a logarithmic axis: the rate of each way to multiply so far, the last one {added}, "
        "and a dotted line at the peak.",
    )


def show_all(page: Page, ladder: Ladder) -> None:
    """Show every way with its time, its rate and its share of the peak."""
    page.table(
        "ladder",
        [
            {
                "step": rung.step.name,
                "width": rung.width,
                "rows": rung.rows,
                "seconds": rung.seconds,
                "rate": rung.rate,
                "share": rung.of_peak,
            }
            for rung in ladder.rungs
        ],
        LADDER,
        caption="One product of float32 matrices on one thread; the width is that of the square second matrix. Python "
        "has narrow ones, and the slower of the others compute fewer rows; rates can be compared.",
    )


def show_shapes(page: Page) -> None:
    """Show what tiles of some shapes ask of registers and of memory, the one of this CPU among them."""
    held = vector_registers()
    rows: list[dict[str, Any]] = []
    for shape in sorted({*_SHAPES, (ROWS, VECTORS)}):
        needed = shape[0] * shape[1] + shape[1] + 1
        fits = "yes" if needed <= held else "no"
        rows.append(
            {
                "shape": f"{shape[0]} × {shape[1]}",
                "sums": shape[0] * shape[1],
                "registers": needed,
                "operations": Counted(memory_operations(*shape), "1", "memory operations of a multiply-add"),
                "fits": f"{fits}, used here" if shape == (ROWS, VECTORS) else fits,
            }
        )
    page.table(
        "shapes",
        rows,
        SHAPES,
        caption="Tiles of some shapes: the sums that they hold, the registers with a row of B and a number of A beside "
        "them, the memory operations for each multiply-add, and whether the registers of this CPU are enough.",
    )


def record_second_core(page: Page, found: TwoCores | str, machine: Ceilings) -> None:
    """Record what BLAS reaches with a second core, or why nothing is said of it."""
    keys = ("two-blas", "two-gain", "two-peak-gain")
    if isinstance(found, str):
        page.absent(*keys, reason=found)
        page.word("one-only", found, because="so it is known before anything is measured")
        return
    rate = found.two.per(2 * _WIDE**3, "FLOP/s", "rate of BLAS on two threads, 2048 wide")
    page.number("two-blas", rate)
    page.number("two-gain", ratio(found.one, found.two, "time of BLAS with one thread over two, 2048 wide"))
    page.number("two-peak-gain", quotient(found.peak, machine.fp32_peak, "peak of two threads over one"))


def record_answers(page: Page, ladder: Ladder, machine: Ceilings) -> None:
    """Record the answers to the questions at the end.

    Args:
        page: where to.
        ladder: whose first step is loops over elements.
        machine: ceilings of one thread.
    """
    flops = 2 * 1024**3
    page.number(
        "q-least",
        Modelled.by("the operations, at the peak", machine.fp32_peak.per(flops, "s", "operations over the peak")),
    )
    what = "operations over the rate of loops over elements"
    page.number(
        "q-loops",
        Modelled.by("the operations, at the rate of a smaller product", ladder.rungs[0].rate.per(flops, "s", what)),
    )
    per = "memory operations for each multiply-add of a tile of 4 × 3 vectors"
    page.number("q-tile", Counted(memory_operations(4, 3), "operations", per))
    page.number("q-rows", 1, unit="1", what="multiply-adds for each weight of a product with one row")
    page.number("q-copy", 960, unit="multiply-adds", what="rows that a packed number meets, 960 wide")
