"""The script of tables beside the style of the print."""

from __future__ import annotations

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
