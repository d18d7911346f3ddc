"""Notebooks of a page, with its run, empty or with the package, the other files that it offers, and the package."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import nbformat
import nbformat.v4 as notebook_format
import pytest
from docutils import nodes
from hypothesis import given
from hypothesis import strategies as st
from measured_book.elements.drawings import standing_alone
from measured_book.elements.exhibits import FIGURES_FOLDER as FILES
from measured_book.notebooks.downloads import archive, drawings_in, drop_files, replace_wheel
from measured_book.notebooks.exercises import FOLDER
from measured_book.notebooks.files import extra_of, notebook_files
from measured_book.notebooks.package import Source, build_wheel, install_cell, kept_wheel, wheel_name
from measured_book.sources.repository import Repository
from measured_book.state import PageRecords, state_of
from nbclient import NotebookClient

from tests.chosen_settings import choose_settings
from tests.report.made_measurements import bounded
from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page
from tinytorch.report.figures import draw_bars, draw_line, subplots
from tinytorch.report.page import Shown
from tinytorch.report.records import RECORD_MIME

ROOT = Path(__file__).resolve().parents[3]
RUN = bounded(1.12e-3, 1.0e-3, 1.3e-3, "s")
SOLUTION = '''def double(x: int) -> int:
    """Return twice ``x``."""
    return 2 * x'''
TEXT = "(label)=\n# Page\n\nIt takes {measured}`latency`, as {ref}`label` says; there {measured}`other:total`."


Files = dict[str, nbformat.NotebookNode]


def made() -> tuple[Page, list[Shown]]:
    page = Page("page")
    figure, ax = subplots()
    draw_bars(ax, ["run"], [RUN], quantity="latency", variants="numpy")
    shown = [
        page.number("latency", RUN),
        page.figure("bars", figure, caption="The message.", alt="One bar."),
        page.table("ops", [{"op": "linear"}], [("op", "Op")], caption="Ops"),
    ]
    return page, shown


def write_package(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[project]\nname = "tinytorch"\nversion = "1.2"\n', "utf-8")
    (folder / "tinytorch").mkdir()
    (folder / "tinytorch" / "__init__.py").touch()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The page's notebooks, made of cells as MyST-NB leaves them; who changes one copies it."""
    folder = tmp_path_factory.mktemp("book")
    with pytest.MonkeyPatch.context() as patch:
        choose_settings(patch, building_book="1")
        page, shown = made()
    new = nbformat.v4
    outputs = [new.new_output("display_data", one._repr_mimebundle_()) for one in shown]
    tasks = "## Exercises\n\n**1. Bytes.** It took {measured}`latency`.\n\n**2. Twice.** Of {measured}`latency`."
    cells = [
        new.new_markdown_cell(TEXT),
        new.new_code_cell("import math as used, os"),
        new.new_code_cell("page.number()", outputs=outputs, execution_count=1, metadata={"tags": ["remove-input"]}),
        new.new_markdown_cell(tasks),
        new.new_code_cell(SOLUTION, metadata={"tags": ["solution"]}, execution_count=2),
        new.new_code_cell("assert double(used.floor(2)) == 4, 'no'\nprint('passed')", metadata={"tags": ["check"]}),
        new.new_code_cell("print('end')"),
    ]
    records = {record["key"]: record for record in page.records}
    total = Page("other").number("total", 41, unit="ops", what="ops").record
    write_package(folder)
    env: Any = SimpleNamespace(
        srcdir=str(folder / "book"),
        doc2path=lambda name: str(folder / "book" / f"{name}.md"),
        config=SimpleNamespace(book_repository=None),
        titles={"page": nodes.title("", "Page")},
        domaindata={"std": {"labels": {"label": ("page", "label", "The page")}}},
    )
    state_of(env).of("page").records = PageRecords("page", records)
    state_of(env).of("other").records = PageRecords("other", {"total": total})
    texts = notebook_files(env, "page", new.new_notebook(cells=cells))
    assert texts == notebook_files(env, "page", new.new_notebook(cells=cells)), "ids differ from build to build"
    notebooks = {name: nbformat.reads(text, as_version=4) for name, text in texts.items()}
    for notebook in notebooks.values():
        nbformat.validate(notebook)
    return notebooks


