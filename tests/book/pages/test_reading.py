"""Reading of pages: each fault on a page that has it and nothing else, beside sentences that are right."""

import re

import pytest
from docutils import nodes
from measured_book.elements.exhibits import Caption, Exhibit
from measured_book.elements.nodes import Written, raw_html
from measured_book.elements.slots import Idents, Slot, absent_slot, number_slot, verdict_slot
from measured_book.pages.reading import problems
from measured_book.state import LEFT_OUT

from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.judge import verdict_between
from tinytorch.report import Page
from tinytorch.report.records import Json
from tinytorch.report.tables import Cell, Column, Laid

TIMED = Measurement("a run", (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3, 1.12e-3), "s")


def made_records() -> dict[str, Json]:
    page = Page("page")
    for key in ("one", "two"):
        page.number(key, Measurement(f"run {key}", TIMED.samples, "s"))
    page.number("nothing", 0, unit="bytes", what="what is left")
    page.number("techniques", 3, unit="techniques", what="techniques that won")
    page.fill({"bound": "memory-bound", "judged": verdict_between(TIMED, high=1.0)}, "bound", "judged")
    for key in ("other", "other-too"):
        page.number(key, Unmeasured("The other engine is not here."))
    return {f"page:{record['key']}": record for record in page.records}


RECORDS = made_records() | {
    "page:elsewhere": {"page": "page", "key": "elsewhere", "kind": "absent", "reason": LEFT_OUT}
}


def slot(key: str) -> Slot:
    record = RECORDS[f"page:{key}"]
    if record["kind"] == "absent":
        return absent_slot(record, Idents())
    return verdict_slot(record, Idents()) if record["kind"] == "verdict" else number_slot(record, Idents())


def line(text: str) -> nodes.paragraph:
    """Return a paragraph in which ``[key]`` is the slot of a record, `` `this` `` code, and ``*this*`` emphasized."""
    made = nodes.paragraph()
    for part in re.split(r"(\[[a-z-]+\]|`[^`]*`|\*[^*]*\*)", text):
        if part[:1] == "[":
            made += slot(part[1:-1])
        elif part[:1] in ("`", "*"):
            made += (nodes.literal if part[0] == "`" else nodes.emphasis)("", part[1:-1])
        else:
            made += nodes.Text(part)
    return made


def said_of(*body: nodes.Node) -> list[str]:
    return list(problems(nodes.section("", nodes.title("", "Page"), *body)))


def found_in(text: str) -> list[str]:
    return said_of(line(text))


@pytest.mark.parametrize(
    "text",
    [
        "It takes [one], [two] and [techniques], which is [bound].",
        "I know that that is so, and all that he had had.",
        "The code says `the the`, the name `n` n.",
        "A well-known *known* one.",
        "[techniques] win.",
        "Its time: [other].",
        "It is [other].",
        "It is so. It is [other].",
        "[other]",
        "What another build measures is [elsewhere] here.",
    ],
)
def test_sentences_that_read_well_are_left_alone(text: str) -> None:
    assert found_in(text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("In the the end.", "'the' stands twice: “In the the end.”"),
        ("It is a *a* word.", "'a' stands twice"),
        ("Is\nis it?", "'Is' stands twice"),
        ("[techniques] techniques win.", "'techniques' stands twice: “3 techniques techniques win.”"),
        ("It is [judged].", "'supported' may be open elsewhere: write an {outcome} with a text for each"),
        ("It took [other] the time.", "what was not measured leaves a hole: “It took not measured in this build the"),
        ("Its time: [other], and so on.", "leaves a hole"),
    ],
)
def test_each_fault_is_told_with_its_sentence(text: str, said: str) -> None:
    [problem] = found_in(text)
    assert said in problem


def test_all_prose_but_code_is_read_and_a_cell_of_a_table_may_hold_what_was_not_measured() -> None:
    text = "It took [other] the time."
    item = nodes.bullet_list("", nodes.list_item("", line(text)))
    for node in (item, nodes.block_quote("", line(text)), nodes.definition("", line(text))):
        [said] = said_of(node)
        assert "leaves a hole" in said
    row = nodes.row("", nodes.entry("", line("[one] [other] than")))
    assert said_of(nodes.table("", nodes.tgroup("", nodes.tbody("", row)))) == []
    assert said_of(nodes.literal_block("", "the the"), nodes.math_block("", "x x"), nodes.comment("", "a a")) == []


def test_what_code_wrote_is_read_by_the_lines_that_it_says() -> None:
    evidence = line("It took [other] the time.")
    said = said_of(Written("", nodes.paragraph("", "So so."), evidence, html="<p>a a</p>"), raw_html("<p>b b</p>"))
    assert [each.partition(" ")[0] for each in said] == ["'So'", "what"]


def test_words_for_figures_and_what_stands_behind_numbers_are_read() -> None:
    figure = Exhibit("", Caption("", "A line line."), kind="figure", key="it", alt="A bar bar.")
    assert [each.partition(" ")[0] for each in said_of(figure)] == ["'bar'", "'line'"]
    behind = slot("one")
    behind["lines"] = ["What ran: a run run."]
    [said] = said_of(nodes.paragraph("", "", behind))
    assert "'run' stands twice" in said


def test_cells_of_tables_are_read() -> None:
    column = Laid(Column("time", "Time"), numeric=True, unit="", cells=(Cell("a day day", "", value=None),))
    record = {"key": "it", "caption": "Times."}
    [said] = said_of(Exhibit("", kind="table", key="it", record=record, laid=[column]))
    assert "'day' stands twice" in said


def test_a_fault_is_told_once_where_it_stands_first() -> None:
    first, again = line("In the the end."), line("In the the end.")
    [(_, place)] = problems(nodes.section("", first, again)).items()
    assert place is first
