"""Two samples: the ratio of paired times with its interval, and the verdict that it supports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from tinytorch.perf.measuring.judge import CANNOT_TELL, corrected
from tinytorch.perf.measuring.measurement import CONFIDENCE, TIMES, Measurement, Statistic, ratio
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL, Dependence, Interval, Samples, checked, median

Verdict = Literal["faster", "slower", "equivalent", "cannot tell here"]
FASTER: Final = "faster"
SLOWER: Final = "slower"
EQUIVALENT: Final = "equivalent"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Comparison of a candidate with a baseline by paired times.

    Attributes:
        baseline, candidate: names of what ran.
        ratio: baseline / candidate, above 1 is faster: its samples are the ratios of the pairs in the order in
            which they were taken, its median that of the log-ratios, its interval that of `ratio`, with the confidence
            corrected for ``compared``, its conditions those of both sides.
        verdict: `FASTER` or `SLOWER` if all that the judge goes by, `Measurement.verdict_interval`, lies beyond
            1 + delta or below 1 / (1 + delta), `EQUIVALENT` if it lies between them, else `CANNOT_TELL`.
        delta: the relative difference that does not matter; None if every difference matters.
        because: why the verdict is what it is, in words.
        wins: pairs in which the candidate was the faster one.
        dependence: how independent the pairs are of one another.
        compared: how many comparisons the confidence of the interval was corrected for.
        pairs_are: what each sample of the ratio comes from: "pairs" of neighbouring times, or "processes".
    """

    baseline: str
    candidate: str
    ratio: Statistic
    verdict: Verdict
    delta: float | None
    because: str
    wins: int
    dependence: Dependence
    compared: int = 1
    pairs_are: str = "pairs"

    @property
    def n(self) -> int:
        """Number of pairs."""
        return self.ratio.n

    @property
    def interval(self) -> Interval:
        """Interval of the ratio."""
        return self.ratio.interval

    def __float__(self) -> float:
        """Return the ratio."""
        return self.ratio.median

    def __repr__(self) -> str:
        ends = f"{self.interval.low:.3g} to {self.interval.high:.3g}"
        return f"{self.candidate}: {self.verdict}, {self.ratio.median:.3g} times as fast ({ends})"

    def sentence(self) -> str:
        """Return the verdict with its numbers in one sentence."""
        verdict = {
            FASTER: f"{self.candidate} is faster than {self.baseline}",
            SLOWER: f"{self.candidate} is slower than {self.baseline}",
            EQUIVALENT: f"{self.candidate} is as fast as {self.baseline}",
            CANNOT_TELL: f"This cannot tell whether {self.candidate} is faster or slower than {self.baseline}",
        }[self.verdict]
        low, high = self.interval.low, self.interval.high
        corrected = f", corrected for {self.compared} comparisons" if self.compared > 1 else ""
        return (
            f"{verdict}: the ratio is {self.ratio.median:.4g}, from {low:.4g} to {high:.4g} "
            f"({self.interval.confidence:.0%} interval, {self.n} {self.pairs_are}{corrected}), and {self.because}."
        )


def compare_paired(
    baseline: Measurement | Samples,
    candidate: Measurement | Samples,
    delta: float | None = 0.01,
    *,
    confidence: float = CONFIDENCE,
) -> Comparison:
    """Return the ratio baseline / candidate of paired times with the verdict that its interval supports.

    The i-th times of both must be neighbours, as `tinytorch.perf.measuring.interleave` takes them. The interval is that
    of their `ratio`. No verdict is given on fewer than six pairs, and where noise that wanders cannot be ruled out,
    none on a difference that such noise could make: see `Measurement.verdict_interval`.

    Args:
        baseline: times of the old version: a `Measurement`, or numbers above 0.
        candidate: times of the new version, as many.
        delta: relative difference that does not matter: 0.01 is one per cent; None if each one matters.
        confidence: coverage of the interval, between 0 and 1.

    Raises:
        ValueError: if the times are not pairs, not above 0 or rates, or an argument is out of its range.
    """
    return _compared(baseline, candidate, delta, confidence, compared=1)


def compare_all(
    baseline: Measurement, *candidates: Measurement, delta: float | None = 0.01, confidence: float = CONFIDENCE
) -> dict[str, Comparison]:
    """Return each candidate's `Comparison` with one baseline, by name, corrected for their number.

    All must come from one call of `interleave`. With m candidates each interval has the confidence
    1 - (1 - confidence) / m (Bonferroni), so that all of them hold together with ``confidence``.

    Raises:
        ValueError: as `compare_paired` does; also if there is no candidate or two have one name.
    """
    names = [candidate.name for candidate in candidates]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"candidates must be at least one, each with a name of its own, not {names}")
    _check(delta, confidence)
    each = corrected(confidence, len(names))
    return {
        candidate.name: _compared(baseline, candidate, delta, each, compared=len(names)) for candidate in candidates
    }


