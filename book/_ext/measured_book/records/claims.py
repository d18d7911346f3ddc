"""Claims: their words and quotes as the page has them, beside the tests of its cells; and the table of a page's claims.

::

    ```{claim} six-decibels
    :source: course-quantization

    > For weights uniformly distributed … theoretical SNR is approximately 6 dB per bit × 8 bits = 48 dB.

    Eight bits give a signal-to-noise ratio of about 48 dB.

    What was found, with numbers of the page; the test itself says it if this is left out.
    ```

How the words are read: `measured_book.sources.bibliography`.
"""

from collections.abc import Sequence
from html import escape

from measured_book.elements.slots import (
    absent_claim_html,
    data_key,
    ledger_link,
    quotation_html,
    source_html,
    verdict_mark,
)
from tinytorch.report.numbers import unbroken
from tinytorch.report.records import Json


def claim_line(record: Json, ledger: str | None) -> str:
    """Return the line of a claim beside its test: verdict, statement and source; quote and evidence are in the ledger.

    Args:
        record: the claim's, completed.
        ledger: address of its row among all claims, if a page lists them.
    """
    link = f'; <a class="claim-ledger-link" href="{escape(ledger)}">quote and evidence</a>' if ledger else ""
    return (
        f'<p class="claim-line claim-{record["verdict"].replace(" ", "-")}" id="claim-{record["key"]}">'
        f"{verdict_mark(record)} "
        f'<span class="claim-statement">{escape(unbroken(record["statement"]))}</span> '
        f'<span class="claim-source">({source_html(record)}{link})</span></p>'
    )


def claim_row(record: Json, evidence: str, found: str, ledger: str | None) -> str:
    """Return the row of a claim: what it says, with quote, evidence and source folded below, its verdict, one number.

    Args:
        record: the claim's, completed.
        evidence: as HTML, with its numbers.
        found: the first number that it rests on, as HTML; empty if it rests on none.
        ledger: address of its row among all claims, if a page lists them.
    """
    return (
        f'<tr id="claim-{record["key"]}"><td><details>\n'
        f"<summary>{escape(unbroken(record['statement']))}</summary>\n"
        f'{quotation_html(record)}<p class="claim-evidence"{data_key(record)}>{evidence}</p>\n'
        f'<p class="claim-source">Source: {source_html(record)}.{ledger_link(ledger)}</p>\n</details></td>'
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


def claims_table(rows: Sequence[str]) -> str:
    """Return these rows as the table of a page's claims."""
    body = "\n".join(rows)
    return (
        '<div class="measured-table claims-table" role="region" tabindex="0" aria-labelledby="claims-of-this-page">\n'
        '<table>\n<caption id="claims-of-this-page">What others say, and what this page found.</caption>\n'
        '<thead><tr><th scope="col">Claim</th><th scope="col">Verdict</th><th scope="col">Found</th></tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )
