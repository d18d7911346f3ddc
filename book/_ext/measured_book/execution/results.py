"""Records that a page's cells left in its executed notebook, read from there and held to their schema."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from fastjsonschema import JsonSchemaValueException
from fastjsonschema import compile as compile_schema
from jupyter_cache import get_cache
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from measured_book.state import PageRecords, state_of
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.report.provenance import WITHHELD
from tinytorch.report.records import FAULT_MIME, RECORD_MIME, Json, schema
from tinytorch.report.verdicts import evidence_words, placeholders

#: Where an executed notebook keeps its cells' times: see execution/runs.py.
TIMES_KEY = "cell_times"
#: The parts of a notebook's metadata that its execution made.
_MERGED = ("kernelspec", "language_info", "widgets", TIMES_KEY)


class RecordError(Exception):
    """Refusal of a page's records; the message says which and why."""


#: The words of a claim that has none on its page, so that its record is whole and nothing else of the page is lost.
NO_WORDS: Json = {"statement": "…", "quote": "…", "source": "…", "source_url": None, "evidence": ""}


def has_words(claim: Json) -> bool:
    """Return whether a claim's record got the words that its page should have for it."""
    return bool(claim["statement"] != NO_WORDS["statement"])


def completed(record: Json, words: Mapping[str, Json]) -> Json:
    """Return a claim's record with the words that its page has for it."""
    if record["kind"] != "claim":
        return record
    said = words.get(record["key"], NO_WORDS)
    evidence = said["evidence"] or evidence_words(record)
    if record["verdict"] == Verdict.WITHHELD:
        evidence = f"{evidence} {WITHHELD}"
    return {**record, **said, "evidence": evidence, "numbers": placeholders(said["evidence"], record["key"])}


def results_of(env: BuildEnvironment, docname: str) -> Path | None:
    """Return the folder of the execution cache that holds the result of the page as it was last read; None without."""
    key = state_of(env).of(docname).key
    return None if key is None else Path(env.config.nb_execution_cache_path) / docname.replace("/", "--") / key


def executed_notebook(env: BuildEnvironment, docname: str) -> nbformat.NotebookNode | None:
    """Return the page's notebook with its outputs; None if the page is no notebook.

    MyST-NB writes each page's notebook into its output folder, without the times that were kept with its outputs in
    the execution cache, so these come from there.
    """
    config = env.mystnb_config  # type: ignore[attr-defined]
    path = Path(config.output_folder, f"{docname}.ipynb")
    if not path.is_file():
        return None
    notebook = nbformat.read(path, as_version=4)
    results = results_of(env, docname)
    if results is not None:
        with suppress(KeyError):
            _, notebook = get_cache(str(results)).merge_match_into_notebook(notebook, nb_meta=_MERGED)
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


def faults_in(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Return why expressions of the page's text, and outcomes with a name, give nothing to show."""
    outputs = (output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))
    return {data[FAULT_MIME]["name"]: data[FAULT_MIME]["said"] for data in outputs if FAULT_MIME in data}


def _not_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_not_finite(item) for item in value.values())
    if isinstance(value, list):
        return any(_not_finite(item) for item in value)
    return isinstance(value, float) and not math.isfinite(value)


def read_page(
    notebook: nbformat.NotebookNode, docname: str, duration: float | None, claim_words: Mapping[str, Json] | None = None
) -> PageRecords | None:
    """Return the page's records, with what its text says of the claims that its cells test; None if they made none.

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
        page.records[str(key)] = completed(record, claim_words or {})
    if not page.records:
        return None
    try:
        _compiled_schema()(page.as_file())
    except JsonSchemaValueException as error:
        raise RecordError(f"records break their schema: {error.message[:300]}") from None
    return page


@cache
def _compiled_schema() -> Callable[[Json], Json]:
    """Return the check of a page's records, compiled to Python: a schema that is interpreted takes seconds a page."""
    check: Callable[[Json], Json] = compile_schema(schema(), use_default=False)
    return check
