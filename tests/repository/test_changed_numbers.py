"""Which changes from one build to another are called real: those beyond what two builds of the same code differ by."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.changed_numbers import CANNOT_TELL, NOISE, REAL, Change, between_builds, changes, report
from scripts.site_records import Site, read_site

MACHINE = {"cpu": "A", "cores_usable": 2, "load": 0.1}
Json = dict[str, Any]


def number(key: str, value: float, *, kind: str = "measured", unit: str = "s", half: float = 0.01) -> Json:
    interval = {"low": value - half * abs(value), "high": value + half * abs(value), "confidence": 0.95}
    return {
        "key": key,
        "kind": kind,
        "unit": unit,
        "value": value,
        "n": 30 if kind == "measured" else 1,
        "interval": interval if kind == "measured" else None,
    }


def many(seed: int, noise: float = 0.01) -> list[Json]:
    """Return forty numbers of one code, each with what one more build of it would add."""
    drawn = random.Random(seed)
    return [number(f"n-{i}", (1 + i) * 1e-3 * math.exp(drawn.gauss(0, noise)), half=0.002) for i in range(40)]


def site(folder: Path, *records: Json, cpu: str = "A", load: float = 0.1) -> Site:
    provenance = {"machine": {**MACHINE, "cpu": cpu, "load": load}, "blas": [], "environment": {}, "package": {}}
    provenance |= {"python": "3.11", "numpy": "2"}
    content = {"page": "chapter", "provenance": provenance, "records": list(records)}
    (folder / "_records").mkdir(parents=True)
    (folder / "_records" / "chapter.json").write_text(json.dumps(content))
    return read_site(folder)


def judged(tmp_path: Path, old: list[Json], new: list[Json], **of_new: Any) -> dict[str, Change]:
    first, second = site(tmp_path / "old", *old), site(tmp_path / "new", *new, **of_new)
    return {change.place.name: change for change in changes(first, second, between_builds(first, second))}


def test_two_builds_of_one_code_change_nothing_although_their_intervals_lie_apart(tmp_path: Path) -> None:
    found = judged(tmp_path, many(1), many(2))
    assert len(found) > 20
    assert {change.verdict for change in found.values()} == {NOISE}
    assert any("two builds differ by" in change.because for change in found.values())


def test_what_really_changed_is_told_from_noise(tmp_path: Path) -> None:
    found = judged(tmp_path, [*many(1), number("mine", 0.5)], [*many(2), number("mine", 0.4)], load=9.0)
    assert found["mine"].verdict == REAL
    assert found["mine"].because.startswith("the intervals are 22")
    assert [name for name, change in found.items() if change.verdict == REAL] == ["mine"]


def test_overlapping_intervals_are_noise_however_quiet_the_builds(tmp_path: Path) -> None:
    found = judged(tmp_path, [*many(1, 0), number("mine", 0.5)], [*many(1, 0), number("mine", 0.505)])
    assert found["mine"] == Change(found["mine"].place, *_texts(found["mine"]), NOISE, "the intervals overlap")


def _texts(change: Change) -> tuple[str, str]:
    return change.old, change.new


def test_the_noise_floor_of_the_pages_is_noise_as_well(tmp_path: Path) -> None:
    floor = number("noise-floor", 1.3, unit="")
    found = judged(tmp_path, [*many(1, 0), floor, number("mine", 0.5)], [*many(1, 0), floor, number("mine", 0.4)])
    assert found["mine"].verdict == NOISE
    assert "two builds differ by up to 30.0%" in found["mine"].because


def test_few_numbers_do_not_tell_what_builds_differ_by(tmp_path: Path) -> None:
    found = judged(tmp_path, [number("mine", 0.5)], [number("mine", 0.4)])
    assert found["mine"].verdict == CANNOT_TELL
    assert "1 measured numbers are too few" in found["mine"].because


def test_another_machine_tells_nothing_about_times_but_counts_are_counts(tmp_path: Path) -> None:
    flops = [number("flops", value, kind="counted", unit="FLOP") for value in (100, 200)]
    found = judged(tmp_path, [*many(1), flops[0]], [*many(2), flops[1]], cpu="B")
    assert found["flops"].verdict == REAL
    assert {change.verdict for name, change in found.items() if name != "flops"} == {CANNOT_TELL}


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (number("x", 0.5, kind="counted"), number("x", 0.4, kind="counted"), CANNOT_TELL),
        (number("x", 32, kind="counted", unit="images"), number("x", 64, kind="counted", unit="images"), CANNOT_TELL),
        (number("x", 32, kind="counted", unit="B"), number("x", 64, kind="counted", unit="B"), REAL),
        (number("x", 0.5), number("x", 0.5, unit="B"), REAL),
        (number("x", 0.5), {"key": "x", "kind": "absent", "reason": "No peers."}, CANNOT_TELL),
        (number("x", -0.5), number("x", -0.4), CANNOT_TELL),
    ],
)
def test_what_intervals_cannot_judge(tmp_path: Path, old: Json, new: Json, verdict: str) -> None:
    assert judged(tmp_path, [*many(1), old], [*many(1), new])["x"].verdict == verdict


def test_tables_figures_and_words_are_read_as_well(tmp_path: Path) -> None:
    def records(value: float, word: str) -> list[Json]:
        columns = [{"key": "op", "label": "Op"}, {"key": "time", "label": "Time"}]
        rows = [{"op": "linear", "time": number("", value)}, {"op": "linear", "time": number("", value)}]
        series = [{"label": "ours", "x": [1, 2], "numbers": [number("", value), number("", 3 * value)]}]
        return [
            {"key": "ops", "kind": "table", "columns": columns, "rows": rows},
            {"key": "curve", "kind": "figure", "series": series},
            {"key": "bound", "kind": "verdict", "word": word},
            {"key": "fast", "kind": "claim", "verdict": word},
        ]

    found = judged(tmp_path, records(1.0, "faster"), records(2.0, "slower"))
    assert list(found) == [
        "ops: linear, Time",
        "ops: linear (2), Time",
        "curve: ours at 1",
        "curve: ours at 2",
        "bound",
        "fast",
    ]
    assert (found["fast"].old, found["fast"].new, found["fast"].verdict) == ("faster", "slower", "word")


def test_the_report_counts_lists_and_escapes(tmp_path: Path) -> None:
    old = site(tmp_path / "old", *many(1), number("mine", 0.5), number("gone", 1.0))
    new = site(tmp_path / "new", *many(2), number("mine", 0.4), number("fresh", 1.0))
    text = report(old, new)
    assert "Both builds ran on the same machine with the same settings." in text
    assert "### Real: 1\n\n| Page | Number | Old | New | Why |\n|---|---|---|---|---|\n| chapter | mine | " in text
    assert "Only in the new build, 1: chapter: fresh." in text
    assert "Only in the old build, 1: chapter: gone." in text
    assert "<details><summary>Within noise: " in text
    assert text.endswith("\n")


def test_it_runs_as_the_workflow_runs_it(tmp_path: Path) -> None:
    site(tmp_path / "old", *many(1))
    site(tmp_path / "new", *many(2))
    command = [sys.executable, "-m", "scripts.changed_numbers", str(tmp_path / "old"), str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("## Numbers that changed\n")
