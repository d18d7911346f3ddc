"""Measurement: samples of one quantity with their unit and conditions; ratio, difference and quotient of two."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import numpy as np
import numpy.typing as npt

from tinytorch.perf.measuring.conditions import Conditions, Sample, of_interleaved, of_sides
from tinytorch.perf.measuring.statistics import (
    FEWEST_FOR_INTERVAL,
    Dependence,
    Interval,
    Outliers,
    checked,
    combine_in_quadrature,
    dependence,
    independent,
    median_interval,
    outer_fences,
    outliers,
    percentile,
    percentile_at_least,
    percentile_interval,
    rescale_interval,
    widened,
)

#: Units of times.
TIMES = ("s", "ms", "us", "µs", "ns")
#: Confidence of every interval, but where several are corrected for their number.
CONFIDENCE = 0.95
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

    Raises:
        ValueError: if there are no samples, one is not finite, or one that is part of a whole lies outside of 0 to 1.

    Examples:
        >>> from tinytorch.perf.measuring import Measurement
        >>> from tinytorch.perf.measuring.conditions import Conditions, Sample
        >>> each = Conditions(sample=Sample.PROCESSES)
        >>> time = Measurement("a call", (2.0, 1.0, 3.0, 2.0, 4.0, 2.0), "s", each)
        >>> time.n, time.median, time.mean
        (6, 2.0, 2.3333333333333335)
        >>> time.interval.low, time.interval.high
        (1.0, 4.0)
        >>> time.per(100, "items/s").median  # 100 items in each call
        50.0
    """

    name: str
    samples: tuple[float, ...]
    unit: str
    conditions: Conditions = field(default_factory=Conditions)

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
        """Median of the samples, in ``unit``."""
        return percentile(self.samples, 50)

    @property
    def is_counted(self) -> bool:
        """Whether it is one whole number that was counted, not timed: bytes, FLOPs, parameters."""
        timed = not {*TIMES}.isdisjoint(self.unit.split("/")) or self.conditions.cpu_per_wall is not None
        return self.n == 1 and self.median.is_integer() and not timed and self.unit not in _FRACTIONS

    @cached_property
    def dependence(self) -> Dependence:
        """How dependent the samples are on one another."""
        return independent(self.n) if self.conditions.sample.are_independent else dependence(self._on_scale)

    @property
    def wander_is_bounded(self) -> bool:
        """Whether noise that wanders farther than the samples show is in the interval.

        It is where samples are independent by the way they were taken; and where what runs differ by was found on this
        machine for all that was timed: the processes that tell it are spread over the build, and wandering shows
        between them.
        """
        spreads = [leaf.between_runs for leaf in self.conditions.leaves()]
        found = all(spread is not None and spread.interleaved is not None for spread in spreads)
        return found or self.conditions.sample.are_independent

    @property
    def objection(self) -> str | None:
        """Why its interval cannot be all that a verdict rests on, in words; None if it can."""
        return None if self.wander_is_bounded else self.dependence.objection

    @cached_property
    def interval(self) -> Interval:
        """The 95 % interval of the median that a repeat on this machine agrees with, in ``unit``.

        It runs between two of the samples, as far apart as their dependence on one another demands, and is widened by
        what repeats differ by. Too few samples reach less than 95 %: its ``confidence`` says how much.
        """
        return self.interval_at(CONFIDENCE)

    def interval_at(self, confidence: float) -> Interval:
        """Return the interval of the median with ``confidence``, in ``unit``.

        It runs between two of the samples, as far apart as their dependence on one another demands, and is widened by
        what repeats differ by. With too few samples, or too dependent ones, it ends at the extremes, with the
        confidence that they reach: not a number for a single sample.

        Raises:
            ValueError: if ``confidence`` does not lie between 0 and 1.
        """
        return self._repeated(median_interval(self.samples, confidence, self.dependence.time), self.median, confidence)

    def verdict_interval(self, confidence: float = CONFIDENCE) -> Interval | None:
        """Return the interval that a verdict rests on, in ``unit``; None if none can rest on these samples.

        That is `interval_at`. Where there is an `objection` to that, or the samples do not reach the confidence, it
        also holds all that lies nearer to the median than a severe outlier: what is farther away was not within reach
        of this series. Below six samples there is none, but a count is exact.
        """
        if self.is_counted:
            return Interval(self.median, self.median, 1.0)
        if self.n < FEWEST_FOR_INTERVAL:
            return None
        found = self.interval_at(confidence)
        if found.confidence >= confidence - 1e-9 and self.objection is None:
            return found
        reach = self._repeated(self._reach(found.confidence), self.median, confidence)
        return Interval(min(found.low, reach.low), max(found.high, reach.high), found.confidence)

    def _reach(self, confidence: float) -> Interval:
        """Return between what a further sample would be no severe outlier, in ``unit``."""
        low, high = outer_fences(self._on_scale)
        if self._is_part:
            from scipy.special import expit

            low, high = map(float, expit((low, high))) if self._has_odds else (max(low, 0.0), min(high, 1.0))
        elif self.minimum > 0:
            with np.errstate(over="ignore"):  # noise of many powers of ten reaches anywhere
                low, high = float(np.exp(low)), float(np.exp(high))
        return Interval(low, high, confidence)

    @cached_property
    def _on_scale(self) -> npt.NDArray[np.float64]:
        """The samples on the scale on which noise adds up: logarithms, of odds for parts, where all have one."""
        array = np.asarray(self.samples)
        if self._is_part:
            return np.log(array / (1 - array)) if self._has_odds else array
        return np.log(array) if self.minimum > 0 else array

    @property
    def spread_between_runs(self) -> float:
        """Relative standard deviation by which another run differs; 0 where that is not known."""
        return _deviation(self.conditions)

    @property
    def _is_part(self) -> bool:
        """Whether each sample is a part of a whole."""
        return self.conditions.part_of is not None

    @property
    def _has_odds(self) -> bool:
        """Whether no sample is all or nothing, so that each has a logarithm of its odds."""
        return self.minimum > 0 and self.maximum < 1

    def _repeated(self, interval: Interval, value: float, confidence: float) -> Interval:
        """Return the interval of ``value`` widened by what repeats differ by."""
        between_runs = self.conditions.between_runs
        if between_runs is None or math.isnan(interval.confidence):
            return interval
        if not self._is_part:
            return widened(interval, value, between_runs.deviation, confidence)
        if not 0 < value < 1:
            return interval
        from scipy.special import expit, logit

        odds = Interval(float(logit(interval.low)), float(logit(interval.high)), interval.confidence)
        wider = widened(odds, float(logit(value)), between_runs.deviation, confidence, as_factors=False)
        return Interval(float(expit(wider.low)), float(expit(wider.high)), interval.confidence)

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
        self.percentile_interval(q)
        return percentile(self.samples, q)

    def percentile_interval(self, q: float) -> Interval:
        """Return the 95 % interval of the ``q``-th percentile, widened as the median's; raises as `percentile` does."""
        return self._repeated(percentile_interval(self.samples, q), percentile(self.samples, q), CONFIDENCE)

    def percentile_at_least(self, q: float) -> float:
        """Return what the ``q``-th percentile is at least, with 95 % confidence, in ``unit``."""
        return percentile_at_least(self.samples, q)

    def tail(self, q: float) -> Statistic:
        """Return the ``q``-th percentile with its interval, as a page shows it; raises as `percentile` does."""
        return Statistic(
            f"percentile {q:g} of {self.name}",
            self.samples,
            self.unit,
            self.conditions.told_as(f"percentile {q:g}"),
            value=self.percentile(q),
            bounds=self.percentile_interval(q),
        )

    @cached_property
    def outliers(self) -> Outliers:
        """How many samples lie beyond Tukey's fences; they are counted, never dropped."""
        return outliers(self.samples)

    @property
    def spread(self) -> float:
        """Half-width of the interval over the median: the relative uncertainty, without unit."""
        return self.interval.half_width / abs(self.median) if self.median else math.inf

    def per(self, quantity: float, unit: str, name: str | None = None) -> Measurement:
        """Return ``quantity / sample`` for every sample: a rate such as FLOP/s out of seconds.

        Raises:
            ValueError: if a sample is zero, or the rate is said to be in the samples' unit.
        """
        if unit == self.unit != "":
            raise ValueError(
                f"unit must be that of a quantity over samples in {self.unit!r}, such as 'FLOP/s', not {unit!r}: "
                "write scaled(1 / quantity) for the share of each"
            )
        if 0.0 in self.samples:
            raise ValueError(f"samples of {self.name!r} hold 0, so no rate can be made of them")
        rates = tuple(quantity / sample for sample in self.samples)
        return Measurement(name or self.name, rates, unit, self.conditions.rescaled())

    def scaled(self, factor: float, unit: str | None = None, name: str | None = None) -> Measurement:
        """Return every sample times ``factor``, in ``unit`` if that changes."""
        samples = tuple(sample * factor for sample in self.samples)
        return Measurement(name or self.name, samples, self.unit if unit is None else unit, self.conditions.rescaled())


