"""Nothing that is measured runs with settings that hold one library back."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts.blas_settings import ignored_warnings, raises_false_flags, without_blas_settings
from scripts.building.settings import build_settings


def test_settings_of_a_blas_are_left_out_of_pages_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"PATH": "/bin", "HOME": "/home/x", "COMPILED": "1"}
    chosen = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "KMP_AFFINITY": "x"}
    assert without_blas_settings(kept | chosen) == kept
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    assert not chosen.keys() & build_settings(tmp_path)


def test_flags_are_false_where_numpy_warns_of_a_product_of_ones() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        product = np.ones((64, 64), np.float32) @ np.ones((64, 64), np.float32)
    assert (product == 64).all()
    assert raises_false_flags() == bool(warned)


WARNED = """
import warnings
for message in ("overflow encountered in matmul", "invalid value encountered in dot", "overflow encountered in exp"):
    warnings.warn(message, RuntimeWarning)
"""


def test_pages_do_without_warnings_of_false_flags_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "default")

    def shown() -> str:
        command = [sys.executable, "-c", WARNED]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=build_settings(tmp_path)).stderr

    def with_every_flag(a: Any, b: Any) -> Any:
        return a @ b / np.zeros_like(a)

    monkeypatch.setattr(np, "matmul", lambda a, b: a)
    assert ignored_warnings() == []
    assert shown().count(": RuntimeWarning:") == 3
    monkeypatch.setattr(np, "matmul", with_every_flag)
    said = shown()
    assert "encountered in exp" in said
    assert said.count(": RuntimeWarning:") == 1
