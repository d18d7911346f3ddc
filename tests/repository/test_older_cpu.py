"""A process that is held to an older CPU has no newer instruction, in Numba, OpenBLAS or NumPy, and says so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite.binding import get_host_cpu_features

from scripts.building import older_cpu

ROOT = Path(__file__).resolve().parents[2]
TOLD = """
import json
import numpy as np
from numpy._core._multiarray_umath import __cpu_features__
from tinytorch.perf.host.identity import identity
from tinytorch.perf.kernels.int8.instructions import available_dots
from tinytorch.perf.kernels.gemm.product_tiles import LANES
made = identity()
print(json.dumps([
    made.vectors, {one.vectors for one in made.blas}.pop(), LANES, [dot.name for dot in available_dots()],
    __cpu_features__["X86_V4"], [name for name in made.extensions if "512" in name],
    made.environment["TINYTORCH_CPU"], made.cpu,
]))
"""


def test_what_came_after_avx2_is_taken_away_and_a_machine_without_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    features = {"avx2": True, "fma": True, "avx512f": True, "avx512vnni": True, "avxvnni": True, "sse4a": False}
    monkeypatch.setattr(older_cpu, "get_host_cpu_features", lambda: features)
    settings = older_cpu.older_cpu_settings("avx2")
    assert settings["NUMBA_CPU_FEATURES"] == "+avx2,-avx512f,-avx512vnni,-avxvnni,+fma,-sse4a"
    for features in ({}, {"avx2": False}, {"neon": True}):  # noqa: B007, read by what is called
        with pytest.raises(ValueError, match="processor"):
            older_cpu.older_cpu_settings("avx2")


def test_a_command_that_cannot_be_held_is_not_run() -> None:
    command = [sys.executable, "-m", "scripts.building.older_cpu", "z80", sys.executable, "-c", "print('ran')"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "z80" in done.stderr


def test_a_process_that_is_held_to_it_has_no_wider_vector() -> None:
    if not dict(get_host_cpu_features()).get("avx2"):  # an ARM machine, say: there is nothing to hold
        return
    command = [sys.executable, "-m", "scripts.building.older_cpu", "avx2", sys.executable, "-c", TOLD]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *told, cpu = json.loads(done.stdout)
    assert told == ["AVX2", "AVX2", 8, ["vpmaddwd ymm", "multiply"], False, [], "avx2"]
    assert cpu.endswith(", held to AVX2")
