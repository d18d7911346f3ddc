"""The HTML of numbers: what it shows, and that it may stand in a paragraph."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from measured_book.records.html import (
    OPTIONS,
    Idents,
    ShowError,
    detail_lines,
    filled_html,
    kept_together,
    number_html,
    quoted_html,
    shown_value,
    verdict_html,
)

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import CANNOT_TELL
from tinytorch.report import Page
from tinytorch.report.claims import filled_text
from tinytorch.report.records import Json

#: Elements of ours that the HTML standard counts as phrasing content.
PHRASING = {"button", "span", "a"}


def record(value: Measurement | int, unit: str | None = None, modelled: bool = False) -> Json:
    what = None if isinstance(value, Measurement) else "what is counted"
    return Page("page").number("key", value, unit=unit, what=what, modelled=modelled).record.to_json()


@pytest.fixture(scope="module")
def latency() -> Json:
    return record(Measurement("a <run>", (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3), "s"))


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("", "1.1 ms"),
        ("low", "1.0 ms"),
        ("high", "1.3 ms"),
        ("interval", "1.0 to 1.3 ms"),
        ("n", "6"),
        ("bare", "1.1"),
        ("short", "1.1 ms"),
    ],
)
def test_options(latency: Json, option: str, expected: str) -> None:
    assert shown_value(latency, option).text.replace("\u00a0", " ") == expected
    assert option in OPTIONS


def test_what_is_not_known_of_the_conditions_is_said_so() -> None:
    samples = (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3)
    made = record(Measurement("a run", samples, "s", {"blas_threads": None, "pinned": False}))
    assert any("BLAS threads: not known; pinned: no" in line for line in detail_lines(made))


def test_an_exact_count_can_be_short() -> None:
    count = record(291_648_307_200, "FLOP")
    assert shown_value(count).text == "291,648,307,200\u00a0FLOP"
    assert shown_value(count, "short").text == "292\u00a0GFLOP"
    assert "291,648,307,200" in number_html(count, "short", Idents())


def test_what_an_exact_number_does_not_have_is_refused() -> None:
    count = record(3, "ops")
    for option in ("low", "high", "interval"):
        with pytest.raises(ShowError, match="no interval"):
            shown_value(count, option)
    with pytest.raises(ShowError, match="the options are"):
        shown_value(count, "pretty")


def test_it_is_phrasing_content_with_ids_of_its_own(latency: Json) -> None:
    idents = Idents()
    html = number_html(latency, "", idents) + number_html(latency, "", idents, ("Other & page", "other.html"))
    page = BeautifulSoup(html, "html.parser")
    assert {tag.name for tag in page.find_all(True)} <= PHRASING
    ids = [str(tag["id"]) for tag in page.find_all(id=True)]
    assert len(ids) == len(set(ids)) == 2
    assert "a <run>" in page.get_text()
    assert "From Other & page." in page.get_text()


def test_without_styles_and_popovers_it_reads_as_sentences(latency: Json) -> None:
    page = BeautifulSoup(number_html(latency, "", Idents()), "html.parser")
    lines = [line.get_text() for line in page.select(".line")]
    assert all(line.endswith(".") for line in lines)


def test_a_modelled_number_says_so_in_words() -> None:
    html = number_html(record(Measurement("wish", (1.0, 1.1, 1.2, 1.3, 1.4, 1.5), "s"), modelled=True), "", Idents())
    page = BeautifulSoup(html, "html.parser")
    assert "model" in page.button.get_text()  # type: ignore[union-attr]
    assert "Modelled, not measured" in page.get_text()


def test_what_could_not_be_decided_is_set_apart_from_its_sentence() -> None:
    for word, classes in (("faster", ["measured", "verdict"]), (CANNOT_TELL, ["measured", "verdict", "undecided"])):
        button = BeautifulSoup(verdict_html({"word": word}, "it is so", Idents()), "html.parser").button
        assert button is not None
        assert (button.get_text(), button.get_attribute_list("class")) == (word, classes)


def test_punctuation_stays_with_the_number() -> None:
    before, held, after = kept_together("so (", "<b>1</b>", "), and")
    assert (before, after) == ("so ", " and")
    assert held == '<span class="keep">(<b>1</b>),</span>'
    assert kept_together("so ", "<b>1</b>", " and") == ("so ", "<b>1</b>", " and")


@given(st.text(alphabet="ab ().,;!?<&", max_size=12), st.text(alphabet="ab ().,;!?<&", max_size=12))
def test_no_character_is_lost_or_doubled(before: str, after: str) -> None:
    text = f"{before}{{key}}{after}{{key}}"
    html = f"<pre>{filled_html(text, lambda key: '<b>7</b>')}</pre>"  # the parser keeps spaces only there
    shown = BeautifulSoup(html, "html.parser").get_text()
    assert shown == f"{before}7{after}7" == filled_text(text, lambda key: "7")


def test_a_number_says_which_statistic_it_is_and_how_it_was_made(latency: Json) -> None:
    calls = Measurement("calls", tuple(float(i) for i in range(1, 401)), "s", {"warmup_steady": True})
    tail = " ".join(detail_lines(record(calls.tail(99))))
    assert "percentile 99 of 400 samples" in tail
    assert "steady after it: yes" in tail
    assert "statistic" not in tail
    assert "median of 6 samples" in " ".join(detail_lines(latency))


def test_quoted_numbers_are_escaped_and_have_their_source() -> None:
    page = BeautifulSoup(quoted_html("< 3 %", "A & B 2009 <https://example.org/?a=1&b=2>"), "html.parser")
    assert page.get_text() == "< 3 % (A & B 2009)"
    assert page.a["href"] == "https://example.org/?a=1&b=2"  # type: ignore[index]
    assert BeautifulSoup(quoted_html("3 %", "A book"), "html.parser").a is None
