"""Seconds at the ceilings: amounts over measured rates, added up or the longer one taken, with how well they are known.

The ceilings of one machine were measured in turns, so that their i-th samples belong together. The ends of an interval
are added as ends: what made one probe fast may have made the others fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.statistics import Interval


@dataclass(frozen=True, eq=False, slots=True)
class Reach:
    """Seconds by the medians of ceilings, by the faster and the slower end of their intervals, and by each sample."""

    values: npt.NDArray[np.float64]

    def longer(self, other: Reach) -> Reach:
        """Return the longer of the two, by each of these."""
        size = min(self.values.size, other.values.size)
        return Reach(np.maximum(self.values[:size], other.values[:size]))

    def statistic(self, name: str) -> Statistic:
        """Return the seconds as a measurement under ``name``."""
        median, low, high, *samples = self.values.tolist()
        how = {"statistic": "amounts at the medians of measured ceilings"}
        return Statistic(name, tuple(samples), "s", how, value=median, bounds=Interval(low, high, 0.95))


def at_rate(amount: float, rate: Measurement) -> Reach:
    """Return the seconds that ``amount`` takes at ``rate``, which is in the unit of the amount and "/s"."""
    return Reach(amount / np.array([rate.median, rate.interval.high, rate.interval.low, *rate.samples]))


def at_cost(count: int, seconds: Measurement) -> Reach:
    """Return the seconds that ``count`` calls take of ``seconds`` each."""
    ends = seconds.interval
    return Reach(count * np.array([seconds.median, ends.low, ends.high, *seconds.samples]))


def added(parts: Iterable[Reach]) -> Reach:
    """Return the seconds of one after the other; of samples as many as each of the parts has.

    Raises:
        ValueError: if there are no parts.
    """
    given = [part.values for part in parts]
    if not given:
        raise ValueError("parts must hold at least one")
    size = min(values.size for values in given)
    return Reach(np.sum([values[:size] for values in given], axis=0))
