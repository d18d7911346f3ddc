"""How often `tinytorch compare` raises an alarm between two runs of the same code, and finds 5 % more time.

    python -m benchmarks.comparison [--pairs 100] [--processes 12] [--keep FOLDER] [--at-most-seconds S]

Each run is one as `tinytorch bench` makes it: fresh processes one after the other, each taking times in turns with the
reference. Runs of a model of 38 layers and of one with 40 such layers, which takes 5 % longer, follow one another: each
run is compared with the next of the same code, and with the slower one between them. An alarm is a difference
that surely is larger than what matters to the command. At most 2 % of the former may raise one, and at least 90 % of
the latter must. Runs are saved in --keep, and one that is there is not made again, so that the benchmark can be made
in pieces of --at-most-seconds.
"""

import argparse
import sys
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest

from benchmarks.conditions import one_core
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.perf.benchmarking import Results, compare, load_results, save_results
from tinytorch.perf.benchmarking.results import Plan
from tinytorch.perf.benchmarking.running import Side, run, started
from tinytorch.perf.measuring.comparison import Comparison

FALSE_ALARMS, FOUND = 0.02, 0.90
#: Two layers more are 5.3 % more work; what a call takes besides its layers makes 5 % of the time of that.
_LAYERS, _MORE, _WIDTH, _ROWS = 38, 40, 192, 16


def _layers(count: int) -> Module:
    model: Any = Sequential(*(Linear(_WIDTH, _WIDTH, seed=index) for index in range(count)))
    model.example_input = np.ones((_ROWS, _WIDTH), np.float32)
    return cast(Module, model)


def same() -> Module:
    """Return the layers."""
    return _layers(_LAYERS)


def slower() -> Module:
    """Return two more of them: 5 % more time."""
    return _layers(_MORE)


def runs(pairs: int, processes: int, folder: Path, deadline: float) -> list[tuple[Results, Results | None]]:
    """Return the runs of the same code, each with the slower one after it, as many as there is time for."""
    made: list[tuple[Results, Results | None]] = []
    for number in range(pairs + 1):
        first = _run("same", number, processes, folder, deadline)
        if first is None:
            break
        made.append((first, _run("slower", number, processes, folder, deadline) if number < pairs else None))
    return made


def _run(factory: str, number: int, processes: int, folder: Path, deadline: float) -> Results | None:
    """Return a run from ``folder``, or made now and saved there; None if it is not there and the time is over."""
    path = folder / f"{number:03d}-{factory}.json"
    if path.exists():
        return load_results(path)
    if time.monotonic() > deadline:
        return None
    plan = Plan(f"benchmarks.comparison:{factory}", (_ROWS,), processes, 500, 0.6, 1, number)
    (results,) = run([Side(started(plan, {}), lambda _: None)])
    save_results(results, path)
    return results


def compared(before: Results, after: Results) -> Comparison:
    """Return what `tinytorch compare` says of the one time that both runs took."""
    (one,), (other,) = before.performances.values(), after.performances.values()
    return compare(one, other).speedup


def show(made: list[tuple[Results, Results | None]], console: Console) -> int:
    """Print the counts with their intervals and targets; return how many targets were missed."""
    equal = [compared(a, b) for (a, _), (b, _) in pairwise(made)]
    more = [compared(a, b) for a, b in made if b is not None]
    alarms = sum(one.is_gain or one.is_loss for one in equal)
    found = sum(one.is_loss for one in more)
    table = Table("pairs of runs", "alarms", "95 % interval", "target", "verdict")
    rows = [
        (f"{len(equal)} of the same code", alarms, len(equal), f"at most {FALSE_ALARMS:.0%}", -1, FALSE_ALARMS),
        (f"{len(more)} with 5 % more time", found, len(more), f"at least {FOUND:.0%}", 1, FOUND),
    ]
    missed = 0
    for name, count, trials, target, sign, limit in rows:
        if not trials:
            continue
        ends = binomtest(count, trials).proportion_ci(0.95, method="exact")
        met = sign * (count / trials - limit) >= 0
        missed += not met
        interval = f"{ends.low:.1%} to {ends.high:.1%}"
        table.add_row(name, f"{count} ({count / trials:.1%})", interval, target, "met" if met else "missed")
    console.print(table)
    for words, several in (("same code", equal), ("5 % more time", more)):
        ratios = np.array([one.estimate.median for one in several])
        widths = np.array([one.interval.half_width for one in several])
        if ratios.size:
            low, middle, high = np.quantile(ratios, [0.05, 0.5, 0.95])
            console.print(
                f"Ratios, {words}: median {middle:.4f}, 90 % of them from {low:.4f} to {high:.4f}; "
                f"intervals are ±{np.median(widths):.4f} wide in the middle."
            )
    return missed


def main(arguments: list[str]) -> int:
    """Make the runs and print the table; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparison", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--processes", type=int, default=12, help="of each run")
    parser.add_argument("--keep", type=Path, help="folder of runs, those in it are not made again")
    parser.add_argument("--at-most-seconds", type=float, default=float("inf"), help="start no run after this long")
    options = parser.parse_args(arguments)
    if options.pairs < 1 or options.processes < 5:
        parser.error("--pairs must be at least 1 and --processes at least 5")
    console = Console(width=120)
    deadline = time.monotonic() + options.at_most_seconds
    with one_core() as conditions, TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        made = runs(options.pairs, options.processes, folder, deadline)
        console.print(conditions, f"{options.processes} processes in a run.")
    return 1 if show(made, console) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
