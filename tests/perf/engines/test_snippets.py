"""A snippet for another engine: it runs in a fresh process, by its name."""

from __future__ import annotations

import os

import pytest

from tinytorch.perf.engines import snippets
from tinytorch.perf.measuring import Unmeasured


def greet() -> None:
    """Print two lines."""
    print("one\ntwo")


def test_a_snippet_prints_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snippets, "missing", lambda name: None)
    assert snippets.printed_by(greet) == "one\ntwo\n"
    with pytest.raises(ValueError, match="snippet must be a function at the top level"):
        snippets.printed_by(lambda: None)


def show_backend() -> None:
    """Print the backend of figures that the process was told."""
    print(os.environ.get("MPLBACKEND"))


def test_a_notebook_s_backend_stays_with_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snippets, "missing", lambda name: None)
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    assert snippets.printed_by(show_backend) == "None\n"


def test_without_the_engine_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snippets, "missing", lambda name: Unmeasured(f"{name} is not here"))
    assert snippets.printed_by(greet) == Unmeasured("PyTorch eager is not here")
