"""The files that a page offers: figures that stand alone, archives that are equal for equal figures."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import nbformat.v4 as notebook_format
from hypothesis import given
from hypothesis import strategies as st
from measured_book.notebooks.downloads import archive, drawings_in, replace_folder, standing_alone

from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page, line, subplots

NAMES = st.from_regex(r"[a-z]{1,8}\.svg", fullmatch=True)


def executed_page() -> list[dict[str, object]]:
    """Return the outputs of a page that records a number and a figure."""
    page = Page("page")
    figure, ax = subplots()
    runs = [Measurement("a run", (x, 1.1 * x, 1.2 * x), "s") for x in (0.1, 0.2)]
    line(ax, [1, 2], runs, quantity="time", variant="baseline", label="a")
    ax.set_xlabel("length (tokens)")
    shown = [
        page.number("count", 3, unit="ops", what="operations"),
        page.figure("growth", figure, caption="It grows.", alt="A line that rises."),
    ]
    return [each._repr_mimebundle_() for each in shown]  # what Jupyter asks for


def test_each_figure_of_a_notebook_becomes_a_drawing_that_stands_alone() -> None:
    outputs = [notebook_format.new_output("display_data", data=data) for data in executed_page()]
    notebook = notebook_format.new_notebook(cells=[notebook_format.new_code_cell("", outputs=outputs)])
    drawings = dict(drawings_in(notebook))
    assert list(drawings) == ["growth"]
    root = ET.fromstring(drawings["growth"].encode())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "background" in str(root.get("style"))
    assert "<svg " in drawings["growth"]  # without a prefix, which some viewers do not read


def test_a_drawing_keeps_the_style_of_its_root() -> None:
    text = standing_alone(
        '<svg xmlns="http://www.w3.org/2000/svg" style="stroke-linecap: butt"><path d="M 0 0"/></svg>'
    )
    assert str(ET.fromstring(text.encode()).get("style")).endswith("; stroke-linecap: butt")


@given(st.dictionaries(NAMES, st.text(max_size=50), max_size=4))
def test_an_archive_gives_its_files_back_and_depends_on_nothing_else(files: dict[str, str]) -> None:
    packed = archive(files)
    assert packed == archive(dict(reversed(files.items())))
    with zipfile.ZipFile(io.BytesIO(packed)) as opened:
        assert opened.testzip() is None
        assert {name: opened.read(name).decode() for name in opened.namelist()} == files


def test_a_folder_holds_the_new_files_alone(tmp_path: Path) -> None:
    replace_folder(tmp_path / "out", {"old.json": b"1", "deep/old.json": b"1"})
    replace_folder(tmp_path / "out", {"new.json": b"2"})
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json")] == ["out/new.json"]
    replace_folder(tmp_path / "out", {})
    assert list(tmp_path.iterdir()) == []
