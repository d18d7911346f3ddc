"""State of the book in Sphinx's environment: what each page gave when it was last read, kept over builds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from sphinx.environment import BuildEnvironment

from measured_book.sources.names import meant, split_reference, unknown_key
from tinytorch.report.records import ABSENT, Json, page_file

#: Why a page that a build of others read has no records.
LEFT_OUT = "This build ran other pages only: `make book` runs all"


@dataclass(frozen=True)
class CellRun:
    """Execution of one code cell: its first line of code, and the seconds that it took, if they were kept."""

    code: str
    seconds: float | None


@dataclass(frozen=True)
class PageRun:
    """Execution of one page.

    Attributes:
        began: when, in ISO 8601; None if that is not known.
        cells: of code.
        start: seconds before the first cell, in which Python began; None if that was not kept.
        peak_bytes: the most memory that its processes held together; None if that was not kept.
    """

    began: str | None
    cells: tuple[CellRun, ...]
    start: float | None = None
    peak_bytes: int | None = None

    @property
    def seconds(self) -> float | None:
        """Return how long all cells took; None if the time of one is not known."""
        known = [cell.seconds for cell in self.cells if cell.seconds is not None]
        return sum(known) if len(known) == len(self.cells) else None


@dataclass(frozen=True)
class Sources:
    """Addresses that a page links to: those that must be among the references, and all."""

    cited: frozenset[str] = field(default_factory=frozenset)
    linked: frozenset[str] = field(default_factory=frozenset)


class Agreement(NamedTuple):
    """How many times of a page other pages took, too, and in words those that contradict them."""

    repeated: int = 0
    apart: tuple[str, ...] = ()


@dataclass
class PageRecords:
    """All records of one page by key, how long its cells took in seconds, if known, and how they agree with others.

    How they agree is found by `measured_book.records.agreement`.
    """

    docname: str
    records: dict[str, Json] = field(default_factory=dict)
    duration: float | None = None
    agreement: Agreement = field(default=Agreement(), compare=False)

    @property
    def provenance(self) -> Json:
        """Where the page was made."""
        return next(record for record in self.records.values() if record["kind"] == "provenance")

    def of_kind(self, *kinds: str) -> list[Json]:
        """Return the records of these kinds, in the order in which they were made."""
        return [record for record in self.records.values() if record["kind"] in kinds]

    def as_file(self) -> Json:
        """Return the page's file of records, as the schema describes it."""
        return page_file(self.docname, [*self.records.values()], duration_seconds=self.duration)


@dataclass
class PageState:
    """What one page gave when it was last read. It goes as a whole before the page is read again.

    Attributes:
        key: under which the execution cache keeps its result; None for a page without code.
        left_out: whether a build of other pages read it without running it.
        run: its last execution; None for a page without code.
        records: those of its cells; None if they made none.
        faults: why expressions of its text give nothing to show, by expression or by the name of an outcome.
        refused: whether its records were refused, as a warning has said: nothing else is said of what is missing then.
        uses: the pages whose records its text names.
        claims: the claims that it discusses, as its text names them.
        claim_words: what its text says of the claims that its cells test, by key.
        has_ledger: whether it lists the claims of all pages.
        words: name and meaning of each word that its glossary explains, by the word's id.
        sources: the addresses that it links to.
        drawings: the captions of its drawings, by key.
        headings: the titles of the page and its sections.
        labels: the ids of its figures, tables and equations, in their order.
        entries: what its reference explains: by anchor, the full names under which it can be imported.
        codes: the code that its text holds, which may name entries.
        calls: the full names of what its cells call in the package, also through chapters' modules.
        about: its description, as its card says it.
        files: hashes of its source, and of the files and folders that it noted, as they were when it was read, by name.
    """

    key: str | None = None
    left_out: bool = False
    run: PageRun | None = None
    records: PageRecords | None = None
    faults: dict[str, str] = field(default_factory=dict)
    refused: bool = False
    uses: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)
    claim_words: dict[str, Json] = field(default_factory=dict)
    has_ledger: bool = False
    words: dict[str, tuple[str, str]] = field(default_factory=dict)
    sources: Sources | None = None
    drawings: dict[str, str] = field(default_factory=dict)
    headings: str = ""
    labels: tuple[str, ...] = ()
    entries: dict[str, tuple[str, ...]] = field(default_factory=dict)
    codes: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    about: str = ""
    files: dict[str, str] = field(default_factory=dict, compare=False)


