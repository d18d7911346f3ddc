"""Numbers that format themselves: unit prefix from the size, digits from the uncertainty.

The rules, in the order in which they apply:

1. A whole number without an interval is exact and is shown exactly, grouped by commas; bytes from 10 KiB on are
   shown in binary prefixes at four significant digits instead, because nobody reads 7,372,800 B.
2. With an interval, the last digit shown is the first one in which the interval's half-width is not below 1.
   At least two significant digits are shown (but at most one beyond that last digit), and at most four.
3. Without an interval (one sample, a modelled number) three significant digits are shown.
4. The prefix is the largest that leaves at least 1 before it, judged after rounding: 999.6 µs is 1.00 ms.
5. ``"%"`` is the unit of a fraction of one, shown times 100, and ``"points"`` that of the difference of two such
   fractions: 2 % less than 90 % is 88.2 %, two points less is 88 %. ``""`` is a ratio, shown with ×. ``"1"`` is a
   bare number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tinytorch.perf.measuring import Measurement

NO_BREAK = "\u00a0"
MINUS = "\u2212"
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
#: Wide enough for every float beside every other: 1e308 shown with the decimals of 1e-308.
_WIDE = Context(prec=1000)
_MOST_DIGITS = 4
_DIGITS_WITHOUT_INTERVAL = 3
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
    """A number as it is shown: ``digits`` and ``unit`` apart, so that a page can set the unit lighter.

    ``scale`` and ``decimals`` say how the digits were made, so that an interval can be shown alike.
    """

    digits: str
    unit: str
    scale: Scale
    decimals: int

    @property
    def joiner(self) -> str:
        """What stands between digits and unit: nothing before ×, a no-break space before the others."""
        return "" if self.unit in ("", "×") else NO_BREAK

    @property
    def text(self) -> str:
        """Digits and unit as one string."""
        return f"{self.digits}{self.joiner}{self.unit}"

    def __str__(self) -> str:
        return self.text


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


def _magnitude(value: Decimal) -> int:
    """Return the power of ten of the first significant digit; 0 for zero."""
    return value.adjusted() if value else 0


def _decimals(value: Decimal, half_width: float | None, digits: int) -> int:
    """Return how many decimals to show; negative where digits before the point are not certain either."""
    magnitude = _magnitude(value)
    if half_width is None:
        return digits - 1 - magnitude if value else 0
    if half_width == 0:
        return _MOST_DIGITS - 1 - magnitude if value else 0
    uncertain = -math.floor(math.log10(half_width))
    if not value:
        return uncertain
    at_least = min(1 - magnitude, uncertain + 1)
    return min(max(uncertain, at_least), _MOST_DIGITS - 1 - magnitude)


def _rounded(value: Decimal, half_width: float | None, digits: int) -> tuple[Decimal, int]:
    """Return the rounded value and its decimals, settled where rounding carries into a new digit."""
    decimals = _decimals(value, half_width, digits)
    rounded = _to_decimals(value, decimals)
    settled = _decimals(rounded, half_width, digits) if rounded else decimals
    if settled < decimals:
        return _to_decimals(rounded, settled), settled
    return rounded, decimals


def _to_decimals(value: Decimal, decimals: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_EVEN, _WIDE)


def _written(value: Decimal, decimals: int) -> str:
    """Return ``value`` with comma groups, a true minus and no negative zero."""
    text = f"{abs(value):,.{max(decimals, 0)}f}"
    return MINUS + text if value < 0 else text


def _written_as_power(value: Decimal, decimals: int) -> str:
    power = _magnitude(value)
    mantissa = _written(value.scaleb(-power), max(decimals + power, 0))
    return f"{mantissa}{NO_BREAK}×{NO_BREAK}10{str(power).translate(_SUPERSCRIPTS)}"


def _digits_text(value: Decimal, decimals: int) -> str:
    if value and not Decimal("1e-4") <= abs(value) < Decimal("1e15"):
        return _written_as_power(value, decimals)
    return _written(value, decimals)


def _fitting_scale(value: float, unit: str) -> int:
    scales = scales_of(unit)
    fitting = [index for index, scale in enumerate(scales) if abs(value) >= scale.factor]
    if value == 0:
        return next(index for index, scale in enumerate(scales) if scale.factor == 1.0 or len(scales) == 1)
    return fitting[-1] if fitting else 0


def _in_scale(value: float, scale: Scale, half_width: float | None, digits: int) -> tuple[Decimal, int]:
    scaled_width = None if half_width is None else half_width / scale.factor
    return _rounded(Decimal(repr(value / scale.factor)), scaled_width, digits)


def _approximate(value: float, unit: str, half_width: float | None, scale: Scale | None, digits: int) -> Formatted:
    if scale is None:
        scales = scales_of(unit)
        index = _fitting_scale(value, unit)
        if index + 1 < len(scales) and abs(_in_scale(value, scales[index + 1], half_width, digits)[0]) >= 1:
            index += 1  # rounding carries it over: 999.6 µs is 1.00 ms
        scale = scales[index]
    rounded, decimals = _in_scale(value, scale, half_width, digits)
    return Formatted(_digits_text(rounded, decimals), scale.symbol, scale, decimals)


def format_number(
    value: float,
    unit: str = "",
    *,
    half_width: float | None = None,
    scale: Scale | None = None,
    short: bool = False,
) -> Formatted:
    """Return ``value`` (in ``unit``) as this module's rules show it.

    Args:
        value: an int is taken as exact, a float as approximate.
        unit: base unit: ``"s"``, ``"B"``, ``"FLOP"``, ``"FLOP/s"``, ``"B/s"``, ``"%"``, ``"points"``, ``""``,
            ``"1"``, or any word.
        half_width: half of the interval's width, in ``unit``; None where there is no interval.
        scale: the scale to show it in (a table's column); None to choose one.
        short: show an exact number in prefixes and three digits too.

    Raises:
        TypeError: if ``value`` is not a number.
        ValueError: if ``value`` or ``half_width`` is not finite, or ``half_width`` is negative.
    """
    number = _checked_number(value, "value")
    if half_width is not None and not (math.isfinite(half_width) and half_width >= 0):
        raise ValueError(f"half_width must be finite and not negative, not {half_width}")
    if isinstance(number, int) and half_width is None and scale is None and unit not in FRACTIONS and not short:
        if unit != "B" or abs(number) < _EXACT_BYTES_BELOW:
            symbol = "" if unit in ("", "1") else unit
            return Formatted(f"{number:,}".replace("-", MINUS), symbol, Scale(1.0, symbol), 0)
        return _approximate(float(number), unit, None, None, _MOST_DIGITS)
    return _approximate(float(number), unit, half_width, scale, _DIGITS_WITHOUT_INTERVAL)


def is_exact(measurement: Measurement) -> bool:
    """Return whether it is one whole number that was counted, not timed: bytes, FLOPs, parameters."""
    return measurement.n == 1 and measurement.median.is_integer() and not measurement.unit.endswith("s")


def half_width_of(measurement: Measurement) -> float | None:
    """Return half of the interval's width in the measurement's unit; None with a single sample."""
    return measurement.interval.half_width if measurement.n > 1 else None


def format_measurement(measurement: Measurement, *, scale: Scale | None = None) -> Formatted:
    """Return the measurement's median as this module's rules show it."""
    value = int(measurement.median) if is_exact(measurement) else measurement.median
    return format_number(value, measurement.unit, half_width=half_width_of(measurement), scale=scale)


def format_interval(low: float, high: float, like: Formatted) -> str:
    """Return ``"1.20 to 1.26 ms"``: both ends in the unit of ``like``, with digits enough to tell them apart.

    Raises:
        ValueError: if an end is not finite or ``low`` is above ``high``.
    """
    _checked_number(low, "low")
    _checked_number(high, "high")
    if low > high:
        raise ValueError(f"low must not be above high, but {low} > {high}")
    ends = [Decimal(repr(float(end) / like.scale.factor)) for end in (low, high)]
    decimals = like.decimals
    while low < high and decimals < like.decimals + 6 and len({_to_decimals(e, decimals) for e in ends}) == 1:
        decimals += 1
    texts = [_digits_text(_to_decimals(end, decimals), decimals) for end in ends]
    return f"{texts[0]} to {texts[1]}{like.joiner}{like.unit}"


def format_confidence(confidence: float) -> str:
    """Return ``"95%"``: whole per cent, or as many decimals as it takes not to say 100 of what is less."""
    decimals = 0
    while confidence < 1 and decimals < 6 and float(f"{confidence * 100:.{decimals}f}") >= 100:
        decimals += 1
    return f"{confidence:.{decimals}%}"


def common_scale(values: Iterable[float], unit: str) -> Scale:
    """Return the one scale for a whole column: the one that fits the median of the non-zero sizes."""
    sizes = sorted(abs(float(value)) for value in values if value)
    middle = sizes[len(sizes) // 2] if sizes else 0.0
    return scales_of(unit)[_fitting_scale(middle, unit)]
