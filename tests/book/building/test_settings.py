"""Nothing that is measured runs with settings that hold one library back, but for those that are asked for."""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_features

from scripts.building import older_cpu
from scripts.building.settings import build_settings, ignored_warnings, raises_false_flags

ROOT = Path(__file__).resolve().parents[3]


def test_settings_of_a_blas_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "KMP_AFFINITY": "x"}
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    assert not chosen.keys() & build_settings(tmp_path)


WARNED = """
import warnings
for message in ("overflow encountered in matmul", "invalid value encountered in dot", "overflow encountered in exp"):
    warnings.warn(message, RuntimeWarning)
"""


def test_pages_do_without_warnings_of_false_flags_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert (np.ones((64, 64), np.float32) @ np.ones((64, 64), np.float32) == 64).all()
    assert raises_false_flags() == bool(warned)

    def with_every_flag(a: Any, b: Any) -> Any:
        return a @ b / np.zeros_like(a)

    monkeypatch.setattr(np, "matmul", lambda a, b: a)
    assert ignored_warnings() == []
    monkeypatch.setattr(np, "matmul", with_every_flag)
    done = subprocess.run([sys.executable, "-c", WARNED], capture_output=True, text=True, env=build_settings(tmp_path))
    assert done.stderr.count(": RuntimeWarning:") == done.stderr.count("encountered in exp") == 1


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
    made.environment["TINYTORCH_CPU"], made.cpu.endswith(", held to AVX2"),
]))
"""


def test_a_process_that_is_held_to_avx2_has_no_newer_instruction_and_says_so() -> None:
    command = [sys.executable, "-m", "scripts.building.older_cpu"]
    done = subprocess.run([*command, "z80", "false"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "z80" in done.stderr) == (1, True)
    if not dict(get_host_cpu_features()).get("avx2"):  # an ARM machine, say: there is nothing to hold
        return
    command += ["avx2", sys.executable, "-c", TOLD]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["AVX2", "AVX2", 8, ["vpmaddwd ymm", "multiply"], False, [], "avx2", True]


def test_a_machine_without_avx2_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    for features in ({}, {"avx2": False}, {"neon": True}):
        monkeypatch.setattr(older_cpu, "get_host_cpu_features", lambda features=features: features)
        with pytest.raises(ValueError, match="processor"):
            older_cpu.older_cpu_settings("avx2")
