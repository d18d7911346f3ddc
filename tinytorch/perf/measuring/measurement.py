"""Measurement: samples of one quantity with their unit and conditions; ratio and difference of two taken in turns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np

from tinytorch.perf.measuring.statistics import (
    Interval,
    Outliers,
    checked,
    median_interval,
    outliers,
    percentile,
    percentile_at_least,
    percentile_interval,
)


@dataclass(frozen=True)
class Measurement:
    """The value that every instrument returns: what was measured, all samples, and how they were taken.

    Args:
        name: what was run, in words.
        samples: every sample, in the order in which it was taken, in ``unit``; none is dropped.
        unit: ``"s"``, ``"B"``, ``"FLOP"``, ``"FLOP/s"``, ``"B/s"``, ``"items/s"``, ``""`` for a ratio or count.
        how: the conditions: warm-up runs, inner loops, threads, whether garbage collection was off.
    """

    name: str
    samples: tuple[float, ...]
    unit: str
    how: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked(self.samples, f"samples of {self.name!r}")
        object.__setattr__(self, "how", MappingProxyType(dict(self.how)))

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.samples)

    @cached_property
    def median(self) -> float:
        """Median of the samples, in ``unit``."""
        return percentile(self.samples, 50)

    @cached_property
    def interval(self) -> Interval:
        """Distribution-free 95 % confidence interval of the median, in ``unit``."""
        return median_interval(self.samples)

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
                299 for the 99th. `percentile_at_least` has no such limit.
        """
        self.percentile_interval(q)
        return percentile(self.samples, q)

    def percentile_interval(self, q: float) -> Interval:
        """Return the distribution-free 95 % interval of the ``q``-th percentile; raises as `percentile` does."""
        return percentile_interval(self.samples, q)

    def percentile_at_least(self, q: float) -> float:
        """Return what the ``q``-th percentile is at least, with 95 % confidence, in ``unit``."""
        return percentile_at_least(self.samples, q)

    def tail(self, q: float) -> Statistic:
        """Return the ``q``-th percentile with its interval, as a page shows it; raises as `percentile` does."""
        how = {**self.how, "statistic": f"percentile {q:g}"}
        return Statistic(
            f"percentile {q:g} of {self.name}",
            self.samples,
            self.unit,
            how,
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
            ValueError: if a sample is zero.
        """
        if 0.0 in self.samples:
            raise ValueError(f"samples of {self.name!r} hold 0, so no rate can be made of them")
        rates = tuple(quantity / sample for sample in self.samples)
        return Measurement(name or self.name, rates, unit, self.how)

    def scaled(self, factor: float, unit: str | None = None, name: str | None = None) -> Measurement:
        """Return every sample times ``factor``, in ``unit`` if that changes."""
        samples = tuple(sample * factor for sample in self.samples)
        return Measurement(name or self.name, samples, self.unit if unit is None else unit, self.how)


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
        bounds: its interval, in ``unit``; ``how["statistic"]`` says in words what it is.
    """

    value: float = field(kw_only=True)
    bounds: Interval = field(kw_only=True)

    @cached_property
    def median(self) -> float:
        """The statistic, in ``unit``."""
        return self.value

    @cached_property
    def interval(self) -> Interval:
        """Interval of the statistic, in ``unit``."""
        return self.bounds

    def per(self, quantity: float, unit: str, name: str | None = None) -> Statistic:
        """Return ``quantity`` over the statistic and over each sample, as `Measurement.per` does."""
        rates = super().per(quantity, unit, name)
        ends = (quantity / self.bounds.low, quantity / self.bounds.high)
        return self._moved(rates, quantity / self.value, ends)

    def scaled(self, factor: float, unit: str | None = None, name: str | None = None) -> Statistic:
        """Return the statistic and every sample times ``factor``, in ``unit`` if that changes."""
        products = super().scaled(factor, unit, name)
        return self._moved(products, self.value * factor, (self.bounds.low * factor, self.bounds.high * factor))

    def _moved(self, samples: Measurement, value: float, ends: tuple[float, float]) -> Statistic:
        bounds = Interval(min(ends), max(ends), self.bounds.confidence)
        return Statistic(samples.name, samples.samples, samples.unit, samples.how, value=value, bounds=bounds)


def quantity(value: float, unit: str, name: str, **how: Any) -> Measurement:
    """Return a `Measurement` of something that is exact and was counted once: bytes, FLOPs, parameters."""
    return Measurement(name, (float(value),), unit, how)


def checked_neighbours(baseline: Measurement, candidate: Measurement) -> None:
    """Raise ValueError unless the i-th samples of both were taken in turns, in one unit, by one `interleave`."""
    if baseline.unit != candidate.unit:
        raise ValueError(f"candidate must be in {baseline.unit!r} as the baseline is, not in {candidate.unit!r}")
    if candidate.name not in baseline.how.get("interleaved_with", ()) or baseline.n != candidate.n:
        raise ValueError(
            f"candidate {candidate.name!r} was not interleaved with baseline {baseline.name!r}: "
            "time both in one call of interleave()"
        )


def _paired(baseline: Measurement, candidate: Measurement) -> Iterator[tuple[float, float]]:
    """Return the pairs of neighbouring samples, after checking that they are neighbours."""
    checked_neighbours(baseline, candidate)
    return zip(baseline.samples, candidate.samples, strict=True)


def ratio(baseline: Measurement, candidate: Measurement, name: str | None = None) -> Measurement:
    """Return ``baseline / candidate`` of each pair of neighbouring samples: a speedup, above 1 is faster.

    Raises:
        ValueError: if the two were not sampled in turns by one `interleave`, or their units differ.
    """
    ratios = tuple(before / after for before, after in _paired(baseline, candidate))
    return Measurement(name or f"{baseline.name} / {candidate.name}", ratios, "", baseline.how)


def difference(more: Measurement, less: Measurement, name: str) -> Measurement:
    """Return ``more - less`` of each pair of neighbouring samples, in their unit: what the first adds.

    Raises:
        ValueError: if the two were not sampled in turns by one `interleave`, or their units differ.
    """
    return Measurement(name, tuple(a - b for a, b in _paired(more, less)), more.unit, more.how)
