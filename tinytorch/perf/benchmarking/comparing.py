"""Times, bytes and right answers of two models beside one another, each with its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from tinytorch.perf.measuring import Measurement, Statistic, checked_neighbours, quotient, ratio
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
from tinytorch.perf.measuring.judge import CANNOT_TELL, SUPPORTED, verdict_between
from tinytorch.perf.measuring.measurement import conditions_of_processes
from tinytorch.perf.measuring.repeats import as_repeated_elsewhere
from tinytorch.perf.measuring.statistics import Interval, independent
from tinytorch.perf.quantization import PairedAccuracy, paired_accuracy
from tinytorch.perf.quantization.tradeoff import accuracy_change

#: Processes of each run below which they do not show what processes differ by: of 4 and 4 the widest interval holds
#: with 97 %, and nothing is left for a correction for several comparisons.
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
    the distribution-free one that goes with the Mann-Whitney test. Where processes are too few for it, it is the one
    that holds those of all pairs of processes, widened by what repeats are known to differ by: see `_of_pairs`.

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
        found = _of_pairs(baseline, candidate, references, confidence)
        if found is None:
            needed = max(FEWEST_PROCESSES, fewest + 1)
            verdict, because = CANNOT_TELL, f"{fewest} processes of a run are too few to tell: {needed} or more may"
        else:
            bounds = found
            verdict, because = interval_verdict(bounds, delta)
            because = f"{because}; they were not timed in turns, so it holds what separate runs differ by"
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
    pairs_are = "pair of separate runs" if differences.size == 1 else "pairs of processes"
    return Comparison(*names, ratio, verdict, delta, because, wins, independent(differences.size), compared, pairs_are)


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
    known = [as_repeated_elsewhere(one) for one in times]
    if references is None:
        return known
    return [ratio(one, as_repeated_elsewhere(beside)) for one, beside in zip(known, references, strict=True)]


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


@dataclass(frozen=True, repr=False)
class SizeChange:
    """Bytes of a baseline over those of a candidate: above 1 is smaller.

    ``baseline`` and ``candidate`` are their names.
    ``ratio`` is that of the medians; its interval holds the ratios of all calls, and is a point where they all agree.
    The verdict is "smaller" or "larger" if all of it lies beyond 1 %, "as large" if within.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.benchmarking import measure_performance
        >>> x = np.ones((8, 64), np.float32)
        >>> wide, thin = (
        ...     measure_performance(Linear(64, units), x, batches=(1,), repeats=6, at_most_seconds=0.1, name=str(units))
        ...     for units in (64, 4)
        ... )
        >>> change = wide.memory / thin.memory
        >>> change.verdict, float(change) > 1
        ('smaller', True)
    """

    baseline: str
    candidate: str
    ratio: Statistic
    verdict: SizeVerdict

    def __float__(self) -> float:
        """Return the ratio."""
        return self.ratio.median

    def __repr__(self) -> str:
        ends = f"{self.ratio.interval.low:.3g} to {self.ratio.interval.high:.3g}"
        return f"{self.candidate}: {self.verdict}, bytes {self.ratio.median:.3g} to 1 ({ends})"

    @property
    def saved_percent(self) -> float:
        """Bytes saved, in per cent of the baseline's; below 0 if the candidate takes more."""
        return 100 * (1 - 1 / self.ratio.median)


@dataclass(frozen=True, repr=False)
class AccuracyChange:
    """Share right of a candidate less that of a baseline, on the same examples.

    The verdict is "better" or "worse" if the whole interval lies beyond what does not matter, "as good" if within.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.benchmarking import benchmark_suite
        >>> data = np.eye(3, dtype=np.float32), np.arange(3)
        >>> models = {"one": Linear(3, 3, seed=0), "same": Linear(3, 3, seed=0)}
        >>> found = benchmark_suite(models, data, batches=(1,), repeats=6, at_most_seconds=0.1)
        >>> float(found["same"].accuracy - found["one"].accuracy)
        0.0
    """

    baseline: str
    candidate: str
    paired: PairedAccuracy
    verdict: AccuracyVerdict

    @property
    def interval(self) -> Interval:
        """Interval of the difference, in shares."""
        return self.paired.interval

    def __float__(self) -> float:
        """Return the difference, a share: 0.01 is one point."""
        return self.paired.difference

    def __repr__(self) -> str:
        low, high = 100 * self.interval.low, 100 * self.interval.high
        return f"{self.candidate}: {self.verdict}, {100 * float(self):+.2f} points ({low:+.2f} to {high:+.2f})"


def compare_in_turns(
    before: Sequence[Measurement],
    after: Sequence[Measurement],
    delta: float,
    *,
    names: tuple[str, str],
    confidence: float,
    compared: int = 1,
) -> Comparison:
    """Return the comparison of neighbouring times: of the pairs of one process, or of several processes.

    Args:
        before, after: seconds, one measurement from each process, in turns.
        delta, names, confidence, compared: as of `compare_processes`.

    Raises:
        ValueError: if they were not taken in turns.
    """
    if len(before) == 1 and len(after) == 1:
        made = compare_paired(before[0], after[0], delta, confidence=confidence)
        return replace(made, baseline=names[0], candidate=names[1], compared=compared)
    medians = []
    for old, new in zip(before, after, strict=True):
        checked_neighbours(old, new)
        medians.append(math.exp(np.median(np.log(old.samples) - np.log(new.samples))))
    ratios = Measurement(" / ".join(names), tuple(medians), "", conditions_of_processes(before, after))
    return judged(ratios, names, delta, confidence, compared=compared, pairs_are="processes")


def compare_sizes(before: Measurement, after: Measurement, names: tuple[str, str]) -> SizeChange:
    """Return the ratio of the medians, and a verdict on the ratios of all calls."""
    value = before.median / after.median
    low, high = before.minimum / after.maximum, before.maximum / after.minimum
    verdict = _SIZE_VERDICTS[interval_verdict(Interval(low, high, 1.0), DELTA)[0]]
    how = {**before.how, "statistic": "ratio of medians", "interval_by": "extremes of the calls"}
    ratio = Statistic(f"{before.name} / {after.name}", (value,), "", how, value=value, bounds=Interval(low, high, 1.0))
    return SizeChange(*names, ratio, verdict)


def compare_accuracies(
    before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_], delta: float, names: tuple[str, str]
) -> AccuracyChange:
    """Return the difference of which examples two models get right, the verdict on more than ``delta``.

    Raises:
        ValueError: if they are not of as many examples.
    """
    paired = paired_accuracy(before, after)
    change = accuracy_change(paired, f"accuracy of {names[1]} less that of {names[0]}")
    verdict: AccuracyVerdict = CANNOT_TELL
    if verdict_between(change, low=delta, strict=True) == SUPPORTED:
        verdict = BETTER
    elif verdict_between(change, high=-delta, strict=True) == SUPPORTED:
        verdict = WORSE
    elif verdict_between(change, -delta, delta) == SUPPORTED:
        verdict = AS_GOOD
    return AccuracyChange(*names, paired, verdict)
