"""Gates of the built site: links and weight of pages, spelling, Lighthouse, and what `make check-site` says."""

import gzip
import os
import urllib.request
from pathlib import Path
from typing import Any

import chromium
import external_links
import gate_browser
import gate_lighthouse
import gate_spelling
import gate_weight
import keys
import notebooks
import pytest
import spelling
from built_pages import check_site
from built_site import find_pages, serve
from check_site import main
from gate_lighthouse import chosen, judge
from made_page import GOOD_BODY, page_html, write_page
from measured_book.site.security import POLICY


def test_a_heavy_page_is_named_with_its_heaviest_files(tmp_path: Path) -> None:
    (tmp_path / "heavy.bin").write_bytes(os.urandom(110_000))
    (tmp_path / "text.woff2").write_bytes(os.urandom(40_000))
    write_page(tmp_path, GOOD_BODY)
    [said] = gate_weight.check(tmp_path, "index.html", ["/index.html", "/heavy.bin", "/gone.js", "/text.woff2"])
    assert "kB compressed without figures, at most 100 kB are allowed; heaviest: heavy.bin 110 kB, index.html" in said


def test_figures_have_a_limit_of_their_own(tmp_path: Path) -> None:
    digits = os.urandom(100_000).hex()
    write_page(tmp_path, f"{GOOD_BODY}<figure><svg><desc>{digits}</desc></svg></figure>")
    assert gate_weight.check(tmp_path, "index.html", ["/index.html"]) == []
    (tmp_path / "_images").mkdir()
    (tmp_path / "_images" / "photo.png").write_bytes(os.urandom(170_000))
    [said] = gate_weight.check(tmp_path, "index.html", ["/index.html", "/_images/photo.png"])
    assert "with figures and fonts, at most 250 kB" in said


@pytest.mark.parametrize(
    ("tag", "blocks"),
    [
        ("<script src='big.js'></script>", True),
        ("<script src='big.js' defer></script>", False),
        ("<script src='big.js' async></script>", False),
        ("<script src='big.js' type='module'></script>", False),
        ("<link rel='stylesheet' href='big.js?v=1'>", True),
        ("<link rel='icon' href='big.js'>", False),
    ],
)
def test_what_holds_back_the_first_picture_has_a_limit(tmp_path: Path, tag: str, blocks: bool) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "big.js").write_text(os.urandom(20_000).hex())
    write_page(tmp_path / "sub", GOOD_BODY, tag, "page.html")
    found = "\n".join(gate_weight.check(tmp_path, "sub/page.html", ["/sub/page.html"]))
    assert found.startswith("nothing is shown before 2") == blocks
    assert ("big.js 2" in found) == blocks


def test_the_server_compresses_text_alone(tmp_path: Path) -> None:
    write_page(tmp_path, GOOD_BODY)
    (tmp_path / "a.png").write_bytes(b"picture")
    with serve(tmp_path) as base:
        with urllib.request.urlopen(f"{base}/") as page:
            assert page.headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(page.read()) == (tmp_path / "index.html").read_bytes()
        with urllib.request.urlopen(f"{base}/a.png") as picture:
            assert picture.headers["Content-Encoding"] is None
            assert picture.read() == b"picture"


def result(
    speed: int = 50, host: float = 400, seo: float = 1, counts: dict[str, float] | None = None
) -> gate_lighthouse.Result:
    """Return what Lighthouse says of a page with these counts, or few of each."""
    audits: dict[str, Any] = {name: {"numericValue": 0, "details": {"items": []}} for name in gate_lighthouse.MOST}
    audits["is-slow"] = {"score": 0, "title": "It is slow"}
    for name, count in (counts or {}).items():
        wasted = [{"wastedBytes": count}]
        audits[name] |= {"details": {"items": wasted}} if name.startswith("unused") else {"numericValue": count}
    scores = {**dict.fromkeys(gate_lighthouse.FULL, 1.0), "seo": seo, "performance": speed / 100}
    refs = [{"id": "is-slow", "weight": 1}]
    categories = {name: {"score": score, "auditRefs": refs} for name, score in scores.items()}
    return {"categories": categories, "audits": audits, "environment": {"benchmarkIndex": host}}


