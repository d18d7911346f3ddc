"""Pages that are wrong on purpose: `make check-site` runs these first, so that its silence means something.

Not in tests/, as they need a browser and `make test` needs nothing but Python.
"""

from pathlib import Path

import gate_browser
import gate_folder
import gate_html
import gate_layout
import gate_lighthouse
import gate_search
import pytest
from built_site import serve
from check_site import NODE
from gate_browser import Seen, check_page, look
from made_page import GOOD_BODY, write_page
from playwright.sync_api import Browser

PHONE, SCREEN = 390, 1280
NO_OUTLINE = "<style>button:focus-visible { outline: none }</style>"
POPOVER = "<p><button popovertarget='more'>more</button><span popover id='more'>Text.</span></p>"
TAB_TO = "<a href='index.html' tabindex='{}'>more</a>"
RADIO = "<label><input type='radio' name='choice'> one</label>"
REGION = "tabindex='0' role='region' aria-label='wide' style='overflow-x: auto; width: 200px;"
WIDE = "<div style='width: 300px'>x</div>"
CODE = "<style>div.highlight { position: relative; width: 200px; margin: 40px 0 } pre { margin: 0 }</style>"
CODE += "<div class='highlight'><pre>xxxxxxxxxxxxxxxxxxxxxxxx</pre>"
COPY = "<button class='copy' style='position: absolute; right: 0; top: {}px'>Copy</button></div>"
OFF_SCREEN = '"x" has the focus off the screen or below another element'


def drawing(size: float, x: float) -> str:
    """A figure 200 pixels wide with a word of this size at x."""
    text = f"<text x='{x}' y='50' font-size='{size}'>word</text>"
    svg = f"<svg role='img' aria-label='a' viewBox='0 0 200 100' style='width: 200px'>{text}</svg>"
    return f"<figure class='measured-figure' id='figure-f'>{svg}</figure>"


def listener(event: str, does: str) -> str:
    return f"{POPOVER}<script>addEventListener('{event}', {does}, true)</script>"


