"""Numbers as a page keeps them, and as they are shown: with the digits that their interval allows, in a fitting unit.

1. A number whose interval is no wider than its size is shown as one value. The last digit is worth at most a quarter
   of the interval's width, and what is shown lies inside the interval; four digits are the most.
2. A number whose interval is wider than its size is shown by the two ends, ``between 0.9 and 9×``.
3. The ends of an interval are rounded outwards: beside a value to its last digit, alone to two digits.
4. Without an interval (one sample, a model) three digits are shown. A whole number that was counted is exact.
5. Only zero is shown as zero.
6. The unit is the largest of which at least 1 is shown: 999.6 µs is 1.00 ms. ``"%"`` is the unit of a fraction of
   one, ``"points"`` that of the difference of two such fractions, both shown times 100; ``""`` is a ratio, shown with
   ×; ``"1"`` is a bare number. Bytes are shown exactly below 10 KiB, else in four digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any, TypeGuard

import numpy as np

from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Quoted
from tinytorch.perf.measuring.codec import from_json, measured, to_json
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.measuring.values import Value, as_measurement, is_clocked
from tinytorch.report.records import NUMBER_KINDS, Json, checked_text

NO_BREAK = "\u00a0"
MINUS = "\u2212"
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
#: Wide enough for every float beside every other: 1e308 shown with the decimals of 1e-308.
_WIDE = Context(prec=1000)
_MOST_DIGITS = 4
_DIGITS_WITHOUT_INTERVAL = 3
_DIGITS_OF_ENDS_ALONE = 2
#: Exact byte counts below this many bytes are shown as they are.
_EXACT_BYTES_BELOW = 10 * 1024


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit to show a quantity in: ``factor`` base units make one ``symbol``."""

    factor: float
    symbol: str


_DECIMAL_STEPS = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))


def _decimal_scales(unit: str) -> tuple[Scale, ...]:
    return tuple(Scale(factor, prefix + unit) for factor, prefix in _DECIMAL_STEPS)


#: Units of a fraction of one, whose whole numbers are no counts.
FRACTIONS = frozenset({"%", "points"})
#: The scales of each unit that has prefixes, from small to large.
SCALES: dict[str, tuple[Scale, ...]] = {
    "s": (Scale(1e-9, "ns"), Scale(1e-6, "µs"), Scale(1e-3, "ms"), Scale(1.0, "s"), Scale(60.0, "min")),
    "B": tuple(Scale(1024.0**power, name) for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))),
    "B/s": _decimal_scales("B/s"),
    "FLOP": _decimal_scales("FLOP"),
    "FLOP/s": _decimal_scales("FLOP/s"),
    "OP/s": _decimal_scales("OP/s"),
    "MAC": _decimal_scales("MAC"),
    "Hz": _decimal_scales("Hz"),
    "%": (Scale(0.01, "%"),),
    "points": (Scale(0.01, "points"),),
    "": (Scale(1.0, "×"),),
    "1": (Scale(1.0, ""),),
}


