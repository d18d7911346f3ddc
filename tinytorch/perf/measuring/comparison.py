"""Two samples: the ratio of paired times with its interval, and the verdict that it supports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tinytorch.perf.measuring import Measurement, Statistic, checked_neighbours
from tinytorch.perf.measuring.statistics import (
    FEWEST_FOR_INTERVAL,
    Dependence,
    Interval,
    Samples,
    bootstrap_interval,
    checked,
    dependence,
    median_interval,
)

Verdict = Literal["faster", "slower", "equivalent", "cannot tell here"]
FASTER: Final = "faster"
SLOWER: Final = "slower"
EQUIVALENT: Final = "equivalent"
CANNOT_TELL: Final = "cannot tell here"
#: Log of the factor by which a widened interval reaches to each side at most: a thousand says that nothing is known.
_FARTHEST = math.log(1e3)
#: Units in which a smaller number is the faster one; a rate turned round would turn the verdict round.
_TIMES = ("s", "ms", "us", "µs", "ns")


@dataclass(frozen=True)
class Comparison:
    """Comparison of a candidate with a baseline by paired times.

    Attributes:
        baseline, candidate: names of what ran.
        ratio: baseline / candidate, above 1 is faster: its samples are the ratios of the pairs in the order in
            which they were taken, its median that of the log-ratios, its interval the bootstrap's.
        verdict: `FASTER` or `SLOWER` if the whole interval lies beyond 1 + delta or below 1 / (1 + delta),
            `EQUIVALENT` if it lies between them, else `CANNOT_TELL`.
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
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Return the ratio baseline / candidate of paired times with the verdict that its interval supports.

    The i-th times of both must be neighbours, as `tinytorch.perf.measuring.interleave` takes them. The interval is
    the percentile bootstrap's of the median log-ratio, widened by what the pairs' dependence on one another takes
    from their number: by sqrt(n / effective) and by Student's over the normal quantile for so few.
    No verdict is given on fewer than six pairs, nor where `Dependence.objection` says why.

    Args:
        baseline: times of the old version: a `Measurement`, or numbers above 0.
        candidate: times of the new version, as many.
        delta: relative difference that does not matter: 0.01 is one per cent; None if each one matters.
        confidence: coverage of the interval, between 0 and 1.
        seed: of the bootstrap's draws.

    Raises:
        ValueError: if the times are not pairs, not above 0 or rates, or an argument is out of its range.
    """
    return _compared(baseline, candidate, delta, confidence, seed, compared=1)


def compare_all(
    baseline: Measurement,
    *candidates: Measurement,
    delta: float | None = 0.01,
    confidence: float = 0.95,
    seed: int = 0,
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
    each = 1 - (1 - confidence) / len(names)
    return {
        candidate.name: _compared(baseline, candidate, delta, each, seed, compared=len(names))
        for candidate in candidates
    }


def judged(
    logs: npt.NDArray[np.float64],
    names: tuple[str, str],
    delta: float | None,
    confidence: float,
    seed: int,
    *,
    found: Dependence,
    compared: int = 1,
    pairs_are: str = "pairs",
    how: Mapping[str, Any] | None = None,
) -> Comparison:
    """Return the `Comparison` that log-ratios of times support, given how dependent they are on one another.

    Args:
        logs: log(baseline / candidate) of each pair, or of each process.
        names: of baseline and candidate.
        delta, confidence, seed: those of `compare_paired`.
        found: the dependence of ``logs``.
        compared: how many comparisons ``confidence`` is corrected for.
        pairs_are: what each of ``logs`` comes from.
        how: the conditions under which the times were taken.

    Raises:
        ValueError: if ``delta`` or ``confidence`` is out of its range.
    """
    _check(delta, confidence)
    middle = float(np.median(logs))
    low, high = _interval(logs, middle, found, confidence, seed)
    verdict, because = interval_verdict(low, high, delta)
    objection, reached = found.objection, confidence
    if logs.size < FEWEST_FOR_INTERVAL:
        objection = f"it takes {FEWEST_FOR_INTERVAL} to have an interval, but there are {logs.size}"
        reached = median_interval(logs, confidence).confidence
    if objection is not None:
        verdict, because = CANNOT_TELL, objection
    ratio = Statistic(
        f"{names[0]} / {names[1]}",
        tuple(np.exp(logs).tolist()),
        "",
        {**(how or {}), "statistic": "median of the log-ratios", "interval_by": "bootstrap"},
        value=math.exp(middle),
        bounds=Interval(math.exp(low), math.exp(high), reached),
    )
    return Comparison(*names, ratio, verdict, delta, because, int((logs > 0).sum()), found, compared, pairs_are)


def _compared(
    baseline: Measurement | Samples,
    candidate: Measurement | Samples,
    delta: float | None,
    confidence: float,
    seed: int,
    compared: int,
) -> Comparison:
    _check(delta, confidence)
    names, how = ("baseline", "candidate"), {}
    if isinstance(baseline, Measurement) != isinstance(candidate, Measurement):
        raise ValueError("baseline and candidate must both be Measurements or both be sequences of times")
    if isinstance(baseline, Measurement) and isinstance(candidate, Measurement):
        checked_neighbours(baseline, candidate)
        if baseline.unit not in _TIMES:
            raise ValueError(f"baseline must be times, in one of {', '.join(_TIMES)}, not in {baseline.unit!r}")
        names, how = (baseline.name, candidate.name), dict(baseline.how)
        baseline, candidate = baseline.samples, candidate.samples
    before, after = _times(baseline, "baseline"), _times(candidate, "candidate")
    if before.size != after.size:
        raise ValueError(f"candidate must have as many times as baseline, {before.size}, not {after.size}")
    logs = np.log(before) - np.log(after)
    return judged(logs, names, delta, confidence, seed, found=dependence(logs), compared=compared, how=how)


def _check(delta: float | None, confidence: float) -> None:
    if delta is not None and not 0 <= delta < math.inf:
        raise ValueError(f"delta must be at least 0, such as 0.01 for one per cent, or None, not {delta}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")


def _times(samples: Any, name: str) -> npt.NDArray[np.float64]:
    times = checked(samples, name)
    if not (times > 0).all():
        raise ValueError(f"{name} must be times above 0, but {times.min()} is among them")
    return times


def _interval(
    logs: npt.NDArray[np.float64], middle: float, found: Dependence, confidence: float, seed: int
) -> tuple[float, float]:
    """Return the ends of the widened bootstrap interval; of few pairs the extremes, which no bootstrap can pass."""
    if logs.size < FEWEST_FOR_INTERVAL:
        return float(logs.min()), float(logs.max())
    low, high = bootstrap_interval(logs, confidence, seed)
    wider = found.widening(confidence)
    # Few effective pairs widen without bound, until no float holds the ratio.
    down, up = min((middle - low) * wider, _FARTHEST), min((high - middle) * wider, _FARTHEST)
    return middle - down, middle + up


def interval_verdict(low: float, high: float, delta: float | None) -> tuple[Verdict, str]:
    """Return the verdict for an interval of log-ratios of times, baseline / candidate, and the reason in words."""
    margin = 0.0 if delta is None else math.log1p(delta)
    beyond = "beyond 1" if not delta else f"beyond the ±{delta:.3g} that does not matter"
    if low > margin:
        return FASTER, f"all of the interval lies {beyond}"
    if high < -margin:
        return SLOWER, f"all of the interval lies {beyond}"
    if delta is not None and -margin <= low and high <= margin:
        return EQUIVALENT, f"all of the interval lies within the ±{delta:.3g} that does not matter"
    end = "1" if not delta else f"an end of the ±{delta:.3g} that does not matter"
    return CANNOT_TELL, f"the interval holds {end}"
