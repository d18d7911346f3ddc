"""The HTML of numbers: what it shows, and that it may stand in a paragraph."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from measured_book.records.html import (
    Idents,
    detail_lines,
    filled_html,
    kept_together,
    number_html,
    quoted_html,
    verdict_html,
)

from tests.report.made_numbers import bounded
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.judge import CANNOT_TELL
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
    return record(bounded(1.12e-3, 1.0e-3, 1.3e-3, "s", name="a <run>"))


def test_what_is_not_known_of_the_conditions_is_said_so() -> None:
    samples = (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3)
    made = record(Measurement("a run", samples, "s", {"blas_threads": None, "pinned": False}))
    assert any("BLAS threads: not known; pinned: no" in line for line in detail_lines(made))


def test_first_it_says_between_which_ends_a_number_lies_and_what_that_means(latency: Json) -> None:
    lines = [line.replace("\u00a0", " ") for line in detail_lines(latency)]
    assert lines == [
        "It lies between 1.00 and 1.30 ms; of 100 intervals made like this one, 97 are right.",
        "Measured: median of 6 samples.",
        "What ran: a <run>.",
    ]


@pytest.mark.parametrize(
    ("confidence", "said"),
    [
        (0.5, "of 100 intervals made like this one, 50 are right"),
        (0.95, "of 100 intervals made like this one, 95 are right"),
        (0.9609, "of 100 intervals made like this one, 96 are right"),
        (0.9899, "of 100 intervals made like this one, 98 are right"),
        (0.9969, "of 1,000 intervals made like this one, 996 are right"),
        (0.99937, "of 10,000 intervals made like this one, 9,993 are right"),
    ],
)
def test_how_often_intervals_are_right_is_never_more_than_is_recorded(
    latency: Json, confidence: float, said: str
) -> None:
    made = {**latency, "interval": {**latency["interval"], "confidence": confidence}}
    assert said in detail_lines(made)[0]


def test_an_interval_that_is_rarely_right_is_not_said_to_hold_the_number(latency: Json) -> None:
    made = {**latency, "interval": {**latency["interval"], "confidence": 0.32}}
    assert detail_lines(made)[0].replace("\u00a0", " ") == (
        "It may lie between 1.00 and 1.30 ms, or elsewhere: the samples are too few, or too much alike, to tell; "
        "of 100 intervals made like this one, 32 are right."
    )


@given(confidence=st.floats(min_value=0.001, max_value=1 - 1e-9))
def test_what_is_said_of_the_confidence_is_true(latency: Json, confidence: float) -> None:
    made = {**latency, "interval": {"low": 1.0, "high": 1.1, "confidence": confidence}}
    of, right = (int(part.replace(",", "")) for part in re.findall(r"[\d,]+(?= intervals| are)", detail_lines(made)[0]))
    assert right < of
    assert 0 <= confidence - right / of + 1e-9 <= 1 / of + 1e-9


def test_what_is_shown_by_its_ends_and_what_is_not_resolved_say_so() -> None:
    wide = record(bounded(1.05, 0.9, 9.0))
    assert BeautifulSoup(number_html(wide, Idents()), "html.parser").button.get_text() == "between 0.9 and 9×"  # type: ignore[union-attr]
    assert detail_lines(wide)[0].startswith("It lies between 0.9 and 9×; of 100")
    unknown = {**wide, "interval": None}
    button = BeautifulSoup(number_html(unknown, Idents()), "html.parser").button
    assert button is not None
    assert button.get_text() == "not resolved"
    assert button.get_attribute_list("class") == ["measured", "unresolved"]
    assert detail_lines(unknown)[0] == "Not resolved: the samples do not tell between which ends it lies."
    assert detail_lines(unknown)[1] == "Measured: median of 6 samples."


def test_one_sample_has_no_interval_and_equal_samples_have_one_end() -> None:
    once = record(Measurement("a run", (0.25,), "s"))
    assert detail_lines(once)[0] == "Measured: 250\u00a0ms in one sample, so there is no interval."
    alike = record(bounded(2.5, 2.5, 2.5))
    assert detail_lines(alike)[0].startswith("It lies at 2.500×; of 100")


def test_conditions_of_both_sides_and_between_repeats_are_readable() -> None:
    how = {
        "cpu_per_wall": 0.9731,
        "working_set_bytes": 134_217_728,
        "minor_page_faults_per_call": {"NumPy": 0.0, "kernel": 2150.4},
        "sides": {"NumPy": {"inner_loops": 3, "between_repeats": 0.021}, "kernel": {"inner_loops": 1}},
        "between_repeats": 0.0123,
    }
    (said,) = detail_lines(record(Measurement("a run", (1.0, 1.1), "s", how)))[3:]
    assert said.replace("\u00a0", " ") == (
        "CPU time over wall time: 0.9731; working set bytes: 134,217,728; page faults in a call: NumPy 0, "
        "kernel 2,150; sides: NumPy (calls in a sample 3, varies between repeats by 2.10 % (standard deviation)), "
        "kernel (calls in a sample 1); varies between repeats by: 1.23 % (standard deviation)."
    )


def test_of_a_part_of_a_whole_it_is_the_odds_that_vary() -> None:
    how = {"part_of": "the run's time", "between_repeats": 0.05}
    (said,) = detail_lines(record(Measurement("a part", (0.9, 0.91), "%", how)))[3:]
    assert "; its odds vary between repeats by: 5.00\u00a0% (standard deviation)." in said
    assert said.startswith("Part of: the run's time;")


def test_an_exact_count_says_its_digits_behind_its_prefix() -> None:
    count = record(7_372_800, "B")
    page = BeautifulSoup(number_html(count, Idents()), "html.parser")
    assert page.button.get_text() == "7.031\u00a0MiB"  # type: ignore[union-attr]
    assert "Counted, not timed: 7,372,800\u00a0B." in page.get_text()


def test_it_is_phrasing_content_with_ids_of_its_own(latency: Json) -> None:
    idents = Idents()
    html = number_html(latency, idents) + number_html(latency, idents, ("Other & page", "other.html"))
    page = BeautifulSoup(html, "html.parser")
    assert {tag.name for tag in page.find_all(True)} <= PHRASING
    ids = [str(tag["id"]) for tag in page.find_all(id=True)]
    assert len(ids) == len(set(ids)) == 2
    assert "a <run>" in page.get_text()
    assert "From Other & page." in page.get_text()


def test_without_styles_and_popovers_it_reads_as_sentences(latency: Json) -> None:
    page = BeautifulSoup(number_html(latency, Idents()), "html.parser")
    lines = [line.get_text() for line in page.select(".line")]
    assert all(line.endswith(".") for line in lines)


def test_a_modelled_number_says_so_in_words() -> None:
    html = number_html(record(Measurement("wish", (1.0, 1.1, 1.2, 1.3, 1.4, 1.5), "s"), modelled=True), Idents())
    page = BeautifulSoup(html, "html.parser")
    assert "model" in page.button.get_text()  # type: ignore[union-attr]
    assert "Modelled, not measured" in page.get_text()


def test_what_could_not_be_decided_is_set_apart_from_its_sentence() -> None:
    for word, classes in (("faster", ["measured", "verdict"]), (CANNOT_TELL, ["measured", "verdict", "undecided"])):
        button = BeautifulSoup(
            verdict_html({"page": "page", "key": "key", "kind": "verdict", "word": word}, "it is so", Idents()),
            "html.parser",
        ).button
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
    assert "Steady after it: yes" in tail
    assert "statistic" not in tail
    assert "median of 6 samples" in " ".join(detail_lines(latency))


def test_quoted_numbers_are_escaped_and_have_their_source() -> None:
    page = BeautifulSoup(quoted_html("< 3 %", "A & B 2009 <https://example.org/?a=1&b=2>"), "html.parser")
    assert page.get_text() == "< 3 % (A & B 2009)"
    assert page.a["href"] == "https://example.org/?a=1&b=2"  # type: ignore[index]
    assert BeautifulSoup(quoted_html("3 %", "A book"), "html.parser").a is None
