"""Rules on trial: how often they call a program different from itself, alone and among several comparisons."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.chapters.noise.order import FOR_EACH_CORE, Neighbours, loops_for, neighbours
from tinytorch.perf.benchmarking.performance import share_right
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Measurement, Modelled, collector_off
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between, verdict_of_all
from tinytorch.perf.measuring.statistics import (
    CONFIDENCE,
    FEWEST_FOR_INTERVAL,
    Share,
    Stated,
    dependence,
    interval_of_law,
)

#: The level of a test; and what a rule says of a program and itself: whether it differs, and how far it may.
_LEVEL = 0.05
#: The least seconds of a call beside neighbours: a slice of the system or more.
_SECONDS = 0.005
Said = tuple[bool, float]


@dataclass(frozen=True)
class Alarms:
    """How often a rule called a program different from itself, as a share, and how far its intervals reach from it."""

    rule: str
    trials: int
    different: int
    rate: Measurement
    reach: Measurement


def alarms(rule: str, said: Sequence[Said]) -> Alarms:
    """Return how often a rule said what; the share has the interval of as many independent ones as these are worth."""
    false = tuple(float(differs) for differs, _ in said)
    share, worth = float(np.mean(false)), max(1, round(dependence(false).effective))
    by = f"Clopper and Pearson, mid-P, {worth} independent comparisons"
    conditions = Conditions(sample=Sample.TRIALS, statistic="share", interval_by=by)
    ends = interval_of_law(Share(round(share * worth), worth), CONFIDENCE)
    law = Stated(share, min(ends.low, share), max(ends.high, share))
    rate = Measurement(f"false alarms of {rule}", false, "%", conditions, law=law)
    reach = Measurement(f"half-width of an interval of {rule}", tuple(half for _, half in said), "%")
    return Alarms(rule, len(said), int(sum(false)), rate, reach)


def against_itself(
    function: Callable[[], Any], trials: int, runs: int = 10, seed: int = 0, beside: Neighbours | None = None
) -> tuple[Alarms, Alarms, Alarms]:
    """Return what rules say of the same times of one function: a t-test on halves and on pairs, the book's on pairs.

    A trial times 2 ``runs`` calls one after the other, after five that do not count. The first rule takes the former
    half for one program and the latter for another, and asks Student's test at 5 %. The others deal neighbours to the
    two, in an order drawn by ``seed``, and ask that test and `compare_paired`. No difference is too small for any.
    Processes ``beside`` are held up or let go before each half, by a coin.

    Raises:
        ValueError: if ``trials`` is below 1 or ``runs`` below 6, which no interval can be made of.
    """
    if trials < 1 or runs < FEWEST_FOR_INTERVAL:
        raise ValueError(f"trials must be at least 1 and runs at least {FEWEST_FOR_INTERVAL}, not {trials} and {runs}")
    order = np.random.default_rng(seed)
    in_sequence, by_mean, in_turns = [], [], []
    with collector_off():
        for _ in range(trials):
            for _ in range(5):
                function()
            halves = []
            for _ in range(2):
                if beside is not None:
                    beside.run(bool(order.integers(2)))
                halves.append(_times_in_a_row(function, runs))
            in_sequence.append(_by_t_test(*halves))
            pairs = order.permuted(np.concatenate(halves).reshape(runs, 2), axis=1)
            by_mean.append(_by_t_test(pairs[:, 0], pairs[:, 1]))
            in_turns.append(_by_pairs(pairs[:, 0], pairs[:, 1]))
    company = "" if beside is None else "; neighbours come and go"
    return (
        alarms(f"{runs} runs, then {runs} runs, t-test{company}", in_sequence),
        alarms(f"{runs} pairs in turns, t-test{company}", by_mean),
        alarms(f"{runs} pairs in turns, interval of the ratio{company}", in_turns),
    )


def beside_neighbours(function: Callable[[], Any], trials: int) -> tuple[Alarms, Alarms, Alarms]:
    """Return what `against_itself` does while neighbours come and go; a call is made long enough to meet them."""
    loops = loops_for(function, _SECONDS)

    def long_call() -> None:
        for _ in range(loops):
            function()

    with neighbours(FOR_EACH_CORE * len(usable_cores())) as beside:
        return against_itself(long_call, trials, beside=beside)


def _times_in_a_row(function: Callable[[], Any], runs: int) -> npt.NDArray[np.float64]:
    """Return the seconds of ``runs`` calls one after the other."""
    seconds = np.empty(runs)
    for run in range(runs):
        start = time.perf_counter_ns()
        function()
        seconds[run] = (time.perf_counter_ns() - start) * 1e-9
    return seconds


def _by_t_test(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> Said:
    """Return what Student's test at 5 % says of the means of two series of times, over that of the first."""
    from scipy.stats import ttest_ind  # takes longer to import than all else here

    if np.ptp(first) + np.ptp(second) == 0:
        return bool(first[0] != second[0]), 0.0
    found = ttest_ind(second, first)
    reach = found.confidence_interval(1 - _LEVEL)
    return bool(found.pvalue < _LEVEL), float(reach.high - reach.low) / 2 / float(first.mean())


