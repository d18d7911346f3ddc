"""Numbers as they are shown: read back as a reader does, compared with what is known, and at the edges."""

import math
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.statistics import Stated
from tinytorch.report.numbers import (
    NO_BREAK,
    SCALES,
    common_scale,
    format_confidence,
    format_measurement,
    format_number,
    format_record,
    interval_name,
    measurement_from_record,
    number_body,
    scales_of,
    unbroken,
)

UNITS = [*SCALES, "items/s"]
#: What each sign behind digits stands for.
WORTH = {scale.symbol: Decimal(repr(scale.factor)) for unit in UNITS for scale in scales_of(unit)}
POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
reals = st.floats(min_value=-1e18, max_value=1e18, allow_nan=False).filter(lambda v: v == 0 or abs(v) > 1e-18)
units = st.sampled_from(UNITS)


@st.composite
def bounded(draw: st.DrawFn) -> tuple[float, float, float]:
    """Return a value and the ends of an interval that holds it: as narrow, as wide and as lopsided as any."""
    value = draw(reals)
    size = abs(value) or draw(st.sampled_from([1e-9, 1.0, 1e9]))
    below, above = (draw(st.just(0.0) | st.floats(min_value=-7, max_value=4).map(lambda x: 10.0**x)) for _ in range(2))
    ends = draw(st.sampled_from(["linear", "log", "touching zero"]))
    if ends == "log" and value > 0:
        return value, value / (1 + below), value * (1 + above)
    if ends == "touching zero" and value >= 0:
        return value, 0.0, value + above * size
    return value, value - below * size, value + above * size


def read(digits: str, unit: str = "") -> Decimal:
    """Read digits as a person does: commas group, a true minus, a power of ten behind ×, the unit's worth."""
    text = digits.replace(",", "").replace("\u2212", "-")
    mantissa, cross, power = text.partition("\u00a0×\u00a010")
    number = Decimal(mantissa).scaleb(int(power.translate(POWERS))) if cross else Decimal(mantissa)
    return number * WORTH[unit]


def read_text(text: str) -> tuple[Decimal, ...]:
    """Read a number with its unit from a sentence: one value, or the two ends between which it lies."""
    for unit in sorted(WORTH, key=len, reverse=True):
        if text.endswith(unit):
            digits = text.removesuffix(unit).removesuffix("\u00a0" if unit not in ("", "×") else "")
            return tuple(
                read(part, unit) for part in digits.removeprefix("between ").replace(" to ", " and ").split(" and ")
            )
    raise AssertionError(text)


def exactly(value: float) -> Decimal:
    """Return the number that a float stands for: digits beyond the twelfth are what its arithmetic left."""
    return Decimal(f"{value:.12g}")


def step_of(digits: str, unit: str) -> Decimal:
    """Return what one step in the last digit that is shown and significant is worth, at most."""
    number = read(digits)
    plain = digits.replace(",", "").split("\u00a0")[0]
    if "\u00a0" in digits or "." in plain:
        decimals = len(plain.partition(".")[2])
        return Decimal(1).scaleb(-decimals + (number.adjusted() if "\u00a0" in digits else 0)) * WORTH[unit]
    zeros = len(plain) - len(plain.rstrip("0"))
    return Decimal(1).scaleb(zeros if number else 0) * WORTH[unit]


def holds_four_digits(low: Decimal, high: Decimal, near: Decimal, unit: str) -> bool:
    """Return whether a number of four digits in this unit lies between two."""
    step = Decimal(1).scaleb((near / WORTH[unit]).adjusted() - 3) * WORTH[unit]
    return (high / step).to_integral_value("ROUND_FLOOR") * step >= low


@given(reals, units)
def test_without_an_interval_it_reads_back_within_its_rounding(value: float, unit: str) -> None:
    shown = format_number(value, unit)
    (number,) = read_text(shown.text)
    assert abs(number - exactly(value)) <= step_of(shown.digits, shown.unit) / 2 * Decimal("1.000000001")
    assert (number == 0) == (value == 0)
    assert not shown.text.startswith("\u2212") or number < 0


