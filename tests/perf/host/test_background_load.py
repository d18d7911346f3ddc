"""What other processes use of the machine is seen, and what this one and its children use is not taken for it."""

import subprocess
import sys
import time

import pytest

from tinytorch.perf.host import background_load
from tinytorch.perf.host.background_load import BackgroundLoad

SPIN = "import time\nwhile time.process_time() < 0.5: pass"


def test_the_work_of_children_is_our_own_while_they_run_and_after() -> None:
    before = background_load._own_seconds()
    command = [sys.executable, "-S", "-c", f"{SPIN}\nprint(1, flush=True)\ninput()"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.read(1)
    assert background_load._own_seconds() - before > 0.25
    child.communicate("\n")
    assert background_load._own_seconds() - before > 0.25


def test_a_process_that_is_not_a_child_is_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who started it has ended by then, so that it is nobody's; the pipe is open until it ends, too."""
    start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {SPIN!r}], start_new_session=True)"
    monkeypatch.setattr(background_load, "_RESOLUTION", 0.0)
    watch = BackgroundLoad()
    subprocess.run([sys.executable, "-S", "-c", start], stdout=subprocess.PIPE, check=True)
    assert watch.cores() * (time.perf_counter() - watch._since) > 0.25


def test_what_all_used_but_us_is_spread_over_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = {"all": [100.0, 106.0], "own": [10.0, 12.0], "clock": [0.0, 2.0]}
    monkeypatch.setattr(background_load, "_RESOLUTION", 0.5)
    monkeypatch.setattr(background_load, "_all_seconds", lambda: readings["all"].pop(0))
    monkeypatch.setattr(background_load, "_own_seconds", lambda: readings["own"].pop(0))
    monkeypatch.setattr("tinytorch.perf.host.background_load.time.perf_counter", lambda: readings["clock"].pop(0))
    assert BackgroundLoad().cores() == 1.75
