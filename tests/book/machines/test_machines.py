"""Tables and explorers of machines: files of strangers, each checked and shown as text; clusters with their sources."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bs4 import BeautifulSoup
from measured_book.machines.cluster import FILE, GRID, ClusterExplorerNode
from measured_book.machines.explorers import DeviceNode
from measured_book.machines.repeated_builds import table
from measured_book.machines.table import Machine, sent_in, table_html
from measured_book.state import BookState, PageRecords

from tests.report.made_measurements import made_measurements
from tinytorch.chapters.distributed import explorer
from tinytorch.report.measurements import as_text, read_measurements
from tinytorch.report.numbers import format_record

ROOT = Path(__file__).resolve().parents[3]
GOOD = made_measurements()


@pytest.fixture
def app(tmp_path: Path) -> Any:
    """A stand-in for Sphinx with a folder of measurements beside the book's."""
    (tmp_path / "measurements").mkdir()
    (tmp_path / "book").mkdir()
    config = SimpleNamespace(measurements_folder="../measurements")
    return SimpleNamespace(srcdir=str(tmp_path / "book"), config=config)


def folder_of(app: Any) -> Path:
    return Path(app.srcdir).parent / "measurements"


def rows(html: str) -> list[dict[str, str]]:
    """Return the rows of the table, by the words in its head."""
    table = BeautifulSoup(html, "html.parser")
    heads = [" ".join(head.get_text().split()).split(" (")[0] for head in table.select("thead th")]
    return [
        dict(zip(heads, (" ".join(cell.get_text(" ").split()) for cell in row.select("th, td")), strict=True))
        for row in table.select("tbody tr")
    ]


def shown_roof(name: str, threads: int) -> str:
    """Return what the book shows of a roof: its rate and interval."""
    table = next(record for record in GOOD["pages"][0]["records"] if record["key"] == "roofs")
    keys = [column["key"] for column in table["columns"]]
    found = [dict(zip(keys, row, strict=True)) for row in table["rows"]]
    (rate,) = (row["rate"] for row in found if row["roof"] == name and row["threads"]["value"] == threads)
    shown = format_record(rate)
    return f"{shown.cell} {shown.beside}".rstrip()


def test_a_machine_s_row_has_its_roofs_with_their_intervals_and_its_claims() -> None:
    (row,) = rows(table_html([Machine(GOOD, "_measurements/a.json")]))
    assert row["Machine"].startswith("A machine shared ")
    for name, roof, threads in (("FP32, one thread", "FP32", 1), ("Memory, all cores", "memory", 2)):
        assert row[name] == shown_roof(roof, threads)
    assert row["INT8, one thread"] == shown_roof("INT8", 1)
    assert row["FP32, one thread"].startswith("100 (")
    about = GOOD["pages"][0]["provenance"]["machine"]
    for said in (about["cpu"], about["system"], f"{about['cores_usable']} of {about['cores_logical']} cores"):
        assert said in row["Machine"]
    assert "claims: 1 refuted" in row["Machine"]


def test_a_column_has_one_unit_which_its_head_names() -> None:
    faster = copy.deepcopy(GOOD)
    table = next(record for record in faster["pages"][0]["records"] if record["key"] == "roofs")
    place = [column["key"] for column in table["columns"]].index("rate")
    for row in table["rows"]:
        rate = row[place]
        rate["value"] *= 1000
        rate["interval"].update({end: 1000 * rate["interval"][end] for end in ("low", "high")})
    html = table_html([Machine(GOOD, "a.json"), Machine(faster, "b.json")])
    slow, fast = (row["FP32, one thread"].split(" ")[0] for row in rows(html))
    assert 1000 * float(slow) == float(fast) == 100
    assert "FP32, one thread (TFLOP/s)" in BeautifulSoup(html, "html.parser").get_text()


def test_a_processor_that_names_its_file_is_said_once() -> None:
    made = copy.deepcopy(GOOD)
    made["label"] = made["pages"][0]["provenance"]["machine"]["cpu"] = "A processor"
    assert table_html([Machine(made, "a.json")]).count("A processor") == 1


