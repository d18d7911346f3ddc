"""Two sites that differ in what was measured are the same, any other difference is found, and noise is told from it."""

import json
import math
import random
import zipfile
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
from scripts.compare_builds import compare_sites, main
from scripts.site_records import Json, Place, Site, read_site

PAGE = """<html><body><p>Text. <button class="measured" data-key="chapter:a" popovertarget="m-1">{ms} ms</button>
<span popover id="m-1">median of {n} samples</span> <button data-key="chapter:b">{count}</button></p>
<div class="claim-{verdict}"><span data-key="chapter:c">{word}</span> <p>Statement</p></div>
<figure><svg aria-label="{ms}"><path d="{ms}"/><text>{ms}</text></svg><figcaption>Caption</figcaption></figure>
<div class="cell_output"><pre>{ms}</pre></div><pre>code</pre><p data-key="chapter:provenance">{n}</p></body></html>"""
FIRST = {"ms": "1.1", "n": "7", "count": "41", "word": "faster", "verdict": "supported"}
SECOND = {"ms": "925", "n": "9", "count": "41", "word": "slower", "verdict": "refuted"}
COLUMNS = [{"key": "op", "label": "Op"}, {"key": "time", "label": "Time"}]


def number(key: str, value: float, *, kind: str = "measured", unit: str = "s", half: float = 0.01) -> Json:
    interval = {"low": value - half * abs(value), "high": value + half * abs(value), "confidence": 0.95}
    made = {"key": key, "kind": kind, "unit": unit, "value": value, "n": 30 if kind == "measured" else 1}
    return {**made, "interval": None if kind == "counted" else interval}


def site(folder: Path, *records: Json, cpu: str = "A", load: float = 0.1, page: str = "chapter") -> Site:
    provenance = {"machine": {"cpu": cpu, "load": load}, "blas": [], "environment": {}, "package": {}}
    provenance |= {"python": "3.11", "numpy": "2", "when": str(load)}
    (folder / "_records").mkdir(parents=True, exist_ok=True)
    content = {"page": page, "provenance": provenance, "records": list(records)}
    (folder / "_records" / f"{page}.json").write_text(json.dumps(content))
    return read_site(folder)


def made(folder: Path, values: dict[str, str]) -> Path:
    """Write a site that has one file of each kind, and one record."""
    folder.mkdir()
    cells: list[Json] = [number("", float(values["ms"])), {"word": values["word"], "fixed": False}]
    cells.append(number("", 3, kind="counted"))
    records = [number("a", float(values["ms"]), half=1.0), number("b", int(values["count"]), kind="counted")]
    records += [{"key": "c", "kind": "verdict", "word": values["word"], "fixed": False, "numbers": ["a"]}]
    records += [{"key": "d", "kind": "verdict", "word": "counted", "fixed": True, "numbers": ["b"]}]
    records += [{"key": "e", "kind": "figure", "caption": "Caption", "alt": values["ms"], "series": []}]
    for key, cell in zip("fgh", cells, strict=True):
        rows = [{"op": "add", "time": cell}]
        records.append({"key": key, "kind": "table", "caption": "Ops", "columns": COLUMNS, "rows": rows})
    site(folder, *records, load=float(values["n"]))
    cell = {"cell_type": "code", "id": "cell-0", "source": "x = 1", "metadata": {}, "outputs": [values["ms"]]}
    quoted = {"cell_type": "markdown", "source": f"It took **{values['ms']} ms** [1 to 2] in the book."}
    for name, text in {
        "chapter.html": PAGE.format(**values),
        "_measurements/book.json": values["ms"],
        "_measurements/sent.json": '{"cpu": "CPU"}',
        ".buildinfo": f"config: {folder}",
        "_notebooks/chapter.ipynb": json.dumps({"metadata": {}, "cells": [cell]}),
        "_notebooks/chapter-empty.ipynb": json.dumps({"cells": [quoted]}),
        "_figures/curve.svg": f"<svg>{values['ms']}</svg>",
        "style.css": "a { color: red }",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with zipfile.ZipFile(folder / "_figures" / "all.zip", "w") as archive:
        archive.writestr("curve.svg", values["ms"])
    return folder


def test_sites_that_differ_in_measured_values_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sites = [made(tmp_path / name, values) for name, values in (("a", FIRST), ("b", SECOND), ("c", FIRST))]
    for each in sites:
        records = each / "_records"
        (records / "machine.json").write_text((records / "chapter.json").read_text().replace('"chapter"', '"machine"'))
    assert main([*map(str, sites), "--json", str(tmp_path / "kept.json")]) == 0
    assert capsys.readouterr().out.startswith("10 files are the same but for what was measured.\n")
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert (kept["builds"], kept["all"]["pairs"], kept["all"]["numbers"]) == (3, 3, 4)
    assert kept["machine"]["cpu"] == "A"
    assert main([str(sites[0]), str(tmp_path / "none")]) == 2


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("chapter.html", "Text.", "Test."),
        ("chapter.html", "Caption", "Legend"),
        ("chapter.html", "Statement", "Other statement"),
        ("chapter.html", "<pre>code", "<pre>other code"),
        ("chapter.html", 'data-key="chapter:a"', 'data-key="chapter:z"'),
        ("_records/chapter.json", '"value": 41', '"value": 42'),
        ("_records/chapter.json", '"key": "a"', '"key": "z"'),
        ("_records/chapter.json", '"cpu": "A"', '"cpu": "other"'),
        ("_records/chapter.json", '"word": "counted"', '"word": "other"'),
        ("_records/chapter.json", '"label": "Op"', '"label": "Operation"'),
        ("_records/chapter.json", '"value": 3', '"value": 4'),
        ("_notebooks/chapter.ipynb", "x = 1", "x = 2"),
        ("_measurements/sent.json", "CPU", "other"),
        ("_notebooks/chapter-empty.ipynb", "It took", "It takes"),
        ("style.css", "red", "blue"),
        ("_figures/curve.svg", "", None),
    ],
)
def test_any_other_difference_is_found(tmp_path: Path, name: str, old: str, new: str | None) -> None:
    first, second = made(tmp_path / "a", FIRST), made(tmp_path / "b", SECOND)
    path = second / name
    if new is None:
        path.unlink()
    else:
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    assert [found for found, _ in compare_sites(first, second)] == [name]
    assert main([str(first), str(second)]) == 1


