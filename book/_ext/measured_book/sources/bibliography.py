"""Sources of the book: the entries of ``references.bib``, and the words of claims, each of which names one.

A source is an entry of the file, or ``name <address>``; in words alone if it has no address. Nothing here loads Sphinx.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pybtex.database import BibliographyData, Entry, parse_file  # type: ignore[import-untyped]

from measured_book.sources.names import meant
from tinytorch.prose import record_name
from tinytorch.report.verdicts import claim_parts

FILE = "references.bib"
#: A role of a number in the words of a claim; the record keeps its key in braces.
_NUMBER = re.compile(r"\{measured\}`([^`]+)`")


def read_references(path: Path) -> BibliographyData:
    """Return the entries of a BibTeX file.

    Raises:
        pybtex.exceptions.PybtexError: if it is not one.
    """
    return _parsed(path, path.stat().st_mtime_ns)


@lru_cache(1)
def _parsed(path: Path, changed: int) -> BibliographyData:  # noqa: ARG001 - a new version is a new entry
    return parse_file(str(path), "bibtex")


def addresses_of(entry: Entry) -> list[str]:
    """Return where an entry can be read: its DOI's address, its eprint's, its own."""
    fields = entry.fields
    found = []
    if "doi" in fields:
        found.append(f"https://doi.org/{fields['doi']}")
    if "eprint" in fields:
        found.append(f"https://arxiv.org/abs/{fields['eprint']}")
    if "url" in fields:
        found.append(fields["url"])
    return found


def entry_for(address: str, references: BibliographyData) -> str | None:
    """Return the key of the entry that an address belongs to; None if there is none.

    An address belongs to an entry if it is one of the entry's or lies below it. DOIs have no case.
    """
    wanted = address.lower().rstrip("/")
    for key, entry in references.entries.items():
        for own in addresses_of(entry):
            if wanted == own.lower() or wanted.startswith(f"{own.lower()}/"):
                return str(key)
    return None


def named_source(source: str) -> tuple[str, str | None]:
    """Return name and address of a source written as ``name <address>``; None for the address if it has none."""
    found = re.fullmatch(r"(?P<name>.+?)\s*<(?P<address>https?://[^>\s]+)>", source)
    return (found["name"], found["address"]) if found else (source, None)


def claim_words(lines: Sequence[str], source: str, bibliography: Path) -> dict[str, Any]:
    """Return the words of a claim: ``statement``, ``quote``, ``evidence``, which may be empty, and its source.

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
        "evidence": _NUMBER.sub(lambda found: f"{{{record_name(found[1])}}}", " ".join(paragraphs[1:])),
    }


def _source(source: str, bibliography: Path) -> tuple[str, str | None]:
    name, address = named_source(source)
    if address is not None:
        return name, address
    entry = read_references(bibliography).entries.get(source)
    if entry is None and " " in source.strip():  # which can be read nowhere
        return source.strip(), None
    if entry is None:
        known = read_references(bibliography).entries
        raise ValueError(
            f":source: must be an entry of {FILE}, or a name with an address as in 'Who, What, 2020 <https://…>', "
            f"not {source!r}{meant(source, known)}"
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
