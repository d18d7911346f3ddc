"""The course's sentences on products come out either way, by what its own examples take."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chapters.made_turns import in_turns, records
from tinytorch.chapters.acceleration import sentences as chapter
from tinytorch.chapters.acceleration.sentences import Sentences
from tinytorch.report import Page
from tinytorch.report.records import Json


def said_of(layer: float = 3.0, added: float = 30.0, copied: float = 1.2, noise: float = 0.0) -> dict[str, Json]:
    page = Page("acceleration")
    found = Sentences(
        in_turns({"loops": layer, "product": 1.0}, noise={"loops": noise}),
        in_turns({"loop": added, "sum": 1.0}, noise={"loop": noise}),
        in_turns({"list": 1.0, "with copies": copied}, noise={"with copies": noise}),
    )
    chapter.record_sentences(page, found)
    return records(page)


@pytest.mark.parametrize(
    ("layer", "noise", "verdict"),
    [(3.0, 0.0, "supported"), (300.0, 0.0, "refuted"), (1.5, 0.0, "refuted"), (5.0, 0.2, "open")],
)
def test_two_to_five_times_are_asked_of_the_courses_own_layer(layer: float, noise: float, verdict: str) -> None:
    said = said_of(layer=layer, noise=noise)
    assert said["vectorization"]["verdict"] == verdict
    assert said["layer-gain"]["value"] == pytest.approx(layer)


@pytest.mark.parametrize(
    ("added", "noise", "verdict"),
    [(30.0, 0.0, "supported"), (10.0, 0.0, "refuted"), (5.0, 0.0, "refuted"), (10.0, 0.2, "open")],
)
def test_more_than_ten_times_is_asked_of_a_thousand_numbers(added: float, noise: float, verdict: str) -> None:
    assert said_of(added=added, noise=noise)["vectorization-ten"]["verdict"] == verdict


@pytest.mark.parametrize(
    ("copied", "noise", "verdict"),
    [(3.0, 0.0, "supported"), (1.2, 0.0, "refuted"), (2.0, 0.2, "open")],
)
def test_copies_kill_if_they_take_half(copied: float, noise: float, verdict: str) -> None:
    assert said_of(copied=copied, noise=noise)["copies"]["verdict"] == verdict


def test_what_follows_from_definitions_is_counted() -> None:
    said = said_of()
    counted = {key for key, record in said.items() if record["kind"] == "claim" and record["counted"]}
    assert counted == {"tile-line", "product-intensity-course"}
    assert {said[key]["verdict"] for key in counted} == {"refuted"}
    # 2 n^3 operations over three matrices of 4 n^2 bytes.
    assert said["product-intensity"]["value"] == pytest.approx(2 * 1024**3 / (3 * 4 * 1024**2))


def test_the_examples_are_the_courses(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs: list[dict[str, Any]] = []

    def run_once(fresh: Any, **_plan: Any) -> dict[str, Any]:
        outputs.append({name: run() for name, run in fresh().items()})
        return {}

    monkeypatch.setattr(chapter, "interleave", run_once)
    chapter.study_sentences()
    layer, added, copied = outputs
    assert layer["loops"] == pytest.approx(layer["product"], abs=1e-4)
    assert layer["product"].shape == (32, 64)
    assert added["loop"] == pytest.approx(added["sum"])
    assert len(added["sum"]) == 1000
    assert copied["list"] == copied["with copies"] == list(range(5000))
