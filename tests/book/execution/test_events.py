"""What the build is told of a cell that failed, and what the next build reads again."""

import os
import re
from pathlib import Path

import pytest
from measured_book.execution.events import failing_cell, tell
from nbclient.exceptions import CellExecutionError, CellTimeoutError

from tests.book.small_book import HEADER, Book, Build
from tests.book.sphinx_process import SphinxProcess
from tests.chosen_settings import choose_settings

BYTE_ORDER_MARK = "\ufeff"
PAGE = "# Title\n\n```{code-cell}\nx = 1\n```\n\n```{code-cell}\ny = 0\nx / y\n```\n\nAs in\n\n    x = 1\n"
TRACEBACK = (
    "------------------\nx / y\n------------------\n\n\x1b[31mZeroDivisionError\x1b[39m  Traceback\n"
    "\x1b[36mCell\x1b[39m\x1b[36m \x1b[39m\x1b[32mIn[2]\x1b[39m\x1b[32m, line 2\x1b[39m\n"
    "\x1b[32m      1\x1b[39m y = 0\n\x1b[32m----> 2\x1b[39m x / y\n\nZeroDivisionError: division by zero\n"
)


FAILED = {"page": "page", "source": "page.md"}
DIVIDED = {
    "error": "ZeroDivisionError: division by zero",
    "cell": 2,
    "line": 2,
    "code": "x / y",
    "source_line": 9,
    "modules": [],
}
TWICE = (
    TRACEBACK.replace("In[2]", "In[1]").replace("line 2", "line 1").replace("----> 2\x1b[39m x / y", "----> 1 x = 1")
)
#: Of an error in a module that a chapter's module called, through the standard library.
CALLS = (
    "Cell In[2], line 2\n      1 y = 0\n----> 2 x / y\n\n"
    "File {0}/tinytorch/chapters/page.py:12, in divide(x)\n     11 y = 0\n---> 12 return over(x, y)\n\n"
    "File /usr/lib/python3.12/functools.py:7, in over(x)\n----> 7 call(x)\n\n"
    "File {0}/tinytorch/perf/law.py:3, in over(x, y)\n      2 def over(x, y):\n----> 3     return x / y\n\nError: v"
)


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (CellExecutionError(TRACEBACK, "ZeroDivisionError", "division by zero"), DIVIDED),
        (
            CellExecutionError(TWICE, "E", "v"),
            {"error": "E: v", "cell": 1, "line": 1, "code": "x = 1", "source_line": 4, "modules": []},
        ),
        (CellTimeoutError("A cell timed out."), {"error": "CellTimeoutError: A cell timed out."}),
    ],
    ids=["an error", "a line that stands on the page twice", "a cell that took too long"],
)
@pytest.mark.parametrize("mark", ["", BYTE_ORDER_MARK], ids=["as it is", "after a byte order mark"])
def test_a_failing_cell_is_named_with_its_line_and_the_line_of_the_page_where_these_are_known(
    tmp_path: Path, cause: Exception, told: dict[str, object], mark: str
) -> None:
    (tmp_path / "page.md").write_text(mark + PAGE, "utf-8")
    error = RuntimeError("notebook")
    error.__cause__ = cause
    assert failing_cell(error, "page", tmp_path / "page.md") == {**FAILED, **told}


def test_cells_of_texts_are_not_counted(tmp_path: Path) -> None:
    page = PAGE.replace("```\n\n```{code-cell}\ny", "```\n\nIt is {measured}`x`.\n\n```{code-cell}\ny")
    (tmp_path / "page.md").write_text(page, "utf-8")
    error = RuntimeError("notebook")
    error.__cause__ = CellExecutionError(TRACEBACK.replace("In[2]", "In[3]"), "ZeroDivisionError", "division by zero")
    told = failing_cell(error, "page", tmp_path / "page.md")
    assert (told["cell"], told["source_line"]) == (2, 11)


def test_a_failing_module_is_named_with_the_line_of_the_chapter_and_the_line_that_raised(tmp_path: Path) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "page.md").write_text(PAGE)
    error = RuntimeError("notebook")
    error.__cause__ = CellExecutionError(CALLS.format(tmp_path.resolve()), "E", "v")
    assert failing_cell(error, "page", tmp_path / "book" / "page.md")["modules"] == [
        {"file": "tinytorch/chapters/page.py", "line": 12, "code": "return over(x, y)"},
        {"file": "tinytorch/perf/law.py", "line": 3, "code": "return x / y"},
    ]


def test_a_listener_that_is_gone_does_not_stop_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    choose_settings(monkeypatch, build_events=str(writing))
    tell("page", page="index")
    tell("page", page="index")
    os.close(writing)


INDEX = "# Index\n\n```{toctree}\nbefore\ncells\nlater\n```\n"
CELLS = (
    HEADER
    + """
# Cells

```{code-cell} ipython3
from tinytorch.report import Page
page = Page("cells")
page.number("total", 41, unit="ops", what="operations")
```
"""
)
SHOWS = "# {}\n\nIt takes {{measured}}`cells:total`.\n"


