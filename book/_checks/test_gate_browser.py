"""Pages that are wrong on purpose: `make check-site` runs these first, so that its silence means something.

Not in tests/, as they need a browser and `make test` needs nothing but Python.
"""

from pathlib import Path

import gate_browser
import gate_folder
import gate_layout
import gate_search
import pytest
from broken_pages import GOOD_BODY, write_page
from built_site import serve
from gate_browser import Seen, check_page, look
from playwright.sync_api import Browser

PHONE, SCREEN = 390, 1280
NO_OUTLINE = "<style>button:focus-visible { outline: none }</style>"


def problems_of(browser: Browser, site: Path, width: int = PHONE) -> str:
    seen = Seen("index.html")
    with serve(site) as base:
        look(browser, base, site, seen, (width,))
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
        (
            "<a href='#' style='position: absolute; left: -500px'>x</a>",
            'a "x" has the focus off the screen or below another element',
        ),
        (
            "<div tabindex='0' style='position: absolute; left: -980px; width: 1000px'>x</div>",
            'div "x" has the focus off the screen or below another element',
        ),
        (
            "<div tabindex='0' style='height: 5000px'>x</div>"
            "<p style='position: fixed; inset: 0; background: #fff'>y</p>",
            'div "x" has the focus off the screen or below another element',
        ),
        (
            "<button id='trap'>x</button><button id='after'>y</button><script>"
            "document.getElementById('trap').addEventListener('keydown', e => e.preventDefault())</script>",
            'button#after "y" is not reached with Tab',
        ),
    ],
)
def test_a_fault_is_reported(browser: Browser, tmp_path: Path, body: str, said: str) -> None:
    write_page(tmp_path, GOOD_BODY + body)
    assert said in problems_of(browser, tmp_path)


def test_the_order_of_the_focus_is_that_of_the_page(browser: Browser, tmp_path: Path) -> None:
    write_page(tmp_path, f"{GOOD_BODY}<button tabindex='2'>x</button><button tabindex='1'>y</button>")
    assert 'button "x" is reached after button "y", which stands below it' in problems_of(browser, tmp_path)


def test_many_stops_are_a_fault(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_page(tmp_path, f"{GOOD_BODY}<button>x</button><button>y</button>")
    assert "Tab stops" not in problems_of(browser, tmp_path, SCREEN)
    monkeypatch.setattr("gate_keyboard.MOST_STOPS", 1)
    assert "times, at most 1 are right" in problems_of(browser, tmp_path, SCREEN)


POPOVER = "<p><button popovertarget='more'>more</button><span popover id='more'>Text.</span></p>"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("", ""),
        ("keydown", "does not open its popover with Enter"),
        ("Escape", "does not close its popover with Escape"),
        ("blur", "loses the focus as its popover closes"),
    ],
)
def test_popovers_open_and_close_with_keys(browser: Browser, tmp_path: Path, script: str, said: str) -> None:
    listeners = {
        "keydown": "addEventListener('keydown', e => e.key === 'Enter' && e.preventDefault())",
        "Escape": "addEventListener('keydown', e => e.key === 'Escape' && e.preventDefault())",
        "blur": "addEventListener('beforetoggle', e => e.newState === 'closed' && document.activeElement.blur(), true)",
    }
    write_page(tmp_path, f"{GOOD_BODY}{POPOVER}<script>{listeners.get(script, '')}</script>")
    found = problems_of(browser, tmp_path, SCREEN)
    assert said in found
    assert bool(said) == bool(found)


@pytest.mark.parametrize("place", [0, -1])
def test_tab_leads_into_an_open_popover(browser: Browser, tmp_path: Path, place: int) -> None:
    link = f"<a href='index.html' tabindex='{place}'>more</a>"
    write_page(tmp_path, f"{GOOD_BODY}{POPOVER.replace('Text.', link)}{POPOVER.replace('more', 'last')}")
    found = problems_of(browser, tmp_path, SCREEN)
    assert found.count("Tab does not lead from button") == (place < 0)
    assert bool(found) == (place < 0)


def test_what_scrolls_inside_the_page_is_no_fault(browser: Browser, tmp_path: Path) -> None:
    box = "<div style='overflow-x: auto' tabindex='0' role='region' aria-label='wide'>"
    write_page(tmp_path, f"{GOOD_BODY}{box}<div style='width: 2000px'>x</div></div>")
    assert problems_of(browser, tmp_path) == ""


