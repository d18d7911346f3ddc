"""Reading of a page as it is published: what a reader should not meet where numbers and words fill its sentences.

That is a word that stands twice, "not measured in this build" in the middle of a sentence, and a verdict that may be
another one on another machine. Noise fails no build: how the page is written decides it. HTML of code is not read.
"""

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from measured_book.elements.exhibits import Exhibit
from measured_book.elements.slots import Slot
from measured_book.state import LEFT_OUT
from tinytorch.report.records import ABSENT

LOGGER = logging.getLogger(__name__)
#: Words that may stand twice.
_DOUBLED = frozenset({"that", "had"})
_NOT_PROSE = (nodes.FixedTextElement, nodes.literal, nodes.math)
#: Stand for code and formulas, and for what was not measured.
_OTHER, _HOLE = "\ufffc", "\ue000"
_TWICE = re.compile(r"(?<![\w’'-])([^\W\d_]+)\s+\1(?![\w’'-])", re.IGNORECASE)
#: What was not measured with its sentence around it, and the places where it may stand.
_AROUND_HOLE = re.compile(rf"[^.!?]*{_HOLE}[^.!?]*[.!?]?")
_FILLS_ITS_LINE = re.compile(rf"(?:.*:|\s*It is|)\s*{_HOLE}[.;]?\s*", re.DOTALL)


def _text(inside: nodes.Element) -> str:
    """Return the text of what is in a node, with one character for what is no prose or was not measured."""
    text = ""
    for child in inside.children:
        if isinstance(child, Slot):
            record = child["record"]
            is_hole = record["kind"] == ABSENT and record["reason"] != LEFT_OUT
            text += child.get("before", "") + (_HOLE if is_hole else child["text"]) + child.get("after", "")
        elif isinstance(child, nodes.Text):
            text += child.astext()
        elif isinstance(child, nodes.raw):
            text += child.get("words", " ")
        elif isinstance(child, _NOT_PROSE) or not isinstance(child, nodes.Element):
            text += _OTHER
        else:
            text += _text(child)
    return text


def _lines(page: nodes.Element) -> Iterator[tuple[nodes.Element, str]]:
    """Yield the lines of a page: those of its text, what stands behind its slots, and what its exhibits hold."""
    for node in page.findall(nodes.Element):
        if isinstance(node, Slot):
            yield from ((node, line) for line in node["lines"])
        elif isinstance(node, Exhibit) and "alt" not in node:
            yield node, node["record"]["caption"]
            for laid in node["laid"]:
                yield node, laid.column.label
                yield from ((node, f"{cell.text} {cell.spread}") for cell in laid.cells)
        elif isinstance(node, Exhibit | nodes.image):
            yield node, node.get("alt", "")
        elif isinstance(node, nodes.TextElement) and not isinstance(node, (nodes.Inline, *_NOT_PROSE)):
            yield node, _text(node)


def _shown(text: str) -> str:
    return " ".join(text.replace(_HOLE, "not measured in this build").replace(_OTHER, "…").split())


def problems(page: nodes.Element) -> dict[str, nodes.Element]:
    """Return what a reader should not meet on a page, whose slots and exhibits are filled, with where it stands."""
    found: dict[str, nodes.Element] = {}
    for node, text in _lines(page):
        shown = _shown(text)
        for twice in _TWICE.finditer(shown):
            if twice[1].casefold() not in _DOUBLED:
                around = shown[max(0, twice.start() - 60) : twice.end() + 40]
                found.setdefault(f"{twice[1]!r} stands twice: “{around}”", node)
        record = node["record"] if isinstance(node, Slot) else {}
        if record.get("tests") and not record["fixed"] and node["text"] == record["word"]:
            found.setdefault(f"{node['text']!r} may be open elsewhere: write an {{outcome}} with a text for each", node)
        in_table = isinstance(node.parent, nodes.entry)
        for hole in () if in_table else _AROUND_HOLE.finditer(text):
            if not _FILLS_ITS_LINE.fullmatch(hole[0]):
                found.setdefault(f"what was not measured leaves a hole: “{_shown(hole[0])}”", node)
    return found


class ReadPage(SphinxPostTransform):
    """Report of what a reader should not meet on a page that is written, which makes the build fail."""

    default_priority = 15  # behind what fills the page and resolves references, ahead of what makes HTML of some
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Read the page."""
        for problem, node in problems(self.document).items():
            place: nodes.Node | None = node
            while place is not None and not (place.source and place.line):
                place = place.parent
            LOGGER.warning("%s [reading]", problem, location=place or self.env.docname, type="reading")


def setup(app: Sphinx) -> None:
    """Add the transform that reads each page."""
    app.add_post_transform(ReadPage)
