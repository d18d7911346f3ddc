"""What recording costs at scale: time and bytes an op of a million small ones, and its tables and trace.

    python -m benchmarks.recording [ops]

The targets, of a million: at most 3 microseconds and 200 bytes an op beyond the op itself, tables in two seconds, the
trace in five. PyTorch's profiler records the same additions of its own beside it; its table and its trace are of as
many.
"""

from __future__ import annotations

import contextlib
import gc
import io
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity
from torch.profiler import profile as torch_profile

from benchmarks.conditions import one_core
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.perf.profiling import Profiler

OPS = 1_000_000
#: Microseconds and bytes an op, seconds of the tables and of the trace.
TARGETS = (3.0, 200.0, 2.0, 5.0)
#: Ops of the run whose memory is traced, which takes far longer an op.
_TRACED = 100_000


def additions(count: int) -> None:
    """Add one element to another, ``count`` times."""
    one = Tensor(np.ones(1, np.float32))
    with no_grad():
        for _ in range(count):
            apply(ops.add, one, one)


def peer_additions(count: int) -> None:
    """Do the same in PyTorch."""
    one = torch.ones(1)
    with torch.no_grad():
        for _ in range(count):
            torch.add(one, one)


def seconds_of(run: Callable[[], object]) -> float:
    """Return the wall time of one call, after a collection of garbage."""
    gc.collect()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def bytes_an_op(count: int) -> float:
    """Return what the recorder keeps, and what it made of it afterwards, by tracemalloc."""
    additions(1000)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    with Profiler() as profiler:
        additions(count)
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(profiler.run.events) == count
    return kept / count


def ours(count: int, folder: Path) -> tuple[float, float, float, float]:
    """Return microseconds and bytes an op, and the seconds of tables and trace."""
    plain = seconds_of(lambda: additions(count))
    profiler = Profiler()

    def recorded() -> None:
        with profiler:
            additions(count)

    cost = (seconds_of(recorded) - plain) / count * 1e6

    def tables() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            profiler.print_top_operations()
            profiler.print_by_layer()

    trace = seconds_of(lambda: profiler.export_chrome_trace(folder / "ours.json"))
    return cost, bytes_an_op(min(count, _TRACED)), seconds_of(tables), trace


def peers(count: int, folder: Path) -> tuple[float, None, float, float]:
    """Return the same of PyTorch's profiler, whose memory is not Python's."""
    plain = seconds_of(lambda: peer_additions(count))
    made = torch_profile(activities=[ProfilerActivity.CPU])

    def recorded() -> None:
        with made:
            peer_additions(count)

    cost = (seconds_of(recorded) - plain) / count * 1e6
    table = seconds_of(lambda: made.key_averages().table())
    return cost, None, table, seconds_of(lambda: made.export_chrome_trace(str(folder / "peer.json")))


def main(arguments: list[str]) -> int:
    """Print both; return 1 if one of ours is above its target."""
    count = int(arguments[0]) if arguments else OPS
    heads = ("recording (µs an op)", "kept (bytes an op)", "tables (s)", "trace (s)")
    table = Table("profiler", *heads)
    with one_core() as conditions, tempfile.TemporaryDirectory() as name:
        torch.set_num_threads(1)
        found = ours(count, Path(name))
        table.add_row("tinytorch", *(f"{value:.2f}" for value in found))
        theirs = peers(count, Path(name))
        table.add_row("torch.profiler", *("–" if value is None else f"{value:.2f}" for value in theirs))
    table.add_row("target", *(f"{value:g}" for value in TARGETS))
    console = Console(width=110)
    console.print(conditions, f"{count:,} additions of one element.")
    console.print(table)
    return int(any(value > target for value, target in zip(found, TARGETS, strict=True)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
