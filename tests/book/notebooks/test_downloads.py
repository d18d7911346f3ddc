"""The files that a page offers: figures that stand alone, archives that are equal for equal figures."""

import io
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import nbformat.v4 as notebook_format
from hypothesis import given
from hypothesis import strategies as st
from measured_book.elements.drawings import standing_alone
from measured_book.elements.exhibits import FIGURES_FOLDER as FILES
from measured_book.notebooks.downloads import archive, drawings_in, drop_files, replace_wheel

from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page
from tinytorch.report.figures import draw_line, subplots

NAMES = st.from_regex(r"[a-z]{1,8}\.svg", fullmatch=True)


def executed_page() -> list[dict[str, object]]:
    """Return the outputs of a page that records a number and a figure."""
    page = Page("page")
    figure, ax = subplots()
    runs = [Measurement("a run", (x, 1.1 * x, 1.2 * x), "s") for x in (0.1, 0.2)]
    draw_line(ax, [1, 2], runs, quantity="time", variant="baseline", label="a")
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


def test_the_files_of_a_page_go_and_those_of_others_stay(tmp_path: Path) -> None:
    own = ["_records/a.json", "_notebooks/a.ipynb", "_notebooks/a-empty.ipynb", "_notebooks/a-colab.ipynb"]
    own += ["_notebooks/a-exercise-f-empty.ipynb", f"{FILES}/a.zip", f"{FILES}/a/growth.svg", f"{FILES}/a/trace.json"]
    other = ["_records/a/b.json", "_notebooks/ab.ipynb", f"{FILES}/a/b/growth.svg", f"{FILES}/a/b.zip"]
    for name in (*own, *other):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    drop_files(tmp_path, "a")
    drop_files(tmp_path, "never-there")
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert left == set(other)


def test_the_wheel_is_the_only_one_unless_pages_are_left_that_link_to_another(tmp_path: Path) -> None:
    def names(wheel: dict[str, bytes], *, keep: bool) -> set[str]:
        replace_wheel(tmp_path, wheel, keep=keep)
        return {path.name for path in tmp_path.iterdir()}

    assert names({"a-1.whl": b"1"}, keep=False) == {"a-1.whl"}
    assert names({"a-2.whl": b"2"}, keep=True) == {"a-1.whl", "a-2.whl"}
    assert names({"a-2.whl": b"2"}, keep=False) == {"a-2.whl"}
    assert names({}, keep=False) == set()
