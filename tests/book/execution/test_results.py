"""Records are read from a notebook's outputs, and what is wrong with them is said."""

from typing import Any

import nbformat
import pytest
from measured_book.execution.results import RecordError, read_page

from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page
from tinytorch.report.kinds import of_kind
from tinytorch.report.records import RECORD_MIME, Json

RUN = Measurement("a run", (1.0, 1.1, 1.2, 1.3, 1.4, 1.5), "s")


def records() -> list[Json]:
    page = Page("page")
    page.number("latency", RUN)
    page.table("ops", [{"op": "a", "time": RUN}], [("op", "Op"), ("time", "Time")], caption="c")
    return page.records


def notebook(data: list[Json]) -> nbformat.NotebookNode:
    outputs = [nbformat.v4.new_output("display_data", {RECORD_MIME: record}) for record in data]
    cell = nbformat.v4.new_code_cell("", outputs=outputs, metadata={"tags": ["remove-output"]})
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("text"), cell])


def test_all_records_are_read_whatever_the_cells_tags() -> None:
    page = read_page(notebook(records()), "page", 2.0)
    assert page is not None
    assert list(page.records) == ["provenance", "latency", "ops"]
    assert page.duration == 2.0


def test_a_page_without_records_has_none() -> None:
    assert read_page(notebook([]), "page", None) is None


def changed(which: str, **fields: Any) -> list[Json]:
    made = records()
    next(record for record in made if record["key"] == which).update(fields)
    return made


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed("latency", page="other"), r"write Page\('page'\)"),
        (changed("ops", key="latency"), "two records have the key 'latency'"),
        (changed("latency", value=float("nan")), "'latency' holds a number that is not finite"),
        (changed("latency", samples=[]), "break their schema"),
        (changed("latency", what=""), "break their schema"),
    ],
)
def test_what_is_wrong_is_said(data: list[Json], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read_page(notebook(data), "page", None)


def test_records_without_provenance_are_refused() -> None:
    with pytest.raises((RecordError, ValueError), match="provenance"):
        read_page(notebook(records()[1:]), "page", None)


def test_numbers_in_tables_count_too() -> None:
    assert [number["n"] for record in records()[1:] for number in of_kind(record).numbers()] == [6, 6]
