"""What makes repeats of a call differ here: the moment, what ran before, where operands lie, the process, a neighbour.

    python -m benchmarks.repeatability [--processes 12]

A block is five samples of a call, and its value their median. In each of several fresh processes eight blocks of each
call are taken under four conditions: in a row; in rounds with the other calls, in an order drawn anew; in rounds with
operands copied to fresh places before each block, at any multiple of 16 bytes; and in rounds with operands at fresh
places that begin at a page. The table shows by how much blocks differ (standard deviation of their logs), and the
process by how much the medians of its rounds differ from other processes'. Two columns more are ratios of medians:
processes without transparent huge pages, and beside a busy process on the other core, over quiet ones.

Source of the design: T. Kalibera and R. Jones, Rigorous benchmarking in reasonable time, ISMM 2013 (levels of
repetition); C. Curtsinger and E. D. Berger, Stabilizer, ASPLOS 2013 (layout drawn anew within a run).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.conditions import one_core
from tinytorch.perf.host.pinned_threads import allowed_cores
from tinytorch.perf.measuring import collector_off
from tinytorch.perf.measuring.processes import output_of
from tinytorch.perf.measuring.sampling import LayoutRandomizer

BLOCKS, SAMPLES = 8, 5
#: One sample lasts at least this many seconds.
_SAMPLE_SECONDS = 2e-4
_PAGE = 4096
#: prctl(2): transparent huge pages off for this process.
_PR_SET_THP_DISABLE = 41

Call = Callable[[], Any]
#: Copies an array to a place.
Placing = Callable[[Any], Any]


def at_offset(draw: np.random.Generator | None) -> Placing:
    """Return what copies an array to a fresh place: a page's begin, or with ``draw`` any multiple of 16 bytes."""

    def placed(array: Any) -> Any:
        offset = 0 if draw is None else int(draw.integers(_PAGE // 16)) * 16
        room = np.empty(array.nbytes + 2 * _PAGE, np.uint8)
        start = -room.ctypes.data % _PAGE + offset
        copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        copy[...] = array
        return copy

    return placed


def makers() -> dict[str, Callable[[Placing], Call]]:
    """Return, by name, what makes a call whose operands lie where a placing puts them."""
    from tinytorch import models
    from tinytorch.core.dispatch import no_grad
    from tinytorch.core.tensor import Tensor
    from tinytorch.perf.acceleration import fused_gelu

    draw = np.random.default_rng(0)
    wide = [draw.standard_normal((1024, 1024)).astype(np.float32) for _ in range(2)]
    middle = [each[:512, :512].copy() for each in wide]
    vector, small = wide[0][0].copy(), [np.ones(4, np.float32) for _ in range(2)]

    def add(place: Placing) -> Call:
        a, b = map(place, wide)
        return lambda: a + b

    def matrix_vector(place: Placing) -> Call:
        a, b = place(wide[0]), place(vector)
        return lambda: a @ b

    def product(place: Placing) -> Call:
        a, b = map(place, middle)
        return lambda: a @ b

    def few(place: Placing) -> Call:
        a, b = map(place, small)
        return lambda: a + b

    def gelu(place: Placing) -> Call:
        from tinytorch.perf.acceleration import unfused_gelu

        x = Tensor(place(wide[0]))
        return lambda: unfused_gelu(x)

    def gelu_kernel(place: Placing) -> Call:
        x = Tensor(place(wide[0]))
        return lambda: fused_gelu(x)

    def model(name: str) -> Callable[[Placing], Call]:
        def made(place: Placing) -> Call:
            entry = models.entry(name)
            built = entry.make(0).eval()
            for parameter in built.parameters():
                parameter.data = place(parameter.data)
            inputs = models.as_input(entry.example_input(64))
            if isinstance(inputs, Tensor):
                inputs = Tensor(place(inputs.data))

            def run() -> Any:
                with no_grad():
                    return built(inputs)

            return run

        return made

    return {
        "add of 4": few,
        "add of a million": add,
        "matrix x vector": matrix_vector,
        "product, 512 wide": product,
        "GELU, NumPy": gelu,
        "GELU, kernel": gelu_kernel,
        "MLP, 64": model("mlp"),
        "GPT, 64": model("gpt"),
    }


def _loops(call: Call) -> int:
    for _ in range(3):
        call()
    start = time.perf_counter_ns()
    call()
    seconds = (time.perf_counter_ns() - start) * 1e-9
    return max(1, int(_SAMPLE_SECONDS / max(seconds, 1e-8)))


def block(call: Call, loops: int) -> float:
    """Return the median of five samples, in seconds a call, after two calls that do not count."""
    call()
    call()
    samples = []
    for _ in range(SAMPLES):
        start = time.perf_counter_ns()
        for _ in range(loops):
            call()
        samples.append((time.perf_counter_ns() - start) * 1e-9 / loops)
    return float(np.median(samples))


def one_process(seed: int) -> dict[str, dict[str, list[float]]]:
    """Return seconds of the blocks of this process, by call and condition."""
    draw = np.random.default_rng(seed)
    every = makers()
    found: dict[str, dict[str, list[float]]] = {name: {} for name in every}
    anywhere, page = at_offset(draw), at_offset(None)
    with one_core(), collector_off():
        calls = {name: make(np.copy) for name, make in every.items()}
        loops = {name: _loops(call) for name, call in calls.items()}
        for name, call in calls.items():
            found[name]["in a row"] = [block(call, loops[name]) for _ in range(BLOCKS)]
        places = LayoutRandomizer(draw)

        def shaken(name: str) -> Call:
            places.move()
            return calls[name]

        conditions: dict[str, Callable[[str], Call]] = {
            "in rounds": lambda name: calls[name],
            "shaken heap": shaken,
            "any place": lambda name: every[name](anywhere),
            "page places": lambda name: every[name](page),
        }
        for condition, made in conditions.items():
            for _ in range(BLOCKS):
                for name in draw.permutation(list(every)):
                    taken = block(made(name), loops[name])
                    found[name].setdefault(condition, []).append(taken)
    return found


def _process(seed: int, *, huge: bool = True) -> dict[str, dict[str, list[float]]]:
    words = ["-m", "benchmarks.repeatability", "--worker", str(seed), *([] if huge else ["--no-huge-pages"])]
    found: dict[str, dict[str, list[float]]] = json.loads(output_of(words).splitlines()[-1])
    return found


def _beside_a_busy_process(seed: int) -> dict[str, dict[str, list[float]]]:
    busy = subprocess.Popen(
        [sys.executable, "-c", "import numpy as np\na = np.ones(8_000_000)\nwhile True: a += 1.0"],
        preexec_fn=lambda: os.sched_setaffinity(0, allowed_cores()[:1]),
    )
    try:
        return _process(seed)
    finally:
        busy.kill()
        busy.wait()


def spread(values: list[float]) -> float:
    """Return the standard deviation of the logs."""
    return float(np.std(np.log(values), ddof=1))


def show(runs: list[dict[str, Any]], small: list[dict[str, Any]], busy: list[dict[str, Any]], console: Console) -> None:
    """Print the table."""
    conditions = list(next(iter(runs[0].values())))
    table = Table(title=f"blocks of {SAMPLES} samples, {len(runs)} processes: spread of their medians")
    for head in ("call", "time", *conditions, "process", "no huge pages", "beside a busy process"):
        table.add_column(head, justify="left" if head == "call" else "right")
    for name in runs[0]:
        within = [float(np.median([spread(run[name][c]) for run in runs])) for c in conditions]
        medians = [float(np.median(run[name]["in rounds"])) for run in runs]
        middle = float(np.median(medians))
        ratios = [
            float(np.median([np.median(run[name]["in rounds"]) for run in others])) / middle for others in (small, busy)
        ]
        row = [name, f"{middle * 1e6:.3g} us", *(f"{one:.1%}" for one in within), f"{spread(medians):.1%}"]
        table.add_row(*row, *(f"{one:.2f}" for one in ratios))
    console.print(table)


def main(arguments: list[str]) -> int:
    """Run the processes and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repeatability", description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=12, help="fresh processes, one after the other")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--no-huge-pages", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.no_huge_pages:
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
    if options.worker is not None:
        sys.stdout.write("\n" + json.dumps(one_process(options.worker)))
        return 0
    console = Console(width=150)
    silent = not console.is_terminal
    runs = [_process(seed) for seed in track(range(options.processes), "processes", console=console, disable=silent)]
    small = [_process(seed, huge=False) for seed in range(3)]
    busy = [_beside_a_busy_process(seed) for seed in range(3)]
    with one_core() as conditions:
        console.print(conditions)
    show(runs, small, busy, console)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
