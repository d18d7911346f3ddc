"""Exercises: the skeleton that a reader begins with, and and the chapters' own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_book.pages.exercises import exercise_skeleton
from sources import Cell, exercises_of, read_source

BOOK = Path(__file__).resolve().parents[3] / "book"

SOLUTION = '''from math import sqrt

@staticmethod
def norm(x, y=0):
    """Return the length.

    Of a vector.
    """
    total = x * x + y * y
    return sqrt(total)


def twice(x):
    return 2 * x
'''


def test_bodies_go_and_all_else_stays() -> None:
    assert exercise_skeleton(SOLUTION) == (
        "from math import sqrt\n\n@staticmethod\ndef norm(x, y=0):\n"
        '    """Return the length.\n\n    Of a vector.\n    """\n    raise NotImplementedError("write norm")\n\n\n'
        'def twice(x):\n    raise NotImplementedError("write twice")\n'
    )


def test_a_function_on_one_line_and_one_of_words_alone_become_empty_too() -> None:
    for source in ("def f(x): return 2 * x\n", 'def f(x):\n    """Words."""\n', "def f(\n    x,\n):\n    return x\n"):
        space: dict[str, object] = {}
        exec(exercise_skeleton(source), space)
        with pytest.raises(NotImplementedError, match="write f"):
            space["f"](1)  # type: ignore[operator]


@given(
    st.lists(
        st.sampled_from(["x = 1", "return x", "if x:\n        return 2", "# words", "for i in x:\n        pass"]),
        min_size=1,
    )
)
def test_a_skeleton_is_python_and_has_the_solutions_names(body: list[str]) -> None:
    lines = "\n    ".join(["pass", *body])
    source = f"import math\ndef first(x):\n    {lines}\n\ndef second(a, *, b):\n    return b\n"
    found = ast.parse(exercise_skeleton(source)).body
    assert [ast.unparse(node.args) for node in found if isinstance(node, ast.FunctionDef)] == ["x", "a, *, b"]
    assert all(isinstance(node.body[-1], ast.Raise) for node in found if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("source", "why"), [("def", "line 1 is not"), ("x = 1", "must define a function")])
def test_what_cannot_be_an_exercise_is_refused(source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        exercise_skeleton(source)


#: Needs every variant of the GPT trained: the build runs it on its page, and its own tests do with made models.
TRAINS_FOR_MINUTES = "exercises.check_beat_capstone"


def _exercises() -> Iterator[Any]:
    """Yield each exercise of the book: the chapter's imports, its solution and its check."""
    for path in sorted(BOOK.glob("*.md")):
        chapter = read_source(path.read_text("utf-8"))
        for solution, check in exercises_of(chapter):
            assert check is not None
            code = "\n".join(check.code)
            yield pytest.param(
                chapter.cells, "\n".join(solution.code), code, id=f"{path.stem}-{code.partition('(')[0]}"
            )


EXERCISES = list(_exercises())


def _imported(cells: list[Cell]) -> dict[str, Any]:
    """Return the names that the imports of the cells before the first solution bring; nothing else of them runs."""
    imports: list[ast.stmt] = []
    for cell in cells:
        if "solution" in cell.tags:
            break
        body = ast.parse("\n".join(cell.code)).body
        imports += [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    space: dict[str, Any] = {}
    exec(compile(ast.Module(imports, []), "<imports>", "exec"), space)
    return space


@pytest.mark.parametrize(("cells", "solution", "check"), EXERCISES)
def test_a_chapters_check_fails_the_skeleton_by_name(cells: list[Cell], solution: str, check: str) -> None:
    space = _imported(cells)
    exec(exercise_skeleton(solution), space)
    with pytest.raises(AssertionError, match=r"^\w+ is not written yet: replace the line"):
        eval(check, space)


@pytest.mark.parametrize(
    ("cells", "solution", "check"), [one for one in EXERCISES if not str(one.id).endswith(TRAINS_FOR_MINUTES)]
)
def test_a_chapters_check_accepts_the_solution(cells: list[Cell], solution: str, check: str) -> None:
    space = _imported(cells)
    exec(solution, space)
    assert eval(check, space).split(": ")[1].split(".")[0] in (
        "passed",
        "right, but whether it is faster is open; run the check again",
    )


@pytest.mark.parametrize(("cells", "solution", "check"), EXERCISES)
def test_a_chapters_check_fails_a_function_that_returns_nothing(cells: list[Cell], solution: str, check: str) -> None:
    space = _imported(cells)
    # Without decorators, as Numba would refuse such a function before any check can.
    empty = exercise_skeleton(re.sub(r"^@.*$", "", solution, flags=re.MULTILINE))
    exec(empty.replace("raise NotImplementedError", "str"), space)
    with pytest.raises(AssertionError) as told:
        eval(check, space)
    assert len(str(told.value).split()) > 4