@dataclass
class BookState:
    """What the environment keeps of the book.

    Attributes:
        pages: the state of each page that was read, in reading order once all are.
        touched: the pages that were read, or found gone, since pages were written, each as it was then.
        wheel: the name of the package's file, to which pages link; None where they link to its repository.
        is_stale: whether pages were left that show of others what these no longer say.
        code: a hash of the code that reads pages, as the last build found it.
        written: the pages that this build wrote, as it writes them.
        shows_other: whether pages are read for what their verdicts did not find: see `records.other_outcome`.
    """

    pages: dict[str, PageState] = field(default_factory=dict)
    touched: dict[str, PageState] = field(default_factory=dict)
    wheel: str | None = None
    is_stale: bool = False
    code: str | None = None
    written: set[str] = field(default_factory=set)
    shows_other: bool = False

    def of(self, docname: str) -> PageState:
        """Return the state of the page ``docname``, empty for one that gave nothing yet."""
        return self.pages.setdefault(docname, PageState())

    def forget(self, docname: str) -> None:
        """Drop all that the page ``docname`` gave."""
        self.touched.setdefault(docname, self.pages.pop(docname, PageState()))

    @property
    def records(self) -> dict[str, PageRecords]:
        """The records of each page that has any."""
        return {name: page.records for name, page in self.pages.items() if page.records is not None}

    def find(self, reference: str, docname: str, *kinds: str) -> Json | None:
        """Return the record that ``key`` or ``page:key`` names on the page ``docname``; None if there is none.

        On a page that was left out everything is absent.
        """
        name, key = split_reference(reference, docname)
        page = self.pages.get(name, PageState())
        record = page.records.records[key] if page.records is not None and key in page.records.records else None
        if page.left_out:
            record = {"key": key, "kind": ABSENT, "page": name, "reason": LEFT_OUT}
        return record if record is not None and record["kind"] in kinds else None

    def missing(self, reference: str, docname: str, wanted: str, *kinds: str) -> str | None:
        """Return the error about a record that `find` does not find; None if the page's records were all refused."""
        name, key = split_reference(reference, docname)
        page = self.pages.get(name)
        if page is None:
            return f"there is no page {name!r}, whose {wanted} {key!r} is asked for{meant(name, self.pages)}"
        records = page.records.of_kind(*kinds) if page.records is not None else []
        return None if page.refused else unknown_key(name, wanted, key, (record["key"] for record in records))

    def begin_writing(self, wheel: str | None, *, of_all: bool) -> set[str]:
        """Return the pages to write because of what was read, and forget that it was.

        Beside those that were read these are all others if one of them gave something new. In a build that is not
        ``of_all`` pages they are those that name records of such a page; the next build of all writes the others.
        """
        changed = set()
        for name, before in self.touched.items():
            now = self.pages.get(name, PageState())
            if now != before:
                changed.add(name)
            elif now.records is not None and before.records is not None:
                now.records.agreement = before.records.agreement
        self.is_stale |= bool(changed) or wheel != self.wheel
        again = {name for name, page in self.pages.items() if name in self.touched or page.uses & changed}
        if self.is_stale and of_all:
            again, self.is_stale = {*self.pages}, False
        self.touched, self.wheel = {}, wheel
        return again


def state_of(env: BuildEnvironment) -> BookState:
    """Return the state that the environment keeps, made when missing."""
    found: BookState | None = getattr(env, "measured_book", None)
    if found is None:
        found = BookState()
        setattr(env, "measured_book", found)  # noqa: B010 - the environment's class does not know it
    return found


def reading_order(env: BuildEnvironment) -> dict[str, int]:
    """Return the place of each page in the order in which the tables of contents lead through the book."""
    order: dict[str, int] = {}

    def visit(docname: str) -> None:
        if docname not in order:
            order[docname] = len(order)
            for child in env.toctree_includes.get(docname, []):
                visit(child)

    visit(env.config.root_doc)
    return order


def short_titles(env: BuildEnvironment, pages: Iterable[str]) -> list[str]:
    """Return the titles of these pages up to a colon, and whole where two pages of the book would be called alike."""
    titles = {name: title.astext() for name, title in env.titles.items()}
    brief = Counter(title.partition(":")[0] for title in titles.values() if ":" in title)
    wanted = [(titles[name], titles[name].partition(":")[0]) for name in pages]
    return [whole if brief[short] > 1 else short for whole, short in wanted]
