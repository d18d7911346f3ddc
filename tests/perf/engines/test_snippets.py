"""A snippet for PyTorch: it runs in a fresh process, by its name."""

import os

import pytest

from tinytorch.perf.engines import snippets
from tinytorch.perf.measuring import Unmeasured


def present(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PyTorch be where it is not: the snippets here do not import it."""
    monkeypatch.setattr(snippets, "missing", lambda name: None)
    monkeypatch.setattr(snippets, "available", lambda: {"PyTorch eager": "9.9"})


def greet() -> None:
    """Print two lines."""
    print("one\ntwo")


def test_a_snippet_prints_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    present(monkeypatch)
    assert snippets.printed_by(greet) == snippets.Printed("one\ntwo\n", "PyTorch 9.9")
    with pytest.raises(ValueError, match="snippet"):
        snippets.printed_by(lambda: None)


def show_backend() -> None:
    """Print the backend of figures that the process was told."""
    print(os.environ.get("MPLBACKEND"))


def test_a_notebook_s_backend_stays_with_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    present(monkeypatch)
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    assert snippets.printed_by(show_backend) == snippets.Printed("None\n", "PyTorch 9.9")


def test_without_the_engine_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snippets, "missing", lambda name: Unmeasured(f"{name} is not here"))
    assert snippets.printed_by(greet) == Unmeasured("PyTorch eager is not here")
