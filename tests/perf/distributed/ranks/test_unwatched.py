"""Programs that nobody watches, under mpiexec: one rank's error ends all of them, and a part without targets none."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tests.perf.distributed.ranks import failing_programs
from tinytorch.perf.distributed.ranks import communicator
from tinytorch.perf.distributed.ranks.launch import mpiexec


def run(way: str) -> subprocess.CompletedProcess[str]:
    command = [mpiexec(), "-n", "2", sys.executable, "-m", failing_programs.__name__, way]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", ["in the loss", "between steps"])
def test_one_ranks_error_ends_all_with_its_text(way: str) -> None:
    ended = run(way)
    assert ended.returncode == communicator.FAILED
    assert "rank one is broken" in ended.stderr
    assert "losses" not in ended.stdout


def test_a_part_without_targets_adds_nothing_to_what_one_process_computes() -> None:
    ended = run("without a fault")
    said = re.findall(r"losses ([\d.e-]+) ([\d.e-]+)", ended.stdout)  # mpiexec may put two ranks' words on one line
    found = [[float(number) for number in pair] for pair in said]
    assert len(found) == 2, ended.stderr
    np.testing.assert_allclose(found, [failing_programs.step_of_one_process()] * 2, rtol=1e-6)


@pytest.mark.parametrize(("read_at", "waits"), [(3, 3), (None, 100)])
def test_ranks_end_once_what_one_said_is_read_or_after_a_second(
    read_at: int | None, waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher drops what its pipe still holds when ranks end, so nobody may end them before."""
    (ours, theirs), kept = os.pipe(), os.dup(2)
    slept: list[float] = []
    ended: list[int] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert len(slept) < 200
        if len(slept) == read_at:
            os.read(ours, 9)

    monkeypatch.setattr(communicator, "time", SimpleNamespace(monotonic=lambda: sum(slept), sleep=sleep))
    os.dup2(theirs, 2)
    try:
        os.write(2, b"why")
        communicator.abort(SimpleNamespace(Abort=ended.append))
    finally:
        os.dup2(kept, 2)
        for each in (ours, theirs, kept):
            os.close(each)
    assert ended == [communicator.FAILED]
    assert len(slept) == pytest.approx(waits, abs=1)
