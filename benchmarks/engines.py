"""Whole models in every engine: the same weights, checked to agree, on one core and on two, each in a process.

    python -m benchmarks.engines [--cores 1 2] [--rounds 15] [subject ...]

Ours is the fastest of its settings, named in the table. Targets, as time of ours over the other's:
at most 0.9 of ONNX Runtime in a forward and 0.85 of JAX in a training step, for the block of GPT-2's shape and the GPT;
at most 1.0 of the fastest other engine for MLP and CNN; at most 0.6 of PyTorch eager everywhere.
The roof is the time with every op at its own ceiling; each miss is followed by where our time goes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tinytorch.perf.engines.ours import parts, recorded, seconds_at_roof
from tinytorch.perf.engines.presence import available
from tinytorch.perf.engines.protocol import ENGINES, OURS, Phase
from tinytorch.perf.engines.turns import Raced, race, runners
from tinytorch.perf.engines.workloads import SUBJECTS, subject
from tinytorch.perf.host.pinned_threads import pinned_to, usable_cores
from tinytorch.perf.machine import ceilings
from tinytorch.perf.measuring import Measurement, blas_threads
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.statistics import Interval

PHASES: tuple[Phase, ...] = ("forward", "step")
#: What has targets, and the engines that run it.
COMPARED = tuple(name for name in SUBJECTS if name not in ("product-512", "wide-gpt-1"))
COLUMNS = tuple(engine.name for engine in ENGINES.values() if "forward" in engine.phases)
#: Parts of our time that a miss shows.
SHOWN_PARTS = 6


@dataclass(frozen=True)
class Goal:
    """Our time over another engine's, at most ``at_most``: the ratio, its interval, and whether it was reached."""

    against: str
    ratio: float
    interval: Interval
    at_most: float

    @property
    def verdict(self) -> str:
        """Met or missed where the whole interval says so, else unclear."""
        if self.interval.high <= self.at_most:
            return "met"
        return "missed" if self.interval.low > self.at_most else "unclear"

    def __str__(self) -> str:
        low, high = self.interval.low, self.interval.high
        return f"{self.ratio:.2f} [{low:.2f}, {high:.2f}] of {self.against}, {self.at_most:g}: {self.verdict}"


def goals(raced: Raced) -> list[Goal]:
    """Return how our fastest setting stands to each target that holds for this subject and phase."""
    others = [name for name in raced.times if name not in OURS]
    if raced.subject.startswith(("mlp", "cnn")):
        first = (raced.fastest(others).name, 1.0)
    else:
        first = ("ONNX Runtime", 0.9) if raced.phase == "forward" else ("JAX", 0.85)
    ours = raced.fastest(OURS)
    return [_goal(ours, raced.times[name], at_most) for name, at_most in (first, ("PyTorch eager", 0.6))]


def _goal(ours: Measurement, other: Measurement, at_most: float) -> Goal:
    # Ours as the baseline: the ratio is then our time over the other's.
    compared = compare_paired(ours, other, matters=0.05)
    return Goal(other.name, compared.estimate.median, compared.interval, at_most)


def row(raced: Raced, roof: float) -> list[str]:
    """Return a line of the table."""
    ours = raced.fastest(OURS)
    milliseconds = [f"{raced.times[name].median * 1e3:.3f}" if name in raced.times else "" for name in COLUMNS]
    reached = [str(goal) for goal in goals(raced)]
    setting = ours.name.removeprefix("tinytorch").strip() or "NumPy"
    return [f"{raced.subject} {raced.phase}", *milliseconds, setting, *reached, f"{roof / ours.median:.0%}"]


def where(raced: Raced) -> str:
    """Return what our fastest setting spends its time on."""
    found = parts(recorded(ENGINES[raced.fastest(OURS).name], subject(raced.subject), raced.phase))
    shown = ", ".join(f"{part.name} {part.share:.0%} ({part.seconds * 1e3:.3f} ms)" for part in found[:SHOWN_PARTS])
    return f"{raced.subject} {raced.phase}: {shown}"


def run(cores: int, subjects: Iterable[str], rounds: int, console: Console) -> int:
    """Print the table for a number of cores; return how many targets are missed."""
    with runners([name for name in available() if name in COLUMNS], cores) as started:
        raced = [race(started, of, phase, cores=cores, rounds=rounds) for of in subjects for phase in PHASES]
    table = Table("ms a call", *COLUMNS, "ours", "target", "eager", "of roof", title=f"{cores} core(s)")
    missing: list[str] = []
    missed = 0
    with pinned_to(usable_cores()[-cores:]), blas_threads(cores):
        made = ceilings(cores)
        for one in raced:
            table.add_row(*row(one, seconds_at_roof(subject(one.subject), one.phase, made)))
            misses = sum(goal.verdict == "missed" for goal in goals(one))
            missed += misses
            missing += [where(one)] if misses else []
    console.print(table)
    console.print("Where our time goes in what misses a target:" if missing else "No target is missed.")
    for line in missing:
        console.print(line)
    return missed


def main(arguments: list[str]) -> int:
    """Run what is asked for; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", choices=[*COMPARED, []], help="all if none is named")
    parser.add_argument("--cores", type=int, nargs="+", default=sorted({1, len(usable_cores())}))
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args(arguments)
    console = Console(width=230)
    console.print(", ".join(f"{name} {version}" for name, version in available().items()))
    missed = [run(cores, asked.subjects or COMPARED, asked.rounds, console) for cores in asked.cores]
    return 1 if any(missed) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
