"""Measurements of one machine in one file: records of pages without raw samples, small enough to be sent around."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from tinytorch.report.kinds import of_kind
from tinytorch.report.numbers import is_number
from tinytorch.report.records import NUMBER_KINDS, Json

SCHEMA_NAME = "tinytorch-measurements"
#: The version of `measurements.schema.json`; it rises whenever a reader of the files would have to change.
SCHEMA_VERSION = 3
#: What the schema calls that of records, of whatever version.
RECORDS_NAME = "urn:tinytorch:records"
#: A larger file is not even parsed. A whole book takes a tenth of it.
LARGEST_BYTES = 4 * 2**20
#: What the schema does not say of each string, list and object, so that a file cannot stall who reads it.
LONGEST_TEXT, LONGEST_LIST, DEEPEST, LARGEST_NUMBER = 4000, 1000, 12, 1e100


@cache
def schema() -> Json:
    """Return the JSON Schema (2020-12) of a file of measurements; it refers to that of records."""
    return cast(Json, json.loads(files("tinytorch.report").joinpath("measurements.schema.json").read_text("utf-8")))


def page_entry(page: Mapping[str, Any]) -> Json:
    """Return what a file of measurements keeps of a page's file of records; figures, drawn from them, are left out."""
    return {
        "page": page["page"],
        "duration_seconds": page["duration_seconds"],
        "provenance": page["provenance"],
        "records": [of_kind(record).compact() for record in page["records"] if record["kind"] != "figure"],
    }


def document(label: str, pages: Sequence[Json], *, note: str | None = None) -> Json:
    """Return a file of measurements of a machine, with the pages that `page_entry` made."""
    return {"schema": SCHEMA_NAME, "schema_version": SCHEMA_VERSION, "label": label, "note": note, "pages": list(pages)}


def as_text(made: Mapping[str, Any]) -> str:
    """Return a file of measurements as JSON with a line for each record, so that two can be compared by lines."""
    head = {name: value for name, value in made.items() if name != "pages"}
    pages = []
    for page in made["pages"]:
        about = ",\n".join(f"   {json.dumps(name)}: {_line(page[name])}" for name in page if name != "records")
        records = ",\n".join(f"    {_line(record)}" for record in page["records"])
        pages.append(f'  {{\n{about},\n   "records": [\n{records}\n   ]\n  }}')
    first = ",\n".join(f" {json.dumps(name)}: {_line(value)}" for name, value in head.items())
    return f'{{\n{first},\n "pages": [\n' + ",\n".join(pages) + "\n ]\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def problems(given: Any) -> Iterator[str]:
    """Yield what is wrong with what should be a file of measurements, a sentence each, the first reason first."""
    import referencing
    from jsonschema import Draft202012Validator

    from tinytorch.report.records import schema as record_schema

    if not isinstance(given, dict) or given.get("schema") != SCHEMA_NAME:
        yield f"it is not a file of measurements: its field schema must be {SCHEMA_NAME!r}"
        return
    if given.get("schema_version") != SCHEMA_VERSION:
        yield f"its schema_version must be {SCHEMA_VERSION}, not {str(given.get('schema_version'))[:40]}"
        return
    beyond = next(_beyond_limits(given, "$", 0), None)
    if beyond is not None:
        yield beyond
        return
    registry: Any = referencing.Registry().with_resource(
        RECORDS_NAME, referencing.Resource.from_contents(record_schema())
    )
    for error in Draft202012Validator(schema(), registry=registry).iter_errors(given):
        yield f"{error.json_path}: {error.message[:200]}"
        return  # what follows assumes the shape
    yield from _contradictions(given)


def _beyond_limits(value: Any, where: str, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        yield f"{where}: nested deeper than {DEEPEST} levels"
    elif isinstance(value, str) and len(value) > LONGEST_TEXT:
        yield f"{where}: a text of {len(value)} characters, more than {LONGEST_TEXT}"
    elif isinstance(value, float | int) and abs(value) > LARGEST_NUMBER:
        yield f"{where}: a number beyond {LARGEST_NUMBER:g}"
    elif isinstance(value, dict | list):
        if len(value) > LONGEST_LIST:
            yield f"{where}: {len(value)} entries, more than {LONGEST_LIST}"
        else:
            inside = value.items() if isinstance(value, dict) else enumerate(value)
            for name, item in inside:
                yield from _beyond_limits(item, f"{where}.{str(name)[:60]}", depth + 1)


def _contradictions(made: Json) -> Iterator[str]:
    names = [page["page"] for page in made["pages"]]
    if len(set(names)) < len(names):
        yield "$.pages: two entries belong to the same page"
    for page in made["pages"]:
        if not _is_moment(page["provenance"]["when"]):
            yield f"page {page['page']}: when must be a date and a time, not {page['provenance']['when'][:40]!r}"
        keys = [record["key"] for record in page["records"]]
        if len(set(keys)) < len(keys):
            yield f"page {page['page']}: two records have the same key"
        for record in page["records"]:
            yield from (f"page {page['page']}: {problem}" for problem in _of_record(record))


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _of_record(record: Json) -> Iterator[str]:
    for row in record.get("rows", []) if record["kind"] == "table" else []:
        if len(row) != len(record["columns"]):
            yield f"table {record['key']} has a row of {len(row)} cells for {len(record['columns'])} columns"
    for number in numbers_of(record):
        interval = number["interval"]
        if interval and interval["low"] > interval["high"]:
            yield f"{record['key']} has an interval whose lower end is above its upper end"


def numbers_of(record: Json) -> Iterator[Json]:
    """Yield each number of a record: its own, or those of its table's cells."""
    if record["kind"] in NUMBER_KINDS:
        yield record
    if record["kind"] == "table":
        yield from (cell for row in record["rows"] for cell in row if is_number(cell))


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("an object has the same name twice")
    return made


def parse(content: bytes, name: str) -> Json:
    """Return the file of measurements that ``content`` is, the bytes of a file of which nothing is known.

    Raises:
        ValueError: if it is too large, no JSON, of another version, or breaks the schema.
    """
    if len(content) > LARGEST_BYTES:
        raise ValueError(f"{name} must not be larger than {LARGEST_BYTES // 2**20} MiB, but is {len(content)} bytes")
    try:
        given = json.loads(content.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be JSON: {error}") from None
    problem = next(problems(given), None)
    if problem is not None:
        raise ValueError(f"{name} cannot be used: {problem}")
    return cast(Json, given)


def read_measurements(path: Path) -> Json:
    """Return the file of measurements at ``path``; raises ValueError as `parse` does, and OSError."""
    with path.open("rb") as file:
        return parse(file.read(LARGEST_BYTES + 1), path.name)
