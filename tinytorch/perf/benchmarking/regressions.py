"""Two separate runs compared: each variant that both have, the mean of all, and what is proven worse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tinytorch.perf.benchmarking.comparing import DELTA_BETWEEN_RUNS, LARGER, WORSE, Change, compare
from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.results import Results, differences
from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.comparison import CANNOT_TELL, SLOWER, Comparison, interval_verdict
from tinytorch.perf.measuring.dependence import independent
from tinytorch.perf.measuring.statistics import Interval

#: Processes of each run below which no verdict is given: of 4 and 4 the widest interval holds with 97 %, and nothing
#: is left for a correction for several comparisons.
FEWEST_PROCESSES = 5
Logs = npt.NDArray[np.float64]


def compare_processes(
    baseline: Sequence[Measurement],
    candidate: Sequence[Measurement],
    delta: float | None,
    *,
    names: tuple[str, str],
    confidence: float = 0.95,
    compared: int = 1,
    references: tuple[Sequence[Measurement], Sequence[Measurement]] | None = None,
) -> Comparison:
    """Return the ratio baseline / candidate of times that two runs took apart, with the verdict that it supports.

    A run's processes differ by what each drew, and the two runs by what else the machine did. The unit is the process:
    its value the log of its median time, or, with a reference in both runs, the median of the log-ratios of each time
    to the reference's that was taken beside it, which a change of the clock or a busy neighbour moves less. The ratio
    is Hodges and Lehmann's: the median of all differences of a value of the one and a value of the other; its interval
    the distribution-free one that goes with the Mann-Whitney test.

    Source: M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric Statistical Methods, 3rd edition, Wiley 2014,
    sections 4.2 and 4.3.

    Args:
        baseline, candidate: seconds, one measurement from each process.
        delta: relative difference that does not matter; None if each one does.
        names: what the two are called.
        confidence: coverage of the interval, already corrected for ``compared`` comparisons.
        references: times of the fixed work beside each of both, or None.
    """
    before, after = _values(baseline, references and references[0]), _values(candidate, references and references[1])
    differences = np.sort((before[:, None] - after[None, :]).ravel())
    low, high, reached = _ends(differences, before.size, after.size, confidence)
    verdict, because = interval_verdict(low, high, delta)
    fewest = min(before.size, after.size)
    if fewest < FEWEST_PROCESSES or reached < confidence:
        needed = max(FEWEST_PROCESSES, fewest + 1)
        verdict, because = CANNOT_TELL, f"{fewest} processes of a run are too few to tell: {needed} or more may"
    how = {"statistic": "Hodges-Lehmann", "processes": [before.size, after.size], "by": _words(references)}
    middle = float(np.median(differences))
    ratio = Statistic(
        f"{names[0]} / {names[1]}",
        tuple(np.exp(differences).tolist()),
        "",
        how,
        value=math.exp(middle),
        bounds=Interval(math.exp(low), math.exp(high), reached),
    )
    wins = int((differences > 0).sum())
    return Comparison(
        *names, ratio, verdict, delta, because, wins, independent(differences.size), compared, "pairs of processes"
    )


def _words(references: object) -> str:
    return "time over that of the reference beside it" if references else "time"


def log_time(times: Measurement, reference: Measurement | None) -> float:
    """Return the median log of a process's times, or of each over the reference's that was taken beside it."""
    logs = np.log(times.samples)
    return float(np.median(logs if reference is None else logs - np.log(reference.samples)))


def _values(processes: Sequence[Measurement], references: Sequence[Measurement] | None) -> Logs:
    """Return the `log_time` of each process."""
    beside = [None] * len(processes) if references is None else references
    return np.array([log_time(*pair) for pair in zip(processes, beside, strict=True)])


def _ends(differences: Logs, m: int, n: int, confidence: float) -> tuple[float, float, float]:
    """Return the ends of the shift's interval and its coverage: the C-th smallest and largest difference.

    P(U <= C - 1) is the chance that the shift lies below the C-th smallest; the largest C is taken that leaves
    (1 - confidence) / 2 to each side, and the extremes where there is none.
    """
    tails = _mann_whitney_tails(m, n)
    allowed = int(np.searchsorted(tails, (1 - confidence) / 2 * (1 + 1e-12), side="right"))
    rank = max(allowed, 1)
    return float(differences[rank - 1]), float(differences[-rank]), 1 - 2 * float(tails[rank - 1])


def _mann_whitney_tails(m: int, n: int) -> Logs:
    """Return P(U <= u) for u from 0 to m n // 2, by counting the partitions that sum up to u."""
    ways = np.zeros(m * n + 1)
    ways[0] = 1
    # The generating function of U is the Gaussian binomial: Π (1 - q^(n + i)) / (1 - q^i), i from 1 to m.
    for i in range(1, m + 1):
        if n + i <= m * n:
            ways[n + i :] -= ways[: m * n + 1 - n - i].copy()
        for u in range(i, m * n + 1):
            ways[u] += ways[u - i]
    return np.asarray(np.cumsum(ways)[: m * n // 2 + 1] / math.comb(m + n, m))


@dataclass(frozen=True)
class ResultsChange:
    """What a new run says against a base.

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
                if speedup.verdict == SLOWER
            ]
            if change.memory.verdict == LARGER:
                found.append(f"{name} takes more memory: {1 / change.memory.ratio.median:.3g} times as much")
            if change.size.verdict == LARGER:
                found.append(f"{name} is larger: {1 / change.size.ratio.median:.3g} times as many bytes")
            if change.accuracy_verdict == WORSE and change.accuracy is not None:
                found.append(f"{name} is less accurate: {100 * change.accuracy.difference:+.2f} points")
        if self.geometric_mean.verdict == SLOWER:
            found.append(f"the geometric mean is slower: {_interval(self.geometric_mean)} of the speed")
        return tuple(found)


def _interval(made: Comparison) -> str:
    return f"{made.interval.low:.3f} to {made.interval.high:.3f}"


def compare_results(
    base: Results, new: Results, delta: float = DELTA_BETWEEN_RUNS, *, confidence: float = 0.95
) -> ResultsChange:
    """Return what two separate runs say of each variant that both have, and of all together.

    Args:
        base: the older run; ``new``: the newer.
        delta: relative difference of time that does not matter: 0.02 is two per cent.
        confidence: of all verdicts on times together (Bonferroni).

    Raises:
        ValueError: if the runs have no variant and batch size in common, or a number is out of its range.
    """
    if not 0 <= delta < math.inf:
        raise ValueError(f"delta must be at least 0, such as 0.02 for two per cent, not {delta}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    names = [name for name in base.performances if name in new.performances]
    # A plan may be the same and the two files one run, which was saved twice: nothing then was taken in turns.
    before = {name: replace(base.performances[name], run="base") for name in names}
    after = {name: replace(new.performances[name], run="new") for name in names}
    shared = [(name, size) for name in names for size in before[name].batches if size in after[name].times]
    if not shared:
        raise ValueError("the runs must have a variant and a batch size in common, but have none")
    compared = len(shared) + 1
    changes = {
        name: compare(before[name], after[name], delta, confidence=confidence, compared=compared)
        for name in dict.fromkeys(name for name, _ in shared)
    }
    mean = _geometric_mean(before, after, shared, delta, 1 - (1 - confidence) / compared, compared)
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
    delta: float,
    confidence: float,
    compared: int,
) -> Comparison:
    """Return the comparison of each process's geometric mean of all its times, over the reference's if both have it."""
    beside = all(one.reference for side in (before, after) for one in side.values())
    sides = [[_mean_of_process(side, shared, at, beside) for at in range(_processes(side))] for side in (before, after)]
    return compare_processes(sides[0], sides[1], delta, names=("base", "new"), confidence=confidence, compared=compared)


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
