"""Times of cells: kept by a real execution, and no part of the key under which its result is found again."""

from __future__ import annotations

from pathlib import Path

import nbformat
import nbformat.v4 as notebook_format
import pytest
from execution_times import CellRun, Watch, page_run
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.cache.main import JupyterCacheBase

CELLS = ["# waits\nimport time", "time.sleep(0.3)", "x = 1"]


def notebook() -> nbformat.NotebookNode:
    made = notebook_format.new_notebook(cells=[notebook_format.new_code_cell(code) for code in CELLS])
    made.cells.insert(1, notebook_format.new_markdown_cell("Text."))
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    made, watch = notebook(), Watch()
    assert not watch.ran
    folder = tmp_path_factory.mktemp("run")
    result = watch(made, cwd=str(folder), timeout=60, allow_errors=False)
    assert result.err is None
    assert watch.ran
    return made


def test_each_cell_has_its_time(executed: nbformat.NotebookNode) -> None:
    run = page_run(executed, None, in_this_build=True)
    assert run is not None
    assert [cell.code for cell in run.cells] == ["import time", "time.sleep(0.3)", "x = 1"]
    seconds = [cell.seconds for cell in run.cells]
    assert None not in seconds
    assert seconds[1] is not None
    assert seconds[1] >= 0.3
    assert run.seconds == pytest.approx(sum(s for s in seconds if s is not None))
    assert run.began is not None


def test_the_result_is_found_again_with_its_times(executed: nbformat.NotebookNode, tmp_path: Path) -> None:
    cache = JupyterCacheBase(tmp_path)
    cache.cache_notebook_bundle(CacheBundleIn(executed, "page.md"), check_validity=False)
    found = cache.get_cache_bundle(cache.match_cache_notebook(notebook()).pk).nb
    assert page_run(found, None, in_this_build=False) == page_run(executed, None, in_this_build=False)
    cache.db.dispose()


def test_times_that_were_not_kept_are_none() -> None:
    run = page_run(notebook(), "2026-11-20T10:00:00+00:00", in_this_build=False)
    assert run is not None
    assert run.began == "2026-11-20T10:00:00+00:00"
    assert run.cells[2] == CellRun("x = 1", None)
    assert run.seconds is None


def test_a_page_without_code_has_no_execution() -> None:
    assert page_run(notebook_format.new_notebook(), None, in_this_build=True) is None
