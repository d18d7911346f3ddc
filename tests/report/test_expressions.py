"""Values of expressions in a page's text, and the outcomes that choose one of its sentences."""

from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

from tinytorch.perf.measuring import Counted, Measurement, Unmeasured
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.judge import Judgement, Verdict, decided, verdict_between, verdict_of_all
from tinytorch.prose import Ends
from tinytorch.report import Page
from tinytorch.report.expressions import ExpressionError, evaluate, outcome_of, rests_on, verdict_body
from tinytorch.report.kinds import of_kind

NEAR = Measurement("near", (1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99), "s")
FAR = Measurement("far", (10.0, 10.1, 9.9, 10.2, 9.8, 10.0, 10.1, 9.9), "s")
WAITS = SimpleNamespace(near=NEAR, far=FAR)


class Led(Enum):
    """A choice that code makes."""

    ALL = "all the way"
    NOWHERE = "nowhere"


def namespace() -> dict[str, Any]:
    """Return the names of a page."""
    return {"waits": WAITS, "rows": [Counted(3, "B", "three")], "table": {"a": FAR, "b": NEAR}}


def test_an_expression_has_its_value() -> None:
    assert evaluate("waits.near", namespace()) is NEAR
    assert evaluate('table["a"]', namespace()) is FAR


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("waitz.near", "there is no 'waitz' on this page: did you mean 'waits'"),
        ("waits.neer", "SimpleNamespace has no 'neer': did you mean 'near'"),
        ('table["c"]', "there is no key 'c'"),
        ("len(rows)", "must be a name, an attribute, an index, or one operation on these"),
        ("rows[3]", "list index out of range"),
        ("waits.", "is no expression"),
    ],
)
def test_an_expression_without_a_value_says_why(expression: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(").replace("[", r"\[")):
        evaluate(expression, namespace())


def compared(candidate: float, matters: float = 0.1) -> Comparison:
    """Return the comparison of 1 s with a time that hardly varies."""
    noise = (1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 1.001, 0.999, 1.0, 1.001)
    return compare_paired(list(noise), [candidate * one for one in reversed(noise)], matters=matters)


TEXTS: dict[str, Ends | None] = {"faster": None, "slower": None, "no difference": None, "open": None}
ENDS: dict[str, Ends | None] = {"much": (2.0, None), "little": (None, 2.0), "open": None}
CLAIM: dict[str, Ends | None] = {"supported": None, "refuted": None, "open": None}


@pytest.mark.parametrize(
    ("value", "texts", "outcome"),
    [
        (compared(0.5), TEXTS, "faster"),
        (compared(2.0), TEXTS, "slower"),
        (compared(1.0), TEXTS, "no difference"),
        (FAR, ENDS, "much"),
        (NEAR, ENDS, "little"),
        (Measurement("wide", (1.0, 3.0, 1.1, 2.9, 1.5, 2.5), "s"), ENDS, "open"),
        (Counted(3, "B", "three"), {"much": (2.0, None), "little": (None, 2.0)}, "much"),
        (verdict_between(FAR, low=2), CLAIM, "supported"),
        (decided(False), {"supported": None, "refuted": None}, "refuted"),
        (Judgement(Verdict.WITHHELD), CLAIM, "withheld"),
        (True, {"yes": None, "no": None}, "yes"),
        (Led.NOWHERE, {"all the way": None, "nowhere": None}, "nowhere"),
        ("memory-bound", {"memory bound": None}, "memory bound"),
        (Unmeasured("no second core"), TEXTS, "unmeasured"),
        (WAITS, {"measured": None}, "measured"),
        (Unmeasured("no second core"), {"measured": None}, "unmeasured"),
    ],
)
def test_a_value_has_the_outcome_that_its_interval_decides(
    value: object, texts: dict[str, Ends | None], outcome: str
) -> None:
    assert outcome_of("x", value, texts).outcome == outcome


@pytest.mark.parametrize(
    ("value", "texts", "said"),
    [
        (
            compared(0.5),
            {"faster": None, "slower": None, "open": None},
            "'x' can be 'no difference', and the page has no",
        ),
        (
            compared(0.5),
            {**TEXTS, "fastest": None},
            "'x' can never be 'fastest', for which the page has a text: did you mean",
        ),
        (FAR, {"much": (2.0, None), "little": (None, 2.0)}, "'x' can be 'open'"),
        (Led.ALL, {"all the way": None}, "'x' can be 'nowhere'"),
        (True, {"yes": None}, "'x' can be 'no'"),
        ("eight bits", {"four bits": None}, "'x' can be 'eight bits'"),
        (FAR, {"faster": None}, "'x' is of type Measurement, which has no outcomes"),
    ],
)
def test_an_outcome_without_a_text_is_an_error(value: object, texts: dict[str, Ends | None], said: str) -> None:
    with pytest.raises(ExpressionError, match=said):
        outcome_of("x", value, texts)


def records(page: Page) -> dict[str, dict[str, Any]]:
    """Return what a page recorded, by its names."""
    return {record["key"]: record for record in page.records}


def test_a_page_records_what_its_text_names_once() -> None:
    page = Page("sample")
    page.fill(namespace(), "waits.near | a load nearby", "rows[0]", "waits.far")
    page.fill(namespace(), "waits.near")
    made = records(page)
    assert {*made} == {"provenance", "waits-near", "rows-0", "waits-far"}
    assert (made["waits-near"]["what"], made["waits-near"]["expression"]) == ("a load nearby", "waits.near")


def test_one_fault_hides_no_other_number(capsys: pytest.CaptureFixture[str]) -> None:
    page = Page("sample")
    page.fill(namespace(), "waits.neer", "waits.near")
    assert "waits-near" in records(page)
    assert "did you mean 'near'" in capsys.readouterr().out


def test_a_text_may_show_what_is_measured_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    page = Page("sample")
    page.fill({}, "waits.near", "other.near")
    assert "waits-near" not in records(page)
    page.fill(namespace())
    assert "waits-near" in records(page)
    said = capsys.readouterr().out
    assert "there is no 'other' on this page" in said
    assert "waits" not in said


def test_a_name_that_changed_its_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    page = Page("sample")
    page.fill({"x": NEAR}, "x")
    page.fill({"x": FAR}, "x")
    assert "'x' had another value further up" in capsys.readouterr().out


def test_a_page_records_and_prints_the_text_of_an_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    page = Page("sample")
    texts: dict[str, tuple[Ends | None, str]] = {
        "much": ((2.0, None), "It is much."),
        "little": ((None, 2.0), "It is little."),
        "open": (None, "Nobody knows."),
    }
    page.decide(namespace(), "waits.far", texts)
    made = records(page)["waits-far-outcome"]
    assert (made["text"], made["word"], made["outcome"]) == ("much", "much", "decided")
    assert made["texts"] == ["much", "little", "open"]
    assert "It is much." in capsys.readouterr().out


def test_texts_of_other_ends_need_a_name_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    page = Page("sample")
    for end in (2.0, 3.0):
        page.decide(
            namespace(), "waits.far", {"much": ((end, None), ""), "little": ((None, end), ""), "open": (None, "")}
        )
    assert "'waits.far' is used further up: write :name:" in capsys.readouterr().out


def test_a_name_that_code_chose_is_no_verdict() -> None:
    page = Page("sample")
    page.fill({"name": "eight bits"}, "name")
    page.decide({"holds": True}, "holds", {"yes": (None, ""), "no": (None, "")})
    page.decide({"far": FAR}, "far", {"much": ((2.0, None), ""), "little": ((None, 2.0), ""), "open": (None, "")})
    found = [said["key"] for record in page.records for said in of_kind(record).verdicts()]
    assert found == ["far-outcome"]


def test_what_was_not_measured_is_absent() -> None:
    page = Page("sample")
    page.fill({"x": Unmeasured("no second core")}, "x")
    page.decide({"x": Unmeasured("no second core")}, "x", {"faster": (None, "")})
    assert {record["kind"] for key, record in records(page).items() if key != "provenance"} == {"absent"}


def test_other_programs_withhold_no_text_that_only_asks_what_was_measured() -> None:
    assert rests_on("measured", FAR) == []
    assert rests_on("much", FAR) == [FAR.conditions]


def test_the_reason_of_a_verdict_names_each_value_once() -> None:
    three, four, other = Counted(3, "B", "one"), Counted(4, "B", "one"), Counted(5, "B", "another")
    body = verdict_body(verdict_of_all([verdict_between(each, 1) for each in (three, four, other)]), "")
    assert body["because"] == "one is 3\u00a0B and 4\u00a0B, and another is 5\u00a0B"
    assert verdict_body(verdict_between(NEAR, 1.0), "")["because"].endswith(", and its interval contains 1.00\u00a0s")
