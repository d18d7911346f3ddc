"""Reading of a page as it is published: what a reader should not meet where numbers and words fill its sentences.

`problems` finds in a page's document tree, each with its sentence:

1. a word that stands twice;
2. a verdict, or "not measured in this build", that breaks its sentence.

Noise fails no build: both are decided by how the page is written. A verdict that rests on a measured number must stand
where "up to 16 % faster, perhaps nothing" can, whichever word this build shows. What code makes as HTML is not read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from measured_book.elements.exhibits import Exhibit
from measured_book.elements.slots import Slot
from measured_book.state import LEFT_OUT
from tinytorch.report.records import ABSENT
from tinytorch.report.tables import Laid
from tinytorch.report.verdicts import OPEN, UNTESTED, WITHHELD

LOGGER = logging.getLogger(__name__)
#: Words that may stand twice.
_DOUBLED = frozenset({"that", "had"})
_NOT_PROSE = (nodes.FixedTextElement, nodes.literal, nodes.math)
#: Stands for code and formulas.
_OTHER = "\ufffc"
#: The characters that stand for a block's slots, in their order: Unicode's for private use.
_FIRST_SLOT, _LAST_SLOT = "\ue000", "\uf8ff"
_SLOT = re.compile(f"[{_FIRST_SLOT}-{_LAST_SLOT}]")
_TWICE = re.compile(r"(?<![\w’'-])([^\W\d_]+)\s+\1(?![\w’'-])", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bet al)(?<!\bvs)(?<!\bcf)[.!?…][”’\"')\]]*(?=\s)")
#: Words that begin with a capital at the beginning of a sentence only.
_BEGINS = (
    r"(?:The|This|That|These|Those|It|Its|There|They|In|On|At|Of|For|From|With|Without|And|But|Or|So|If|As|By|To|"
    r"Where|When|While|What|Which|Who|Not|No|Both|All|Each|Here|Then)\b"
)
_BEGINS_WITH = re.compile(_BEGINS)
_FOLLOWED_BY = re.compile(rf"\s+{_BEGINS}")
_IS_SENTENCE = re.compile(r"[.!?](?:\s|$)")
#: What a verdict may read where it is open; and what must stand before and behind a place for it.
_SAMPLE = "up to 16 % faster, perhaps nothing"
_APART_BEFORE = re.compile(r"(?:^|[:;,(\[“‘—–])\s*$")
_NAMED_BEFORE = re.compile(r"\b(?:verdicts?|answers?|the words?)\b[^.:;!?]*$", re.IGNORECASE)
_APART_BEHIND = re.compile(
    r"\s*(?:$|[.,;:!?)\]”’—–])|\s+(?:and|at|but|for|from|if|in|on|or|so|where|which|while|with)\b"
)
#: What must stand around "not measured in this build" if it is not all of its line.
_LISTED_BEFORE, _LISTED_BEHIND = re.compile(r"(?::|^It is|^)\s*$"), re.compile(r"[.;]?\s*$")


@dataclass
class Block:
    """A line of a page: its text, in which each slot is one character, and the slots.

    ``node`` is where it stands.
    """

    node: nodes.Element
    prose: bool
    text: str = ""
    slots: list[Slot] = field(default_factory=list)

    def take(self, inside: nodes.Element) -> None:
        """Add the text of what is in a node."""
        for child in inside.children:
            if isinstance(child, Slot) and child["record"]["kind"] == "quoted":
                self.text += child.get("before", "") + child["text"] + child.get("after", "")
            elif isinstance(child, Slot):
                self.text += child.get("before", "") + chr(ord(_FIRST_SLOT) + len(self.slots)) + child.get("after", "")
                self.slots.append(child)
            elif isinstance(child, nodes.Text):
                self.text += child.astext()
            elif isinstance(child, nodes.raw):
                self.text += child.get("words", " ")
            elif isinstance(child, _NOT_PROSE) or not isinstance(child, nodes.Element):
                self.text += _OTHER
            else:
                self.take(child)

    def filled(self, text: str | None = None) -> str:
        """Return ``text``, by default all of the block's, with the slots' texts in their places."""
        filled = _SLOT.sub(lambda found: self.slot(found[0])["text"], self.text if text is None else text)
        return " ".join(filled.replace(_OTHER, "…").split())

    def slot(self, mark: str) -> Slot:
        """Return the slot that a character stands for."""
        return self.slots[ord(mark) - ord(_FIRST_SLOT)]

    def sentences(self) -> Iterator[str]:
        """Yield the block's sentences, in which each slot is one character."""
        begin = 0
        for end in _SENTENCE_END.finditer(self.text):
            yield self.text[begin : end.end()].strip()
            begin = end.end()
        yield self.text[begin:].strip()


