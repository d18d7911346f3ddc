"""The capstone's last exercise, which no test of pages runs: a budget is a budget."""

from dataclasses import replace
from typing import Any

import pytest

from tests.chapters.capstone.made_trials import KEPT, LOST, RULE, in_turns, untrained
from tinytorch.chapters.capstone import configuration, exercises
from tinytorch.chapters.capstone.configuration import Configuration


@pytest.fixture
def _made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_suite_model", untrained)
    monkeypatch.setattr(exercises, "accuracy_change", lambda *_: KEPT)
    times = in_turns({"all in codes": 2e-3, "yours": 1e-3})
    monkeypatch.setattr(exercises, "in_turns", lambda *_, **__: times)


def _checked(found: Any) -> str:
    return exercises.check_beat_capstone(lambda budget: found, RULE)


_GOOD = Configuration("distilled", cache="8-bit", fusion="token", kernels=True)


@pytest.mark.usefixtures("_made")
def test_beat_capstone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _checked(_GOOD).startswith("beat_capstone: passed")
    for wrong, why in (
        (replace(_GOOD, cache="float32"), "more than the 420,000"),
        (exercises.ALL_IN_CODES, "choose another"),
        (None, "must return a Configuration"),
    ):
        with pytest.raises(AssertionError, match=why):
            _checked(wrong)
    slow = in_turns({"all in codes": 1e-3, "yours": 2e-3})
    monkeypatch.setattr(exercises, "in_turns", lambda *_, **__: slow)
    with pytest.raises(AssertionError, match="not faster"):
        _checked(_GOOD)
    monkeypatch.setattr(exercises, "accuracy_change", lambda *_: LOST)
    with pytest.raises(AssertionError, match="of 2000 answers it loses 60 and gains 0"):
        _checked(_GOOD)
