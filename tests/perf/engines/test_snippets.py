"""A snippet for PyTorch: it runs in a fresh process, by its name."""

import os

import pytest

from tinytorch.perf.engines import snippets
from tinytorch.perf.measuring import Unmeasured


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
