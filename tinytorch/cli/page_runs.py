"""Runs the cells of the book's chapters outside of its build, and gives back the records that they make."""

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from tinytorch.perf.host.identity import steering_variables
from tinytorch.prose import with_cells
from tinytorch.report.measurements import read_measurements
from tinytorch.report.provenance import package_folder
from tinytorch.report.records import RECORD_MIME, Json, page_file
from tinytorch.report.verdicts import claim_parts
from tinytorch.settings import variables

#: Seconds that a cell may take, as in the book.
_CELL_SECONDS = 600
_ENTRY = re.compile(r"^\s*-?\s*(?:file|root):\s*(\S+)\s*$", re.MULTILINE)
_CLAIM = re.compile(r"^(?P<fence>[`:]{3,})\{claim\} +(?P<key>\S+) *\n(?P<body>.*?)^(?P=fence) *$", re.M | re.S)
#: What to do where the book, or what only it needs, is missing.
IN_A_CLONE = "in a clone of the repository, run `make environment`, and then `.venv/bin/tinytorch measure`"


class ChapterError(Exception):
    """A chapter cannot be run; the message is one sentence that says which and why."""


def checkout() -> Path:
    """Return the folder of the clone that this package lies in.

    Raises:
        ChapterError: if the package was installed without the book.
    """
    folder = package_folder().parent
    if not (folder / "_toc.yml").is_file():
        raise ChapterError(
            f"the book's pages are not installed with the package in {package_folder().parent}: {IN_A_CLONE}"
        )
    return folder


def measuring_pages(root: Path) -> list[str]:
    """Return the names of the pages of the clone ``root`` that have cells to run, in the book's order."""
    names = [name.removesuffix(".md") for name in _ENTRY.findall((root / "_toc.yml").read_text("utf-8"))]
    sources = {name: root / "book" / f"{name}.md" for name in names}
    return [name for name, path in sources.items() if path.is_file() and "{code-cell}" in path.read_text("utf-8")]


def expected_seconds(root: Path, pages: list[str]) -> float | None:
    """Return how long ``pages`` took on the machines in ``measurements/``, medians added up; None where one is new."""
    durations: dict[str, list[float]] = {}
    for path in sorted((root / "measurements").glob("*.json")):
        for page in read_measurements(path)["pages"]:
            if page["duration_seconds"] is not None:
                durations.setdefault(page["page"], []).append(page["duration_seconds"])
    return sum(median(durations[page]) for page in pages) if all(page in durations for page in pages) else None


def run_page(root: Path, name: str, on_cell: Callable[[int, int], None], *, rough: bool = False) -> Json:
    """Return the page's file of records, made now by running its cells in a process of their own.

    The process is free of the user's start-up files and of variables that choose kernels and threads, as it is in the
    book's build.

    Args:
        root: the clone.
        name: of the page.
        on_cell: told how many of how many cells have run.
        rough: whether each measurement has a tiny budget, which shows that the page runs.

    Raises:
        ChapterError: if a cell fails, or tests a claim that the page does not state.
    """
    import jupytext  # type: ignore[import-untyped]
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook = jupytext.read(root / "book" / f"{name}.md", fmt="md:myst")
    notebook.cells, _ = with_cells(notebook.cells, [0] * len(notebook.cells))
    cells = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    folder = {"metadata": {"path": str(root / "book")}}
    client = NotebookClient(notebook, timeout=_CELL_SECONDS, kernel_name="python3", resources=folder)
    start = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as user,
        Path(user, "stderr").open("w+", encoding="utf-8") as said,
        client.setup_kernel(env=_environment(user) | (variables(rough="1") if rough else {}), stderr=said),
    ):
        for done, index in enumerate(cells):
            on_cell(done, len(cells))
            try:
                client.execute_cell(notebook.cells[index], index)
            except CellExecutionError as error:
                raise _failed(name, done, f"{error.ename}: {error.evalue}") from error
            except (CellTimeoutError, DeadKernelError) as error:
                said.seek(0)
                raise _failed(name, done, " ".join([type(error).__name__, *said.read().split()[-60:]])) from error
    seconds = time.perf_counter() - start
    statements = claim_statements("\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown"))
    records = [_with_statement(record, statements, name) for record in _records_in(notebook)]
    return page_file(name, records, duration_seconds=seconds)


def claim_statements(text: str) -> dict[str, str]:
    """Return the statement of each claim in the text of a page, by the claim's key."""
    statements: dict[str, str] = {}
    for claim in _CLAIM.finditer(text):
        lines = [line for line in claim["body"].splitlines() if not line.startswith(":")]  # without options
        if any(lines):
            statements[claim["key"]] = claim_parts(lines)[1][0]
    return statements


def _with_statement(record: Json, statements: Mapping[str, str], page: str) -> Json:
    """Return the record; that of a claim with its statement, which only the text of the page holds."""
    if record["kind"] != "claim" or "statement" in record:
        return record
    if record["key"] not in statements:
        raise ChapterError(f"page {page} tests {record['key']!r}, but it has no {{claim}} with this key")
    return {**record, "statement": statements[record["key"]]}


def _failed(name: str, done: int, reason: str) -> ChapterError:
    return ChapterError(f"code cell {done + 1} of page {name} failed: {reason}")


def _records_in(notebook: Any) -> Iterator[Json]:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if RECORD_MIME in output.get("data", {}):
                yield output["data"][RECORD_MIME]


def _environment(user: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in steering_variables()}
    return {**kept, "IPYTHONDIR": user, "PYTHONNOUSERSITE": "1"}