def problems_of(browser: Browser, site: Path, *widths: int) -> str:
    seen = Seen("index.html")
    with serve(site) as base:
        look(browser, base, site, seen, widths)
    return "\n".join(seen.lines())


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<script>console.error('broken')</script>", "console: broken"),
        ("<script>throw new Error('broken')</script>", "script: broken"),
        ("<img src='missing.svg' alt='a figure'>", "answer 404 to /missing.svg"),
        ("<script src='https://cdn.example/x.js'></script>", "asks another host: https://cdn.example/x.js"),
        ("<script>fetch('http://127.0.0.1:9/x').catch(() => 0)</script>", "asks another host: http://127.0.0.1:9/x"),
        ("<script>new WebSocket('ws://127.0.0.1:9/')</script>", "opens a socket: ws://127.0.0.1:9/"),
        ("<div id='wide' style='width: 500px'>x</div>", "[320 px] scrolls sideways by 180 px: div#wide"),
        ("<div id='wide' style='width: 350px'>x</div>", "[320 px] scrolls sideways by 30 px: div#wide"),
        ("<details><summary>x</summary><p style='width: 500px'>x</p></details>", "scrolls sideways by 180 px: p"),
        (
            "<div class='sd-tab-set'><input type='radio' name='t' aria-label='a' checked><p>a</p>"
            "<input type='radio' name='t' aria-label='b'><p class='second' style='width: 500px'>b</p></div>"
            "<style>input:not(:checked) + p { display: none }</style>",
            "scrolls sideways by 180 px: p.second",
        ),
        ("<p style='color: #ccc; background: #fff'>pale</p>", "axe color-contrast: body > p: "),
        ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA='>", "axe image-alt: img: "),
        ("<p><button style='height: 20px'>low</button></p>", 'button. "low" is 20.0 px high, 24 are right'),
        ("<div popover id='far' style='left: 380px; right: auto; margin: 0; width: 300px'>x</div>", "popover far"),
        ("<button id='flat'>x</button>" + NO_OUTLINE, 'button#flat "x" looks the same with the focus as without'),
        ("<a href='#' style='position: absolute; left: -500px'>x</a>", f"a {OFF_SCREEN}"),
        ("<div tabindex='0' style='position: absolute; left: -980px; width: 1000px'>x</div>", f"div {OFF_SCREEN}"),
        (
            "<div tabindex='0' style='height: 5000px'>x</div>"
            "<p style='position: fixed; inset: 0; background: #fff'>y</p>",
            f"div {OFF_SCREEN}",
        ),
        (
            "<button id='trap'>x</button><button id='after'>y</button><script>"
            "document.getElementById('trap').addEventListener('keydown', e => e.preventDefault())</script>",
            'button#after "y" is not reached with Tab',
        ),
        (
            "<button tabindex='2'>x</button><button tabindex='1'>y</button>",
            'button "x" is reached after button "y", which stands below it',
        ),
        (listener("keydown", "e => e.key === 'Enter' && e.preventDefault()"), "does not open its popover with Enter"),
        (listener("keydown", "e => e.key === 'Escape' && e.preventDefault()"), "not close its popover with Escape"),
        (
            listener("beforetoggle", "e => e.newState === 'closed' && document.activeElement.blur()"),
            "loses the focus as its popover closes",
        ),
        (
            POPOVER.replace("Text.", TAB_TO.format(-1)) + POPOVER.replace("more", "last"),
            "Tab does not lead from button",
        ),
        (f"<div class='measured-table' id='table-t' {REGION}'>{WIDE}</div>", "table table-t is cut: 200 of 300 px"),
        (f"<div class='math-block' id='m' {REGION}'>{WIDE}</div>", "formula m is cut: 200 of 300 px are seen"),
        (CODE + COPY.format(0), "Copy covers code"),
        (drawing(10, 10), "figure-f has words of 10.0 px, 11 are right: word"),
        (drawing(11, 10), "figure-f has words of 11.0 px, 12 are right: word"),
        (drawing(12, 190), "figure-f is left by its words: word"),
    ],
)
def test_a_fault_is_reported(browser: Browser, tmp_path: Path, body: str, said: str) -> None:
    write_page(tmp_path, GOOD_BODY + body)
    assert said in problems_of(browser, tmp_path, PHONE, SCREEN)


@pytest.mark.parametrize(
    ("body", "width"),
    [
        (POPOVER, SCREEN),
        (POPOVER.replace("Text.", TAB_TO.format(0)) + POPOVER.replace("more", "last"), SCREEN),
        (f"<form>{RADIO} {RADIO.replace('one', 'other')}</form>", PHONE),
        (f"<div class='measured-table' id='table-t' {REGION}'>{WIDE}</div>", PHONE),
        (f"<article class='bd-article'><pre {REGION} margin: 0'>{'x' * 99}</pre></article>", PHONE),
        (CODE + COPY.format(-30), SCREEN),
        (drawing(11, 10), PHONE),
        *(
            (f"<div style='height: {above}px'></div><div {REGION} height: 9000px'>{WIDE}</div>", width)
            for above in (0, 300, 700, 860, 5000)
            for width in (PHONE, SCREEN)
        ),
    ],
)
def test_what_is_right_is_no_fault(browser: Browser, tmp_path: Path, body: str, width: int) -> None:
    write_page(tmp_path, GOOD_BODY + body)
    assert problems_of(browser, tmp_path, width) == ""


PALE = "<style>.pale { color: #ccc } .dark { background: #000 }</style>"


@pytest.mark.parametrize(
    "body",
    [
        "<p class='pale'>x</p>" * 4 + "<p class='pale'>long enough</p>",
        "<button class='pale' disabled>a longer text than the other</button><button class='pale'>seen</button>",
        "<div class='dark'><p class='pale'>a longer text, on black</p></div><p class='pale'>on white</p>",
        "<p class='pale' style='position: absolute; top: 300px'>on white</p>"
        "<div class='dark' style='position: absolute; top: 400px'><p class='pale'>a longer text, on black</p></div>",
    ],
)
def test_pale_text_is_found_among_text_that_only_looks_alike(browser: Browser, tmp_path: Path, body: str) -> None:
    write_page(tmp_path, GOOD_BODY + body, PALE)
    assert "axe color-contrast: " in problems_of(browser, tmp_path, SCREEN)


