"""The scripts of tables, of the ledger and of each page's frame."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from made_page import STATIC, made_page, opened_page
from playwright.sync_api import Browser, Page

TABLE = (
    '<div class="measured-table"><table class="sortable"><thead><tr><th>Name</th></tr></thead>'
    "<tbody><tr><td>a</td></tr></tbody></table></div>"
)
ADOPT = "text => { const sheet = new CSSStyleSheet(); sheet.replaceSync(text); document.adoptedStyleSheets = [sheet] }"


def test_on_paper_the_words_of_a_head_are_text_that_each_page_can_repeat(browser: Browser, tmp_path: Path) -> None:
    with opened_page(browser, made_page(tmp_path, [], ["tables.js"], TABLE)) as page:
        page.evaluate(ADOPT, (STATIC.parent / "_style" / "print.css").read_text("utf-8"))
        display = "button => getComputedStyle(button).display"
        button = page.locator("button.sort")
        assert button.evaluate(display) != "contents"
        page.emulate_media(media="print")
        assert button.evaluate(display) == "contents"


NUMBERS = """<table class="sortable"><thead><tr><th>Name</th><th>Time</th></tr></thead><tbody>
<tr hidden><td><button class="measured">0</button></td><td>x</td></tr>
<tr><td>a <a href="#a" tabindex="-1" class="number">1</a></td><td><button class="measured">1</button></td></tr>
<tr><td><a href="#b">b</a></td><td><button class="measured">2</button><button class="measured">3</button></td></tr>
</tbody></table><button id="after">after</button>"""


def test_a_table_is_one_stop_of_the_keyboard_and_arrows_lead_on(browser: Browser, tmp_path: Path) -> None:
    made = made_page(tmp_path, [], ["tables.js"], f"<article>{NUMBERS}</article>")
    with opened_page(browser, made) as page:
        here = []
        for key in ("Tab", *(f"Arrow{way}" for way in ("Right", "Down", "Down", "Right", "Right", "Left", "Left"))):
            page.keyboard.press(key)
            here.append(page.evaluate("document.activeElement.textContent"))
        assert here == ["Name", "Time", "1", "2", "3", "3", "2", "b"]
        for key, there in (("Tab", "after"), ("Shift+Tab", "b")):
            page.keyboard.press(key)
            assert page.evaluate("document.activeElement.textContent") == there


def test_a_table_keeps_a_stop_where_rows_are_filtered(browser: Browser, tmp_path: Path) -> None:
    rows = "".join(f"<tr><td><button class='measured'>{name}</button></td></tr>" for name in "ab")
    made = made_page(tmp_path, [], ["tables.js"], f"<article><table>{rows}</table></article>")
    with opened_page(browser, made) as page:
        page.evaluate(
            "() => { const [first] = document.querySelectorAll('tr'); first.hidden = true;"
            "first.closest('table').dispatchEvent(new Event('filtered')) }"
        )
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "b"


SORTED = """<table class="sortable"><thead><tr><th class="numeric">Time</th></tr></thead><tbody>
<tr><td data-value="1">1</td></tr><tr><td data-value="30">30</td></tr>
<tr><td>–</td></tr><tr><td data-value="4">4</td></tr>
</tbody></table>"""


def test_a_press_on_a_head_sorts_from_the_largest_then_the_least_then_as_it_was(
    browser: Browser, tmp_path: Path
) -> None:
    with opened_page(browser, made_page(tmp_path, [], ["tables.js"], SORTED)) as page:
        seen = []
        for _ in range(3):
            page.locator("button.sort").click()
            seen.append(page.locator("td").all_inner_texts())
    assert seen == [["30", "4", "1", "–"], ["1", "4", "30", "–"], ["1", "30", "–", "4"]]


ROW = (
    '<tr><th scope="row">{name}</th><td><span class="claim-verdict"><span class="icon" aria-hidden="true">x</span> '
    '{verdict}</span></td><td>It took long.</td><td><a href="{chapter}.html#claim-x">{chapter}</a></td></tr>'
)
ROWS = [("a", "supported", "Roofs"), ("b", "refuted", "Roofs"), ("c", "supported", "Codes")]
SOURCE = '<tr class="ledger-source"><th scope="rowgroup" colspan="4">{}</th></tr>'


def opened_ledger(browser: Browser, folder: Path, rows: str, sidebar: str = "") -> AbstractContextManager[Page]:
    content = f'{sidebar}<div class="measured-table ledger"><table>{rows}</table></div>'
    return opened_page(browser, made_page(folder, [], ["ledger.js"], content))


def test_chapters_are_offered_in_the_order_of_the_book(browser: Browser, tmp_path: Path) -> None:
    listed = "".join(f'<li><a href="{name}.html">{name}</a></li>' for name in ("codes", "unread", "roofs"))
    rows = "".join(ROW.format(name=name, verdict="refuted", chapter=name) for name in ("roofs", "codes"))
    with opened_ledger(browser, tmp_path, rows, f'<ul class="bd-sidebar-primary">{listed}</ul>') as page:
        assert page.get_by_label("Chapter").locator("option").all_inner_texts() == ["any", "codes", "roofs"]


@pytest.mark.parametrize(
    ("verdict", "chapter", "left", "said"),
    [
        ("any", "any", ["One", "a", "b", "Other", "c"], ""),
        ("supported", "any", ["One", "a", "Other", "c"], "2 of 3 claims"),
        ("supported", "Codes", ["Other", "c"], "1 of 3 claims"),
        ("refuted", "Codes", [], "0 of 3 claims"),
    ],
)
def test_what_is_chosen_stays(
    browser: Browser, tmp_path: Path, verdict: str, chapter: str, left: list[str], said: str
) -> None:
    a, b, c = (ROW.format(name=name, verdict=verdict, chapter=chapter) for name, verdict, chapter in ROWS)
    bodies = f"<tbody>{SOURCE.format('One')}{a}{b}</tbody><tbody>{SOURCE.format('Other')}{c}</tbody>"
    with opened_ledger(browser, tmp_path, bodies) as page:
        page.get_by_label("Verdict").select_option(verdict)
        page.get_by_label("Chapter").select_option(chapter)
        assert page.locator("tr:visible th").all_inner_texts() == left
        assert page.get_by_role("status").inner_text() == said


def test_the_address_keeps_what_is_chosen_and_shows_it_again(browser: Browser, tmp_path: Path) -> None:
    a, b, c = (ROW.format(name=name, verdict=verdict, chapter=chapter) for name, verdict, chapter in ROWS)
    with opened_ledger(browser, tmp_path, f"<tbody>{a}{b}{c}</tbody>") as page:
        page.get_by_label("Verdict").select_option("supported")
        page.get_by_label("Chapter").select_option("Codes")
        assert page.url.endswith("?verdict=supported&chapter=Codes")
        page.reload()
        assert page.locator("tr:visible th").all_inner_texts() == ["c"]
        page.get_by_label("Verdict").select_option("any")
        assert page.url.endswith("?chapter=Codes")
        page.goto(page.url.replace("Codes", "nowhere"))
        assert page.locator("tr:visible th").all_inner_texts() == ["a", "b", "c"]


def test_the_wall_is_one_stop_of_the_keyboard_and_arrows_lead_on(browser: Browser, tmp_path: Path) -> None:
    squares = "".join(f'<li><a href="#{name}">{name}</a></li>' for name in "abcd")
    wall = f'<div class="claim-wall"><ul class="wall">{squares}</ul></div><button>after</button>'
    with opened_page(browser, made_page(tmp_path, [], ["ledger.js"], wall)) as page:
        square = "li { float: left; width: 50px } li:nth-child(3) { clear: left } ul { list-style: none }"
        page.evaluate(ADOPT, square)  # two rows of two
        here = []
        for key in ("Tab", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowUp", "Tab"):
            page.keyboard.press(key)
            here.append(page.evaluate("document.activeElement.textContent"))
        assert here == ["a", "b", "d", "c", "a", "a", "after"]


MENUS = (
    '<article><details class="page-menu"><summary>Download</summary><a href="#x">a file</a></details>'
    '<details class="hide"><summary>Answer</summary><p>answer</p></details><p id="x">text</p></article>'
)


@pytest.mark.parametrize("way", ["Escape", "a press elsewhere"])
def test_a_menu_under_the_title_closes_when_it_is_left(browser: Browser, tmp_path: Path, way: str) -> None:
    with opened_page(browser, made_page(tmp_path, [], ["navigation.js"], MENUS)) as page:
        menu, answer = page.locator(".page-menu"), page.locator(".hide")
        answer.locator("summary").click()
        menu.locator("summary").click()
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "a file"
        assert menu.evaluate("menu => menu.open")
        if way == "Escape":
            page.keyboard.press("Escape")
            assert page.evaluate("() => document.activeElement.textContent") == "Download"
        else:
            page.locator("#x").click()
        assert not menu.evaluate("menu => menu.open")
        assert answer.evaluate("answer => answer.open"), "an answer is no menu"


def test_escape_closes_what_a_number_shows_before_it_closes_a_menu(browser: Browser, tmp_path: Path) -> None:
    number = '<button popovertarget="shown">2</button><p id="shown" popover>evidence</p>'
    with opened_page(browser, made_page(tmp_path, [], ["navigation.js"], MENUS + number)) as page:
        menu, shown = page.locator(".page-menu"), page.locator("#shown")
        menu.evaluate("menu => { menu.open = true; }")
        page.locator("button").focus()
        page.keyboard.press("Enter")
        assert shown.is_visible()
        page.keyboard.press("Escape")
        assert not shown.is_visible()
        assert menu.evaluate("menu => menu.open")
        page.keyboard.press("Escape")
        assert not menu.evaluate("menu => menu.open")
