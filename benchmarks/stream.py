"""The probes of the machine's ceilings against the same work in C, compiled with gcc -O3 -march=native.

    python -m benchmarks.stream

Both run in turns on the same core and the same memory. The triad must be within 15 % of C's in each level of memory,
the multiply-adds within 10 %. Without gcc there is nothing to compare with, which is said.
"""

import ctypes
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.conditions import one_core
from tinytorch.perf.host.identity import caches, reported_capacities
from tinytorch.perf.host.memory_pages import Arena
from tinytorch.perf.host.pinned_threads import allowed_cores
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.probes import BLOCK_ELEMENTS, LANES, MULTIPLY_ADDS
from tinytorch.perf.machine.bandwidth_sweep import LARGEST, stream_arrays
from tinytorch.perf.machine.probing import calibrated_rounds
from tinytorch.perf.measuring import interleave
from tinytorch.perf.measuring.comparison import compare_paired

SOURCE = Path(__file__).with_name("stream.c")
TRIAD, MULTIPLY_ADD = 0.15, 0.10
PAIRS = 41
_SAMPLE_SECONDS = 2e-3
#: STREAM's own rule: the arrays together are at least four times the last cache.
_BEYOND_LAST = 4


@dataclass(frozen=True)
class Case:
    """The same work by C and by our probe, each a function of rounds, and what a round of each does."""

    name: str
    c: Callable[[int], Any]
    c_amount: float
    ours: Callable[[int], Any]
    our_amount: float
    unit: str
    within: float


def compiled(folder: Path) -> tuple[ctypes.CDLL, str] | None:
    """Return the library of `SOURCE`, compiled into ``folder``, and the command; None where there is no gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    # gcc prefers 256-bit vectors on CPUs that have 512: C is to have the widest too.
    width = ["-mprefer-vector-width=512"] if platform.machine() == "x86_64" else []
    options = ["-O3", "-march=native", *width, "-shared", "-fPIC"]
    target = folder / "stream.so"
    subprocess.run([compiler, *options, "-o", str(target), str(SOURCE)], check=True)
    library = ctypes.CDLL(str(target))
    pointer, number, count = ctypes.c_void_p, ctypes.c_float, ctypes.c_long
    library.triad.argtypes, library.triad.restype = [pointer, pointer, pointer, number, count, count], None
    library.multiply_add.argtypes, library.multiply_add.restype = [number, number, count], number
    library.lanes.restype = library.flops_of_a_round.restype = count
    return library, f"gcc {' '.join(options)}"


def triad_cases(library: ctypes.CDLL, lanes: int, core: int) -> list[Case]:
    """Return the triad inside each cache that is reported, and beyond the last."""
    reported = reported_capacities(caches(), [core])
    beyond = max(LARGEST, _BEYOND_LAST * max(reported.values(), default=0))
    sizes = {f"L{level}": size // 2 for level, size in reported.items()} | {"memory": beyond}
    arena = Arena(beyond + 2**20)
    arena.view(0, arena.memory.size // 4, np.float32)[:] = 1.0
    ours = probes.triad(lanes)
    cases = []
    for name, size in sizes.items():
        target, left, right = stream_arrays(arena, "triad", size)
        c = partial(library.triad, target.ctypes.data, left.ctypes.data, right.ctypes.data, 0.5, target.size)
        moved = 3 * target.nbytes
        mine = partial(ours, target, left, right, np.float32(0.5))
        cases.append(Case(f"triad, {name}, {moved / 2**20:.3g} MiB", c, moved, mine, moved, "GB/s", TRIAD))
    return cases


def multiply_add_case(library: ctypes.CDLL, lanes: int) -> Case:
    """Return the multiply-adds: C's in registers, ours at the end of the sweep on a block of the first cache."""
    most = max(MULTIPLY_ADDS)
    block = Arena(4 * BLOCK_ELEMENTS).view(0, BLOCK_ELEMENTS, np.float32)
    block[:] = 2.0
    kernel = probes.multiply_add(lanes, most)
    return Case(
        f"multiply-add, vectors of {library.lanes()} in C, {lanes} here",
        lambda rounds: library.multiply_add(0.999, 0.001, rounds),
        library.flops_of_a_round(),
        lambda rounds: kernel(block, rounds, np.float32(0.999), np.float32(0.001)),
        2 * most * BLOCK_ELEMENTS,
        "GFLOP/s",
        MULTIPLY_ADD,
    )


