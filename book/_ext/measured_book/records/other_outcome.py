"""Pages as a machine would have them that found otherwise: ``make book PAGES=x OUTCOME=other``, for who writes them.

Beside each page that was asked for, one is written with every text of its outcomes but the one that it has, and with
the verdicts that its tables and claims did not get, with a slash between several. Its numbers stay.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util.logging import suppress_logging

from measured_book.state import PageRecords, state_of
from tinytorch import settings
from tinytorch.perf.measuring.comparison import Quantity
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.report.records import Json

#: What a build is asked for as its outcome, and the end of the names of what it then writes.
OTHER = "other"
_NOTE = "An author's view: every verdict says what it did not find here. `make book` removes this page."
_CLAIMED = {Verdict.SUPPORTED.value: Verdict.REFUTED.value, Verdict.REFUTED.value: Verdict.SUPPORTED.value}


def with_other_outcomes(page: PageRecords) -> PageRecords:
    """Return the page's records with the words that its claims and tables did not get."""
    return replace(page, records={key: _other(record) for key, record in page.records.items()})


def _other(record: Json) -> Json:
    if record["kind"] == "claim":
        return {**record, "verdict": _CLAIMED.get(record["verdict"], Verdict.SUPPORTED.value)}
    if record["kind"] != "table":
        return record
    rows = [
        {
            name: {**cell, "word": _other_words(cell)} if isinstance(cell, dict) and "outcome" in cell else cell
            for name, cell in row.items()
        }
        for row in record["rows"]
    ]
    return {**record, "rows": rows}


def _other_words(said: Json) -> str:
    words: list[str] = []
    for test in said["tests"]:
        if "quantity" in test:
            quantity = Quantity[test["quantity"].upper()]
            words += [verdict.value for verdict in (quantity.more, quantity.less, Verdict.NO_DIFFERENCE)]
    left = [word for word in dict.fromkeys(words) if not said["word"].startswith(word)]
    return " / ".join(left) or f"not {said['word']}"


def other_file(page: Path) -> Path:
    """Return the file beside that of a page which says what its verdicts did not find."""
    return page.with_suffix(f".{OTHER}.html")


def write_others(app: Sphinx, failed: Exception | None) -> None:
    """Write the other pages of those that were asked for, if the build is to; remove those of an earlier one."""
    for old in app.outdir.glob(f"**/*.{OTHER}.html"):
        old.unlink()
    builder = app.builder
    if failed or settings.SETTINGS.build_outcome != OTHER or not isinstance(builder, StandaloneHTMLBuilder):
        return
    # The state is kept no more: what follows is this process's own.
    state_of(app.env).shows_other = True
    place: Callable[[str], str] = builder.get_outfilename
    builder.get_outfilename = lambda name: str(other_file(Path(place(name))))  # type: ignore[assignment,method-assign]
    if not hasattr(builder, "docsettings"):  # no page had changed, so nothing has been written
        builder.prepare_writing(set())
    with suppress_logging():  # labels of a page that is read twice, and sentences with holes
        for docname in settings.SETTINGS.build_pages.split():
            _write_other(app, builder, docname)


def _write_other(app: Sphinx, builder: StandaloneHTMLBuilder, docname: str) -> None:
    kept = Path(app.doctreedir, f"{docname}.doctree")
    before = kept.read_bytes()
    try:
        builder.read_doc(docname)
        page = state_of(app.env).of(docname)
        if page.records is not None:
            page.records = with_other_outcomes(page.records)
        doctree = app.env.get_and_resolve_doctree(docname, builder)
    finally:
        kept.write_bytes(before)
    doctree.insert(0, nodes.paragraph("", _NOTE, classes=["not-measured"]))
    builder.write_doc(docname, doctree)


def setup(app: Sphinx) -> None:
    """Connect the writing, behind all that a build ends with."""
    app.connect("build-finished", write_others, priority=900)
