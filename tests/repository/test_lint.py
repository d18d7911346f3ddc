"""Linting goes on after a tool that failed, and says at the end which did."""

import sys
from pathlib import Path

import pytest

from scripts import lint


def tool(code: int) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", f"open('ran', 'a').write('{code}'); raise SystemExit({code})"]


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ([0, 2, 0], "Failed: ruff format (`make format` mends what ruff can mend)."),
        ([0, 0, 1], "Failed: mypy."),
        ([3, 0, 1], "Failed: ruff check, mypy (`make format` mends what ruff can mend)."),
        ([0, 0, 0], "All passed."),
    ],
)
def test_every_tool_runs_and_those_that_failed_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], codes: list[int], said: str
) -> None:
    names = ("ruff check", "ruff format", "mypy")
    monkeypatch.setattr(lint, "TOOLS", dict(zip(names, map(tool, codes), strict=True)))
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    assert lint.main() == any(codes)
    assert (tmp_path / "ran").read_text() == "".join(map(str, codes))
    assert capsys.readouterr().out.splitlines()[-1] == said
