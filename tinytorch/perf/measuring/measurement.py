"""Measurement: samples of one quantity with their unit and conditions, and what is computed of several of them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from tinytorch.perf.measuring.conditions import Conditions, Sample, of_interleaved, of_sides
from tinytorch.perf.measuring.statistics import (
    CONFIDENCE,
    LOGARITHMS,
    NUMBERS,
    ODDS,
    Array,
    Dependence,
    Drawn,
    Interval,
    Known,
    Law,
    Percentile,
    Scale,
    Turned,
    bonferroni,
    checked,
    dependence,
    draws,
    independent,
    interval_of_law,
    percentile,
    percentile_at_least,
    samples_needed,
)

#: Units of times.
TIMES = ("s", "ms", "us", "µs", "ns")
#: Units of a fraction of one, whose whole numbers are no counts.
_FRACTIONS = ("%", "points")


@dataclass(frozen=True)
class Measurement:
    """The value that every instrument returns: what was measured, all samples, and how they were taken.

    Args:
        name: what was run, in words.
        samples: every sample, in the order in which it was taken, in ``unit``; none is dropped.
        unit: ``"s"``, ``"B"``, ``"FLOP"``, ``"FLOP/s"``, ``"B/s"``, ``"items/s"``, ``""`` for a ratio or count.
        conditions: how they were taken. Three of them enter the interval: ``between_runs``, by which medians of such a
            call differ from one process and moment to the next; ``sample``, which says whether samples are independent
            or a series in time; and ``part_of``, the whole of which each sample is a part, from 0 to 1: noise then
            changes the odds of the part to the rest by a factor, so that no interval ends beyond the whole.
        law: what is known of the quantity, if it is another than the median of the samples.
        confidence: the level of its interval: 0.95, or more if it is read together with others: see `together`.

    Raises:
        ValueError: if there are no samples, one is not finite, or one that is part of a whole lies outside of 0 to 1.

    Examples:
        >>> from tinytorch.perf.measuring import Measurement
        >>> from tinytorch.perf.measuring.conditions import Conditions, Sample
        >>> each = Conditions(sample=Sample.PROCESSES)
        >>> time = Measurement("a call", (2.0, 1.0, 3.0, 2.0, 4.0, 2.0), "s", each)
        >>> time.n, time.median, time.mean
        (6, 2.0, 2.3333333333333335)
        >>> round(time.interval.low, 2), round(time.interval.high, 2)
        (1.12, 3.82)
        >>> time.per(100, "items/s").median  # 100 items in each call
        50.0
    """

    name: str
    samples: tuple[float, ...]
    unit: str
    conditions: Conditions = field(default_factory=Conditions)
    law: Law | None = field(default=None, kw_only=True, repr=False, compare=False)
    confidence: float = field(default=CONFIDENCE, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        checked(self.samples, f"samples of {self.name!r}")
        if self._is_part and not 0 <= self.minimum <= self.maximum <= 1:
            bad = self.minimum if self.minimum < 0 else self.maximum
            raise ValueError(
                f"samples of {self.name!r} are part of {self.conditions.part_of}, but {bad} is not in 0 to 1"
            )

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.samples)

    @cached_property
    def median(self) -> float:
        """What is shown: the median of the samples, or the law's own value, in ``unit``."""
        return percentile(self.samples, 50) if self.law is None else self.law.value

    @property
    def is_counted(self) -> bool:
        """Whether it was counted, not timed: bytes, FLOPs, parameters, and what is computed of them alone."""
        if self.law is not None:
            return isinstance(self.law, Known)
        timed = not {*TIMES}.isdisjoint(self.unit.split("/")) or self.conditions.cpu_per_wall is not None
        return self.n == 1 and self.median.is_integer() and not timed and self.unit not in _FRACTIONS

    @property
    def has_interval(self) -> bool:
        """Whether anything is known of where it lies: a single sample tells nothing, nor do two that lie far apart."""
        return (self.n > 1 or self.law is not None) and all(map(math.isfinite, (self.interval.low, self.interval.high)))

    @cached_property
    def dependence(self) -> Dependence:
        """How dependent the samples are on one another."""
        if self.conditions.sample.are_independent:
            return independent(self.n)
        return dependence(self._scale.to(np.array(self.samples)))

    @property
    def autocorrelation_time(self) -> float:
        """Samples that are worth one independent sample.

        Where samples are a series in time that may wander farther than they show, it is that of such a series; but
        where it `is_bounded_by_runs`, that holds it: the processes that tell it are spread over the build, and
        wandering shows between them.
        """
        return self.dependence.time if self.is_bounded_by_runs else self.dependence.longest_time

    @property
    def is_bounded_by_runs(self) -> bool:
        """Whether what runs differ by is known of all that was timed."""
        return all(leaf.between_runs is not None for leaf in self.conditions.leaves())

    @cached_property
    def _known(self) -> Law:
        """What is known of the quantity, whatever it is."""
        if self.law is not None:
            return self.law
        return Known(self.median) if self.n == 1 else self._percentile(50, self.autocorrelation_time)

    def _percentile(self, q: float, time: float) -> Percentile:
        scale, relative = self._scale, self.spread_between_runs
        if scale is NUMBERS:  # what changes the odds of a part by a factor moves a part near the whole by little
            value = percentile(self.samples, q)
            relative *= value * (1 - value) if self._is_part else abs(value)
        return Percentile(self.samples, scale, time, relative, q)

    @property
    def _scale(self) -> Scale:
        """The scale on which noise adds up: logarithms, of odds for parts, where all samples have one."""
        if self._is_part and self.maximum < 1 and self.minimum > 0:
            return ODDS
        return LOGARITHMS if self.minimum > 0 and not self._is_part else NUMBERS

    @cached_property
    def interval(self) -> Interval:
        """The interval that a repeat on this machine agrees with, in ``unit``, at the measurement's own level.

        Dependent samples, few of them, and what runs differ by make it wider. A single sample has none: its
        ``confidence`` is not a number.
        """
        return self.interval_at(self.confidence)

    def interval_at(self, confidence: float) -> Interval:
        """Return the interval with ``confidence``, in ``unit``; of a single sample one without confidence.

        Raises:
            ValueError: if ``confidence`` does not lie between 0 and 1.
        """
        found = interval_of_law(self._known, confidence)
        if isinstance(self._known, Known) and not self.is_counted:
            return Interval(found.low, found.high, math.nan)
        if self._is_part:
            return Interval(max(found.low, 0.0), min(found.high, 1.0), confidence)
        return found

    @cached_property
    def draws(self) -> Array:
        """Plausible values of the quantity, in ``unit``: see `tinytorch.perf.measuring.statistics.draws`."""
        return self._draws(alone=False)

    @cached_property
    def draws_alone(self) -> Array:
        """Plausible values for what is computed of this quantity and no other: its interval stays what it is."""
        return self._draws(alone=True)

    def _draws(self, *, alone: bool) -> Array:
        if isinstance(self._known, Drawn):
            return self._known.values
        content = hashlib.sha256(np.array(self.samples).tobytes()).hexdigest()
        return draws(self._known, f"{self.name} {self.unit} {self.conditions.turns} {content}", alone=alone)

    def together(self, count: int) -> Measurement:
        """Return the same with the interval of one of ``count`` that are read together, all of which hold at 95 %.

        Raises:
            ValueError: if ``count`` is below 1.
        """
        level = bonferroni(CONFIDENCE, count)
        if self.is_counted:
            return self
        return Measurement(self.name, self.samples, self.unit, self.conditions, law=self.law, confidence=level)

    @property
    def spread_between_runs(self) -> float:
        """Relative standard deviation by which another run differs; 0 where that is not known."""
        return self.conditions.between_runs.deviation if self.conditions.between_runs else 0.0

    @property
    def _is_part(self) -> bool:
        """Whether each sample is a part of a whole."""
        return self.conditions.part_of is not None

    @property
    def mean(self) -> float:
        """Arithmetic mean, in ``unit``."""
        return float(np.mean(self.samples))

    @property
    def std(self) -> float:
        """Sample standard deviation (n - 1), in ``unit``; 0 for a single sample."""
        return float(np.std(self.samples, ddof=1)) if self.n > 1 else 0.0

    @property
    def minimum(self) -> float:
        """Smallest sample, in ``unit``."""
        return min(self.samples)

    @property
    def maximum(self) -> float:
        """Largest sample, in ``unit``."""
        return max(self.samples)

    def percentile(self, q: float) -> float:
        """Return the ``q``-th percentile of the samples, in ``unit``, ``q`` between 0 and 100.

        Raises:
            ValueError: if the samples are too few for an interval of it: below 29 for the 90th, 59 for the 95th,
                299 for the 99th. ``percentile_at_least`` has no such limit.
        """
        return self.tail(q).median

    def percentile_at_least(self, q: float) -> float:
        """Return what the ``q``-th percentile is at least, with 95 % confidence, in ``unit``."""
        return percentile_at_least(self.samples, q)

    def tail(self, q: float) -> Measurement:
        """Return the ``q``-th percentile with its interval, as a page shows it; raises as `percentile` does."""
        if self.n < (needed := samples_needed(q)):
            raise ValueError(
                f"samples must be at least {needed} for an interval of percentile {q:g}, not {self.n}: take more of "
                "them, or say what it is at least with percentile_at_least"
            )
        told = self.conditions.told_as(f"percentile {q:g}")
        law = self._percentile(q, self.dependence.time)
        return Measurement(f"percentile {q:g} of {self.name}", self.samples, self.unit, told, law=law)

    @property
    def spread(self) -> float:
        """Half-width of the interval over the median: the relative uncertainty, without unit."""
        return self.interval.half_width / abs(self.median) if self.median else math.inf

    def __truediv__(self, other: object) -> Any:
        """Return how many times ``other`` it is: the `ratio` of pairs that were interleaved, else the `quotient`."""
        if not isinstance(other, Measurement):
            return NotImplemented
        turns = self.conditions.turns
        if turns is not None and turns == other.conditions.turns and self.unit == other.unit:
            return ratio(self, other)
        unit = "" if self.unit == other.unit else f"{self.unit}/{other.unit}"
        return quotient(self, other, f"{self.name} / {other.name}", unit)

    def per(self, quantity: float, unit: str, name: str | None = None) -> Measurement:
        """Return ``quantity / sample`` for every sample: a rate such as FLOP/s out of seconds.

        Raises:
            ValueError: if a sample is zero, the interval holds 0, or the rate is said to be in the samples' unit.
        """
        if unit == self.unit != "":
            raise ValueError(
                f"unit must be that of a quantity over samples in {self.unit!r}, such as 'FLOP/s', not {unit!r}: "
                "write scaled(1 / quantity) for the share of each"
            )
        if 0.0 in self.samples:
            raise ValueError(f"samples of {self.name!r} hold 0, so no rate can be made of them")
        if self.law is not None and 0.0 in self.interval:
            raise ValueError(f"interval of {self.name!r} holds 0, so no rate with ends can be made of it")
        beyond = math.copysign(math.inf, quantity * self.median)

        def rate(value: Any) -> Any:
            if not isinstance(value, np.ndarray):
                return quantity / value
            # Beyond the interval a law may reach 0 and farther: there the rate has no bound.
            with np.errstate(divide="ignore"):
                return np.where(value * self.median > 0, quantity / value, beyond)

        return self._changed(rate, name, unit, falls=quantity > 0)

    def scaled(self, factor: float, unit: str | None = None, name: str | None = None) -> Measurement:
        """Return every sample times ``factor``, in ``unit`` if that changes."""
        return self._changed(lambda value: value * factor, name, self.unit if unit is None else unit, falls=factor < 0)

    def _changed(self, function: Callable[[Any], Any], name: str | None, unit: str, *, falls: bool) -> Measurement:
        law: Law | None = None
        if isinstance(self.law, Known):
            law = Known(function(self.law.value))
        elif isinstance(self.law, Drawn):
            law = Drawn(function(self.law.value), function(self.law.values))
        elif self.law is not None:
            law = Turned(self.law, function, falls)
        samples = tuple(map(function, self.samples))
        conditions = self.conditions.rescaled()
        return Measurement(name or self.name, samples, unit, conditions, law=law, confidence=self.confidence)