def test_markup_in_a_file_is_shown_as_text() -> None:
    hostile = "<script>alert(1)</script>\"'&"
    made = copy.deepcopy(GOOD)
    made["label"] = made["note"] = hostile
    where = made["pages"][0]["provenance"]
    where["machine"]["system"] = where["machine"]["vectors"] = hostile
    where["machine"]["cpu"] = f"of {hostile}"
    where["blas"] = [{**where["blas"][0], "name": hostile, "core": hostile}]
    html = table_html([Machine(made, f"{hostile}.json")])
    assert BeautifulSoup(html, "html.parser").find("script") is None
    (row,) = rows(html)
    assert row["Machine"].startswith(f"{hostile} {hostile} ")
    assert row["Machine"].count(hostile) == 7, "label, note, processor, vectors, library, kernels, system"


def test_files_that_can_be_used_are_taken_and_others_stop_the_build(app: Any, caplog: pytest.LogCaptureFixture) -> None:
    (folder_of(app) / "good.json").write_text(as_text(GOOD), "utf-8")
    (folder_of(app) / "README.md").write_text("# Not a machine\n", "utf-8")
    assert sent_in(app) == {"good.json": GOOD}
    assert caplog.records == []
    (folder_of(app) / "bad.json").write_text(json.dumps({**GOOD, "schema_version": 9}), "utf-8")
    assert list(sent_in(app)) == ["good.json"]
    (warning,) = caplog.records
    assert warning.levelname == "WARNING"
    assert "bad.json cannot be used: its schema_version must be 3, not 9" in warning.getMessage()


def test_what_was_sent_in_can_be_used() -> None:
    for path in (ROOT / "measurements").glob("*.json"):
        assert read_measurements(path)["pages"]


def test_published_clusters_come_with_their_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "MODELS", ())  # and so no cells, which are not looked at here
    app = cast(Any, SimpleNamespace(outdir=tmp_path))
    html = ClusterExplorerNode(instead=["table-a", "figure-b"]).html(app, "page")
    made = json.loads((tmp_path / FILE).read_text("utf-8").removeprefix(f"globalThis.{GRID} = ").removesuffix(";\n"))
    place = BeautifulSoup(html, "html.parser").div
    assert place is not None
    assert not place.contents, "without JavaScript nothing is shown"
    assert place["data-grid"] == FILE
    assert place["data-instead"] == "table-a figure-b"
    assert [one["name"] for one in made["clusters"]] == [one.name for one in explorer.CLUSTERS]
    assert all(address.startswith("https://") for one in made["clusters"] for _, address in one["sources"])


PAGE = {"numbers": 1234, "pairs": 10, "holds": 0.812, "touches": 0.985, "width": 0.1234}
MADE: dict[str, Any] = {
    "when": "2026-11-22",
    "machine": {"cpu": "<b>CPU</b>"},
    "package": {"commit": "0123456789"},
    "builds": 5,
    "all": PAGE,
    "pages": {"roofline": {**PAGE, "holds": 0.5}},
}


def test_the_table_has_a_row_for_each_page_and_one_for_all() -> None:
    rows = BeautifulSoup(table(MADE), "html.parser").select("tbody tr")
    assert [[cell.get_text() for cell in row.select("th, td")] for row in rows] == [
        ["roofline", "1,234", "50", "98", "12.3"],
        ["all", "1,234", "81", "98", "12.3"],
    ]
    assert all(row.select_one(".quoted-value") for row in rows)


def test_a_device_gets_the_books_curve_as_bytes_and_nanoseconds() -> None:
    state = BookState()
    app = cast(Any, SimpleNamespace(env=SimpleNamespace(measured_book=state)))
    place = DeviceNode(experiment="memory", curve="memory:staircase")
    assert place.html(app, "index") == '<div class="device" data-experiment="memory"></div>'
    numbers = [
        {"value": seconds, "conditions": {"instrument": {"kind": "MemoryProbe", "working_set_bytes": size}}}
        for size, seconds in ((8192, 1.25e-9), (16384, 2e-9))
    ]
    figure = {"key": "staircase", "kind": "figure", "page": "memory", "series": [{"numbers": numbers}]}
    state.of("memory").records = PageRecords("memory", {"staircase": figure})
    made = BeautifulSoup(place.html(app, "index"), "html.parser").div
    assert made is not None
    assert json.loads(str(made["data-book"])) == [[8192, 1.25], [16384, 2.0]]
