"""Executions of pages: how long each cell took and the memory that all held, kept with the executed notebook."""

from datetime import datetime
from threading import Event, Thread
from types import TracebackType
from typing import Self

import nbformat
import psutil
from jupyter_cache.executors.utils import single_nb_execution
from nbclient.exceptions import DeadKernelError
from sphinx.errors import SphinxError

from measured_book.execution.results import TIMES_KEY
from measured_book.state import CellRun, PageRun
from tinytorch.prose import is_of_text

_BEGIN, _END = "iopub.status.busy", "iopub.status.idle"
#: Seconds between two looks at the memory. A look takes some milliseconds of another thread than the page's.
_EVERY_SECONDS = 0.5


class PageRunError(SphinxError):
    """End of the build by a page ``docname`` whose cells did not run to their end; its cause says why."""

    category = "A page did not run to its end"

    def __init__(self, docname: str, why: str) -> None:
        super().__init__(f"{docname}: {why}")
        self.docname = docname


def _seconds(cell: nbformat.NotebookNode) -> float | None:
    times = cell.metadata.pop("execution", {})
    if _BEGIN not in times or _END not in times:
        return None
    return (datetime.fromisoformat(times[_END]) - datetime.fromisoformat(times[_BEGIN])).total_seconds()


def keep_times(notebook: nbformat.NotebookNode, taken: float, peak_bytes: int) -> None:
    """Move the times that nbclient left in the cells to the notebook's metadata; ``taken`` are the seconds of it all.

    In each cell's own they would become part of the cache's key, and no result would be found again.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    began = next((cell.metadata["execution"].get(_BEGIN) for cell in cells if "execution" in cell.metadata), None)
    seconds = [_seconds(cell) for cell in cells]
    start = taken - sum(each or 0.0 for each in seconds)
    notebook.metadata[TIMES_KEY] = {"began": began, "start": start, "seconds": seconds, "peak_bytes": peak_bytes}


def held_bytes(processes: list[psutil.Process]) -> int:
    """Return the bytes of memory that the processes hold together; one that has ended holds none.

    Memory that several share counts in parts, once in all, as a group's limit charges it. Where the system does not
    tell shares (macOS), only what each has for itself counts. Source: proc_pid_smaps(5), Pss.
    """
    total = 0
    for process in processes:
        try:
            found = process.memory_full_info()
        except psutil.Error:
            continue
        total += getattr(found, "pss", found.uss)
    return total


class PeakMemory:
    """Most memory that processes below this one held together: ``with PeakMemory() as peak: ...; peak.bytes``.

    Looked at twice a second: what is held for less may be missed.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._over = Event()
        self._watch = Thread(target=self._look, name="peak-memory", daemon=True)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._watch.join()

    def _look(self) -> None:
        own = psutil.Process()
        while not self._over.wait(_EVERY_SECONDS):
            self.bytes = max(self.bytes, held_bytes(own.children(recursive=True)))


def execute(docname: str, notebook: nbformat.NotebookNode, folder: str, timeout: float | None) -> float:
    """Execute the page's ``notebook``, which then holds its outputs, times and the most memory; return the seconds.

    Raises:
        PageRunError: if a cell raises an error or takes too long, or its kernel dies.
    """
    try:
        with PeakMemory() as peak:
            result = single_nb_execution(notebook, folder, timeout, allow_errors=False, record_timing=True)
    except DeadKernelError:
        why = "its process was ended from outside or crashed: it may have run out of memory, or compiled code is wrong"
        raise PageRunError(docname, why) from RuntimeError(why)
    except (OSError, RuntimeError) as error:
        why = f"its kernel did not start ({error}): kernels are reached over 127.0.0.1, which must be up"
        raise PageRunError(docname, why) from RuntimeError(why)
    if result.err is not None:
        raise PageRunError(docname, result.exc_string or str(result.err)) from result.err
    keep_times(notebook, float(result.time), peak.bytes)
    return float(result.time)


def _first_line(code: str) -> str:
    lines = [line.strip() for line in code.splitlines()]
    return next((line for line in lines if line and not line.startswith("#")), "")


def page_run(notebook: nbformat.NotebookNode, when: str | None) -> PageRun | None:
    """Return the execution of a notebook, which began ``when`` its page made its first record; None without code."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not cells:
        return None
    times = notebook.metadata.get(TIMES_KEY, {})
    seconds = times.get("seconds", [None] * len(cells))
    timed = [(cell, took) for cell, took in zip(cells, seconds, strict=True) if not is_of_text(cell)]
    runs = tuple(CellRun(_first_line(cell.source), took) for cell, took in timed)
    return PageRun(when or times.get("began"), runs, times.get("start"), times.get("peak_bytes") or None)
