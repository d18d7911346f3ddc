"""Exercises as notebooks of their own: what has to be imported, the task, its empty function, and its check.

They are made of a page's cells, of the executed page in a build and of the page's source for Binder, whose checkout
gets them by ``python -m measured_book.notebooks.exercises FOLDER``. So nothing here needs Sphinx.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

SOLUTION = "solution"
CHECK = "check"
#: Where the checkout of Binder has them.
FOLDER = "exercises"
_BOOK = Path(__file__).resolve().parents[3]
_TASK = re.compile(r"^\*\*\d+\. ", re.MULTILINE)
_NUMBER = re.compile(r"\{(?:measured|verdict)\}")
_ROLE = re.compile(r"\{[\w:-]+\}`([^`<]*?)(?: <[^`>]*>)?`")


def _functions(source: str) -> list[ast.FunctionDef]:
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"source must be Python, but line {error.lineno} is not: {error.msg}") from None
    found = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    if not found:
        raise ValueError("source must define a function: without one there is nothing for a reader to write")
    return found


def _has_docstring(function: ast.FunctionDef) -> bool:
    return ast.get_docstring(function, clean=False) is not None


def _emptied(function: ast.FunctionDef, lines: list[str]) -> list[str]:
    """Return the function's lines without its body, all that stands before that kept."""
    body = function.body[1:] if _has_docstring(function) else function.body
    kept = lines[function.lineno - 1 : body[0].lineno - 1 if body else function.end_lineno]
    if body:
        # Empty, unless the body begins on the line of the signature.
        before = lines[body[0].lineno - 1].encode()[: body[0].col_offset].decode().rstrip()
        kept += [before] if before else []
    one_line = function.body[0].lineno == function.lineno
    indent = " " * (function.col_offset + 4 if one_line else function.body[0].col_offset)
    return [*kept, f'{indent}raise NotImplementedError("write {function.name}")']


def exercise_skeleton(source: str) -> str:
    """Return the code of a solution with empty functions, as a reader begins with it.

    The body of each function, behind its docstring, becomes a line that raises NotImplementedError, which the checks
    know. Everything else stays: imports, decorators, signatures.

    Raises:
        ValueError: if ``source`` is not Python, or defines no function.
    """
    lines = source.splitlines()
    for function in reversed(_functions(source)):
        lines[function.lineno - 1 : function.end_lineno] = _emptied(function, lines)
    return "\n".join(lines) + "\n"


def is_tagged(metadata: dict[str, Any], tag: str) -> bool:
    """Return whether a cell with this metadata has the tag."""
    return tag in metadata.get("tags", [])


def name_of(solution: str, check: str) -> str:
    """Return the name of the solution's function that the check asks for."""
    return next(function.name for function in _functions(solution) if function.name in _names(check))


def notebook_name(docname: str, function: str) -> str:
    """Return the name of the file of an exercise, without what says of which kind it is."""
    return f"{docname}-exercise-{function}"


def _names(*sources: str) -> set[str]:
    trees = [ast.parse(source) for source in sources]
    return {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _imports(cells: Sequence[Any], used: set[str]) -> str:
    """Return the imports of the cells that bring a used name, and NumPy."""
    kept = []
    for cell in cells:
        try:
            body = ast.parse(cell.source).body if cell.cell_type == "code" else []
        except SyntaxError:  # a command of notebooks
            continue
        for node in body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [one for one in node.names if (one.asname or one.name) in used | {"np"}]
                node.names = names
                kept += [ast.unparse(node)] if names else []
    return "\n".join(dict.fromkeys(kept))


def exercises_in(cells: Sequence[Any], title: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield for each exercise among a page's cells the name of its function, and the cells of its notebook.

    The task is the last numbered paragraph before a solution.
    """
    for place, (task, solution, check) in enumerate(zip(cells, cells[1:], cells[2:], strict=False)):
        if not (is_tagged(solution.metadata, SOLUTION) and is_tagged(check.metadata, CHECK)):
            continue
        text = task.source if task.cell_type == "markdown" else ""
        text = text[max((found.start() for found in _TASK.finditer(text)), default=0) :]
        new = nbformat.v4
        yield (
            name_of(solution.source, check.source),
            [
                new.new_markdown_cell(f"*An exercise of “{title}”. Run the cells one after the other.*\n\n{text}"),
                new.new_code_cell(_imports(cells[: place + 1], _names(solution.source, check.source))),
                new.new_code_cell(exercise_skeleton(solution.source).rstrip("\n")),
                new.new_code_cell(check.source),
            ],
        )


def write_all(folder: Path, book: Path = _BOOK) -> None:
    """Write a notebook for each exercise of the pages' sources into the folder; of roles stay the words."""
    import jupytext  # type: ignore[import-untyped]

    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(book.glob("*.md")):
        cells = jupytext.reads(page.read_text("utf-8-sig"), fmt="md:myst").cells
        heads = (re.search(r"^# (.+)$", cell.source, re.MULTILINE) for cell in cells if cell.cell_type == "markdown")
        title = next((head[1] for head in heads if head), page.stem)
        for function, made in exercises_in(cells, title):
            made[0].source = _ROLE.sub(r"\1", _NUMBER.sub("", made[0].source))
            nbformat.write(nbformat.v4.new_notebook(cells=made), folder / f"{notebook_name(page.stem, function)}.ipynb")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
