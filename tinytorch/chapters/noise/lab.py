"""False alarms and power: how often rules find a difference where there is none, and where there is one."""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from tinytorch.chapters.noise.order import loops_for, neighbours
from tinytorch.chapters.noise.runs import samples_outside
from tinytorch.core.op import Array
from tinytorch.perf.benchmarking.performance import share_right
from tinytorch.perf.measuring import Counted, Derived, Measurement, collector_off
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.planning import POWER, rounds_within
from tinytorch.perf.measuring.statistics import CONFIDENCE, Share, Stated, dependence, interval_of_law, median

#: Calls of each side of a comparison, and those before them that do not count.
_RUNS, _WARM = 10, 2
#: How many times as long the calls of one side are made, to ask what a rule overlooks.
_LONGER = 1.1
#: The least seconds of a call beside neighbours: a slice of the system or more.
_SECONDS = 0.005


def share_of(name: str, found: list[bool]) -> Measurement:
    """Return the share of comparisons that ``found`` a difference; its interval is of their effective sample size."""
    yes = tuple(map(float, found))
    share, worth = float(np.mean(yes)), max(1, round(dependence(yes).effective))
    by = f"Clopper and Pearson, mid-P, {worth} independent comparisons"
    conditions = Conditions(sample=Sample.TRIALS, statistic="share", interval_by=by)
    ends = interval_of_law(Share(round(share * worth), worth), CONFIDENCE)
    return Measurement(name, yes, "%", conditions, law=Stated(share, min(ends.low, share), max(ends.high, share)))


