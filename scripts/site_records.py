"""Records of a built site: its pages' files, and each number, word and verdict by the place where it stands."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinytorch.report.numbers import is_number, number_text
from tinytorch.report.records import ABSENT, NUMBER_KINDS

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: the page, and the key with what it is within a table or figure."""

    page: str
    name: str


@dataclass(frozen=True)
class Site:
    """What a built site says.

    Attributes:
        numbers: body of each number; of one that the build did not measure its record.
        words: each verdict word and each claim's verdict.
        machines: what each page says of the machine, the BLAS, the variables and the versions.
        packages: what each page says of the package that it ran: version, hash and commit.
    """

    numbers: dict[Place, Json]
    words: dict[Place, str]
    machines: dict[str, Json]
    packages: dict[str, Json] = field(default_factory=dict)


def text_of(number: Json) -> str:
    """Return a number as the page shows it, with its interval."""
    return "not measured" if number["kind"] == ABSENT else number_text(number)


def _cells(record: Json) -> Iterator[tuple[str, Json]]:
    """Yield each number and each verdict of a table, by its place in words."""
    seen: dict[str, int] = {}
    for row in record.get("rows", []):
        first = row.get(record["columns"][0]["key"])
        named = text_of(first) if is_number(first) else str(first)
        seen[named] = seen.get(named, 0) + 1
        again = f" ({seen[named]})" if seen[named] > 1 else ""
        for column in record["columns"]:
            cell = row.get(column["key"])
            if isinstance(cell, dict):  # text is none
                yield f"{record['key']}: {named}{again}, {column['label']}", cell


def _numbers(record: Json) -> Iterator[tuple[str, Json]]:
    if record["kind"] in (*NUMBER_KINDS, ABSENT):
        yield record["key"], record
    yield from ((place, cell) for place, cell in _cells(record) if is_number(cell))
    for series in record.get("series", []):
        for x, number in zip(series["x"], series["numbers"], strict=True):
            yield f"{record['key']}: {series['label']} at {x}", number


def _words(record: Json) -> Iterator[tuple[str, str]]:
    if record["kind"] == "verdict":
        yield record["key"], record["word"]
    if record["kind"] == "claim":
        yield record["key"], record["verdict"]
    yield from ((place, cell["word"]) for place, cell in _cells(record) if "word" in cell)


def read_pages(folder: Path) -> dict[str, Json]:
    """Return the file of records of each page of the site in ``folder``.

    Raises:
        ValueError: if it has no records, or a file of them is none.
    """
    files = sorted((folder / "_records").rglob("*.json"))
    if not files:
        raise ValueError(f"{folder} must be the folder of a built site, but has no _records with files in it")
    pages: dict[str, Json] = {}
    for path in files:
        try:
            content = json.loads(path.read_text("utf-8"))
            pages[content["page"]] = {**content, "records": list(content["records"])}
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} must be a page's file of records, but cannot be read as one: {error}") from error
    return pages


def read_site(folder: Path) -> Site:
    """Return what the site in ``folder`` says.

    Raises:
        ValueError: if it has no records, or a file of them is none.
    """
    site = Site({}, {}, {})
    for page, content in read_pages(folder).items():
        provenance = content["provenance"]
        machine = {name: value for name, value in provenance["machine"].items() if name != "load"}
        rest = ("blas", "environment", "python", "numpy")
        site.machines[page] = {**machine, **{name: provenance[name] for name in rest}}
        site.packages[page] = provenance["package"]
        for record in content["records"]:
            site.numbers.update((Place(page, name), number) for name, number in _numbers(record))
            site.words.update((Place(page, name), word) for name, word in _words(record))
    return site
