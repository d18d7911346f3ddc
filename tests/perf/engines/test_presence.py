"""Which engines are there, and what is said of those that are not."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chosen_settings import choose_settings
from tinytorch.perf.engines import presence, snippets
from tinytorch.perf.engines.presence import available, missing, peers_python, versions_in
from tinytorch.perf.measuring import Unmeasured

Python = Callable[[str], str]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    versions_in.cache_clear()
    choose_settings(monkeypatch, peers="")


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Python:
    """Return what makes a script the other Python."""

    def make(script: str) -> str:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        choose_settings(monkeypatch, peers=str(path))
        return str(path)

    return make


@pytest.mark.parametrize(
    ("packages", "there", "not_there"),
    [("", "tinytorch", "PyTorch eager"), ("torch", "PyTorch eager", "JAX"), ("onnx", "tinytorch", "ONNX Runtime")],
)
def test_an_engine_is_there_where_all_of_its_packages_are(
    packages: str, there: str, not_there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "_has", lambda package: package == packages)
    assert there in available()
    assert missing(there) is None
    assert not_there not in available()


def test_what_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "_has", lambda package: False)
    lacks = missing("JAX")
    assert lacks is not None
    assert "`make book PEERS=1`" in lacks.reason
    assert "`pip install jax`" in lacks.reason
    with pytest.raises(ValueError, match="name"):
        missing("TensorFlow")


def test_another_python_is_asked(python: Python) -> None:
    assert peers_python() == sys.executable
    other = python('echo \'{"JAX": "9.9"}\'')
    assert peers_python() == other
    assert available() == {"JAX": "9.9"}


def test_another_python_that_fails_says_so(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="tinytorch"):
        versions_in(python("echo 'no module named tinytorch' >&2; exit 1"))
    choose_settings(monkeypatch, peers="/no/python")
    with pytest.raises(ValueError, match="TINYTORCH_PEERS"):
        available()


def greet() -> None:
    """Print a line, and the backend of figures that the process was told."""
    print("one")
    print(os.environ.get("MPLBACKEND"))


def test_a_snippet_prints_in_a_process_of_its_own_without_a_notebook_s_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch need not be there: the snippet does not import it."""
    monkeypatch.setattr(snippets, "missing", lambda name: None)
    monkeypatch.setattr(snippets, "available", lambda: {"PyTorch eager": "9.9"})
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    assert snippets.printed_by(greet) == snippets.Printed("one\nNone\n", "PyTorch 9.9")
    with pytest.raises(ValueError, match="snippet"):
        snippets.printed_by(lambda: None)
    monkeypatch.setattr(snippets, "missing", lambda name: Unmeasured(f"{name} is not here"))
    assert snippets.printed_by(greet) == Unmeasured("PyTorch eager is not here")
