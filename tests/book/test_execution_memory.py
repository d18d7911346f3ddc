"""The memory of processes together: what a child and its child hold, and what no longer runs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest
from execution_memory import PeakMemory, held_bytes

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
