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
print(json.dumps({
    "cpu": made.cpu, "vectors": made.vectors, "blas": {one.vectors for one in made.blas}.pop(), "lanes": LANES,
    "dots": [dot.name for dot in available_dots()], "numpy": __cpu_features__["X86_V4"],
    "extensions": [name for name in made.extensions if "512" in name], "named": made.environment["TINYTORCH_CPU"],
}))
"""


@pytest.fixture
def made_host(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Let this machine have the features that the test puts in."""
    features: dict[str, bool] = {}
    monkeypatch.setattr(older_cpu, "get_host_cpu_features", lambda: features)
    return features


def test_what_came_after_avx2_is_taken_away(made_host: dict[str, bool]) -> None:
    made_host |= {"avx2": True, "fma": True, "avx512f": True, "avx512vnni": True, "avxvnni": True, "sse4a": False}
    settings = older_cpu.older_cpu_settings("avx2")
    assert settings["NUMBA_CPU_FEATURES"] == "+avx2,-avx512f,-avx512vnni,-avxvnni,+fma,-sse4a"


@pytest.mark.parametrize("features", [{}, {"avx2": False}, {"neon": True}])
def test_a_machine_without_its_instructions_refuses(made_host: dict[str, bool], features: dict[str, bool]) -> None:
    made_host |= features
    with pytest.raises(ValueError, match="processor"):
        older_cpu.older_cpu_settings("avx2")


def test_a_command_that_cannot_be_held_is_not_run() -> None:
    command = [sys.executable, "-m", "scripts.building.older_cpu", "z80", sys.executable, "-c", "print('ran')"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Nothing ran: CPU must be avx2, not 'z80'.\n"


def test_a_process_that_is_held_to_it_has_no_wider_vector() -> None:
    if not dict(get_host_cpu_features()).get("avx2"):  # an ARM machine, say: there is nothing to hold
        with pytest.raises(ValueError, match="processor"):
            older_cpu.older_cpu_settings("avx2")
        return
    command = [sys.executable, "-m", "scripts.building.older_cpu", "avx2", sys.executable, "-c", TOLD]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("cpu").endswith(", held to AVX2")
    assert told == {
        "vectors": "AVX2",
        "blas": "AVX2",
        "lanes": 8,
        "dots": ["vpmaddwd ymm", "multiply"],
        "numpy": False,
        "extensions": [],
        "named": "avx2",
    }
