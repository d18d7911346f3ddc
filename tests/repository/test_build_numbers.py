"""Agreement of made builds, and which of their changes are called real: those beyond what two builds differ by."""

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts.build_numbers import (
    CANNOT_TELL,
    IDEAL_HOLDS,
    IDEAL_TOUCHES,
    NOISE,
    REAL,
    Change,
    agreement,
    by_page,
    changes,
    compared,
)
from scripts.compare_builds import main
from scripts.site_records import Json, Place, Site, read_site


def number(key: str, value: float, *, kind: str = "measured", unit: str = "s", half: float = 0.01) -> Json:
    interval = {"low": value - half * abs(value), "high": value + half * abs(value), "confidence": 0.95}
    found = {"key": key, "kind": kind, "unit": unit, "value": value, "n": 30 if kind == "measured" else 1}
    return {**found, "interval": None if kind == "counted" else interval}


def with_numbers(numbers: dict[Place, Json]) -> Site:
    return Site(numbers, {}, {"machine": {"cpu": "CPU"}}, {"machine": {"commit": "0"}})


@pytest.mark.parametrize(("reach", "holds", "touches"), [(1.96, IDEAL_HOLDS, IDEAL_TOUCHES), (0.98, 0.512, 0.834)])
def test_true_intervals_reach_the_ideal_and_those_half_as_wide_do_not(
    reach: float, holds: float, touches: float
) -> None:
    draw = np.random.default_rng(0)
    places = [Place("page", str(at)) for at in range(400)]
    builds = [{each: number("", 10 + draw.normal(0, 0.01), half=reach * 0.001) for each in places} for _ in range(5)]
    found = agreement(compared([with_numbers(each) for each in builds]))
    assert (found.numbers, found.pairs) == (400, 10)
    assert found.holds == pytest.approx(holds, abs=0.03)
    assert found.touches == pytest.approx(touches, abs=0.03)
    assert found.width == pytest.approx(2 * reach * 0.001, rel=0.01)


def test_only_what_a_clock_gave_in_every_build_is_compared_page_by_page() -> None:
    good, bad = Place("a", "x"), Place("b", "x")
    others = {Place("a", "model"): number("", 1, kind="modelled"), Place("a", "point"): number("", 1, half=0)}
    one = {good: number("", 1), bad: number("", 1), **others, Place("a", "alone"): number("", 1)}
    numbers = compared([with_numbers(one), with_numbers({good: number("", 1), bad: number("", 2), **others})])
    assert {page: (each.holds, each.touches) for page, each in by_page(numbers).items()} == {"a": (1, 1), "b": (0, 0)}
    assert len(numbers) == 2
    for sites in ([with_numbers(others)] * 2, [with_numbers(one)]):
        with pytest.raises(ValueError, match="measured"):
            agreement(compared(sites))


def many(seed: int, noise: float = 0.01) -> list[Json]:
    """Return forty numbers of one code, each with what one more build of it would add."""
    drawn = random.Random(seed)
    return [number(f"n-{i}", (1 + i) * 1e-3 * math.exp(drawn.gauss(0, noise)), half=0.002) for i in range(40)]


def site(folder: Path, *records: Json, cpu: str = "A", load: float = 0.1) -> Site:
    provenance = {"machine": {"cpu": cpu, "load": load}, "blas": [], "environment": {}, "package": {}}
    provenance |= {"python": "3.11", "numpy": "2"}
    (folder / "_records").mkdir(parents=True)
    content = {"page": "chapter", "provenance": provenance, "records": list(records)}
    (folder / "_records" / "chapter.json").write_text(json.dumps(content))
    return read_site(folder)


def judged(tmp_path: Path, old: list[Json], new: list[Json], **of_new: Any) -> dict[str, Change]:
    found = changes(site(tmp_path / "old", *old), site(tmp_path / "new", *new, **of_new))
    return {change.place.name: change for change in found}


