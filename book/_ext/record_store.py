"""Reads the records that a page's cells left in its executed notebook, and keeps them in Sphinx's environment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from environment_state import state_of
from execution_cache import keys_of, left_out_of, results_of
from jsonschema import Draft202012Validator
from jupyter_cache import get_cache
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json, Record, page_file, schema
from tinytorch.report.shown import RECORD_MIME

#: Where an executed notebook keeps its cells' times: see execution_times.py.
TIMES_KEY = "cell_times"
#: Why a page that a build of others read has no records.
LEFT_OUT = "This build ran other pages only: `make book` runs all"
#: The parts of a notebook's metadata that its execution made.
_MERGED = ("kernelspec", "language_info", "widgets", TIMES_KEY)


class RecordError(Exception):
    """A page's records cannot be shown; the message says which and why."""


@dataclass
class PageRecords:
    """All records of one page by key, and how long its cells took in seconds, if known."""

    docname: str
    records: dict[str, Json] = field(default_factory=dict)
    duration: float | None = None

    @property
    def provenance(self) -> Json:
        """Where the page was made."""
        return next(record for record in self.records.values() if record["kind"] == "provenance")

    def of_kind(self, *kinds: str) -> list[Json]:
        """Return the records of these kinds, in the order in which they were made."""
        return [record for record in self.records.values() if record["kind"] in kinds]

    def as_file(self) -> Json:
        """Return the page's file of records, as the schema describes it."""
        records = [Record.from_json(record) for record in self.records.values()]
        return page_file(self.docname, records, duration_seconds=self.duration)


@dataclass
class Store:
    """What the environment keeps over builds: records, where claims are discussed, who uses whose numbers.

    ``left_out`` are the pages that a build of others read without running them, as execution_cache.py keeps them.
    """

    pages: dict[str, PageRecords] = field(default_factory=dict)
    claim_homes: dict[str, set[str]] = field(default_factory=dict)
    uses: dict[str, set[str]] = field(default_factory=dict)
    ledgers: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)

    def forget(self, docname: str) -> None:
        """Drop all that the page ``docname`` contributed."""
        self.pages.pop(docname, None)
        self.claim_homes.pop(docname, None)
        self.uses.pop(docname, None)
        self.ledgers.discard(docname)
        self.touched.add(docname)

    def take_over(self, other: Store, docnames: set[str]) -> None:
        """Take what another process read of ``docnames``."""
        for docname in docnames:
            self.forget(docname)
        self.pages.update((name, other.pages[name]) for name in docnames & other.pages.keys())
        self.claim_homes.update((name, other.claim_homes[name]) for name in docnames & other.claim_homes.keys())
        self.uses.update((name, other.uses[name]) for name in docnames & other.uses.keys())
        self.ledgers |= other.ledgers & docnames

    def dependents(self) -> set[str]:
        """Return the pages that show something of a page read in this build; forgets which these were."""
        users = {page for page, used in self.uses.items() if used & self.touched}
        users |= self.ledgers if self.touched else set()
        self.touched = set()
        return users

    def find(self, reference: str, docname: str, *kinds: str) -> Json | None:
        """Return the record that ``key`` or ``page:key`` names on the page ``docname``; None if there is none.

        On a page that was left out everything is absent.
        """
        page, key = split_reference(reference, docname)
        record = self.pages[page].records.get(key) if page in self.pages else None
        if page in self.left_out:
            record = {"key": key, "kind": ABSENT, "page": page, "reason": LEFT_OUT}
        return record if record is not None and record["kind"] in kinds else None


def split_reference(reference: str, docname: str) -> tuple[str, str]:
    """Return the page and the key that ``key`` or ``page:key`` means on the page ``docname``."""
    page, colon, key = reference.rpartition(":")
    return (page, key) if colon else (docname, reference)


def store_of(env: BuildEnvironment) -> Store:
    """Return the environment's store, made when missing."""
    return state_of(env, "measured_store", lambda: Store(left_out=left_out_of(env)))


def executed_notebook(env: BuildEnvironment, docname: str) -> nbformat.NotebookNode | None:
    """Return the page's notebook with its outputs; None if the page is no notebook.

    MyST-NB writes each page's notebook into its output folder, with outputs if it just ran; one that was
    taken from the execution cache it writes without, so these come from the cache.
    """
    config = env.mystnb_config  # type: ignore[attr-defined]
    path = Path(config.output_folder, f"{docname}.ipynb")
    if not path.is_file():
        return None
    notebook = nbformat.read(path, as_version=4)
    if docname in keys_of(env):
        with suppress(KeyError):
            _, notebook = get_cache(str(results_of(env, docname))).merge_match_into_notebook(notebook, nb_meta=_MERGED)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # drawn at random otherwise, so that no two builds had the same notebook
    return notebook


def forget_notebook(app: Sphinx, docname: str) -> None:
    """Remove the notebook that an earlier build wrote for the page, so that what is there is of this build."""
    Path(app.env.mystnb_config.output_folder, f"{docname}.ipynb").unlink(missing_ok=True)  # type: ignore[attr-defined]


def records_in(notebook: nbformat.NotebookNode) -> Iterator[Json]:
    """Yield each record in the outputs of the notebook's cells, whatever their tags."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if RECORD_MIME in data:
                yield dict(data[RECORD_MIME])


def numbers_in(record: Json) -> Iterator[Json]:
    """Yield each number of a record: its own, its table's cells', its figure's."""
    if record["kind"] in NUMBER_KINDS:
        yield record
    for row in record.get("rows", []):
        yield from (cell for cell in row.values() if isinstance(cell, dict))
    for series in record.get("series", []):
        yield from series["numbers"]


def _not_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_not_finite(item) for item in value.values())
    if isinstance(value, list):
        return any(_not_finite(item) for item in value)
    return isinstance(value, float) and not math.isfinite(value)


def read_page(notebook: nbformat.NotebookNode, docname: str, duration: float | None) -> PageRecords | None:
    """Return the page's records; None if its cells made none.

    Raises:
        RecordError: if two share a key, one says it belongs to another page, is not finite, or breaks the schema.
    """
    page = PageRecords(docname, duration=duration)
    for record in records_in(notebook):
        key = record.get("key")
        if record.get("page") != docname:
            raise RecordError(f"record {key!r} says it is of page {record.get('page')!r}: write Page({docname!r})")
        if key in page.records:
            raise RecordError(f"two records have the key {key!r}")
        if _not_finite(record):
            raise RecordError(f"record {key!r} holds a number that is not finite")
        page.records[str(key)] = record
    if not page.records:
        return None
    problem = next(iter(Draft202012Validator(schema()).iter_errors(page.as_file())), None)
    if problem is not None:
        raise RecordError(f"records break their schema at {problem.json_path}: {problem.message[:300]}")
    return page
