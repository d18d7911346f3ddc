"""What other runs found of repeated builds, as a page shows it, whatever a file says."""

from typing import Any

from bs4 import BeautifulSoup
from measured_book.machines.repeated_builds import sentence, table

PAGE = {"numbers": 1234, "pairs": 10, "holds": 0.812, "touches": 0.985, "width": 0.1234}
MADE: dict[str, Any] = {
    "when": "2026-11-22",
    "machine": {"cpu": "<b>CPU</b>"},
    "package": {"commit": "0123456789"},
    "builds": 5,
    "all": PAGE,
    "pages": {"roofline": {**PAGE, "holds": 0.5}},
}


def test_the_sentence_says_where_when_and_how_far() -> None:
    text = BeautifulSoup(sentence(MADE), "html.parser").get_text()
    assert text == (
        "From other runs: the book was built 5 times on <b>CPU</b> (22 November 2026, at commit 0123456). Of any two "
        "builds, 81 % of the intervals held the median of the other, and 98 % touched."
    )


def test_the_table_has_a_row_for_each_page_and_one_for_all() -> None:
    rows = BeautifulSoup(table(MADE), "html.parser").select("tbody tr")
    assert [[cell.get_text() for cell in row.select("th, td")] for row in rows] == [
        ["roofline", "1,234", "50", "98", "12.3"],
        ["all", "1,234", "81", "98", "12.3"],
    ]
    assert all(row.select_one(".quoted-value") for row in rows)
