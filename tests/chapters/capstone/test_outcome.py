"""What the capstone's page records of what came out: gains anew, right answers, bytes, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from tests.chapters.capstone.made_trials import (
    CACHE,
    KEPT,
    KERNELS,
    LOST,
    SMALL,
    in_turns,
    made_ladder,
    made_seconds,
)
from tinytorch.chapters.capstone import outcome
from tinytorch.chapters.capstone.configuration import GOOD_BASELINE, PLAIN, Configuration
from tinytorch.chapters.capstone.exercises import ALL_IN_CODES
from tinytorch.chapters.capstone.ladder import Ladder
from tinytorch.chapters.capstone.rule import Rule
from tinytorch.chapters.capstone.steps import Step
from tinytorch.chapters.capstone.workload import Workload, predicted_bytes
from tinytorch.perf.benchmarking import Performance
from tinytorch.perf.engines import Raced
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.quantization import PairedAccuracy
from tinytorch.report import Page
from tinytorch.report.records import Json, Record

_RULE = Rule()


def by_key(made: Sequence[Record]) -> dict[str, Json]:
    return {record.key: record.to_json() for record in made}


def performances(seconds: Mapping[str, float], questions: int, smaller: float) -> dict[str, Performance]:
    """Return performances with times in turns, each ``smaller`` times as small as the last, and 1,980 right answers."""
    return {
        name: Performance(
            name,
            "sort",
            {questions: (times,)},
            {questions: Measurement(name, (2e6 / smaller**at,) * 6, "B")},
            1000,
            np.arange(2000) < 1980,
            "run",
        )
        for at, (name, times) in enumerate(in_turns(seconds).items())
    }


def measured_anew(ladder: Ladder, faster: float, smaller: float) -> dict[str, Performance]:
    """Return the rungs as `made_seconds` has them, each step ``faster`` times as fast again, and the baseline."""
    seconds = {name: made_seconds(one) / faster**number for number, (name, one) in enumerate(ladder.rungs.items())}
    seconds["NumPy with a cache"] = made_seconds(GOOD_BASELINE)
    return performances(seconds, ladder.workload.questions, smaller)


@dataclass
class _Held:
    """What a configuration holds, without a model."""

    weight_bytes: float
    cache_bytes: float


@pytest.fixture(autouse=True)
def _no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bytes be a tenth more than shapes say, a quarter of them in the cache if there is one, and ask no model."""

    def ready(workload: Workload, one: Configuration) -> _Held:
        held = 1.1 * predicted_bytes(one, workload.questions)
        in_cache = 0.0 if one.cache == "none" else 0.25 * held
        return _Held(held - in_cache, in_cache)

    monkeypatch.setattr(Workload, "ready", ready)
    monkeypatch.setattr(outcome, "accuracy_change", lambda before, after, new=False: KEPT)


def results(ladder: Ladder, faster: float = 1.0, smaller: float = 1.0) -> dict[str, Json]:
    """Return the records of a ladder, both for one question and for 64, that was measured anew."""
    page = Page("capstone")
    ladders = {"one": ladder, "many": made_ladder(64, ladder_steps(ladder))}
    found = {key: measured_anew(each, faster, smaller) for key, each in ladders.items()}
    outcome.record_results(page, ladders, found, _RULE)
    outcome.record_tenfold(page, ladders, found)
    return by_key(page.records)


def ladder_steps(ladder: Ladder) -> tuple[Step, ...]:
    """Return the steps that the ladder's first turn tried, which suffice to climb it again."""
    return tuple(trial.move[0] for trial in ladder.stages[0].trials)


_THREE_RUNGS = made_ladder(steps=(KERNELS, SMALL))
_NO_STEP = made_ladder(steps=(CACHE,))


def test_with_and_without_a_step_the_text_finds_what_it_names() -> None:
    with_steps, without = results(_THREE_RUNGS), results(_NO_STEP)
    assert {key for key in with_steps if not key.startswith("gain-")} == {
        key for key in without if not key.startswith("gain-")
    }
    assert without["anew"]["reason"] == "in this run no step was taken"
    assert without["end-gain-one"]["value"] == 1
    assert without["ten-times-faster"]["verdict"] == "refuted"


