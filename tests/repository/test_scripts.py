"""The smaller jobs: a new chapter, the book on paper, lists and counts of verdicts, and the served book."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from sphinx_autobuild.filter import IgnoreFilter  # type: ignore[import-untyped]
from starlette.types import Message

from benchmarks.verdict_rules import FOLKLORE, NamedRule, ours
from benchmarks.verdicts import SLOWER, Counts, misses, workloads
from scripts import list_verdicts, live_book, serve_book
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


ROOT = Path(serve_book.__file__).resolve().parent.parent


@pytest.mark.parametrize("command", [["serve_book", "PORT"], ["serve_book", "PORT", "--check"], ["live_book"]])
def test_a_busy_port_is_told_in_one_sentence_before_anything_is_built(command: list[str]) -> None:
    with socket.create_server((serve_book.HOST, 0)) as other:
        busy = str(other.getsockname()[1])
        module, *arguments = [busy if part == "PORT" else part for part in command]
        run = [sys.executable, "-m", f"scripts.{module}", *arguments]
        settings = {"PORT": busy, "PATH": ""}
        done = subprocess.run(run, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"The book cannot be shown on port {busy} (address already in use): choose another one, such as PORT=8001."
    ]


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "http", "8000.0", "²"])
def test_what_is_no_port_is_told_so(port: str) -> None:
    with pytest.raises(ValueError, match="PORT must be a whole number from 1 to 65535, not "):
        serve_book.bound(port)


def test_the_site_is_served_on_the_port(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>The book.</p>")
    with socket.create_server((serve_book.HOST, 0)) as free:
        port = free.getsockname()[1]
    taken = serve_book.bound(str(port))
    threading.Thread(target=serve_book.serve, args=(tmp_path, taken), daemon=True).start()
    with urllib.request.urlopen(f"http://{serve_book.HOST}:{port}/") as answer:
        assert answer.read() == b"<p>The book.</p>"


def live(root: Path, path: str) -> str:
    """Return the body that the server of `make live` answers with."""
    answer: list[Message] = []

    async def ask() -> None:
        async def receive() -> Message:
            await asyncio.Event().wait()  # the reader waits for the answer, and neither asks more nor leaves
            raise AssertionError

        async def send(message: Message) -> None:
            answer.append(message)

        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": []}
        await live_book.make_app(root, [])({**scope, "query_string": b""}, receive, send)

    asyncio.run(ask())
    return b"".join(message.get("body", b"") for message in answer[1:]).decode()


def test_live_pages_get_a_script_of_their_own_site_and_only_sources_are_watched(tmp_path: Path) -> None:
    site = tmp_path / "_build" / "rough" / "_build" / "html"
    for folder in (tmp_path / "book", tmp_path / "tinytorch", site):
        folder.mkdir(parents=True)
    (tmp_path / "_config.yml").touch()
    (tmp_path / "_toc.yml").touch()
    (site / "index.html").write_text("<p>The book.</p>")
    assert live(tmp_path, "/") == '<p>The book.</p><script src="/live-reload.js"></script>'
    assert "location.reload()" in live(tmp_path, "/live-reload.js")
    ignored = IgnoreFilter([], [live_book.NO_SOURCES])
    for name in ("book/index.md", "book/_ext/measured_book/state.py", "tinytorch/core/op.py", "_config.yml"):
        assert not ignored(f"/home/somebody/checkout/{name}")
    for name in ("tinytorch/__pycache__/op.cpython-311.pyc", "book/.index.md.swp", "book/index.md~", "book/4913"):
        assert ignored(f"/home/somebody/checkout/{name}")
