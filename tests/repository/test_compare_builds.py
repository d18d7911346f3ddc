"""Two sites that differ in what was measured are the same; any other difference is found."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.compare_builds import compare_sites, main

PAGE = """<html><body><p>Text. <button class="measured measured" popovertarget="m-1"><span class="value">{ms}</span>
<span class="unit">ms</span></button><span class="measured-detail" id="m-1">median of {n} samples</span>
<button class="measured counted" popovertarget="m-2"><span class="value">{count}</span></button>
<span class="measured-detail" id="m-2">Counted: {count}</span>
<button class="measured verdict" popovertarget="m-3">{word}</button><span class="measured-detail" id="m-3">{ms}</span>
</p><div class="claim claim-{verdict}"><span class="claim-verdict {verdict}">{verdict}</span>
<p class="claim-evidence">took {ms}</p></div><time datetime="{when}">{when}</time>
<figure class="measured-figure"><svg aria-label="{ms}"><path d="{ms}"/></svg><figcaption>Caption</figcaption></figure>
<div class="measured-table"><table><thead><tr><th>Op <span class="unit">({unit})</span></th></tr></thead>
<tbody><tr><td>{ms} <span class="spread">± {n}</span></td></tr></tbody></table></div>
<form class="predict-form" data-key="a" data-value="{ms}" data-shown="{ms} ms"></form><p>It is
<span class="predict-result"> (96% interval {ms})</span>.</p><div class="measured-table"><table><thead><tr><th>Module
<span class="unit">({unit})</span></th></tr></thead><tbody><tr><td>{ms}</td></tr><tr><th>Load</th><td>{n}</td></tr>
</tbody></table></div><aside class="page-mismatch"><pre>Code: 1
{n} numbers are wide: this machine was busy.</pre></aside>
<div class="measured-card"><dl><div><dt>Machine</dt><dd>CPU</dd></div><div><dt>Made</dt><dd>{when}</dd></div></dl></div>
</body></html>"""
FIRST = {"ms": "1.1", "n": "7", "count": "41", "word": "faster", "verdict": "supported", "when": "noon", "unit": "ms"}
SECOND = {**FIRST, "ms": "925", "n": "9", "word": "slower", "verdict": "refuted", "when": "evening", "unit": "µs"}


def made(folder: Path, values: dict[str, str]) -> Path:
    for name in ("_records", "_notebooks", "_figures"):
        (folder / name).mkdir(parents=True)
    (folder / "index.html").write_text(PAGE.format(**values))
    machine = {"cpu": "CPU", "load": float(values["n"])}
    records = [
        {
            "key": "a",
            "kind": "measured",
            "unit": "s",
            "when": values["when"],
            "value": float(values["ms"]),
            "interval": {"low": 1.0, "high": float(values["ms"]) + 1, "confidence": 0.95},
            "n": 9,
            "conditions": {},
        },
        {"key": "b", "kind": "counted", "unit": "FLOP", "when": values["when"], "value": int(values["count"])},
        {"key": "c", "kind": "verdict", "when": values["when"], "word": values["word"], "because": values["ms"]},
    ]
    provenance = {
        "when": values["when"],
        "machine": machine,
        "blas": [],
        "package": {},
        "environment": {},
        "python": "",
        "numpy": "",
    }
    content = {"page": "index", "duration_seconds": 1.0, "provenance": provenance, "records": records}
    (folder / "_records" / "index.json").write_text(json.dumps(content))
    (folder / "_measurements").mkdir()
    page = {**content, "records": [*records, {"key": "card", "kind": "table", "rows": [["Load", values["n"]]]}]}
    book = json.dumps({"schema_version": 1, "pages": [page]})
    (folder / "_measurements" / "book.json").write_text(book)
    (folder / "_measurements" / "book.js").write_text(f'globalThis.book = {{"measurements":{book},"presets":{{}}}};')
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
    first, second = made(tmp_path / "a", FIRST), made(tmp_path / "b", SECOND)
    assert list(compare_sites(first, second)) == []
    assert main([str(first), str(second)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "10 files are the same but for what was measured."
    # The second interval, from 1 to 926, holds 1.1; the first, from 1 to 2.1, does not hold 925.
    assert printed[3].split()[:5] == ["all", "pages", "1", "50.0%", "100.0%"]


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(site: Path) -> None:
        path = site / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("index.html", replaced("index.html", "Text.", "Test.")),
        ("index.html", replaced("index.html", ">41<", ">42<")),
        ("index.html", replaced("index.html", "Caption", "Legend")),
        ("index.html", replaced("index.html", ">Op ", ">Operation ")),
        ("index.html", replaced("index.html", "<dd>CPU</dd>", "<dd>Other</dd>")),
        ("index.html", replaced("index.html", 'id="m-1"', 'id="m-9"')),
        ("_records/index.json", replaced("_records/index.json", '"value": 41', '"value": 42')),
        ("_records/index.json", replaced("_records/index.json", '"key": "a"', '"key": "z"')),
        ("_notebooks/index.ipynb", replaced("_notebooks/index.ipynb", "cell-0", "f3a1")),
        ("_notebooks/index.ipynb", replaced("_notebooks/index.ipynb", "x = 1", "x = 2")),
        ("search-index.js", replaced("search-index.js", "Page", "Side")),
        ("index.html", replaced("index.html", "Module", "Part")),
        ("index.html", replaced("index.html", 'data-key="a"', 'data-key="b"')),
        ("index.html", replaced("index.html", "Code: 1", "Code: 2")),
        ("_measurements/book.js", replaced("_measurements/book.js", "presets", "settings")),
        ("_measurements/book.json", replaced("_measurements/book.json", '"key": "b"', '"key": "z"')),
        ("_notebooks/index-empty.ipynb", replaced("_notebooks/index-empty.ipynb", "It took", "It takes")),
        ("style.css", replaced("style.css", "red", "blue")),
        ("_figures/curve.svg", lambda site: (site / "_figures" / "curve.svg").unlink()),
    ],
)
def test_any_other_difference_is_found(
    tmp_path: Path, name: str, change: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = made(tmp_path / "a", FIRST), made(tmp_path / "b", SECOND)
    change(second)
    assert [found for found, _ in compare_sites(first, second)] == [name]
    assert main([str(first), str(second)]) == 1
    assert any(line.startswith("1 of 10 files") for line in capsys.readouterr().out.splitlines())


def test_a_folder_that_is_no_site_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"{tmp_path} must be the folder of a built site, but has no index.html.\n"