def test_a_low_score_is_told_with_its_reason_and_counts_with_what_is_right() -> None:
    assert judge(result(seo=0.92)) == ["Lighthouse seo is 92, 100 is right: is-slow (It is slow)"]
    for name, (most, what) in gate_lighthouse.MOST.items():
        count = 1.1 * most
        assert judge(result(counts={name: count})) == [
            f"Lighthouse counts {count:g} {what}, at most {most:g} are right"
        ]


@pytest.mark.parametrize("names", [("audits", "dom-size"), ("audits", "unused-javascript", "details")])
def test_what_lighthouse_says_nothing_of_is_named(names: tuple[str, ...]) -> None:
    said = within = result()
    for name in names[:-1]:
        within = within[name]
    del within[names[-1]]
    with pytest.raises(RuntimeError, match=f"Lighthouse says nothing of {'.'.join(names)}"):
        judge(said)
    with pytest.raises(RuntimeError, match="Lighthouse says nothing of environment"):
        gate_lighthouse.host_of({})


def test_lighthouse_looks_at_each_page_of_a_kind_and_at_the_heaviest_chapters(tmp_path: Path) -> None:
    for name, size in {"index.html": 1, "claims.html": 1, "a.html": 9, "b.html": 5, "c.html": 7}.items():
        (tmp_path / name).write_text("x" * size)
    pages = ["a.html", "b.html", "c.html", "claims.html", "index.html"]
    assert chosen(tmp_path, pages) == ["claims.html", "index.html", "a.html", "c.html"]


@pytest.mark.parametrize(
    ("speeds", "hosts", "said", "slowdowns"),
    [
        ((95,), (2000,), "", [4]),
        ((94, 91, 88, 83, 97), (2000,) * 5, "", [4] * 5),
        ((94, 90, 92, 94, 83), (2000,) * 5, "performance is 94", [4] * 5),
        ((94, 60), (999, 999), "", [4, 2]),  # a machine too slow to tell: no further look
        ((80, 97, 70, 82, 81), (2000, 900, 2000, 2000, 900), "performance is 82", [4] * 5),
    ],
)
def test_the_best_of_five_visits_that_can_tell_says_whether_a_page_is_slow(
    monkeypatch: pytest.MonkeyPatch, speeds: tuple[int, ...], hosts: tuple[float, ...], said: str, slowdowns: list[int]
) -> None:
    found, asked = looked_at(monkeypatch, ["slow.html"], speeds, hosts)
    assert said in "".join(found.get("slow.html", []))
    assert (bool(found), asked) == (bool(said), slowdowns)