#: A `Measurement` in the unit of its name, of samples above 0, which `codec.from_json` checks.
Seconds = Annotated[Measurement, "s"]
Bytes = Annotated[Measurement, "B"]
Hertz = Annotated[Measurement, "Hz"]
BytesPerSecond = Annotated[Measurement, "B/s"]
FlopsPerSecond = Annotated[Measurement, "FLOP/s"]
OpsPerSecond = Annotated[Measurement, "OP/s"]


@dataclass(frozen=True)
class Statistic(Measurement):
    """A `Measurement` of which another statistic than the samples' median is told, with its own interval.

    Args:
        value: the statistic, in ``unit``; it stands where a measurement has its median.
        bounds: its interval, in ``unit``; its conditions say in words what the statistic is.
    """

    value: float = field(kw_only=True)
    bounds: Interval = field(kw_only=True)

    @cached_property
    def median(self) -> float:
        """The statistic, in ``unit``."""
        return self.value

    @property
    def is_counted(self) -> bool:
        """Never: a statistic has an interval."""
        return False

    @cached_property
    def interval(self) -> Interval:
        """Interval of the statistic, in ``unit``."""
        return self.bounds

    def interval_at(self, confidence: float) -> Interval:
        """Return the statistic's interval; for more confidence than it has widened as that of a normal estimate is.

        An interval that reaches less than 95 % stays as it is: its maker had too little to say more.
        """
        from scipy.special import ndtri

        has = self.bounds.confidence
        if not CONFIDENCE <= has < confidence:
            return self.bounds
        wider = float(ndtri((1 + confidence) / 2) / ndtri((1 + has) / 2))
        found = rescale_interval(self.bounds, self.value, self.value, wider)
        return Interval(found.low, found.high, confidence)

    def verdict_interval(self, confidence: float = CONFIDENCE) -> Interval | None:
        """Return the interval that a verdict rests on, as `Measurement.verdict_interval` does; of one sample its own.

        If the samples are a series that may wander, it holds all that lies as near to the statistic as what is no
        severe outlier lies to their median.
        """
        found = self.interval_at(confidence)
        if self.n < FEWEST_FOR_INTERVAL:
            return found if self.n == 1 and found.confidence >= CONFIDENCE - 1e-9 else None
        if found.confidence >= confidence - 1e-9 and self.objection is None:
            return found
        reach = rescale_interval(self._reach(found.confidence), percentile(self.samples, 50), self.value)
        return Interval(min(found.low, reach.low), max(found.high, reach.high), found.confidence)

    def per(self, quantity: float, unit: str, name: str | None = None) -> Statistic:
        """Return ``quantity`` over the statistic and over each sample, as `Measurement.per` does.

        Raises:
            ValueError: if a sample is zero, or the interval holds 0.
        """
        if 0.0 in self.bounds:
            raise ValueError(f"interval of {self.name!r} holds 0, so no rate with ends can be made of it")
        rates = super().per(quantity, unit, name)
        ends = (quantity / self.bounds.low, quantity / self.bounds.high)
        return self._moved(rates, quantity / self.value, ends)

    def scaled(self, factor: float, unit: str | None = None, name: str | None = None) -> Statistic:
        """Return the statistic and every sample times ``factor``, in ``unit`` if that changes."""
        products = super().scaled(factor, unit, name)
        return self._moved(products, self.value * factor, (self.bounds.low * factor, self.bounds.high * factor))

    def _moved(self, samples: Measurement, value: float, ends: tuple[float, float]) -> Statistic:
        bounds = Interval(min(ends), max(ends), self.bounds.confidence)
        return Statistic(samples.name, samples.samples, samples.unit, samples.conditions, value=value, bounds=bounds)


