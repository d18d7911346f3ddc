"""What the capstone's page records of ladders that differ: with pairs, without, and with nothing that passes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from tests.chapters.capstone.made_trials import CACHE, KERNELS, SMALL, TOKEN, made_ladder, made_seconds
from tests.chapters.made_turns import said_in
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.capstone import turns
from tinytorch.chapters.capstone.configuration import Configuration
from tinytorch.chapters.capstone.ladder import Ladder
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.report import Page
from tinytorch.report.records import Json

_WITH_PAIRS = made_ladder()
_WITHOUT_PAIRS = made_ladder(steps=(KERNELS, SMALL))
_NOTHING_PASSES = made_ladder(steps=(CACHE,))
#: A pair is tried, and is no faster than the single step before it.
_PAIR_FAILS = made_ladder(
    steps=(CACHE, KERNELS, TOKEN),
    seconds=lambda one: made_seconds(one) * (5 if one.fusion == "token" else 1),
)
#: The cache alone may be faster by what matters, or not.
_UNDECIDED = made_ladder(seconds=lambda one: made_seconds(one, cached=1 / 1.02))


def records(for_user: Ladder, for_server: Ladder | None = None) -> dict[str, Json]:
    """Return all records of two ladders by key."""
    ladders = {"one": for_user, "many": for_server or for_user}
    page = Page("capstone")
    turns.record_user(page, for_user)
    turns.record_first_turn(page, for_user.stages[0])
    turns.record_moves(page, "one", for_user)
    turns.record_server(page, ladders, made_ceilings(threads=1))
    turns.record_pairs(page, ladders)
    turns.record_alone(page, ladders)
    turns.record_choices(page, ladders)
    turns.record_profile_claim(page, ladders)
    return {record.key: record.to_json() for record in page.records}


@cache
def with_pairs() -> Mapping[str, Json]:
    return records(_WITH_PAIRS)


@pytest.mark.parametrize("ladder", [_WITHOUT_PAIRS, _PAIR_FAILS, _NOTHING_PASSES, _UNDECIDED])
def test_whatever_the_ladder_the_text_finds_what_it_names(ladder: Ladder) -> None:
    named = {key for key in with_pairs() if not key.startswith("gain-")}
    found = records(ladder)
    assert {key for key in found if not key.startswith("gain-")} == named
    assert [key for key in found if key.startswith("gain-one-")] == [
        f"gain-one-{number}" for number in range(1, len(ladder.stages) + 1)
    ]


def test_the_parts_of_the_start_are_shares_of_its_time() -> None:
    made = with_pairs()
    parts = {key: made[f"{key}-one"]["value"] for key in ("between", "calls", "work", "not-work")}
    assert parts == pytest.approx({"between": 0.4, "calls": 0.2, "work": 0.4, "not-work": 0.6}, rel=0.01)
    assert made["ops-one"]["value"] == 100
    assert made["plain-one"]["value"] == pytest.approx(1e-3, rel=0.1)
    # Of 0.4 for one question 64 times as much, beside 0.6 that stay.
    many = records(_WITH_PAIRS, made_ladder(64))
    assert many["work-predicted"]["value"] == pytest.approx(64 * 0.4 / (0.6 + 64 * 0.4), rel=0.01)
    assert "64 questions" in many["plain-many"]["what"]


def test_the_first_turn_tells_what_was_taken_and_what_was_dropped() -> None:
    made = with_pairs()
    assert made["first-taken"]["word"] == made["first-server"]["word"] == "compiled kernels"
    assert made["first-gain"]["value"] == pytest.approx(2, rel=0.01)
    assert made["first-server-gain"]["value"] == pytest.approx(2, rel=0.01)
    outcomes = {row["step"]: row["outcome"]["word"] for row in made["first-one"]["rows"]}
    assert outcomes == {"compiled kernels": "taken", "distilled model": "passes", "key-value cache": "gains too little"}
    wrong = {row["step"]: row["wrong"] is not None for row in made["first-one"]["rows"]}
    assert wrong == {"compiled kernels": True, "distilled model": True, "key-value cache": False}


def test_the_roof_and_the_prediction_may_put_different_steps_first() -> None:
    def eager(one: Configuration) -> float:
        return 9.0 if one.model == "distilled" else 1.0

    def roof(one: Configuration) -> float:
        return 7.0 if one.cache != "none" else 1.0

    made = records(made_ladder(forecasts=eager, roofs=roof))
    assert made["first-predicted"]["word"] == "distilled model"
    assert made["first-of-roof"]["word"] == "key-value cache"
    assert made["roof-promise"]["value"] == 7
    assert made["roof-kept"]["value"] == pytest.approx(0.8, rel=0.01)
    assert made["first-taken"]["word"] == "compiled kernels"


@pytest.mark.parametrize(
    ("roofs", "laws", "counted"),
    [((1, 1, 1), (1, 1, 1), (0, "rows", 0, "rows")), ((2, 0.5, 2), (1, 1, 2), (3, "rows", 1, "row"))],
)
def test_rows_whose_interval_leaves_a_prediction_out_are_counted(
    roofs: tuple[float, ...], laws: tuple[float, ...], counted: tuple[object, ...]
) -> None:
    """Predictions are those many times what was measured."""
    stage = _WITH_PAIRS.stages[0]
    trials = (
        replace(one, forecast=replace(one.forecast, speedup=law * median, roof=roof * median))
        for one, roof, law in zip(stage.trials, roofs, laws, strict=True)
        for median in (one.gained.estimate.median,)
    )
    page = Page("capstone")
    turns.record_first_turn(page, replace(stage, trials=tuple(trials)))
    made = {record.key: record.to_json() for record in page.records}
    found = (made[f"{key}-ruled-out"][part] for key in ("roof", "amdahl") for part in ("value", "unit"))
    assert tuple(found) == counted


def test_where_nothing_passes_the_page_says_so() -> None:
    made = records(_NOTHING_PASSES)
    assert made["first-taken"]["word"] == made["first-server"]["word"] == "nothing"
    assert made["stuck-one"]["word"] == "no, none passed"
    assert made["first-server-gain"]["reason"] == "in this run no first step passed"
    assert [row["taken"]["word"] for row in made["moves-one"]["rows"]] == ["none passes"]
    assert made["profile-chooses"]["verdict"] == "open"


@pytest.mark.parametrize(
    ("ladder", "word"),
    [
        (_WITH_PAIRS, "no, they stopped short"),
        (_UNDECIDED, "no, they stopped short"),
        (_WITHOUT_PAIRS, "yes, all the way"),
        (_PAIR_FAILS, "yes, all the way"),
    ],
)
def test_single_steps_lead_all_the_way_or_stop_short(ladder: Ladder, word: str) -> None:
    made = records(_WITHOUT_PAIRS, ladder)
    assert made["stuck-one"]["word"] == "yes, all the way"
    assert said_in(made["stuck-many"]) == word
    # What the law put first was the best in each turn that took something.
    assert made["profile-chooses"]["verdict"] == "supported"


def test_a_pair_stands_beside_what_its_first_step_brought_alone() -> None:
    (row, _) = with_pairs()["pairs"]["rows"]
    assert row["pair"] == "key-value cache + one op a token"
    assert row["enabling"] == "key-value cache"
    assert row["alone"]["value"] == pytest.approx(1 / 1.25, rel=0.01)
    assert row["together"]["value"] == pytest.approx(1 / 0.4, rel=0.01)
    assert records(_WITHOUT_PAIRS)["pairs"]["reason"] == "in this run no pair was taken"


def test_a_step_taken_later_stands_beside_its_gain_alone() -> None:
    (row, _) = with_pairs()["alone"]["rows"]
    assert (row["step"], row["questions"]) == ("distilled model", "1")
    assert (row["alone"]["value"], row["taken"]["value"]) == pytest.approx((1.25, 1.25), rel=0.01)

    def seconds(one: Configuration) -> float:
        return made_seconds(one) * (0.5 if one.kernels and one.model == "distilled" else 1.0)

    helped = records(made_ladder(steps=(KERNELS, SMALL), seconds=seconds))["alone"]["rows"][0]
    assert helped["taken"]["value"] == pytest.approx(1.25 / 0.5, rel=0.01)
    assert helped["verdict"]["word"] == "larger"

    def hindered(one: Configuration) -> float:
        return made_seconds(one) * (0.6 if one.model == "distilled" and not one.kernels else 1.0)

    assert (
        records(made_ladder(steps=(KERNELS, SMALL), seconds=hindered))["alone"]["rows"][0]["verdict"]["word"]
        == "smaller"
    )
    assert records(_NOTHING_PASSES)["alone"]["reason"] == "in this run no single step was taken after another"


def test_predictions_are_counted_and_the_worst_is_named() -> None:
    made = with_pairs()
    assert (made["turns"]["value"], made["turns-right"]["value"], made["turns-by-roof"]["value"]) == (6, 6, 6)
    assert made["typical-error"]["value"] < 0.01
    # Each guess that a cache brings nine times as much as before is off where the trial had it.
    off = records(made_ladder(steps=(CACHE, KERNELS), forecasts=lambda one: 9.0 if one.cache != "none" else 2.0))
    assert off["worst-trial"]["word"] == "key-value cache"
    assert off["worst-error"]["value"] == pytest.approx(9 * 1.25, rel=0.01)
    assert off["turns-right"]["value"] == 0
    assert off["profile-chooses"]["verdict"] == "refuted"
    assert off["trials"]["value"] == 2 * 3
    assert off["typical-error"]["value"] == pytest.approx(math.exp(math.log(9 * 1.25)) - 1, rel=0.01)


def test_choices_of_a_disturbed_run_are_not_counted_as_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Page, "withhold_if_disturbed", lambda _, said, *rests_on: Judgement(Verdict.WITHHELD) if rests_on else said
    )
    made = records(_WITH_PAIRS)
    assert {row["right"] and row["right"]["outcome"] for row in made["moves-one"]["rows"]} == {"withheld", None}
    assert (made["turns"]["value"], made["turns-right"]["value"], made["turns-by-roof"]["value"]) == (6, 0, 0)
    assert made["profile-chooses"]["verdict"] == Verdict.OPEN


def test_the_two_ends_are_held_against_one_another() -> None:
    assert with_pairs()["same-end"]["word"] == "the same configuration"
    assert records(_WITH_PAIRS, _WITHOUT_PAIRS)["same-end"]["word"] == "another configuration"
    assert len(with_pairs()["roof-lines"]["series"]) >= 4
