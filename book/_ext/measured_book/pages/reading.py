"""Reading of a page as it is published: what a reader should not meet where numbers and words fill its sentences.

`problems` finds, each with its sentence:

1. a word that stands twice;
2. a verdict, or "not measured in this build", that breaks its sentence;
3. a number shown as zero that is not;
4. a value with ± whose interval is wider than it;
5. more than two measured numbers in a sentence of prose: paragraph, item, answer, evidence, caption.
   Other words about the same number, such as the ends of its interval, count with it; cells of tables do not count.

Noise fails no build. 1, 2 and 5 are decided by how the page is written: a verdict that rests on a measured number must
stand where "up to 16 % faster, perhaps nothing" can, whichever word this build shows. 3 and 4 look at values, but no
value is shown so: who finds one has found a fault in `tinytorch.report.numbers`. That factors multiply to their total
is decided by noise, so it is no problem but a notice, and is counted on the page's card: see `unequal_products`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString
from docutils import nodes
from measured_book.state import LEFT_OUT, state_of
from sphinx.application import Sphinx
from sphinx.util import logging

from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json
from tinytorch.report.verdicts import OPEN, UNTESTED, WITHHELD

LOGGER = logging.getLogger(__name__)
#: Finds the record ``page:key``; None if it is not known.
Find = Callable[[str], Json | None]
_SHOWN_KINDS = (*NUMBER_KINDS, "verdict", ABSENT)
#: Measured numbers that one sentence may hold.
MOST_NUMBERS = 2
#: Words that may stand twice.
_DOUBLED = frozenset({"that", "had"})
#: Within these, text is a line of its own.
_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "caption", "dd", "desc", "details", "div", "dl", "dt"),
        *("fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "label"),
        *("legend", "li", "main", "ol", "option", "p", "section", "summary", "table", "tbody", "td", "tfoot", "th"),
        *("thead", "tr", "ul"),
    }
)
_NOT_PROSE = frozenset({"code", "kbd", "math", "nav", "pre", "samp", "script", "select", "style", "template"})
#: Classes of what is not read: tags beside numbers, names of sources, and the numbers that a claim lists as its own.
_NOT_READ = frozenset({"kind-tag", "quoted-source", "claim-numbers", "claim-source", "visually-hidden", "headerlink"})
_DRAWING = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
_WORDS_FOR_DRAWING = re.compile(r"<desc\b.*?</desc>", re.DOTALL)
#: Stands for code and formulas.
_OTHER = "\ufffc"
#: The characters that stand for a block's slots, in their order: Unicode's for private use.
_FIRST_SLOT, _LAST_SLOT = "\ue000", "\uf8ff"
_SLOT = re.compile(f"[{_FIRST_SLOT}-{_LAST_SLOT}]")
_TWICE = re.compile(r"(?<![\w’'-])([^\W\d_]+)\s+\1(?![\w’'-])", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bet al)(?<!\bvs)(?<!\bcf)[.!?…][”’\"')\]]*(?=\s)")
_NUMBER = r"[−-]?\d[\d,]*(?:\.\d+)?"
_SHOWN = re.compile(rf"(?<![\w.]){_NUMBER}")
_PLUS_MINUS = re.compile(rf"(?<![\w.])({_NUMBER})(?:\s*[^\W\d_]+(?:/s)?|\s*[%×])?\s*±\s*(\d[\d,]*(?:\.\d+)?)")
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


@dataclass(frozen=True)
class Slot:
    """One number or word of a page that code put there: its text, what stands behind it, and its record if known."""

    text: str
    detail: str
    kinds: frozenset[str]
    record: Json | None


@dataclass
class Block:
    """A line of a page: its text, in which each slot is one character, and the slots; also a cell's number."""

    prose: bool
    value: tuple[str, float] | None = None
    text: str = ""
    slots: list[Slot] = field(default_factory=list)

    def filled(self, text: str | None = None) -> str:
        """Return ``text``, by default all of the block's, with the slots' texts in their places."""
        filled = _SLOT.sub(lambda found: self.slot(found[0]).text, self.text if text is None else text)
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


