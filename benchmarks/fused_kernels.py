"""The fused kernels against memory's copy, NumPy and PyTorch, in turns, on one core and on two.

    python -m benchmarks.fused_kernels [1 | 2]

Targets: GELU of 5000 x 5000 float32 at 0.9 of `np.copyto`'s rate and 10 times the honest expression, 5 times at 2000 x
2000; softmax, layer norm and cross-entropy at 0.7 of the copy's rate; each faster than PyTorch eager and compiled. The
rate is bytes read and written over time. The copy goes to an array that is there, as a result with ``out`` does; the
rows without it also pay for the pages of a new array, as `np.copyto` to a new array does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional

from benchmarks.conditions import one_core
from tinytorch.core import ops
from tinytorch.perf.acceleration import (
    fused_gelu,
    fused_layer_norm,
    fused_softmax,
    unfused_gelu,
)
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.measuring import Measurement, blas_threads, interleave, ratio

#: Name of a run, its function, and the bytes that it must move; no bytes, no rate to hold against the copy's.
Run = tuple[str, Callable[[], Any], int]
#: What stands in a line: the baseline, the candidate, and the least ratio of their times, or of their rates.
Target = tuple[str, str, float, bool]


def _compiled(function: Callable[..., Any], *inputs: torch.Tensor) -> Callable[..., Any] | None:
    """Return PyTorch's compiled function, warm; None where this environment cannot compile."""
    made = torch.compile(function)
    try:
        made(*inputs)
    except Exception as error:  # any of the compiler's own kinds
        Console().print(f"torch.compile does not work here: {str(error).splitlines()[0]}")
        return None
    return made


def gelu_runs(width: int) -> tuple[list[Run], list[Target]]:
    """Return the runs and targets of GELU."""
    x = np.random.default_rng(0).standard_normal((width, width), np.float32)
    out, there = np.zeros_like(x), torch.from_numpy(x)
    runs: list[Run] = [
        ("copy", lambda: np.copyto(out, x), 2 * x.nbytes),
        ("copy, new array", lambda: np.copyto(np.empty_like(x), x), 2 * x.nbytes),
        ("fused", lambda: fused_gelu(x, out=out), 2 * x.nbytes),
        ("fused, new array", lambda: fused_gelu(x), 2 * x.nbytes),
        ("honest NumPy", lambda: unfused_gelu(x), 0),
        ("torch", lambda: functional.gelu(there, approximate="tanh"), 0),
    ]
    times = 10.0 if width >= 5000 else 5.0
    targets: list[Target] = [
        ("copy", "fused", 0.9, True),
        ("copy, new array", "fused, new array", 0.9, True),
        ("honest NumPy", "fused", times, False),
        ("honest NumPy", "fused, new array", times, False),
        ("torch", "fused, new array", 1.0, False),
    ]
    made = _compiled(lambda t: functional.gelu(t, approximate="tanh"), there)
    if made is not None:
        runs.append(("torch.compile", lambda: made(there), 0))
        targets.append(("torch.compile", "fused, new array", 1.0, False))
    return runs, targets


def row_runs(rows: int, width: int) -> Iterator[tuple[str, list[Run], list[Target]]]:
    """Yield name, runs and targets of softmax, layer norm and cross-entropy."""
    draw = np.random.default_rng(0)
    x, one = draw.standard_normal((rows, width), np.float32), np.ones(width, np.float32)
    labels = draw.integers(0, width, rows)
    there, one_there, labels_there = (torch.from_numpy(array) for array in (x, one, labels))
    loss = kernel_implementations()[ops.cross_entropy].forward
    cases: tuple[tuple[str, Callable[[], Any], int, Callable[..., Any], tuple[Any, ...]], ...] = (
        ("softmax", lambda: fused_softmax(x), 2, lambda t: functional.softmax(t, -1), (there,)),
        (
            "layer norm",
            lambda: fused_layer_norm(x, one, one),
            2,
            lambda t, w: functional.layer_norm(t, (width,), w, w),
            (there, one_there),
        ),
        (
            "cross-entropy",
            lambda: loss(False, x, labels),
            1,
            lambda t, at: functional.cross_entropy(t, at),
            (there, labels_there),
        ),
    )
    for name, ours, passes, peer, inputs in cases:
        yield name, *_row_case(x, ours, passes, peer, inputs)


def _row_case(
    x: np.ndarray[Any, Any], ours: Callable[[], Any], passes: int, peer: Callable[..., Any], inputs: tuple[Any, ...]
) -> tuple[list[Run], list[Target]]:
    runs: list[Run] = [
        ("copy, new array", lambda: np.copyto(np.empty_like(x), x), 2 * x.nbytes),
        ("fused", ours, passes * x.nbytes),
        ("torch", lambda: peer(*inputs), 0),
    ]
    targets: list[Target] = [("copy, new array", "fused", 0.7, True), ("torch", "fused", 1.0, False)]
    made = _compiled(peer, *inputs)
    if made is not None:
        runs.append(("torch.compile", lambda: made(*inputs), 0))
        targets.append(("torch.compile", "fused", 1.0, False))
    return runs, targets


def _report(table: Table, name: str, runs: list[Run], targets: list[Target]) -> bool:
    """Measure, add a line for each target, and return whether all are met by the whole interval."""
    measured = interleave({label: run for label, run, _ in runs}, repeats=20, at_most_seconds=6, warmup_seconds=0.3)
    moved = {label: count for label, _, count in runs}
    met = True
    for baseline, candidate, least, is_rate in targets:
        found: Measurement = ratio(measured[baseline], measured[candidate])
        factor = moved[candidate] / moved[baseline] if is_rate else 1.0
        low, middle, high = (factor * v for v in (found.interval.low, found.median, found.interval.high))
        good = low >= least
        met = met and good
        table.add_row(
            name,
            f"{candidate}: {measured[candidate].median * 1e3:.3f} ms",
            f"{'rate of' if is_rate else 'faster than'} {baseline}: {measured[baseline].median * 1e3:.3f} ms",
            f"{middle:.2f} [{low:.2f}, {high:.2f}]",
            f"{least:g}",
            "met" if good else ("missed" if high < least else "open"),
        )
    return met


def _all(threads: int) -> bool:
    torch.set_num_threads(threads)
    table = Table("kernel", "candidate", "against", "ratio [95 % interval]", "target", "", title=f"{threads} thread(s)")
    results = [_report(table, f"GELU {width} x {width}", *gelu_runs(width)) for width in (2000, 5000)]
    results += [
        _report(table, f"{name} {rows} x {width}", runs, targets)
        for rows, width in ((8192, 1024), (512, 768))
        for name, runs, targets in row_runs(rows, width)
    ]
    Console(width=150).print(table)
    return all(results)


def main() -> int:
    """Run on one core, or with "2" on two; return 1 if a target is not met."""
    if sys.argv[1:] == ["2"]:
        with blas_threads(2):
            return 0 if _all(2) else 1
    with one_core() as described:
        Console().print(described)
        return 0 if _all(1) else 1


if __name__ == "__main__":
    sys.exit(main())