@dataclass(frozen=True, slots=True)
class Formatted:
    """A number as it is shown, in parts, so that a page can set the unit lighter and a table leave it to the header.

    Attributes:
        digits: the value in digits; where there is no single value to show, empty.
        unit: behind the digits; empty where there is none.
        scale: the scale that the digits are in.
        low, high: digits of the ends of its interval; empty without one.
        reads: the least and the largest number, in base units, that read as what is shown: the ends of the interval,
            else half a step of the last digit to each side.
    """

    digits: str
    unit: str
    scale: Scale
    low: str = ""
    high: str = ""
    reads: tuple[float, float] = (math.nan, math.nan)

    @property
    def prose(self) -> str:
        """The number in the middle of a sentence, without its unit."""
        return self.digits or f"between {self.low} and {self.high}"

    @property
    def cell(self) -> str:
        """The number in a table, without its unit."""
        return self.digits or self.ends

    @property
    def ends(self) -> str:
        """The ends of its interval, ``0.9 to 1.8``, without the unit; empty without an interval."""
        return self.low if self.low == self.high else f"{self.low} to {self.high}"

    @property
    def beside(self) -> str:
        """What stands behind the value in a table: ``(0.9 to 1.8)``; empty where there is nothing to add."""
        return f"({self.ends})" if self.digits and self.low != self.high else ""

    @property
    def joiner(self) -> str:
        """What stands between digits and unit: nothing before ×, a no-break space before the others."""
        return "" if self.unit in ("", "×") else NO_BREAK

    def with_unit(self, digits: str) -> str:
        """Return ``digits``, one of the above, with the number's unit."""
        return f"{digits}{self.joiner}{self.unit}"

    @property
    def cell_text(self) -> str:
        """The number in a table, with its unit."""
        return self.with_unit(self.cell)

    @property
    def cell_with_interval(self) -> str:
        """The number in a table, with its unit and what stands behind it: ``1.3 ms (0.9 to 1.8)``."""
        return f"{self.cell_text} {self.beside}".rstrip()

    @property
    def text(self) -> str:
        """The number in the middle of a sentence, with its unit."""
        return self.with_unit(self.prose)

    @property
    def interval(self) -> str:
        """The ends of its interval with the unit, ``0.9 to 1.8 ms``; empty without an interval."""
        return self.with_unit(self.ends) if self.low else ""

    def __str__(self) -> str:
        return self.text


_SYMBOLS = sorted({scale.symbol for scales in SCALES.values() for scale in scales if scale.symbol}, key=len)
_TYPED = re.compile(rf"(?<=\d) (?=(?:{'|'.join(map(re.escape, reversed(_SYMBOLS)))})(?!\w))")


def unbroken(text: str) -> str:
    """Return typed text in which no line ends between a number and its unit."""
    return _TYPED.sub(NO_BREAK, text)


def scales_of(unit: str) -> tuple[Scale, ...]:
    """Return the scales in which ``unit`` may be shown, from small to large."""
    return SCALES.get(unit, (Scale(1.0, unit),))


def _checked_number(value: float, name: str) -> float | int:
    """Return ``value`` as a plain int or float, or raise on what is not a finite number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if isinstance(value, int | np.integer):
        return int(value)
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {value!r}: a page cannot show it")
    return float(value)


def _scaled(value: float, scale: Scale) -> Decimal:
    # A float stands for a number of twelve digits: 0.1 + 0.2 is three tenths.
    return _WIDE.divide(Decimal(f"{value:.12g}"), Decimal(repr(scale.factor)))


def _in_base_units(low: Decimal, high: Decimal, scale: Scale) -> tuple[float, float]:
    factor = Decimal(repr(scale.factor))
    return float(_WIDE.multiply(low, factor)), float(_WIDE.multiply(high, factor))


def _rounded(value: Decimal, place: int, rounding: str = ROUND_HALF_EVEN) -> Decimal:
    """Return the value with its last digit at 10**place."""
    return value.quantize(Decimal(1).scaleb(place), rounding, _WIDE)


def _written(value: Decimal, place: int) -> str:
    """Return ``value`` with comma groups and a true minus; as a power of ten if it is very small or large."""
    if value and not Decimal("1e-4") <= abs(value) < Decimal("1e15"):
        power = value.adjusted()
        mantissa = _written(value.scaleb(-power), place - power)
        return f"{mantissa}{NO_BREAK}×{NO_BREAK}10{str(power).translate(_SUPERSCRIPTS)}"
    text = f"{abs(value):,.{max(-place, 0)}f}"
    return MINUS + text if value < 0 else text


def _end(value: Decimal, place: int, rounding: str) -> tuple[Decimal, int]:
    """Return the end of an interval rounded outwards, and its last place; a finer one where it would become zero."""
    end = _rounded(value, place, rounding)
    return (end, place) if end or not value else (_rounded(value, value.adjusted(), rounding), value.adjusted())


def _end_alone(value: Decimal, rounding: str) -> tuple[Decimal, int]:
    """Return the end of an interval that stands alone, rounded outwards to two digits, and its last place."""
    if not value:
        return Decimal(0), 0
    place = value.adjusted() - _DIGITS_OF_ENDS_ALONE + 1
    end = _rounded(value, place, rounding)
    return end, place if _WIDE.remainder(end, Decimal(1).scaleb(place + 1)) else place + 1


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A value and the ends of its interval in one scale, exactly."""

    value: Decimal
    ends: tuple[Decimal, Decimal] | None

    @classmethod
    def of(cls, value: float, ends: tuple[float, float] | None, scale: Scale) -> _Scaled:
        return cls(_scaled(value, scale), None if ends is None else (_scaled(ends[0], scale), _scaled(ends[1], scale)))

    def rounded(self, digits: int) -> tuple[Decimal, int]:
        """Return the value as it is shown and its last place, ``digits`` without an interval."""
        value, place = self._at(self._place(self.value, digits))
        settled = self._place(value, digits)  # rounding may carry into a new digit
        return self._at(settled) if settled > place else (value, place)

    def _place(self, value: Decimal, digits: int) -> int:
        magnitude = value.adjusted() if value else 0
        if self.ends is None:
            return magnitude - digits + 1 if value else 0
        width = _WIDE.subtract(self.ends[1], self.ends[0])
        finest = magnitude - _MOST_DIGITS + 1 if value else 0
        return max(_WIDE.divide(width, Decimal(4)).adjusted(), finest) if width else finest

    def _at(self, place: int) -> tuple[Decimal, int]:
        """Return the nearest number with this last place that lies inside the interval; the nearest if none does."""
        nearest = _rounded(self.value, place)
        if self.ends is None:
            return nearest, place
        low, high = self.ends
        near = (nearest, *(_rounded(self.value, place, rounding) for rounding in (ROUND_FLOOR, ROUND_CEILING)))
        return next((one for one in near if low <= one <= high), nearest), place


