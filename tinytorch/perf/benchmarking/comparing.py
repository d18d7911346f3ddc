"""Times, bytes and right answers of two models beside one another, each with its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinytorch.perf.measuring import Measurement, quotient, ratio
from tinytorch.perf.measuring.between_run_variance import with_prior_spread
from tinytorch.perf.measuring.comparison import (
    Comparison,
    Quantity,
    compare_paired,
    compared_by,
    judged,
    judged_interval,
)
from tinytorch.perf.measuring.conditions import Sample, of_sides
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.measurement import Statistic, require_paired
from tinytorch.perf.measuring.processes import of_process_pairs
from tinytorch.perf.measuring.statistics import Interval, independent
from tinytorch.perf.quantization import paired_accuracy
from tinytorch.perf.quantization.tradeoff import accuracy_change

#: Processes of each run below which they do not show what processes differ by: of 4 and 4 the widest interval holds
#: with 97 %, and nothing is left for a correction for several comparisons.
FEWEST_PROCESSES = 5
Logs = npt.NDArray[np.float64]


def compare_processes(
    baseline: Sequence[Measurement],
    candidate: Sequence[Measurement],
    matters: float,
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
    the distribution-free one that goes with the Mann-Whitney test. Where processes are too few for it, it is the one
    that holds those of all pairs of processes, widened by what repeats are known to differ by: see `_of_pairs`.

    Source: M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric Statistical Methods, 3rd edition, Wiley 2014,
    sections 4.2 and 4.3.

    Args:
        baseline, candidate: seconds, one measurement from each process.
        matters: relative difference that would make a reader act otherwise.
        names: what the two are called.
        confidence: coverage of the interval, already corrected for ``compared`` comparisons.
        references: times of the fixed work beside each of both, or None.
    """
    before, after = _values(baseline, references and references[0]), _values(candidate, references and references[1])
    differences = np.sort((before[:, None] - after[None, :]).ravel())
    low, high, reached = _ends(differences, before.size, after.size, confidence)
    bounds = Interval(math.exp(low), math.exp(high), reached)
    verdict, because = judged_interval(bounds, matters)
    fewest, too_few = min(before.size, after.size), False
    if fewest < FEWEST_PROCESSES or reached < confidence:
        found = _of_pairs(baseline, candidate, references, confidence)
        if found is None:
            too_few = True
            needed = max(FEWEST_PROCESSES, fewest + 1)
            verdict, because = Verdict.OPEN, f"{fewest} processes of a run are too few to tell: {needed} or more may"
        else:
            bounds = found
            verdict, because = judged_interval(bounds, matters)
            because = f"{because}; they were not timed in turns, so it holds what separate runs differ by"
    unit = "time over that of the reference beside it" if references else "time"
    conditions = replace(
        of_process_pairs(baseline, candidate).told_as("Hodges-Lehmann"),
        sample=Sample.PROCESS_PAIRS,
        note=f"{before.size} and {after.size} processes, {unit}.",
    )
    middle = float(np.median(differences))
    ratio = Statistic(
        f"{names[0]} / {names[1]}",
        tuple(np.exp(differences).tolist()),
        "",
        conditions,
        value=math.exp(middle),
        bounds=bounds,
    )
    wins = int((differences > 0).sum())
    pairs_are = "pair of separate runs" if differences.size == 1 else "pairs of processes"
    reach = None if too_few else bounds
    each = independent(differences.size)
    return Comparison(*names, ratio, reach, verdict, matters, because, Quantity.TIME, wins, each, compared, pairs_are)


def _of_pairs(
    baseline: Sequence[Measurement],
    candidate: Sequence[Measurement],
    references: tuple[Sequence[Measurement], Sequence[Measurement]] | None,
    confidence: float,
) -> Interval | None:
    """Return the interval of the ratio that holds those of all pairs of processes; None if one has too few samples.

    Each is what a verdict on a `quotient` rests on, in which both sides have what repeats differ by.
    """
    before = _beside(baseline, references and references[0])
    after = _beside(candidate, references and references[1])
    pairs = [quotient(old, new, "ratio") for old in before for new in after]
    found = [each for pair in pairs if (each := pair.verdict_interval(confidence)) is not None]
    if len(found) < len(pairs):
        return None
    ends = (min(each.low for each in found), max(each.high for each in found))
    return Interval(*ends, min(each.confidence for each in found))


def _beside(times: Sequence[Measurement], references: Sequence[Measurement] | None) -> list[Measurement]:
    """Return each process's times with what repeats differ by, or their ratio to a reference's taken beside them."""
    known = [with_prior_spread(one) for one in times]
    if references is None:
        return known
    return [ratio(one, with_prior_spread(beside)) for one, beside in zip(known, references, strict=True)]


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


#: Relative difference of time or memory that matters unless one says so.
MATTERS = 0.02
#: Difference of accuracy, as a share, that matters unless one says so: the zoo's 360 test digits can tell two
#: models that agree on all of them from ones that differ by 1.1 points, not from ones that differ by less.
ACCURACY_MATTERS = 0.02


def compare_in_turns(
    before: Sequence[Measurement],
    after: Sequence[Measurement],
    matters: float,
    *,
    names: tuple[str, str],
    confidence: float,
    compared: int = 1,
) -> Comparison:
    """Return the comparison of neighbouring times: of the pairs of one process, or of several processes.

    Args:
        before, after: seconds, one measurement from each process, in turns.
        matters, names, confidence, compared: as of `compare_processes`.

    Raises:
        ValueError: if they were not taken in turns.
    """
    if len(before) == 1 and len(after) == 1:
        made = compare_paired(before[0], after[0], matters, confidence=confidence, compared=compared)
        return replace(made, baseline=names[0], candidate=names[1])
    medians = []
    for old, new in zip(before, after, strict=True):
        require_paired(old, new)
        medians.append(math.exp(np.median(np.log(old.samples) - np.log(new.samples))))
    ratios = Measurement(" / ".join(names), tuple(medians), "", of_process_pairs(before, after))
    return judged(ratios, names, matters, confidence, compared=compared, pairs_are="processes")


def compare_sizes(before: Measurement, after: Measurement, names: tuple[str, str]) -> Comparison:
    """Return bytes of a baseline over those of a candidate, above 1 is smaller; a point where all calls agree.

    The ratio is that of the medians; its interval holds the ratios of all calls.
    """
    value = before.median / after.median
    bounds = Interval(before.minimum / after.maximum, before.maximum / after.minimum, 1.0)
    sides = {"before": before.conditions, "after": after.conditions}
    conditions = of_sides(sides).within_bounds("ratio of medians", "extremes of the calls")
    ratio = Statistic(f"{before.name} / {after.name}", (value,), "", conditions, value=value, bounds=bounds)
    return compared_by(ratio, names, MATTERS, Quantity.BYTES, bounds)


def compare_accuracies(
    before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_], matters: float, names: tuple[str, str]
) -> Comparison:
    """Return the share right of a candidate less that of a baseline, on the same examples.

    Raises:
        ValueError: if they are not of as many examples.
    """
    paired = paired_accuracy(before, after)
    change = accuracy_change(paired, f"accuracy of {names[1]} less that of {names[0]}")
    return compared_by(change, names, matters, Quantity.ACCURACY, change.verdict_interval())
