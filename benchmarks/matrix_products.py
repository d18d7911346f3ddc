"""Our float32 matrix product against NumPy's BLAS and PyTorch's: packed before, packed in the call, with an epilogue.

    python -m benchmarks.matrix_products [threads ...]

Shapes are those of a GPT-2-small block at several numbers of rows, and of the book's GPT. Targets: a product with a
weight packed before takes at most 1.0 of the time of NumPy's BLAS, and 0.7 of it for 2 to 64 rows; with bias and GELU
in the same pass at most 1.05 of the product alone, where that is long, and 1.0 of PyTorch's linear and GELU; the
input's gradient, a product with a transposed weight, at most 1.0 of BLAS.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional

from benchmarks.conditions import one_core
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.kernels.gemm.packed_matmul import packed_product, product
from tinytorch.perf.kernels.gemm.packing import pack
from tinytorch.perf.machine import ceilings
from tinytorch.perf.measuring import Measurement, blas_threads, interleave, ratio

#: Rows, inner, columns.
SHAPES = (
    (512, 768, 2304),
    (512, 768, 3072),
    (512, 3072, 768),
    (128, 768, 3072),
    (128, 3072, 768),
    (64, 768, 768),
    (16, 768, 3072),
    (4, 768, 3072),
    (1, 768, 3072),
    (1280, 96, 384),
)


@dataclass(frozen=True)
class Aim:
    """A candidate, what it is held against, and the largest ratio of their times that meets the target."""

    candidate: str
    baseline: str
    at_most: float


def aims(rows: int, inner: int) -> Iterator[Aim]:
    """Yield what is claimed of a product with that many rows and steps of the inner axis."""
    yield Aim("packed before", "NumPy", 0.7 if 2 <= rows <= 64 else 1.0)
    if rows > 1:
        yield Aim("transposed, packed in the call", "NumPy, transposed", 1.0)
    if rows >= 64 and inner >= 768:  # a short inner axis is so little work that GELU's own is much beside it
        yield Aim("bias and GELU", "packed before", 1.05)
    yield Aim("bias and GELU", "PyTorch, bias and GELU", 1.0)


def candidates(rows: int, inner: int, columns: int) -> dict[str, Callable[[], Any]]:
    """Return every function that is timed, on the same random operands."""
    draw = np.random.default_rng(0)
    a, b = (draw.standard_normal(shape, dtype=np.float32) for shape in ((rows, inner), (inner, columns)))
    transposed, bias = np.ascontiguousarray(b.T).T, draw.standard_normal(columns, dtype=np.float32)
    panels = pack(b)
    left, weight, added = torch.tensor(a), torch.tensor(np.ascontiguousarray(b.T)), torch.tensor(bias)

    def peer() -> Any:
        with torch.no_grad():
            return functional.gelu(functional.linear(left, weight, added), approximate="tanh")

    return {
        "NumPy": lambda: np.matmul(a, b),
        "NumPy, transposed": lambda: np.matmul(a, transposed),
        "packed before": lambda: packed_product(a, panels, columns),
        "packed in the call": lambda: product(a, b),
        "transposed, packed in the call": lambda: product(a, transposed),
        "bias and GELU": lambda: packed_product(a, panels, columns, bias, None, "gelu"),
        "PyTorch, bias and GELU": peer,
    }


def verdict(times: Measurement, at_most: float) -> str:
    """Return "met", "missed" where the interval proves it, or "unclear"."""
    low, high = times.interval.low, times.interval.high
    return "met" if high <= at_most else "missed" if low > at_most else "unclear"


def measured(shape: tuple[int, int, int], peak: float, table: Table) -> int:
    """Add the rows of a shape to the table; return how many targets were missed."""
    rows, inner, columns = shape
    flops = 2 * rows * inner * columns
    times = interleave(candidates(*shape), repeats=21, at_most_seconds=5.0, warmup_seconds=0.3)
    missed = 0
    for aim in aims(rows, inner):
        found = ratio(times[aim.candidate], times[aim.baseline])
        said = verdict(found, aim.at_most)
        missed += said == "missed"
        rate = flops / times[aim.candidate].median
        shown = f"{found.median:.2f} [{found.interval.low:.2f}, {found.interval.high:.2f}]"
        us = [f"{times[name].median * 1e6:,.1f}" for name in (aim.candidate, aim.baseline)]
        names = (f"{rows} × {inner} × {columns}", aim.candidate, aim.baseline)
        table.add_row(*names, *us, f"{rate / peak:.0%}", shown, f"{aim.at_most:.2f}", said)
    return missed


def main(wanted: list[str]) -> int:
    """Print a table for each number of threads; return 1 if a target is missed."""
    console = Console(width=150)
    counts = [int(count) for count in wanted] or sorted({1, len(usable_cores())})
    missed = 0
    for threads in counts:
        with ExitStack() as stack:
            made = ceilings(threads)
            stack.enter_context(one_core() if threads == 1 else blas_threads(threads))
            torch.set_num_threads(threads)
            peak = made.fp32_peak.median
            console.print(
                f"{threads} threads, measured FP32 peak {peak * 1e-9:.0f} GFLOP/s, PyTorch {torch.__version__}."
            )
            table = Table(
                "shape", "ours", "against", "ours (µs)", "other (µs)", "of peak", "ratio", "target", "verdict"
            )
            for shape in SHAPES:
                missed += measured(shape, peak, table)
            console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
