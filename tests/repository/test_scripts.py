"""The smaller jobs: a new chapter, the book on paper, the list of verdicts, the counts of false verdicts."""

import json
from collections import Counter
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from benchmarks.verdict_rules import FOLKLORE, NamedRule, ours
from benchmarks.verdicts import SLOWER, Counts, misses, workloads
from scripts import list_verdicts
from scripts.new_chapter import write_chapter
from scripts.print_book import combined
from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page
from tinytorch.report.records import page_file


@pytest.mark.parametrize(
    ("name", "title", "said"),
    [
        ("Batching", "Batching", "NAME must be lower-case words"),
        ("taken", "Taken", "NAME must be new, but book/taken.md is there already"),
        ("batching", "A title that goes on for longer than any browser shows it and more", "TITLE cannot be used"),
    ],
)
def test_a_chapter_that_a_later_check_would_refuse_is_not_written(
    tmp_path: Path, name: str, title: str, said: str
) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "taken.md").touch()
    (tmp_path / "_toc.yml").write_text("parts:\n  - caption: Reference\n")
    with pytest.raises(ValueError, match=said):
        write_chapter(name, title, tmp_path)
    assert not (tmp_path / "book" / "batching.md").exists()


LISTED = ("b.html", "a.html", "reference/index.html")
MENU = f'<nav id="site-contents"><ul>{"".join(f"<li><a href={name!r}>x</a></li>" for name in LISTED)}</ul></nav>'
ARTICLES = {
    "index.html": '<p><a href="a.html#here">A</a> <a href="https://example.org">out</a></p>',
    "a.html": '<h2 id="here">A</h2><a href="#here">up</a><a href="b.html">B</a><span popover id="p">x</span>',
    "b.html": '<details id="fold"><summary>more</summary>B</details><a href="reference/r.html#x">x</a>',
}


def test_on_paper_articles_follow_the_menu_and_links_lead_within(tmp_path: Path) -> None:
    for name, article in ARTICLES.items():
        (tmp_path / name).write_text(f"<html><body>{MENU}<article>{article}</article></body></html>")
    page = BeautifulSoup(combined(tmp_path), "html.parser")
    assert [article["id"] for article in page.select("article")] == ["index.html", "b.html", "a.html"]
    links = ["#a.html--here", "https://example.org", None, "#a.html--here", "#b.html"]  # the reference is left out
    assert [link.get("href") for link in page.select("a")] == links
    assert all(page.find(id=str(link["href"])[1:]) for link in page.select("a[href^='#']"))
    assert page.select_one("[popover]") is None
    assert page.select_one("details[open]") is not None


def test_verdicts_are_listed_with_what_they_come_to_and_fixed_ones_are_in_no_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    time = Measurement("a run", (1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.02, 0.98), "s")
    page = Page("folder/page")
    page.test("counted", Measurement("bytes", (4096.0,), "B"), at_most=8192)
    page.test("open", time, above=1.0)
    page.test("slow", time, above=0.1)
    file = tmp_path / "_records" / "folder" / "page.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(page_file(page.name, page.records)), "utf-8")
    listed = {(one.page, one.key, one.outcome, one.fixed) for one in list_verdicts.verdicts_of(tmp_path)}
    outcomes = {("counted", "decided", True), ("open", "open", False), ("slow", "decided", False)}
    assert listed == {("folder/page", *one) for one in outcomes}
    assert list_verdicts.main([str(tmp_path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "2 verdicts: 1 decided, 1 open. Open: 50.0%. Counted besides, in no share: 1."


@pytest.mark.parametrize(
    ("judge", "tool", "source", "missed"),
    [
        ((6, 90), (6, 90), "a tool", 0),
        ((7, 90), (0, 0), "a tool", 3),  # on each workload
        ((6, 89), (0, 0), "a tool", 1),
        ((6, 90), (6, 91), "a tool", 1),
        ((6, 90), (7, 91), "a tool", 0),
        ((6, 90), (6, 91), FOLKLORE, 0),
    ],
)
def test_a_miss_is_too_many_false_verdicts_too_few_found_or_a_tool_that_finds_more_with_as_few(
    judge: tuple[int, int], tool: tuple[int, int], source: str, missed: int
) -> None:
    counts = {}
    for name, (alarms, found) in (("ours", judge), ("tool", tool)):
        own = {one: Counter({1: found if one == SLOWER else alarms}) for one in workloads()}
        counts[name] = Counts(own, own)
    rules = [NamedRule("ours", "this package", ours), NamedRule("tool", source, ours)]
    assert len(misses(rules, counts, 100)) == missed
