"""The checks of built pages find what they are for: one wrong page each."""

from pathlib import Path

import pytest
from built_pages import check_site
from measured_book.site.security import POLICY

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