class _Reader:
    """Reads blocks out of a page's HTML."""

    def __init__(self, find: Find) -> None:
        self.find = find
        self.blocks: list[Block] = []
        self._details: dict[str, str] = {}

    def read(self, html: str) -> list[Block]:
        """Return the blocks of ``html``; of a drawing only the words for it."""
        html = _DRAWING.sub(lambda found: "".join(_WORDS_FOR_DRAWING.findall(found[0])), html)
        page = BeautifulSoup(html, "html.parser")
        root = page.find("main") or page
        for detail in root.find_all("span", class_="measured-detail"):
            self._details[str(detail.get("id"))] = " ".join(detail.get_text(" ").split())
        self._into(root, self._new(prose=True), prose=True)
        return [block for block in self.blocks if block.text.strip()]

    def _new(self, *, prose: bool) -> Block:
        self.blocks.append(Block(prose))
        return self.blocks[-1]

    def _into(self, tag: Tag, block: Block, *, prose: bool) -> None:
        """Read what is in ``tag`` into ``block``; blocks within it, and what follows them, into new ones."""
        for child in tag.children:
            if isinstance(child, NavigableString):
                block.text += str(child) if type(child) is NavigableString else ""
                continue
            if not isinstance(child, Tag):
                continue
            classes = set(child.get_attribute_list("class"))
            if classes & _NOT_READ:
                block.text += " "
            elif child.name in _NOT_PROSE:
                block.text += _OTHER
            elif "measured-detail" in classes:
                self._read_detail(child)
            elif child.name == "button" and "measured" in classes:
                self._add_slot(child, classes, block)
            elif child.name in _BLOCKS:
                within = prose and child.name != "table"
                inner = self._new(prose=within)
                if child.name == "td" and child.has_attr("data-value"):
                    beside = child.find(class_="spread")
                    shown = child.get_text().removesuffix(beside.get_text() if beside else "")
                    inner.value = shown, float(str(child["data-value"]))
                self._into(child, inner, prose=within)
                block = self._new(prose=prose)
            elif child.name == "br":
                block = self._new(prose=prose)
            else:
                self._into(child, block, prose=prose)

    def _read_detail(self, detail: Tag) -> None:
        """Read each line of what stands behind a number into a block of its own."""
        for part in detail.children:
            if isinstance(part, Tag):
                self._into(part, self._new(prose=False), prose=False)
            else:
                for line in filter(str.strip, str(part).split("\n")):
                    self._new(prose=False).text += line

    def _add_slot(self, button: Tag, classes: set[str], block: Block) -> None:
        for tag in button.find_all(class_="kind-tag"):
            tag.decompose()
        detail = self._details.get(str(button.get("popovertarget")), "")
        key = button.get("data-key")
        record = self.find(str(key)) if key is not None else None
        block.text += chr(ord(_FIRST_SLOT) + len(block.slots))
        block.slots.append(Slot(" ".join(button.get_text().split()), detail, frozenset(classes), record))


def _number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def _last_digit(text: str) -> float:
    """Return what one unit of the last digit of a shown number is worth."""
    return float(10.0 ** -len(text.partition(".")[2]))


def _around(text: str, found: re.Match[str]) -> str:
    """Return what is found with some of the text around it, between quotation marks."""
    begin, end = max(0, found.start() - 60), found.end() + 40
    return f"“{'… ' if begin else ''}{text[begin:end].strip()}{' …' if end < len(text) else ''}”"


def _doubled(filled: str) -> Iterator[str]:
    for found in _TWICE.finditer(filled):
        if found[1].casefold() not in _DOUBLED:
            yield f"{found[1]!r} stands twice: {_around(filled, found)}"


def _wider_than_its_value(filled: str) -> Iterator[str]:
    """Yield each value with ± whose interval is wider than it, whatever rounding took from both."""
    for found in _PLUS_MINUS.finditer(filled):
        value, half = abs(_number(found[1])) + _last_digit(found[1]) / 2, _number(found[2]) - _last_digit(found[2]) / 2
        if 2 * half > value:
            yield f"the interval is wider than the value, so both ends must be shown: {_around(filled, found)}"


def _is_false_zero(text: str, values: Sequence[float]) -> bool:
    """Return whether ``text`` shows one number, as zero, although none of ``values`` is."""
    shown = _SHOWN.findall(text)
    return len(shown) == 1 and _number(shown[0]) == 0 and 0 not in values


def _false_zeros(block: Block) -> Iterator[str]:
    if block.value is not None and _is_false_zero(block.value[0], [block.value[1]]):
        yield f"{block.value[1]!r} is shown as zero: “{block.filled()}”"
    for slot in block.slots:
        if slot.record is None or slot.record["kind"] not in NUMBER_KINDS:
            continue
        ends = slot.record["interval"] or {}
        values = [slot.record["value"], *(ends[end] for end in ("low", "high") if end in ends)]
        if _is_false_zero(slot.text, values):
            yield f"{slot.record['value']!r} is shown as zero: “{block.filled()}”"