@pytest.mark.parametrize(("reach", "holds", "touches"), [(1.96, IDEAL_HOLDS, IDEAL_TOUCHES), (0.98, 0.512, 0.834)])
def test_true_intervals_reach_the_ideal_and_those_half_as_wide_do_not(
    reach: float, holds: float, touches: float
) -> None:
    draw = np.random.default_rng(0)
    places = [Place("page", str(at)) for at in range(400)]
    builds = [{each: number("", 10 + draw.normal(0, 0.01), half=reach * 0.001) for each in places} for _ in range(5)]
    alone = {Place("page", "model"): number("", 1, kind="modelled"), Place("page", "point"): number("", 1, half=0)}
    numbers = compared([Site({**each, **alone}, {}, {}) for each in builds])
    (reached,) = by_page(numbers).values()
    assert (reached.numbers, reached.pairs) == (400, 10), "what a clock gave every build"
    assert (reached.holds, reached.touches) == pytest.approx((holds, touches), abs=0.03)
    assert reached.width == pytest.approx(2 * reach * 0.001, rel=0.01)
    with pytest.raises(ValueError, match="measured"):
        agreement(compared([Site(alone, {}, {})] * 2))


def many(seed: int, noise: float = 0.01) -> list[Json]:
    """Return forty numbers of one code, each with what one more build of it would add."""
    drawn = random.Random(seed)
    return [number(f"n-{i}", (1 + i) * 1e-3 * math.exp(drawn.gauss(0, noise)), half=0.002) for i in range(40)]


def judged(tmp_path: Path, old: list[Json], new: list[Json], **of_new: Any) -> dict[str, Change]:
    found = changes(site(tmp_path / "old", *old), site(tmp_path / "new", *new, **of_new))
    return {change.place.name: change for change in found}


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
    assert len(found) > 20 or not noise
    assert {change.verdict for change in found.values()} <= {NOISE}, "intervals lie apart, and nothing changed"


def test_few_numbers_tell_nothing_and_another_machine_tells_counts_alone(tmp_path: Path) -> None:
    assert judged(tmp_path / "few", mine(0.5), mine(0.4))["mine"].verdict == CANNOT_TELL
    flops = mine(100, 200, kind="counted", unit="FLOP")
    found = judged(tmp_path, [*many(1), flops[0]], [*many(2), flops[1]], cpu="B")
    assert found.pop("mine").verdict == REAL
    assert {change.verdict for change in found.values()} == {CANNOT_TELL}


def test_the_report_reads_tables_figures_and_words_counts_and_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed, value, word, alone in (("old", 1, 1.0, "faster", "gone"), ("new", 2, 2.0, "slower", "fresh")):
        series = [{"label": "ours", "x": [1, 2], "numbers": [number("", value), number("", 3 * value)]}]
        rows = [{"op": "add", "time": number("", value)}] * 2
        table = {"key": "o|ps", "kind": "table", "columns": COLUMNS, "rows": rows}
        records = [table, {"key": "curve", "kind": "figure", "series": series}, number(alone, 1.0)]
        records += [{"key": "fast", "kind": "claim", "verdict": word}]
        site(tmp_path / name, *many(seed), *records)
    assert main(["--numbers", str(tmp_path / "old"), str(tmp_path / "new")]) == 0
    text = capsys.readouterr().out
    assert "### Real: 4\n\n| Page | Number | Old | New | Why |\n|---|---|---|---|---|\n| chapter | o\\|ps: add" in text
    assert all(place in text for place in ("add (2), Time |", "curve: ours at 1 |", "curve: ours at 2 |"))
    assert "| chapter | fast | faster | slower | " in text
    assert "Only in the new build, 1: chapter: fresh." in text
    assert "Only in the old build, 1: chapter: gone." in text