def judged(
    ratios: Measurement,
    names: tuple[str, str],
    delta: float | None,
    confidence: float,
    *,
    compared: int = 1,
    pairs_are: str = "pairs",
) -> Comparison:
    """Return the `Comparison` that ratios of times, baseline / candidate, support.

    Args:
        ratios: of each pair of times; or of each process, with what that is in ``how["samples_are"]``.
        names: of baseline and candidate.
        delta, confidence: those of `compare_paired`.
        compared: how many comparisons ``confidence`` is corrected for.
        pairs_are: what each of the ratios comes from, in words.

    Raises:
        ValueError: if a ratio is not above 0, or ``delta`` or ``confidence`` is out of its range.
    """
    _check(delta, confidence)
    logs = np.log(_times(ratios.samples, "ratios"))
    verdict, because = _verdict(ratios, delta, confidence, pairs_are)
    ratio_of_medians = Statistic(
        f"{names[0]} / {names[1]}",
        ratios.samples,
        "",
        {**ratios.how, "statistic": "median of the log-ratios"},
        value=float(np.exp(median(logs))),
        bounds=ratios.interval_at(confidence),
    )
    wins = int((logs > 0).sum())
    return Comparison(*names, ratio_of_medians, verdict, delta, because, wins, ratios.dependence, compared, pairs_are)


def _verdict(ratios: Measurement, delta: float | None, confidence: float, pairs_are: str) -> tuple[Verdict, str]:
    """Return the verdict and why, also where the interval would give one and what noise can reach does not."""
    reach = ratios.verdict_interval(confidence)
    if reach is None:
        return CANNOT_TELL, f"it takes {FEWEST_FOR_INTERVAL} to have an interval, but there are {ratios.n}"
    verdict, because = interval_verdict(reach, delta)
    found = ratios.dependence
    if verdict == CANNOT_TELL and found.effective < FEWEST_FOR_INTERVAL:
        because = f"neighbours are alike, so that {found.n} {pairs_are} are worth {found.effective:.2g}"
    elif verdict == CANNOT_TELL and interval_verdict(ratios.interval_at(confidence), delta)[0] != CANNOT_TELL:
        because = f"{found.n} {pairs_are} are too few for a confidence of {confidence:.2%}"
        if found.objection is not None:
            because = f"{found.n} {pairs_are} like these do not rule out noise that wanders as far"
    return verdict, because


def _compared(
    baseline: Measurement | Samples,
    candidate: Measurement | Samples,
    delta: float | None,
    confidence: float,
    compared: int,
) -> Comparison:
    _check(delta, confidence)
    if isinstance(baseline, Measurement) and isinstance(candidate, Measurement):
        if baseline.unit not in TIMES:
            raise ValueError(f"baseline must be times, in one of {', '.join(TIMES)}, not in {baseline.unit!r}")
    elif isinstance(baseline, Measurement) or isinstance(candidate, Measurement):
        raise ValueError("baseline and candidate must both be Measurements or both be sequences of times")
    else:
        baseline, candidate = _in_turns(baseline, candidate)
    for side, times in (("baseline", baseline), ("candidate", candidate)):
        _times(times.samples, side)
    return judged(ratio(baseline, candidate), (baseline.name, candidate.name), delta, confidence, compared=compared)


def _in_turns(baseline: Samples, candidate: Samples) -> tuple[Measurement, Measurement]:
    """Return two sequences of times as measurements that were taken in turns."""
    before, after = checked(baseline, "baseline"), checked(candidate, "candidate")
    if before.size != after.size:
        raise ValueError(f"candidate must have as many times as baseline, {before.size}, not {after.size}")
    return (
        Measurement("baseline", tuple(before.tolist()), "s", {"interleaved_with": ["candidate"]}),
        Measurement("candidate", tuple(after.tolist()), "s", {"interleaved_with": ["baseline"]}),
    )


def _check(delta: float | None, confidence: float) -> None:
    if delta is not None and not 0 <= delta < math.inf:
        raise ValueError(f"delta must be at least 0, such as 0.01 for one per cent, or None, not {delta}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")


def _times(samples: Sequence[float], name: str) -> Sequence[float]:
    if not min(samples) > 0:
        raise ValueError(f"{name} must be times above 0, but {min(samples)} is among them")
    return samples


def interval_verdict(interval: Interval, delta: float | None) -> tuple[Verdict, str]:
    """Return the verdict for an interval of ratios of times, baseline / candidate, and the reason in words."""
    margin = 1 + (delta or 0.0)
    beyond = "beyond 1" if not delta else f"beyond the ±{delta:.3g} that does not matter"
    if interval.low > margin:
        return FASTER, f"all of the interval lies {beyond}"
    if interval.high < 1 / margin:
        return SLOWER, f"all of the interval lies {beyond}"
    if delta is not None and 1 / margin <= interval.low and interval.high <= margin:
        return EQUIVALENT, f"all of the interval lies within the ±{delta:.3g} that does not matter"
    end = "1" if not delta else f"an end of the ±{delta:.3g} that does not matter"
    return CANNOT_TELL, f"the interval holds {end}"
