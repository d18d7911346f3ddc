"""Claims and verdicts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import CANNOT_TELL
from tinytorch.report.claims import (
    REFUTED,
    SUPPORTED,
    Claim,
    placeholders,
    split_at_placeholders,
    verdict_between,
    verdict_of_all,
)

MEASURED = Measurement("ratio", tuple(2 + 0.1 * k for k in range(-5, 6)), "")


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.0, 3.0, SUPPORTED),
        (None, 3.0, SUPPORTED),
        (1.0, None, SUPPORTED),
        (3.0, None, REFUTED),
        (None, 1.0, REFUTED),
        (4.0, 5.0, REFUTED),
        (2.0, None, CANNOT_TELL),
        (None, 2.0, CANNOT_TELL),
        (1.99, 2.01, CANNOT_TELL),
    ],
)
def test_the_whole_interval_decides(low: float | None, high: float | None, verdict: str) -> None:
    assert verdict_between(MEASURED, low, high) == verdict


def test_one_timed_sample_decides_nothing_but_a_count_does() -> None:
    assert verdict_between(Measurement("once", (0.5,), "s"), low=0.1) == CANNOT_TELL
    assert verdict_between(Measurement("bytes", (1024.0,), "B"), low=1024, high=1024) == SUPPORTED


@given(st.lists(st.floats(0.1, 10), min_size=6, max_size=12), st.floats(0.05, 12))
def test_a_claim_and_its_opposite_are_never_both_supported(samples: list[float], bound: float) -> None:
    measurement = Measurement("m", tuple(samples), "s")
    above, below = verdict_between(measurement, low=bound), verdict_between(measurement, high=bound)
    exact = measurement.interval.low == measurement.interval.high == bound
    assert (above, below) != (SUPPORTED, SUPPORTED) or exact
    assert (above, below) != (REFUTED, REFUTED)
    assert (above == REFUTED) <= (below == SUPPORTED)


def test_bounds_are_needed_and_in_order() -> None:
    with pytest.raises(ValueError, match="low or high"):
        verdict_between(MEASURED)
    with pytest.raises(ValueError, match="must not be above"):
        verdict_between(MEASURED, 3, 1)


def test_a_claim_gathers_its_numbers() -> None:
    claim = Claim("c", "It is so.", "Someone", SUPPORTED, "It took {a}, not {other:b}.", ("c", "a"))
    assert claim.body()["numbers"] == ["c", "a", "other:b"]


@pytest.mark.parametrize("field", ["statement", "source", "evidence"])
def test_a_claim_has_no_empty_part(field: str) -> None:
    parts = {"statement": "It is so.", "source": "Someone", "evidence": "It took {a}."} | {field: "  "}
    with pytest.raises(ValueError, match=f"{field} of 'c'"):
        Claim("c", parts["statement"], parts["source"], SUPPORTED, parts["evidence"])


def test_a_claim_has_one_of_three_verdicts_and_a_real_address() -> None:
    with pytest.raises(ValueError, match="verdict of 'c'"):
        Claim("c", "It is so.", "Someone", "probably", "It took {a}.")
    with pytest.raises(ValueError, match="source_url"):
        Claim("c", "It is so.", "Someone", SUPPORTED, "It took {a}.", source_url="javascript:alert(1)")


def test_text_is_split_at_its_numbers() -> None:
    assert split_at_placeholders("It took {a}.") == [("It took ", "a"), (".", None)]
    assert split_at_placeholders("{a}{b:c}") == [("", "a"), ("", "b:c"), ("", None)]
    assert placeholders("no numbers", "k") == []


@pytest.mark.parametrize("text", ["{", "}", "{a", "{A b}", "{}", "{{a}}", "{a:.2f}"])
def test_braces_hold_keys_only(text: str) -> None:
    with pytest.raises(ValueError, match="braces"):
        placeholders(text, "key")


def test_a_claim_of_parts_is_refuted_by_one_and_supported_by_all() -> None:
    assert verdict_of_all([SUPPORTED, REFUTED, CANNOT_TELL]) == REFUTED
    assert verdict_of_all([SUPPORTED, CANNOT_TELL]) == CANNOT_TELL
    assert verdict_of_all([SUPPORTED, SUPPORTED]) == SUPPORTED
    assert verdict_of_all([]) == CANNOT_TELL, "where nothing was judged"
    with pytest.raises(ValueError, match="not faster"):
        verdict_of_all([SUPPORTED, "faster"])