@dataclass(frozen=True)
class Quotient(Statistic):
    """The quotient of two measurements that were not taken in turns: see `quotient`."""

    numerator: Measurement = field(kw_only=True)
    denominator: Measurement = field(kw_only=True)

    @property
    def is_counted(self) -> bool:
        """Whether both were counted."""
        return self.numerator.is_counted and self.denominator.is_counted

    def interval_at(self, confidence: float) -> Interval:
        """Return the interval that holds both sides' intervals, each with ``confidence``."""
        return self._of(self.numerator.interval_at(confidence), self.denominator.interval_at(confidence))

    def verdict_interval(self, confidence: float = CONFIDENCE) -> Interval | None:
        """Return the interval that a verdict rests on, made of both sides'; None if one of them has none."""
        above, below = self.numerator.verdict_interval(confidence), self.denominator.verdict_interval(confidence)
        return None if above is None or below is None else self._of(above, below)

    def per(self, quantity: float, unit: str, name: str | None = None) -> Statistic:
        """Return ``quantity`` over the quotient, which still knows both sides; as `Statistic.per` otherwise."""
        return self._turned(super().per(quantity, unit, name), self.denominator, self.numerator, quantity)

    def scaled(self, factor: float, unit: str | None = None, name: str | None = None) -> Statistic:
        """Return the quotient times ``factor``, which still knows both sides."""
        return self._turned(super().scaled(factor, unit, name), self.numerator, self.denominator, factor)

    def _turned(self, made: Statistic, above: Measurement, below: Measurement, factor: float) -> Statistic:
        """Return what was ``made`` as the quotient of both, of which the one that is not exact has the factor."""
        if self.is_counted:
            return made
        sides = (above, below.scaled(1 / factor)) if above.is_counted else (above.scaled(factor), below)
        return Quotient(
            made.name,
            made.samples,
            made.unit,
            made.conditions,
            value=made.value,
            bounds=made.bounds,
            numerator=sides[0],
            denominator=sides[1],
        )

    def _of(self, above: Interval, below: Interval) -> Interval:
        return _divided(above, self.numerator, below, self.denominator)


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
        ValueError: if the two were not sampled in turns by one `interleave`, or their units differ.

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


