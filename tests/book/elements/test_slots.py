"""The HTML of numbers: what it shows, and that it may stand in a paragraph."""

from dataclasses import fields, replace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from measured_book.elements.slots import (
    Idents,
    Slot,
    detail_lines,
    filled_line,
    line_html,
    number_slot,
    quoted_html,
    verdict_slot,
)

from tests.book.small_book import one
from tests.report.made_measurements import bounded
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Quoted
from tinytorch.perf.measuring.conditions import BetweenRuns, Caches, Conditions, Planned, Ranks
from tinytorch.perf.measuring.values import Value
from tinytorch.report import Page
from tinytorch.report.records import Json
from tinytorch.report.verdicts import DECIDED, NO_DIFFERENCE, OUTCOMES, filled_text, verdict_lines

#: Elements of ours that the HTML standard counts as phrasing content.
PHRASING = {"button", "span", "a"}


def record(value: Value | int, unit: str | None = None) -> Json:
    what = "what is counted" if isinstance(value, int) else None
    return Page("page").number("key", value, unit=unit, what=what).record


def shown(value: Value | Json | int, unit: str | None = None) -> BeautifulSoup:
    """Return what a page shows of a number."""
    made = value if isinstance(value, dict) else record(value, unit)
    return BeautifulSoup(number_slot(made, Idents())["html"], "html.parser")


def told(value: Value | Json) -> list[str]:
    """Return the lines behind a number."""
    lines = detail_lines(value if isinstance(value, dict) else record(value))
    return [line.replace("\u00a0", " ") for line in lines]


@pytest.fixture(scope="module")
def latency() -> Json:
    return record(bounded(1.12e-3, 1.0e-3, 1.3e-3, "s", name="a <run>"))


def test_first_it_says_between_which_ends_a_number_lies_and_what_that_means(latency: Json) -> None:
    assert told(latency) == ["95% interval: 1.00 to 1.30 ms.", "Measured: median of 6 samples.", "What ran: a <run>."]


def test_samples_stand_where_they_lie_around_the_interval_and_far_ones_at_its_edge() -> None:
    made = record(Measurement("a run", (1.0, 1.1, 1.2, 1.3, 90.0), "s"))
    made["interval"] |= {"low": 1.0, "high": 1.4}
    low, value, high, *samples = map(int, str(one(shown(made), "[popover]")["data-samples"]).split())
    assert (low, value, high) == (0, 50, 100)
    assert samples == [0, 25, 50, 75, 300]
    assert not shown(Counted(3, "B", "three")).select("[data-samples]")


def test_what_is_shown_by_its_ends_says_so_and_what_is_read_with_others_at_which_level() -> None:
    wide = record(bounded(1.05, 0.9, 9.0))
    assert one(shown(wide), "button").get_text() == "between 0.9 and 9×"
    assert told(wide)[0] == "95% interval: 0.9 to 9×."
    assert told(bounded(1.2, 1.1, 1.3).together(10))[0] == "99.5% interval: 1.05 to 1.35×."


def test_one_sample_has_no_interval_and_equal_samples_have_one_end() -> None:
    once = Measurement("a run", (0.25,), "s")
    assert told(once)[0] == "Measured: 250 ms in one sample, so there is no interval."
    assert told(bounded(2.5, 2.5, 2.5))[0].endswith(": 2.500×.")


def test_every_condition_is_told() -> None:
    for field in fields(Conditions):
        if field.name in ("sides", "statistic", "turns", "sample", "warmup_steady"):
            continue  # other lines tell these, or nothing is told of the usual case
        value: Any = {
            "between_runs": BetweenRuns(0.1),
            "cores": (1,),
            "interleaved_with": ("other",),
            "instrument": Ranks(ranks=2, oversubscribed=False),
            "planned": Planned(0.03, 0.9, 10, 0.03, 40, 0.01),
            "caches": Caches.COLD,
            "collector_off": True,
        }.get(field.name, 1 if {"int", "float", "BlasThreads"} & set(str(field.type).split(" | ")) else "words")
        made = Measurement("a run", (0.5, 0.6), "%", replace(Conditions(), **{field.name: value}))
        assert len(told(made)) == 4, field.name


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Measurement("a run", (1, 1.1), "s", Conditions(blas_threads="unknown")), "Unknown number of BLAS threads"),
        (Counted(7_372_800, "B", "bytes"), "Counted, not timed: 7,372,800 B."),
        (Modelled.by("Amdahl's law", Measurement("wish", (1.0, 1.1), "s")), "Modelled, not measured, by Amdahl's law"),
        (
            Derived(2, "1", "runs", tuple(Measurement(f"run {at}", (1.0, 2.0), "s") for at in range(5)), "it counts"),
            "Computed from “run 0”, “run 1” and 3 more, without an interval of its own, because it counts: 2.",
        ),
    ],
    ids=["threads", "count", "model", "derived"],
)
def test_behind_a_number_stands_what_it_is(value: Value, said: str) -> None:
    assert said in shown(value).get_text().replace("\u00a0", " ")


