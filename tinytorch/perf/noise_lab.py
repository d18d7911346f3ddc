"""The noise lab: how often a rule for comparing two programs raises an alarm when they are the same program."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.perf.measuring import collector_off, interleave
from tinytorch.perf.measuring.comparison import FASTER, SLOWER, compare_paired
from tinytorch.perf.measuring.statistics import Interval, share_interval


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """How many of ``trials`` comparisons of a program with itself the rule called a difference."""

    rule: str
    alarms: int
    trials: int

    @property
    def rate(self) -> float:
        """Share of the trials with an alarm, 0 to 1."""
        return self.alarms / self.trials

    @property
    def interval(self) -> Interval:
        """Exact 95 % confidence interval of the rate, `share_interval`."""
        return share_interval(self.alarms, self.trials)


def _one_after_the_other(function: Callable[[], Any], runs: int) -> tuple[list[float], list[float]]:
    """Return seconds of ``runs`` calls, and then of ``runs`` calls more, each series after five that do not count."""
    series: list[list[float]] = []
    for _ in range(2):
        for _ in range(5):
            function()
        seconds = []
        for _ in range(runs):
            start = time.perf_counter_ns()
            function()
            seconds.append((time.perf_counter_ns() - start) * 1e-9)
        series.append(seconds)
    return series[0], series[1]


def false_alarms_in_sequence(function: Callable[[], Any], trials: int, runs: int = 10) -> FalseAlarms:
    """Return the false alarms of the usual rule: ten runs, then ten of the other, and Student's t-test below 5 %.

    Raises:
        ValueError: if ``trials`` is below 1 or ``runs`` below 2.
    """
    if trials < 1 or runs < 2:
        raise ValueError(f"trials must be at least 1 and runs at least 2, not {trials} and {runs}")
    from scipy.stats import ttest_ind  # takes longer to import than all else here

    alarms = 0
    with collector_off():
        for _ in range(trials):
            first, second = _one_after_the_other(function, runs)
            if np.var(first) + np.var(second) > 0:
                alarms += bool(ttest_ind(first, second).pvalue < 0.05)
    return FalseAlarms(f"{runs} runs, then {runs} runs, t-test", alarms, trials)


def false_alarms_in_turns(function: Callable[[], Any], trials: int, pairs: int = 30, seed: int = 0) -> FalseAlarms:
    """Return the false alarms of this book's rule: pairs in turns, judged by `comparison.compare_paired`.

    Raises:
        ValueError: if ``trials`` is below 1.
    """
    if trials < 1:
        raise ValueError(f"trials must be at least 1, not {trials}")
    alarms = 0
    for trial in range(trials):
        both = interleave({"once": function, "again": function}, repeats=pairs, warmup_seconds=0.05, seed=seed + trial)
        alarms += compare_paired(both["once"], both["again"]).verdict in (FASTER, SLOWER)
    return FalseAlarms(f"{pairs} pairs in turns, interval of the ratio", alarms, trials)