def text_of(notebook: nbformat.NotebookNode) -> str:
    return "\n".join(cell.source for cell in notebook.cells)


def test_what_ran_is_read_without_the_book(files: Files) -> None:
    notebook = files["page.ipynb"]
    said = text_of(notebook).replace("\u00a0", " ")
    assert "It takes **1.12 ms** [1.00 to 1.30 ms], as *The page* says; there **41 ops**." in said
    assert "Measured on " in notebook.cells[-1].source
    assert RECORD_MIME not in json.dumps(notebook)
    number, figure, caption, table = notebook.cells[3].outputs
    assert number.data["text/plain"].startswith("latency: 1.1")
    assert set(figure.data) == {"image/png", "text/plain"}
    assert caption.data["text/markdown"] == "The message."
    assert "<style>" in table.data["text/html"]
    assert notebook.cells[3].metadata["jupyter"] == {"source_hidden": True}


def test_the_empty_one_names_its_numbers_and_begins_exercises(files: Files) -> None:
    notebook = files["page-empty.ipynb"]
    assert "It takes `latency`, as *The page* says; there **41\u00a0ops** in the book." in text_of(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    solution = next(cell.source for cell in notebook.cells if "def double" in cell.source)
    assert "return 2" not in solution
    assert "NotImplementedError" in solution


def test_an_exercise_has_a_notebook_of_what_it_needs_alone(files: Files) -> None:
    about, imports, empty, check = files["page-exercise-double-empty.ipynb"].cells
    assert about.source.splitlines()[2:] == ["**2. Twice.** Of **1.12\u00a0ms** [1.00 to 1.30\u00a0ms] in the book."]
    assert imports.source == "import math as used"
    assert "NotImplementedError" in empty.source
    assert "double(used" in check.source
    assert files["page-exercise-double-colab.ipynb"].cells[1].source.startswith("# Put the file of the package")


def test_a_run_of_all_cells_goes_on_behind_an_exercise_that_is_not_written(files: Files) -> None:
    notebook = deepcopy(files["page-empty.ipynb"])
    notebook.cells = [cell for cell in notebook.cells if "page." not in cell.source]
    NotebookClient(notebook, kernel_name="python3").execute()
    assert notebook.cells[-1].outputs[0].text == "end\n"
    assert any(output.output_type == "error" for output in notebook.cells[-2].outputs)


def test_the_third_installs_the_package_first(files: Files) -> None:
    code = [cell.source for cell in files["page-colab.ipynb"].cells if cell.cell_type == "code"]
    assert re.search(r'%pip install --quiet "\./tinytorch-1\.2\+[0-9a-f]{12}-py3-none-any\.whl"$', code[0])
    source = Source(Repository("https://github.com/someone/book"), None)
    assert install_cell(source, None) == '%pip install --quiet "tinytorch @ git+https://github.com/someone/book"'
    assert install_cell(source, "a" * 40).endswith(f'@{"a" * 40}"')


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("from tinytorch.perf.distributed import launch", "[mpi]"),
        ("from tinytorch import from_onnx", "[onnx]"),
        ("from tinytorch.perf import measuring", ""),
    ],
)
def test_a_page_brings_an_mpi_to_start_ranks_and_onnx_to_read_files(code: str, extra: str) -> None:
    new = nbformat.v4
    notebook = new.new_notebook(cells=[new.new_markdown_cell("tinytorch.perf.distributed"), new.new_code_cell(code)])
    assert extra_of(notebook) == extra
    wheel = Source(None, "tinytorch-1.2-py3-none-any.whl")
    assert install_cell(wheel, None, extra).endswith(f'%pip install --quiet "./{wheel.wheel}{extra}"')
    home = Source(Repository("https://github.com/someone/book"), None)
    assert f'"tinytorch{extra} @ git+' in install_cell(home, None, extra)


