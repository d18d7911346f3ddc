"""The ledger of claims: what is counted apart from what is measured, each source's claims together."""

from bs4 import BeautifulSoup, Tag
from measured_book.execution.results import completed
from measured_book.records.claims import Row, ledger_html

from tests.book.small_book import one
from tinytorch.perf.measuring import Counted, Measurement
from tinytorch.report import Page
from tinytorch.report.records import Json

COUNT, TIME = Counted(3, "ops", "operations"), Measurement("a run", (1.0, 1.1, 0.9, 1.0, 1.05, 0.95), "s")
WIDE = Measurement("a run", (1.0, 3.0, 1.1, 2.9, 1.5, 2.5), "s")


def said(statement: str, source: str, quote: str, address: str | None = None) -> Json:
    """Return the words that a page has for a claim."""
    return {"statement": statement, "source": source, "source_url": address, "quote": quote, "evidence": "It has 3."}


def made() -> BeautifulSoup:
    """Return a ledger of four claims of two sources, one of which is counted."""
    page = Page("page")
    page.test("a", TIME, above=2)
    page.test("b", TIME, below=2)
    page.test("c", COUNT, at_most=3)
    page.test("d", WIDE, below=2)
    words = {
        "a": said("A <is>.", "X", "is, on hardware"),
        "b": said("B is.", "Y", "B", "https://y.org/b"),
        "c": said("C is.", "X", "C"),
        "d": said("D is.", "X", "D"),
    }
    return ledger_of(page, words)


def ledger_of(page: Page, words: dict[str, Json]) -> BeautifulSoup:
    """Return the ledger of a page's claims, with the words that its text has for them."""
    claims = [completed(record, words) for record in page.records if record["kind"] == "claim"]
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
    page, words = Page("page"), {}
    for key, name in (("a", "README.md"), ("b", "code.py"), ("c", "README.md")):
        page.test(key, TIME, below=2)
        words[key] = said("It is.", "X", "is", f"https://x.org/m/{name}")
    (head,) = ledger_of(page, words).select("th[scope=rowgroup]")
    assert head.get_text() == "X: README.md, code.py"
    assert [link["href"] for link in head.select("a")] == ["https://x.org/m/README.md", "https://x.org/m/code.py"]


def test_a_row_can_be_linked_to_and_shows_the_sources_words() -> None:
    row = one(made(), "#ledger-page-a")
    assert [link["href"] for link in row.select("a")] == ["#ledger-page-a", "page.html#claim-a"]
    assert [quote.get_text() for quote in row.select("q")] == ["is, on hardware"]
    assert words(row).startswith("A <is>. # is, on hardware")


def test_a_table_without_claims_is_left_out() -> None:
    assert ledger_html([]) == ""
