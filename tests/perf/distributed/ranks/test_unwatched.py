"""Programs that nobody watches, under mpiexec: one rank's error ends all of them, and a part without targets none."""

import re
import select
import subprocess
import sys

import numpy as np
import pytest

from tests.perf.distributed.ranks import failing_programs
from tinytorch.perf.distributed.ranks import communicator
from tinytorch.perf.distributed.ranks.launch import mpiexec


def run(way: str) -> subprocess.CompletedProcess[str]:
    command = [mpiexec(), "-n", "2", sys.executable, "-m", failing_programs.__name__, way]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("way", ["data, loss", "data, between", "pipeline, forward"])
def test_one_ranks_error_ends_all_with_its_text(way: str) -> None:
    ended = run(way)
    assert ended.returncode != 0
    assert "rank one is broken" in ended.stderr
    assert "losses" not in ended.stdout


@pytest.mark.parametrize("way", ["data", "pipeline"])
def test_a_part_without_targets_adds_nothing_to_what_one_process_computes(way: str) -> None:
    ended = run(way)
    said = re.findall(r"losses ([\d.e-]+) ([\d.e-]+)", ended.stdout)  # mpiexec may put two ranks' words on one line
    found = [[float(number) for number in pair] for pair in said]
    assert len(found) == 2, ended.stderr
    np.testing.assert_allclose(found, [failing_programs.step_of_one_process()] * 2, rtol=1e-6)


def test_ranks_end_once_what_one_said_is_read() -> None:
    """The launcher drops what its pipe still holds when ranks end, so nobody may end them before."""
    code = (
        "import os, sys\n"
        f"from {communicator.__name__} import abort\n"
        "class Raw:\n"
        "    def Abort(self, code):\n"
        "        os.write(1, b'ended')\n"
        "os.write(2, b'why')\n"
        "os.write(1, b'begun')\n"
        "abort(Raw())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ending:
        assert ending.stdout is not None
        assert ending.stderr is not None
        assert ending.stdout.read(5) == b"begun"
        ended_unread = select.select([ending.stdout], [], [], 0.3)[0]
        assert ending.stderr.read(3) == b"why"
        assert not ended_unread
        assert ending.stdout.read() == b"ended"
