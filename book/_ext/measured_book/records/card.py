"""How a page was measured: a line at its top, and at its end a card, what there is to download, and a report form."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote, urlencode

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from measured_book.elements.slots import data_key
from measured_book.notebooks.downloads import NOTEBOOK, SOURCE, Download, downloads_html, downloads_of
from measured_book.records.agreement import multiplies
from measured_book.sources.repository import Repository, launches
from measured_book.state import PageRecords, state_of
from tinytorch.report import provenance
from tinytorch.report.kinds import of_kind
from tinytorch.report.numbers import NO_BREAK, format_number
from tinytorch.report.provenance import blas_label, blas_threads_words, cautions, steering_words
from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json
from tinytorch.report.verdicts import DECIDED, NO_DIFFERENCE, OPEN, UNTESTED, WITHHELD

TITLE = "How this was measured"
CARD_ID = "how-this-was-measured"
_DAY, _MOMENT = f"%d{NO_BREAK}%B{NO_BREAK}%Y", "%d %B %Y, %H:%M UTC"
#: Longer addresses are refused by servers.
_LONGEST_ADDRESS = 8000
#: What each outcome of a verdict is on the card.
_OUTCOME_WORDS = {
    DECIDED: "decided",
    NO_DIFFERENCE: "with no difference that matters",
    OPEN: "open",
    WITHHELD: "withheld, because other programs were running",
    UNTESTED: "not measured in this build",
}
_QUESTIONS = (
    "The number, and the sentence or table it stands in:\n\n"
    "What I found instead, how I measured it, and on which machine (paste what python -m tinytorch machine prints):\n\n"
)


class Code(str):
    """Part of a line of the card that is code."""


#: Parts of a line of the card: text, code, or a moment; None ends a line within.
Line = list[str | datetime | None]


def _part_html(part: str | datetime | None) -> str:
    if part is None:
        return "<br>"
    if isinstance(part, datetime):
        return time_html(part, _MOMENT)
    return f"<code>{escape(part)}</code>" if isinstance(part, Code) else escape(part)


def _part_text(part: str | datetime | None) -> str:
    return "; " if part is None else part.strftime(_MOMENT) if isinstance(part, datetime) else part


def _joined(lines: list[Line], between: str | None) -> Line:
    return [part for line in lines for part in (between, *line)][1:]


def _spreads(page: PageRecords) -> list[tuple[float, Line]]:
    """Return the relative half-width of each interval on the page, and what is so wide.

    Differences in points are left out: they may lie at 0, of which no half-width is a share.
    """
    return [
        ((number["interval"]["high"] - number["interval"]["low"]) / 2 / abs(number["value"]), _place(number, record))
        for record in page.records.values()
        for number in of_kind(record).numbers()
        if number["interval"] and number["value"] and number["unit"] != "points"
    ]


def _place(number: Json, record: Json) -> Line:
    """Return what a number is of, and in which table or figure."""
    is_own = record["kind"] in NUMBER_KINDS
    return [number["what"], *([] if is_own else [f", in the {record['kind']} ", Code(record["key"])])]


def _share(value: float) -> str:
    return f"±{NO_BREAK}{format_number(value, '%').text}"


def _noise(page: PageRecords) -> Line:
    spreads = _spreads(page)
    if not spreads:
        return []
    worst, of = max(spreads, key=lambda spread: spread[0])
    middle = median(spread for spread, _ in spreads)
    count = f"{len(spreads)} interval{'' if len(spreads) == 1 else 's'}"
    return [f"half-widths of {count}: {_share(middle)} in the median, {_share(worst)} at worst (", *of, ")"]


def _cores(machine: Json) -> str:
    usable, logical = machine["cores_usable"], machine["cores_logical"]
    cores = f"{usable} of {logical} cores" if usable != logical else f"{logical} cores"
    return f"{cores}, {format_number(machine['memory_bytes'], 'B').text} of memory"


def _blas(blas: Json) -> str:
    core = f", {blas['core']} kernels" if blas["core"] else ""
    vectors = f" ({blas['vectors']})" if blas["vectors"] else ""
    return f"{blas_label(blas)}{core}{vectors}, {blas_threads_words(blas['threads'])}"


def _package(package: Json) -> Line:
    line: Line = [f"{package['name']} {package['version']}, source hash ", Code(package["sha256"][:16])]
    if package["commit"]:
        line += ["; commit ", Code(package["commit"][:10]), ", changed since" if package["changed"] else ""]
    return line


def time_html(moment: datetime, shown: str) -> str:
    """Return a moment as HTML; ``shown`` is a format of `strftime`."""
    return f'<time datetime="{moment.isoformat()}">{moment:{shown}}</time>'


def _made(page: PageRecords) -> Line:
    line: Line = [datetime.fromisoformat(page.provenance["when"])]
    if page.duration is not None:
        line.append(f", in {format_number(page.duration, 's').text}")
    load = page.provenance["machine"]["load"]
    if load is not None:
        line.append(f"; load as it began {format_number(load, '1').text}")
    return line


def _counts(page: PageRecords) -> str:
    """Return how many records of what kind the page has."""
    total, absent = len(page.records) - 1, len(page.of_kind(ABSENT))
    parts = [f"{len(page.of_kind(kind))} {kind}" for kind in NUMBER_KINDS if page.of_kind(kind)]
    numbers = f", numbers among them: {', '.join(parts)}" if parts else ""
    return f"{total} in all{numbers}" + (f"; {absent} not measured in this build" if absent else "")


def _verdicts(page: PageRecords) -> Line:
    """Return how many verdicts the page has, and what they come to; nothing if it has none."""
    found = [said for record in page.records.values() for said in of_kind(record).verdicts()]
    fixed = sum(said["fixed"] for said in found)
    if not found:
        return []
    counts = Counter(said["outcome"] for said in found if not said["fixed"])
    told = [f"{counts[outcome]} {words}" for outcome, words in _OUTCOME_WORDS.items() if counts[outcome]]
    told += [f"{fixed} counted, which no measurement can change"] if fixed else []
    return [f"{len(found)} in all: {', '.join(told)}"]


def _claims(page: PageRecords) -> Line:
    """Return how many of the page's claims are counted, and how many measured; nothing if it has none."""
    claims = page.of_kind("claim")
    counted = sum(record["counted"] for record in claims)
    said = (
        f"{counted} counted, with the same verdict on every machine; {len(claims) - counted} measured on this machine"
    )
    return [said] if claims else []


