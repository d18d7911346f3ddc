"""Reading of pages: each fault on a page that has it and nothing else, beside sentences that are right."""

from __future__ import annotations

from typing import Any

import pytest
from broken_pages import page_html
from hypothesis import given
from hypothesis import strategies as st
from measured_book.pages.reading import problems, unequal_products
from measured_book.records.html import Idents, absent_html, number_html, verdict_html
from measured_book.state import LEFT_OUT

from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.report import Column, Page
from tinytorch.report.records import Json

TIMED = Measurement("a run", (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3, 1.12e-3), "s")


def made_records() -> dict[str, Json]:
    page = Page("page")
    for key in ("one", "two", "three"):
        page.number(key, Measurement(f"run {key}", TIMED.samples, "s"))
    page.number("nothing", 0, unit="bytes", what="what is left")
    page.number("techniques", 3, unit="techniques", what="techniques that won")
    page.word("bound", "memory-bound", because="a run takes {one}")
    page.word("same", "equal to rounding", because="they differ by {nothing}")
    page.word("long", "These seeds cannot tell which is better", because="they differ by {nothing}")
    page.word("told", "slower. By far", because="they differ by {nothing}")
    page.word("open", Verdict.OPEN, because="a run takes {one}")
    page.absent("other", "other-too", reason="The other engine is not here.")
    page.word("missing", Verdict.OPEN, because="they differ by {nothing}", numbers=["other"])
    return {f"page:{record.key}": record.to_json() for record in page.records}


RECORDS = made_records() | {
    "page:elsewhere": {"page": "page", "key": "elsewhere", "kind": "absent", "reason": LEFT_OUT},
}


def slot(key: str, **changed: Any) -> str:
    record = RECORDS[f"page:{key}"] | changed
    if record["kind"] == "absent":
        return absent_html(record, IDENTS)
    return verdict_html(record, "so", IDENTS) if record["kind"] == "verdict" else number_html(record, IDENTS)


IDENTS = Idents()


def found_in(text: str, element: str = "p") -> list[str]:
    """Return what is wrong with a line in which ``[key]`` is the slot of a record."""
    for key in RECORDS:
        name = key.removeprefix("page:")
        text = text.replace(f"[{name}]", slot(name)) if f"[{name}]" in text else text
    return problems(page_html(f"<main><h1>Page</h1><{element}>{text}</{element}></main>"), RECORDS.get)


@pytest.mark.parametrize(
    "text",
    [
        "It takes [one] and then [two].",
        "It takes [one], [one] or [one]; [two] is another.",
        "First it takes [one]. Then it takes [two], and at last [three].",
        "It takes [one] and [two], [bound], and it is [same].",
        "I know that that is so, and all that he had had.",
        "The code says <code>the the</code>, the formula <math><mi>n</mi><mi>n</mi></math> n.",
        "A well-known <b>known</b> one.",
        "[techniques] win.",
        "Nothing is left: [nothing].",
        "What bounds it: [bound].",
        "[bound]",
        "It is fast ([bound]), [bound], and [one].",
        "The verdict on the first is [bound] for one, [bound] for two.",
        "Against the other it takes [one], [bound], so that it stays.",
        "The results are [same] everywhere.",
        "[long]: they differ by [nothing].",
        "Its time: [other].",
        "It is [other].",
        "[other]",
        "What another build measures is [elsewhere] here.",
        "It took 5.0 ± 2.5 ms.",
        "It took 1,300 ± 5 ms.",
        "It changed by −5 ± 0.1 points.",
    ],
)
def test_sentences_that_read_well_are_left_alone(text: str) -> None:
    assert found_in(text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("In the the end.", "'the' stands twice: “In the the end.”"),
        ("It is a <b>a</b> word.", "'a' stands twice"),
        ("Is\nis it?", "'Is' stands twice"),
        (
            "[techniques] techniques win somewhere.",
            "'techniques' stands twice: “3 techniques techniques win somewhere.”",
        ),
        ("It took [other] the time.", "what was not measured leaves a hole: “It took not measured in this build the"),
        ("Its time: [other], and so on.", "leaves a hole"),
        ("It is [bound].", "perhaps nothing' cannot stand in the place of 'memory-bound': “It is memory-bound.”"),
        ("It is [open].", "'up to 16 % faster, perhaps nothing' cannot stand in the place of 'open'"),
        ("It is [missing].", "cannot stand in the place of 'open'"),
        ("Most goes to [bound], 3 %.", "cannot stand in the place of 'memory-bound'"),
        ("The test, [bound] than that.", "cannot stand in the place of 'memory-bound'"),
        ("It is [long], because so.", "'These seeds cannot tell which is better' is a sentence within a sentence"),
        ("It: [bound] The next one.", "behind 'memory-bound' a sentence begins within a sentence"),
        ("It took 5.0 ± 2.6 ms.", "the interval is wider than the value"),
        ("It took 0.9 µs ± 0.6.", "the interval is wider than the value"),
        ("It changed by −1.1 ± 1.4 points.", "the interval is wider than the value"),
        ("It takes [one], [two] and [three].", "3 measured numbers in a sentence, at most 2: “It takes 1."),
        ("It takes [one]: then [two]; then [techniques].", "3 measured numbers in a sentence"),
        ("It takes [one], e.g. [two] and [three].", "3 measured numbers in a sentence"),
        ("It takes [one], as Han et al. say, [two] and [three].", "3 measured numbers in a sentence"),
        ("It is [told], because so.", "'slower. By far' is a sentence within a sentence"),
    ],
)
def test_each_fault_is_told_with_its_sentence(text: str, said: str) -> None:
    [problem] = found_in(text)
    assert said in problem