@given(bounded(), units)
def test_what_is_shown_lies_inside_the_interval(made: tuple[float, float, float], unit: str) -> None:
    """A value lies inside; the two ends that stand for one hold the whole of the interval, and hardly more."""
    value, low, high = made
    shown = format_number(value, unit, ends=(low, high))
    assert bool(shown.digits) == (high - low <= abs(value))
    ends = [(shown.low, low), (shown.high, high)] if low < high else []
    for digits, known in [*ends, *[(shown.digits, value)] * bool(shown.digits)]:
        assert (read(digits) == 0) == (known == 0), digits
    if low < high:
        assert [float(read(digits, shown.unit)) for digits in (shown.low, shown.high)] == list(shown.reads)
    else:
        assert shown.reads[0] <= float(read(shown.digits, shown.unit)) <= shown.reads[1]
    with localcontext(prec=400):
        least, most, number = exactly(low), exactly(high), exactly(value)
        found = read_text(shown.text)
        if len(found) == 2:
            assert found[0] <= least <= number <= most <= found[1]
            assert least - found[0] <= abs(least) / 10
            assert found[1] - most <= abs(most) / 10
        elif holds_four_digits(least, most, max(abs(number), abs(found[0])), shown.unit):
            assert least <= found[0] <= most
        else:
            assert abs(found[0] - number) <= step_of(shown.digits, shown.unit) / 2


@given(bounded(), units)
def test_the_interval_beside_a_value_holds_all_of_it_in_the_value_s_digits(
    made: tuple[float, float, float], unit: str
) -> None:
    value, low, high = made
    shown = format_number(value, unit, ends=(low, high))
    if not shown.digits or low == high:
        return
    with localcontext(prec=400):
        ends = read_text(shown.interval)
        number, step = read(shown.digits, shown.unit), step_of(shown.digits, shown.unit)
        least, most = min(ends), max(ends)
        assert least <= exactly(low)
        assert exactly(high) <= most
        assert least <= number <= most or not holds_four_digits(exactly(low), exactly(high), number, shown.unit)
        if read(shown.low) and step_of(shown.low, shown.unit) >= step:
            assert exactly(low) - least < step * 10
        decimals = {len(digits.partition(".")[2]) for digits in (shown.digits, shown.high)}
        assert len(decimals) == 1 or "\u00a0" in shown.interval + shown.digits


@given(bounded(), units)
def test_no_digit_is_finer_than_a_quarter_of_the_interval_nor_beyond_the_fourth(
    made: tuple[float, float, float], unit: str
) -> None:
    value, low, high = made
    shown = format_number(value, unit, ends=(low, high))
    if not shown.digits or not value:
        return
    with localcontext(prec=400):
        number, width = read(shown.digits, shown.unit), exactly(high) - exactly(low)
        places = (number / WORTH[shown.unit]).adjusted() + 1
        decimals = len(shown.digits.split("\u00a0")[0].partition(".")[2])
        significant = decimals + (1 if "\u00a0" in shown.digits else places)
        assert significant <= 4 or not decimals
        step = step_of(shown.digits, shown.unit)
        # A tenth of it would not do: it is as fine as the interval allows, or as four digits are.
        assert step * 10 > width / 4 or "." not in shown.digits
        assert "." not in shown.digits or step <= width / 4 or significant == 4


samples = st.lists(st.integers(-(10**9), 10**9).map(lambda value: value / 1000), min_size=1, max_size=40)


