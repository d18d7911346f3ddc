"""The capstone's exercises: right answers pass, wrong ones fail with a reason, and a budget is a budget."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chapters.capstone.made_trials import KEPT, LOST, in_turns, untrained
from tinytorch.chapters.capstone import configuration, exercises
from tinytorch.chapters.capstone.configuration import Configuration


def _whole(seconds: Any, ratios: Any) -> float:
    return float(sum(seconds) / sum(t * r for t, r in zip(seconds, ratios, strict=True)))


def test_predicted() -> None:
    assert exercises.check_predicted(_whole) == "predicted: passed"
    with pytest.raises(AssertionError, match="the speedup is"):
        exercises.check_predicted(lambda seconds, ratios: 1 / _whole(seconds, ratios))
    with pytest.raises(AssertionError, match="must be a number"):
        exercises.check_predicted(lambda seconds, ratios: None)  # type: ignore[arg-type, return-value]


def test_keep() -> None:
    assert (
        exercises.check_keep(lambda g, a, matters, budget: g.low > 1 + matters and a.low >= -budget) == "keep: passed"
    )
    with pytest.raises(AssertionError, match="the step is dropped"):
        exercises.check_keep(lambda g, a, matters, budget: g.high > 1 + matters and a.low >= -budget)
    with pytest.raises(AssertionError, match="the step is dropped"):
        exercises.check_keep(lambda g, a, matters, budget: g.low > 1 + matters and a.high >= -budget)


_SMALL = {"model": "distilled", "kernels": True, "fusion": "token"}


@pytest.fixture
def _made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_suite_model", untrained)
    monkeypatch.setattr(exercises, "accuracy_change", lambda before, after: KEPT)
    times = in_turns({"all in codes": 2e-3, "yours": 1e-3})
    monkeypatch.setattr(exercises, "in_turns", lambda *_, **__: times)


@pytest.mark.usefixtures("_made")
def test_beat_capstone() -> None:
    good = Configuration(cache="8-bit", **_SMALL)  # type: ignore[arg-type]
    assert exercises.check_beat_capstone(lambda budget: good).startswith("beat_capstone: passed")
    with pytest.raises(AssertionError, match="more than the 600,000"):
        exercises.check_beat_capstone(lambda budget: Configuration(cache="float32", **_SMALL))  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="choose another"):
        exercises.check_beat_capstone(lambda budget: exercises.ALL_IN_CODES)
    with pytest.raises(AssertionError, match="must return a Configuration"):
        exercises.check_beat_capstone(lambda budget: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(AssertionError, match="one thread"):
        exercises.check_beat_capstone(lambda budget: Configuration(cache="8-bit", threads=2, **_SMALL))  # type: ignore[arg-type]


@pytest.mark.usefixtures("_made")
def test_beat_capstone_in_time_and_in_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    good = Configuration(cache="8-bit", **_SMALL)  # type: ignore[arg-type]
    slow = in_turns({"all in codes": 1e-3, "yours": 2e-3})
    monkeypatch.setattr(exercises, "in_turns", lambda *_, **__: slow)
    with pytest.raises(AssertionError, match="not faster"):
        exercises.check_beat_capstone(lambda budget: good)
    monkeypatch.setattr(exercises, "accuracy_change", lambda before, after: LOST)
    with pytest.raises(AssertionError, match="it loses 60"):
        exercises.check_beat_capstone(lambda budget: good)
