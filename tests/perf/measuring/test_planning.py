"""Plans: what number of pairs follows from noise and difference, what time and repeats do, and whether plans hold."""

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.chosen_settings import choose_settings
from tests.perf import replicated
from tinytorch.perf.measuring import Measurement, interleave, processes, ratio
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions, Planned, Sample
from tinytorch.perf.measuring.planning import (
    LONG_ENOUGH,
    PILOT,
    PILOT_PROCESSES,
    ROUGH_SECONDS,
    carried_out,
    planned,
    seconds_allowed,
)
from tinytorch.perf.measuring.processes import Fresh, compare_in_processes, fresh_processes
from tinytorch.perf.measuring.sampling import BLOCKS

#: Of processes, which do not depend on one another, so that only the formula counts.
CALLS, PROCESSES = Conditions(), Conditions(sample=Sample.PROCESSES)
#: Where normal samples of a pilot stand: their expected places.
PLACES = [-1.63, -1.12, -0.79, -0.54, -0.31, -0.1, 0.1, 0.31, 0.54, 0.79, 1.12, 1.63]


def pilot(noise: float, log: float = 0.0, conditions: Conditions = CALLS) -> Measurement:
    """Return a pilot of normal noise in an order that shows no memory."""
    draw = np.random.default_rng(2)
    return Measurement("ratios", tuple(np.exp(log + noise * draw.permutation(PLACES)).tolist()), "", conditions)


def plan_of(made: Measurement) -> Planned:
    assert made.conditions.planned is not None
    return made.conditions.planned


def test_the_number_grows_with_the_square_of_noise_over_difference() -> None:
    one, other = (planned([pilot(noise, conditions=PROCESSES)], 0.01).number for noise in (0.1, 0.4))
    assert other == pytest.approx(16 * one, rel=0.01)
    # Quantiles of Student's distribution with 11 degrees of freedom, at 0.975 and at (1 + 0.9 / 0.95) / 2.
    of_one = 0.1 * np.std(PLACES, ddof=1) / np.log(1.01)
    assert one == pytest.approx((2.201 + 2.174) ** 2 * np.pi / 2 * of_one**2, rel=0.01)


def test_what_repeats_differ_by_takes_more_pairs_until_no_number_is_enough() -> None:
    plans = [
        planned([pilot(0.05, conditions=Conditions(between_runs=BetweenRuns(between)))], 0.03)
        for between in (0.0, 0.004, 0.006, 0.02)
    ]
    assert plans[0].number < plans[1].number < plans[2].number
    assert [plan.least > plan.aimed for plan in plans] == [False, False, False, True]
    assert plans[3].least == pytest.approx(np.expm1(3.898 * 0.02), rel=1e-3)
    assert plans[3].number < plans[2].number, "what pairs cannot shrink is not worth more of them"


def test_a_difference_that_the_pilot_shows_surely_takes_the_fewest_and_noise_that_may_wander_more() -> None:
    clear = planned([pilot(0.02, log=1.0)], 0.03)
    assert clear.number == 6
    assert 0.03 < clear.aimed < np.expm1(1.0)
    assert planned([pilot(0.02, log=0.02)], 0.03).number == LONG_ENOUGH


def test_of_several_candidates_the_worst_counts_and_all_hold_together() -> None:
    calm, loud = pilot(0.02, conditions=PROCESSES), pilot(0.2, conditions=PROCESSES)
    alone, both = planned([loud], 0.03), planned([calm, loud], 0.03)
    assert both.number > alone.number > planned([calm], 0.03).number
    assert planned([calm] * 20, 0.5).number == 10, "the fewest samples that reach 1 - 0.05 / 20"


@pytest.mark.parametrize(("truth", "least"), [(0.0, 0.82), (0.03, 0.90)])
def test_as_many_plans_decide_as_they_say(truth: float, least: float) -> None:
    """Processes with 5 % of noise: the plan of each pilot finds a true 3 % in nine of ten."""
    draw = np.random.default_rng(1)
    decided, trials = 0, 300
    for _ in range(trials):
        log = np.log1p(truth)
        samples = np.exp(draw.normal(log, 0.05, PILOT_PROCESSES)).tolist()
        number = planned([Measurement("pilot", tuple(samples), "", PROCESSES)], 0.03).number
        taken = Measurement("taken", tuple(np.exp(draw.normal(log, 0.05, number)).tolist()), "", PROCESSES)
        low, high = taken.interval.low, taken.interval.high
        decided += low > 1 if truth else 1 / 1.03 <= low <= 1 <= high <= 1.03
    assert decided >= least * trials