def test_many_stops_are_a_fault(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_page(tmp_path, f"{GOOD_BODY}<button>x</button><button>y</button>")
    assert "Tab stops" not in problems_of(browser, tmp_path, SCREEN)
    monkeypatch.setattr("gate_keyboard.MOST_STOPS", 1)
    assert "times, at most 1 are right" in problems_of(browser, tmp_path, SCREEN)


def test_every_width_is_looked_at_and_dark(browser: Browser, tmp_path: Path) -> None:
    dark = "<style>@media (prefers-color-scheme: dark) { p { color: #ddd } }</style>"
    write_page(tmp_path, f"{GOOD_BODY}<div style='width: 800px'>x</div>", dark)
    with serve(tmp_path) as base:
        found = "\n".join(check_page(browser, base, tmp_path, "index.html").lines())
    assert "[1280 px dark] axe color-contrast: " in found
    assert "[320 px] scrolls sideways by 480 px: div" in found
    assert "[768 px] scrolls sideways by 32 px: div" in found


@pytest.mark.parametrize(
    ("name", "body", "head", "said"),
    [
        ("index.html", "", "<link rel='stylesheet' href='/root.css'>", "leaves its folder: file:///root.css"),
        ("index.html", "", "<link rel='stylesheet' href='gone.css'>", "failed: /gone.css"),
        ("index.html", "<script>fetch('index.html').catch(() => 0)</script>", "", "console: Access to fetch"),
        ("search.html", "", "", "the search for 'page' lists no section"),
    ],
)
def test_what_a_folder_cannot_serve_is_reported(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: str, head: str, said: str
) -> None:
    monkeypatch.setattr(gate_folder, "SECONDS", 0.2)
    write_page(tmp_path, GOOD_BODY + body, head, name)
    assert said in "\n".join(gate_folder.check(browser, tmp_path, name))


def test_a_good_site_is_clean_in_two_processes(tmp_path: Path) -> None:
    for name in ("index.html", "other.html"):
        write_page(tmp_path, GOOD_BODY, name=name)
    found = gate_browser.check(tmp_path, ["index.html", "other.html"])
    assert [(seen.address, seen.problems) for seen in found] == [("index.html", {}), ("other.html", {})]


def test_the_heaviest_page_is_looked_at_first(tmp_path: Path) -> None:
    for name, size in {"a": 3, "b": 5, "c": 3}.items():
        (tmp_path / name).write_text("x" * size)
    assert gate_browser.heaviest_first(tmp_path, ["c", "a", "b"]) == ["b", "a", "c"]


@pytest.mark.parametrize("opens", [True, False])
def test_a_number_that_shows_nothing_at_hover_is_reported(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: bool
) -> None:
    if not opens:
        monkeypatch.setattr(gate_layout, "PATIENCE", 300)
    number = "<article><p><button class='measured' popovertarget='d'>5 ms</button>"
    number += "<span popover class='measured-detail' id='d'>more</span></p></article>"
    opening = "document.querySelector('.measured').onpointerenter = () => document.getElementById('d').showPopover()"
    write_page(tmp_path, f"{GOOD_BODY}{number}<script>{opening if opens else ''}</script>")
    assert ("shows nothing while the pointer" in problems_of(browser, tmp_path, SCREEN)) != opens


SEARCH = """
<form><input name="q" id="search-words"></form><p id="search-progress"></p><div id="search-results"></div>
<script>
const word = new URLSearchParams(location.search).get("q");
if (word === "page") document.getElementById("search-results").innerHTML = ITEM;
addEventListener("input", ({ target }) => {
  document.getElementById("search-progress").textContent = `${target.value} is nowhere`;
});
addEventListener("keydown", (event) => {
  if (event.ctrlKey) event.preventDefault() || document.getElementById("search-words")?.focus();
});
</script>
"""


@pytest.mark.parametrize(
    ("item", "answers", "said"),
    [
        ("<li>page</li>", True, "shows no excerpt"),
        ("<li><a href='other.html'>p</a><p class='context'><mark>page</mark></p></li>", True, "does not mark"),
        ("<li>page</li>", False, "does not say so"),
    ],
)
def test_a_search_that_shows_too_little_is_reported(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item: str, answers: bool, said: str
) -> None:
    monkeypatch.setattr(gate_search, "SECONDS", 0.5)
    found = SEARCH if answers else SEARCH.replace("is nowhere", "").replace("target.value", "''")
    write_page(tmp_path, GOOD_BODY + found.replace("ITEM", repr(item)), name="search.html")
    write_page(tmp_path, GOOD_BODY, name="other.html")
    with serve(tmp_path) as base:
        assert said in "\n".join(gate_search.check(browser, base))


#: What breaks the standard, with the rule that says so.
WRONG_HTML = {
    "no-implicit-close": "<p><div>x</div></p>",
    "element-permitted-content": "<ul><p>x</p></ul>",
    "no-dup-class": "<p class='a a'>x</p>",
    "attribute-allowed-values": "<form action=''><p>x</p></form>",
    "no-dup-id": "<p id='a'>x</p><p id='a'>y</p>",
    "wcag/h37": "<img src='a.png'>",
}


def test_html_that_breaks_the_standard_is_reported_and_good_html_is_clean(tmp_path: Path) -> None:
    pages = {name: f"{name.replace('/', '-')}.html" for name in WRONG_HTML}
    for name, page in {**pages, "good": "good.html"}.items():
        write_page(tmp_path, GOOD_BODY + WRONG_HTML.get(name, ""), name=page)
    found = gate_html.check(tmp_path, [*pages.values(), "good.html"], NODE)
    assert sorted(found) == sorted(pages.values())
    for name, page in pages.items():
        assert any(problem.startswith(f"{name}: line ") for problem in found[page]), found


def test_lighthouse_tells_what_it_misses(tmp_path: Path) -> None:
    write_page(tmp_path, "<main><h1>Page</h1><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='></main>")
    with serve(tmp_path) as base:
        said = "\n".join(gate_lighthouse.judge(gate_lighthouse.visit(f"{base}/index.html", NODE)))
    assert "Lighthouse accessibility is" in said
    assert "image-alt" in said


def test_lighthouse_counts_what_makes_a_page_slow(tmp_path: Path) -> None:
    (tmp_path / "unused.css").write_text("".join(f".never-{place} {{ color: red }}\n" for place in range(20_000)))
    (tmp_path / "unused.js").write_text("".join(f"function never{n}() {{ return {n} }}\n" for n in range(20_000)))
    # From the first picture on, and for a picture each: what moves twice between two pictures has not moved.
    move = "() => { document.body[n++ % 2 ? 'append' : 'prepend'](document.querySelector('hr')); "
    move += "if (n < 40) requestAnimationFrame(move) }"
    observed = "new PerformanceObserver(move).observe({ type: 'paint', buffered: true })"
    (tmp_path / "moves.js").write_text(f"let n = 0; const move = {move}; {observed}")
    (tmp_path / "asks.js").write_text("for (let n = 0; n < 40; n++) fetch(`index.html?${n}`)")
    head = "<link rel='stylesheet' href='unused.css'>"
    head += "".join(f"<script src='{name}.js' defer></script>" for name in ("unused", "asks", "moves"))
    tall = "<style>hr { height: 300px }</style>"
    write_page(tmp_path, f"{GOOD_BODY}{'<b>x</b>' * 6500}<hr>", head + tall)
    with serve(tmp_path) as base:
        said = gate_lighthouse.judge(gate_lighthouse.visit(f"{base}/index.html", NODE))
    assert [what for _, what in gate_lighthouse.MOST.values() if what not in "\n".join(said)] == []
