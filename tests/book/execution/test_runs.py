"""Times of cells, kept by a real execution and no part of the key of its result, and the memory of processes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import nbformat.v4 as notebook_format
import psutil
import pytest
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.cache.main import JupyterCacheBase
from measured_book.execution.runs import PageRunError, PeakMemory, execute, held_bytes, keep_times, page_run
from measured_book.pages.lists import _page_row
from measured_book.state import CellRun

from tests.chosen_settings import PATIENCE

MIB = 2**20
CELLS = ["# counts\nimport time", "x = 1"]


def notebook(*cells: str) -> nbformat.NotebookNode:
    made = notebook_format.new_notebook(cells=[notebook_format.new_code_cell(code) for code in cells or CELLS])
    made.cells.insert(1, notebook_format.new_markdown_cell("Text."))
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    made = notebook()
    execute("page", made, str(tmp_path_factory.mktemp("run")), timeout=PATIENCE)
    return made


@pytest.mark.parametrize(
    ("code", "timeout", "why"),
    [
        ("1 / 0", PATIENCE, "ZeroDivisionError"),
        (f"import time; time.sleep({PATIENCE})", 1, "timed out"),
        ("import os; os._exit(1)", PATIENCE, "crashed"),
    ],
)
def test_what_ends_a_run_is_the_page_s(tmp_path: Path, code: str, timeout: int, why: str) -> None:
    with pytest.raises(PageRunError, match=why) as told:
        execute("page", notebook(code), str(tmp_path), timeout)
    assert told.value.docname == "page"


def test_each_cell_has_its_time(executed: nbformat.NotebookNode) -> None:
    run = page_run(executed, None)
    assert run is not None
    assert [cell.code for cell in run.cells] == ["import time", "x = 1"]
    assert None not in (run.began, run.start, run.seconds, *(cell.seconds for cell in run.cells))


def test_times_and_memory_are_those_that_were_kept() -> None:
    made = notebook()
    for cell, begin, end in zip((made.cells[0], made.cells[2]), ("00.5", "03"), ("02.75", "10"), strict=True):
        moments = {"iopub.status.busy": begin, "iopub.status.idle": end}
        cell.metadata["execution"] = {name: f"2026-11-20T10:00:{second}+00:00" for name, second in moments.items()}
    keep_times(made, 12.0, 3 * MIB)
    run = page_run(made, None)
    assert run is not None
    assert (run.began, run.start, run.seconds, run.peak_bytes) == ("2026-11-20T10:00:00.5+00:00", 2.75, 9.25, 3 * MIB)
    assert [cell.seconds for cell in run.cells] == [2.25, 7.0]
    assert "3.00" in _page_row("A page", "page.html", run)


def test_the_result_is_found_again_with_its_times(executed: nbformat.NotebookNode, tmp_path: Path) -> None:
    cache = JupyterCacheBase(tmp_path)
    cache.cache_notebook_bundle(CacheBundleIn(executed, "page.md"), check_validity=False)
    found = cache.get_cache_bundle(cache.match_cache_notebook(notebook()).pk).nb
    assert page_run(found, None) == page_run(executed, None)
    cache.db.dispose()


def test_times_that_were_not_kept_are_none_and_a_page_without_code_has_no_run() -> None:
    run = page_run(notebook(), "2026-11-20T10:00:00+00:00")
    assert run is not None
    assert run.began == "2026-11-20T10:00:00+00:00"
    assert run.cells[1] == CellRun("x = 1", None)
    assert run.seconds is None
    assert page_run(notebook_format.new_notebook(), None) is None


#: Holds 64 MiB, says so, and waits for a line. Told "again" it starts one more process that does the same.
HOLDS = """
import subprocess, sys
held = bytearray(b"x") * (64 * 2**20)
if "again" in sys.argv:
    command = [sys.executable, "-c", sys.argv[1], sys.argv[1]]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """Return a process that holds 64 MiB and has a child that holds as much."""
    command = [sys.executable, "-c", HOLDS, HOLDS, "again"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_what_processes_hold_adds_up(holder: subprocess.Popen[str]) -> None:
    one = psutil.Process(holder.pid)
    (child,) = one.children()
    alone, together = held_bytes([one]), held_bytes([one, child])
    assert 64 * MIB < alone < 96 * MIB
    assert 128 * MIB < together < 192 * MIB
    holder.kill()
    holder.wait()
    assert held_bytes([one]) == 0


@pytest.mark.usefixtures("holder")
def test_the_most_of_all_processes_below_is_kept() -> None:
    end = time.monotonic() + PATIENCE
    with PeakMemory() as peak:
        while peak.bytes < 128 * MIB and time.monotonic() < end:
            time.sleep(0.01)
    assert peak.bytes >= 128 * MIB
