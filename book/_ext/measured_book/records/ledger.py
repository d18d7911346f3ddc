"""Ledger of claims as HTML: those that are counted apart from those that are measured, each kind by source."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import unquote

from measured_book.elements.slots import data_key, quotation_html, source_html, verdict_mark
from tinytorch.perf.measuring.judge import OF_CLAIMS
from tinytorch.report.numbers import unbroken
from tinytorch.report.records import Json

#: Both tables: whether their claims are counted, the end of their ids, and what they are called.
_TABLES = (
    (True, "counted", "Counted: true or false wherever it is built"),
    (False, "measured", "Measured on this machine"),
)
_COLUMNS = ("Claim", "Verdict", "Evidence", "Discussed in")


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