def against_itself(function: Callable[[], Any], trials: int, *, company: bool = False) -> list[dict[str, Any]]:
    """Return how often three rules call one function different from itself, and from itself made slower.

    A trial times twenty calls one after the other. The first rule takes the former half for one program and the latter
    for another, and asks Student's unpaired test at 5 %. The other rules deal each two neighbouring calls to the two
    programs, in a random order; they ask Student's paired test of the logarithms, and `compare_paired`. No difference
    is too small for any. With ``company`` a coin decides before each half whether neighbours run, and a call is made
    long enough to meet them.

    Returns:
        for each rule its name, its trials, its number of false ``alarms``, their ``rate``, and its ``power``: how often
        it finds that the calls of one side, made 10 % longer, differ from the others.
    """
    loops = loops_for(function, _SECONDS) if company else 1
    draw = np.random.default_rng(0)
    halves = {"unpaired t-test, 10 runs after 10": by_unpaired_test}
    pairs = {"paired t-test, 10 pairs": by_paired_test, "our interval, 10 pairs": by_interval}
    said: dict[str, list[tuple[bool, bool]]] = {rule: [] for rule in (*halves, *pairs)}
    with neighbours() if company else nullcontext() as others, collector_off():
        for _ in rounds_within(20.0, trials, fewest=6):
            taken = np.empty((2, _RUNS))
            for half in taken:
                if others is not None:
                    others.run(bool(draw.integers(2)))
                _time(function, loops, half)
            dealt = draw.permuted(taken.reshape(_RUNS, 2), axis=1).T
            for rules, (first, second) in ((halves, taken), (pairs, dealt)):
                for name, differ in rules.items():
                    said[name].append((differ(first, second), differ(first, _LONGER * second)))
    return [
        {
            "rule": name,
            "neighbours": "come and go" if company else "none",
            "trials": Counted(len(each), "1", "comparisons"),
            "alarms": Counted(sum(alarm for alarm, _ in each), "1", f"false alarms of {name}"),
            "rate": share_of(f"false alarms of {name}", [alarm for alarm, _ in each]),
            "power": share_of(f"differences of 10 % found by {name}", [found for _, found in each]),
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


def by_unpaired_test(first: Array, second: Array) -> bool:
    """Return whether Student's test at 5 % calls the means of two series of times different."""
    from scipy.stats import ttest_ind  # takes longer to import than all else here

    return bool(ttest_ind(second, first).pvalue < 1 - CONFIDENCE)


def by_paired_test(first: Array, second: Array) -> bool:
    """Return whether Student's test at 5 % calls the mean logarithm of the ratios of pairs different from 0."""
    from scipy.stats import ttest_rel

    return bool(ttest_rel(np.log(second), np.log(first)).pvalue < 1 - CONFIDENCE)


def by_interval(first: Array, second: Array) -> bool:
    """Return whether the interval of `compare_paired` calls two series of times different."""
    return compare_paired(first, second, matters=0).verdict in (Verdict.FASTER, Verdict.SLOWER)


def families(calls: Measurement, outside: int, comparisons: int, pairs: int = 15, count: int = 4000) -> Measurement:
    """Return how often one of so many ``comparisons`` of a program with itself raises a false alarm.

    Each comparison deals calls, drawn at random from one process, to ``pairs`` pairs, and makes an interval of their
    ratios that leaves so many ``outside`` on each side. There are ``count`` such families.
    """
    draw = np.random.default_rng(0)
    first, second = draw.choice(np.asarray(calls.samples), (2, count, comparisons, pairs))
    ratios = np.sort(first / second, axis=-1)
    alarm = ((ratios[..., outside] > 1) | (ratios[..., -1 - outside] < 1)).any(axis=-1)
    name = f"false alarm in a family of {comparisons}, {outside} of {pairs} outside"
    return _share_of_trials(name, np.asarray(alarm))


def scatter(pairs: Measurement) -> float:
    """Return a robust standard deviation of the logarithms of the ratios of pairs."""
    logs = np.log(pairs.samples)
    return 1.4826 * median(np.abs(logs - np.median(logs)))


def pairs_for(pairs: Measurement, difference: float) -> Derived:
    """Return how many pairs find this difference with a power of 90 %, given how much pairs of the same code vary."""
    from scipy.special import ndtri

    number = math.pi / 2 * (float(ndtri(0.975) + ndtri(POWER)) * scatter(pairs) / difference) ** 2
    what = f"pairs for a difference of {difference:.1%}"
    return Derived(math.ceil(number), "1", what, (pairs,), "it is a number of pairs")


def power(pairs: Measurement, number: int, difference: float, count: int = 2000) -> Measurement:
    """Return how often the interval of so many pairs finds a ``difference`` that is put into pairs of the same code.

    The pairs of each interval are drawn at random from all ``pairs``, so that they are independent. There are ``count``
    such intervals, whose ends lie between two samples, where they miss the median in 5 % of all cases.
    """
    slower = np.asarray(pairs.samples) / pairs.median * math.exp(difference)
    ordered = np.sort(np.random.default_rng(0).choice(slower, (count, number)), axis=1)
    outside, misses = samples_outside(number)
    part = (1 - CONFIDENCE - misses) / (2 * math.comb(number, outside + 1) / 2**number)
    low, high = (each[:, outside] * (1 - part) + each[:, outside + 1] * part for each in (ordered, ordered[:, ::-1]))
    found = np.logical_or(low > 1, high < 1)
    return _share_of_trials(f"power of {number} pairs to find a difference of {difference:.1%}", found)


def spread_of_median(pairs: Measurement, number: int, count: int = 10_000) -> Measurement:
    """Return the standard deviation of the median of so many pairs, over that of normal noise with the same scatter.

    The pairs are drawn as for `power`, ``count`` times; a sample is made of each 20th part of these medians.
    """
    medians = np.median(np.random.default_rng(0).choice(np.log(pairs.samples), (count, number)), axis=1)
    normal = math.sqrt(math.pi / 2 / number) * scatter(pairs)
    ratios = tuple((medians.reshape(20, -1).std(axis=1, ddof=1) / normal).tolist())
    name = f"standard deviation of the median of {number} pairs over that of normal noise"
    return Measurement(name, ratios, "", Conditions(sample=Sample.TRIALS))


def _share_of_trials(name: str, yes: Array) -> Measurement:
    conditions = Conditions(sample=Sample.TRIALS, statistic="share", interval_by="Clopper and Pearson, mid-P")
    return replace(share_right(name, yes), conditions=conditions)