#: A `Measurement` in the unit of its name, of samples above 0, which `codec.from_json` checks.
Seconds = Annotated[Measurement, "s"]
Bytes = Annotated[Measurement, "B"]
Hertz = Annotated[Measurement, "Hz"]
BytesPerSecond = Annotated[Measurement, "B/s"]
FlopsPerSecond = Annotated[Measurement, "FLOP/s"]
OpsPerSecond = Annotated[Measurement, "OP/s"]
Ratio = Annotated[Measurement, ""]


def derived(
    name: str, function: Callable[..., Any], *inputs: Measurement, unit: str = "", statistic: str = "of the medians"
) -> Measurement:
    """Return what ``function`` makes of measurements that were not interleaved, with all that is known of them.

    The value is the function of their medians, and its law that of the function of their draws. The samples are those
    of the first input that has several, with the others at their medians. What was interleaved is paired first: see
    `ratio` and `difference`.

    Args:
        name: what it is, in words.
        function: takes a number for each input, or arrays of equal shape, and returns as many.
        inputs: measured or counted.
        unit: of the result.
        statistic: what it is, in words, for its conditions.

    Raises:
        ValueError: if there are no inputs, or the value or an end of the interval is not finite.

    Examples:
        >>> from tinytorch.perf.measuring import Counted, Measurement, derived
        >>> side = Measurement("side", (2.0,) * 6, "m")
        >>> derived("area", lambda a: a**2, side, unit="m²").median
        4.0
    """
    if not inputs:
        raise ValueError("inputs must hold at least one measurement")
    medians = [np.float64(one.median) for one in inputs]
    with np.errstate(all="ignore"):
        value = float(function(*medians))
    if not math.isfinite(value):
        raise ValueError(_not_bounded(name, inputs))
    first = next((at for at, one in enumerate(inputs) if one.n > 1), None)
    samples: tuple[float, ...] = (value,)
    if first is not None:
        given = [np.full(inputs[first].n, one) for one in medians]
        given[first] = np.array(inputs[first].samples)
        made = np.asarray(function(*given), np.float64)
        samples = tuple(made[np.isfinite(made)].tolist()) or (value,)
    kinds = {one.conditions.sample for one in inputs if not one.is_counted}
    conditions = of_sides({one.name: one.conditions for one in inputs}).within_bounds(statistic)
    conditions = replace(conditions, sample=kinds.pop() if len(kinds) == 1 else Sample.CALLS)
    if all(one.is_counted for one in inputs):
        return Measurement(name, samples, unit, conditions, law=Known(value))
    if not all(one.is_counted or one.has_interval for one in inputs):
        return Measurement(name, (value,), unit, conditions)
    with np.errstate(all="ignore"):
        alone = sum(not one.is_counted for one in inputs) == 1
        law = Drawn(
            value, np.asarray(function(*(one.draws_alone if alone else one.draws for one in inputs)), np.float64)
        )
    made_of = Measurement(name, samples, unit, conditions, law=law, confidence=max(one.confidence for one in inputs))
    if not (math.isfinite(made_of.interval.low) and math.isfinite(made_of.interval.high)):
        raise ValueError(_not_bounded(name, inputs))
    return made_of


