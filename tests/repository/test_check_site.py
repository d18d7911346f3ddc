"""What the check of the built pages does before and after it looks at them in a browser."""

from __future__ import annotations

from pathlib import Path

import browser
import pytest


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "html"
    for name in ("index.html", "part/page.html", "_static/demo.html", "_sources/x.html"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).touch()
    return site


def test_pages_are_found_without_what_only_lies_beside_them(site: Path) -> None:
    assert browser.find_pages(site) == ["index.html", "part/page.html"]


def test_an_empty_site_has_not_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert browser.main([str(tmp_path / "html")]) == 1
    assert "make book" in capsys.readouterr().err


def test_what_a_failed_build_left_has_not_passed(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site.parent / "build-in-progress").touch()
    assert browser.main([str(site)]) == 1
    assert "did not succeed" in capsys.readouterr().err


def test_a_missing_browser_is_a_failure_that_says_what_to_install(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(site))
    monkeypatch.setattr(browser, "BROWSERS", ("chromium",))
    monkeypatch.delenv("CHROMIUM", raising=False)
    assert browser.main([str(site)]) == 1
    assert "apt-get install chromium" in capsys.readouterr().err


def test_a_chosen_browser_that_is_none_is_not_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "chrome"))
    with pytest.raises(FileNotFoundError, match=r"CHROMIUM is .*/chrome, which is no program"):
        browser.find_browser()


def test_a_chosen_browser_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "chrome"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("CHROMIUM", str(program))
    assert browser.find_browser() == str(program)


def test_a_report_says_where_each_problem_shows() -> None:
    phone = [mode for mode in browser.MODES if mode.width == 390]
    said = browser.report("a.html", {"too wide": phone, "pale": list(browser.MODES)})
    assert said.splitlines() == [
        "a.html: 2 problems",
        "  [390 px light, 390 px dark] too wide",
        "  [everywhere] pale",
    ]
    assert browser.report("a.html", {}) == "a.html: clean"


def test_an_axe_violation_names_rule_element_reason_and_help() -> None:
    node = {"any": [{"message": "contrast of 1.6"}], "all": [], "none": [], "target": ["main > p"]}
    other = {"any": [], "all": [], "none": [], "target": ["#x"]}
    violation = {
        "id": "color-contrast",
        "help": "Elements must have contrast",
        "helpUrl": "https://help.example/rule?application=playwright",
        "nodes": [node, other],
    }
    assert browser.describe_violation(violation) == [
        "axe color-contrast: main > p: contrast of 1.6 (https://help.example/rule)",
        "axe color-contrast: #x: Elements must have contrast (https://help.example/rule)",
    ]
