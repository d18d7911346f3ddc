"""Claims: their words and quotes beside the tests of their page; a table of a page's claims; ledger and wall of all.

::

    ```{claim} six-decibels
    :source: course-quantization

    > For weights uniformly distributed … theoretical SNR is approximately 6 dB per bit × 8 bits = 48 dB.

    Eight bits give a signal-to-noise ratio of about 48 dB.

    What was found, with numbers of the page; the test itself says it if this is left out.
    ```

How the words are read: `measured_book.sources.bibliography`.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import unquote

from measured_book.elements.slots import (
    absent_claim_html,
    data_key,
    quotation_html,
    source_html,
    verdict_mark,
)
from tinytorch.perf.measuring.judge import OF_CLAIMS
from tinytorch.report.numbers import unbroken
from tinytorch.report.records import Json
from tinytorch.report.verdicts import ICONS, evidence_words

#: Both tables of the ledger: whether their claims are counted, the end of their ids, and what they are called.
_TABLES = (
    (False, "measured", "Measured on this machine"),
    (True, "counted", "Counted: the same verdict on every machine"),
)
#: The order of the squares on the wall, from what surprises to what says nothing.
_ON_THE_WALL = ("refuted", "open", "withheld", "supported")
_COLUMNS = ("Claim", "Verdict", "Evidence", "Discussed in")


def claim_line(record: Json, ledger: str | None) -> str:
    """Return the line of a claim beside its test: verdict, statement and source; the ledger has the rest."""
    link = f'; <a class="claim-ledger-link" href="{escape(ledger)}">quote and evidence</a>' if ledger else ""
    return (
        f'<p class="claim-line claim-{record["verdict"].replace(" ", "-")}" id="claim-{record["key"]}">'
        f"{verdict_mark(record)} "
        f'<span class="claim-statement">{escape(unbroken(record["statement"]))}</span> '
        f'<span class="claim-source">({source_html(record)}{link})</span></p>'
    )


def claim_row(record: Json, evidence: str, found: str) -> str:
    """Return the row of a claim: what it says, with quote, evidence and source folded below, its verdict, one number.

    The evidence, and the number of the test that decides, ``found``, are HTML.
    """
    return (
        f'<tr id="claim-{record["key"]}"><td><details>\n'
        f"<summary>{escape(unbroken(record['statement']))}</summary>\n"
        f'{quotation_html(record)}<p class="claim-evidence"{data_key(record)}>{evidence}</p>\n'
        f'<p class="claim-source">Source: {source_html(record)}.</p>\n</details></td>'
        f"<td>{verdict_mark(record)}</td><td>{found}</td></tr>"
    )


def absent_row(record: Json) -> str:
    """Return the row of a claim that this build could not test, with the reason."""
    return f'<tr><td colspan="3">{absent_claim_html(record)}</td></tr>'


def linked_row(record: Json, found: str) -> str:
    """Return the row of a claim that the page tests elsewhere, with a link to it; ``found`` as in `claim_row`."""
    return (
        f'<tr><th scope="row"><a href="#claim-{record["key"]}">{escape(unbroken(record["statement"]))}</a></th>'
        f"<td>{verdict_mark(record)}</td><td>{found}</td></tr>"
    )


def claims_table(rows: Sequence[str], ledger: str | None) -> str:
    """Return these rows as the table of a page's claims, with a link to the page that lists all claims, if any does."""
    body = "\n".join(rows)
    link = f' <a class="claim-ledger-link" href="{escape(ledger)}">All claims</a>' if ledger else ""
    return (
        '<div class="measured-table claims-table" role="region" tabindex="0" aria-labelledby="claims-of-this-page">\n'
        f'<table>\n<caption id="claims-of-this-page">What others say, and what this page found.{link}</caption>\n'
        '<thead><tr><th scope="col">Claim</th><th scope="col">Verdict</th><th scope="col">Found</th></tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


@dataclass(frozen=True)
class Row:
    """A claim of the ledger: its record, its evidence as HTML, and title and address of the page that discusses it."""

    record: Json
    evidence: str
    title: str
    address: str


def row_id(record: Json) -> str:
    """Return the id of a claim's row, by which it can be linked to."""
    return f"ledger-{record['page'].replace('/', '-')}-{record['key']}"


def ledger_html(rows: Sequence[Row]) -> str:
    """Return both tables, the first of what is counted; one without claims is left out.

    Sources stand in the order of their first claims, as do the claims of each.
    """
    return "\n".join(
        _table(name, caption, chosen)
        for counted, name, caption in _TABLES
        if (chosen := [row for row in rows if row.record["counted"] is counted])
    )


def _table(name: str, caption: str, rows: Sequence[Row]) -> str:
    found = Counter(row.record["verdict"] for row in rows)
    counts = [f"{found[verdict]} {verdict}" for verdict in OF_CLAIMS if found[verdict]]
    head = "".join(f'<th scope="col">{column}</th>' for column in _COLUMNS)
    groups: dict[str, list[Row]] = {}
    for row in rows:  # by what a reader sees: files of one module differ in their addresses
        groups.setdefault(row.record["source"], []).append(row)
    bodies = "\n".join(_group(chosen) for chosen in groups.values())
    told = f"{len(rows)} claim{'' if len(rows) == 1 else 's'} {name}: {', '.join(counts)}."
    return (
        f'<p class="ledger-counts" data-key="claims">{told}</p>\n'
        f'<div class="measured-table ledger" role="region" tabindex="0" aria-labelledby="ledger-{name}">\n'
        f'<table>\n<caption id="ledger-{name}">{caption}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n{bodies}\n</table>\n</div>"
    )


def _group(rows: Sequence[Row]) -> str:
    """Return the claims of one source, below it; each of its files, if there are several, by name."""
    addresses = list(dict.fromkeys(row.record["source_url"] for row in rows if row.record["source_url"]))
    source = source_html(rows[0].record)
    if len(addresses) > 1:
        names = (escape(unquote(address.rstrip("/").rsplit("/", 1)[1])) for address in addresses)
        files = (
            f'<a class="reference external" href="{escape(address)}">{name}</a>'
            for address, name in zip(addresses, names, strict=True)
        )
        source = f"{escape(rows[0].record['source'])}: {', '.join(files)}"
    head = f'<tr class="ledger-source"><th scope="rowgroup" colspan="{len(_COLUMNS)}">{source}</th></tr>'
    return "\n".join(["<tbody>", head, *map(_row, rows), "</tbody>"])


def _row(row: Row) -> str:
    record, name = row.record, row_id(row.record)
    link = f'<a class="headerlink" href="#{name}" title="Link to this claim">#</a>'
    return (
        f'<tr id="{name}"><th scope="row">{escape(unbroken(record["statement"]))}{link} {quotation_html(record)}</th>'
        f"<td>{verdict_mark(record)}</td><td{data_key(record)}>{row.evidence}{_tests(record)}</td>"
        f'<td><a href="{escape(row.address)}#claim-{record["key"]}">{escape(row.title)}</a></td></tr>'
    )


#: Tests of a claim that its row shows.
_MOST_TESTS = 3
#: Units of the drawing of a test: its width and height, and what is left free at both ends.
_WIDE, _HIGH, _FREE = 240.0, 24.0, 8.0


def _tests(record: Json) -> str:
    """Return the first tests of a claim, each as a drawing and, unless the evidence repeats them, in words."""
    is_said = record["evidence"].startswith(evidence_words(record))
    parts = []
    for test in record["tests"][:_MOST_TESTS]:
        words = evidence_words({"tests": [test]})
        told = "" if is_said else f"<span>{escape(words[0].upper() + words[1:])}</span>"
        shown = _test_drawing(test) + told
        parts += [f'<div class="claim-test">{shown}</div>'] if shown else []
    return "".join(parts)


def _test_drawing(test: Json) -> str:
    """Return the interval of a test over the range that the claim allows; empty where there is no such range."""
    if test["interval"] is None or "matters" in test:
        return ""
    low, high = (test["interval"][end] for end in ("low", "high"))
    asked = (test["low"], test["high"])
    marks = [low, high, test["value"], *(end for end in asked if end is not None)]
    is_log = min(marks) > 0 and max(marks) > 4 * min(marks)
    first, last = ((math.log(end) if is_log else end) for end in (min(marks), max(marks)))
    room = 0.25 * (last - first) or 1.0

    def across(value: float) -> float:
        share = ((math.log(value) if is_log else value) - first + room) / (last - first + 2 * room)
        return _FREE + (_WIDE - 2 * _FREE) * share

    left, right = (edge if end is None else across(end) for end, edge in zip(asked, (0.0, _WIDE), strict=True))
    return (
        f'<svg viewBox="0 0 {_WIDE:g} {_HIGH:g}" aria-hidden="true" focusable="false">'
        f'<rect class="asked" x="{left:.1f}" y="0" width="{max(right - left, 1.5):.1f}" height="{_HIGH:g}"/>'
        f'<path class="found" d="M{across(low):.1f} {_HIGH / 2:g}H{across(high):.1f}"/>'
        f'<circle class="found" cx="{across(test["value"]):.1f}" cy="{_HIGH / 2:g}" r="5"/></svg>'
    )


def wall_html(records: Sequence[Json], ledger: str) -> str:
    """Return all claims as squares with the colours of their verdicts, which lead to their rows; empty without claims.

    What was measured and what was counted have a wall and a sentence each. ``ledger`` is the address of the ledger.
    """
    walls = [
        _wall(name, chosen, ledger)
        for counted, name, _ in _TABLES
        if (chosen := [record for record in records if record["counted"] is counted])
    ]
    if not walls:
        return ""
    hint = "Each square is a sentence. Point at it to read it, or press it to see how it was tested."
    inside = "\n".join(walls)
    return f'<div class="claim-wall" data-key="claims">\n{inside}\n<p class="wall-hint">{hint}</p>\n</div>'


def _wall(name: str, records: Sequence[Json], ledger: str) -> str:
    found = Counter(record["verdict"] for record in records)
    count, was = len(records), "was" if len(records) == 1 else "were"
    told = (
        f"{count} sentence{'s' if count > 1 else ''} from courses and papers {was} tested on this machine."
        if name == "measured"
        else f"{count} more {was} decided by counting, which gives the same result on every machine."
    )
    links = " ".join(
        f'<a href="{escape(ledger)}?verdict={verdict}#ledger-{name}">'
        f'<span class="claim-verdict {verdict}"><span class="icon" aria-hidden="true">{ICONS[verdict]}</span> '
        f"{found[verdict]} {verdict}</span></a>"
        for verdict in _ON_THE_WALL
        if found[verdict]
    )
    squares = "\n".join(
        _square(record, ledger) for verdict in _ON_THE_WALL for record in records if record["verdict"] == verdict
    )
    failed = f"{found['refuted']} did not hold." if found["refuted"] else "None was refuted."
    return (
        f'<p class="wall-count">{told} {failed}</p>\n'
        f'<ul class="wall">\n{squares}\n</ul>\n<p class="wall-legend">{links}</p>'
    )


def _square(record: Json, ledger: str) -> str:
    verdict, words = record["verdict"], f"{record['verdict'].capitalize()}: {unbroken(record['statement'])}"
    return (
        f'<li><a class="claim-verdict {verdict}" href="{escape(ledger)}#{row_id(record)}">'
        f'<span class="icon" aria-hidden="true">{ICONS[verdict]}</span>'
        f'<span class="wall-words">{escape(words)}</span></a></li>'
    )
