"""Claims take their words from the page and their verdict from its cells; the ledger lists those of all pages."""

from html import escape
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from measured_book.execution.results import completed, has_words
from measured_book.records.claims import Row, claim_line, claim_row, claims_table, ledger_html, linked_row, wall_html
from measured_book.sources.bibliography import claim_words

from tests.book.small_book import one
from tinytorch.perf.measuring import Counted, Measurement
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.report import Page
from tinytorch.report.records import Json

BIBLIOGRAPHY = Path(__file__).parents[3] / "book" / "references.bib"
LINES = "> Eight bits\n> are enough.\n\nEight bits\nsuffice.\n\nThey kept {measured}`signal-eight`.\nSo.".splitlines()
NOISY = Measurement("gain", (0.8, 1.3, 0.9, 1.2, 0.7, 1.4, 1.0, 1.1), "")


def record_of(*values: Any, **ends: float) -> dict[str, Any]:
    page = Page("sample")
    page.test("enough", *values, **ends)
    return page.records[-1]


def test_the_words_are_quote_statement_and_evidence() -> None:
    found = claim_words(LINES, "course-quantization", BIBLIOGRAPHY)
    assert (found["quote"], found["statement"]) == ("Eight bits are enough.", "Eight bits suffice.")
    assert found["evidence"] == "They kept {signal-eight}. So."
    assert found["source"] == "TinyTorch course, module 15, Quantization"
    assert found["source_url"].endswith("quantization.py")
    named = claim_words(LINES, "Somebody, 2020 <https://example.org/a>", BIBLIOGRAPHY)
    assert (named["source"], named["source_url"]) == ("Somebody, 2020", "https://example.org/a")
    assert claim_words(LINES, "dettmers2022", BIBLIOGRAPHY)["source"].startswith("Dettmers et al., LLM.int8(): ")


