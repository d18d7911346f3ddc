"""Two models, or two runs of one, beside one another: speedup, memory reduction and accuracy, each with its verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.measuring import Measurement, Statistic, checked_neighbours, ratio
from tinytorch.perf.measuring.comparison import (
    EQUIVALENT,
    FASTER,
    SLOWER,
    Comparison,
    Verdict,
    compare_paired,
    interval_verdict,
    judged,
)
from tinytorch.perf.measuring.judge import CANNOT_TELL, SUPPORTED, corrected, verdict_between
from tinytorch.perf.measuring.measurement import conditions_of_processes
from tinytorch.perf.measuring.statistics import Interval, independent
from tinytorch.perf.quantization import PairedAccuracy, paired_accuracy
from tinytorch.perf.quantization.tradeoff import accuracy_change

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
    bounds = Interval(math.exp(low), math.exp(high), reached)
    verdict, because = interval_verdict(bounds, delta)
    fewest = min(before.size, after.size)
    if fewest < FEWEST_PROCESSES or reached < confidence:
        needed = max(FEWEST_PROCESSES, fewest + 1)
        verdict, because = CANNOT_TELL, f"{fewest} processes of a run are too few to tell: {needed} or more may"
    how = {
        **conditions_of_processes(baseline, candidate),
        "samples_are": "pairs of processes",
        "statistic": "Hodges-Lehmann",
        "processes": [before.size, after.size],
        "by": _words(references),
    }
    middle = float(np.median(differences))
    ratio = Statistic(
        f"{names[0]} / {names[1]}",
        tuple(np.exp(differences).tolist()),
        "",
        how,
        value=math.exp(middle),
        bounds=bounds,
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


SizeVerdict = Literal["smaller", "larger", "as large", "cannot tell here"]
AccuracyVerdict = Literal["better", "worse", "as good", "cannot tell here"]
SMALLER: Final = "smaller"
LARGER: Final = "larger"
AS_LARGE: Final = "as large"
BETTER: Final = "better"
WORSE: Final = "worse"
AS_GOOD: Final = "as good"
#: What a verdict on a ratio of times is called where the ratio is one of bytes.
_SIZE_VERDICTS: dict[Verdict, SizeVerdict] = {
    FASTER: SMALLER,
    SLOWER: LARGER,
    EQUIVALENT: AS_LARGE,
    CANNOT_TELL: CANNOT_TELL,
}
#: Relative difference of time or memory that does not matter unless one says so.
DELTA = 0.01
#: Difference of accuracy, as a share, that does not matter unless one says so: the zoo's 360 test digits can tell two
#: models that agree on all of them from ones that differ by 1.1 points, not from ones that differ by less.
ACCURACY_DELTA = 0.02
#: Relative difference of times of two separate runs that does not matter unless one says so.
#: `benchmarks/comparison.py` counts the false alarms and the slow-downs found with it.
DELTA_BETWEEN_RUNS = 0.02


@dataclass(frozen=True)
class SizeChange:
    """Bytes of a baseline over those of a candidate: above 1 is smaller.

    ``ratio`` is that of the medians; its interval holds the ratios of all calls, and is a point where they all agree.
    The verdict is "smaller" or "larger" if all of it lies beyond 1 %, "as large" if within.
    """

    ratio: Statistic
    verdict: SizeVerdict

    @property
    def saved_percent(self) -> float:
        """Bytes saved, in per cent of the baseline's; below 0 if the candidate takes more."""
        return 100 * (1 - 1 / self.ratio.median)


