"""The ledger of claims: what is counted apart from what is measured, each source's claims together."""

from typing import Any

from bs4 import BeautifulSoup, Tag
from measured_book.records.ledger import Row, ledger_html

from tests.book.small_book import one
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.report import Page

SUPPORTED, REFUTED, OPEN = (Judgement(each) for each in (Verdict.SUPPORTED, Verdict.REFUTED, Verdict.OPEN))


def made() -> BeautifulSoup:
    """Return a ledger of four claims of two sources, two of which are counted."""
    page = Page("page")
    page.number("total", 3, unit="ops", what="operations")
    said: dict[str, Any] = {"evidence": "It has {total}."}
    page.claim("a", statement="A <is>.", source="X", verdict=REFUTED, quote="is, on hardware", **said)
    page.claim("b", statement="B is.", source="Y", source_url="https://y.org/b", verdict=SUPPORTED, quote="B", **said)
    page.claim("c", statement="C is.", source="X", verdict=SUPPORTED, quote="C", counted=True, **said)
    page.claim("d", statement="D is.", source="X", verdict=OPEN, quote="D", **said)
    return ledger_of(page)


def ledger_of(page: Page) -> BeautifulSoup:
    """Return the ledger of a page's claims."""
    claims = [record.to_json() for record in page.records if record.kind == "claim"]
    return BeautifulSoup(
        ledger_html([Row(each, "It has 3.", "The page", "page.html") for each in claims]), "html.parser"
    )


def words(tag: Tag) -> str:
    return " ".join(tag.get_text(" ").split())


def test_what_is_counted_stands_apart_and_both_are_summed() -> None:
    counted, measured = made().select("table")
    assert one(counted, "caption").get_text() == "Counted: true or false wherever it is built"
    assert one(measured, "caption").get_text() == "Measured on this machine"
    assert [row["id"] for row in counted.select("tr[id]")] == ["ledger-page-c"]
    assert [words(line) for line in made().select(".ledger-counts")] == [
        "1 claim counted: 1 supported.",
        "3 claims measured: 1 supported, 1 refuted, 1 open.",
    ]


def test_claims_of_one_source_stand_below_it() -> None:
    measured = made().select("table")[1]
    groups = [[words(cell) for cell in body.select("th[scope=rowgroup]")] for body in measured.select("tbody")]
    assert groups == [["X"], ["Y"]]
    rows = [[row["id"] for row in body.select("tr[id]")] for body in measured.select("tbody")]
    assert rows == [["ledger-page-a", "ledger-page-d"], ["ledger-page-b"]]
    assert one(measured, "th[scope=rowgroup] a")["href"] == "https://y.org/b"


def test_files_of_one_source_stand_together_each_by_its_name() -> None:
    page = Page("page")
    page.number("total", 3, unit="ops", what="operations")
    said: dict[str, Any] = {"verdict": SUPPORTED, "quote": "is", "evidence": "It has {total}."}
    for key, name in (("a", "README.md"), ("b", "code.py"), ("c", "README.md")):
        page.claim(key, statement="It is.", source="X", source_url=f"https://x.org/m/{name}", **said)
    (head,) = ledger_of(page).select("th[scope=rowgroup]")
    assert head.get_text() == "X: README.md, code.py"
    assert [link["href"] for link in head.select("a")] == ["https://x.org/m/README.md", "https://x.org/m/code.py"]


def test_a_row_can_be_linked_to_and_shows_the_sources_words() -> None:
    row = one(made(), "#ledger-page-a")
    assert [link["href"] for link in row.select("a")] == ["#ledger-page-a", "page.html#claim-a"]
    assert [quote.get_text() for quote in row.select("q")] == ["is, on hardware"]
    assert words(row).startswith("A <is>. # is, on hardware")


def test_a_table_without_claims_is_left_out() -> None:
    assert ledger_html([]) == ""