def _not_bounded(name: str, inputs: Iterable[Measurement]) -> str:
    of = " and ".join(repr(one.name) for one in inputs)
    return (
        f"{name!r} is not bounded by what is known of {of}: take them in turns with interleave(), or more samples, or "
        "show Unmeasured"
    )


def require_paired(baseline: Measurement, candidate: Measurement) -> None:
    """Raise ValueError unless the i-th samples of both were taken in turns, in one unit, by one `interleave`."""
    if baseline.unit != candidate.unit:
        raise ValueError(f"candidate must be in {baseline.unit!r} as the baseline is, not in {candidate.unit!r}")
    turns = {baseline.conditions.turns, candidate.conditions.turns}
    # Where a token is missing, the names vouch for the pairs.
    is_beside = candidate.name in baseline.conditions.interleaved_with if None in turns else len(turns) == 1
    if not is_beside or baseline.n != candidate.n:
        raise ValueError(
            f"candidate {candidate.name!r} was not interleaved with baseline {baseline.name!r}: "
            "time both in one call of interleave()"
        )


def _paired(baseline: Measurement, candidate: Measurement) -> Iterator[tuple[float, float]]:
    """Return the pairs of neighbouring samples, after checking that they are neighbours."""
    require_paired(baseline, candidate)
    return zip(baseline.samples, candidate.samples, strict=True)


