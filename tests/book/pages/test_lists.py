"""The table of times until a first result: what the check wrote, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import notebooks
import pytest
from bs4 import BeautifulSoup
from measured_book.pages.lists import launch_times_html, read_times
from sphinx.errors import ExtensionError


def written(folder: Path) -> dict[str, Any]:
    """Return the times as the check itself writes them."""
    ran = {
        "machine": notebooks.Ran([], opened=2.0, first=4.0, total=60.0),
        "profiling": notebooks.Ran([], opened=3.0, first=None, total=80.0),
    }
    notebooks.write_times(folder / "launch.json", 41.0, 1.5, ran)
    found = read_times(folder / "launch.json")
    assert found is not None
    return found


def test_the_table_holds_what_the_check_wrote(tmp_path: Path) -> None:
    document = written(tmp_path)
    table = BeautifulSoup(launch_times_html(document), "html.parser")
    assert [cell.get_text() for cell in table.select("td.numeric")] == ["41.0", "1.50", "2.50", "4.00", "70.0"]
    caption = table.find("caption")
    assert caption is not None
    assert document["machine"]["cpu"] in caption.get_text()


def test_without_a_file_there_are_no_times(tmp_path: Path) -> None:
    assert read_times(tmp_path / "launch.json") is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({"schema": "other", "schema_version": 1, "pages": {"a": 1}})]
)
def test_another_file_stops_the_build(tmp_path: Path, text: str) -> None:
    (tmp_path / "launch.json").write_text(text, "utf-8")
    with pytest.raises(ExtensionError, match=r"launch\.json must be what"):
        read_times(tmp_path / "launch.json")


def test_the_pages_with_cells_are_checked(tmp_path: Path) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "b.md").write_text("```{code-cell}\n1\n```\n", "utf-8")
    (tmp_path / "book" / "a.md").write_text("Text.\n", "utf-8")
    assert notebooks.chapters(tmp_path) == ["b"]


def test_a_page_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert notebooks.main(["nonsense"]) == 1
    assert "named nonsense: there are " in capsys.readouterr().err
