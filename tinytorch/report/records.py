"""Records: what a page keeps of each number, word, table, figure and claim, as JSON with a schema.

A record is a flat object with its ``key``, its ``kind``, its ``page`` and the time ``when`` it was made. The schema
says what each kind has besides, and `tinytorch.report.kinds` has a class for each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, cast

from tinytorch import settings
from tinytorch.prose import KEY

#: The version of `record.schema.json`; it rises whenever a reader of the files would have to change.
SCHEMA_VERSION = 6
SCHEMA_NAME = "tinytorch-records"
NUMBER_KINDS = ("measured", "counted", "derived", "modelled", "quoted")
#: The kind of what stands in place of a number, verdict, table or figure that this build did not measure.
ABSENT = "absent"
#: The MIME type under which records stand in the outputs of an executed notebook.
RECORD_MIME = "application/vnd.tinytorch.record+json"
#: The MIME type of what a page's text names and its cells do not give: ``name`` and ``said``.
FAULT_MIME = "application/vnd.tinytorch.fault+json"

Json = dict[str, Any]


def is_building() -> bool:
    """Return whether the cells run for the book's build, not for a reader."""
    return bool(settings.SETTINGS.building_book)


@cache
def schema() -> Json:
    """Return the JSON Schema (2020-12) of a page's file of records."""
    return cast(Json, json.loads(files("tinytorch.report").joinpath("record.schema.json").read_text("utf-8")))


def checked_key(key: str) -> str:
    """Return ``key``, or raise ValueError if it is not lower-case words joined by hyphens."""
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise ValueError(f"key must be lower-case words joined by hyphens, such as 'mlp-latency', not {key!r}")
    return key


def checked_text(text: str, name: str, key: str) -> str:
    """Return ``text`` without outer space, or raise ValueError naming ``name`` and ``key`` if nothing is left."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} of {key!r} must be words, not {text!r}: a page would show nothing there")
    return text.strip()


def now() -> str:
    """Return the time now in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def page_file(page: str, records: Sequence[Json], *, duration_seconds: float | None = None) -> Json:
    """Return a page's file of records, as `record.schema.json` describes it.

    Raises:
        ValueError: if the page has no provenance record, which says where the others were made.
    """
    where = next((record for record in records if record["kind"] == "provenance"), None)
    if where is None:
        raise ValueError(f"page {page!r} must have a provenance record: make its Page({page!r}) first")
    return {
        "schema": SCHEMA_NAME,
        "schema_version": SCHEMA_VERSION,
        "page": page,
        "duration_seconds": duration_seconds,
        "provenance": {name: value for name, value in where.items() if name not in ("key", "kind", "page")},
        "records": [record for record in records if record["kind"] != "provenance"],
    }
