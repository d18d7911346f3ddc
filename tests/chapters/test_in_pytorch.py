"""A page's snippet for PyTorch: what it printed is shown, and a build without PyTorch says so."""

from __future__ import annotations

import pytest

from tinytorch.chapters import in_pytorch
from tinytorch.perf.measuring import Unmeasured
from tinytorch.report import Page
from tinytorch.report.records import ABSENT


def greet() -> None:
    """Print two lines."""
    print("one\ntwo")


def test_what_was_printed_is_shown_and_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(in_pytorch, "printed_by", lambda snippet: "one\ntwo\n")
    monkeypatch.setattr(in_pytorch, "available", lambda: {"PyTorch eager": "9.9"})
    page = Page("profiling")
    in_pytorch.show_in_pytorch(page, greet)
    record = page.records[-1].to_json()
    assert (record["key"], record["value"], record["unit"]) == ("in-pytorch", 2, "lines")
    assert "PyTorch 9.9" in record["what"]
    assert "one\ntwo\n" in capsys.readouterr().out


def test_without_pytorch_nothing_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(in_pytorch, "printed_by", lambda snippet: Unmeasured("PyTorch is not here"))
    page = Page("profiling")
    in_pytorch.show_in_pytorch(page, greet)
    assert (page.records[-1].kind, page.records[-1].body["reason"]) == (ABSENT, "PyTorch is not here")
    assert capsys.readouterr().out == ""
