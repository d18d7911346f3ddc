"""Index of the book's own search: the text of every section, in one script that also works from a folder.

Each word of the glossary and each claim of the ledger is a section of its own. Numbers stand in their sentences, and so
do formulas that one line can hold; in the place of others, without which a sentence would not read, stands an ellipsis.

`book/search.txt` has questions that readers ask, each with the section that answers it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

from measured_book.elements.numbering import chapter_number
from measured_book.state import reading_order, state_of
from tinytorch.perf.measuring.atomic_io import write_whole

LOGGER = logging.getLogger(__name__)
#: Relative to the site's root; `book/_static/search.js` reads it.
INDEX = "search-index.js"
_BEGIN, _MIDDLE, _END = "globalThis.searchIndex = ", ";\nglobalThis.searchQuestions = ", ";\n"
#: Lines of a question, a bar and the address of a section.
QUESTIONS = "search.txt"
PAGE, TEMPLATE = "search", "search.html"
#: What says nothing to who searches, or stands behind something else.
_SKIPPED_TAGS = {"svg", "script", "style", "form", "select"}
_SKIPPED_CLASSES = {
    "measured-detail",
    "exercise-start",
    "headerlink",
    "page-line",
    "page-top",
    "predict-outcome",
    "measured-card",
    "claim-test",
    "claim-wall",
    "eqno",
    "copy",
    "chapter-number",
    "numeric",  # cells that say little without the heads of their columns
    "spread",
    "predict-result",
}
#: Parts of a formula that no line of plain text can hold.
_HIGH = {"mfrac", "mtable", "msqrt", "mroot", "munder", "mover", "munderover", "msubsup"}
#: Formulas that follow one another, and numbers.
_ELLIPSES = re.compile("…(?: ?…)+")
_VOID = {"br", "img", "hr", "input", "meta", "link", "wbr", "col", "source"}
#: Of a page: the address on it, the heading and the text of each.
Sections = list[list[str]]
#: Of each page its title, its address and its sections.
Pages = list[tuple[str, str, Sections]]
_HEADINGS = {"h1", "h2", "h3", "h4"}
#: What begins a section beside the sections: a word of the glossary and a claim of the ledger, by their addresses.
_ROWS = ("term-", "ledger-")
_BLOCKS = {
    "p",
    "li",
    "td",
    "th",
    "tr",
    "pre",
    "dt",
    "dd",
    "caption",
    "figcaption",
    "div",
    "summary",
    "label",
} | _HEADINGS


@dataclass
class Section:
    """A section of a page: its address on it, its heading, and its text without that of sections inside."""

    anchor: str
    heading: str = ""
    text: list[str] = field(default_factory=list)

    def entry(self) -> list[str]:
        """Return the section as the index holds it."""
        text = _ELLIPSES.sub("…", " ".join("".join(self.text).split()))
        return [self.anchor, " ".join(self.heading.split()), text]


class _Reader(HTMLParser):
    """Reader of a page's article, section by section."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.sections: list[Section] = []
        self._open: list[int] = []  # of each open element, how many sections are open at its end
        self._inside: list[Section] = []
        self._skipping = 0  # depth of what is left out
        self._in_article = False
        self._in_heading = False
        self._formula: list[str] | None = None  # its text so far
        self._in_formula: list[tuple[str, int]] = []  # open elements of a formula, and how many parts each has had

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        classes = set((given.get("class") or "").split())
        if tag == "article":
            self._in_article = True
        if tag in _VOID or not self._in_article:
            return
        if self._skipping:
            self._skipping += 1
            return
        if tag == "math":
            self._formula = []
        if self._formula is not None:
            self._begin_part(tag)
            return
        if tag in _SKIPPED_TAGS or (classes & _SKIPPED_CLASSES and tag != "th"):
            self._skipping = 1
            return
        anchor = given.get("id") or ""
        is_row = tag in ("dt", "tr") and anchor.startswith(_ROWS)
        if tag == "dt" and is_row:  # ends the one before, and holds the text of what defines it, which follows
            del self._inside[self._open[-1] :]
            self._inside.append(Section(anchor))
        self._open.append(len(self._inside))
        if tag == "section" or (tag == "tr" and is_row):
            self._inside.append(Section(anchor))
        if tag == "section" or is_row:
            self.sections.append(self._inside[-1])
        self._in_heading = tag != "p" and (self._in_heading or tag in _HEADINGS or is_row)
        if tag in _BLOCKS:
            self._say(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._in_article = False
        if tag in _VOID or not self._in_article:
            return
        if self._skipping:
            self._skipping -= 1
            return
        if self._formula is not None:
            self._in_formula.pop()
            if tag == "math":
                text, self._formula = "".join(self._formula), None
                self._say("…" if "…" in text else text)
            return
        if self._open:
            del self._inside[self._open.pop() :]
        if tag in _HEADINGS | {"dt", "th"}:
            self._in_heading = False
        if tag in _BLOCKS:
            self._say(" ")

    def _begin_part(self, tag: str) -> None:
        """Begin an element of a formula, raised ones after a sign for it: 10^3."""
        assert self._formula is not None
        if self._in_formula:
            around, parts = self._in_formula[-1]
            self._in_formula[-1] = around, parts + 1
            if around == "msup" and parts == 1:
                self._formula.append("^")
        if tag in _HIGH:
            self._formula.append("…")
        self._in_formula.append((tag, 0))

    def handle_data(self, data: str) -> None:
        if self._formula is not None and not self._skipping:
            self._formula.append(data)
        elif self._in_article and not self._skipping:
            self._say(data)

    def _say(self, text: str) -> None:
        if not self._inside:
            return
        if self._in_heading:
            self._inside[-1].heading += text
        else:
            self._inside[-1].text.append(text)


def sections_of(html: str) -> Sections:
    """Return the sections of a page in their order, as the index holds them."""
    reader = _Reader()
    reader.feed(html)
    return [section.entry() for section in reader.sections]


def index_of(pages: Pages, questions: Sequence[tuple[str, str]]) -> str:
    """Return the script that holds the text of these pages and the questions, each with the address of its answer."""
    written = (json.dumps(part, ensure_ascii=False, separators=(",", ":")) for part in (pages, questions))
    return f"{_BEGIN}{_MIDDLE.join(written)}{_END}"


def sections_in(index: str) -> dict[str, Sections]:
    """Return the sections that the script ``index`` holds, by the address of their page."""
    # An index without questions, which an older version of the book left, ends after the pages.
    pages = json.loads(index.removeprefix(_BEGIN).partition(_MIDDLE)[0].removesuffix(_END))
    return {address: sections for _, address, sections in pages}


def questions_in(path: Path, pages: Pages) -> list[tuple[str, str]]:
    """Return the questions in the file at ``path``, if there is one; warn of an answer that no page has."""
    known = {f"{address}#{anchor}" for _, address, sections in pages for anchor, *_ in sections}
    found = []
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        question, _, address = (part.strip() for part in line.partition("|"))
        if address in known:
            found.append((question, address))
        else:
            said = "no section %r, which should answer %r [site]"
            LOGGER.warning(said, address, question, location=f"{path}:{number}", type="site")
    return found


def write_index(app: Sphinx, exception: Exception | None) -> None:
    """Write the index of all pages, of which those that this build did not write are taken from the last one."""
    if exception is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    names = [name for name in reading_order(app.env) if name in app.env.titles]
    index = site / INDEX
    last = index.read_text("utf-8") if index.is_file() else index_of([], [])
    known, written = sections_in(last), state_of(app.env).written
    pages: Pages = []
    for name in names:
        number = chapter_number(app.env, name)
        title = app.env.titles[name].astext()
        said = title if number is None else f"{number}. {title}"
        address = app.builder.get_target_uri(name)
        kept = known.get(address) if name not in written else None
        pages.append((said, address, sections_of((site / address).read_text("utf-8")) if kept is None else kept))
    if (text := index_of(pages, questions_in(Path(app.srcdir, QUESTIONS), pages))) != last:
        write_whole(index, text)


def no_other_search(app: Sphinx) -> None:
    """Have Sphinx make no index and no page of its own for a search."""
    if app.builder.format == "html":
        app.builder.search = False  # type: ignore[attr-defined]


def search_page(_: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the page for Sphinx to write."""
    yield PAGE, {"title": "Search"}, TEMPLATE


def setup(app: Sphinx) -> None:
    """Connect to a build."""
    app.connect("builder-inited", no_other_search)
    app.connect("html-collect-pages", search_page)
    app.connect("build-finished", write_index)