@pytest.fixture
def book(tmp_path: Path, sphinx: SphinxProcess) -> Book:
    made = Book(tmp_path, sphinx)
    made.write("index", INDEX)
    made.write("before", SHOWS.format("Before"))
    made.write("cells", CELLS)
    made.write("later", SHOWS.format("Later"))
    return made


def read(build: Build) -> list[str]:
    return re.findall(r"reading sources\.\.\. \[[ \d]+%\] (\w+)", build.output)


def test_only_pages_that_failed_and_those_behind_a_cell_that_did_are_read_again_until_they_are_mended(
    book: Book,
) -> None:
    book.write("before", "# Before\n\nHere {measured}`cells:nothing`.\n")  # a fault that is met as pages are written
    failed, again = book.build(), book.build()
    assert (failed.code, again.code) == (1, 1)
    assert read(failed) == ["before", "cells", "index", "later"]
    assert read(again) == ["before"]
    assert again.output.count("has no number 'nothing'") == 1
    book.write("before", SHOWS.format("Before"))
    mended, unchanged = book.build(), book.build()
    assert (mended.code, unchanged.code) == (0, 0), mended.output
    assert (read(mended), read(unchanged)) == (["before"], [])
    book.write("before", SHOWS.format("Before, anew"))
    book.write("cells", CELLS.replace("41", "1 // 0"))
    book.write("later", SHOWS.format("Later, anew"))
    failed = book.build()
    assert failed.code != 0
    assert "ZeroDivisionError" in failed.output
    book.write("cells", CELLS.replace("41", "42"))
    mended = book.build()
    assert mended.code == 0, mended.output
    assert read(mended) == ["cells", "later"]
    for name in ("before", "later"):
        said = " ".join(mended.page(f"{name}.html").get_text().split())
        assert "anew" in said
        assert "42 ops" in said


def test_a_page_that_wrote_to_standard_error_runs_again(book: Book) -> None:
    with (book.source / "conf.py").open("a") as configuration:
        configuration.write('nb_output_stderr = "error"\n')
    book.write("cells", CELLS.replace("41", "__import__('sys').stderr.write('careful')"))
    failed, again = book.build(), book.build()
    assert (failed.code, again.code) == (1, 1)
    assert (read(again), again.executed()) == (["cells"], ["cells"])


def test_a_module_that_is_no_python_is_named_with_its_line(book: Book) -> None:
    configuration, module = book.source / "conf.py", book.folder / "package" / "module.py"
    (book.folder / "package" / "__init__.py").touch()
    configuration.write_text(configuration.read_text().replace("_packages = []", '_packages = ["../package"]'))
    book.write("cells", CELLS.replace("from", "import package.module\nfrom", 1))
    module.write_text("x = 1 +\n")
    failed = book.build()
    assert failed.code != 0
    assert f"{module}:1 is no Python: invalid syntax" in failed.output


#: Asks for a module that lies beside the page, as another tree's may on the path of a kernel.
CELL = "```{code-cell} ipython3\n:tags: [remove-output]\nimport ship\n```\n"


def replace(path: Path, text: str) -> None:
    """Give the file another text and a date of long ago, as a copy or a clock that was set back does."""
    path.write_text(text, "utf-8")
    os.utime(path, (1e9, 1e9))


def test_a_page_and_what_it_includes_are_read_again_when_they_changed(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = Book(tmp_path, sphinx)
    page = "# A page\n\n{}\n\n```{{literalinclude}} included.txt\n:language: text\n```\n"
    book.write("index", page.format("It says one."))
    replace(book.source / "included.txt", "included one\n")
    assert "It says one." in book.build().pages["index.html"]
    replace(book.source / "index.md", page.format("It says two."))
    assert "It says two." in book.build().pages["index.html"]
    replace(book.source / "included.txt", "included two\n")
    assert "included two" in book.build().pages["index.html"]
    assert "0 added, 0 changed" in book.build().output


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_page_whose_kernel_loaded_another_tree_s_package_is_no_result(
    tmp_path: Path, sphinx: SphinxProcess, elsewhere: bool
) -> None:
    from scripts.building.settings import build_settings, write_startup

    book = Book(tmp_path, sphinx)
    for folder in (tmp_path / "ship", *([book.source / "ship"] if elsewhere else [])):
        folder.mkdir()
        (folder / "__init__.py").touch()
    configuration = (book.source / "conf.py").read_text("utf-8")
    configuration = configuration.replace("execution_packages = []", 'execution_packages = ["../ship"]')
    (book.source / "conf.py").write_text(configuration, "utf-8")
    book.write("index", HEADER + "# A page\n\n" + CELL)
    write_startup(tmp_path / "_build")
    settings = build_settings(tmp_path / "_build")
    built = book.build(**settings, PYTHONPATH=str(tmp_path))
    assert (built.code != 0) == elsewhere, built.output
    if elsewhere:
        wanted, loaded = (folder / "ship" / "__init__.py" for folder in (tmp_path, book.source))
        assert f"index: its cells loaded ship from {loaded} and not from {wanted}" in built.output
        assert not list((tmp_path / "_build").glob(".jupyter_cache/*/*/global.db"))
