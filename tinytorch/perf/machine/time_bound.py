"""Time bounds: amounts over measured ceilings, added up or the longer one taken, with how well they are known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, of_all
from tinytorch.perf.measuring.measurement import same_rounds
from tinytorch.perf.measuring.statistics import DRAWS, Drawn

#: Seconds by the medians of ceilings, by their draws, and by their draws where they stand alone; samples follow.
_ALONE, _TOLD = 1 + DRAWS, 1 + 2 * DRAWS


@dataclass(frozen=True, eq=False, slots=True)
class TimeBound:
    """Seconds by the medians of ceilings, by each of their draws, and by each sample.

    ``conditions`` are those that all ceilings share, ``ceilings`` their names.
    """

    values: npt.NDArray[np.float64]
    conditions: Conditions
    ceilings: frozenset[str]

    def longer(self, other: TimeBound) -> TimeBound:
        """Return the longer of the two, by each of these."""
        values = np.maximum(*_matched((self, other)))
        return TimeBound(values, of_all((self.conditions, other.conditions)), self.ceilings | other.ceilings)

    def measurement(self, name: str) -> Measurement:
        """Return the seconds as a measurement under ``name``."""
        median, samples = float(self.values[0]), self.values[_TOLD:]
        draws = self.values[_ALONE:_TOLD] if len(self.ceilings) == 1 else self.values[1:_ALONE]
        conditions = self.conditions.within_bounds("amounts at the medians of measured ceilings")
        return Measurement(name, tuple(samples.tolist()), "s", conditions, law=Drawn(median, draws))


def at_rate(amount: float, rate: Measurement) -> TimeBound:
    """Return the seconds that ``amount`` takes at ``rate``, which is in the unit of the amount and "/s"."""
    return TimeBound(amount / _values(rate), rate.conditions, frozenset([rate.name]))


def at_cost(count: int, seconds: Measurement) -> TimeBound:
    """Return the seconds that ``count`` calls take of ``seconds`` each."""
    return TimeBound(count * _values(seconds), seconds.conditions, frozenset([seconds.name]))


def _values(one: Measurement) -> npt.NDArray[np.float64]:
    return np.concatenate([[one.median], one.draws, one.draws_alone, one.samples])


def added(parts: Iterable[TimeBound]) -> TimeBound:
    """Return the seconds of one after the other; of samples as many as each of the parts has.

    Raises:
        ValueError: if there are no parts.
    """
    given = list(parts)
    if not given:
        raise ValueError("parts must hold at least one")
    values, names = np.sum(_matched(given), axis=0), frozenset[str]().union(*(part.ceilings for part in given))
    return TimeBound(values, of_all(part.conditions for part in given), names)


def in_a_row(*parts: Measurement) -> Measurement:
    """Return the seconds of several measurements one after the other, under all of their names."""
    return added(at_cost(1, part) for part in parts).measurement(" and ".join(part.name for part in parts))


def _matched(parts: Iterable[TimeBound]) -> list[npt.NDArray[np.float64]]:
    """Return the values of each with the samples that belong together."""
    values = [part.values for part in parts]
    samples = same_rounds(*(each[_TOLD:] for each in values))
    return [np.concatenate([each[:_TOLD], taken]) for each, taken in zip(values, samples, strict=True)]
