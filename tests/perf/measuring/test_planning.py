"""Plans: what number of pairs follows from noise and difference, what time and repeats do, and whether plans hold."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.chosen_settings import choose_settings
from tinytorch.perf.measuring import Measurement, interleave, ratio
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions, Planned, Sample
from tinytorch.perf.measuring.planning import LONG_ENOUGH, PILOT, ROUGH_SECONDS, carried_out, planned, seconds_allowed
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
        samples = np.exp(draw.normal(log, 0.05, 8)).tolist()
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


@pytest.mark.parametrize("seconds", [1e3, 1e-3])
def test_pairs_follow_the_plan_or_the_record_says_that_time_ended_it(seconds: float) -> None:
    calls = {"one": lambda: sum(range(1000)), "other": lambda: sum(range(1000))}
    made = interleave(calls, resolve=0.9, at_most_seconds=seconds, warmup_seconds=0.01)
    plan, taken = plan_of(made["one"]), made["one"].n
    assert plan.ended_by_time is (taken < plan.number)
    assert made["other"].n == taken >= 6
    assert plan_of(ratio(made["one"], made["other"])) == plan
    if seconds > 1:
        assert (taken, plan.pilot, plan.power) == (plan.number, PILOT, 0.9)
        assert made["one"].conditions.block == -(-plan.number // BLOCKS)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: interleave({"a": list, "b": list}, resolve=0.0), "resolve must be above 0, such as 0.03"),
        (lambda: interleave({"a": list, "b": list}, resolve=0.1, repeats=9), "repeats or resolve"),
        (lambda: interleave({"a": list}, resolve=0.1), "at least one candidate"),
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
