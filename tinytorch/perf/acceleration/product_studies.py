"""The ladder of matrix products: each step's time, rate and distance to the machine's peak, measured in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tinytorch.perf.acceleration import products
from tinytorch.perf.machine import Ceilings, ceilings
from tinytorch.perf.measuring import Measurement, blas_threads, interleave

Kind = Literal["teaching", "real"]


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