def _fitting_scale(value: float, unit: str) -> int:
    scales = scales_of(unit)
    fitting = [index for index, scale in enumerate(scales) if abs(value) >= scale.factor]
    if value == 0:
        return next(index for index, scale in enumerate(scales) if scale.factor == 1.0 or len(scales) == 1)
    return fitting[-1] if fitting else 0


def _one_value(
    value: float, unit: str, ends: tuple[float, float] | None, scale: Scale | None, digits: int
) -> Formatted:
    if scale is None:
        scales = scales_of(unit)
        index = _fitting_scale(value, unit)
        if index + 1 < len(scales) and abs(_Scaled.of(value, ends, scales[index + 1]).rounded(digits)[0]) >= 1:
            index += 1  # rounding carries it over: 999.6 µs is 1.00 ms
        scale = scales[index]
    scaled = _Scaled.of(value, ends, scale)
    rounded, place = scaled.rounded(digits)
    written, half = _written(rounded, place), Decimal(5).scaleb(place - 1)
    if scaled.ends is None or scaled.ends[0] == scaled.ends[1]:
        end = "" if scaled.ends is None else written
        around = _in_base_units(_WIDE.subtract(rounded, half), _WIDE.add(rounded, half), scale)
        return Formatted(written, scale.symbol, scale, end, end, around)
    low, high = _end(scaled.ends[0], place, ROUND_FLOOR), _end(scaled.ends[1], place, ROUND_CEILING)
    reads = _in_base_units(low[0], high[0], scale)
    return Formatted(written, scale.symbol, scale, _written(*low), _written(*high), reads)


def _two_ends(ends: tuple[float, float], unit: str, scale: Scale | None) -> Formatted:
    if scale is None:
        scale = scales_of(unit)[_fitting_scale(max(ends, key=abs), unit)]
    low = _end_alone(_scaled(ends[0], scale), ROUND_FLOOR)
    high = _end_alone(_scaled(ends[1], scale), ROUND_CEILING)
    return Formatted("", scale.symbol, scale, _written(*low), _written(*high), _in_base_units(low[0], high[0], scale))


