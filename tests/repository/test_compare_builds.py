"""Two sites that differ in what was measured are the same; any other difference is found."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts.compare_builds import compare_sites, main

Json = dict[str, Any]

PAGE = """<html><body><p>Text. <button class="measured" data-key="index:a" popovertarget="m-1">{ms} ms</button>
<span popover id="m-1">median of {n} samples</span> <button data-key="index:b">{count}</button></p>
<div class="claim-{verdict}"><span data-key="index:c">{word}</span> <p>Statement</p></div>
<figure><svg aria-label="{ms}"><path d="{ms}"/><text>{ms}</text></svg><figcaption>Caption</figcaption></figure>
<div class="cell_output"><pre>{ms}</pre></div><pre>code</pre><p data-key="index:provenance">{when}</p></body></html>"""
FIRST = {"ms": "1.1", "n": "7", "count": "41", "word": "faster", "verdict": "supported", "when": "noon", "unit": "ms"}
SECOND = {**FIRST, "ms": "925", "n": "9", "word": "slower", "verdict": "refuted", "when": "evening", "unit": "µs"}


def made(folder: Path, values: dict[str, str]) -> Path:
    for name in ("_records", "_notebooks", "_figures"):
        (folder / name).mkdir(parents=True)
    (folder / "index.html").write_text(PAGE.format(**values))
    interval = {"low": 1.0, "high": float(values["ms"]) + 1, "confidence": 0.95}
    columns = [{"key": "op", "label": "Op"}, {"key": "time", "label": "Time"}]
    records: list[Json] = [
        {"kind": "measured", "unit": "s", "value": float(values["ms"]), "interval": interval, "n": 9, "conditions": {}},
        {"kind": "counted", "unit": "FLOP", "value": int(values["count"])},
        {"kind": "verdict", "word": values["word"], "fixed": False, "numbers": ["a"]},
        {"kind": "verdict", "word": "counted", "fixed": True, "numbers": ["b"]},
        {"kind": "figure", "caption": "Caption", "alt": values["ms"], "series": []},
    ]
    cells = [{"kind": "measured", "value": values["ms"]}, {"word": values["word"], "fixed": False}]
    for cell in (*cells, {"kind": "counted", "value": 3}):
        rows = [{"op": "add", "time": cell}]
        records.append({"kind": "table", "caption": "Ops", "columns": columns, "rows": rows})
    records = [{"key": key, "when": values["when"], **record} for key, record in zip("abcdefgh", records, strict=True)]
    provenance = {"when": values["when"], "machine": {"cpu": "CPU", "load": float(values["n"])}}
    provenance |= {"package": {}, "blas": [], "environment": {}, "python": "", "numpy": ""}
    content = {"page": "index", "duration_seconds": 1.0, "provenance": provenance, "records": records}
    (folder / "_records" / "index.json").write_text(json.dumps(content))
    (folder / "_measurements").mkdir()
    (folder / "_measurements" / "book.json").write_text(json.dumps({"pages": [content]}))
    (folder / "_measurements" / "sent.json").write_text('{"cpu": "CPU"}')
    (folder / ".buildinfo").write_text(f"config: {folder}")
    cell = {"cell_type": "code", "id": "cell-0", "source": "x = 1", "metadata": {}, "outputs": [values["ms"]]}
    (folder / "_notebooks" / "index.ipynb").write_text(json.dumps({"metadata": {}, "cells": [cell]}))
    quoted = {"cells": [{"cell_type": "markdown", "source": f"It took **{values['ms']} ms** [1 to 2] in the book."}]}
    (folder / "_notebooks" / "index-empty.ipynb").write_text(json.dumps(quoted))
    (folder / "_figures" / "curve.svg").write_text(f"<svg>{values['ms']}</svg>")
    with zipfile.ZipFile(folder / "_figures" / "all.zip", "w") as archive:
        archive.writestr("curve.svg", values["ms"])
    (folder / "search-index.js").write_text('globalThis.searchIndex = [["Page", "index.html", []]];')
    (folder / "style.css").write_text("a { color: red }")
    return folder


def test_sites_that_differ_in_measured_values_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sites = [made(tmp_path / name, values) for name, values in (("a", FIRST), ("b", SECOND), ("c", FIRST))]
    for each in sites:
        records = each / "_records"
        (records / "machine.json").write_text((records / "index.json").read_text().replace('"index"', '"machine"'))
    assert main([*map(str, sites), "--json", str(tmp_path / "kept.json")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "11 files are the same but for what was measured."
    # The second interval, from 1 to 926, holds 1.1; the first, from 1 to 2.1, does not hold 925.
    assert printed[4].split()[:5] == ["all", "pages", "2", "66.7%", "100.0%"]
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert (kept["builds"], kept["all"]["pairs"], kept["all"]["numbers"]) == (3, 3, 2)
    assert kept["machine"]["cpu"] == "CPU"
    assert main([str(sites[0]), str(tmp_path / "none")]) == 2


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("index.html", "Text.", "Test."),
        ("index.html", "Caption", "Legend"),
        ("index.html", "Statement", "Other statement"),
        ("index.html", "<pre>code", "<pre>other code"),
        ("index.html", 'data-key="index:a"', 'data-key="index:z"'),
        ("_records/index.json", '"value": 41', '"value": 42'),
        ("_records/index.json", '"key": "a"', '"key": "z"'),
        ("_records/index.json", '"cpu": "CPU"', '"cpu": "other"'),
        ("_records/index.json", '"word": "counted"', '"word": "other"'),
        ("_records/index.json", '"label": "Op"', '"label": "Operation"'),
        ("_records/index.json", '"value": 3', '"value": 4'),
        ("_notebooks/index.ipynb", "x = 1", "x = 2"),
        ("search-index.js", "Page", "Side"),
        ("_measurements/sent.json", "CPU", "other"),
        ("_notebooks/index-empty.ipynb", "It took", "It takes"),
        ("style.css", "red", "blue"),
        ("_figures/curve.svg", "", None),
    ],
)
def test_any_other_difference_is_found(
    tmp_path: Path, name: str, old: str, new: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = made(tmp_path / "a", FIRST), made(tmp_path / "b", SECOND)
    path = second / name
    if new is None:
        path.unlink()
    else:
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    assert [found for found, _ in compare_sites(first, second)] == [name]
    assert main([str(first), str(second)]) == 1
    assert any(line.startswith("1 of 10 files") for line in capsys.readouterr().out.splitlines())
