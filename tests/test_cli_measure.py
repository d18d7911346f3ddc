"""The command that measures for another's eyes: it runs pages, keeps each as it is done, and checks files."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tinytorch.cli import main, measure
from tinytorch.cli.page_runs import ChapterError, claim_statements, expected_seconds, measuring_pages, run_page
from tinytorch.report.measurements import as_text, document, page_entry, read_measurements
from tinytorch.report.page import Page
from tinytorch.report.records import Json, page_file

PAGE = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {name: python3, display_name: Python 3}
---
# A page

```{code-cell} python3
from tinytorch.perf.measuring import Counted
from tinytorch.report import Page
page = Page("NAME")
```

```{code-cell} python3
page.number("answer", 42, unit="1", what="an answer")
page.test("many", Counted(42, "1", "answers"), at_least=40)
```

```{claim} many
:source: A course

> Answers abound.

There are at least 40 answers.

We counted them.
```
"""
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of three pages, two of them with cells."""
    (tmp_path / "book").mkdir()
    (tmp_path / "_toc.yml").write_text("root: index\nchapters:\n  - file: second\n  - file: first\n", "utf-8")
    (tmp_path / "book" / "index.md").write_text("# Words only\n", "utf-8")
    for name in ("first", "second"):
        (tmp_path / "book" / f"{name}.md").write_text(PAGE.replace("NAME", name), "utf-8")
    monkeypatch.setattr(measure, "checkout", lambda: tmp_path)
    return tmp_path


def records(name: str, sha256: str | None = None) -> Json:
    page = Page(name)
    page.number("answer", 42, unit="1", what="an answer")
    made = page_file(name, page.records, duration_seconds=2.0)
    if sha256:
        made["provenance"]["package"]["sha256"] = sha256
    return made


def test_a_page_runs_in_a_process_of_its_own_and_says_where_it_fails(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_SOMETHING", "1")
    told: list[tuple[int, int]] = []
    made = run_page(clone, "first", lambda done, of: told.append((done, of)))
    assert told == [(0, 2), (1, 2)]
    assert [record["key"] for record in made["records"]] == ["answer", "many"]
    assert made["provenance"]["environment"] == {}
    assert made["duration_seconds"] > 0
    source = "```{code-cell} python3\n1 / 0\n```\n"
    (clone / "book" / "first.md").write_text(PAGE.split("# A page")[0] + source, "utf-8")
    with pytest.raises(ChapterError, match="failed"):
        run_page(clone, "first", lambda done, of: None)


def test_measured_claims_are_stated_in_the_words_of_their_page(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["measure", "--json", str(clone / "mine.json"), "--pages", "first"]
    assert main(words) == 0
    (page,) = read_measurements(clone / "mine.json")["pages"]
    claim = {"key": "many", "kind": "claim", "statement": "There are at least 40 answers.", "verdict": "supported"}
    assert page["records"][-1] == claim
    (clone / "book" / "first.md").write_text(PAGE.replace("NAME", "first").partition("```{claim}")[0], "utf-8")
    assert main(words) == 2
    assert "page first tests 'many', but it has no {claim} with this key" in capsys.readouterr().err


def test_every_page_states_the_claims_that_its_cells_test() -> None:
    tested = 0
    for name in measuring_pages(ROOT):
        text = (ROOT / "book" / f"{name}.md").read_text("utf-8")
        keys = set(re.findall(r"\bpage\.test\(\s*[\"']([a-z0-9-]+)", text))
        assert keys <= claim_statements(text).keys(), name
        tested += len(keys)
    assert tested > 50


def test_a_fault_of_the_program_is_no_sentence_about_the_users_input(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(root: Path, name: str, on_cell: Any) -> Json:
        raise KeyError("statement")

    monkeypatch.setattr(measure, "run_page", run)
    with pytest.raises(KeyError):
        main(["measure", "--json", str(clone / "mine.json"), "--pages", "first"])


def test_without_the_books_packages_it_says_how_to_get_them(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    (clone / "good.json").write_text(as_text(document("Mine", [])), "utf-8")
    assert main(["measure", "--check", str(clone / "good.json")]) == 2
    assert "the package jsonschema is not installed" in capsys.readouterr().err


def test_each_page_is_kept_when_it_is_done_and_resuming_runs_the_rest(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run(root: Path, name: str, on_cell: Any) -> Json:
        ran.append(name)
        if ran == ["second", "first"]:
            raise KeyboardInterrupt
        return records(name)

    monkeypatch.setattr(measure, "run_page", run)
    file = clone / "mine.json"
    words = ["measure", "--json", str(file), "--pages", "all", "--label", "Mine", "--resume"]
    assert main(words) == 130
    assert "holds second" in capsys.readouterr().err
    assert [page["page"] for page in read_measurements(file)["pages"]] == ["second"]
    assert main(words) == 0
    assert ran == ["second", "first", "first"]
    assert [page["page"] for page in read_measurements(file)["pages"]] == ["second", "first"]
    assert main([*words[:-3], "--label", "Another", "--resume"]) == 2
    assert "was measured on Mine" in capsys.readouterr().err


def test_pages_of_other_code_are_not_kept(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = page_entry(records("second", sha256="0" * 64))
    (clone / "mine.json").write_text(as_text(document("Mine", [old])), "utf-8")
    monkeypatch.setattr(measure, "run_page", lambda root, name, on_cell: records(name))
    words = ["measure", "--json", str(clone / "mine.json"), "--pages", "first", "--label", "Mine", "--resume"]
    assert main(words) == 0
    assert [page["page"] for page in read_measurements(clone / "mine.json")["pages"]] == ["first"]


def test_it_says_how_long_the_same_pages_took_elsewhere(clone: Path) -> None:
    assert expected_seconds(clone, ["first"]) is None
    (clone / "measurements").mkdir()
    for name, seconds in (("a", 10.0), ("b", 30.0), ("c", 20.0)):
        page = {**page_entry(records("first")), "duration_seconds": seconds}
        (clone / "measurements" / f"{name}.json").write_text(as_text(document(name, [page])), "utf-8")
    assert expected_seconds(clone, ["first"]) == 20.0
    assert expected_seconds(clone, ["first", "second"]) is None


def test_what_is_left_is_told_from_this_machines_own_pace(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (clone / "measurements").mkdir()
    took = (("second", 2), ("first", 6))
    pages = [{**page_entry(records(name)), "duration_seconds": seconds} for name, seconds in took]
    (clone / "measurements" / "a.json").write_text(as_text(document("a", pages)), "utf-8")
    monkeypatch.setattr(measure, "run_page", lambda root, name, on_cell: records(name))
    assert main(["measure", "--json", str(clone / "mine.json"), "--pages", "all"]) == 0
    assert re.search("second is measured: about .+ left on this machine", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--pages", "third"], "--pages must be all or some of second, first, not third"),
        (["--label", "x" * 81], "--label must have at most 80 characters, not 81"),
        (["--note", "x" * 301], "--note must have at most 300 characters, not 301"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(
    clone: Path, words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", "--json", str(clone / "mine.json"), "--pages", "first", *words]) == 2
    assert reason in capsys.readouterr().err
    assert not (clone / "mine.json").exists()


def test_files_are_checked_each_with_a_sentence(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = clone / "good.json", clone / "bad.json"
    good.write_text(as_text(document("Mine", [page_entry(records("first"))])), "utf-8")
    bad.write_text('{"schema": "tinytorch-measurements", "schema_version": 0}', "utf-8")
    assert main(["measure", "--check", str(good)]) == 0
    assert main(["measure", "--check", str(good), str(bad), str(clone / "none.json")]) == 1
    said = capsys.readouterr().out
    assert "good.json can be used: 1 records of the pages first, measured on Mine" in said
    assert "bad.json cannot be used: its schema_version must be 3, not 0" in said
    assert "none.json" in said
