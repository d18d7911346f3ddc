"""Claims: what they hold, and what is refused."""

from typing import Any

import numpy as np
import pytest

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.report import Page
from tinytorch.report.provenance import BY_MORE
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


@pytest.mark.parametrize("wanders", [True, False])
def test_a_claim_left_open_by_a_wider_interval_than_is_shown_says_so(wanders: bool) -> None:
    draw = np.random.default_rng(0)
    noise = draw.normal(0, 0.01, 40)
    times = 1.0 + (np.cumsum(noise) if wanders else noise)
    page = Page("c")
    page.number("time", Measurement("a call", tuple(times.tolist()), "s"))
    made = page.claim(
        "c", statement="It is so.", source="Me", quote="so", verdict=Judgement(Verdict.OPEN), evidence="It took {time}."
    )
    assert made.record.body["evidence"] == (f"It took {{time}}. {BY_MORE}" if wanders else "It took {time}.")