@pytest.mark.parametrize(
    ("lines", "source", "why"),
    [(LINES[3:], "dettmers2022", "words"), (LINES[:2], "dettmers2022", "words"), (LINES, "nobody", "references.bib")],
)
def test_a_claim_without_words_or_source_is_refused(lines: list[str], source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        claim_words(lines, source, BIBLIOGRAPHY)


def test_a_test_of_counts_is_counted() -> None:
    eight, two = Counted(8, "B", "eight"), Counted(2, "B", "two")
    record = record_of(eight.over(two, "times fewer"), at_least=3.6, at_most=4.4)
    assert (record["verdict"], record["counted"], record["fixed"]) == ("supported", True, True)
    assert record_of(eight, above=8)["verdict"] == "refuted", "which touches the end"
    assert record_of(eight, at_least=8)["verdict"] == "supported"
    open_one = record_of(NOISY, above=1.0)
    assert (open_one["verdict"], open_one["counted"]) == ("open", False)
    assert record_of(NOISY, Judgement(Verdict.REFUTED), above=0.1)["verdict"] == "refuted"
    for values, ends in (((), {"above": 1.0}), ((eight,), {}), ((Judgement(Verdict.OPEN),), {"above": 1.0})):
        with pytest.raises(ValueError, match="enough"):
            record_of(*values, **ends)


def test_a_record_is_completed_by_the_words_of_its_page() -> None:
    record = record_of(Counted(8, "B", "eight"), at_least=8)
    words = claim_words(LINES, "dettmers2022", BIBLIOGRAPHY)
    full = completed(record, {"enough": words})
    assert (full["statement"], full["numbers"]) == ("Eight bits suffice.", ["signal-eight"])
    without = completed(record, {"enough": {**words, "evidence": ""}})
    assert "eight" in without["evidence"]
    assert "at least 8" in without["evidence"]
    assert has_words(full)
    assert not has_words(completed(record, {})), "which is told, and loses no other record"
    assert completed({"kind": "measured"}, {}) == {"kind": "measured"}


def test_a_claim_is_a_line_and_a_row() -> None:
    words = claim_words(LINES, "dettmers2022", BIBLIOGRAPHY)
    full = completed(record_of(NOISY, above=1.0), {"enough": words})
    line = claim_line(full, "claims.html#ledger-sample-enough")
    assert 'id="claim-enough"' in line
    assert "claim-open" in line
    assert "Eight bits suffice." in line
    assert 'href="claims.html#ledger-sample-enough"' in line
    assert "href" not in claim_line({**full, "source_url": None}, None)
    row = claim_row(full, "It took 8 B.", "8 B")
    assert all(part in row for part in ('<tr id="claim-enough">', "It took 8 B.</p>", "<td>8 B</td>"))
    assert (
        row.index("<summary>Eight bits suffice.</summary>") < row.index(escape(full["quote"])) < row.index("</details>")
    )
    table = claims_table([row, linked_row(full, "8 B")], "claims.html")
    assert (table.count("Eight bits suffice."), table.count('href="claims.html"')) == (2, 1)
    assert 'href="#claim-enough"' in linked_row(full, "")


COUNT, TIME = Counted(3, "ops", "operations"), Measurement("a run", (1.0, 1.1, 0.9, 1.0, 1.05, 0.95), "s")
WIDE = Measurement("a run", (1.0, 3.0, 1.1, 2.9, 1.5, 2.5), "s")


def said(statement: str, source: str, quote: str, address: str | None = None) -> Json:
    """Return the words that a page has for a claim."""
    return {"statement": statement, "source": source, "source_url": address, "quote": quote, "evidence": "It has 3."}


def page_and_words() -> tuple[Page, dict[str, Json]]:
    """Return a page with four claims of two sources, one of which is counted, and what its text says of them."""
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
    return page, words


def claims_of(page: Page, words: dict[str, Json]) -> list[Json]:
    """Return the claims of a page, with the words that its text has for them."""
    return [completed(record, words) for record in page.records if record["kind"] == "claim"]


def ledger_of(page: Page, words: dict[str, Json]) -> BeautifulSoup:
    rows = [Row(each, "It has 3.", "The page", "page.html") for each in claims_of(page, words)]
    return BeautifulSoup(ledger_html(rows), "html.parser")


def made() -> BeautifulSoup:
    return ledger_of(*page_and_words())


def words(tag: Tag) -> str:
    return " ".join(tag.get_text(" ").split())


def test_what_is_counted_stands_apart_and_both_are_summed() -> None:
    measured, counted = made().select("table")
    assert one(counted, "caption").get_text() == "Counted: the same verdict on every machine"
    assert one(measured, "caption").get_text() == "Measured on this machine"
    assert [row["id"] for row in counted.select("tr[id]")] == ["ledger-page-c"]
    assert [words(line) for line in made().select(".ledger-counts")] == [
        "3 claims measured: 1 supported, 1 refuted, 1 open.",
        "1 claim counted: 1 supported.",
    ]


def test_claims_of_one_source_stand_below_it() -> None:
    measured = made().select("table")[0]
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


def test_a_row_shows_what_was_asked_and_where_the_interval_lies() -> None:
    """The claim asks for at least 2 s, and the interval lies at 1 s: left of the range and apart from it."""
    test = one(made(), "#ledger-page-a .claim-test")
    assert "the test asks for at least 2.00 s" in words(test)
    asked, dot = one(test, "rect.asked"), one(test, "circle.found")
    assert float(str(dot["cx"])) < float(str(asked["x"])) < 240 == float(str(asked["x"])) + float(str(asked["width"]))
    allowed, inside = one(made(), "#ledger-page-b rect.asked"), one(made(), "#ledger-page-b circle.found")
    assert float(str(allowed["x"])) == 0 < float(str(inside["cx"])) < float(str(allowed["width"]))


def test_each_of_several_tests_is_drawn_and_words_of_the_evidence_are_not_repeated() -> None:
    page = Page("page")
    page.test("both", TIME, WIDE, below=2)
    full = said("It is.", "X", "is")
    assert len(ledger_of(page, {"both": full}).select(".claim-test svg + span")) == 2
    alone = ledger_of(page, {"both": {**full, "evidence": ""}})
    assert (len(alone.select(".claim-test svg")), alone.select(".claim-test span")) == (2, [])


def test_a_table_without_claims_is_left_out() -> None:
    assert ledger_html([]) == wall_html([], "claims.html") == ""


def test_each_claim_is_a_square_that_leads_to_its_row() -> None:
    wall = BeautifulSoup(wall_html(claims_of(*page_and_words()), "claims.html"), "html.parser")
    assert [words(count) for count in wall.select(".wall-count")] == [
        "3 sentences from courses and papers were tested on this machine. 1 did not hold.",
        "1 more was decided by counting, which gives the same result on every machine. None was refuted.",
    ]
    rows = {f"claims.html#{row['id']}" for row in made().select("tr[id]")}
    squares = wall.select(".wall a")
    assert {square["href"] for square in squares} == rows
    assert [words(square) for square in squares] == [
        "✗ Refuted: A <is>.", "? Open: D is.", "✓ Supported: B is.", "✓ Supported: C is.",
    ]  # fmt: skip
    legends = [(str(link["href"]), words(link)) for link in wall.select(".wall-legend a")]
    assert legends[0] == ("claims.html?verdict=refuted#ledger-measured", "✗ 1 refuted")
    assert legends[-1] == ("claims.html?verdict=supported#ledger-counted", "✓ 1 supported")
