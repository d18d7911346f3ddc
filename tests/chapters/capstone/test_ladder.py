"""The ladder: what is taken, whether the prediction was right, and how pairs lead on where single steps end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chapters.capstone.made_trials import CACHE, KEPT, LOST, SMALL, TOKEN, in_turns, made_ladder
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.capstone.configuration import PLAIN, Configuration
from tinytorch.chapters.capstone.ladder import climb_ladder, right_choice
from tinytorch.chapters.capstone.rule import Outcome, Rule
from tinytorch.chapters.capstone.steps import single_moves
from tinytorch.chapters.capstone.workload import Workload
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.judge import Verdict


def test_pairs_lead_on_where_single_steps_end() -> None:
    found = made_ladder()
    assert list(found.rungs) == ["plain", "compiled kernels", "distilled model", "key-value cache + one op a token"]
    assert [stage.steps_at_once for stage in found.stages] == [1, 1, 1, 2]
    assert found.stages[2].taken is None
    assert found.last == Configuration(model="distilled", cache="float32", fusion="token", kernels=True)
    assert [stage.choice and stage.choice.verdict for stage in found.stages] == [
        "supported",
        "supported",
        None,
        "supported",
    ]
    # The cache was taken at last, if not alone, so nothing was tried in vain.
    assert found.dropped == {}


def test_a_prediction_that_puts_the_wrong_step_first_is_refuted() -> None:
    found = made_ladder(forecasts=lambda one: 9.0 if one.model == "distilled" else 1.0)
    first = found.stages[0]
    assert first.trials[0].name == "distilled model"
    assert first.taken is not None
    assert first.taken.name == "compiled kernels"
    assert first.choice is not None
    assert first.choice.verdict is Verdict.REFUTED
    slower = made_ladder(forecasts=lambda one: 9.0 if one.cache != "none" else 1.0)
    assert slower.stages[0].trials[0].outcome == "gains too little"
    assert slower.stages[0].choice is not None
    assert slower.stages[0].choice.verdict is Verdict.REFUTED


def test_a_first_step_whose_answers_leave_it_open_is_neither_right_nor_wrong() -> None:
    stage = made_ladder(forecasts=lambda one: 9.0 if one.model == "distilled" else 1.0).stages[0]
    verdicts = {
        Outcome.TOO_MANY_WRONG: Verdict.REFUTED,
        Outcome.MAY_BE_TOO_MANY: Verdict.OPEN,
        Outcome.NOT_PROVEN: Verdict.OPEN,
    }
    for outcome, verdict in verdicts.items():
        judged = right_choice(stage, replace(stage.trials[0], outcome=outcome))
        assert judged is not None
        assert judged.verdict is verdict


def test_what_loses_answers_is_dropped_however_fast() -> None:
    lossy = frozenset(after for after in single_moves(PLAIN).values() if after.kernels)
    found = made_ladder(lossy=lossy)
    trial = next(trial for trial in found.stages[0].trials if trial.name == "compiled kernels")
    assert (trial.outcome, trial.accuracy) == ("too many wrong", LOST)
    taken = found.stages[0].taken
    assert taken is not None
    assert taken.name == "distilled model"


def test_dropped_steps_come_with_the_best_that_they_did() -> None:
    found = made_ladder(steps=(CACHE, SMALL))
    assert list(found.dropped) == ["key-value cache"]
    assert found.dropped["key-value cache"].gained.estimate.median == pytest.approx(0.8, rel=0.01)


def test_a_ladder_needs_the_ceilings_of_one_thread_and_a_step() -> None:
    with pytest.raises(ValueError, match="ceilings of one thread, not of 2"):
        climb_ladder(Workload(1), made_ceilings(threads=2), Rule())
    with pytest.raises(ValueError, match="steps must hold one that can be taken"):
        climb_ladder(Workload(1), made_ceilings(threads=1), Rule(), steps=(TOKEN,))
    with pytest.raises(ValueError, match="questions must be at least 1"):
        Workload(0)


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        (0.9e-3, "passes"),
        (0.99e-3, "gains too little"),
        (1.1e-3, "gains too little"),
        (0.98e-3, "not proven to gain enough"),
    ],
)
def test_the_rule_asks_for_more_than_does_not_matter(after: float, outcome: str) -> None:
    times = in_turns({"before": 1e-3, "after": after})
    gained = compare_paired(times["before"], times["after"], matters=0.0204)
    assert Rule().outcome(gained, KEPT) == outcome


def test_the_rule_looks_at_the_lower_end_of_what_is_lost() -> None:
    times = in_turns({"before": 2e-3, "after": 1e-3})
    gained = compare_paired(times["before"], times["after"], matters=0.02)
    assert Rule(accuracy_budget=0.001).outcome(gained, KEPT) == "may be too many wrong"
    assert Rule(accuracy_budget=0.001).outcome(gained, LOST) == "too many wrong"
    assert Rule(accuracy_budget=0.002).outcome(gained, KEPT) == "passes"
    with pytest.raises(ValueError, match="accuracy must be given"):
        Rule().outcome(gained, None)
    with pytest.raises(ValueError, match="matters must lie"):
        Rule(matters=1.0)
    with pytest.raises(ValueError, match="accuracy_budget must be"):
        Rule(accuracy_budget=-0.1)
