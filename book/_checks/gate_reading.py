"""Gate: every page reads well with each number and word in its place, as the build holds it to: see
`measured_book.pages.reading`.

Steps of a table that do not multiply to their total are printed, and fail nothing: noise decides that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from measured_book.pages import reading

from tinytorch.report.records import Json


def records_of(site: Path) -> dict[str, Json]:
    """Return all records of a site by ``page:key``."""
    files = sorted((site / "_records").rglob("*.json"))
    read = (json.loads(file.read_text("utf-8")) for file in files)
    return {f"{record['page']}:{record['key']}": record for file in read for record in file["records"]}


def check(site: Path, pages: Sequence[str]) -> dict[str, list[str]]:
    """Return what a reader should not meet on each of these pages of a site; print what is worth a notice."""
    records = records_of(site)
    for record in records.values():
        if f"{record['page']}.html" in pages:
            for notice in reading.unequal_products(record):
                print(f"notice: {record['page']}.html: {notice}")
    return {page: reading.problems((site / page).read_text("utf-8"), records.get) for page in pages}
