"""Every page runs from its first cell to its last with a tiny budget, and has a value for all that its text names."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinytorch.cli.page_runs import measuring_pages, run_page
from tinytorch.prose import Number, parts
from tinytorch.settings import variables

ROOT = Path(__file__).resolve().parents[2]
PAGES = measuring_pages(ROOT)


@pytest.fixture(scope="session")
def prepared() -> None:
    """Train and compile what pages need, where the last build has not: whichever of several processes comes first."""
    folder = ROOT / "_build" / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "scripts/building/preparation.py", str(folder), "the machine of the tests", *PAGES]
    settings = {**os.environ, **variables(rough="1"), "PYTHONPATH": str(ROOT)}
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_and_has_what_its_text_names(page: str) -> None:
    made = run_page(ROOT, page, lambda done, of: None, rough=True)
    had = {record.get("expression") for record in made["records"]}
    named = parts((ROOT / "book" / f"{page}.md").read_text("utf-8"))
    assert [one for one in named if isinstance(one, Number) and one.expression not in had] == []
