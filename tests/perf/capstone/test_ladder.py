"""The ladder: what is taken, whether the prediction was right, and how pairs lead on where single steps end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.perf.capstone.made import KEPT, LOST, in_turns, made_stage
from tests.perf.made_ceilings import made_ceilings
from tinytorch.perf.capstone import ladder as ladder_module
from tinytorch.perf.capstone.configuration import PLAIN, Configuration
from tinytorch.perf.capstone.ladder import climb_ladder
from tinytorch.perf.capstone.rule import Rule
from tinytorch.perf.capstone.rungs import COMBINED, product_configurations
from tinytorch.perf.capstone.steps import Move, single_moves, step_named
from tinytorch.perf.capstone.workload import Workload
from tinytorch.perf.measuring.comparison import compare_paired

_CACHE, _KERNELS, _SMALL = (step_named(name) for name in ("key-value cache", "compiled kernels", "distilled model"))
_TOKEN = step_named("one op a token")


def _seconds(configuration: Configuration) -> float:
    """Return made-up seconds: a cache is a burden by itself, and with kernels and one op a token a blessing."""
    factor = 0.5 if configuration.kernels else 1.0
    factor *= 0.8 if configuration.model == "distilled" else 1.0
    if configuration.cache != "none":
        factor *= 0.4 if configuration.fusion == "token" else 1.25
    return 1e-3 * factor


def _stages(forecasts: Any = None, lossy: frozenset[Configuration] = frozenset()) -> Any:
    def stage(
        workload: Any, machine: Any, rule: Any, before: Configuration, moves: Mapping[Move, Configuration], *_: Any
    ) -> Any:
        every = {before, *moves.values()}
        times = {one: _seconds(one) for one in every}
        guessed = {one: (forecasts or (lambda each: _seconds(before) / _seconds(each)))(one) for one in every}
        return made_stage(before, moves, times, guessed, lossy)

    return stage


def _climbed(monkeypatch: pytest.MonkeyPatch, **how: Any) -> Any:
    monkeypatch.setattr(ladder_module, "_stage", _stages(**how))
    machine = made_ceilings(threads=1)
    return climb_ladder(Workload(1), machine, Rule(), steps=(_CACHE, _KERNELS, _SMALL, _TOKEN))


def test_pairs_lead_on_where_single_steps_end(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _climbed(monkeypatch)
    assert list(found.rungs) == ["plain", "compiled kernels", "distilled model", "key-value cache + one op a token"]
    assert [stage.steps_at_once for stage in found.stages] == [1, 1, 1, 2]
    assert found.stages[2].taken is None
    assert found.last == Configuration(model="distilled", cache="float32", fusion="token", kernels=True)
    assert [stage.choice for stage in found.stages] == ["supported", "supported", None, "supported"]
    # The cache was taken at last, if not alone, so nothing was tried in vain.
    assert found.dropped == {}


def test_a_prediction_that_puts_the_wrong_step_first_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _climbed(monkeypatch, forecasts=lambda one: 9.0 if one.model == "distilled" else 1.0)
    first = found.stages[0]
    assert first.trials[0].name == "distilled model"
    assert first.taken.name == "compiled kernels"
    assert first.choice == "refuted"
    slower = _climbed(monkeypatch, forecasts=lambda one: 9.0 if one.cache != "none" else 1.0)
    assert slower.stages[0].trials[0].outcome == "not faster"
    assert slower.stages[0].choice == "refuted"


def test_what_loses_answers_is_dropped_however_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    lossy = frozenset(after for after in single_moves(PLAIN).values() if after.kernels)
    found = _climbed(monkeypatch, lossy=lossy)
    trial = next(trial for trial in found.stages[0].trials if trial.name == "compiled kernels")
    assert (trial.outcome, trial.accuracy) == ("too many wrong", LOST)
    assert found.stages[0].taken.name == "distilled model"


def test_dropped_steps_come_with_the_best_that_they_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder_module, "_stage", _stages())
    found = climb_ladder(Workload(1), made_ceilings(threads=1), Rule(), steps=(_CACHE, _SMALL))
    assert list(found.dropped) == ["key-value cache"]
    assert found.dropped["key-value cache"].gained.ratio.median == pytest.approx(0.8, rel=0.01)


def test_a_ladder_needs_the_ceilings_of_one_thread_and_a_step() -> None:
    with pytest.raises(ValueError, match="ceilings of one thread, not of 2"):
        climb_ladder(Workload(1), made_ceilings(threads=2), Rule())
    with pytest.raises(ValueError, match="steps must hold one that can be taken"):
        climb_ladder(Workload(1), made_ceilings(threads=1), Rule(), steps=(_TOKEN,))
    with pytest.raises(ValueError, match="questions must be at least 1"):
        Workload(0)


@pytest.mark.parametrize(
    ("after", "outcome"),
    [(0.9e-3, "passes"), (0.99e-3, "not faster"), (1.1e-3, "not faster"), (0.98e-3, "cannot tell")],
)
def test_the_rule_asks_for_more_than_does_not_matter(after: float, outcome: str) -> None:
    times = in_turns({"before": 1e-3, "after": after})
    gained = compare_paired(times["before"], times["after"], delta=0.0204)
    assert Rule().outcome(gained, KEPT) == outcome


def test_the_rule_looks_at_the_lower_end_of_what_is_lost() -> None:
    times = in_turns({"before": 2e-3, "after": 1e-3})
    gained = compare_paired(times["before"], times["after"])
    assert Rule(accuracy_budget=0.001).outcome(gained, KEPT) == "too many wrong"
    assert Rule(accuracy_budget=0.002).outcome(gained, KEPT) == "passes"
    with pytest.raises(ValueError, match="accuracy must be given"):
        Rule().outcome(gained, None)
    with pytest.raises(ValueError, match="delta must lie"):
        Rule(delta=1.0)
    with pytest.raises(ValueError, match="accuracy_budget must be"):
        Rule(accuracy_budget=-0.1)


def test_a_product_needs_steps_that_stand_alone_and_together() -> None:
    made = product_configurations([_CACHE, _KERNELS, _SMALL])
    assert made[COMBINED] == Configuration(model="distilled", cache="float32", kernels=True)
    assert made["plain"] == PLAIN
    with pytest.raises(ValueError, match="'one op a token' does not"):
        product_configurations([_CACHE, _TOKEN])
    with pytest.raises(ValueError, match="at least two"):
        product_configurations([_CACHE])
