"""Values that no clock took: counted, derived from named ones, modelled or quoted. Each knows its unit and its kind."""

from __future__ import annotations

import math
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, Self

from tinytorch.perf.measuring.measurement import TIMES, Measurement

#: Units of what only a clock can tell, alone or in a rate.
_CLOCKED = {*TIMES, "min", "h", "days", "years", "Hz"}


def is_clocked(unit: str) -> bool:
    """Return whether a unit is one of time or rate, such as ``"s"`` and ``"B/s"``, which no count has."""
    return not _CLOCKED.isdisjoint(unit.split("/"))


@dataclass(frozen=True, init=False)
class Counted(Measurement):
    """Exact number that needs no clock: bytes, FLOPs, examples, a rounding error.

    Raises:
        ValueError: if the value is not finite, or in a unit of time or rate.

    Examples:
        >>> from tinytorch.perf.measuring import Counted
        >>> weights = Counted(4096, "B", "float32 weights")
        >>> weights.over(Counted(1024, "B", "the same in eight bits"), "bytes saved").value
        4.0
    """

    def __init__(self, value: float, unit: str, what: str) -> None:
        if is_clocked(unit):
            raise ValueError(f"{what!r} is in {unit!r}, which is not counted: time it with measure() or interleave()")
        super().__init__(what, (float(value),), unit)

    @classmethod
    def of(cls, things: Sized, unit: str, what: str) -> Self:
        """Return how many things there are."""
        return cls(len(things), unit, what)

    @property
    def value(self) -> float:
        """The number, in ``unit``."""
        return self.median

    @property
    def is_counted(self) -> bool:
        """Always."""
        return True

    def over(self, other: Counted, what: str, unit: str = "") -> Derived:
        """Return how many times the other it is, or which share of it with the unit ``"%"``."""
        return Derived(self.value / other.value, unit, what, (self, other))


@dataclass(frozen=True)
class _Told:
    """A finite number with its unit, and what it is, in words."""

    value: float
    unit: str
    what: str

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"{self.what!r} must be finite, not {self.value}: a page cannot show it")


@dataclass(frozen=True)
class Derived(_Told):
    """Number that was computed from other named numbers and has no interval of its own.

    Args:
        value: in ``unit``.
        unit: as of a `Measurement`.
        what: what it is, in words.
        of: what it was computed from.
        no_interval: why it has none, where one of them has one: no formula carries it.

    Raises:
        ValueError: if the value is not finite, nothing is named, or one of them has an interval and no reason is given.

    Examples:
        >>> from tinytorch.perf.measuring import Counted, Derived
        >>> pair = Counted(3, "B", "a code and its scale"), Counted(1, "B", "the code")
        >>> Derived(2.0, "B", "the scale", pair).measured == pair
        True
    """

    of: tuple[Measurement | Derived, ...]
    no_interval: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.of:
            raise ValueError(f"{self.what!r} must be derived from something: time it with measure() or interleave()")
        if self.no_interval is None and (timed := [one.name for one in self.measured if one.n > 1]):
            raise ValueError(
                f"{self.what!r} would lose the interval of {timed[0]!r}: carry it by ratio() or quotient(), "
                "or say in no_interval= why no formula does"
            )

    @property
    def measured(self) -> tuple[Measurement, ...]:
        """Every measurement and count that it rests on, at whatever remove."""
        inside = (one.measured if isinstance(one, Derived) else (one,) for one in self.of)
        return tuple(each for group in inside for each in group)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers that it was computed from."""
        return tuple(one.what if isinstance(one, Derived) else one.name for one in self.of)


@dataclass(frozen=True)
class Modelled(_Told):
    """Number that a model predicts, as opposed to a measured one.

    Args:
        value: in ``unit``.
        unit: as of a `Measurement`.
        what: what it is, in words.
        model: what says so, in words: "Amdahl's law".
        carried: what the model makes of samples that were measured, with their interval; None if it needs none.

    Raises:
        ValueError: if the value is not finite.

    Examples:
        >>> from tinytorch.perf.measuring import Modelled
        >>> Modelled(1 / (0.5 + 0.5 / 4), "", "speedup with half four times as fast", "Amdahl's law").value
        1.6
    """

    model: str
    carried: Measurement | None = None

    @classmethod
    def by(cls, model: str, carried: Measurement, what: str | None = None) -> Modelled:
        """Return what ``model`` makes of what was measured; ``what`` is the measurement's own name if None."""
        return cls(carried.median, carried.unit, what or carried.name, model, carried)


@dataclass(frozen=True)
class Quoted(_Told):
    """Number that others published.

    Args:
        value: in ``unit``.
        unit: as of a `Measurement`.
        what: what it is, in words.
        source: who says so: ``name <address>``, or a name alone.

    Raises:
        ValueError: if the value is not finite.

    Examples:
        >>> from tinytorch.perf.measuring import Quoted
        >>> Quoted(312e12, "FLOP/s", "peak of a GPU in BF16", "NVIDIA A100 data sheet").unit
        'FLOP/s'
    """

    source: str


@dataclass(frozen=True)
class Unmeasured:
    """Placeholder for a result that this machine or this build cannot measure.

    Its attributes, its items, ``values()`` and ratios with it are itself, so that who shows a part of a result need not
    ask whether there is one.

    Args:
        reason: why, and what would measure it, in one sentence.

    Raises:
        ValueError: if there is no reason.

    Examples:
        >>> from tinytorch.perf.measuring import Unmeasured
        >>> Unmeasured("it needs a second core").speedup["two ranks"].reason
        'it needs a second core'
    """

    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError("reason must say why it was not measured, and what would measure it")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key: object) -> Self:
        return self

    def __truediv__(self, other: object) -> Self:
        """Return itself: a ratio to what was not measured is not measured, either."""
        return self

    __rtruediv__ = __truediv__

    def values(self) -> Self:
        """Return itself, as it stands for each of them, too."""
        return self


#: Whatever knows its unit and its kind.
Value = Measurement | Derived | Modelled | Quoted


def as_measurement(value: Value) -> Measurement:
    """Return what tells a value's number, unit and interval, if it has one, in the terms of what was measured."""
    if isinstance(value, Measurement):
        return value
    carried = value.carried if isinstance(value, Modelled) else None
    return carried or Measurement(value.what, (float(value.value),), value.unit)
