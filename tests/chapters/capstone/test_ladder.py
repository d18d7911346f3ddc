"""The ladder: what is taken, whether the prediction was right, and how pairs lead on where single steps end."""

import pytest

from tests.chapters.capstone.made_trials import (
    CACHE,
    KEPT,
    KERNELS,
    LOST,
    SMALL,
    TOKEN,
    made_ladder,
    made_seconds,
)
from tests.chapters.capstone.made_trials import in_turns as made_turns
from tinytorch.chapters.capstone import findings
from tinytorch.chapters.capstone.configuration import Configuration
from tinytorch.chapters.capstone.ladder import Ladder, Rule
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.measurement import Measurement

_WITH_PAIRS = made_ladder()


def test_pairs_lead_on_where_single_steps_end() -> None:
    found = _WITH_PAIRS
    assert list(found.rungs) == ["plain", "compiled kernels", "distilled model", "key-value cache + one op a token"]
    assert [(stage.number, len(stage.first.move)) for stage in found.stages] == [("1", 1), ("2", 1), ("3", 1), ("4", 2)]
    assert [stage.chosen.word for stage in found.stages[:3]] == ["compiled kernels", "distilled model", "nothing"]
    assert found.stages[2].won == Unmeasured("in this run no step passed in that turn")
    assert found.last == Configuration(model="distilled", cache="float32", fusion="token", kernels=True)
    outcomes = [(trial.outcome.word, trial.change) for trial in found.stages[0].trials]
    assert outcomes == [("taken", KEPT), ("passes", KEPT), ("gain refuted", None)]
    choices = [stage.choice and stage.choice.verdict for stage in found.stages]
    assert choices == ["supported", "supported", None, "supported"]


#: A pair is tried, and is no faster than the single step before it.
_PAIR_FAILS = made_ladder(
    steps=(CACHE, KERNELS, TOKEN), seconds=lambda one: made_seconds(one) * (5 if one.fusion == "token" else 1)
)


@pytest.mark.parametrize(
    ("ladder", "word"),
    [
        (_WITH_PAIRS, "short"),
        (made_ladder(seconds=lambda one: made_seconds(one, cached=1 / 1.02)), "short"),
        (made_ladder(steps=(KERNELS, SMALL)), "all the way"),
        (_PAIR_FAILS, "all the way"),
        (made_ladder(steps=(CACHE,)), "nowhere"),
    ],
)
def test_single_steps_lead_all_the_way_or_stop_short(ladder: Ladder, word: str) -> None:
    # It rests on the gain of each trial.
    assert (ladder.led.word, len(ladder.led.tests)) == (word, sum(len(stage.trials) for stage in ladder.stages))


def test_a_prediction_that_puts_the_wrong_step_first_is_refuted() -> None:
    found = made_ladder(
        forecasts=lambda one: 9.0 if one.model == "distilled" else 1.0,
    ).stages[0]
    assert found.first.name == "distilled model"
    assert found.chosen.word == "compiled kernels"
    assert found.choice is not None
    assert found.choice.verdict is Verdict.REFUTED


@pytest.mark.parametrize(("seconds", "taken"), [(0.50001e-3, "distilled model"), (0.6e-3, "compiled kernels")])
def test_of_what_no_proof_tells_apart_the_one_predicted_to_gain_most_is_taken(seconds: float, taken: str) -> None:
    found = made_ladder(
        steps=(KERNELS, SMALL),
        seconds=lambda one: seconds if one.model == "distilled" else made_seconds(one),
        forecasts=lambda one: 9.0 if one.model == "distilled" else 1.0,
    ).stages[0]
    assert found.chosen.word == taken
    assert found.choice is not None
    assert found.choice.verdict is (Verdict.SUPPORTED if taken == "distilled model" else Verdict.REFUTED)


def test_what_loses_answers_is_dropped_however_fast() -> None:
    found = made_ladder(lossy=frozenset({Configuration(kernels=True)}))
    trial = next(trial for trial in found.stages[0].trials if trial.name == "compiled kernels")
    assert (trial.outcome.word, trial.change, found.stages[0].chosen.word) == (
        "answers refuted",
        LOST,
        "distilled model",
    )
    later = {trial.name for stage in found.stages[1:] for trial in stage.trials}
    assert "compiled kernels" not in later, "no speed makes up for lost answers"


@pytest.mark.parametrize(
    ("after", "rule", "change", "word"),
    [
        (0.9e-3, Rule(0.0204, 0.01), KEPT, "passes"),
        (0.99e-3, Rule(0.0204, 0.01), KEPT, "gain refuted"),
        (1.1e-3, Rule(0.0204, 0.01), KEPT, "gain refuted"),
        (0.98e-3, Rule(0.0204, 0.01), KEPT, "gain open"),
        (0.98e-3, Rule(0.0204, 0.01), LOST, "answers refuted"),
        (0.5e-3, Rule(0.1, 0.001), KEPT, "answers open"),
        (0.5e-3, Rule(0.1, 0.001), LOST, "answers refuted"),
        (0.5e-3, Rule(0.1, 0.002), KEPT, "passes"),
    ],
)
def test_the_rule_asks_for_more_than_does_not_matter_and_looks_at_the_lower_end_of_what_is_lost(
    after: float, rule: Rule, change: Measurement, word: str
) -> None:
    times = made_turns({"before": 1e-3, "after": after})
    gained = compare_paired(times["before"], times["after"], matters=rule.matters)
    found = rule.outcome(gained, lambda: change)
    assert (found.word, found.verdict is Verdict.OPEN) == (word, "open" in word)
    assert found.tests[0].low == 1 + rule.matters


def test_fewer_lost_answers_fit_where_the_budget_is_smaller() -> None:
    # Of 2,000, twenty are one in a hundred: with an interval around them fewer pass.
    assert findings.most_lost(2000, 0.005).value < findings.most_lost(2000, 0.01).value < 20
