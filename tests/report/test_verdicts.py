"""Claims: what they hold, and what is refused."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.report.made_numbers import bounded
from tinytorch.perf.measuring import Counted, Measurement
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between
from tinytorch.report import Page
from tinytorch.report.records import page_file, schema
from tinytorch.report.verdicts import Claim, placeholders, split_at_placeholders

SUPPORTED = Judgement(Verdict.SUPPORTED)


def test_a_claim_gathers_its_numbers() -> None:
    claim = Claim("c", "It is so.", "Someone", "so it is", SUPPORTED, "It took {a}, not {other:b}.", ("c", "a"))
    assert claim.body()["numbers"] == ["c", "a", "other:b"]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *[(field, "  ") for field in ("statement", "source", "quote", "evidence")],
        ("verdict", Judgement(Verdict.FASTER)),
        ("source_url", "javascript:alert(1)"),
    ],
)
def test_a_claim_has_no_empty_part_one_of_its_verdicts_and_a_real_address(field: str, wrong: Any) -> None:
    parts: dict[str, Any] = {"statement": "It is so.", "source": "Someone", "quote": "so", "evidence": "It took {a}."}
    with pytest.raises(ValueError, match=f"{field} of 'c'"):
        Claim(key="c", **parts | {"verdict": SUPPORTED, field: wrong})


def test_text_is_split_at_its_numbers() -> None:
    assert split_at_placeholders("{a}, {b:c}.") == [("", "a"), (", ", "b:c"), (".", None)]
    assert placeholders("no numbers", "k") == []


@pytest.mark.parametrize("text", ["{", "}", "{a", "{A b}", "{}", "{{a}}", "{a:.2f}"])
def test_braces_hold_keys_only(text: str) -> None:
    with pytest.raises(ValueError, match="braces"):
        placeholders(text, "key")


@pytest.mark.parametrize(
    ("measured", "interval", "more"),
    [
        (bounded(1.0, 0.9, 1.2), (0.9, 1.2, 0.95), {}),
        (Measurement("a run", (1.5,), "s"), None, {}),
        (Counted(4096, "B", "weights"), (4096, 4096, 0.95), {"counted": True}),
    ],
)
def test_a_record_keeps_the_interval_of_each_test_of_a_single_sample_none_and_of_a_count_that_it_is_one(
    measured: Measurement, interval: tuple[float, float, float] | None, more: dict[str, bool]
) -> None:
    page = Page("p")
    page.number("it", measured)
    (made,) = page.word("w", verdict_between(measured, low=0.5), because="it is {it}").record.body["tests"]
    assert (made["interval"] and tuple(made["interval"].values())) == (interval and pytest.approx(interval))
    assert {name: value for name, value in made.items() if name == "counted"} == more
    Draft202012Validator(schema()).validate(page_file("p", page.records))