def _calls(page: PageRecords) -> Line:
    """Return how many times of the page other pages measured too, and whether they agree; nothing if there are none."""
    repeated, apart = page.agreement
    if not repeated:
        return []
    far = f"{len(apart)} of them with intervals that do not touch those there: {'; '.join(apart)}"
    return [f"{repeated} timed on other pages as well; {far if apart else 'all intervals touch those there'}"]


def _factors(page: PageRecords) -> Line:
    """Return whether the factors in the page's tables multiply to their totals; nothing without such a table."""
    tables = [table for table in page.of_kind("table") if any("total" in column for column in table["columns"])]
    said: list[Line] = []
    for equal, do in ((True, "multiply"), (False, "do not multiply")):
        keys: list[Line] = [[Code(table["key"])] for table in tables if multiplies(table) is equal]
        said += [[*_joined(keys, ", "), f": they {do} to their totals within their intervals"]] if keys else []
    return _joined(said, "; ")


#: How sure a page's numbers are, and what they and its words leave open or contradict.
_AGREEMENT: dict[str, Callable[[PageRecords], Line]] = {
    "Noise": _noise,
    "Verdicts": _verdicts,
    "Claims": _claims,
    "Same calls": _calls,
    "Factors": _factors,
}


def _rows(page: PageRecords) -> list[tuple[str, Line]]:
    """Return what is known of where and how the page was measured, by name."""
    where = page.provenance
    machine = where["machine"]
    vectors = f", vectors {machine['vectors']}" if machine["vectors"] else ""
    blas: list[Line] = [[_blas(each)] for each in where["blas"]]
    environment: list[Line] = [[Code(f"{name}={value}")] for name, value in steering_words(where["environment"])]
    return [
        ("Machine", [f"{machine['cpu']}{vectors}; {_cores(machine)}; {machine['system']}"]),
        ("BLAS", _joined(blas, None) or ["none loaded"]),
        ("Variables", _joined(environment, ", ") or ["none that affects threads or kernels"]),
        ("Code", [*_package(where["package"]), f"; Python {where['python']}, NumPy {where['numpy']}"]),
        ("Made", _made(page)),
        *((name, said) for name, of in _AGREEMENT.items() if (said := of(page))),
        ("Records", [_counts(page)]),
    ]