@given(samples, units, st.none() | st.tuples(*[st.floats(min_value=0.001, max_value=10)] * 2))
def test_a_measurement_its_record_and_what_comes_back_of_it_are_shown_alike(
    values: list[float], unit: str, margins: tuple[float, float] | None
) -> None:
    """The number's text from the notebook, from the page's record and from a measurement made of this is one."""
    made = Measurement("run", tuple(values), unit)
    if margins is not None:
        law = Stated(made.median, made.median - margins[0], made.median + margins[1])
        made = Measurement("run", made.samples, unit, Conditions(statistic="it"), law=law)
    assume(math.isfinite(made.interval.high))  # two samples many powers of ten apart
    shown = format_measurement(made)
    body: dict[str, Any] = {"key": "key", **number_body("key", made)}
    for again in (format_record(body), format_measurement(measurement_from_record(body))):
        assert (shown.text, shown.interval) == (again.text, again.interval)
    read_text(shown.text)


@given(st.integers(min_value=-(10**18), max_value=10**18))
def test_whole_counts_are_exact(value: int) -> None:
    assert int(read(format_number(value, "parameters").digits)) == value


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (999.6e-6, "s", "1.00 ms"),
        (999.4e-6, "s", "999 µs"),
        (59.999, "s", "1.00 min"),
        (125.0, "s", "2.08 min"),
        (0.3e-9, "s", "0.300 ns"),
        (1.0, "%", "100 %"),
        (1, "points", "100 points"),
        (3.3e9, "FLOP/s", "3.30 GFLOP/s"),
        (12.3e9, "B/s", "12.3 GB/s"),
        (123_456.0, "items/s", "123,000 items/s"),
        (3.2e-7, "1", "3.20 × 10⁻⁷"),
        (1024.0**2, "B", "1.00 MiB"),
        (0.0, "s", "0 s"),
        (524_288, "FLOP", "524,288 FLOP"),
        (7_372_800, "B", "7.031 MiB"),
        (1000, "B", "1,000 B"),
        (-5, "items", "−5 items"),
        (12345, "1", "12,345"),
        (3, "", "3"),
    ],
)
def test_examples_without_an_interval(value: float, unit: str, expected: str) -> None:
    assert format_number(value, unit).text.replace("\u00a0", " ") == expected


@pytest.mark.parametrize(
    ("value", "ends", "unit", "prose", "cell"),
    [
        # What was published as 0×, 0× and 0 %.
        (2.93, (0.0029, 1308.0), "", "between 0.0029 and 1,400×", "0.0029 to 1,400"),
        (1.29, (0.9, 1.8), "", "1.3×", "1.3 (0.9 to 1.8)"),
        (0.43, (0.22, 0.61), "%", "43 %", "43 (22 to 61)"),
        (1.29, (0.9, 9.0), "", "between 0.9 and 9×", "0.9 to 9"),
        (0.0, (-0.002, 0.0031), "points", "between −0.2 and 0.31 points", "−0.2 to 0.31"),
        (-0.0861, (-0.1, -0.07), "points", "−8.6 points", "−8.6 (−10.0 to −7.0)"),
        (0.0, (0.0, 1.25e-5), "s", "between 0 and 13 µs", "0 to 13"),
        (1.0, (0.01, 1.005), "", "1.0×", "1.0 (0.01 to 1.1)"),
        # Noise of five leaves no tenth.
        (124.4e-6, (119e-6, 129e-6), "s", "124 µs", "124 (119 to 129)"),
        (124.4e-6, (123.9e-6, 124.9e-6), "s", "124.4 µs", "124.4 (123.9 to 124.9)"),
        (1.23456e-3, (1.23455e-3, 1.23457e-3), "s", "1.235 ms", "1.235 (1.234 to 1.235)"),
        (0.001, (0.972 - 0.97 - 0.0015, 0.972 - 0.971), "points", "0.10 points", "0.10 (0.05 to 0.10)"),
        # The nearest, 1.2, lies below.
        (1.24, (1.21, 1.9), "", "1.3×", "1.3 (1.2 to 1.9)"),
        (999.96e-6, (990e-6, 1005e-6), "s", "1.000 ms", "1.000 (0.990 to 1.005)"),
        (550e-6, (200e-6, 1360e-6), "s", "between 0.2 and 1.4 ms", "0.2 to 1.4"),
        (2.5, (2.5, 2.5), "", "2.500×", "2.500"),
        # A value that its interval misses is not left out.
        (1.0, (1.1, 1.4), "", "1.0×", "1.0 (1.0 to 1.4)"),
        (0.1, (0.2, 0.3), "", "between 0.1 and 0.3×", "0.1 to 0.3"),
    ],
)
def test_examples_with_an_interval(value: float, ends: tuple[float, float], unit: str, prose: str, cell: str) -> None:
    shown = format_number(value, unit, ends=ends)
    assert shown.text.replace("\u00a0", " ") == prose
    assert f"{shown.cell} {shown.beside}".strip() == cell


