"""What PyTorch says of its BLAS is understood, and what it does not say is not guessed."""

from pathlib import Path

import pytest

from tinytorch.perf.engines import presence
from tinytorch.perf.engines.presence import PEERS, blas_in, pytorch_blas
from tinytorch.perf.measuring import Unmeasured

SHOWN = """PyTorch built with:
  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for Intel(R) 64 architecture applications
  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release, LAPACK_INFO=mkl
"""


def test_the_blas_is_named_with_its_version() -> None:
    assert blas_in(SHOWN) == "mkl 2024.2"
    assert blas_in("  - Build settings: BLAS_INFO=open, BUILD_TYPE=Release") == "open"


def test_nothing_is_guessed() -> None:
    assert isinstance(blas_in("PyTorch built with: GCC"), Unmeasured)


def test_without_pytorch_it_says_what_would_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PEERS, raising=False)
    monkeypatch.setattr(presence, "_has", lambda package: False)
    presence.versions_in.cache_clear()
    found = pytorch_blas()
    presence.versions_in.cache_clear()
    assert isinstance(found, Unmeasured)
    assert "PEERS=1" in found.reason


@pytest.mark.parametrize(("script", "fails"), [("exit 3", True), ("echo '  BLAS_INFO=acme,'", False)])
def test_another_python_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, fails: bool) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setenv(PEERS, str(python))
    monkeypatch.setattr(presence, "missing", lambda _name: None)
    if fails:
        with pytest.raises(RuntimeError, match="exit"):
            pytorch_blas()
    else:
        assert pytorch_blas() == "acme"
