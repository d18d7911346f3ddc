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
from tests.report.made_numbers import bounded
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Quoted
from tinytorch.perf.measuring.comparison import Comparison, Quantity, compare_paired, judged
from tinytorch.perf.measuring.conditions import BetweenRuns, Caches, Conditions, Planned, Ranks, of_sides
from tinytorch.perf.measuring.judge import Verdict, verdict_between, verdict_between_all, verdict_of_all
from tinytorch.perf.measuring.values import Value
from tinytorch.report import Page, verdicts
from tinytorch.report.records import Json
from tinytorch.report.verdicts import DECIDED, NO_DIFFERENCE, OUTCOMES, Said, filled_text, verdict_lines

#: Elements of ours that the HTML standard counts as phrasing content.
PHRASING = {"button", "span", "a"}


def record(value: Value | int, unit: str | None = None) -> Json:
    what = "what is counted" if isinstance(value, int) else None
    return Page("page").number("key", value, unit=unit, what=what).record.to_json()


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


def test_what_is_shown_by_its_ends_says_so_and_what_is_read_with_others_at_which_level() -> None:
    wide = record(bounded(1.05, 0.9, 9.0))
    assert one(shown(wide), "button").get_text() == "between 0.9 and 9×"
    assert told(wide)[0] == "95% interval: 0.9 to 9×."
    assert told(bounded(1.2, 1.1, 1.3).together(10))[0] == "99.5% interval: 1.05 to 1.35×."


def test_one_sample_has_no_interval_and_equal_samples_have_one_end() -> None:
    once = Measurement("a run", (0.25,), "s")
    assert told(once)[0] == "Measured: 250 ms in one sample, so there is no interval."
    assert told(bounded(2.5, 2.5, 2.5))[0].endswith(": 2.500×.")


def test_conditions_are_told_once_and_of_a_side_what_it_has_of_its_own() -> None:
    old = Conditions(inner_loops=3, blas_threads=1, between_runs=BetweenRuns(0.021))
    new = Conditions(inner_loops=1, blas_threads=1, page_faults_per_call=2150.4, note="By a kernel.")
    both = replace(of_sides({"old": old, "new": new}), cpu_per_wall=0.9731)
    assert told(Measurement("a run", (1.0, 1.1), "s", both))[3] == (
        "1 thread for BLAS; 0.973 s of CPU time in each second; between runs it differs by 2.10 % (standard "
        "deviation). Old: 3 calls in a sample. New: 1 call in a sample; 2,150 page faults in a call. By a kernel."
    )