def _blocks(page: nodes.Element) -> Iterator[Block]:
    """Yield the lines of a page: those of its text, what stands behind its slots, and what its exhibits hold."""
    in_tables = {id(node) for table in page.findall(nodes.table) for node in table.findall(nodes.TextElement)}
    for node in page.findall(nodes.Element):
        if isinstance(node, Slot):
            yield from (Block(node, prose=False, text=line) for line in node["lines"])
        elif isinstance(node, Exhibit):
            yield from _exhibited(node)
        elif isinstance(node, nodes.image):
            yield Block(node, prose=True, text=node.get("alt", ""))
        elif isinstance(node, nodes.TextElement) and not isinstance(node, (nodes.Inline, *_NOT_PROSE)):
            block = Block(node, prose=id(node) not in in_tables)
            block.take(node)
            yield block


def _exhibited(exhibit: Exhibit) -> Iterator[Block]:
    """Yield the words for a figure, and caption, headings and cells of a table."""
    if "alt" in exhibit:
        yield Block(exhibit, prose=True, text=exhibit["alt"])
        return
    yield Block(exhibit, prose=False, text=exhibit["record"]["caption"])
    laid: Sequence[Laid] = exhibit["laid"]
    for column in laid:
        yield Block(exhibit, prose=False, text=column.column.label)
        for cell in column.cells:
            yield Block(exhibit, prose=False, text=f"{cell.text} {cell.spread}")


def _around(text: str, found: re.Match[str]) -> str:
    """Return what is found with some of the text around it, between quotation marks."""
    begin, end = max(0, found.start() - 60), found.end() + 40
    return f"“{'… ' if begin else ''}{text[begin:end].strip()}{' …' if end < len(text) else ''}”"


def _doubled(filled: str) -> Iterator[str]:
    for found in _TWICE.finditer(filled):
        if found[1].casefold() not in _DOUBLED:
            yield f"{found[1]!r} stands twice: {_around(filled, found)}"


def _broken(block: Block, sentence: str) -> Iterator[str]:
    """Yield each slot that breaks its sentence, or that would with what is known of an open one."""
    said = f"“{block.filled(sentence)}”"
    for mark in _SLOT.finditer(sentence):
        text, record = block.slot(mark[0])["text"], block.slot(mark[0])["record"]
        before, behind = sentence[: mark.start()], sentence[mark.end() :]
        listed = _LISTED_BEFORE.search(before) and _LISTED_BEHIND.fullmatch(behind)
        apart = (_APART_BEFORE.search(before) or _NAMED_BEFORE.search(before)) and _APART_BEHIND.match(behind)
        if record["kind"] == ABSENT:
            if not listed and record["reason"] != LEFT_OUT:
                yield f"what was not measured leaves a hole: {said}"
        elif record["kind"] != "verdict":
            continue
        elif before and (_IS_SENTENCE.search(text) or _BEGINS_WITH.match(text)):
            yield f"{text!r} is a sentence within a sentence: {said}"
        elif _FOLLOWED_BY.match(behind):
            yield f"behind {text!r} a sentence begins within a sentence: {said}"
        elif not apart and record["outcome"] in (OPEN, WITHHELD, UNTESTED):
            yield f"{_SAMPLE!r} cannot stand in the place of {text!r}: {said}"


def problems(page: nodes.Element) -> dict[str, nodes.Element]:
    """Return what a reader should not meet on a page, a line each, with where it stands.

    Slots and exhibits of the page are filled.
    """
    found: dict[str, nodes.Element] = {}
    for block in _blocks(page):
        said = list(_doubled(block.filled()))
        for sentence in block.sentences() if block.prose else ():
            said += _broken(block, sentence)
        for each in said:
            found.setdefault(each, block.node)
    return found


class ReadPage(SphinxPostTransform):
    """Report of what a reader should not meet on a page that is written, which makes the build fail."""

    default_priority = 15  # behind what fills the page and resolves references, ahead of what makes HTML of some
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Read the page."""
        for problem, node in problems(self.document).items():
            LOGGER.warning("%s [reading]", problem, location=_with_line(node) or self.env.docname, type="reading")


def _with_line(node: nodes.Node) -> nodes.Node | None:
    """Return the nearest node around one that knows its line in the source, or the node itself; None without."""
    while node is not None and not (node.source and node.line):
        node = node.parent
    return node


def setup(app: Sphinx) -> None:
    """Add the transform that reads each page."""
    app.add_post_transform(ReadPage)
