"""The gates that need nothing but Python find what they are for."""

import gzip
import json
import os
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import external_links
import gate_lighthouse
import gate_security
import gate_spelling
import gate_weight
import pytest
import spelling
from broken_pages import GOOD_BODY, POLICY, POLICY_META, page_html, write_page
from bs4 import BeautifulSoup
from built_site import serve
from gate_lighthouse import Visit, chosen, judge


def unsafe(body: str, head: str = POLICY_META) -> list[str]:
    page = page_html(body, head).replace("<style>body { margin: 0 }</style>", "")
    return gate_security.check(BeautifulSoup(page.replace('<link rel="icon" href="data:,">', ""), "html.parser"))


def test_a_page_of_own_files_is_safe() -> None:
    data = '<script type="application/json">{"a": 1}</script>'
    assert unsafe(f'{GOOD_BODY}{data}<script src="_static/a.js"></script>') == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<script>alert(1)</script>", "<script> in the page: 'alert(1)'"),
        ("<p onclick='x()'>x</p>", "<p> has the handler onclick"),
        ("<a href=' JavaScript:x()'>x</a>", "<a> has a script as its address"),
    ],
)
def test_what_is_unsafe_in_a_page_is_named(body: str, said: str) -> None:
    assert said in "\n".join(unsafe(body))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (POLICY_META, "", "has no <meta http-equiv=Content-Security-Policy>"),
        (POLICY_META, f'<script src="a.js"></script>{POLICY_META}', "the policy comes after <script"),
        ("base-uri 'none'; ", "", "the policy must state base-uri"),
        (POLICY, "script-src 'self'", "the policy must state default-src"),
        ("script-src 'self'", "script-src 'self' 'unsafe-inline'", "allows 'unsafe-inline' as script-src"),
        ("script-src 'self'", "script-src data:", "allows data: as script-src"),
        ("style-src 'self'", "style-src 'self' 'unsafe-inline'", "allows 'unsafe-inline' as style-src"),
        ("style-src 'self'", "style-src data:", "allows data: as style-src"),
        ("img-src 'self'", "img-src https:", "allows https: as img-src"),
        ("style-src 'self'", "style-src cdn.example", "allows cdn.example as style-src"),
    ],
)
def test_what_is_unsafe_in_a_policy_is_named(old: str, new: str, said: str) -> None:
    assert said in "\n".join(unsafe("", POLICY_META.replace(old, new)))


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


FEW = {"requests": 20, "elements": 4000, "shift": 0.0007, "unused_styles": 0, "unused_scripts": 0}


def visit(speed: int = 50, seo: int = 100, counts: dict[str, float] | None = None, host: float = 400) -> Visit:
    scores = {"accessibility": 100, "best-practices": 100, "seo": seo}
    reasons = {name: ["is-slow 9 s (It is slow)"] for name in scores}
    return Visit(speed, host, scores, reasons, {**FEW, **(counts or {})})


def test_a_low_score_is_told_with_its_reason() -> None:
    assert judge(visit(seo=92)) == ["Lighthouse seo is 92, 100 is right: is-slow 9 s (It is slow)"]


@pytest.mark.parametrize(("name", "count"), [(name, 1.1 * most) for name, (most, _) in gate_lighthouse.MOST.items()])
def test_what_makes_a_page_slow_anywhere_is_counted(name: str, count: float) -> None:
    [said] = judge(visit(speed=100, counts={name: count}))
    most, what = gate_lighthouse.MOST[name]
    assert said == f"Lighthouse counts {count:g} {what}, at most {most:g} are right"


@pytest.mark.parametrize(("speed", "host", "count"), [(95, 2000, 0), (94, 2000, 1), (94, 999, 0)])
def test_a_speed_decides_where_the_machine_is_fast_enough_to_tell(speed: int, host: float, count: int) -> None:
    assert len(judge(visit(speed=speed, host=host))) == count


def test_lighthouse_looks_at_each_page_of_a_kind_and_at_the_heaviest_chapters(tmp_path: Path) -> None:
    for name, size in {"index.html": 1, "claims.html": 1, "a.html": 9, "b.html": 5, "c.html": 7}.items():
        (tmp_path / name).write_text("x" * size)
    pages = ["a.html", "b.html", "c.html", "claims.html", "index.html"]
    assert chosen(tmp_path, pages) == ["claims.html", "index.html", "a.html", "c.html"]


def test_a_speed_on_a_slow_machine_is_printed_and_decides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def look(addresses: Sequence[str], node: Path) -> list[Visit]:
        return [visit(int(address[-2:])) for address in addresses]

    assert gate_lighthouse.check("http://site", ["a00", "a50"], Path(), look) == {}
    said = capsys.readouterr().out
    assert "a00 0" in said
    assert "a50 50" in said


@pytest.mark.parametrize(
    ("later", "host", "said"),
    [
        ((91, 88, 83, 97), 2000, ""),
        ((90, 92, 94, 83), 2000, "performance is 94"),
        ((), 500, ""),  # a machine too slow to tell: no second look
    ],
)
def test_the_best_of_five_visits_says_whether_a_page_is_slow(later: tuple[int, ...], host: float, said: str) -> None:
    speeds = iter((94, *later))
    asked: list[list[str]] = []

    def look(addresses: Sequence[str], node: Path) -> list[Visit]:
        asked.append([*addresses])
        return [visit(100 if each.endswith("fast.html") else next(speeds), host=host) for each in addresses]

    found = gate_lighthouse.check("http://site", ["fast.html", "slow.html"], Path(), look)
    assert said in "".join(found.get("slow.html", []))
    assert bool(found) is bool(said)
    assert asked[1:] == [["http://site/slow.html"]] * len(later)


def told(**changed: object) -> str:
    scores = {name: {"score": 1, "reasons": []} for name in gate_lighthouse.FULL}
    return json.dumps(
        {"address": "a", "error": None, "speed": 0.9, "host": 400, "scores": scores, "counts": FEW, **changed}
    )


def test_a_visit_that_saw_no_page_or_counted_nothing_is_an_error() -> None:
    assert judge(gate_lighthouse.read_visit(told())) == []
    with pytest.raises(RuntimeError, match="paint"):
        gate_lighthouse.read_visit(told(error="no paint"))
    with pytest.raises(RuntimeError, match="shift"):
        gate_lighthouse.read_visit(told(counts={**FEW, "shift": None}))


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


def test_good_links_are_remembered_for_a_while(tmp_path: Path) -> None:
    asked: list[str] = []

    def problem(link: str) -> str | None:
        asked.append(link)
        return "answer 404" if "bad" in link else None

    good: dict[str, float] = {}
    assert external_links.check({"good", "bad"}, good, 0.0, problem) == {"bad": "answer 404"}
    cache = tmp_path / "links.json"
    cache.write_text(json.dumps(good))
    later = external_links.read_cache(cache, external_links.DAY)
    external_links.check({"good"}, later, external_links.DAY, problem)
    assert asked == ["bad", "good"]
    assert external_links.read_cache(cache, 100 * external_links.DAY) == {}
    cache.write_text("[]")
    with pytest.raises(ValueError, match="remove it"):
        external_links.read_cache(cache, 0.0)
