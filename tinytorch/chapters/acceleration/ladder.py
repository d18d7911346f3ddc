"""Ladder of matrix products, from loops in Python to BLAS and a second core, and what vectorization gains by size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tinytorch.chapters import sources
from tinytorch.perf.acceleration import products
from tinytorch.perf.acceleration.techniques import with_threads
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.kernels.gemm.product_tiles import ROWS, VECTORS
from tinytorch.perf.machine import Ceilings, ceilings, identity
from tinytorch.perf.measuring import Measurement, blas_threads, interleave, ratio
from tinytorch.report import Column, Page, bars, color, line, subplots, verdict_between, verdict_of_all

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
    "dots": "a dot product an element",
    "einsum": "einsum, default",
    "ikj": _LOOPS,
    "tiles": _TILED_LOOPS,
    "four": "compiled, four steps at once",
    "rows": "a product a row, BLAS",
    "blas-tiles": _TILED_BLAS,
    "registers": _REGISTERS,
    "packed": _PACKED,
    "einsum-blas": "einsum, optimize=True",
    "blas": _BLAS,
}


@dataclass(frozen=True)
class Rung:
    """A step that was measured: ``seconds`` of a product of float32 matrices ``width`` wide, on ``threads`` threads.

    ``of_peak`` is its rate over the FP32 ceiling of as many threads, which was measured.
    """

    step: Step
    width: int
    threads: int
    seconds: Measurement
    of_peak: Measurement

    @property
    def flops(self) -> int:
        """Floating-point operations: 2 width³."""
        return 2 * self.width**3

    @property
    def rate(self) -> Measurement:
        """FLOP/s."""
        return self.seconds.per(self.flops, "FLOP/s", f"rate of {self.step.name}")


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
            a, b = square_matrices(each)
            for step in group:
                _check_result(step, a, b)
            runs = {step.name: _bound(step.function, a, b) for step in group}
            times = interleave(runs, repeats=repeats, at_most_seconds=at_most_seconds, warmup_seconds=0.3)
            for step in group:
                seconds = times[step.name]
                share = seconds.per(2 * each**3 / made.fp32_peak.median, "", f"share of the peak, {step.name}")
                rungs[step.name] = Rung(step, each, threads, seconds, share)
    return [rungs[step.name] for step in steps]


def _bound(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Callable[[], Any]:
    return lambda: function(a, b)


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
        arrays = np.random.default_rng(size).standard_normal((3, size), dtype=np.float32)
        lists = arrays.tolist()

        def loop(lists: list[list[float]] = lists) -> list[float]:
            return [x * y + z for x, y, z in zip(*lists, strict=True)]

        def vectorized(arrays: Any = arrays) -> Any:
            return arrays[0] * arrays[1] + arrays[2]

        found[size] = interleave({"loop": loop, "vectorized": vectorized}, repeats=repeats, at_most_seconds=3.0)
    return found


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
                "share": rung.of_peak.scaled(1, "%"),
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
        page.number(f"peak-{key}", rungs[name].of_peak.scaled(1, "%"))
    page.number("peak", machine.fp32_peak)
    blas = rungs[_BLAS].rate.median
    page.number("left", machine.fp32_peak.median / blas, unit="", what="peak over the rate of BLAS")
    what = "rate of BLAS over that of loops over"
    page.number("loops-to-blas", blas / rungs[_ELEMENTS].rate.median, unit="", what=f"{what} elements of arrays")
    page.number("lists-to-blas", blas / rungs[_LISTS].rate.median, unit="", what=f"{what} lists")
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
    page.number("blas-gain", _gain(rungs, _PACKED, _BLAS))
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
        verdict=verdict_of_all(verdict_between(gain, low=1.0) for gain in gains),
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
    share = rate.scaled(1 / found.peak.median, "%", "share of the peak of two threads, BLAS")
    page.number("two-blas", rate)
    page.number("two-blas-peak", share)
    page.number("two-gain", ratio(found.one, found.two, "time of BLAS on one thread over two, 2,048 wide"))
    more = found.peak.median / machine.fp32_peak.median
    page.number("two-peak-gain", more, unit="", what="peak of two threads over that of one")


def record_vectorization(page: Page, faster: Mapping[int, Measurement]) -> None:
    """Show how many times faster NumPy is than a loop by the number of elements, and the claim on it.

    Args:
        page: where to; it knows BLAS over lists by then.
        faster: by the number of elements, rising from 4; 64 and 16,384 are among them.
    """
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
    for size, value in faster.items():
        page.number(f"vectorized-{size}", value)
    top = max(faster, key=lambda size: faster[size].median)
    page.number("vectorized-most", faster[top])
    what = "elements at which vectorization gains most"
    page.number("vectorized-most-size", top, unit="elements", what=what, derived=True)
    page.word(
        "small-arrays",
        {"refuted": "slower", "supported": "faster"}.get(
            verdict_between(faster[4], low=1.0), "no faster than noise can tell"
        ),
        because="with four numbers it runs {vectorized-4} as fast as the loop",
    )
    page.claim(
        "vectorization",
        statement="Vectorization makes code 2 to 5 times faster.",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_of_all(verdict_between(each, low=2.0, high=5.0) for each in faster.values()),
        evidence="Against a loop over lists NumPy's x * y + z ran {vectorized-4} as fast with 4 numbers, "
        "{vectorized-64} with 64 and {vectorized-16384} with 16,384: no one number describes it. "
        "For products of matrices it was {lists-to-blas}.",
    )
