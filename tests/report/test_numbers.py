"""Numbers as they are shown: read back, compared, and at the edges."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.measuring import Measurement
from tinytorch.report.numbers import (
    SCALES,
    Formatted,
    common_scale,
    format_confidence,
    format_interval,
    format_measurement,
    format_number,
    scales_of,
)

UNITS = [*SCALES, "items/s"]
POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
reals = st.floats(min_value=-1e18, max_value=1e18, allow_nan=False).filter(lambda v: v == 0 or abs(v) > 1e-18)
sizes = st.floats(min_value=1e-15, max_value=1e15)


def read(digits: str) -> Decimal:
    """Read digits as a person does: commas group, a true minus, a power of ten behind ×."""
    text = digits.replace(",", "").replace("\u2212", "-")
    mantissa, cross, power = text.partition("\u00a0×\u00a010")
    return Decimal(mantissa).scaleb(int(power.translate(POWERS))) if cross else Decimal(mantissa)


def value_of(shown: Formatted) -> float:
    return float(read(shown.digits)) * shown.scale.factor


def last_place(digits: str) -> Decimal:
    """Return what one step in the last digit that is shown and significant is worth, at most."""
    number = read(digits)
    plain = digits.replace(",", "").split("\u00a0")[0]
    if "\u00a0" in digits or "." in plain:
        decimals = len(plain.partition(".")[2])
        return Decimal(1).scaleb(-decimals + (number.adjusted() if "\u00a0" in digits else 0))
    zeros = len(plain) - len(plain.rstrip("0"))
    return Decimal(1).scaleb(zeros if number else 0)


@given(reals, st.sampled_from(UNITS))
def test_what_is_shown_reads_back_within_its_rounding(value: float, unit: str) -> None:
    shown = format_number(value, unit)
    error = abs(value_of(shown) - value) / shown.scale.factor
    assert error <= float(last_place(shown.digits)) / 2 * (1 + 1e-9) + 1e-9 * abs(value) / shown.scale.factor


@given(reals, sizes, st.sampled_from(UNITS))
def test_with_an_interval_no_digit_is_finer_than_it_justifies(value: float, half: float, unit: str) -> None:
    shown = format_number(value, unit, half_width=half)
    decimals, width = shown.decimals, half / shown.scale.factor
    shown_digits = read(shown.digits)
    significant = decimals + (shown_digits.adjusted() if shown_digits else 0) + 1
    assert significant <= 4 or not shown_digits
    # A place finer than the half-width's own is shown only to reach two digits, and then only one.
    finer = decimals - (-math.floor(math.log10(width)))
    assert finer <= 0 or (finer == 1 and (significant <= 2 or not shown_digits))


@given(st.lists(reals, min_size=2, max_size=2), st.sampled_from(UNITS))
def test_order_is_kept(pair: list[float], unit: str) -> None:
    low, high = sorted(pair)
    shown_low, shown_high = value_of(format_number(low, unit)), value_of(format_number(high, unit))
    assert shown_low <= shown_high * (1 + 1e-12) or shown_low <= shown_high + 1e-12 * abs(shown_high)


@given(reals, st.sampled_from(UNITS), st.none() | sizes)
def test_nothing_is_empty_negative_zero_or_in_programmers_notation(value: float, unit: str, half: float | None) -> None:
    text = format_number(value, unit, half_width=half).text
    assert any(character.isdigit() for character in text)
    assert "e+" not in text
    assert "e-" not in text
    assert not (text.startswith("\u2212") and not any(c in "123456789" for c in text.split("\u00a0")[0]))


@given(st.integers(min_value=-(10**18), max_value=10**18))
def test_whole_counts_are_exact(value: int) -> None:
    assert int(read(format_number(value, "parameters").digits)) == value


@pytest.mark.parametrize(
    ("value", "unit", "half", "expected"),
    [
        (999.6e-6, "s", None, "1.00 ms"),
        (999.4e-6, "s", None, "999 µs"),
        (59.999, "s", None, "1.00 min"),
        (125.0, "s", None, "2.08 min"),
        (0.3e-9, "s", None, "0.300 ns"),
        (1.23456e-3, "s", 0.03e-3, "1.23 ms"),
        (1.23456e-3, "s", 0.3e-3, "1.2 ms"),
        (1.23456e-3, "s", 1e-9, "1.235 ms"),
        (123.4e-9, "s", 50e-9, "120 ns"),
        (-1e-12, "s", 1e-9, "0.0 ns"),
        (2.3456, "", 0.02, "2.35×"),
        (0.7312, "%", 0.004, "73.1 %"),
        (1.0, "%", None, "100 %"),
        (-0.0861, "points", 0.02, "−8.6 points"),
        (1, "points", None, "100 points"),
        (3.3e9, "FLOP/s", None, "3.30 GFLOP/s"),
        (12.3e9, "B/s", None, "12.3 GB/s"),
        (123_456.0, "items/s", None, "123,000 items/s"),
        (3.2e-7, "1", None, "3.20 × 10⁻⁷"),
        (1024.0**2, "B", None, "1.00 MiB"),
        (0.0, "s", None, "0 s"),
    ],
)
def test_examples(value: float, unit: str, half: float | None, expected: str) -> None:
    assert format_number(value, unit, half_width=half).text.replace("\u00a0", " ") == expected


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (524_288, "FLOP", "524,288 FLOP"),
        (7_372_800, "B", "7.031 MiB"),
        (1000, "B", "1,000 B"),
        (-5, "items", "−5 items"),
        (12345, "1", "12,345"),
        (3, "", "3"),
    ],
)
def test_exact_counts(value: int, unit: str, expected: str) -> None:
    assert format_number(value, unit).text.replace("\u00a0", " ") == expected


def test_a_count_can_be_shown_in_prefixes() -> None:
    assert format_number(291_648_307_200, "FLOP", short=True).text == "292\u00a0GFLOP"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        format_number(value, "s")
    with pytest.raises(ValueError, match="half_width"):
        format_number(1.0, "s", half_width=value)


@pytest.mark.parametrize("value", ["1.2", None, True])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="number"):
        format_number(value, "s")  # type: ignore[arg-type]


def test_a_measurement_shows_its_median_with_the_digits_of_its_interval() -> None:
    samples = tuple(1e-3 * (1 + 0.01 * k) for k in range(11))
    shown = format_measurement(Measurement("run", samples, "s"))
    assert shown.text == "1.05\u00a0ms"


def test_one_whole_sample_of_bytes_is_exact_and_one_of_time_is_not() -> None:
    assert format_measurement(Measurement("bytes", (4096.0,), "B")).text == "4,096\u00a0B"
    assert format_measurement(Measurement("run", (2.0,), "s")).text == "2.00\u00a0s"


@given(sizes, sizes)
def test_both_ends_of_an_interval_are_shown_in_one_unit_and_differ(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    shown = format_number((low + high) / 2, "s", half_width=(high - low) / 2)
    first, _, rest = format_interval(low, high, shown).partition(" to ")
    second, _, unit = rest.rpartition("\u00a0")
    assert unit == shown.unit
    assert first != second or (high - low) <= 1e-6 * high
    assert read(first) <= read(second)


def test_a_column_gets_the_unit_of_its_middle() -> None:
    assert common_scale([1e-6, 2e-3, 3e-3, 0.0], "s").symbol == "ms"
    assert common_scale([], "B").symbol in {scale.symbol for scale in scales_of("B")}


def test_a_confidence_below_one_is_never_shown_as_all() -> None:
    shown = [format_confidence(value) for value in (0.95, 0.9609, 0.9969, 0.99937, 1.0)]
    assert shown == ["95%", "96%", "99.7%", "99.9%", "100%"]
    assert format_confidence(1 - 0.05 / 100_000) == "99.9999%"
