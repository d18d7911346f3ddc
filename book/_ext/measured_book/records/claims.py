"""Claims: their words and quotes beside the tests of their page; the table of a page's claims; the ledger of all.

::

    ```{claim} six-decibels
    :source: course-quantization

    > For weights uniformly distributed … theoretical SNR is approximately 6 dB per bit × 8 bits = 48 dB.

    Eight bits give a signal-to-noise ratio of about 48 dB.

    What was found, with numbers of the page; the test itself says it if this is left out.
    ```

How the words are read: `measured_book.sources.bibliography`.
"""

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

#: Both tables of the ledger: whether their claims are counted, the end of their ids, and what they are called.
_TABLES = (
    (True, "counted", "Counted: the same verdict on every machine"),
    (False, "measured", "Measured on this machine"),
)
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

    Evidence and the first number that it rests on, ``found``, are HTML.
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
        f"<td>{verdict_mark(record)}</td><td{data_key(record)}>{row.evidence}</td>"
        f'<td><a href="{escape(row.address)}#claim-{record["key"]}">{escape(row.title)}</a></td></tr>'
    )
