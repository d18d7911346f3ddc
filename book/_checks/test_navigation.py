"""The script of each page's frame: what is opened under the title closes when it is left."""

from pathlib import Path

import pytest
from made_page import made_page, opened_page
from playwright.sync_api import Browser

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