def test_a_slow_moment_judges_no_later_page(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = (1200, 1200, 1200, 2000, 2000, 2000)
    _, asked = looked_at(monkeypatch, ["a.html", "b.html", "c.html", "d.html"], (95,) * 6, hosts)
    assert asked == [4, 2, 2, 2, 4, 4]


def looked_at(
    monkeypatch: pytest.MonkeyPatch, pages: list[str], speeds: tuple[int, ...], hosts: tuple[float, ...]
) -> tuple[dict[str, list[str]], list[int]]:
    """Return what is found on pages whose visits say this, and how much slower each visit was to be."""
    left, asked = zip(speeds, hosts, strict=True), []

    def visit(address: str, node: Path, slowdown: int) -> gate_lighthouse.Result:
        asked.append(slowdown)
        return result(*next(left))

    monkeypatch.setattr(gate_lighthouse, "visit", visit)
    return gate_lighthouse.check("http://site", pages, Path()), asked


def test_prose_is_read_by_block_without_code_and_sources() -> None:
    body = (
        "<main><p>One <b>bo</b>ld word<br>and <code>cdoe</code>.</p><table><tr><td>a</td><td>b</td></tr></table>"
        '<p><a class="reference external" href="#">Kalibera</a></p><img src="x" alt="A picture."><pre>prnt</pre>'
        '<p class="claim-quote"><q>Modeling</q></p></main>'
    )
    lines = gate_spelling.read_aloud(page_html(body))
    assert "One bold word and ." in lines
    assert {"A page", "A page that is tried.", "A picture.", "a", "b"} <= set(lines)
    assert not [line for line in lines if any(word in line for word in ("Kalibera", "cdoe", "prnt", "Modeling"))]


def test_misspelled_and_american_words_are_reported_with_what_is_right() -> None:
    text = "<p>A speling of the colour, the color, and how to optimise it; advise, noise and raise are fine.</p>"
    found = gate_spelling.check({"a.html": page_html(text), "b.html": page_html(GOOD_BODY)})
    assert list(found) == ["a.html"]
    said = "\n".join(found["a.html"])
    assert "'speling' is in no dictionary, nor in book/_checks/words.txt: did you mean 'spelling'" in said
    assert "'color': the book writes 'colour'" in said
    assert "'optimise': the book writes 'optimize'" in said
    assert len(found["a.html"]) == 3


@pytest.mark.parametrize(
    ("word", "changed"),
    [
        ("optimise", "optimize"),
        ("Organisations", "Organizations"),
        ("advise", "advize"),
        ("this", None),
        ("rise", None),
    ],
)
def test_words_in_ise_are_tried_with_ize(word: str, changed: str | None) -> None:
    assert spelling.with_ize(word) == changed


def test_phrases_for_which_the_field_has_a_term_are_reported_with_the_term() -> None:
    text = "# Page\n\nA walk over rows, in\nturns, `in turns` and {measured}`anew`.\nA {term}`walk along <access>` it."
    assert spelling.page_faults(keys.read("page", text)) == [
        (3, "'in turns': the book writes interleaved"),
        (3, "'walk over': the book writes traversal, access pattern, traverse"),
        (5, "'walk along': the book writes traversal, access pattern, traverse"),
    ]
    assert spelling.page_faults(keys.read("glossary", text)) == []


def test_links_to_other_hosts_are_collected_once() -> None:
    body = '<a href="https://a.example/x#y">x</a><a href="https://a.example/x">x</a><a href="b.html">b</a>'
    assert external_links.external_links(page_html(body)) == {"https://a.example/x"}


def test_a_doi_is_looked_up_in_its_register() -> None:
    asked = external_links.asked_address("https://doi.org/10.1145/1498765.1498785")
    assert asked == "https://doi.org/api/handles/10.1145/1498765.1498785"
    assert external_links.asked_address("https://a.example/x") == "https://a.example/x"


@pytest.mark.parametrize(
    ("answers", "said", "times"),
    [
        ([200], None, 1),
        ([403], None, 1),
        ([404, 200], "answer 404", 1),
        ([500, 200], None, 2),
        ([500, 503, 502], "answer 502", 3),
        ([OSError("no such host")] * 3, "no answer: no such host", 3),
    ],
)
def test_a_link_is_broken_when_its_host_says_so(answers: list[int | OSError], said: str | None, times: int) -> None:
    left = list(answers)

    def ask(_: str) -> int:
        answer = left.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    assert external_links.problem_with("https://a.example", ask, pause=0.0) == said
    assert len(answers) - len(left) == times


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


META = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
GOOD = (
    '<main><h1 id="top">Title</h1><p>Text with <code>nan</code>, and infinity.</p><a href="#top">up</a>'
    '<p><button class="measured" popovertarget="a">between 0.9 and 9×</button><span popover id="a"></span></p>'
    '<table><tr><td class="numeric">0.9 to 9</td></tr></table></main>'
)


RUN = (
    '<table><caption id="last-executions-caption"></caption><tbody><tr><th>Memory</th><td class="numeric">1</td>'
    '<td class="numeric" data-value="{0}">{0} B</td></tr></tbody></table>'
)


def problems(folder: Path, body: str, head: str = META) -> list[str]:
    page = f'<!doctype html><html lang="en"><head><title>t</title>{head}</head><body>{body}</body></html>'
    (folder / "index.html").write_text(page, "utf-8")
    return [problem for found in check_site(folder, ["index.html"]).values() for problem in found]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('<button class="measured" popovertarget="a"></button><span popover id="a"></span>', "a number is empty"),
        ('<button class="measured" popovertarget="a">ms</button><span popover id="a"></span>', "has no digit"),
        ('<button class="measured" popovertarget="a">1 ms</button>', "the detail of '1 ms' is missing"),
        ('<table><tr><td class="numeric"></td></tr></table>', "a number is empty"),
        ('<strong class="missing">no number</strong>', "something is missing"),
        ("<main><p>It takes nan ms.</p></main>", "'nan' stands in the text"),
        ("<main><p>It takes \u2212inf ms.</p></main>", "inf' stands in the text"),
        ('<div class="measured-table" id="table-a"></div>', "table-a has no number that leads to it"),
        ('<div class="math-block" id="equation-1"><a class="eqno" href="#a">(1)</a></div>', "equation-1 has no"),
        ('<a href="missing.html">x</a>', "leads nowhere"),
        ('<a href="#missing">x</a>', "leads to no anchor"),
        ('<a href="index.html#missing">x</a>', "leads to no anchor"),
        ('<img src="a.png" alt="_images/a.png">', "an image has the name of a file as its alt text"),
        ('<img src="a.svg" alt=" A.SVG ">', "an image has the name of a file as its alt text"),
        ("<p onclick='x()'>x</p>", "<p> has a script as its onclick"),
        ("<a href=' JavaScript:x()'>x</a>", "<a> has a script as its href"),
        ("<form action='javascript:x()'></form>", "<form> has a script as its action"),
        (RUN.format(701 * 2**20), "'Memory' held 701 MiB of memory, at most 700 MiB are allowed"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, body: str, message: str) -> None:
    found = problems(tmp_path, body)
    assert any(message in problem for problem in found), found


@pytest.mark.parametrize(
    "body",
    [
        '<a href="https://example.org/paper">x</a>',
        '<table><tr><td class="numeric">–</td></tr></table>',
        '<img src="a.png" alt="Times of a.png and b.png"><p title="JavaScript: a language">x</p>',
        RUN.format(700 * 2**20),
        RUN.replace(' data-value="{0}">{0} B', ">–"),
    ],
)
def test_what_is_like_a_fault_is_fine(tmp_path: Path, body: str) -> None:
    assert problems(tmp_path, GOOD + body) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (META, ""),
        ("; base-uri 'none'", ""),
        (POLICY, "script-src 'self'"),
        ("script-src 'self'", "script-src 'self' 'unsafe-inline'"),
        ("script-src 'self'", "script-src data:"),
        ("style-src 'self'", "style-src cdn.example"),
        ("img-src 'self'", "img-src https:"),
        (META, f'<script src="a.js"></script>{META}'),
    ],
)
def test_what_is_unsafe_in_a_policy_is_named(tmp_path: Path, old: str, new: str) -> None:
    (said,) = problems(tmp_path, GOOD, META.replace(old, new))
    assert "policy" in said


def test_records_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "_records").mkdir()
    for name in ("index", "other"):
        (tmp_path / "_records" / f"{name}.json").write_text("{}", "utf-8")
    (tmp_path / "index.html").write_text(META + GOOD, "utf-8")
    found = {name: problems for name, problems in check_site(tmp_path, ["index.html"]).items() if problems}
    assert found.keys() == {"_records/index.json"}, "records of other pages are not read"
    assert "required property" in found["_records/index.json"][0]


def test_a_link_into_a_page_that_the_build_left_out_may_lead_to_what_only_a_run_makes(tmp_path: Path) -> None:
    for name, said in (("left", '<p class="page-measured left-out">This page was not run</p>'), ("run", "")):
        (tmp_path / f"{name}.html").write_text(f'<main><div class="page-line">{said}</div></main>', "utf-8")
    body = '<a href="left.html#figure-a">x</a><a href="run.html#figure-b">x</a><a href="gone.html#figure-c">x</a>'
    assert problems(tmp_path, body) == [
        "a link leads to no anchor: run.html#figure-b",
        "a link leads nowhere: gone.html#figure-c",
    ]