def card_text(page: PageRecords) -> str:
    """Return the card as plain text, a line for each fact, for a letter or an issue."""
    return "\n".join([*(f"{name}: {''.join(map(_part_text, line))}" for name, line in _rows(page)), *_cautions(page)])


def _cautions(page: PageRecords) -> list[str]:
    """Return what makes the page's numbers doubtful, a sentence each."""
    busy = provenance.caution([number for record in page.records.values() for number in of_kind(record).numbers()])
    return [*cautions(page.provenance), *([busy] if busy else [])]


def card_html(page: PageRecords, downloads: Sequence[Download]) -> str:
    """Return the card of ``page``, which offers ``downloads``."""
    caution = "".join(
        f'<p class="card-caution"><span class="icon" aria-hidden="true">!</span> {escape(said)}</p>\n'
        for said in _cautions(page)
    )
    rows = [(name, "".join(map(_part_html, line))) for name, line in _rows(page)]
    rows.append(("Downloads", downloads_html(downloads, page.docname)))
    listed = "\n".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in rows)
    return f'<div class="measured-card"{data_key(page.provenance)}>\n{caution}<dl>\n{listed}\n</dl>\n</div>'


def mismatch_text(title: str, docname: str, page: PageRecords | None) -> str:
    """Return what a report begins with: questions to the reader, and the machine that the page was measured on."""
    head = f"Page: {title} ({docname})\n\n{_QUESTIONS}"
    return head + (f"How the page was measured\n\n{card_text(page)}\n" if page is not None else "")


def issue_address(repository: Repository | None, title: str, text: str) -> str | None:
    """Return where an issue is opened, without a text too long for a server; None without a repository."""
    if repository is None:
        return None
    new = f"{repository.url}/issues/new?"
    full = new + urlencode({"title": title, "body": text}, quote_via=quote)
    return full if len(full) <= _LONGEST_ADDRESS else new + urlencode({"title": title}, quote_via=quote)


def mismatch_html(repository: Repository | None, title: str, docname: str, page: PageRecords | None) -> str:
    """Return a link to a new issue, or where nobody takes issues a folded text to copy."""
    text = mismatch_text(title, docname, page)
    address = issue_address(repository, f"Mismatch: {title}", text)
    if address is not None:
        return f'<a class="page-mismatch" href="{escape(address)}" rel="nofollow">Report a mismatch</a>'
    return (
        '<details class="page-menu page-mismatch"><summary>Report a mismatch</summary>\n'
        "<p>Fill in this report and send it to whoever gave you this book.</p>\n"
        f'<pre data-key="{docname}:provenance" tabindex="0" aria-label="Text of a report">{escape(text)}</pre>\n'
        "</details>"
    )


def shown_pages(env: BuildEnvironment, docname: str) -> list[PageRecords]:
    """Return the pages whose records the page shows, its own before others."""
    records, page = state_of(env).records, state_of(env).of(docname)
    if page.records is not None:
        return [page.records]
    names = records.keys() if page.has_ledger else page.uses
    return [records[name] for name in sorted(names) if name in records]


def _machine(page: PageRecords) -> str:
    machine = page.provenance["machine"]
    count = machine["cores_usable"]
    return f"{escape(machine['cpu'])}, {count}{NO_BREAK}core{'' if count == 1 else 's'}"


