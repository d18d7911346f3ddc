"""Ladder of matrix products, from loops in Python to BLAS and a second core, and what vectorization gains by size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from tinytorch.chapters import sources
from tinytorch.perf.acceleration import products
from tinytorch.perf.acceleration.techniques import with_threads
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.kernels.gemm.product_tiles import ROWS, VECTORS
from tinytorch.perf.machine import Ceilings, ceilings, identity
from tinytorch.perf.measuring import Measurement, blas_threads, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.report import Column, Page, bars, color, line, subplots, verdict_between_all

Kind = Literal["teaching", "real"]
LADDER = (
    Column("step", "Way"),
    Column("kind", "For"),
    Column("width", "Width", "1"),
    Column("seconds", "Time"),
    Column("rate", "Rate"),
    Column("share", "Of the peak"),
)
ONE_CORE = "the process that built this page could use one core only"
FREE_BLAS = "NumPy's BLAS chooses the number of its threads by itself here"
#: Width of the product that a second core is given.
_WIDE = 2048


@dataclass(frozen=True)
class Step:
    """One way to multiply: what it is called, its function, and up to which width it is worth a reader's time.

    ``kind`` is "teaching" for a way that nobody should use, "real" for one that people do.
    """

    name: str
    function: Callable[[Any, Any], Any]
    kind: Kind
    widest: int

    @property
    def reason(self) -> str:
        """Why it is as fast as it is: the function's own words."""
        return " ".join((self.function.__doc__ or "").split())


#: In the order of the page. The slow ones are measured at sizes that take them about a second at most.
STEPS = (
    Step("elements of arrays, Python", products.array_element_loops, "teaching", 64),
    Step("lists, Python, i j k", products.python_loops, "teaching", 128),
    Step("lists, Python, i k j", products.python_loops_by_rows, "teaching", 128),
    Step("a dot product an element", products.dot_products, "teaching", 256),
    Step("compiled loops, i j k", products.compiled_loops, "teaching", 512),
    Step("einsum, default", products.einsum_loops, "teaching", 1024),
    Step("compiled loops, i k j", products.compiled_loops_by_rows, "teaching", 1024),
    Step("compiled loops in tiles", products.compiled_tiles, "teaching", 1024),
    Step("compiled, four steps at once", products.compiled_four_steps, "teaching", 1024),
    Step("a product a row, BLAS", products.row_products, "teaching", 1024),
    Step("tiles of BLAS", products.tiled_matmul, "teaching", 2048),
    Step("tiles in registers", products.register_tiles, "real", 2048),
    Step("tiles in registers, packed", products.packed_tiles, "real", 2048),
    Step("einsum, optimize=True", products.einsum_blas, "real", 2048),
    Step("BLAS", products.blas, "real", 2048),
)

_ELEMENTS, _LISTS, _LISTS_BY_ROWS = "elements of arrays, Python", "lists, Python, i j k", "lists, Python, i k j"
_LOOPS, _TILED_LOOPS = "compiled loops, i k j", "compiled loops in tiles"
_BLAS, _TILED_BLAS = "BLAS", "tiles of BLAS"
_REGISTERS, _PACKED = "tiles in registers", "tiles in registers, packed"
#: Steps whose rates the text tells, by what their keys end in.
_TOLD = {
    "elements": _ELEMENTS,
    "lists": _LISTS,
    "einsum": "einsum, default",
    "four": "compiled, four steps at once",
    "rows": "a product a row, BLAS",
    "registers": _REGISTERS,
    "packed": _PACKED,
    "einsum-blas": "einsum, optimize=True",
    "blas": _BLAS,
}