@pytest.mark.parametrize(
    ("faster", "smaller", "verdict"),
    [(1.0, 1.0, "refuted"), (4.0, 1.0, "supported"), (1.0, 4.0, "supported"), (1.9998, 1.0, "open")],
)
def test_ten_times_is_asked_of_speed_or_memory(faster: float, smaller: float, verdict: str) -> None:
    made = results(_THREE_RUNGS, faster, smaller)
    assert made["end-gain-one"]["value"] == pytest.approx(2.5 * faster**2, rel=0.01)
    assert made["saved-many"]["value"] == pytest.approx(smaller**2)
    assert made["ten-times-faster"]["verdict"] == verdict
    # It rests on what was measured anew, and on no trial.
    assert not any(key.startswith("gain-") for key in made["ten-times-faster"]["numbers"])
    # Each step brought that many times what it did in the turn that took it.
    assert made["anew"]["value"] == pytest.approx(faster, rel=0.01)
    # The baseline takes 1.25 ms.
    assert made["end-honest-one"]["value"] == pytest.approx(1.25 * 2.5 * faster**2, rel=0.01)
    assert made["end-honest-one-verdict"]["word"] == "faster"


def test_the_end_is_held_in_three_numbers_against_the_honest_baseline() -> None:
    rows = results(_THREE_RUNGS, smaller=2.0)["improvement"]["rows"]
    assert [row["questions"] for row in rows] == ["1", "64"]
    assert rows[0]["speedup"]["value"] == pytest.approx(1.25 * 2.5, rel=0.01)
    assert rows[0]["verdict"]["word"] == "faster"
    # The baseline comes after the last rung, and is half as large again.
    assert rows[0]["memory"]["value"] == pytest.approx(0.5)
    assert rows[0]["accuracy"]["value"] == 0


def test_every_rung_has_a_row_and_the_baseline_is_none() -> None:
    made = results(_THREE_RUNGS)
    rows = made["result-many"]["rows"]
    assert [row["rung"] for row in rows] == [
        "plain",
        "compiled kernels",
        "distilled model",
        "beside: NumPy with a cache",
    ]
    assert [row["gained"] is None for row in rows] == [True, False, False, True]
    assert rows[1]["gained"]["value"] == pytest.approx(2, rel=0.01)
    assert rows[2]["gained"]["value"] == pytest.approx(1.25, rel=0.01)
    assert rows[2]["speedup"]["value"] == pytest.approx(2.5, rel=0.01)
    assert {row["right"]["value"] for row in rows} == {0.99}
    assert made["bytes-off"]["value"] == pytest.approx(0.1, abs=1e-3)
    assert made["ladder"]["kind"] == "figure"


#: Answers of which half a hundredth or three halves of one were lost, and the budget is one.
UNPROVEN = PairedAccuracy(2000, 0.99, 0.98, 20, 0, Interval(-0.015, -0.005, 0.95), 0.0)
BUDGET = [
    (KEPT, "within the budget"),
    (UNPROVEN, "not proven to be within the budget"),
    (LOST, "more than the budget allows"),
]


@pytest.mark.parametrize(("change", "word"), BUDGET)
def test_answers_are_judged_on_questions_that_kept_no_step(
    monkeypatch: pytest.MonkeyPatch, change: PairedAccuracy, word: str
) -> None:
    monkeypatch.setattr(outcome, "accuracy_change", lambda before, after, new=False: change if new else KEPT)
    made = results(_THREE_RUNGS)
    assert made["end-holds"]["word"] == word
    assert made["end-holds"]["outcome"] == ("open" if change is UNPROVEN else "decided")
    assert made["end-change"]["value"] == 0
    assert made["end-change-new"]["value"] == pytest.approx(change.difference)
    assert made["end-right"]["value"] == pytest.approx(0.99)