def test_the_wheel_is_built_once_and_anew_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []

    def build(root: Path) -> bytes:
        built.append(root)
        return archive({"count": str(len(built))})

    monkeypatch.setattr("measured_book.notebooks.package.build_wheel", build)
    write_package(tmp_path)
    name = wheel_name(tmp_path)
    assert re.fullmatch(r"tinytorch-1\.2\+[0-9a-f]{12}-py3-none-any\.whl", name)
    assert [kept_wheel(tmp_path, tmp_path / "kept") for _ in range(2)] == [archive({"count": "1"})] * 2
    (tmp_path / "tinytorch" / "__init__.py").write_text("x = 2\n", "utf-8")
    assert kept_wheel(tmp_path, tmp_path / "kept") == archive({"count": "2"})
    assert wheel_name(tmp_path) != name
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_binder_makes_the_exercises_from_the_sources_without_sphinx(tmp_path: Path) -> None:
    code = "import sys; sys.modules.update(sphinx=None, docutils=None, rfc3987_syntax=None); import runpy; "
    code += "runpy.run_module('measured_book.notebooks.exercises', run_name='__main__')"
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "book" / "_ext")}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=settings)
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "book").glob("*.md"))
    made = [path.read_text("utf-8") for path in tmp_path.glob("*-exercise-*.ipynb")]
    assert len(made) == sources.count(":tags: [solution]")
    assert not any(re.search(r"\{\w+\}`", text) for text in made)
    assert f"exercises {FOLDER}\n" in (ROOT / "binder" / "postBuild").read_text("utf-8")


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


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of what the package is built from, with two modules."""
    made = tmp_path / "checkout"
    (made / "tinytorch").mkdir(parents=True)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, made / name)
    for name in ("__init__", "datasets"):
        (made / "tinytorch" / f"{name}.py").write_text(f'"""{name}."""\n')
    return made


def wheel_in_place(checkout: Path, folder: Path) -> set[str]:
    """Build the wheel as `pip install .` does, and return the names of its modules."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--isolated"]
    command += ["--disable-pip-version-check", "--wheel-dir", str(folder), str(checkout)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PIP_CONFIG_FILE": os.devnull})
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        return {name for name in wheel.namelist() if name.endswith(".py")}


def test_a_module_that_is_gone_is_not_in_the_next_wheel(checkout: Path, tmp_path: Path) -> None:
    init, old, new = (f"tinytorch/{name}.py" for name in ("__init__", "datasets", "data_sets"))
    assert wheel_in_place(checkout, tmp_path / "first") == {init, old}
    (checkout / old).rename(checkout / new)
    assert wheel_in_place(checkout, tmp_path / "second") == {init, new}


#: Settings of pip and setuptools, as files and variables, that would change the wheel or where it is written.
SETTINGS: dict[str, tuple[str, str]] = {
    "pip's file of the user": (".config/pip/pip.conf", "[global]\nconfig-settings = --build-option=--build-number=7\n"),
    "pip's older file": (".pip/pip.conf", "[global]\nconfig-settings = --build-option=--build-number=7\n"),
    "setuptools' file of the user": (".pydistutils.cfg", "[bdist_wheel]\nbuild_number = 7\n"),
}
VARIABLES = {
    "PIP_CONFIG_SETTINGS": "--build-option=--build-number=7",
    "DIST_EXTRA_CONFIG": "{home}/extra.cfg",
    "PIP_CONFIG_FILE": "{home}/pip.conf",
}


@pytest.mark.parametrize("setting", [*SETTINGS, *VARIABLES])
def test_settings_of_this_machine_do_not_change_the_wheel_that_readers_get(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    expected = build_wheel(checkout)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if setting in SETTINGS:
        name, text = SETTINGS[setting]
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    else:
        (home / "extra.cfg").write_text("[bdist_wheel]\nbuild_number = 7\n")
        (home / "pip.conf").write_text("[global]\nconfig-settings = --build-option=--build-number=7\n")
        monkeypatch.setenv(setting, VARIABLES[setting].format(home=home))
    built = build_wheel(checkout)
    assert zipfile.ZipFile(BytesIO(built)).namelist() == zipfile.ZipFile(BytesIO(expected)).namelist()
    assert built == expected
