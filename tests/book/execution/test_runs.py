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
from measured_book.execution.runs import CellRun, PageRunError, PeakMemory, execute, held_bytes, page_run

CELLS = ["# waits\nimport time", "time.sleep(0.3)", "x = 1"]


def notebook(*cells: str) -> nbformat.NotebookNode:
    made = notebook_format.new_notebook(cells=[notebook_format.new_code_cell(code) for code in cells or CELLS])
    made.cells.insert(1, notebook_format.new_markdown_cell("Text."))
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    made = notebook()
    assert execute("page", made, str(tmp_path_factory.mktemp("run")), timeout=60) >= 0.3
    return made


@pytest.mark.parametrize(
    ("code", "timeout", "why"),
    [
        ("1 / 0", 60, "ZeroDivisionError"),
        ("import time; time.sleep(60)", 1, "timed out"),
        ("import os; os._exit(1)", 60, "died"),
    ],
)
def test_what_ends_a_run_is_the_page_s(tmp_path: Path, code: str, timeout: int, why: str) -> None:
    with pytest.raises(PageRunError, match=why) as told:
        execute("page", notebook(code), str(tmp_path), timeout)
    assert told.value.docname == "page"


def test_each_cell_has_its_time(executed: nbformat.NotebookNode) -> None:
    run = page_run(executed, None)
    assert run is not None
    assert [cell.code for cell in run.cells] == ["import time", "time.sleep(0.3)", "x = 1"]
    seconds = [cell.seconds or 0.0 for cell in run.cells]
    assert min(seconds) > 0
    assert seconds[1] >= 0.3
    assert run.seconds == pytest.approx(sum(seconds))
    assert run.began is not None
    assert (run.start or 0) > 0


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
    assert run.cells[2] == CellRun("x = 1", None)
    assert run.seconds is None
    assert page_run(notebook_format.new_notebook(), None) is None


MIB = 2**20
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


def test_the_most_of_all_processes_below_is_kept() -> None:
    with (
        PeakMemory() as peak,
        subprocess.Popen(
            [sys.executable, "-c", HOLDS, HOLDS, "again"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        ) as process,
    ):
        begun = time.monotonic()
        while peak.bytes < 128 * MIB and time.monotonic() - begun < 60:
            time.sleep(0.01)
        process.kill()
    assert 128 * MIB <= peak.bytes < 512 * MIB