@pytest.mark.parametrize("above", [0, 300, 700, 860, 5000])
@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_what_is_taller_than_the_screen_has_its_focus_on_it(
    browser: Browser, tmp_path: Path, width: int, above: int
) -> None:
    box = "<div style='overflow-x: auto; height: 9000px' tabindex='0' role='region' aria-label='tall'>"
    write_page(
        tmp_path, f"{GOOD_BODY}<div style='height: {above}px'></div>{box}<div style='width: 2000px'>x</div></div>"
    )
    assert problems_of(browser, tmp_path, width) == ""


def test_one_radio_button_of_a_group_is_reached(browser: Browser, tmp_path: Path) -> None:
    radios = "".join(f"<label><input type='radio' name='choice'> {name}</label> " for name in ("one", "other"))
    write_page(tmp_path, f"{GOOD_BODY}<form>{radios}</form>")
    assert problems_of(browser, tmp_path) == ""


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


TABLE = "<div class='measured-table' id='table-t' style='overflow-x: auto; width: 200px' "
TABLE += "tabindex='0' role='region' aria-label='t'>"


@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_a_table_that_is_cut_on_a_desk_is_reported(browser: Browser, tmp_path: Path, width: int) -> None:
    write_page(tmp_path, f"{GOOD_BODY}{TABLE}<div style='width: 300px'>x</div></div>")
    said = "table table-t is cut: 200 of 300 px are seen"
    assert (said in problems_of(browser, tmp_path, width)) == (width == SCREEN)


@pytest.mark.parametrize(
    ("part", "width", "said"),
    [
        ("<div class='math-block' tabindex='0' id='m'>{}</div>", SCREEN, "formula m is cut: 200 of 300 px are seen"),
        ("<article class='bd-article'><pre tabindex='0'>{}</pre></article>", PHONE, ""),
    ],
)
def test_a_formula_that_is_cut_is_reported_and_code_scrolls(
    browser: Browser, tmp_path: Path, part: str, width: int, said: str
) -> None:
    wide = part.format("<span style='display: block; width: 300px'>x</span>")
    style = "<style>.math-block, pre { overflow-x: auto; width: 200px; margin: 0 }</style>"
    write_page(tmp_path, GOOD_BODY + style + wide)
    found = problems_of(browser, tmp_path, width)
    assert said in found
    assert bool(said) == ("is cut" in found)


@pytest.mark.parametrize(("top", "covers"), [(0, True), (-30, False)])
def test_a_copy_button_on_code_is_reported(browser: Browser, tmp_path: Path, top: int, covers: bool) -> None:
    button = f"<button class='copy' style='position: absolute; right: 0; top: {top}px'>Copy</button>"
    style = "<style>div.highlight { position: relative; width: 200px; margin: 40px 0 } pre { margin: 0 }</style>"
    write_page(tmp_path, f"{GOOD_BODY}{style}<div class='highlight'><pre>{'x' * 24}</pre>{button}</div>")
    assert ("Copy covers code" in problems_of(browser, tmp_path, SCREEN)) is covers


def drawing(size: float, x: float) -> str:
    """A figure 200 pixels wide with a word of this size at x."""
    text = f"<text x='{x}' y='50' font-size='{size}'>word</text>"
    svg = f"<svg role='img' aria-label='a' viewBox='0 0 200 100' style='width: 200px'>{text}</svg>"
    return f"<figure class='measured-figure' id='figure-f'>{svg}</figure>"


@pytest.mark.parametrize(
    ("size", "x", "width", "said"),
    [
        (11, 10, PHONE, ""),
        (10, 10, PHONE, "figure-f has words of 10.0 px, 11 are right: word"),
        (11, 10, SCREEN, "figure-f has words of 11.0 px, 12 are right: word"),
        (12, 190, SCREEN, "figure-f is left by its words: word"),
    ],
)
def test_words_of_figures_are_large_enough_and_inside(
    browser: Browser, tmp_path: Path, size: float, x: float, width: int, said: str
) -> None:
    write_page(tmp_path, GOOD_BODY + drawing(size, x))
    found = problems_of(browser, tmp_path, width)
    assert said in found
    assert bool(said) == bool(found)


@pytest.mark.parametrize("opens", [True, False])
def test_a_number_that_shows_nothing_at_hover_is_reported(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: bool
) -> None:
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
        (
            "<li><a href='other.html?highlight=page'>p</a><p class='context'><mark>page</mark></p></li>",
            True,
            "does not mark",
        ),
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
