"""The chapter's exercises: right answers pass, and each wrong one that is likely does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tinytorch.chapters.benchmarking import exercises
from tinytorch.chapters.benchmarking.exercises import FlawName, Option, Report
from tinytorch.perf.measuring import Measurement


def first_flaw(report: Report) -> FlawName | None:
    before, after = report.baseline.conditions, report.candidate.conditions
    if "baseline" not in after.interleaved_with:
        return "order"
    if before.blas_threads != after.blas_threads:
        return "threads"
    if before.caches != after.caches:
        return "caches"
    if report.statistics[0] != report.statistics[1]:
        return "statistic"
    return "baseline" if report.baseline.median > 1.1 * report.best_known else None


def test_flaw() -> None:
    assert "passed" in exercises.check_flaw(first_flaw)
    with pytest.raises(AssertionError, match="the flaw is"):
        exercises.check_flaw(lambda report: None)
    for name in ("order", "threads", "caches", "statistic", "baseline"):

        def blind(report: Report, name: str = name) -> FlawName | None:
            answer = first_flaw(report)
            return None if answer == name else answer

        with pytest.raises(AssertionError, match=f"the flaw is '{name}', not None"):
            exercises.check_flaw(blind)


def chooser(within: Callable[[Option, float], bool]) -> Callable[[Sequence[Option], float, int], str | None]:
    def choose(options: Sequence[Option], seconds: float, nbytes: int) -> str | None:
        fit = [one for one in options if within(one, seconds) and one.nbytes <= nbytes]
        return max(fit, key=lambda one: one.accuracy).name if fit else None

    return choose


def test_choose() -> None:
    assert "passed" in exercises.check_choose(chooser(lambda one, limit: one.seconds.interval.high <= limit))
    with pytest.raises(AssertionError, match="within"):
        exercises.check_choose(chooser(lambda one, limit: one.seconds.median <= limit))
    with pytest.raises(AssertionError, match="within"):
        exercises.check_choose(lambda options, *_: options[0].name)


def test_ring() -> None:
    def check(again: Measurement, changed: Measurement) -> str:
        holds = again.interval.low <= 1 <= again.interval.high
        return ("ring" if changed.interval.high < 1 else "quiet") if holds else "void"

    assert "passed" in exercises.check_ring(check)
    with pytest.raises(AssertionError, match="are 'void', not 'ring'"):
        exercises.check_ring(lambda again, changed: "ring" if changed.interval.high < 1 else "quiet")