def format_number(
    value: float, unit: str = "", *, ends: tuple[float, float] | None = None, scale: Scale | None = None
) -> Formatted:
    """Return ``value`` (in ``unit``) as this module's rules show it.

    Args:
        value: an int is taken as exact, a float as approximate.
        unit: base unit: ``"s"``, ``"B"``, ``"FLOP"``, ``"FLOP/s"``, ``"B/s"``, ``"%"``, ``"points"``, ``""``,
            ``"1"``, or any word.
        ends: low and high end of its interval, in ``unit``; None where there is none.
        scale: the scale to show it in (a table's column); None to choose one.

    Raises:
        TypeError: if ``value`` or an end is not a number.
        ValueError: if one of them is not finite, or the low end is above the high one.
    """
    number = _checked_number(value, "value")
    if ends is None:
        if isinstance(number, float) or scale is not None or unit in FRACTIONS:
            return _one_value(number, unit, None, scale, _DIGITS_WITHOUT_INTERVAL)
        if unit == "B" and abs(number) >= _EXACT_BYTES_BELOW:
            return _one_value(number, unit, None, None, _MOST_DIGITS)
        symbol = "" if unit in ("", "1") else unit
        return Formatted(
            f"{number:,}".replace("-", MINUS), symbol, Scale(1.0, symbol), reads=(number - 0.5, number + 0.5)
        )
    low, high = (float(_checked_number(end, "an end")) for end in ends)
    if low > high:
        raise ValueError(f"the low end must not be above the high one, but {low} > {high}")
    low, high = min(low, number), max(high, number)  # a median of logs may miss its own interval by a rounding
    if high - low > abs(number):
        return _two_ends((low, high), unit, scale)
    return _one_value(number, unit, (low, high), scale, _MOST_DIGITS)


def interval_of(measurement: Measurement) -> Interval | None:
    """Return the measurement's interval; None of one sample, and of a count or a point."""
    if measurement.is_counted or not measurement.has_interval:
        return None
    return measurement.interval


#: Units of what is computed from two numbers, so that a whole one is whole by chance.
RATIOS = FRACTIONS | {""}


def is_exact(measurement: Measurement) -> bool:
    """Return whether it is one whole number that was counted, not timed: bytes, FLOPs, parameters."""
    single = measurement.n == 1 and interval_of(measurement) is None and measurement.unit not in RATIOS
    return single and measurement.median.is_integer() and measurement.is_counted


def format_measurement(measurement: Measurement, *, scale: Scale | None = None) -> Formatted:
    """Return the measurement as this module's rules show it."""
    interval = interval_of(measurement)
    ends = None if interval is None else (interval.low, interval.high)
    value = int(measurement.median) if is_exact(measurement) else measurement.median
    return format_number(value, measurement.unit, ends=ends, scale=scale)


def format_record(number: Mapping[str, Any], *, scale: Scale | None = None) -> Formatted:
    """Return the number that a record holds as this module's rules show it."""
    interval = number["interval"]
    ends = None if interval is None else (interval["low"], interval["high"])
    return format_number(number["value"], number["unit"], ends=ends, scale=scale)


def format_confidence(confidence: float) -> str:
    """Return ``"95%"``: whole per cent rounded down, or as many decimals as it takes not to say 100 of what is less."""
    decimals = 0
    while confidence < 1 and decimals < 6 and float(f"{confidence * 100:.{decimals}f}") >= 100:
        decimals += 1
    steps = 10 ** (decimals + 2)
    return f"{math.floor(confidence * steps + 1e-9) / steps:.{decimals}%}"


def percent(share: float) -> str:
    """Return a share that somebody chose, 0.03 as ``"3 %"``."""
    return f"{100 * share:.3g}{NO_BREAK}%"


def interval_name(confidence: float) -> str:
    """Return ``"95% interval"``."""
    return f"{format_confidence(confidence)} interval"


def number_of_samples(n: int) -> str:
    """Return ``", n = 30"``; empty for what was computed of others and has no samples of its own."""
    return f", n = {n:,}" if n > 1 else ""


def number_text(body: Mapping[str, Any]) -> str:
    """Return the number that a record holds in words: value, interval and n."""
    shown = format_record(body)
    sure = sureness(body, shown)
    return f"{shown.text} ({sure})" if sure else shown.text


def sureness(body: Mapping[str, Any], shown: Formatted) -> str:
    """Return how sure a number is: its interval, unless it stands in the value's place, and n; empty for one sample."""
    interval = body["interval"]
    if interval is None:
        return f"n = {body['n']}" if body["n"] > 1 else ""
    ends = f" {shown.interval}" if shown.digits else ""
    return f"{interval_name(interval['confidence'])}{ends}{number_of_samples(body['n'])}"