def difference(more: Measurement, less: Measurement, name: str) -> Statistic:
    """Return ``more - less`` of each pair of neighbouring samples, in their unit: what the first adds.

    Its interval is widened by what runs differ by, in the unit: the difference itself by as much as ``more`` does, and
    the variance of both that does not cancel, scaled by that of their `ratio`.

    Raises:
        ValueError: if the two were not sampled in turns by one `interleave`, or their units differ.

    Examples:
        >>> from tinytorch.perf.measuring import difference, from_turns
        >>> from tinytorch.perf.measuring.conditions import Conditions
        >>> taken = {"with": [2.0, 2.1, 2.2], "without": [1.5, 1.6, 1.7]}
        >>> made = from_turns(taken, sample="rounds", conditions=Conditions())
        >>> round(difference(made["with"], made["without"], "what it adds").median, 3)
        0.5
    """
    differences = tuple(a - b for a, b in _paired(more, less))
    sides = {"more": more.conditions, "less": less.conditions}
    ratios = ratio(more, less).samples if less.minimum > 0 else ()
    of_ratio = of_interleaved(sides, (more.name, less.name), ratios)
    conditions = of_ratio.within_bounds("median difference")
    plain = Measurement(name, differences, more.unit, conditions)
    uncancelled = _deviation(of_ratio) * math.hypot(more.median, less.median) / 2**0.5
    apart = math.hypot(_deviation(more.conditions) * plain.median, uncancelled)
    bounds = widened(plain.interval, plain.median, apart, CONFIDENCE, as_factors=False)
    return Statistic(name, differences, more.unit, conditions, value=plain.median, bounds=bounds)


def _deviation(conditions: Conditions) -> float:
    return conditions.between_runs.deviation if conditions.between_runs else 0.0


def quotient(numerator: Measurement, denominator: Measurement, name: str, unit: str = "") -> Quotient:
    """Return the quotient of the medians of two measurements that were not taken in turns, such as a share of a peak.

    Its interval holds what both sides' intervals do, each of which is made by itself: their distances to the medians,
    as factors, are added in squares. The samples are those of the numerator over the denominator's median; of a single
    one, it over those of the denominator.

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
    conditions = of_sides({"numerator": numerator.conditions, "denominator": denominator.conditions})
    kinds = {one.conditions.sample for one in (numerator, denominator) if not one.is_counted}
    samples = [sample / denominator.median for sample in numerator.samples]
    if numerator.n == 1:
        samples = [numerator.median / sample for sample in denominator.samples]
    return Quotient(
        name,
        tuple(samples),
        unit,
        replace(
            conditions.within_bounds("quotient of two medians"),
            sample=kinds.pop() if len(kinds) == 1 else Sample.CALLS,
        ),
        value=numerator.median / denominator.median,
        bounds=_divided(numerator.interval, numerator, denominator.interval, denominator),
        numerator=numerator,
        denominator=denominator,
    )


def _divided(above: Interval, numerator: Measurement, below: Interval, denominator: Measurement) -> Interval:
    """Return the interval of a quotient of medians, the distances of whose intervals are added in squares."""
    value, below_median = numerator.median / denominator.median, denominator.median
    first = Interval(above.low / below_median, above.high / below_median, above.confidence)
    turned = (value * below_median / below.high, value * below_median / below.low)
    known = [one.confidence for one, side in ((above, numerator), (below, denominator)) if not side.is_counted]
    reached = math.nan if any(map(math.isnan, known)) else min(known, default=1.0)
    return combine_in_quadrature(value, first, Interval(min(turned), max(turned), reached), as_factors=first.low > 0)