def test_what_was_reached_is_what_the_taken_pairs_resolve() -> None:
    plan, draw = planned([pilot(0.1, conditions=PROCESSES)], 0.03), np.random.default_rng(0)
    whole, cut = (
        carried_out(plan, [Measurement("r", tuple(np.exp(draw.normal(0, 0.1, n)).tolist()), "", PROCESSES)])
        for n in (plan.number, 30)
    )
    assert (whole.ended_by_time, cut.ended_by_time) == (False, True)
    assert 0.02 < (whole.reached or 0) < 0.032 < (cut.reached or 0)
    assert (carried_out(plan, [Measurement("r", (1.0, 1.1), "", PROCESSES)]).reached or 0) > 1


class Clocked:
    """Two functions whose times are made: each call takes what its noise says, on a clock that stands meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.draw = 0.0, np.random.default_rng(3)
        self.taken: dict[str, list[float]] = {"one": [], "other": []}
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(time, "perf_counter_ns", lambda: round(self.now * 1e9))

    def functions(self) -> dict[str, Callable[[], None]]:
        return {name: partial(self._run, name) for name in self.taken}

    def _run(self, name: str) -> None:
        self.taken[name].append(1e-3 * float(np.exp(self.draw.normal(0, 0.1))))
        self.now += self.taken[name][-1]


def test_pairs_follow_the_plan_and_the_pilots_are_not_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clocked = Clocked(monkeypatch)
    made = interleave(clocked.functions, resolve=0.03, at_most_seconds=1e3)
    plan = plan_of(made["one"])
    assert made["one"].n == made["other"].n == plan.number > PILOT == plan.pilot
    assert plan_of(ratio(made["one"], made["other"])) == plan
    assert (plan.ended_by_time, plan.resolve, plan.power) == (False, 0.03, 0.9)
    # What was taken last, with a call off the clock for each block: the warm-up's and the pilot's calls come before.
    last = np.array(clocked.taken["one"][-plan.number - BLOCKS :])
    assert max(np.abs(last - sample).min() for sample in made["one"].samples) < 2e-9
    assert made["one"].conditions.block == -(-plan.number // BLOCKS)
    assert plan.reached == pytest.approx(0.03, rel=0.5)


def test_time_ends_a_plan_and_the_record_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clocked = Clocked(monkeypatch)
    made = interleave(clocked.functions(), resolve=0.001, at_most_seconds=0.3)
    plan = plan_of(made["one"])
    assert 6 <= made["one"].n < plan.number
    assert plan.ended_by_time
    assert (plan.reached or 0) > 0.001
    assert clocked.now < 0.5


def test_processes_follow_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, seeds, clocked = np.random.default_rng(0), itertools.count(), Clocked(monkeypatch)

    def run(reference: str, rounds: int, first: int, seed: int) -> Fresh:
        assert seed == next(seeds), "each process has an order of its own, also the pilot's"
        clocked.now += 1.0
        times = {name: np.exp(draw.normal(0, 0.03) + draw.normal(0, 0.01, rounds)).tolist() for name in ("a", "b")}
        return Fresh((), {name: Measurement(name, tuple(row), "s") for name, row in times.items()})

    monkeypatch.setattr(processes, "_run", run)
    found = fresh_processes(replicated.twice_the_work, resolve=0.05)
    plan = plan_of(found[0].times["a"])
    assert len(found) == plan.number == next(seeds) - PILOT_PROCESSES
    assert plan_of(compare_in_processes(found, "a", "b", 0.05).estimate) == plan
    seeds = itertools.count()
    cut = fresh_processes(replicated.twice_the_work, resolve=0.0001, at_most_seconds=PILOT_PROCESSES + 6.5)
    assert len(cut) == 7
    assert plan_of(cut[0].times["a"]).ended_by_time


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: interleave({"a": len, "b": len}, resolve=0.0), "resolve must be above 0, such as 0.03"),
        (lambda: interleave({"a": len, "b": len}, resolve=0.1, repeats=9), "repeats or resolve"),
        (lambda: interleave({"a": list}, resolve=0.1), "at least one candidate"),
        (lambda: fresh_processes(replicated.twice_the_work, resolve=0.1, processes=9), "processes or resolve"),
    ],
)
def test_what_cannot_be_planned_is_refused(function: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function()


def test_a_tiny_budget_holds_whatever_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seconds_allowed(5.0) == 5.0
    choose_settings(monkeypatch, rough="1")
    assert (seconds_allowed(5.0), seconds_allowed(0.001)) == (ROUGH_SECONDS, 0.001)
    assert interleave({"pause": lambda: time.sleep(0.005)}, repeats=1000)["pause"].n < 20
