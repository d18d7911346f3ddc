"""Checks for the exercises on benchmarking: each passes or fails a reader's function, and says on what it failed."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, Literal

import numpy as np

from tinytorch.chapters.checking import exercise_check, returned_number
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Caches, Conditions

FlawName = Literal["order", "threads", "caches", "statistic", "baseline"]


@dataclass(frozen=True)
class Report:
    """A published speedup.

    Attributes:
        baseline, candidate: times; their conditions say how many ``blas_threads`` there were, whether ``caches``
            were warm or cold, and what they were ``interleaved_with``.
        statistics: what was divided by what: "median" or "minimum" of baseline and candidate.
        best_known: median seconds of the fastest version that its readers know of.
    """

    baseline: Measurement
    candidate: Measurement
    statistics: tuple[str, str]
    best_known: float


def reports(seed: int = 0) -> list[tuple[Report, FlawName | None]]:
    """Return made-up reports, each with at most one flaw, and its name: what `check_flaw` asks about."""
    draw = np.random.default_rng(seed)
    names: Final[tuple[FlawName | None, ...]] = ("order", "threads", "caches", "statistic", "baseline", None)
    made = []
    for index in range(30):
        flaw = names[index % len(names)]
        seconds = float(draw.uniform(1e-3, 1e-2))
        threads, caches = int(draw.integers(1, 5)), Caches(draw.choice(["warm", "cold"]))
        one = other = Conditions(blas_threads=threads, caches=caches)
        if flaw == "threads":
            other = replace(one, blas_threads=threads + int(draw.integers(1, 4)))
        if flaw == "caches":
            other = replace(one, caches=Caches.WARM if caches is Caches.COLD else Caches.COLD)
        if flaw != "order":
            one, other = replace(one, interleaved_with=("candidate",)), replace(other, interleaved_with=("baseline",))
        made.append(
            (
                Report(
                    _times("baseline", seconds, one, draw),
                    _times("candidate", seconds / 1.3, other, draw),
                    ("median", "minimum") if flaw == "statistic" else ("median", "median"),
                    seconds * (0.2 if flaw == "baseline" else 1.0),
                ),
                flaw,
            )
        )
    return [made[index] for index in draw.permutation(len(made))]


def _times(name: str, seconds: float, conditions: Conditions, draw: np.random.Generator) -> Measurement:
    noise = 1 + np.abs(draw.normal(0, 0.01, 20))
    return Measurement(name, tuple((seconds * noise / np.median(noise)).tolist()), "s", conditions)


def _shown(times: Measurement) -> str:
    had = times.conditions
    others = f", interleaved with {', '.join(had.interleaved_with)}" if had.interleaved_with else ""
    return f"{times.name} on {had.blas_threads} threads, {had.caches} caches{others}"


@exercise_check
def check_flaw(function: Callable[[Report], FlawName | None]) -> None:
    """Return "... passed" if ``function(report)`` names the flaw of each report, and None of those that have none.

    The names are "order" (not interleaved), "threads", "caches", "statistic" (different ones), and "baseline" (more
    than 10 % slower than the best version known).
    """
    for report, truth in reports():
        answer = function(report)
        shown = f"{_shown(report.baseline)}, {_shown(report.candidate)}, {report.statistics}"
        assert answer == truth, f"the flaw is {truth!r}, not {answer!r}: {shown}, best known {report.best_known:.3g} s"


@dataclass(frozen=True)
class Option:
    """A variant to choose: seconds of a call with their interval, bytes, and the share of right answers."""

    name: str
    seconds: Measurement
    nbytes: int
    accuracy: float


@exercise_check
def check_choose(function: Callable[[Sequence[Option], float, int], str | None]) -> None:
    """Return "... passed" if ``function(options, seconds, nbytes)`` names the most accurate within both budgets.

    The upper end of its interval must be within the time, since a median alone may be luck; None if there is none.
    """
    draw = np.random.default_rng(0)
    for case in range(60):
        options = [
            Option(
                f"variant {number}",
                _times(f"variant {number}", float(draw.uniform(1e-3, 1e-2)), Conditions(), draw),
                int(draw.integers(10_000, 1_000_000)),
                float(draw.uniform(0.8, 0.99)),
            )
            for number in range(5)
        ]
        chosen = options[int(draw.integers(5))]
        # Every third budget lies between a median and the upper end of its interval.
        tight = (chosen.seconds.median + chosen.seconds.interval.high) / 2
        seconds = tight if case % 3 == 0 else float(draw.uniform(1e-3, 1e-2))
        nbytes = max(chosen.nbytes, int(draw.integers(10_000, 1_000_000)))
        fit = [one for one in options if one.seconds.interval.high <= seconds and one.nbytes <= nbytes]
        truth = max(fit, key=lambda one: one.accuracy).name if fit else None
        answer = function(options, seconds, nbytes)
        assert answer == truth, f"within {seconds:.4g} s and {nbytes} bytes it is {truth!r}, not {answer!r}"


@exercise_check
def check_regression(function: Callable[[Measurement, Measurement], str]) -> None:
    """Return "... passed" if ``function(again, changed)`` is the result of a regression check.

    Both are ratios, of the old code over itself and over the changed one: "void" if the first interval does not hold 1,
    else "alert" if the second lies below 1, and else "pass".
    """
    draw = np.random.default_rng(0)
    for again, changed in ((1.0, 0.9), (1.0, 1.0), (1.0, 1.1), (1.1, 0.9), (0.9, 0.9), (0.9, 1.0)):
        ratios = [
            Measurement(name, tuple((level * (1 + draw.normal(0, 0.01, 20))).tolist()), "")
            for name, level in (("old over old", again), ("old over changed", changed))
        ]
        truth = "void" if again != 1 else "alert" if changed < 1 else "pass"
        answer = function(*ratios)
        assert answer == truth, f"ratios of {again:g} and {changed:g} are {truth!r}, not {answer!r}"


@exercise_check
def check_seconds_needed(function: Callable[[float, float, float, int], float]) -> None:
    """Return "... passed" if ``function(regression, sigma, pair, benchmarks)`` is the budget of each benchmark.

    By so many seconds of pairs, each of so many benchmarks finds the regression with a power of 90 %, and all of them
    together raise a false alarm in at most 5 % of runs.
    """
    for regression, sigma, pair, benchmarks in itertools.product((0.005, 0.02), (0.01, 0.1), (0.1, 3.0), (1, 100)):
        z = NormalDist().inv_cdf(1 - 0.05 / benchmarks / 2)
        truth = math.pi / 2 * ((z + 1.28) * sigma / regression) ** 2 * pair
        case = f"a regression of {regression:g}, sigma {sigma:g}, {pair:g} s for a pair, {benchmarks} benchmarks"
        answer = returned_number(function(regression, sigma, pair, benchmarks), case)
        assert abs(answer / truth - 1) < 0.02, f"{case}: {truth:.4g} s are needed, not {answer:.4g}"