@dataclass(frozen=True)
class Change:
    """Change from a baseline to a candidate.

    Attributes:
        baseline, candidate: their names.
        speedups: by batch size, time of the baseline over the candidate's with its verdict: above 1 is faster.
        memory: peak memory at the largest batch size of both.
        size: bytes of the models' state.
        accuracy: on the same examples, with the interval of the difference; None where no answers are known.
        accuracy_verdict: "better" or "worse" if the interval lies beyond ±``accuracy_delta``, "as good" if within.
        in_turns: whether the times were taken in turns, in one run; if not, more is needed to tell.
    """

    baseline: str
    candidate: str
    speedups: Mapping[int, Comparison]
    memory: SizeChange
    size: SizeChange
    accuracy: PairedAccuracy | None
    accuracy_verdict: AccuracyVerdict | None
    in_turns: bool

    @property
    def speedup(self) -> Comparison:
        """Comparison of times at the smallest batch size."""
        return self.speedups[min(self.speedups)]


def compare(
    baseline: Performance,
    candidate: Performance,
    delta: float | None = None,
    *,
    accuracy_delta: float = ACCURACY_DELTA,
    confidence: float = 0.95,
    compared: int = 1,
) -> Change:
    """Return speedup, memory reduction and accuracy difference of a candidate, each with interval and verdict.

    Times of one run were taken in turns: their neighbours are paired, and of several processes the process is the unit.
    Times of two runs are compared process by process as `compare_processes` does, where a verdict takes at least five
    processes of each.

    Args:
        baseline: the old version; ``candidate``: the new one, on the same examples.
        delta: relative difference of time that does not matter; by default 0.01 in one run, 0.02 between two.
        accuracy_delta: difference of accuracy, as a share, that does not matter.
        confidence: coverage of all intervals of times together, if ``compared`` comparisons are made (Bonferroni).
        compared: how many comparisons of times the confidence is shared by.

    Raises:
        ValueError: if they have no batch size in common, did other tasks or on other examples, or a number is out of
            its range.
    """
    _check_comparable(baseline, candidate, compared, accuracy_delta)
    batches = [size for size in baseline.batches if size in candidate.times]
    if not batches:
        raise ValueError(
            f"candidate must have one of the baseline's batch sizes {baseline.batches}, but has {candidate.batches}"
        )
    in_turns = baseline.run == candidate.run
    each = corrected(confidence, compared)
    if in_turns:
        margin = DELTA if delta is None else delta
        speedups = {size: _in_turns(baseline, candidate, size, margin, each, compared) for size in batches}
    else:
        margin = DELTA_BETWEEN_RUNS if delta is None else delta
        speedups = {size: _apart(baseline, candidate, size, margin, each, compared) for size in batches}
    accuracy, verdict = _accuracy(baseline, candidate, accuracy_delta)
    return Change(
        baseline.name,
        candidate.name,
        speedups,
        _size_change(baseline.memory[batches[-1]], candidate.memory[batches[-1]]),
        _size_change(baseline.size, candidate.size),
        accuracy,
        verdict,
        in_turns,
    )


def compare_with_first(performances: Mapping[str, Performance], delta: float | None = None) -> dict[str, Change]:
    """Return each performance's `Change` from the first, by name, its times corrected for all comparisons made.

    Raises:
        ValueError: if there are fewer than two, or as `compare` does.
    """
    first, *others = performances.values()
    if not others:
        raise ValueError("performances must be at least two, a baseline and what is compared with it")
    compared = len(others) * len(first.batches)
    return {other.name: compare(first, other, delta, compared=compared) for other in others}


def _check_comparable(baseline: Performance, candidate: Performance, compared: int, accuracy_delta: float) -> None:
    if baseline.task != candidate.task:
        raise ValueError(f"candidate must do the baseline's task {baseline.task!r}, not {candidate.task!r}")
    if compared < 1:
        raise ValueError(f"compared must be at least 1, not {compared}")
    if not 0 <= accuracy_delta < 1:
        raise ValueError(f"accuracy_delta must be a share from 0 to 1, such as 0.01, not {accuracy_delta}")