def _by_pairs(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> Said:
    """Return what `compare_paired` says of the pairs of two series of times."""
    found = compare_paired(first, second, matters=0)
    return found.verdict in (Verdict.FASTER, Verdict.SLOWER), found.interval.half_width


def rare_enough(*rates: Measurement, asked_for: float, passes: float) -> Judgement:
    """Return whether alarms are rare: refuted if a rate is surely above ``asked_for``, supported if none ``passes``."""
    wanted = [(rate, verdict_between(rate, high=asked_for)) for rate in rates]
    return verdict_of_all(
        one if one.verdict is Verdict.REFUTED else verdict_between(rate, high=passes) for rate, one in wanted
    )


@dataclass(frozen=True)
class Family:
    """Comparisons of a program with itself that are read together: how many of such families raise a false alarm.

    Attributes:
        name: the interval of each comparison.
        missed: by the coin, how often one interval misses.
        predicted, found: how often at least one of the family does.
    """

    name: str
    missed: Modelled
    predicted: Modelled
    found: Measurement


def families(
    calls: Measurement, intervals: dict[str, int], comparisons: int, pairs: int = 15, count: int = 4000, seed: int = 0
) -> dict[str, Family]:
    """Return how often families of so many ``comparisons`` of a program with itself raise a false alarm.

    Each comparison deals calls, drawn anew from one process, to ``pairs`` pairs, and makes an interval of their ratios.

    Args:
        calls: times of one program.
        intervals: for each name how many samples it leaves outside on each side.
        comparisons: in a family.
        pairs: of a comparison.
        count: of families.
        seed: of what is drawn.
    """
    draw = np.random.default_rng(seed)
    first, second = draw.choice(np.asarray(calls.samples), (2, count, comparisons, pairs))
    ratios = np.sort(first / second, axis=-1)
    found = {}
    for name, outside in intervals.items():
        missed = 2 * sum(math.comb(pairs, k) for k in range(outside + 1)) / 2**pairs
        alarm = ((ratios[..., outside] > 1) | (ratios[..., -1 - outside] < 1)).any(axis=-1)
        shared = f"false alarm in a family of {comparisons}, {name}"
        conditions = Conditions(sample=Sample.TRIALS, statistic="share", interval_by="Clopper and Pearson, mid-P")
        rate = replace(share_right(shared, np.asarray(alarm)), conditions=conditions)
        law = "independent tosses of a coin"
        found[name] = Family(
            name,
            Modelled(missed, "%", f"chance of one interval to miss, {name}", law),
            Modelled(1 - (1 - missed) ** comparisons, "%", f"chance of a {shared}", law),
            rate,
        )
    return found
