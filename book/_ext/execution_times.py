"""How long each cell of each page took, the memory that it held, and whether it ran in this build.

Kept with the executed notebook.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import myst_nb.core.execute.cache as cached_execution
import nbformat
from docutils import nodes
from environment_state import state_of
from execution_memory import PeakMemory
from jupyter_cache.executors.utils import ExecutionResult, single_nb_execution
from record_store import TIMES_KEY, executed_notebook, store_of
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

_BEGIN, _END = "iopub.status.busy", "iopub.status.idle"


@dataclass(frozen=True)
class CellRun:
    """One code cell: its first line of code, and the seconds that it took, if they were kept."""

    code: str
    seconds: float | None


@dataclass(frozen=True)
class PageRun:
    """The execution of one page.

    Attributes:
        began: when, in ISO 8601; None if that is not known.
        cells: of code.
        in_this_build: whether this build ran it.
        peak_bytes: the most memory that its processes held together; None if that was not kept.
    """

    began: str | None
    cells: tuple[CellRun, ...]
    in_this_build: bool
    peak_bytes: int | None = None

    @property
    def seconds(self) -> float | None:
        """Return how long all cells took; None if the time of one is not known."""
        known = [cell.seconds for cell in self.cells if cell.seconds is not None]
        return sum(known) if len(known) == len(self.cells) else None


def _seconds(cell: nbformat.NotebookNode) -> float | None:
    times = cell.metadata.pop("execution", {})
    if _BEGIN not in times or _END not in times:
        return None
    return (datetime.fromisoformat(times[_END]) - datetime.fromisoformat(times[_BEGIN])).total_seconds()


def keep_times(notebook: nbformat.NotebookNode, peak_bytes: int) -> None:
    """Move the times that nbclient left in the cells to the notebook's metadata, and put the memory beside them.

    In each cell's own they would become part of the cache's key, and no result would be found again.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    began = next((cell.metadata["execution"].get(_BEGIN) for cell in cells if "execution" in cell.metadata), None)
    seconds = [_seconds(cell) for cell in cells]
    notebook.metadata[TIMES_KEY] = {"began": began, "seconds": seconds, "peak_bytes": peak_bytes}


class Watch:
    """Executes notebooks as MyST-NB would, keeps times and memory, and knows whether one ran."""

    def __init__(self, execute: Callable[..., ExecutionResult] = single_nb_execution) -> None:
        self.execute = execute
        self.ran = False

    def __call__(self, notebook: nbformat.NotebookNode, **options: Any) -> ExecutionResult:
        """Execute ``notebook``, which then holds its outputs, times and the most memory."""
        self.ran = True
        with PeakMemory() as peak:
            result = self.execute(notebook, **{**options, "record_timing": True})
        keep_times(notebook, peak.bytes)
        return result


def _first_line(code: str) -> str:
    lines = [line.strip() for line in code.splitlines()]
    return next((line for line in lines if line and not line.startswith("#")), "")


def page_run(notebook: nbformat.NotebookNode, when: str | None, *, in_this_build: bool) -> PageRun | None:
    """Return the execution of a notebook; None if it has no code cells.

    Args:
        notebook: executed.
        when: the time at which its page made its first record, for notebooks that kept no times.
        in_this_build: whether it ran just now.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not cells:
        return None
    times = notebook.metadata.get(TIMES_KEY, {})
    seconds = times.get("seconds", [None] * len(cells))
    runs = tuple(CellRun(_first_line(cell.source), took) for cell, took in zip(cells, seconds, strict=True))
    return PageRun(when or times.get("began"), runs, in_this_build, times.get("peak_bytes") or None)


def runs_of(env: BuildEnvironment) -> dict[str, PageRun]:
    """Return the execution of each page that has code; the environment keeps it over builds."""
    return state_of(env, "page_runs", dict)


def setup(app: Sphinx) -> dict[str, Any]:
    """Time the cells, and remember each page's execution as it is read."""
    app.setup_extension("measured")
    watch = Watch()
    # MyST-NB has no setting for it.
    cached_execution.single_nb_execution = watch

    def before_reading(*_: object) -> None:
        watch.ran = False

    def after_reading(app: Sphinx, _: nodes.document) -> None:
        docname = app.env.docname
        notebook = executed_notebook(app.env, docname)
        page = store_of(app.env).pages.get(docname)
        when = page.provenance["when"] if page is not None else None
        run = None if notebook is None else page_run(notebook, when, in_this_build=watch.ran)
        if run is not None:
            runs_of(app.env)[docname] = run

    def forget(_: Sphinx, env: BuildEnvironment, docname: str) -> None:
        runs_of(env).pop(docname, None)

    def merge(_: Sphinx, env: BuildEnvironment, docnames: list[str], other: BuildEnvironment) -> None:
        runs_of(env).update((name, run) for name, run in runs_of(other).items() if name in docnames)

    app.connect("source-read", before_reading)
    app.connect("doctree-read", after_reading, priority=900)  # behind measured.py
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    return {"version": "1", "env_version": 2, "parallel_read_safe": True, "parallel_write_safe": True}