def test_of_a_part_of_a_whole_it_is_the_odds_that_vary() -> None:
    conditions = Conditions(part_of="the run's time", between_runs=BetweenRuns(0.05))
    said = told(Measurement("a part", (0.9, 0.91), "%", conditions))[3]
    assert said == "Between runs its odds differ by 5.00 % (standard deviation); a part of the run's time."


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
    ("reached", "ended", "said"),
    [
        (0.028, False, "which takes 40 samples; those taken find one of 2.8 % as often."),
        (None, True, "which takes 40 samples, more than there was time for; those taken find none as often."),
    ],
)
def test_what_was_planned_is_told_with_what_came_of_it(reached: float | None, ended: bool, said: str) -> None:
    plan = Planned(0.03, 0.9, 10, 0.03, 40, 0.01, reached, ended)
    line = told(Measurement("a run", (0.5, 0.6), "s", Conditions(planned=plan)))[3]
    assert line == f"Planned to find a difference of 3 % in 90 % of repeats, {said}"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Measurement("a run", (1, 1.1), "s", Conditions(blas_threads="unknown")), "does not say its number of threads"),
        (Counted(7_372_800, "B", "bytes"), "Counted, not timed: 7,372,800 B."),
        (Modelled.by("Amdahl's law", Measurement("wish", (1.0, 1.1), "s")), "Modelled, not measured, by Amdahl's law"),
        (
            Derived(2, "1", "runs", tuple(Measurement(f"run {at}", (1.0, 2.0), "s") for at in range(5)), "it counts"),
            "Computed from “run 0”, “run 1” and 3 more, without an interval of its own, as it counts: 2.",
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


def lines_of(said: Said) -> list[str]:
    return [line.replace("\u00a0", " ") for line in verdict_lines(verdicts.tested(said))]


def spread(middle: float, unit: str = "") -> Measurement:
    """Return nine samples with an interval of eight hundredths to either side."""
    return bounded(middle, 0.92 * middle, 1.08 * middle, unit, name="it", n=9)


TESTED = "The rule: decided if all of the interval passes the test, or all of it fails; otherwise open."


@pytest.mark.parametrize(
    ("tested", "low", "high", "said"),
    [
        (spread(1.0), 0.5, None, "1.00× (95% interval 0.92 to 1.08×, n = 9); the test asks for at least 0.500×."),
        (spread(0.002, "s"), None, 0.001, "2.00 ms (95% interval 1.84 to 2.16 ms, n = 9); the test asks for at most 1"),
        (spread(1.0), 0.5, 2, "1.00× (95% interval 0.92 to 1.08×, n = 9); the test asks for 0.500× to 2.00×."),
        (spread(0.001, "s"), 0.00102, None, "as its interval holds 1.02 ms; about 144 samples in all would decide it."),
        (Measurement("it", (1.5,), ""), 0.5, None, "it: 1.50×, from one sample; the test asks for at least 0.500×. "),
        (Measurement("it", (1.5,), ""), 0.5, None, "It is open, as one sample tells nothing of how far others lie."),
    ],
)
def test_a_test_says_value_interval_confidence_and_n_and_what_it_asks_for(
    tested: Measurement, low: float | None, high: float | None, said: str
) -> None:
    line, rule = lines_of(verdict_between(tested, low, high))
    assert line.startswith("it: ")
    assert said in line
    assert rule == TESTED


def compared(low: float, high: float, matters: float, quantity: Quantity = Quantity.TIME) -> Comparison:
    middle = (low + high) / 2 if quantity.is_difference else (low * high) ** 0.5
    return judged(bounded(middle, low, high, name="a / b", n=8), ("a", "b"), matters, quantity)


OF_TIMES = "The rule: faster or slower if all of the interval lies on one side of 1"
WITHIN = "no difference if it holds {} and stays within what matters; otherwise open."
MATTERS = f"{OF_TIMES}; {WITHIN.format(1)}"
OF_ANSWERS = f"The rule: better or worse if all of the interval lies on one side of 0; {WITHIN.format(0)}"


@pytest.mark.parametrize(
    ("made", "said", "rule"),
    [
        (
            compared(1.2, 1.4, 0.05),
            "a / b: 1.30× (95% interval 1.20 to 1.40×, n = 8); a difference of 5 % matters here.",
            MATTERS,
        ),
        (
            compared(1.01, 1.2, 0.05),
            "a / b: 1.10× (95% interval 1.01 to 1.20×, n = 8); faster, perhaps by less than the 5 % that matters here.",
            MATTERS,
        ),
        (
            compared(0.9, 1.2, 0),
            "a / b: 1.04× (95% interval 0.90 to 1.20×, n = 8); every difference matters here.",
            f"{OF_TIMES}; otherwise open.",
        ),
        (
            compared(-0.01, 0.003, 0.02, Quantity.ACCURACY),
            "a / b: between −1 and 0.3 points (95% interval, n = 8); a difference of 2 points matters here.",
            OF_ANSWERS,
        ),
        (
            compare_paired([1.1], [1.0], 0.05),
            "baseline / candidate: 1.10×, from one sample; a difference of 5 % matters here.",
            MATTERS,
        ),
    ],
    ids=["decided", "by little", "each difference", "points", "one pair"],
)
def test_a_comparison_says_value_interval_and_n_what_matters_and_the_rule(
    made: Comparison, said: str, rule: str
) -> None:
    assert lines_of(made) == [said, rule]


def test_what_no_interval_decided_says_so() -> None:
    count = Measurement("bytes", (4096.0,), "B")
    assert lines_of(verdict_between(count, high=8192)) == ["This was counted, so no measurement could change it."]
    both = verdict_of_all([verdict_between(count, high=8192), verdict_between(spread(1.0), 0.5)])
    assert lines_of(both)[0] == "bytes: 4,096 B, counted; the test asks for at most 8.00 KiB."
    many = lines_of(verdict_between_all([spread(1.0)] * 5, 0.5))
    assert many[3:] == ["It rests on 2 more tests like these.", TESTED]
    assert lines_of("linear") == ["Code chose this word by that rule."]
    assert lines_of(Verdict.WITHHELD) == []


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
    assert "The warm-up ended before calls stopped getting faster" in tail
    assert "statistic" not in tail
    assert "median of 6 samples" in " ".join(told(latency))


def test_quoted_numbers_are_escaped_and_have_their_source() -> None:
    page = BeautifulSoup(quoted_html("< 3 %", "A & B 2009 <https://example.org/?a=1&b=2>"), "html.parser")
    assert page.get_text() == "< 3 % (A & B 2009)"
    assert one(page, "a")["href"] == "https://example.org/?a=1&b=2"
    assert BeautifulSoup(quoted_html("3 %", "A book"), "html.parser").a is None
