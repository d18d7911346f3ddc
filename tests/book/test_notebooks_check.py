"""The check of notebooks: which pages it opens, and what it refuses."""

from pathlib import Path

import notebooks
import pytest


def test_the_pages_with_cells_are_checked(tmp_path: Path) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "b.md").write_text("```{code-cell}\n1\n```\n", "utf-8")
    (tmp_path / "book" / "a.md").write_text("Text.\n", "utf-8")
    assert notebooks.chapters(tmp_path) == ["b"]


def test_a_page_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert notebooks.main(["nonsense"]) == 1
    assert "named nonsense: there are " in capsys.readouterr().err
