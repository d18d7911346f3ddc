"""Two models' performances beside one another: speedup, memory reduction and accuracy, each with its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.regressions import compare_processes
from tinytorch.perf.measuring import Measurement, Statistic, checked_neighbours
from tinytorch.perf.measuring.comparison import Comparison, compare_paired, judged
from tinytorch.perf.measuring.dependence import independent
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.quantization import PairedAccuracy, paired_accuracy

SizeVerdict = Literal["smaller", "larger", "as large", "cannot tell"]
AccuracyVerdict = Literal["better", "worse", "as good", "cannot tell"]
SMALLER: Final = "smaller"
LARGER: Final = "larger"
BETTER: Final = "better"
WORSE: Final = "worse"
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
    """What a candidate does against a baseline.

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
    seed: int = 0,
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
        seed: of the bootstrap.

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
    each = 1 - (1 - confidence) / compared
    if in_turns:
        margin = DELTA if delta is None else delta
        speedups = {size: _in_turns(baseline, candidate, size, margin, each, compared, seed) for size in batches}
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
    baseline: Performance,
    candidate: Performance,
    batch: int,
    delta: float,
    confidence: float,
    compared: int,
    seed: int,
) -> Comparison:
    """Return the comparison of neighbouring times: of the pairs of one process, or of several processes."""
    before, after = baseline.times[batch], candidate.times[batch]
    names = (baseline.name, candidate.name)
    if len(before) == 1 and len(after) == 1:
        made = compare_paired(before[0], after[0], delta, confidence=confidence, seed=seed)
        return replace(made, compared=compared)
    logs = []
    for old, new in zip(before, after, strict=True):
        checked_neighbours(old, new)
        logs.append(float(np.median(np.log(old.samples) - np.log(new.samples))))
    return judged(
        np.array(logs),
        names,
        delta,
        confidence,
        seed,
        found=independent(len(logs)),
        compared=compared,
        pairs_are="processes",
        how={"processes": len(logs)},
    )


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
    verdict: SizeVerdict = "cannot tell"
    if low > 1 + DELTA:
        verdict = SMALLER
    elif high < 1 / (1 + DELTA):
        verdict = LARGER
    elif low >= 1 / (1 + DELTA) and high <= 1 + DELTA:
        verdict = "as large"
    how = {**before.how, "statistic": "ratio of medians", "interval_by": "extremes of the calls"}
    ratio = Statistic(f"{before.name} / {after.name}", (value,), "", how, value=value, bounds=Interval(low, high, 1.0))
    return SizeChange(ratio, verdict)


def _accuracy(
    baseline: Performance, candidate: Performance, delta: float
) -> tuple[PairedAccuracy | None, AccuracyVerdict | None]:
    if baseline.correct is None or candidate.correct is None:
        return None, None
    paired = paired_accuracy(baseline.correct, candidate.correct)
    low, high = paired.interval.low, paired.interval.high
    if low > delta:
        return paired, BETTER
    if high < -delta:
        return paired, WORSE
    return paired, "as good" if -delta <= low and high <= delta else "cannot tell"