def test_two_builds_of_one_code_change_nothing_although_their_intervals_lie_apart(tmp_path: Path) -> None:
    found = judged(tmp_path, many(1), many(2))
    assert len(found) > 20
    assert {change.verdict for change in found.values()} == {NOISE}
    assert any("two builds differ by" in change.because for change in found.values())


def mine(*values: float, **kind: Any) -> list[Json]:
    return [number("mine", value, **kind) for value in values]


@pytest.mark.parametrize(
    ("pair", "noise", "verdict"),
    [
        (mine(0.5, 0.4), 0.01, REAL),
        (mine(0.5, 0.505), 0.0, NOISE),  # they overlap, however quiet the builds
        (mine(0.5, 0.4, kind="counted"), 0.0, CANNOT_TELL),
        (mine(32, 64, kind="counted", unit="images"), 0.0, CANNOT_TELL),
        (mine(32, 64, kind="counted", unit="B"), 0.0, REAL),
        (mine(0.5) + mine(0.5, unit="B"), 0.0, REAL),
        ([*mine(0.5), {"key": "mine", "kind": "absent", "reason": "No peers."}], 0.0, CANNOT_TELL),
        (mine(-0.5, -0.4), 0.0, CANNOT_TELL),
    ],
)
def test_what_really_changed_is_told_from_noise_and_from_what_intervals_cannot_judge(
    tmp_path: Path, pair: list[Json], noise: float, verdict: str
) -> None:
    found = judged(tmp_path, [*many(1, noise), pair[0]], [*many(2, noise), pair[1]], load=9.0)
    assert found.pop("mine").verdict == verdict
    assert {change.verdict for change in found.values()} <= {NOISE}


def test_few_numbers_tell_nothing_and_another_machine_tells_counts_alone(tmp_path: Path) -> None:
    assert judged(tmp_path / "few", mine(0.5), mine(0.4))["mine"].verdict == CANNOT_TELL
    flops = mine(100, 200, kind="counted", unit="FLOP")
    found = judged(tmp_path, [*many(1), flops[0]], [*many(2), flops[1]], cpu="B")
    assert found.pop("mine").verdict == REAL
    assert {change.verdict for change in found.values()} == {CANNOT_TELL}


def test_tables_figures_and_words_are_read_as_well(tmp_path: Path) -> None:
    def records(value: float, word: str) -> list[Json]:
        columns = [{"key": "op", "label": "Op"}, {"key": "time", "label": "Time"}]
        rows = [{"op": "linear", "time": number("", value)}] * 2
        series = [{"label": "ours", "x": [1, 2], "numbers": [number("", value), number("", 3 * value)]}]
        return [
            {"key": "ops", "kind": "table", "columns": columns, "rows": rows},
            {"key": "curve", "kind": "figure", "series": series},
            {"key": "bound", "kind": "verdict", "word": word},
            {"key": "fast", "kind": "claim", "verdict": word},
        ]

    found = judged(tmp_path, records(1.0, "faster"), records(2.0, "slower"))
    places = ["ops: linear, Time", "ops: linear (2), Time", "curve: ours at 1", "curve: ours at 2"]
    assert list(found) == ["bound", "fast", *places]
    assert (found["fast"].old, found["fast"].new, found["fast"].verdict) == ("faster", "slower", "word")


def test_the_report_counts_lists_and_escapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site(tmp_path / "old", *many(1), number("a|b", 0.5), number("gone", 1.0))
    site(tmp_path / "new", *many(2), number("a|b", 0.4), number("fresh", 1.0))
    assert main(["--numbers", str(tmp_path / "old"), str(tmp_path / "new")]) == 0
    text = capsys.readouterr().out
    assert "### Real: 1\n\n| Page | Number | Old | New | Why |\n|---|---|---|---|---|\n| chapter | a\\|b | " in text
    assert "Only in the new build, 1: chapter: fresh." in text
    assert "Only in the old build, 1: chapter: gone." in text