def test_a_count_has_a_prefix_and_a_model_is_named_one() -> None:
    assert one(shown(7_372_800, "B"), "button").get_text() == "7.031\u00a0MiB"
    assert "model" in one(shown(Modelled.by("a law", Measurement("wish", (1.0, 1.1), "s"))), "button").get_text()


def test_it_is_phrasing_content_with_ids_of_its_own(latency: Json) -> None:
    idents = Idents()
    html = number_slot(latency, idents)["html"] + number_slot(latency, idents, ("Other & page", "other.html"))["html"]
    page = BeautifulSoup(html, "html.parser")
    assert {tag.name for tag in page.find_all(True)} <= PHRASING
    ids = [str(tag["id"]) for tag in page.find_all(id=True)]
    assert len(ids) == len(set(ids)) == 2
    assert "a <run>" in page.get_text()
    assert "From Other & page." in page.get_text()


def test_without_styles_and_popovers_it_reads_as_sentences(latency: Json) -> None:
    assert all(line.get_text().endswith(".") for line in shown(latency).select(".line"))


def test_a_quoted_number_has_its_source_beside_it_and_in_a_table_behind_it() -> None:
    quoted = Quoted(2.0, "s", "their run", "Someone <https://example.org/paper>")
    page = shown(quoted)
    assert page.get_text() == "2.00\u00a0s (Someone)"
    assert [link["href"] for link in page.select("a")] == ["https://example.org/paper"]
    assert told(quoted) == ["Quoted from Someone: their run."]


def test_what_could_not_be_decided_is_set_apart_from_its_sentence() -> None:
    for outcome in OUTCOMES:
        body = {"word": "a word", "outcome": outcome, "fixed": False, "tests": []}
        slot = verdict_slot({"page": "page", "key": "key", "kind": "verdict", "because": "it is so", **body}, Idents())
        button = one(BeautifulSoup(slot["html"], "html.parser"), "button")
        apart = [] if outcome in (DECIDED, NO_DIFFERENCE) else ["undecided"]
        assert (button.get_text(), button["class"]) == ("a word", ["measured", "verdict", *apart])


@pytest.mark.parametrize(
    ("tested", "asked"),
    [
        (bounded(0.002, 0.0018, 0.0022, "s", name="it", n=9), "at most 1.00 ms"),
        (bounded(0.001, 0.0009, 0.0012, "s", name="it", n=9), "its interval contains 1.00 ms"),
        (Measurement("it", (1.5,), "s"), "from one sample"),
        (Counted(4, "ops", "it"), "This was counted"),
    ],
    ids=["decided", "open", "one sample", "a count"],
)
def test_a_verdict_says_what_was_found_and_asked_for_or_why_it_is_open(tested: Measurement, asked: str) -> None:
    page = Page("page")
    lines = verdict_lines(page.test("key", tested, at_most=0.001).record)
    said = " ".join(lines).replace("\u00a0", " ")
    assert asked in said
    assert (f"n = {tested.n}" in said) == (tested.n > 1)


def seven(_: str) -> Slot:
    return Slot("", record={"kind": "counted"}, text="7", lines=[], html="<b>7</b>")


@pytest.mark.parametrize(
    ("line", "shown", "html"),
    [
        ("so ({key}), and", "7", 'so <span class="keep">(<b>7</b>),</span> and'),
        ("so {key} and", "7", "so <b>7</b> and"),
        ("it is {key}.", "slower " * 5, "it is <b>7</b>."),  # too long for a line of a phone: it holds nothing
    ],
)
def test_punctuation_stays_with_the_number(line: str, shown: str, html: str) -> None:
    assert line_html(filled_line(line, lambda _: Slot("", **{**seven("").attributes, "text": shown}))) == html


@given(st.text(alphabet="ab ().,;!?<&", max_size=12), st.text(alphabet="ab ().,;!?<&", max_size=12))
def test_no_character_is_lost_or_doubled(before: str, after: str) -> None:
    text = f"{before}{{key}}{after}{{key}}"
    html = f"<pre>{line_html(filled_line(text, seven))}</pre>"  # the parser keeps spaces only there
    shown = BeautifulSoup(html, "html.parser").get_text()
    assert shown == f"{before}7{after}7" == filled_text(text, lambda key: "7")


def test_a_number_says_which_statistic_it_is_and_how_it_was_made(latency: Json) -> None:
    calls = Measurement("calls", tuple(float(i) for i in range(1, 401)), "s", Conditions(warmup_steady=False))
    tail = " ".join(told(calls.tail(99)))
    assert "percentile 99 of 400 samples" in tail
    assert "Calls were still becoming faster when the warm-up ended" in tail
    assert "statistic" not in tail
    assert "median of 6 samples" in " ".join(told(latency))


def test_quoted_numbers_are_escaped_and_have_their_source() -> None:
    page = BeautifulSoup(quoted_html("< 3 %", "A & B 2009 <https://example.org/?a=1&b=2>"), "html.parser")
    assert page.get_text() == "< 3 % (A & B 2009)"
    assert one(page, "a")["href"] == "https://example.org/?a=1&b=2"
    assert BeautifulSoup(quoted_html("3 %", "A book"), "html.parser").a is None