def ratio(baseline: Measurement, candidate: Measurement, name: str | None = None) -> Measurement:
    """Return ``baseline / candidate`` of each pair of neighbouring samples: a speedup, above 1 is faster.

    Raises:
        ValueError: if the two were not interleaved by one `interleave`, or their units differ.

    Examples:
        >>> from tinytorch.perf.measuring import interleave, ratio
        >>> times = interleave({"a": lambda: sum(range(500)), "b": lambda: None}, repeats=6, warmup_seconds=0.01)
        >>> speedup = ratio(times["a"], times["b"], "without the sum")
        >>> speedup.n, speedup.unit
        (6, '')
    """
    ratios = tuple(before / after for before, after in _paired(baseline, candidate))
    sides = {"baseline": baseline.conditions, "candidate": candidate.conditions}
    conditions = of_interleaved(sides, (baseline.name, candidate.name), ratios)
    return Measurement(name or f"{baseline.name} / {candidate.name}", ratios, "", conditions)


def difference(more: Measurement, less: Measurement, name: str) -> Measurement:
    """Return ``more - less`` of each pair of neighbouring samples, in their unit.

    What is known of it is what is known of ``less``, times their `ratio` less one: so what hits both alike moves the
    difference by its own share and no more. Where ``less`` may be 0 it is what the differences tell.

    Raises:
        ValueError: if the two were not interleaved by one `interleave`, or their units differ.

    Examples:
        >>> from tinytorch.perf.measuring import difference, from_turns
        >>> from tinytorch.perf.measuring.conditions import Conditions
        >>> taken = {"with": [2.0, 2.1, 2.2], "without": [1.5, 1.6, 1.7]}
        >>> made = from_turns(taken, sample="rounds", conditions=Conditions())
        >>> round(difference(made["with"], made["without"], "what it adds").median, 3)
        0.5
    """
    samples = tuple(a - b for a, b in _paired(more, less))
    sides = of_sides({"more": more.conditions, "less": less.conditions}).within_bounds("median difference")
    if min(more.minimum, less.minimum) <= 0 or more.n == 1:
        return Measurement(name, samples, more.unit, sides)
    times = ratio(more, less)
    values = (times.draws - 1) * less.draws
    middle = percentile(samples, 50)
    return Measurement(name, samples, more.unit, sides, law=Drawn(middle, values + middle - float(np.median(values))))


