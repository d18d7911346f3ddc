"""Claims: their words and quotes as the page has them, beside the tests of its cells; and the table of a page's claims.

::

    ```{claim} six-decibels
    :source: course-quantization

    > For weights uniformly distributed … theoretical SNR is approximately 6 dB per bit × 8 bits = 48 dB.

    Eight bits give a signal-to-noise ratio of about 48 dB.

    What was found, with numbers of the page; the test itself says it if this is left out.
    ```

A source is an entry of ``references.bib``, or ``name <address>``; in words alone if it has no address.
"""

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from measured_book.pages.references import FILE, addresses_of, read_references
from measured_book.records.html import (
    absent_claim_html,
    data_key,
    ledger_link,
    named_source,
    quotation_html,
    source_html,
    verdict_mark,
)
from pybtex.database import Entry  # type: ignore[import-untyped]

from tinytorch.perf.measuring.judge import Verdict
from tinytorch.report.numbers import unbroken
from tinytorch.report.provenance import WITHHELD
from tinytorch.report.records import Json
from tinytorch.report.verdicts import claim_parts, evidence_words, placeholders

#: A role of a number in the words of a claim; the record keeps its key in braces.
_NUMBER = re.compile(r"\{measured\}`([^`]+)`")


def claim_words(lines: Sequence[str], source: str, bibliography: Path) -> Json:
    """Return the words of a claim: ``statement``, ``quote``, ``evidence``, which may be empty, and its source.

    Args:
        lines: of the directive: the quote behind ``>``, then the statement, then what was found.
        source: key of an entry of the bibliography, or ``name <address>``.
        bibliography: the file of references.

    Raises:
        ValueError: if quote, statement or source is missing, or the source is neither.
    """
    quote, paragraphs = claim_parts(lines)
    name, address = _source(source, bibliography)
    return {
        "statement": paragraphs[0],
        "source": name,
        "source_url": address,
        "quote": quote,
        "evidence": _NUMBER.sub(r"{\1}", " ".join(paragraphs[1:])),
    }


def _source(source: str, bibliography: Path) -> tuple[str, str | None]:
    name, address = named_source(source)
    if address is not None:
        return name, address
    entry = read_references(bibliography).entries.get(source)
    if entry is None and " " in source.strip():  # which can be read nowhere
        return source.strip(), None
    if entry is None:
        raise ValueError(
            f"source must be an entry of {FILE}, or a name with an address as in 'Who, What, 2020 <https://…>', "
            f"not {source!r}"
        )
    return _entry_name(entry), next(iter(addresses_of(entry)), None)


def _entry_name(entry: Entry) -> str:
    """Return an entry as a page names it: ``"Nagel et al., A White Paper, 2021"``; of a course its title alone."""
    plain = str(entry.fields["title"]).replace("{", "").replace("}", "")
    people = entry.persons.get("author", [])
    if not people or "year" not in entry.fields:
        return plain
    first = " ".join(people[0].last_names).replace("{", "").replace("}", "")
    several = " et al." if len(people) > 2 else f" and {' '.join(people[1].last_names)}" if len(people) == 2 else ""
    return f"{first}{several}, {plain}, {entry.fields['year']}"


def completed(record: Json, words: Mapping[str, Json]) -> Json:
    """Return a claim's record with the words that its page has for it; the record's own, if it brought them.

    Raises:
        ValueError: if the page has none.
    """
    if record["kind"] != "claim" or "statement" in record:
        return record
    if record["key"] not in words:
        raise ValueError(f"{record['key']!r} is tested, but nothing says what is claimed: write ```{{claim}} for it")
    said = words[record["key"]]
    evidence = said["evidence"] or evidence_words(record)
    if record["verdict"] == Verdict.WITHHELD:
        evidence = f"{evidence} {WITHHELD}"
    return {**record, **said, "evidence": evidence, "numbers": placeholders(said["evidence"], record["key"])}


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