def common_scale(values: Iterable[float], unit: str) -> Scale:
    """Return the one scale for a whole column: the one that fits the median of the non-zero sizes."""
    sizes = sorted(abs(float(value)) for value in values if value)
    middle = sizes[len(sizes) // 2] if sizes else 0.0
    return scales_of(unit)[_fitting_scale(middle, unit)]


def _kind_of(value: Value, exact: bool) -> Json:
    """Return a value's kind, and what it was derived from, what modelled it or who published it."""
    match value:
        case Modelled():
            return {"kind": "modelled", "model": value.model}
        case Quoted():
            return {"kind": "quoted", "source": value.source}
        case Derived():
            reason = {"no_interval": value.no_interval} if value.no_interval else {}
            return {"kind": "derived", "of": list(value.names), **reason}
        case Measurement() if value.is_counted and value.conditions.sides:
            return {"kind": "derived", "of": [side.name for side in value.conditions.sides]}
    return {"kind": "counted" if exact or isinstance(value, Counted) else "measured"}


def checked_value(name: str, value: Value | int, *, unit: str | None, what: str | None) -> Value:
    """Return the value that ``name`` has; a bare whole number was counted.

    Raises:
        TypeError: if it is no number.
        ValueError: if it is a bare number whose kind nobody knows, or has no unit or words.
    """
    if isinstance(value, Value):
        if unit is not None and unit != value.unit:
            raise ValueError(f"unit of {name} must be left out or be the measurement's {value.unit!r}, not {unit!r}")
        return value
    number = _checked_number(value, f"value of {name}")
    if isinstance(number, float) or (unit is not None and (is_clocked(unit) or unit in RATIOS)):
        raise ValueError(
            f"{name} is the bare number {number!r}, which does not say where it comes from: hand over what measure() "
            "or interleave() returned if a clock took it, else Counted, Derived, Modelled or Quoted"
        )
    if unit is None or what is None:
        raise ValueError(f"{name} is the bare whole number {number}: say what was counted with unit= and what=")
    return Counted(number, unit, what)


def number_body(key: str, value: Value | int, *, unit: str | None = None, what: str | None = None) -> Json:
    """Return kind, value, unit, interval, n, samples, what and how of a number, and what its kind has besides.

    Raises:
        TypeError, ValueError: as `checked_value` does, or if there are no words for what it is.
    """
    known = checked_value(repr(key), value, unit=unit, what=what)
    measured = as_measurement(known)
    interval = interval_of(measured)
    exact = is_exact(measured)
    return {
        **_kind_of(known, exact),
        "value": int(measured.median) if exact else measured.median,
        "unit": known.unit,
        "interval": interval and asdict(interval),
        "n": measured.n,
        "samples": list(measured.samples),
        "what": checked_text(what or (known.name if isinstance(known, Measurement) else known.what), "what", key),
        "conditions": to_json(measured.conditions),
    }


def measurement_from_record(record: Mapping[str, Any]) -> Measurement:
    """Return the `Measurement` that a number's record was made of: same samples, unit, name and conditions.

    Raises:
        ValueError: if the record is not one of a number.
    """
    if record.get("kind") not in NUMBER_KINDS:
        raise ValueError(f"record {record.get('key')!r} must hold a number, but its kind is {record.get('kind')!r}")
    samples, conditions = tuple(map(float, record["samples"])), conditions_of_record(record)
    made = measured(record["what"], samples, record["unit"], conditions, record["value"], record["interval"])
    return made if record["interval"] is None else replace(made, confidence=record["interval"]["confidence"])


def is_number(cell: object) -> TypeGuard[Json]:
    """Return whether a cell of a table's record is a number: neither text nor a verdict."""
    return isinstance(cell, Mapping) and "value" in cell


def conditions_of_record(number: Mapping[str, Any]) -> Conditions:
    """Return the conditions of a number's record, or of a table's cell."""
    return from_json(number["conditions"], Conditions, f"conditions of {number['what']!r}")
