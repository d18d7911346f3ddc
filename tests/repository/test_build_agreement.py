"""Agreement of made builds whose intervals are right, too narrow, or of another kind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from scripts.build_agreement import (
    IDEAL_HOLDS,
    IDEAL_TOUCHES,
    agreement,
    agreement_document,
    agreement_lines,
    by_page,
    compared,
)
from scripts.compare_builds import main
from scripts.site_records import Json, Place, Site
from tests.repository.test_compare_builds import FIRST, SECOND, made


def number(value: float, reach: float, kind: str = "measured") -> Json:
    interval = {"low": value - reach, "high": value + reach, "confidence": 0.95}
    return {"kind": kind, "unit": "s", "value": value, "interval": interval, "n": 9}


def site(numbers: dict[Place, Json]) -> Site:
    return Site(numbers, {}, {}, {"machine": {"cpu": "CPU"}}, {"machine": {"commit": "0"}})


def builds(count: int, reach: float, spread: float = 0.01, places: int = 400) -> list[Site]:
    draw = np.random.default_rng(0)
    return [
        site({Place("page", str(at)): number(10 + draw.normal(0, spread), reach) for at in range(places)})
        for _ in range(count)
    ]


def test_true_intervals_reach_the_ideal() -> None:
    found = agreement(compared(builds(5, reach=1.96 * 0.01)))
    assert (found.numbers, found.pairs) == (400, 10)
    assert found.holds == pytest.approx(IDEAL_HOLDS, abs=0.02)
    assert found.touches == pytest.approx(IDEAL_TOUCHES, abs=0.01)
    assert found.width == pytest.approx(2 * 1.96 * 0.001, rel=0.01)


def test_intervals_that_know_half_of_the_spread_do_not() -> None:
    found = agreement(compared(builds(5, reach=0.98 * 0.01)))
    assert found.holds == pytest.approx(0.512, abs=0.03)
    assert found.touches == pytest.approx(0.834, abs=0.03)


def test_only_what_a_clock_gave_in_every_build_is_compared() -> None:
    place, modelled, point, alone = (Place("page", name) for name in ("time", "model", "point", "alone"))
    one = {place: number(1, 0.1), modelled: number(1, 0.1, "modelled"), point: number(1, 0), alone: number(1, 0.1)}
    other = {name: body for name, body in one.items() if name != alone}
    assert list(compared([site(one), site(other)])) == [place]


def test_pages_are_told_apart_and_shown() -> None:
    good, bad = Place("a", "x"), Place("b", "x")
    numbers = compared(
        [site({good: number(1, 0.1), bad: number(1, 0.1)}), site({good: number(1, 0.1), bad: number(2, 0.1)})]
    )
    assert {page: (one.holds, one.touches) for page, one in by_page(numbers).items()} == {"a": (1, 1), "b": (0, 0)}
    lines = agreement_lines(numbers)
    assert lines[2].split() == ["all", "pages", "2", "50.0%", "50.0%", "20.0%"]
    assert agreement_document([site({})] * 2, numbers)["pages"]["b"]["holds"] == 0


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(ValueError, match="measured"):
        agreement({})
    with pytest.raises(ValueError, match="at least two"):
        agreement(compared([site({Place("page", "x"): number(1, 0.1)})]))


def test_the_figure_is_kept_with_machine_and_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sites = [str(made(tmp_path / name, values)) for name, values in (("a", FIRST), ("b", SECOND), ("c", FIRST))]
    kept = tmp_path / "agreement.json"
    for folder in sites:
        records = Path(folder, "_records")
        (records / "machine.json").write_text((records / "index.json").read_text().replace('"index"', '"machine"'))
    assert main([*sites, "--json", str(kept)]) == 0
    document = json.loads(kept.read_text())
    assert (document["builds"], document["all"]["pairs"], document["all"]["numbers"]) == (3, 3, 2)
    assert document["machine"]["cpu"] == "CPU"
    assert "3 pairs of builds" in capsys.readouterr().out
