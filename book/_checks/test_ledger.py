"""The filter of the ledger: what a reader chooses stays, and sources without claims go."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from made_page import made_page, opened_page
from playwright.sync_api import Browser, Page

ROW = (
    '<tr><th scope="row">{name}</th><td><span class="claim-verdict"><span class="icon" aria-hidden="true">x</span> '
    '{verdict}</span></td><td>It took long.</td><td><a href="#">{chapter}</a></td></tr>'
)
ROWS = [("a", "supported", "Roofs"), ("b", "refuted", "Roofs"), ("c", "supported", "Codes")]
SOURCE = '<tr class="ledger-source"><th scope="rowgroup" colspan="4">{}</th></tr>'


def opened_ledger(browser: Browser, folder: Path, rows: str, sidebar: str = "") -> AbstractContextManager[Page]:
    content = f'{sidebar}<div class="measured-table ledger"><table>{rows}</table></div>'
    return opened_page(browser, made_page(folder, [], ["ledger.js"], content))


def test_chapters_are_offered_in_the_order_of_the_book(browser: Browser, tmp_path: Path) -> None:
    listed = "".join(f'<li><a href="{name}.html">{name}</a></li>' for name in ("codes", "unread", "roofs"))
    row = ROW.replace('"#"', '"{chapter}.html#claim-x"')
    rows = "".join(row.format(name=name, verdict="refuted", chapter=name) for name in ("roofs", "codes"))
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