def _in_turns(
    baseline: Performance, candidate: Performance, batch: int, delta: float, confidence: float, compared: int
) -> Comparison:
    """Return the comparison of neighbouring times: of the pairs of one process, or of several processes."""
    before, after = baseline.times[batch], candidate.times[batch]
    names = (baseline.name, candidate.name)
    if len(before) == 1 and len(after) == 1:
        made = compare_paired(before[0], after[0], delta, confidence=confidence)
        return replace(made, compared=compared)
    medians = []
    for old, new in zip(before, after, strict=True):
        checked_neighbours(old, new)
        medians.append(math.exp(np.median(np.log(old.samples) - np.log(new.samples))))
    ratios = Measurement(" / ".join(names), tuple(medians), "", conditions_of_processes(before, after))
    return judged(ratios, names, delta, confidence, compared=compared, pairs_are="processes")


def kept_of_product(
    performances: Mapping[str, Performance], baseline: str, parts: tuple[str, ...], combined: str, batch: int
) -> Measurement:
    """Return the speedup of ``combined`` over the product of its parts' speedups: 1 if their gains multiply.

    Each sample is made of times that are neighbours: of the baseline, the parts and the combination.

    Raises:
        ValueError: if one was not measured at ``batch``, in several processes, or not in turns with the baseline.
    """
    times = {}
    for name in (baseline, *parts, combined):
        measured = performances[name].times[batch]
        if len(measured) != 1:
            raise ValueError(f"performances must be of one process, but {name!r} has {len(measured)}")
        times[name] = measured[0]
    gained, *gains = (ratio(times[baseline], times[name]) for name in (combined, *parts))
    samples = gained.samples / np.prod([one.samples for one in gains], axis=0)
    # What disturbed one of the ratios, or may differ between its repeats, counts in what is made of all.
    known = [one.how for one in (gained, *gains)]
    how = dict(gained.how)
    if all("cpu_per_wall" in one for one in known):
        how["cpu_per_wall"] = min(one["cpu_per_wall"] for one in known)
    if all("between_repeats" in one for one in known):
        how["between_repeats"] = math.hypot(*(one["between_repeats"] for one in known))
    name = f"speedup of {combined} over the product of those of {' and '.join(parts)}"
    return Measurement(name, tuple(samples.tolist()), "", how)


def _apart(
    baseline: Performance, candidate: Performance, batch: int, delta: float, confidence: float, compared: int
) -> Comparison:
    """Return the comparison of processes of two runs, over the reference's times where both runs have them."""
    both = baseline.reference.get(batch), candidate.reference.get(batch)
    references = (both[0], both[1]) if both[0] and both[1] else None
    return compare_processes(
        baseline.times[batch],
        candidate.times[batch],
        delta,
        names=(baseline.name, candidate.name),
        confidence=confidence,
        compared=compared,
        references=references,
    )


def _size_change(before: Measurement, after: Measurement) -> SizeChange:
    """Return the ratio of the medians, and a verdict on the ratios of all calls."""
    value = before.median / after.median
    low, high = before.minimum / after.maximum, before.maximum / after.minimum
    verdict = _SIZE_VERDICTS[interval_verdict(Interval(low, high, 1.0), DELTA)[0]]
    how = {**before.how, "statistic": "ratio of medians", "interval_by": "extremes of the calls"}
    ratio = Statistic(f"{before.name} / {after.name}", (value,), "", how, value=value, bounds=Interval(low, high, 1.0))
    return SizeChange(ratio, verdict)


def _accuracy(
    baseline: Performance, candidate: Performance, delta: float
) -> tuple[PairedAccuracy | None, AccuracyVerdict | None]:
    if baseline.correct is None or candidate.correct is None:
        return None, None
    paired = paired_accuracy(baseline.correct, candidate.correct)
    change = accuracy_change(paired, f"accuracy of {candidate.name} less that of {baseline.name}")
    if verdict_between(change, low=delta, strict=True) == SUPPORTED:
        return paired, BETTER
    if verdict_between(change, high=-delta, strict=True) == SUPPORTED:
        return paired, WORSE
    return paired, AS_GOOD if verdict_between(change, -delta, delta) == SUPPORTED else CANNOT_TELL