def check(library: ctypes.CDLL) -> None:
    """Raise RuntimeError if C does not compute what it should."""
    left, right, target = (np.arange(1000, dtype=np.float32) * k for k in (1, 2, 0))
    library.triad(target.ctypes.data, left.ctypes.data, right.ctypes.data, 0.5, 1000, 2)
    if not np.array_equal(target, left + np.float32(0.5) * right):
        raise RuntimeError("the triad in C is wrong")
    if library.multiply_add(1.0, 0.0, 3) != library.lanes() * sum(1.0 + chain for chain in range(12)):
        raise RuntimeError("the multiply-add in C is wrong")


def _seconds(function: Callable[[int], Any], rounds: int) -> float:
    start = time.perf_counter()
    function(rounds)
    return time.perf_counter() - start


def run(case: Case) -> tuple[list[str], bool]:
    """Return the row of the table, and whether the case is a proven miss."""

    c_rounds = calibrated_rounds(partial(_seconds, case.c), _SAMPLE_SECONDS)
    our_rounds = max(1, round(c_rounds * case.c_amount / case.our_amount))
    # Times of the same amount of work, so that their ratio is that of the rates.
    scale = (case.our_amount * our_rounds) / (case.c_amount * c_rounds)
    taken = interleave(
        {"C": partial(case.c, c_rounds), "ours": partial(case.ours, our_rounds)}, repeats=PAIRS, at_most_seconds=20.0
    )
    c = taken["C"].scaled(scale)
    found = compare_paired(c, taken["ours"], case.within)
    verdict = "open"
    if found.is_gain or found.is_loss:
        verdict = f"more than {case.within:.0%} {'above' if found.is_gain else 'below'}"
    elif found.is_no_gain and found.is_no_loss:
        verdict = f"within {case.within:.0%}"
    c_rate, our_rate = (case.our_amount * our_rounds / one.median / 1e9 for one in (c, taken["ours"]))
    interval = f"{found.estimate.median:.3f} ({found.interval.low:.3f} to {found.interval.high:.3f})"
    return [
        case.name,
        f"{c_rate:.1f} {case.unit}",
        f"{our_rate:.1f} {case.unit}",
        interval,
        verdict,
    ], found.is_gain or found.is_loss


def main() -> int:
    """Print our rates beside C's; return 1 if one is proven to be further away than it may."""
    console = Console(width=130)
    with tempfile.TemporaryDirectory() as folder:
        made = compiled(Path(folder))
        if made is None:
            console.print("There is no gcc on the path, so the probes are not compared with C.")
            return 0
        library, command = made
        check(library)
        table = Table("work", "C", "ours", "ours / C, 95 %", "verdict")
        with one_core():
            core = allowed_cores()[-1]
            lanes = fastest_lanes()
            rows = [run(case) for case in [*triad_cases(library, lanes, core), multiply_add_case(library, lanes)]]
    for row, _ in rows:
        table.add_row(*row)
    console.print(f"{command}; one thread, one core.")
    console.print(table)
    return 1 if any(missed for _, missed in rows) else 0


def fastest_lanes() -> int:
    """Return the floats of a vector with which our multiply-adds are fastest, as the ceilings choose it."""
    block = np.full(BLOCK_ELEMENTS, 2.0, np.float32)
    kernels = {lanes: probes.multiply_add(lanes, max(MULTIPLY_ADDS)) for lanes in LANES}
    taken = interleave(
        {str(k): partial(f, block, 500, np.float32(0.999), np.float32(0.001)) for k, f in kernels.items()}, repeats=7
    )
    return min(LANES, key=lambda lanes: taken[str(lanes)].median)


if __name__ == "__main__":
    sys.exit(main())