@pytest.mark.parametrize(("coded", "sparse", "verdict"), [(100, 40, "supported"), (100, 60, "refuted")])
def test_forty_times_smaller_is_what_bytes_say(
    monkeypatch: pytest.MonkeyPatch, coded: int, sparse: int, verdict: str
) -> None:
    def ready(_: Workload, one: Configuration) -> _Held:
        weights = 400 if one == PLAIN else sparse if one.model == "sparse" else coded
        return _Held(weights, 0)

    monkeypatch.setattr(Workload, "ready", ready)
    page = Page("capstone")
    outcome.record_bytes(page)
    made = by_key(page.records)
    assert made["eight-bits"]["value"] == 4
    assert made["bytes-product"]["value"] == pytest.approx(4 * 400 / sparse)
    assert made["forty-times-smaller"]["verdict"] == verdict
    assert made["forty-times-smaller"]["counted"]


@pytest.mark.parametrize(("change", "word"), BUDGET)
def test_what_was_dropped_has_a_reason_for_each_ladder(
    monkeypatch: pytest.MonkeyPatch, change: PairedAccuracy, word: str
) -> None:
    monkeypatch.setattr(outcome, "accuracy_change", lambda before, after, new=False: change)
    lossy = frozenset({Configuration(kernels=True)})
    page = Page("capstone")
    ladders = {"one": made_ladder(1, (CACHE, KERNELS), lossy=lossy), "many": _THREE_RUNGS}
    outcome.record_dropped(page, ladders, _RULE)
    made = by_key(page.records)
    assert {row["step"]: (row["why-one"], row["why-many"]) for row in made["dropped"]["rows"]} == {
        "compiled kernels": ("loses too many answers", "taken"),
        "key-value cache": ("gains too little, or nothing", "could not be tried"),
    }
    assert made["dropped-count"]["value"] == 2
    assert made["half-holds"]["word"] == word


def test_pytorch_is_raced_or_said_to_be_missing() -> None:
    page = Page("capstone")
    outcome.record_race(page, Unmeasured("PyTorch is not installed."))
    assert {by_key(page.records)[f"pytorch-{key}"]["reason"] for key in ("one", "many")} == {
        "PyTorch is not installed."
    }
    eager, kept = "PyTorch eager", "PyTorch eager, cache concatenated"
    times = in_turns({"tinytorch": 9.0, "tinytorch accelerated": 1.0, eager: 3.0, kept: 2.0})
    page = Page("capstone")
    outcome.record_race(page, {key: Raced("gpt", "decode", 1, times, {}) for key in ("one", "many")})
    made = by_key(page.records)["pytorch-many"]
    assert made["value"] == pytest.approx(2, rel=0.01)
    assert made["what"].startswith(f"time of {kept}")


def test_answers_to_the_questions_follow_from_the_ladders() -> None:
    cached = made_ladder(64)
    page = Page("capstone")
    outcome.record_questions(page, {"one": _THREE_RUNGS, "many": cached}, _RULE)
    made = by_key(page.records)
    # Arithmetic and data are 0.4 of the time.
    assert made["q-vanish"]["value"] == pytest.approx(1 / 0.6, rel=0.01)
    assert made["held-many"]["value"] == pytest.approx(1.1 * predicted_bytes(cached.last, 64))
    assert made["held-codes"]["value"] == pytest.approx(1.1 * predicted_bytes(ALL_IN_CODES, 64))
    assert (made["budget"]["value"], made["q-ops"]["value"]) == (600_000, 100)
    # Of 2,000, twenty are the budget: with an interval around them fewer pass, and more where two in a hundred may go.
    assert 5 < made["q-fewest"]["value"] < 20
    page = Page("capstone")
    outcome.record_questions(page, {"one": _THREE_RUNGS, "many": cached}, Rule(accuracy_budget=0.005))
    assert by_key(page.records)["q-fewest"]["value"] < made["q-fewest"]["value"]
