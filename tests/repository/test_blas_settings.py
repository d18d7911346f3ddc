"""Nothing that is measured runs with settings that hold one library back."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.blas_settings import without_blas_settings
from scripts.building.settings import build_settings


def test_settings_of_a_blas_are_left_out_and_others_stay() -> None:
    kept = {"PATH": "/bin", "HOME": "/home/x", "COMPILED": "1"}
    chosen = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "KMP_AFFINITY": "x"}
    assert without_blas_settings(kept | chosen) == kept


def test_pages_are_measured_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    settings = build_settings(tmp_path)
    assert not {"OPENBLAS_CORETYPE", "OMP_NUM_THREADS"} & set(settings)
