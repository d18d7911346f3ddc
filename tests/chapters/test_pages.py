"""Every page runs with a tiny budget, has a value for all that its text names, and names calls as other pages do."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.perf.made_ceilings import spread
from tinytorch.chapters import calls
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


def test_the_same_call_has_one_name_and_its_times_stay() -> None:
    seconds = spread(1e-3, "s", 0.1)
    named = calls.zoo_pass(seconds, "mlp", 64)
    assert named.conditions.call == calls.zoo_pass(spread(0.002, "s", 0.1), "mlp", 64).conditions.call
    assert (named.samples, named.interval, named.name) == (seconds.samples, seconds.interval, seconds.name)
    others = [calls.zoo_pass(seconds, "mlp", 1), calls.zoo_pass(seconds, "cnn", 64), calls.of_call(seconds, "add")]
    assert len({each.conditions.call for each in (named, *others)}) == 4
