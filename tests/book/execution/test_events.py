"""What the build is told of a cell that failed, and that nothing is told when nobody listens."""

import os
from pathlib import Path

import pytest
from measured_book.execution.events import failing_cell, tell
from nbclient.exceptions import CellExecutionError, CellTimeoutError

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