@dataclass(frozen=True)
class Rung:
    """A step that was measured: ``seconds`` of a product of float32 matrices ``width`` wide, on ``threads`` threads.

    ``peak`` is the FP32 ceiling of as many threads, which was measured too.
    """

    step: Step
    width: int
    threads: int
    seconds: Measurement
    peak: Measurement

    @property
    def flops(self) -> int:
        """Floating-point operations: 2 width³."""
        return 2 * self.width**3

    @property
    def rate(self) -> Measurement:
        """FLOP/s."""
        return self.seconds.per(self.flops, "FLOP/s", f"rate of {self.step.name}")

    @property
    def of_peak(self) -> Measurement:
        """Share of the peak that the rate reaches, 0 to 1."""
        return quotient(self.rate, self.peak, f"share of the peak, {self.step.name}", "%")


def square_matrices(width: int, seed: int = 0) -> tuple[Any, Any]:
    """Return two float32 matrices ``width`` wide of standard normal numbers.

    Raises:
        ValueError: if ``width`` is below 1.
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, not {width}")
    a, b = np.random.default_rng(seed).standard_normal((2, width, width), dtype=np.float32)
    return a, b


def matmul_ladder(
    width: int = 512,
    *,
    threads: int = 1,
    steps: Sequence[Step] = STEPS,
    made: Ceilings | None = None,
    repeats: int = 15,
    at_most_seconds: float = 20.0,
) -> list[Rung]:
    """Return every step at ``width``, or at its own widest where that is less, in the order of ``steps``.

    Steps of one width are sampled in turns. Each is checked against float64 before it is timed.

    Args:
        width: rows and columns of both matrices.
        threads: of BLAS and of the packed product; the other steps know only one.
        steps: which.
        made: the ceilings that rates are held against; by default those of this machine.
        repeats: samples of each; at_most_seconds: for the samples of one width.

    Raises:
        ValueError: if ``width`` is below 1.
        ArithmeticError: if a step's result is wrong.
    """
    made = made or ceilings(threads)
    by_width: dict[int, list[Step]] = {}
    for step in steps:
        by_width.setdefault(min(width, step.widest), []).append(step)
    rungs: dict[str, Rung] = {}
    with blas_threads(threads):
        for each, group in sorted(by_width.items()):
            for step in group:
                _check_result(step, *square_matrices(each))
            fresh = partial(_runs, group, each)
            times = interleave(fresh, repeats=repeats, at_most_seconds=at_most_seconds, warmup_seconds=0.3)
            for step in group:
                rungs[step.name] = Rung(step, each, threads, times[step.name], made.fp32_peak)
    return [rungs[step.name] for step in steps]


def _runs(steps: Sequence[Step], width: int) -> dict[str, Callable[[], Any]]:
    """Return the product by each step, of matrices that lie elsewhere each time."""
    a, b = square_matrices(width)
    return {step.name: partial(step.function, a, b) for step in steps}


def _check_result(step: Step, a: Any, b: Any) -> None:
    """Raise ArithmeticError unless the step multiplies within float32 rounding."""
    wide = a.astype(np.float64), b.astype(np.float64)
    error = np.abs(step.function(a, b) - wide[0] @ wide[1])
    allowed = 2 * np.finfo(np.float32).eps * np.sqrt(len(a)) * (np.abs(wide[0]) @ np.abs(wide[1]))
    if not (error <= allowed).all():
        raise ArithmeticError(f"{step.name} is wrong by up to {error.max():.3g}")


def vectorization_scaling(
    sizes: Sequence[int] = (4, 16, 64, 256, 1024, 16384, 262144), repeats: int = 20
) -> dict[int, dict[str, Measurement]]:
    """Return, for each number of elements, the time of ``x * y + z`` as a Python loop over lists and as NumPy has it.

    The keys of each are "loop" and "vectorized", in seconds, sampled in turns; `timing.ratio` of them is the speedup.
    A call of NumPy costs the same for one element as for a hundred, so that below some size the loop wins.

    Raises:
        ValueError: if a size is below 1.
    """
    found: dict[int, dict[str, Measurement]] = {}
    for size in sizes:
        if size < 1:
            raise ValueError(f"sizes must be at least 1, not {size}")
        found[size] = interleave(partial(_loop_and_vectorized, size), repeats=repeats, at_most_seconds=3.0)
    return found


def _loop_and_vectorized(size: int) -> dict[str, Callable[[], Any]]:
    """Return ``x * y + z`` in both ways, of numbers that lie elsewhere each time."""
    arrays = np.random.default_rng(size).standard_normal((3, size), dtype=np.float32)
    lists = arrays.tolist()
    return {
        "loop": lambda: [x * y + z for x, y, z in zip(*lists, strict=True)],
        "vectorized": lambda: arrays[0] * arrays[1] + arrays[2],
    }


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
    times = interleave(runs, repeats=9, at_most_seconds=3, warmup_seconds=0.3)
    return TwoCores(times["1"], times["2"], ceilings(2).fp32_peak)


def record_ladder(page: Page, ladder: Sequence[Rung], orders: Sequence[Rung], machine: Ceilings) -> None:
    """Show every way to multiply, its rate and its share of the peak, what each step gains, and the claim on tiles.

    Args:
        page: where to.
        ladder: all of `STEPS`.
        orders: compiled loops in the orders i, j, k and i, k, j, both 512 wide.
        machine: ceilings of one thread.
    """
    page.table(
        "ladder",
        [
            {
                "step": rung.step.name,
                "kind": {"teaching": "to learn", "real": "to use"}[rung.step.kind],
                "width": rung.width,
                "seconds": rung.seconds,
                "rate": rung.rate,
                "share": rung.of_peak,
            }
            for rung in ladder
        ],
        LADDER,
        caption="One product of two float32 matrices on one thread, from loops in Python to the machine's peak. The "
        "slow ways have narrower matrices; rates can be compared.",
    )
    rungs = {rung.step.name: rung for rung in ladder}
    for key, name in _TOLD.items():
        page.number(f"rate-{key}", rungs[name].rate)
    page.number("peak-packed", rungs[_PACKED].of_peak)
    page.number("peak-blas", rungs[_BLAS].of_peak)
    page.number("peak", machine.fp32_peak)
    blas, what = rungs[_BLAS].rate, "rate of BLAS over that of loops over"
    page.number("left", quotient(machine.fp32_peak, blas, "peak over the rate of BLAS"))
    page.number("loops-to-blas", quotient(blas, rungs[_ELEMENTS].rate, f"{what} elements of arrays"))
    page.number("lists-to-blas", quotient(blas, rungs[_LISTS].rate, f"{what} lists"))
    order = "time in the order i, j, k over that in the order i, k, j, 512 wide"
    page.number("order-gain", ratio(orders[0].seconds, orders[1].seconds, order))
    page.number("python-order-gain", _gain(rungs, _LISTS, _LISTS_BY_ROWS))
    page.number("tile-gain", _gain(rungs, _LOOPS, _TILED_LOOPS))
    page.number("blas-tile-gain", _gain(rungs, _BLAS, _TILED_BLAS))
    page.number("register-gain", _gain(rungs, _LOOPS, _REGISTERS))
    page.number("pack-gain", _gain(rungs, _REGISTERS, _PACKED))
    page.number("tile-rows", ROWS, unit="rows", what="rows of the tile that the registers of this CPU hold")
    page.number("tile-vectors", VECTORS, unit="vectors", what="vectors of a row of that tile")
    operations = (ROWS + VECTORS) / (ROWS * VECTORS)
    what = "memory operations for each multiply-add of that tile"
    page.number("tile-operations", operations, unit="operations", what=what)
    page.compare("blas-gain", compare_paired(rungs[_PACKED].seconds, rungs[_BLAS].seconds))
    figure, ax = subplots(height=4.3)
    looks = ["baseline" if rung.step.kind == "teaching" else "compiled" for rung in ladder]
    bars(ax, [*rungs], [rung.rate for rung in ladder], quantity="rate", variants=looks)
    ax.set_xscale("log")
    ax.axvline(machine.fp32_peak.median / 1e9, color=color("reference"), linestyle=":")
    page.figure(
        "ladder-rates",
        figure,
        caption="The rate of each way, on a logarithmic axis; the dotted line is the machine's peak. Grey ways are "
        "there to learn from.",
        alt="Horizontal bars on a logarithmic axis: the rate of each way to multiply, from loops in Python to BLAS, "
        "with a dotted line at the peak.",
    )
    _claim_tiling(page, rungs)


def _claim_tiling(page: Page, rungs: Mapping[str, Rung]) -> None:
    gains = (_gain(rungs, _LOOPS, _TILED_LOOPS), _gain(rungs, _BLAS, _TILED_BLAS))
    page.claim(
        "tiling",
        statement="Breaking a matrix product into tiles that fit the cache makes it faster.",
        source=f"{sources.COURSE_ACCELERATION}, whose tiled_matmul is said to be more cache-friendly for large "
        "matrices",
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between_all(gains, low=1.0, strict=True),
        evidence="At 1,024 wide, compiled loops in tiles ran {tile-gain} as fast as without, and BLAS called tile by "
        "tile {blas-tile-gain} as fast as called once. Tiles in registers ran {register-gain} as fast as plain loops. "
        "The test asks for a gain in both of the first two.",
    )


def _gain(rungs: Mapping[str, Rung], before: str, after: str) -> Measurement:
    return ratio(rungs[before].seconds, rungs[after].seconds, f"{before} over {after}, in time")


def record_second_core(page: Page, found: TwoCores | str, machine: Ceilings) -> None:
    """Record what a second core brings to a product, beside what it brings to the peak; or why nothing is said."""
    if isinstance(found, str):
        page.absent("two-blas", "two-blas-peak", "two-gain", "two-peak-gain", reason=found)
        because = "a second core is measured where there are two and BLAS can be held to them"
        page.word("one-only", found, because=because)
        return
    rate = found.two.per(2 * _WIDE**3, "FLOP/s", "rate of BLAS on two threads, 2,048 wide")
    page.number("two-blas", rate)
    page.number("two-blas-peak", quotient(rate, found.peak, "share of the peak of two threads, BLAS", "%"))
    page.number("two-gain", ratio(found.one, found.two, "time of BLAS on one thread over two, 2,048 wide"))
    page.number("two-peak-gain", quotient(found.peak, machine.fp32_peak, "peak of two threads over that of one"))


def record_vectorization(page: Page, times: Mapping[int, Mapping[str, Measurement]]) -> None:
    """Show how many times faster NumPy is than a loop by the number of elements, and the claim on it.

    Args:
        page: where to; it knows BLAS over lists by then.
        times: what `vectorization_scaling` returned; 4, 64, 16,384 and 262,144 are among the numbers of elements.
    """
    compared = {size: compare_paired(each["loop"], each["vectorized"]) for size, each in times.items()}
    faster = {size: each.ratio for size, each in compared.items()}
    figure, ax = subplots(height=2.8)
    line(ax, list(faster), list(faster.values()), quantity="speedup", variant="numpy", label="x * y + z")
    ax.axhline(1, color=color("baseline"), linestyle=":", linewidth=1)
    ax.set_xscale("log", base=4)
    ax.set_yscale("log")
    ax.set_xlabel("numbers (unitless)")
    page.figure(
        "vectorization-sizes",
        figure,
        caption="How many times faster NumPy computes x * y + z than a loop over Python's lists, by the number of "
        "elements. Below the dotted line the loop wins.",
        alt="Speedup of NumPy over a Python loop by the number of elements, on logarithmic axes, with a dotted line "
        "at one.",
    )
    for size, each in compared.items():
        page.compare(f"vectorized-{size}", each)
    page.claim(
        "vectorization",
        statement="Vectorization makes code 2 to 5 times faster.",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between_all(faster.values(), low=2.0, high=5.0),
        evidence="Against a loop over lists NumPy's x * y + z ran {vectorized-4} as fast with 4 numbers and "
        "{vectorized-64} with 64. With 16,384 it ran {vectorized-16384}: no one number describes it. "
        "For products of matrices it was {lists-to-blas}.",
    )