@pytest.mark.parametrize(
    ("value", "ends", "error", "word"),
    [
        *[(value, None, ValueError, "finite") for value in (math.nan, math.inf, -math.inf)],
        *[(1.0, (0.0, value), ValueError, "finite") for value in (math.nan, math.inf)],
        (1.0, (2.0, 1.0), ValueError, "low end"),
        *[(value, None, TypeError, "number") for value in ("1.2", None, True)],
    ],
)
def test_what_is_no_finite_number_or_interval_is_refused(
    value: Any, ends: tuple[float, float] | None, error: type[Exception], word: str
) -> None:
    with pytest.raises(error, match=word):
        format_number(value, "s", ends=ends)


@pytest.mark.parametrize(
    ("made", "text", "interval"),
    [
        (Measurement("bytes", (4096.0,), "B"), "4,096\u00a0B", ""),
        (Measurement("run", (2.0,), "s"), "2.00\u00a0s", ""),
        (Measurement("a share", (2.0,), "", law=Stated(2.0, 1.8, 2.2)), "2.0×", "1.8 to 2.2×"),
    ],
)
def test_one_sample_is_exact_if_it_is_of_bytes_and_has_no_interval(made: Measurement, text: str, interval: str) -> None:
    assert (format_measurement(made).text, format_measurement(made).interval) == (text, interval)


def test_a_column_s_scale_is_kept_by_each_form() -> None:
    millis = SCALES["s"][2]
    wide, narrow = (0.2e-6, 3e-6), (0.9e-6, 1.1e-6)
    shown = [format_number(1e-6, "s", ends=ends, scale=millis) for ends in (wide, narrow)]
    assert [one.cell for one in shown] == ["0.0002 to 0.003", "0.00100"]
    assert shown[1].beside == "(0.00090 to 0.00110)"


def test_a_column_gets_the_unit_of_its_middle() -> None:
    assert common_scale([1e-6, 2e-3, 3e-3, 0.0], "s").symbol == "ms"
    assert common_scale([], "B").symbol in {scale.symbol for scale in scales_of("B")}


def test_a_confidence_below_one_is_never_shown_as_all() -> None:
    shown = [format_confidence(value) for value in (0.95, 0.9609, 0.9969, 0.99937, 1.0)]
    assert shown == ["95%", "96%", "99.6%", "99.9%", "100%"]
    assert format_confidence(1 - 0.05 / 100_000) == "99.9999%"
    assert interval_name(0.95) == "95% interval"


@pytest.mark.parametrize(
    ("typed", "held"),
    [
        ("keeps 95 % of it in 5 ms, 2 GB/s.", "keeps 95_% of it in 5_ms, 2_GB/s."),
        ("3 models, 4 sides, 7 B2, a % of 5", "3 models, 4 sides, 7 B2, a % of 5"),
    ],
)
def test_a_typed_number_stays_on_the_line_of_its_unit(typed: str, held: str) -> None:
    assert unbroken(typed) == held.replace("_", NO_BREAK)
