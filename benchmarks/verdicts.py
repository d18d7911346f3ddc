"""Which rule tells a slower program from the same program: false alarms and power of ours and of the field's.

    python -m benchmarks.verdicts [--trials 200] [--runs 150]
    python -m benchmarks.verdicts --synthetic [--trials 2000]

The second counts wrong verdicts on made series instead of times: see `benchmarks.verdicts_synthetic`.

Each trial times the same function against itself, or sgemm against sgemm with 3 % more rows, twice: one after the
other, as tools do that run one benchmark after another, and in randomized adjacent pairs. Our rule judges the pairs,
every other rule the series; a second column shows what it would make of our pairs. All rules get as many samples,
from one warm process on one core, a few milliseconds each.

Targets over 200 trials: false verdicts of ours at most 6 % on each workload, and the slow-down found in 90 %. A tool
that finds it more often raises more false alarms than that on some workload; what folklore finds does not count.
"""

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import verdicts_synthetic
from benchmarks.beside_numpy import one_core
from benchmarks.verdict_rules import FOLKLORE, NamedRule, Times, all_rules
from benchmarks.verdicts_synthetic import FOUND, WRONG
from tinytorch.perf.measuring import interleave, measure

#: Rows of the left matrix, and with 3 % more of the same work.
_ROWS, _MORE_ROWS = 1600, 1648
_WIDTH = 256
#: float32 numbers that are copied: 16 MiB read, and 16 written.
_COPIED = 2**22
SLOWER = "sgemm, 3 % more rows"

Function = Callable[[], Any]


@dataclass
class Counts:
    """How often a rule called the candidate slower or faster, by workload: on its own samples and on our pairs."""

    own: dict[str, Counter[int]] = field(default_factory=dict)
    pairs: dict[str, Counter[int]] = field(default_factory=dict)

    def alarms(self, workload: str) -> int:
        """Return how often it called equal things different."""
        return self.own[workload][1] + self.own[workload][-1]


def product(rows: int) -> Function:
    """Return a float32 matrix product of ``rows`` rows, into an array that is there."""
    draw = np.random.default_rng(0)
    left, right = draw.random((rows, _WIDTH), dtype=np.float32), draw.random((_WIDTH, _WIDTH), dtype=np.float32)
    result = np.empty((rows, _WIDTH), np.float32)
    return lambda: np.matmul(left, right, out=result)


def workloads() -> dict[str, tuple[Function, Function]]:
    """Return baseline and candidate of each workload; the same function but for the last."""
    source, target = np.ones(_COPIED, np.float32), np.ones(_COPIED, np.float32)
    words = [f"word {index % 97}" for index in range(12_000)]

    def copy() -> None:
        np.copyto(target, source)

    def count() -> Counter[str]:
        found: Counter[str] = Counter()
        for word in words:
            found[word] += 1
        return found

    sgemm = product(_ROWS)
    return {
        "sgemm": (sgemm, sgemm),
        "memory": (copy, copy),
        "Python": (count, count),
        SLOWER: (sgemm, product(_MORE_ROWS)),
    }


def in_sequence(baseline: Function, candidate: Function, runs: int) -> tuple[Times, Times]:
    """Return the seconds of both, one after the other."""
    first, second = (measure(function, "", repeats=runs, warmup_seconds=0.02) for function in (baseline, candidate))
    return np.array(first.samples), np.array(second.samples)


def in_pairs(baseline: Function, candidate: Function, runs: int, seed: int) -> tuple[Times, Times]:
    """Return the seconds of both, in randomized adjacent pairs."""
    functions = {"baseline": baseline, "candidate": candidate}
    both = interleave(functions, repeats=runs, warmup_seconds=0.02, seed=seed)
    return np.array(both["baseline"].samples), np.array(both["candidate"].samples)


