"""Time bounds: amounts over measured ceilings, added up or the longer one taken, with how well they are known.

The ends of an interval are added as ends: what made one probe fast may have made the others fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinytorch.perf.machine.probing import same_rounds
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, of_all
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval

#: Seconds by the medians of ceilings, and by the faster and the slower end of their intervals; samples follow.
_TOLD = 3


@dataclass(frozen=True, eq=False, slots=True)
class TimeBound:
    """Seconds by the medians of ceilings, by the faster and the slower end of their intervals, and by each sample.

    ``conditions`` are those that all ceilings share.
    """

    values: npt.NDArray[np.float64]
    conditions: Conditions

    def longer(self, other: TimeBound) -> TimeBound:
        """Return the longer of the two, by each of these."""
        values = np.maximum(*_matched((self, other)))
        return TimeBound(values, of_all((self.conditions, other.conditions)))

    def statistic(self, name: str) -> Statistic:
        """Return the seconds as a measurement under ``name``."""
        median, low, high, *samples = self.values.tolist()
        conditions = self.conditions.within_bounds("amounts at the medians of measured ceilings")
        return Statistic(name, tuple(samples), "s", conditions, value=median, bounds=Interval(low, high, 0.95))


def at_rate(amount: float, rate: Measurement) -> TimeBound:
    """Return the seconds that ``amount`` takes at ``rate``, which is in the unit of the amount and "/s"."""
    values = amount / np.array([rate.median, rate.interval.high, rate.interval.low, *rate.samples])
    return TimeBound(values, rate.conditions)


def at_cost(count: int, seconds: Measurement) -> TimeBound:
    """Return the seconds that ``count`` calls take of ``seconds`` each."""
    ends = seconds.interval
    values = count * np.array([seconds.median, ends.low, ends.high, *seconds.samples])
    return TimeBound(values, seconds.conditions)


def added(parts: Iterable[TimeBound]) -> TimeBound:
    """Return the seconds of one after the other; of samples as many as each of the parts has.

    Raises:
        ValueError: if there are no parts.
    """
    given = list(parts)
    if not given:
        raise ValueError("parts must hold at least one")
    return TimeBound(np.sum(_matched(given), axis=0), of_all(part.conditions for part in given))


def in_a_row(*parts: Measurement) -> Statistic:
    """Return the seconds of several measurements one after the other, under all of their names."""
    return added(at_cost(1, part) for part in parts).statistic(" and ".join(part.name for part in parts))


def _matched(parts: Iterable[TimeBound]) -> list[npt.NDArray[np.float64]]:
    """Return the values of each with the samples that belong together."""
    values = [part.values for part in parts]
    samples = same_rounds(*(each[_TOLD:] for each in values))
    return [np.concatenate([each[:_TOLD], taken]) for each, taken in zip(values, samples, strict=True)]
