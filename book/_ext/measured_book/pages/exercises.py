"""Exercises: a task's empty function, its check, and the folded solution, all made of the solution that ran.

A chapter holds a cell tagged ``solution``, which defines functions, and behind it a cell tagged ``check``, which calls
their check. Both run when the book is built, so that a solution that its check refuses fails the build.
"""

from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import DoctreeReadEvent, SphinxTransform
from sphinx.util import logging

from measured_book.elements.nodes import Fold, LateHtml, load_where
from measured_book.notebooks.exercises import CHECK, SOLUTION, exercise_skeleton, is_tagged, name_of, notebook_name
from measured_book.notebooks.exercises import FOLDER as IN_CHECKOUT
from measured_book.notebooks.package import source_of
from measured_book.sources.repository import binder_address

LOGGER = logging.getLogger(__name__)
STYLE = "exercise.css"
#: Of the notebooks in the site; `measured_book.notebooks.files` makes them.
FOLDER = "_notebooks"


class ExerciseStart(LateHtml):
    """Line above each exercise: where to do it in its own notebook, and what that needs. Attribute: ``function``."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return the ways to do the exercise of a page whose function is ``function``."""
        up = "../" * docname.count("/")
        name = notebook_name(docname, self["function"])
        files = [f"{up}{FOLDER}/{name}-{kind}.ipynb" for kind in ("empty", "colab")]
        repository = app.config.book_repository
        ways = []
        if repository is not None:
            address = binder_address(repository, f"{IN_CHECKOUT}/{name}.ipynb")
            ways.append(f'<a class="way" href="{escape(address)}" rel="noopener">Open in Binder</a>')
        ways.append(f'<a class="way" href="{escape(files[0])}" download>Download its notebook</a>')
        source = source_of(app.env)
        if source is not None:
            ways.append(f'<a class="way" href="{escape(files[1])}" download>For Colab</a>')
        there = "A session on Binder is temporary, so download your work. " if repository is not None else ""
        if source is not None and source.wheel is not None:
            wheel = escape(f"{up}{FOLDER}/{source.wheel}")
            there += (
                f'In Colab, upload the notebook for it and, into its folder of files, <a href="{wheel}" download>the '
                "package</a>; its first cell installs that. "
            )
        notebook = escape(f"{name.rpartition('/')[2]}-empty.ipynb")
        return (
            f'<div class="exercise-start"><p>{" ".join(ways)}</p>\n<details><summary>How to start</summary>\n'
            f"<p>{there}On your own machine, download the notebook, and in a clone of the repository run:</p>\n"
            f'<pre tabindex="0"><code>make environment\n.venv/bin/jupyter lab ~/Downloads/{notebook}</code></pre>\n'
            "<p>Run its cells one after the other: the imports, the function that you write, and the check, which "
            "tells you what is still wrong.</p></details></div>"
        )


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
    said = _labelled("The check of this solution says:", outputs[0]) if outputs else []
    fold = Fold(
        "", solution, *said, *outputs[1:], summary="A solution, and what its check says", classes=["exercise-solution"]
    )
    exercise = nodes.container(
        "",
        ExerciseStart(function=name_of(_source(solution), _source(check))),
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


def setup(app: Sphinx) -> None:
    """Register the transform and its style."""
    app.add_transform(ArrangeExercises)
    load_where(app, ('class="exercise-start"',), (STYLE,))
