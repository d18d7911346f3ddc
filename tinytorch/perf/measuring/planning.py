"""Plans of comparisons: how many pairs it takes to decide about the difference that matters.

A pilot tells how much the log-ratios of pairs spread, and the number of pairs follows. Verdicts rest on the pairs that
are taken after it. The pilot's are thrown away: a number that is chosen before the first of these pairs, and that they
cannot change, makes no verdict more likely, so that nothing has to be corrected for looking twice.

How many: the judge's estimate is the median of n log-ratios. Where one of them has the standard deviation σ and
neighbours are alike with the autocorrelation time T, it has the variance s² = π/2 · T σ² / n, π/2 times that of a mean,
and b² beside it for what processes and moments differ by, which no number of pairs makes smaller. With z_c the normal
quantile of the interval, its ends lie z_c √(s² + b²) from the estimate. Let d be the log of the ratio that matters.

- Where there is no difference, "none beyond d" takes an interval that holds 0, which it does with its confidence c, and
  an estimate within d - z_c √(s² + b²) on either side of 0. Both have the chance p, the power, if that is
  z_p √(s² + b²), where z_p is the quantile at (1 + p / c) / 2.
- Where the difference is d, the interval excludes 0 if the estimate lies no farther below d than the same: on one side,
  so that the chance is (1 + p / c) / 2.

Both take d² >= (z_c + z_p)² (s² + b²), and so n = π/2 · T σ² (z_c + z_p)² / (d² - (z_c + z_p)² b²). With 95 %, a power
of 90 %, d = 3 % and independent noise of 2 % that is 3.9² · 1.57 / 1.48² = 10.9, so 11 pairs. As σ comes from a
pilot of few, quantiles of Student's distribution stand in place of the normal ones beside it.

- If b alone exceeds what d allows, no number of pairs decides, and fresh processes may. So many are taken then that
  their own error is half of what b leaves.
- Where the pilot shows a difference that surely is larger than d, at the lower end of its one-sided interval, that one
  takes d's place: it is clear after fewer pairs.
- Elsewhere never fewer pairs than `FEWEST_PAIRS` are taken: a moment of disturbance spoils a few neighbours, and of 16
  pairs the second from an end may be an end of the interval.
- The interval ends at two of the samples, of few so far out that it takes some more: as many as `_end` finds.
- Short series do not rule out noise that wanders (`Dependence.may_wander`), and where what runs differ by is not known
  either, their interval is as wide as such noise makes it. A difference within it takes `LONG_ENOUGH` pairs.

Sources: C. Stein, A two-sample test for a linear hypothesis whose power is independent of the variance, Annals of
Mathematical Statistics 16 (1945) 243-258 (two stages, Student's quantiles); H. A. David and H. N. Nagaraja, Order
Statistics, 3rd edition, Wiley 2003, chapter 10 (variance of the median). `benchmarks/verdicts.py` counts errors and
power of the whole procedure.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tinytorch import settings
from tinytorch.perf.measuring.conditions import Planned
from tinytorch.perf.measuring.measurement import Measurement
from tinytorch.perf.measuring.statistics import (
    CONFIDENCE,
    Dependence,
    Percentile,
    bonferroni,
    clipped,
    interval_of_law,
    median,
    samples_needed,
)

#: Chance to find a true difference that matters, and of "none beyond it" with noise that is known.
POWER = 0.90
#: Pairs of a pilot.
PILOT = 12
#: Pairs that are taken where the pilot shows no difference that surely matters, however still it was.
FEWEST_PAIRS = 30
#: Independent pairs, of which noise that wanders is ruled out in 97 of 100 series.
LONG_ENOUGH = 36
#: Samples from which on the ends of an interval lie where the formula says.
_FEW = 100
#: Seconds that a measurement may take with a tiny budget, as in `make live` and the tests that run pages.
ROUGH_SECONDS = 0.02
#: Robust deviations from the median at which log-ratios are cut off before their spread is taken.
_CUT = 4.0


def carried_out(plan: Planned, ratios: Sequence[Measurement]) -> Planned:
    """Return the plan with what the ratios of its pairs reached, one measurement of each candidate."""
    confidence = bonferroni(CONFIDENCE, len(ratios))
    found = [one.interval_at(confidence) for one in ratios]
    halves = [math.log(one.high / one.low) / 2 for one in found if 0 < one.low < one.high < math.inf]
    whole, end = _quantiles(confidence, None)
    reached = math.expm1(max(halves) * whole / end) if len(halves) == len(ratios) else None
    return replace(plan, reached=reached, ended_by_time=ratios[0].n < plan.number)


def has_tiny_budget() -> bool:
    """Return whether measurements have a tiny budget, as in `make live`."""
    return settings.SETTINGS.rough == "1"


def seconds_allowed(asked: float) -> float:
    """Return how long a measurement may take that was given so many seconds: less where it has a tiny budget."""
    return min(asked, ROUGH_SECONDS) if has_tiny_budget() else asked


def rounds_within(at_most_seconds: float, number: int, fewest: int) -> Iterator[int]:
    """Count the rounds of a measurement: to ``number``, and from ``fewest`` on only while the seconds last."""
    until = time.perf_counter() + seconds_allowed(at_most_seconds)
    return itertools.takewhile(lambda done: done < fewest or time.perf_counter() < until, range(number))


def planned(pilot: Sequence[Measurement], resolve: float, fewest: int = 0) -> Planned:
    """Return how many pairs tell the worst candidate from the baseline by what matters.

    Args:
        pilot: the ratios baseline / candidate of a pilot, of each candidate; their confidence is corrected for their
            number, as `compare_all` does.
        resolve: the relative difference that matters.
        fewest: how many are taken at least where the pilot shows no difference that surely matters.

    Raises:
        ValueError: if there is no candidate.
    """
    if not pilot:
        raise ValueError("resolve takes a baseline and at least one candidate, but there is one function")
    each = [_planned(one, resolve, bonferroni(CONFIDENCE, len(pilot)), fewest) for one in pilot]
    worst = max(each, key=lambda plan: plan.number)
    return replace(worst, least=max(plan.least for plan in each))


def _planned(pilot: Measurement, resolve: float, confidence: float, fewest: int) -> Planned:
    logs = np.log(pilot.samples)
    time, freedom = pilot.dependence.time, pilot.n - 1
    of_one = math.sqrt(math.pi / 2 * time) * _deviation(logs)
    (normal, normal_end), (student, end) = _quantiles(confidence, None), _quantiles(confidence, freedom)
    sure = abs(median(logs)) - (student - end) * of_one / math.sqrt(pilot.n)
    aimed = max(math.log1p(resolve), sure)
    between = normal * pilot.spread_between_runs
    left = aimed**2 - between**2 if between < aimed else 0.0
    needed = (student * of_one) ** 2 / max(left, between**2 / 4)
    number = max(samples_needed(50, confidence), math.ceil(needed), 0 if sure > math.log1p(resolve) else fewest)
    allowed = normal_end * math.sqrt(math.pi / 2 * time / needed) if needed else math.inf
    while number < _FEW and _end(number, confidence, time) > allowed:
        number += 1
    if not pilot.is_bounded_by_runs and aimed < _end(
        number, confidence, Dependence(number, 1.0, 1.0).longest_time
    ) * _deviation(logs):
        number = max(number, math.ceil(LONG_ENOUGH * time))
    return Planned(resolve, POWER, pilot.n, math.expm1(aimed), number, math.expm1(between))


def _end(number: int, confidence: float, time: float) -> float:
    """Return where the interval of so many normal samples is expected to end, in their deviations.

    It ends at one of them, which for few is farther out than the formula says.
    Source: G. Blom, Statistical estimates and transformed beta-variables, Wiley 1958 (expected order statistics).
    """
    from scipy.special import ndtri

    expected = ndtri((np.arange(1, number + 1) - 0.375) / (number + 0.25))
    return interval_of_law(Percentile(tuple(expected.tolist()), time=time), confidence).high


def _quantiles(confidence: float, freedom: int | None) -> tuple[float, float]:
    """Return how many deviations of the estimate a difference takes, and how many of them the interval's end does.

    They are those of Student's distribution with that ``freedom``; None for the normal one.
    """
    from scipy.special import ndtri, stdtrit

    chances = (1 + confidence) / 2, (1 + POWER / confidence) / 2
    end, beyond = (float(ndtri(one) if freedom is None else stdtrit(freedom, one)) for one in chances)
    return end + beyond, end


def _deviation(logs: np.ndarray) -> float:
    """Return the standard deviation of what outliers do not make: beyond the cut they are as far as it."""
    return float(clipped(logs, _CUT).std(ddof=1))
