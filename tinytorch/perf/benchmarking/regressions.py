"""Two runs compared whole: each variant that both have, the geometric mean of all, and what is proven worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tinytorch.perf.benchmarking.comparing import MATTERS, compare_processes, log_time
from tinytorch.perf.benchmarking.performance import Change, Performance, compare
from tinytorch.perf.benchmarking.results import Results, differences
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import Comparison


@dataclass(frozen=True)
class ResultsChange:
    """Change from a base run to a new one.

    Attributes:
        changes: of each variant that both runs measured, by name; times corrected for all comparisons made.
        geometric_mean: of all those times, base over new, taken in each process: above 1 is faster.
        warnings: sentences on what makes the comparison doubtful: other machine, other plan, incomplete runs.
        only_base, only_new: variants that only one of the runs has.
    """

    changes: Mapping[str, Change]
    geometric_mean: Comparison
    warnings: tuple[str, ...]
    only_base: tuple[str, ...]
    only_new: tuple[str, ...]

    @property
    def regressions(self) -> tuple[str, ...]:
        """What is proven worse, a few words each: slower, larger or less accurate by more than does not matter."""
        found = []
        for name, change in self.changes.items():
            found += [
                f"{name} at batch {size} is slower: {_interval(speedup)} of its speed"
                for size, speedup in change.speedups.items()
                if speedup.is_loss
            ]
            if change.memory.is_loss:
                found.append(f"{name} takes more memory: {1 / float(change.memory):.3g} times as much")
            if change.size.is_loss:
                found.append(f"{name} is larger: {1 / float(change.size):.3g} times as many bytes")
            if change.accuracy is not None and change.accuracy.is_loss:
                found.append(f"{name} is less accurate: {100 * float(change.accuracy):+.2f} points")
        if self.geometric_mean.is_loss:
            found.append(f"the geometric mean is slower: {_interval(self.geometric_mean)} of the speed")
        return tuple(found)


def _interval(made: Comparison) -> str:
    return f"{made.interval.low:.3f} to {made.interval.high:.3f}"


def compare_results(base: Results, new: Results, matters: float = MATTERS) -> ResultsChange:
    """Return what two separate runs say of each variant that both have, and of all together.

    Args:
        base: the older run.
        new: the newer.
        matters: relative difference of time that matters: 0.02 is two per cent.

    Raises:
        ValueError: if the runs have no variant and batch size in common, or a number is out of its range.

    Examples:
        >>> from tinytorch.perf.benchmarking import compare_results
        >>> from tinytorch.perf.benchmarking.results import Plan
        >>> from tinytorch.perf.benchmarking.running import started
        >>> results = started(Plan("mlp", batches=(1,)), {"version": "0.1.0"})
        >>> compare_results(results, results)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: ...
    """
    if not 0 <= matters < math.inf:
        raise ValueError(f"matters must be at least 0, such as 0.02 for two per cent, not {matters}")
    names = [name for name in base.performances if name in new.performances]
    # A plan may be the same and the two files one run, which was saved twice: nothing then was taken in turns.
    before = {name: replace(base.performances[name], run="base") for name in names}
    after = {name: replace(new.performances[name], run="new") for name in names}
    shared = [(name, size) for name in names for size in before[name].batches if size in after[name].times]
    if not shared:
        raise ValueError("the runs must have a variant and a batch size in common, but have none")
    compared = len(shared) + 1
    changes = {
        name: compare(before[name], after[name], matters, together=compared)
        for name in dict.fromkeys(name for name, _ in shared)
    }
    mean = _geometric_mean(before, after, shared, matters, compared)
    return ResultsChange(
        changes,
        mean,
        tuple(_warnings(base, new)),
        tuple(name for name in base.performances if name not in new.performances),
        tuple(name for name in new.performances if name not in base.performances),
    )


def _warnings(base: Results, new: Results) -> list[str]:
    found = []
    changed = differences(base, new)
    if changed:
        found.append(f"this comparison crosses machines or environments: {'; '.join(changed)}")
    for name, one in (("base", base), ("new", new)):
        if not one.complete:
            found.append(f"the {name} run is not complete: {one.done} of {one.plan.processes} processes")
    if base.plan.subject != new.plan.subject:
        found.append(f"the runs are of {base.plan.subject} and {new.plan.subject}")
    return found


def _geometric_mean(
    before: Mapping[str, Performance],
    after: Mapping[str, Performance],
    shared: list[tuple[str, int]],
    matters: float,
    together: int,
) -> Comparison:
    """Return the comparison of each process's geometric mean of all its times, over the reference's if both have it."""
    beside = all(one.reference for side in (before, after) for one in side.values())
    sides = [[_mean_of_process(side, shared, at, beside) for at in range(_processes(side))] for side in (before, after)]
    return compare_processes(sides[0], sides[1], matters, names=("base", "new"), together=together)


def _processes(side: Mapping[str, Performance]) -> int:
    return min(len(times) for one in side.values() for times in one.times.values())


def _mean_of_process(
    side: Mapping[str, Performance], shared: list[tuple[str, int]], at: int, beside: bool
) -> Measurement:
    """Return the geometric mean of the medians of a process's times, over the reference's if ``beside``."""
    logs = [
        log_time(side[name].times[size][at], side[name].reference[size][at] if beside else None)
        for name, size in shared
    ]
    return Measurement("geometric mean", (math.exp(float(np.mean(logs))),), "")
