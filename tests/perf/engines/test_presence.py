"""Which engines are there, and what is said of those that are not."""

import sys
from pathlib import Path

import pytest

from tinytorch.perf.engines import presence
from tinytorch.perf.engines.presence import PEERS, available, missing, peers_python, versions_in


@pytest.fixture(autouse=True)
def forgotten() -> None:
    versions_in.cache_clear()


def test_ours_is_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PEERS, raising=False)
    monkeypatch.setattr(presence, "_has", lambda package: False)
    assert list(available()) == ["tinytorch"]
    assert missing("tinytorch") is None


def test_what_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PEERS, raising=False)
    monkeypatch.setattr(presence, "_has", lambda package: package != "jax")
    assert "PyTorch eager" in available()
    lacks = missing("JAX")
    assert lacks is not None
    assert "`make book PEERS=1`" in lacks.reason
    assert "`pip install jax`" in lacks.reason


def test_both_packages_of_an_engine_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PEERS, raising=False)
    monkeypatch.setattr(presence, "_has", lambda package: package == "onnx")
    assert "ONNX Runtime" not in available()


def test_unknown_engines_are_named() -> None:
    with pytest.raises(ValueError, match="name"):
        missing("TensorFlow")


def test_another_python_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text('#!/bin/sh\necho \'{"JAX": "9.9"}\'\n')
    other.chmod(0o755)
    monkeypatch.setenv(PEERS, str(other))
    assert peers_python() == str(other)
    assert available() == {"JAX": "9.9"}


def test_another_python_that_fails_says_so(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 'no module named tinytorch' >&2\nexit 1\n")
    other.chmod(0o755)
    with pytest.raises(RuntimeError, match="tinytorch"):
        versions_in(str(other))


def test_a_python_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PEERS, str(tmp_path / "none"))
    with pytest.raises(ValueError, match="TINYTORCH_PEERS"):
        available()


def test_the_variable_unset_means_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PEERS, "")
    assert peers_python() == sys.executable
