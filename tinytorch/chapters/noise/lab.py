"""Rules on trial: how often they call a program different from itself, alone and among several comparisons."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from tinytorch.chapters.noise.order import loops_for, neighbours
from tinytorch.core.op import Array
from tinytorch.perf.benchmarking.performance import share_right
from tinytorch.perf.measuring import Counted, Measurement, collector_off
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.planning import rounds_within
from tinytorch.perf.measuring.statistics import CONFIDENCE, Share, Stated, dependence, interval_of_law

#: Calls of each side of a comparison, and those before them that do not count.
_RUNS, _WARM = 10, 2
#: How many times as long the calls of one side are made, to ask what a rule overlooks.
_LONGER = 1.1
#: The least seconds of a call beside neighbours: a slice of the system or more.
_SECONDS = 0.005


def alarms(name: str, alarmed: list[bool]) -> Measurement:
    """Return the share of comparisons that ``alarmed``, with the interval of as many as their dependence leaves."""
    false = tuple(map(float, alarmed))
    share, worth = float(np.mean(false)), max(1, round(dependence(false).effective))
    by = f"Clopper and Pearson, mid-P, {worth} independent comparisons"
    conditions = Conditions(sample=Sample.TRIALS, statistic="share", interval_by=by)
    ends = interval_of_law(Share(round(share * worth), worth), CONFIDENCE)
    return Measurement(name, false, "%", conditions, law=Stated(share, min(ends.low, share), max(ends.high, share)))


def against_itself(function: Callable[[], Any], trials: int, *, company: bool = False) -> list[dict[str, Any]]:
    """Return what rules say of the same times of one function: a t-test on halves and on pairs, the book's on pairs.

    A trial times twenty calls one after the other. The first rule takes the former half for one program and the latter
    for another, and asks Student's test at 5 %. The others deal neighbours to the two, in a drawn order, and ask that
    test and `compare_paired`. No difference is too small for any. With ``company`` neighbours are held up or let go
    before each half, by a coin, and a call is made long enough to meet them.

    Returns:
        for each rule its name, its trials, the false alarms, their ``rate``, and how often it ``found`` that the calls
        of one side, made 10 % longer, differ from the others.
    """
    loops = loops_for(function, _SECONDS) if company else 1
    draw = np.random.default_rng(0)
    halves = {"10 runs, then 10 runs, t-test": _by_t_test}
    pairs = {"10 pairs in turns, t-test": _by_t_test, "10 pairs in turns, interval of the ratio": _by_interval}
    said: dict[str, list[tuple[bool, bool]]] = {rule: [] for rule in (*halves, *pairs)}
    with neighbours() if company else nullcontext() as beside, collector_off():
        for _ in rounds_within(20.0, trials, fewest=6):
            taken = np.empty((2, _RUNS))
            for half in taken:
                if beside is not None:
                    beside.run(bool(draw.integers(2)))
                _time(function, loops, half)
            dealt = draw.permuted(taken.reshape(_RUNS, 2), axis=1).T
            for rules, (first, second) in ((halves, taken), (pairs, dealt)):
                for name, differ in rules.items():
                    said[name].append((differ(first, second), differ(first, _LONGER * second)))
    return [
        {
            "rule": f"{name}; neighbours come and go" if company else name,
            "trials": Counted(len(each), "1", "comparisons"),
            "alarms": Counted(sum(alarm for alarm, _ in each), "1", f"false alarms of {name}"),
            "rate": alarms(f"false alarms of {name}", [alarm for alarm, _ in each]),
            "found": Counted(sum(found for _, found in each), "1", f"differences that {name} found"),
        }
        for name, each in said.items()
    ]


def _time(function: Callable[[], Any], loops: int, seconds: Array) -> None:
    """Fill ``seconds`` with times of so many calls in a row, after a few that do not count."""
    for run in range(-_WARM, seconds.size):
        start = time.perf_counter_ns()
        for _ in range(loops):
            function()
        if run >= 0:
            seconds[run] = (time.perf_counter_ns() - start) * 1e-9


def _by_t_test(first: Array, second: Array) -> bool:
    """Return whether Student's test at 5 % calls the means of two series of times different."""
    from scipy.stats import ttest_ind  # takes longer to import than all else here

    return bool(ttest_ind(second, first).pvalue < 1 - CONFIDENCE)


def _by_interval(first: Array, second: Array) -> bool:
    """Return whether the interval of `compare_paired` calls two series of times different."""
    return compare_paired(first, second, matters=0).verdict in (Verdict.FASTER, Verdict.SLOWER)


def families(
    calls: Measurement, outside: int, comparisons: int, pairs: int = 15, count: int = 4000, seed: int = 0
) -> Measurement:
    """Return how often one of so many ``comparisons`` of a program with itself raises a false alarm.

    Each comparison deals calls, drawn anew from one process, to ``pairs`` pairs, and makes an interval of their ratios
    that leaves so many ``outside`` on each side. There are ``count`` such families.
    """
    draw = np.random.default_rng(seed)
    first, second = draw.choice(np.asarray(calls.samples), (2, count, comparisons, pairs))
    ratios = np.sort(first / second, axis=-1)
    alarm = ((ratios[..., outside] > 1) | (ratios[..., -1 - outside] < 1)).any(axis=-1)
    conditions = Conditions(sample=Sample.TRIALS, statistic="share", interval_by="Clopper and Pearson, mid-P")
    name = f"false alarm in a family of {comparisons}, {outside} of {pairs} outside"
    return replace(share_right(name, np.asarray(alarm)), conditions=conditions)