def _may_be_undecided(slot: Slot, find: Find) -> bool:
    """Return whether the slot's word rests on what was measured, so that some build may not decide it."""
    if slot.record is None:
        return slot.text.startswith(OPEN)
    if slot.record["outcome"] in (OPEN, WITHHELD, UNTESTED):
        return True
    page = slot.record["page"]
    numbers = (find(key if ":" in key else f"{page}:{key}") for key in slot.record["numbers"])
    return any(number is not None and number["kind"] == "measured" for number in numbers)


def _broken(block: Block, sentence: str, find: Find) -> Iterator[str]:
    """Yield each slot that breaks its sentence, or that would with what is known of an open one."""
    said = f"“{block.filled(sentence)}”"
    for mark in _SLOT.finditer(sentence):
        slot = block.slot(mark[0])
        before, behind = sentence[: mark.start()], sentence[mark.end() :]
        listed = _LISTED_BEFORE.search(before) and _LISTED_BEHIND.fullmatch(behind)
        apart = (_APART_BEFORE.search(before) or _NAMED_BEFORE.search(before)) and _APART_BEHIND.match(behind)
        if "absent" in slot.kinds:
            if not listed and LEFT_OUT not in slot.detail:
                yield f"what was not measured leaves a hole: {said}"
        elif "verdict" not in slot.kinds:
            continue
        elif before and (_IS_SENTENCE.search(slot.text) or _BEGINS_WITH.match(slot.text)):
            yield f"{slot.text!r} is a sentence within a sentence: {said}"
        elif _FOLLOWED_BY.match(behind):
            yield f"behind {slot.text!r} a sentence begins within a sentence: {said}"
        elif not apart and _may_be_undecided(slot, find):
            yield f"{_SAMPLE!r} cannot stand in the place of {slot.text!r}: {said}"


def _too_many(block: Block, sentence: str) -> Iterator[str]:
    slots = (block.slot(mark) for mark in _SLOT.findall(sentence))
    numbers = {slot.detail for slot in slots if not slot.kinds & {"verdict", "absent"}}
    if len(numbers) > MOST_NUMBERS:
        yield f"{len(numbers)} measured numbers in a sentence, at most {MOST_NUMBERS}: “{block.filled(sentence)}”"


def problems(html: str, find: Find) -> list[str]:
    """Return what a reader should not meet on a page, a line each.

    Args:
        html: of the page, or of its text.
        find: finds the records behind the page's slots.
    """
    found: list[str] = []
    for block in _Reader(find).read(html):
        filled = block.filled()
        found += [*_doubled(filled), *_wider_than_its_value(filled), *_false_zeros(block)]
        for sentence in block.sentences() if block.prose else ():
            found += [*_broken(block, sentence, find), *_too_many(block, sentence)]
    return list(dict.fromkeys(found))


def unequal_products(table: Json) -> Iterator[str]:
    """Yield the rows of a table in which the factors so far do not multiply to their total within their intervals.

    They do if the product of all lower ends is not above the total's upper end, nor that of all upper ends below its
    lower end. A page's card counts the tables in which they do not.
    """
    for column in table.get("columns", []):
        product = (1.0, 1.0)
        for row in table["rows"] if "total" in column else ():
            factor, total = row[column["key"]], row[column["total"]]
            if not (isinstance(factor, dict) and isinstance(total, dict)):
                continue
            ends = _ends(factor)
            product = (product[0] * ends[0], product[1] * ends[1])
            low, high = _ends(total)
            if product[0] > high or product[1] < low:
                name = row[table["columns"][0]["key"]]
                made, told = f"{product[0]:.3g} to {product[1]:.3g}", f"{low:.3g} to {high:.3g}"
                yield f"factors of table {table['key']!r} multiply to {made} in the row {name!r}, their total is {told}"


def _ends(number: Json) -> tuple[float, float]:
    interval = number["interval"]
    return (interval["low"], interval["high"]) if interval else (number["value"], number["value"])


def read_page(app: Sphinx, pagename: str, _: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Report what a reader should not meet on a page that is written, which makes the build fail."""
    if doctree is None:
        return
    state = state_of(app.env)
    for problem in problems(context.get("body", ""), lambda key: state.find(key, pagename, *_SHOWN_KINDS)):
        LOGGER.warning("%s [reading]", problem, location=pagename, type="reading")


def setup(app: Sphinx) -> None:
    """Connect to the writing of each page."""
    app.connect("html-page-context", read_page)
