"""The card that ends a page, what it says of noise, and a report of a mismatch, which holds it."""

import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from measured_book.records.card import card_html, card_text, issue_address, mismatch_html, mismatch_text
from measured_book.sources.repository import Repository
from measured_book.state import PageRecords

from tests.book.small_book import one
from tests.perf.made_blas import load
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring import Counted, Measurement, Unmeasured
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.quantization.tradeoff import accuracy_change, paired_accuracy
from tinytorch.prose import Ends
from tinytorch.report import Page
from tinytorch.report.records import page_file, schema
from tinytorch.report.tables import Column

OPEN = Judgement(Verdict.OPEN)
RUN = Measurement("a <slow> run", (0.5, 0.6, 0.8, 1.0, 1.2, 1.4, 1.5), "s")
SLOW: dict[str, tuple[Ends | None, str]] = {"slow": ((0.1, None), ""), "quick": ((None, 0.1), ""), "open": (None, "")}
CLAIMED: dict[str, tuple[Ends | None, str]] = dict.fromkeys(("supported", "refuted", "open"), (None, ""))


def records_of(page: Page) -> PageRecords:
    return PageRecords(page.name, {record["key"]: record for record in page.records}, 1.5)


def lines_of(page: Page | PageRecords) -> dict[str, str]:
    """Return what each line of the card says, by its name."""
    found = records_of(page) if isinstance(page, Page) else page
    return dict(line.split(": ", 1) for line in card_text(found).splitlines() if ": " in line)


def test_a_difference_that_may_be_nothing_is_no_noise_of_the_times() -> None:
    page = Page("page")
    page.number("latency", RUN)
    lost = paired_accuracy(np.arange(2000) > 20, np.arange(2000) > 19)
    page.number("change", accuracy_change(lost, "share right"))
    # The latency alone.
    assert re.search(r"half-widths of 1 interval: .* in the median, .* at worst \(a", card_text(records_of(page)))


def test_the_widest_interval_in_a_table_has_its_own_name_and_not_the_table_s() -> None:
    page = Page("page")
    page.table("runs", [{"time": RUN}], [Column("time", "Time")], caption="All that there is to say of many runs.")
    assert "at worst (a <slow> run, in the table runs)" in card_text(records_of(page))
    assert "(a &lt;slow&gt; run, in the table <code>runs</code>)" in card_html(records_of(page), [])


def test_threads_that_a_blas_does_not_tell_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    load(monkeypatch, framework=object())
    page = Page("page")
    Draft202012Validator(schema()).validate(page_file("page", page.records))
    assert "BLAS: accelerate, threads not known" in card_text(records_of(page)).splitlines()


def judging(monkeypatch: pytest.MonkeyPatch, others: float) -> Page:
    """Return a page with a number that had half of a core, while others used so many."""
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: others)
    page = Page("page")
    short = replace(RUN, conditions=Conditions(cpu_per_wall=0.5, blas_threads=1))
    page.number("short", short)
    page.decide({"short": short}, "short", SLOW, "bound")
    page.decide({"open": OPEN}, "open", CLAIMED)
    rows: list[dict[str, Any]] = [
        {"name": "it", "time": short, "verdict": "faster"},
        {"name": "other", "time": None, "verdict": "slower"},
        {"name": "third", "time": None, "verdict": Verdict.OPEN},
        {"name": "base", "time": None, "verdict": None},
    ]
    columns = [Column("name", "Name"), Column("time", "Time"), Column("verdict", "Verdict", judged=True)]
    page.table("all", rows, columns, caption="All")
    page.number("other", Unmeasured("It is not here."))
    page.test("d", short, above=0.1)
    return page


def test_verdicts_that_decide_nothing_are_counted_by_what_withholds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines_of(judging(monkeypatch, others=1.0))["Verdicts"] == (
        "6 in all: 1 decided, 2 open, 3 withheld, because other programs were running"
    )
    assert lines_of(judging(monkeypatch, others=0.0))["Verdicts"] == ("6 in all: 4 decided, 2 open")


def test_verdicts_that_were_counted_are_told_apart_and_a_page_without_any_is_silent() -> None:
    page = Page("page")
    assert "Verdicts" not in lines_of(page)
    few: dict[str, tuple[Ends | None, str]] = {"many": ((2, None), ""), "few": ((None, 2), "")}
    page.decide({"total": Counted(3, "ops", "operations")}, "total", few)
    assert lines_of(page)["Verdicts"] == "1 in all: 1 counted, which no measurement can change"
    assert "Claims" not in lines_of(page)
    page.decide({"run": RUN}, "run", SLOW)
    same = compare_paired([1.0, 1.01] * 9, [1.0, 1.01] * 9, matters=0.1)
    page.decide({"same": same}, "same", dict.fromkeys(("faster", "slower", "no difference", "open"), (None, "")))
    assert lines_of(page)["Verdicts"] == (
        "3 in all: 1 decided, 1 with no difference that matters, 1 counted, which no measurement can change"
    )
    page.test("a", Counted(3, "ops", "operations"), at_most=3)
    page.test("b", RUN, below=0.1)
    assert lines_of(page)["Claims"] == "1 counted, with the same verdict on every machine; 1 measured on this machine"


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=200)


GITHUB = Repository("https://github.com/owner/name")


def page() -> PageRecords:
    return records_of(Page("page"))


@given(title=TEXT, text=TEXT)
def test_a_form_receives_title_and_text(title: str, text: str) -> None:
    address = urlsplit(str(issue_address(GITHUB, title, text)))
    assert (address.netloc, address.path) == ("github.com", "/owner/name/issues/new")
    assert parse_qs(address.query, keep_blank_values=True) == {"title": [title], "body": [text]}
    assert issue_address(None, title, text) is None


def test_the_text_holds_the_card() -> None:
    measured = page()
    text = mismatch_text("A title", "page", measured)
    where = measured.provenance
    for words in ("A title (page)", where["machine"]["cpu"], where["package"]["sha256"][:16], where["numpy"], "BLAS: "):
        assert words in text
    assert "<" not in text


def test_a_real_card_fits_into_an_address_and_a_text_too_long_is_left_out() -> None:
    for text, names in ((mismatch_text("A title", "page", page()), {"title", "body"}), ("é" * 5000, {"title"})):
        assert parse_qs(urlsplit(str(issue_address(GITHUB, "title", text))).query).keys() == names


def test_the_page_shows_a_link_or_a_folded_text() -> None:
    linked = BeautifulSoup(mismatch_html(GITHUB, "A title", "page", page()), "html.parser")
    assert str(one(linked, "a")["href"]).startswith("https://github.com/owner/name/issues/new?title=Mismatch")
    folded = BeautifulSoup(mismatch_html(None, "A <b>title</b>", "page", None), "html.parser")
    assert one(folded, "details pre").get_text() == mismatch_text("A <b>title</b>", "page", None)