def test_the_place_of_a_word_is_judged_and_not_the_word_that_a_build_shows() -> None:
    for frame, is_right in (("What it is: {}.", True), ("It is {}.", False)):
        for key in ("bound", "open"):
            assert (found_in(frame.format(f"[{key}]")) == []) is is_right


@pytest.mark.parametrize("element", ["li", "figcaption", "blockquote", "dd"])
def test_all_prose_is_read(element: str) -> None:
    assert len(found_in("It takes [one], [two] and [three].", element)) == 1


def test_the_answer_of_a_question_and_the_evidence_of_a_claim_are_prose() -> None:
    sentence = f"It takes {slot('one')}, {slot('two')} and {slot('three')}."
    for body in (
        f'<details class="hide fold predict-answer"><summary>The answer</summary><div>{sentence}</div></details>',
        f'<div class="claim"><p class="claim-evidence">{sentence}</p></div>',
    ):
        assert len(problems(body, RECORDS.get)) == 1
    listed = f'<p class="claim-numbers">Rests on: {slot("one")}, {slot("two")}, {slot("three")}.</p>'
    assert problems(listed, RECORDS.get) == []


def test_cells_hold_many_numbers_and_words_but_none_twice() -> None:
    cells = (
        f"<table><tr><td>{slot('one')} {slot('two')} {slot('three')} {slot('bound')} and</td><td>and</td></tr></table>"
    )
    assert problems(cells, RECORDS.get) == []
    [said] = problems("<table><tr><td>a day day</td></tr></table>", RECORDS.get)
    assert "'day' stands twice" in said


def test_words_for_drawings_and_pop_overs_are_read() -> None:
    drawing = "<figure><svg><desc>A bar bar.</desc><text>1</text><text>1</text></svg></figure>"
    behind = slot("one").replace("a run", "a run run").replace("run one", "one one run")
    for html in (drawing, f"<p>{behind}</p>"):
        [said] = problems(html, RECORDS.get)
        assert "stands twice" in said


@pytest.mark.parametrize(
    ("cell", "is_wrong"),
    [
        ('<td data-value="0.0">0</td>', False),
        ('<td data-value="2.93">0×</td>', True),
        ('<td data-value="-0.0047">0 <span class="spread">(−11 to 5)</span></td>', True),
        ('<td data-value="2.93">2.93 <span class="spread">(0 to 5)</span></td>', False),
        ('<td data-value="2.93">0 to 3</td>', False),
        ('<td data-value="5e-13">5.0 × 10⁻¹³</td>', False),
    ],
)
def test_a_cell_that_is_not_zero_does_not_say_so(cell: str, is_wrong: bool) -> None:
    assert (
        any("is shown as zero" in said for said in problems(f"<table><tr>{cell}</tr></table>", RECORDS.get)) is is_wrong
    )


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_slot_that_shows_zero_is_zero(value: float) -> None:
    record = RECORDS["page:one"] | {"value": value, "interval": None}
    html = '<p>It took <button class="measured" data-key="page:one"><span class="value">0.00</span> ms</button>.</p>'
    said = problems(html, {"page:one": record}.get)
    assert said == ([] if value == 0 else [f"{value!r} is shown as zero: “It took 0.00 ms.”"])


def table(factors: list[tuple[float, float] | None], totals: list[tuple[float, float] | None]) -> Json:
    """Return a table of factors with these intervals, and of their totals."""

    def number(ends: tuple[float, float] | None) -> Statistic | None:
        if ends is None:
            return None
        conditions = Conditions(statistic="median")
        return Statistic("x", ends, "", conditions, value=sum(ends) / 2, bounds=Interval(*ends, 0.95))

    rows = [
        {"step": f"step {index}", "gain": number(factor), "all": number(total)}
        for index, (factor, total) in enumerate(zip(factors, totals, strict=True))
    ]
    columns = [Column("step", "Step"), Column("gain", "Gain", total="all"), Column("all", "All")]
    return Page("page").table("steps", rows, columns, caption="Steps").record.to_json()


def test_factors_multiply_to_their_total_as_far_as_intervals_tell() -> None:
    steps = [None, (1.9, 2.1), (1.4, 1.6), (0.5, 0.6)]
    assert list(unequal_products(table(steps, [None, (1.9, 2.1), (2.7, 3.3), None]))) == []
    assert list(unequal_products(table(steps, [None, (2.1, 2.2), (3.3, 3.6), None]))) == []
    [said] = unequal_products(table(steps, [None, (1.9, 2.1), (3.5, 3.6), None]))
    assert said == ("factors of table 'steps' multiply to 2.66 to 3.36 in the row 'step 2', their total is 3.5 to 3.6")
    [below] = unequal_products(table(steps, [None, None, (1.4, 1.6), (0.4, 0.45)]))
    assert "'step 3'" in below


def test_a_table_without_factors_is_not_multiplied() -> None:
    made = table([(1.9, 2.1)], [(5.0, 6.0)])
    del made["columns"][1]["total"]
    assert list(unequal_products(made)) == []
    assert list(unequal_products(RECORDS["page:one"])) == []