def run(rules: list[NamedRule], trials: int, runs: int, console: Console) -> dict[str, Counts]:
    """Return the counts of every rule over all workloads; the workloads take turns, so that all see every hour."""
    made = workloads()
    counts = {rule.name: Counts({w: Counter() for w in made}, {w: Counter() for w in made}) for rule in rules}
    for trial in track(range(trials), "trials", console=console, disable=not console.is_terminal):
        for workload, (baseline, candidate) in made.items():
            series = in_sequence(baseline, candidate, runs)
            pairs = in_pairs(baseline, candidate, runs, trial)
            for rule in rules:
                of_pairs = rule.decide(*pairs)
                counts[rule.name].pairs[workload][of_pairs] += 1
                counts[rule.name].own[workload][of_pairs if rule.paired else rule.decide(*series)] += 1
    return counts


def show(rules: list[NamedRule], counts: dict[str, Counts], trials: int, console: Console) -> None:
    """Print the table."""
    same = [workload for workload in workloads() if workload != SLOWER]
    table = Table(title=f"of {trials} trials each; in brackets: the same rule on our pairs")
    table.add_column("rule")
    table.add_column("from")
    for workload in same:
        table.add_column(f"false alarms, {workload}", justify="right")
    table.add_column("3 % found", justify="right")
    for rule in rules:
        found = counts[rule.name]
        cells = []
        for workload in same:
            own, pairs = found.own[workload], found.pairs[workload]
            cells.append(f"{1 - own[0] / trials:.1%} [{1 - pairs[0] / trials:.1%}]")
        cells.append(f"{found.own[SLOWER][1] / trials:.1%} [{found.pairs[SLOWER][1] / trials:.1%}]")
        table.add_row(rule.name, rule.source, *(cell.replace("[", r"\[") for cell in cells))
    console.print(table)


def misses(rules: list[NamedRule], counts: dict[str, Counts], trials: int) -> list[str]:
    """Return what is not as it should be, a sentence each."""
    same = [workload for workload in workloads() if workload != SLOWER]
    first, *others = rules
    ours, found = counts[first.name], []
    for workload in same:
        if ours.alarms(workload) > WRONG * trials:
            found.append(f"{ours.alarms(workload)} false alarms on {workload} in {trials}: above {WRONG:.0%}")
    power = ours.own[SLOWER][1]
    if power < FOUND * trials:
        found.append(f"the slow-down was found {power} times in {trials}: below {FOUND:.0%}")
    for rule in (one for one in others if one.source != FOLKLORE):
        other = counts[rule.name]
        if other.own[SLOWER][1] > power and all(other.alarms(workload) <= WRONG * trials for workload in same):
            found.append(f"{rule.name} found the slow-down {other.own[SLOWER][1]} times, ours {power}")
    return found


def main(arguments: list[str]) -> int:
    """Run the trials and print the table; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, help="of each workload: 200, or 2000 of each kind of made noise")
    parser.add_argument("--runs", type=int, default=150, help="samples of each function in a trial")
    parser.add_argument("--synthetic", action="store_true", help="judge made series whose true ratio is known")
    options = parser.parse_args(arguments)
    options.trials = options.trials or (2000 if options.synthetic else 200)
    if options.trials < 1 or options.runs < 10:
        parser.error("--trials must be at least 1 and --runs at least 10")
    console = Console(width=150)
    if options.synthetic:
        outcome = verdicts_synthetic.count(options.trials, console)
        verdicts_synthetic.show(outcome, options.trials, console)
        return _report(verdicts_synthetic.misses(outcome), console)
    rules = all_rules()
    gc.freeze()  # what is imported needs no look in each of the trials
    start, cpu = time.perf_counter(), time.process_time()
    with one_core() as conditions:
        counts = run(rules, options.trials, options.runs, console)
    seconds = time.perf_counter() - start
    core = (time.process_time() - cpu) / seconds
    console.print(conditions, f"{options.runs} samples of each in a trial, {seconds:.0f} s in all.")
    console.print(f"The process had its core for {core:.0%} of the time: what is missing, other programs took.")
    show(rules, counts, options.trials, console)
    return _report(misses(rules, counts, options.trials), console)


def _report(missed: list[str], console: Console) -> int:
    for sentence in missed:
        console.print(f"missed: {sentence}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
