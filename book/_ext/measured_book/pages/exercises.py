"""Exercises: a task's empty function, its check, and the folded solution, all made of the solution that ran.

A chapter holds a cell tagged ``solution``, which defines functions, and behind it a cell tagged ``check``, which calls
their check. Both run when the book is built, so that a solution that its check refuses fails the build.
"""

import ast
from html import escape
from typing import Any

from docutils import nodes
from measured_book.notebooks.package import source_of
from measured_book.pages.elements import Fold, LateHtml
from measured_book.site.repository import binder_address
from sphinx.application import Sphinx
from sphinx.transforms import DoctreeReadEvent, SphinxTransform
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
SOLUTION = "solution"
CHECK = "check"
STYLE = "exercise.css"
#: Of the notebooks in the site; `measured_book.notebooks.files` makes them.
FOLDER = "_notebooks"


class ExerciseStart(LateHtml):
    """Line above each exercise: where to do it, what that needs, and which cells to run first."""

    of_all_pages = False

    def html(self, app: Sphinx, docname: str) -> str:
        """Return the ways to do the exercises of a page."""
        up = "../" * docname.count("/")
        files = [f"{up}{FOLDER}/{docname}-{kind}.ipynb" for kind in ("empty", "colab")]
        repository = app.config.book_repository
        ways = []
        if repository is not None:
            address = binder_address(repository, f"book/{docname}.md")
            ways.append(f'<a class="way" href="{escape(address)}" rel="noopener">Open in Binder</a>')
        ways.append(f'<a class="way" href="{escape(files[0])}" download>Download the notebook</a>')
        source = source_of(app.env)
        if source is not None:
            ways.append(f'<a class="way" href="{escape(files[1])}" download>For Colab</a>')
        there = "On Binder a session is temporary: download what you wrote. " if repository is not None else ""
        if source is not None and source.wheel is not None:
            wheel = escape(f"{up}{FOLDER}/{source.wheel}")
            there += (
                f'In Colab, upload the notebook for it and, into its folder of files, <a href="{wheel}" download>the '
                "package</a>; its first cell installs that. "
            )
        notebook = escape(f"{docname.rpartition('/')[2]}-empty.ipynb")
        return (
            f'<div class="exercise-start"><p>{" ".join(ways)}</p>\n<details><summary>How to start</summary>\n'
            f"<p>{there}On your own machine, download the notebook, and in a clone of the repository run:</p>\n"
            f'<pre tabindex="0"><code>make environment\n.venv/bin/jupyter lab ~/Downloads/{notebook}</code></pre>\n'
            "<p>Run the notebook’s first cell of code, which takes a few seconds, then the cell with the empty "
            "function, then the one with its check: it fails until you have written the function. No other cell has "
            "to run.</p></details></div>"
        )


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


def _is_cell(node: nodes.Node | None, tag: str) -> bool:
    is_code = isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"
    return is_code and is_tagged(node.get("cell_metadata", {}), tag)  # type: ignore[union-attr]


def _parts(cell: nodes.container, element: str) -> list[nodes.container]:
    return [part for part in cell.findall(nodes.container) if part.get("nb_element") == element]


def _source(cell: nodes.container) -> str:
    return next(iter(cell.findall(nodes.literal_block))).astext()


def _next(node: nodes.Element) -> nodes.Node | None:
    siblings = node.parent.children
    place = siblings.index(node) + 1
    return siblings[place] if place < len(siblings) else None


def _labelled(label: str, code: nodes.Node) -> list[nodes.Node]:
    return [nodes.paragraph("", label, classes=["exercise-label"]), code]


def _arrange(solution: nodes.container, check: nodes.container) -> None:
    """Put in place of the two cells what a reader needs in this order, and fold the rest."""
    skeleton = exercise_skeleton(_source(solution))
    empty = nodes.literal_block(skeleton, skeleton, language="python", classes=["exercise-skeleton"])
    outputs = _parts(check, "cell_code_output")
    for output in outputs:
        output.parent.remove(output)
    place = solution.parent.index(solution)
    parent = solution.parent
    parent.remove(solution)
    parent.remove(check)
    said = _labelled("The check, run on this solution, says:", outputs[0]) if outputs else []
    fold = Fold(
        "", solution, *said, *outputs[1:], summary="A solution, and what its check says", classes=["exercise-solution"]
    )
    exercise = nodes.container(
        "",
        ExerciseStart(),
        *_labelled("Begin with", empty),
        *_labelled("Check it with", check),
        fold,
        classes=["exercise"],
    )
    parent.insert(place, exercise)


class ArrangeExercises(SphinxTransform):
    """Rearrangement of each solution and its check into an exercise; one without the other is a warning."""

    # As the page's records, behind which it was added: these drop outputs that show nothing.
    default_priority = DoctreeReadEvent.default_priority - 1

    def apply(self, **_: Any) -> None:
        """Arrange every exercise of the page."""
        used = set()
        for solution in self._cells(SOLUTION):
            check = _next(solution)
            if not isinstance(check, nodes.container) or not _is_cell(check, CHECK):
                LOGGER.warning("a cell tagged solution needs one tagged check right behind it", location=solution)
                continue
            used.add(id(check))
            try:
                _arrange(solution, check)
            except ValueError as error:
                LOGGER.warning("a cell tagged solution cannot be an exercise: %s", error, location=solution)
        for check in self._cells(CHECK):
            if id(check) not in used:
                LOGGER.warning("a cell tagged check needs one tagged solution right before it", location=check)

    def _cells(self, tag: str) -> list[nodes.container]:
        return [node for node in self.document.findall(nodes.container) if _is_cell(node, tag)]


def add_style(app: Sphinx, _: str, __: str, ___: dict[str, Any], doctree: nodes.document | None) -> None:
    """Load the style on pages that have exercises."""
    if doctree is not None and any("exercise" in node["classes"] for node in doctree.findall(nodes.container)):
        app.add_css_file(STYLE)


def setup(app: Sphinx) -> None:
    """Connect to the reading and writing of pages."""
    app.add_transform(ArrangeExercises)
    app.connect("html-page-context", add_style)