def _days(pages: list[PageRecords]) -> str:
    """Return the day, or first and last day, of the pages' measurements."""
    moments = sorted(datetime.fromisoformat(page.provenance["when"]) for page in pages)
    first, last = time_html(moments[0], _DAY), time_html(moments[-1], _DAY)
    return last if moments[0].date() == moments[-1].date() else f"{first} to {last}"


#: What the line at a page's top leads to, at its end: what the page offers, and what a chapter says of itself.
LINE_ID, ABOUT_ID = "page-downloads", "about-this-chapter"
#: A title with the result or the paragraph behind it, or with all that opens the book.
_LEAD = re.compile(
    r'</h1>(?:\s*(?:<div class="chapter-result">.*?</div>|<p>.*?</p>|<div class="opening.*?(?=<section)))?', re.DOTALL
)


def measured_html(env: BuildEnvironment, docname: str) -> str:
    """Return when and where the page was last measured; nothing for a page that shows no measurement."""
    if state_of(env).of(docname).left_out:
        return '<p class="page-measured left-out">This build did not run this page</p>\n'
    pages = shown_pages(env, docname)
    if not pages:
        return ""
    machines = " and ".join(dict.fromkeys(_machine(page) for page in pages))
    how = f' (<a href="#{CARD_ID}">how</a>)' if state_of(env).of(docname).records is not None else ""
    said = f"Last measured {_days(pages)} on {machines}{how}"
    return f'<p class="page-measured" data-key="{docname}:provenance">{said}</p>\n'


def launch_html(app: Sphinx, docname: str, files: Sequence[Download]) -> str:
    """Return the row of links to run, take and read the page; those of the repository where it is known."""
    repository, runs = app.config.book_repository, "kernelspec" in app.env.metadata[docname]
    known = {file.name: "../" * docname.count("/") + file.path for file in files}
    links = [("Download notebook", known[NOTEBOOK], " download")] if NOTEBOOK in known else []
    if repository is not None:
        suffix = Path(app.env.doc2path(docname)).suffix
        found = [(*one, ' rel="noopener"') for one in launches(repository, docname + suffix, runs=runs)]
        links = [*found[:runs], *links, *found[runs:]]
    elif SOURCE in known:
        links.append(("Source", known[SOURCE], ""))
    row = "".join(f'<a href="{escape(address)}"{how}>{name}</a>\n' for name, address, how in links)
    return f'<p class="page-launch">{row}</p>\n' if row else ""


def line_html(app: Sphinx, docname: str, title: str) -> str:
    """Return the line at the end of the page ``docname``."""
    files, page = downloads_of(app.env, docname), state_of(app.env).of(docname).records
    launch, listed = launch_html(app, docname, files), downloads_html(files, docname)
    # The card lists them, too.
    has_menu = files and page is None
    menu = f'<details class="page-menu"><summary>Downloads</summary>\n{listed}\n</details>\n' if has_menu else ""
    report = mismatch_html(app.config.book_repository, title, docname, page)
    return f'<div class="page-line" id="{LINE_ID}">\n{launch}{menu}{report}\n</div>\n'


def add_line(app: Sphinx, pagename: str, _: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Say of each page that has a source below what opens it when it was measured, and at its end what it offers."""
    body = context.get("body", "")
    if doctree is None or (lead := _LEAD.search(body)) is None:
        return
    line = line_html(app, pagename, app.env.titles[pagename].astext())
    known = {"What you need for this chapter": ABOUT_ID, "Downloads": LINE_ID}
    links = "".join(f'<a href="#{to}">{name}</a>\n' for name, to in known.items() if f'id="{to}"' in body + line)
    # Scripts put into the last part what needs them.
    inside = f'{measured_html(app.env, pagename)}<p class="page-links">{links}</p>\n<div class="page-tools"></div>'
    top = f'<div class="page-top">\n{inside}\n</div>\n'
    context["body"] = f"{body[: lead.end()]}\n{top}{body[lead.end() :]}{line}"


def setup(app: Sphinx) -> None:
    """Connect to the writing of each page."""
    app.connect("html-page-context", add_line)
