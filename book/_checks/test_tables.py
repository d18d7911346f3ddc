"""The script of tables beside the style of the print."""

from pathlib import Path

from made_page import STATIC, made_page, opened_page
from playwright.sync_api import Browser

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
