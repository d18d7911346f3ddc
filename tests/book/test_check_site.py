"""What the check of the built pages does before and after it looks at them in a browser."""

from pathlib import Path

import chromium
import gate_browser
import notebooks
import pytest
from built_site import find_pages
from check_site import main


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "html"
    for name in ("index.html", "part/page.html", "_static/demo.html", "_sources/x.html"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).touch()
    return site


def test_pages_are_found_without_what_only_lies_beside_them(site: Path) -> None:
    assert find_pages(site) == ["index.html", "part/page.html"]


@pytest.mark.parametrize(
    ("left", "asked", "said"),
    [
        ("gone", ["html"], "make book"),
        ("build-in-progress", ["html"], "did not succeed"),
        ("", ["html", "--gate", "browser"], "apt-get install chromium"),
        ("", ["html", "--page", "gone.html"], "not gone.html"),
    ],
)
def test_what_cannot_be_checked_has_not_passed(
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    left: str,
    asked: list[str],
    said: str,
) -> None:
    monkeypatch.setenv("PATH", str(site))
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.chdir(site.parent)
    if left == "gone":
        site.rename(site.with_name(left))
    elif left:
        (site.parent / left).touch()
    assert main(asked) == 1
    assert said in capsys.readouterr().err


def test_a_chosen_browser_that_is_none_is_not_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "chrome"))
    with pytest.raises(FileNotFoundError, match="program"):
        chromium.find_browser()


def test_pages_that_the_build_left_out_are_not_looked_at(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "index.html").write_text('<div class="page-line">\n<p class="page-measured left-out">Not run</p></div>')
    main([str(site), "--gate", "files"])
    assert capsys.readouterr().out.startswith("1 page not looked at: PAGES left out index.html.\n")
    assert main([str(site), "--page", "index.html"]) == 1
    assert 'left out index: run `make book PAGES="index"`' in capsys.readouterr().err


def test_a_report_says_where_each_problem_shows() -> None:
    seen = gate_browser.Seen("a.html")
    for width in (gate_browser.PHONE, gate_browser.SCREEN):
        seen.add(["too wide"] if width == gate_browser.PHONE else [], f"{width} px")
        seen.add(["pale", "pale"], f"{width} px")
    assert seen.lines() == ["[390 px] too wide", "[390 px, 1280 px] pale"]


def test_problems_of_a_gate_are_told_by_page_and_counted(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(site), "--gate", "files", "--page", "index.html"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("files: ")
    assert "  files: the page must have a policy" in said
    assert said.endswith("1 page: 1 problem.\n")


def test_notebooks_are_checked_of_pages_with_cells_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "b.md").write_text("```{code-cell}\n1\n```\n", "utf-8")
    (tmp_path / "book" / "a.md").write_text("Text.\n", "utf-8")
    assert notebooks.chapters(tmp_path) == ["b"]
    assert notebooks.main(["nonsense"]) == 1
    assert "named nonsense: there are " in capsys.readouterr().err
