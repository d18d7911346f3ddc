"""README's table of pages, made from their heads and `_toc.yml`, and rules for what a chapter says comes next.

`make format` writes the table between its two markers. A draft (``draft: true`` in its head) is not announced,
so nothing has to name it. Numbers of chapters, figures and tables are the book's to give: a typed one is a fault.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from measured_book.sources.names import REFERENCE
from sources import is_draft, read_head, read_source

#: What stands around README's table.
BEGIN, END = "<!-- pages: written by make format -->", "<!-- end of pages -->"
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_ROLE = re.compile(r"\{[\w-]+\}`([^`<]+?)\s*(?:<[^`>]+>)?`")
_LABEL = re.compile(r"^\(([\w-]+)\)=$", re.MULTILINE)
#: The headings under which a chapter names the one behind it.
_LEADS_ON = re.compile(r"^## (What comes next|Read on)$", re.MULTILINE)
_REFERENCE = re.compile(r"\{ref\}`(?:[^`<]*<)?([\w-]+)>?`")
#: A link that says which chapter it leads to.
_PLACED = re.compile(r"\{ref\}`[^`<]*\b(first|last|next|previous) chapter\s*<([\w-]+)>`", re.IGNORECASE)
_TYPED = re.compile(r"\b(?:chapter|figure|table)s?\s\d+(?:\.\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Book:
    """The pages that readers are told of, in their order, the chapters among them, and the page of each label."""

    pages: tuple[str, ...]
    chapters: tuple[str, ...]
    labels: dict[str, str]

    def named(self, page: str, place: str) -> str | None:
        """Return the chapter at a ``place`` seen from a page: first, last, next or previous; None if there is none."""
        at = self.chapters.index(page) if page in self.chapters else len(self.chapters)
        found = {"first": 0, "last": len(self.chapters) - 1, "next": at + 1, "previous": at - 1}[place]
        return self.chapters[found] if 0 <= found < len(self.chapters) else None


def read_contents(root: Path) -> Any:
    """Return the table of contents of the checkout at ``root``."""
    with (root / "_toc.yml").open("rb") as file:  # by whose name an error tells it
        return yaml.safe_load(file)


def pages_in(contents: Any) -> list[str]:
    """Return the pages that a part of `_toc.yml` names, also those that lie under others, in their order."""
    if isinstance(contents, list):
        return [name for each in contents for name in pages_in(each)]
    if not isinstance(contents, dict):
        return []
    own = [str(contents[key]) for key in ("root", "file") if key in contents]
    return own + [name for value in contents.values() for name in pages_in(value)]


def finished(text: str) -> str:
    """Return the text of a draft without the line of its head that says so."""
    return re.sub(r"\Adraft:\s*true\s*$|(?<=\n)draft:\s*true\s*$", "draft: false", text, count=1, flags=re.MULTILINE)


def read_book(root: Path, told_of: str | None = None) -> Book:
    """Return the book of the checkout at ``root``, as if a draft ``told_of`` were none.

    Nested pages belong to the page that they lie under.
    """
    contents: dict[str, Any] = read_contents(root)
    parts = [(part["caption"], [each["file"] for each in part["chapters"]]) for part in contents["parts"]]
    texts = {path.stem: path.read_text("utf-8-sig") for path in sorted(root.glob("book/*.md"))}
    drafts = {name for name, text in texts.items() if name != told_of and is_draft(text)}
    told = [(caption, [name for name in names if name not in drafts]) for caption, names in parts]
    pages = (contents["root"], *(name for _, names in told for name in names))
    chapters = tuple(name for caption, names in told if caption != REFERENCE for name in names)
    return Book(pages, chapters, {label: name for name, text in texts.items() for label in _LABEL.findall(text)})


def page_table(root: Path, book: Book) -> str:
    """Return README's table: of each page that measures, what a reader gets and how long it takes; links to the others.

    The first page, which is no chapter, is left out.
    """
    rows, others = ["| page | you get | time |", "|---|---|---|"], []
    for name in book.pages[1:]:
        path = root / "book" / f"{name}.md"
        text = path.read_text("utf-8-sig") if path.is_file() else ""  # of which the build tells
        title, head = _TITLE.search(text), read_head(text)
        link = f"[{title[1] if title else name.capitalize()}](book/{name}.md)"
        if head is None:
            others.append(link)
        else:
            rows.append(f"| {link} | {_ROLE.sub(lambda role: role[1], head['get'])} | {head['time']} |")
    table = "\n".join(rows)
    return f"{table}\n\nThere are also these pages: {', '.join(others)}." if others else table


def with_table(readme: str, table: str) -> str:
    """Return the text of README with this table between the markers.

    Raises:
        ValueError: if a marker is missing.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the table of pages must stand between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def table_faults(readme: str, table: str) -> Iterator[tuple[int, str]]:
    """Yield that README's table of pages is missing or out of date, with its line."""
    try:
        if with_table(readme, table) != readme:
            yield readme.splitlines().index(BEGIN) + 1, "the table of pages is out of date: run make format"
    except ValueError as error:
        yield 1, str(error)


def page_faults(page: str, text: str, book: Book) -> Iterator[tuple[int, str]]:
    """Yield each fault of what a page says of the places of others, with its line."""
    follows = book.named(page, "next") if page in book.chapters else None
    for heading in _LEADS_ON.finditer(text) if follows else ():
        linked = _REFERENCE.search(text[heading.end() :].partition("\n## ")[0])
        if linked is None or book.labels.get(linked[1]) != follows:
            yield _line(text, heading), f"{heading[1]!r} must lead to `{follows}` first, which comes next in _toc.yml"
    for link in _PLACED.finditer(text):
        there = book.named(page, link[1].lower())
        if book.labels.get(link[2]) != there:
            yield _line(text, link), f"`{link[2]}` is not the {link[1].lower()} chapter: in _toc.yml that is {there}"
    for number, line in read_source(text).prose.items():
        if typed := _TYPED.search(line):
            yield number, f"{typed[0]!r} is typed and goes stale: name it by {{ref}} or {{numref}}"


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1


def faults(root: Path, told_of: str | None = None) -> list[tuple[str, int, str]]:
    """Return file, line and fault of each page that names others in the checkout at ``root``; see `read_book`."""
    book, found = read_book(root, told_of), []
    for path in sorted(root.glob("book/*.md")):
        found += [(f"book/{path.name}", *fault) for fault in page_faults(path.stem, path.read_text("utf-8-sig"), book)]
    return found