def same_rounds(*samples: Sequence[float] | Array) -> list[Array]:
    """Return of samples that were taken in turns those of the same rounds: as many as the fewest.

    What has fewer samples has them spread over all rounds, sample j of m in round ⌈j n / m⌉ of n.
    """
    given = [np.asarray(each, np.float64) for each in samples]
    fewest = np.arange(min(each.size for each in given))
    return [each[-(-fewest * each.size // fewest.size)] for each in given]


def of_rounds(name: str, function: Callable[..., Any], *taken: Measurement, unit: str = "") -> Measurement:
    """Apply ``function`` to each round of interleaved measurements, and return the results as one measurement.

    Use it for ratios: a disturbance that affects all measurements of a round equally cancels. For two times, use
    `ratio`.

    Args:
        name: what it is, in words.
        function: takes one array per measurement and returns one; a common factor of all must not change the result.
        taken: interleaved measurements; if one has fewer samples, each belongs to the round in which it was taken.
        unit: of the result.

    Examples:
        >>> from tinytorch.perf.measuring import Measurement, of_rounds
        >>> both, first, second = (Measurement(name, (3.0, 4.0), "s") for name in ("both", "first", "second"))
        >>> of_rounds("parts over both", lambda whole, a, b: (a + b) / whole, both, first, second).samples
        (2.0, 2.0)
    """
    values = np.asarray(function(*same_rounds(*(one.samples for one in taken))), np.float64).tolist()
    sides = {f"{at}: {one.name}": one.conditions for at, one in enumerate(taken, 1)}
    return Measurement(name, tuple(values), unit, of_interleaved(sides, [one.name for one in taken], values))


def quotient(numerator: Measurement, denominator: Measurement, name: str, unit: str = "") -> Measurement:
    """Return the quotient of two measurements that were not interleaved, such as a share of a peak.

    Its interval includes the differences between runs of both, which interleaving would cancel.

    Raises:
        ValueError: if the denominator's interval is not all above 0, as that of a small difference may be: a study
            then returns `Unmeasured`.

    Examples:
        >>> from tinytorch.perf.measuring import Measurement, quotient
        >>> here, there = Measurement("here", (3.0,) * 6, "s"), Measurement("there", (1.5,) * 9, "s")
        >>> quotient(here, there, "here over there").median
        2.0
    """
    least = min(denominator.minimum, denominator.interval.low)
    if not least > 0:
        raise ValueError(f"denominator {denominator.name!r} must be above 0, samples and interval, not {least:g}")
    return derived(
        name,
        lambda above, below: np.where(below > 0, above / below, np.inf),
        numerator,
        denominator,
        unit=unit,
        statistic="quotient of two medians",
    )
