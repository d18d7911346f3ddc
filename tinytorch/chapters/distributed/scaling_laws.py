"""Amdahl's and Gustafson's laws: the speedup that a serial share leaves of many ranks, and the share that fits steps.

Modelled, whoever measured the share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tinytorch.perf.measuring import Measurement, Statistic, ratio
from tinytorch.perf.measuring.conditions import of_all
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.profiling.breakdown import amdahl

Law = Literal["Amdahl", "Gustafson"]
Floats = npt.NDArray[np.float64]


def amdahl_speedup(serial: float, ranks: int) -> float:
    """Return the speedup of the same work on ``ranks`` ranks, 1 / (s + (1 - s) / p): strong scaling's bound.

    Args:
        serial: share of one rank's time that stays as it is, 0 to 1.
        ranks: p, at least 1.

    Source: G. M. Amdahl, 1967 (doi:10.1145/1465482.1465560).

    Raises:
        ValueError: if an argument is out of its range.
    """
    _check(serial, ranks)
    return amdahl(1 - serial, ranks)


def gustafson_speedup(serial: float, ranks: int) -> float:
    """Return the speedup of work that grows with the ranks, s + (1 - s) p: weak scaling's.

    Args:
        serial: share of the time on ``ranks`` ranks, not on one, in which only one could work, 0 to 1.
        ranks: p, at least 1.

    Source: J. L. Gustafson, 1988 (doi:10.1145/42411.42415).

    Raises:
        ValueError: if an argument is out of its range.
    """
    _check(serial, ranks)
    return serial + (1 - serial) * ranks


def _check(serial: float, ranks: int) -> None:
    if not 0 <= serial <= 1:
        raise ValueError(f"serial must be a share of 0 to 1, not {serial}")
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, not {ranks}")


@dataclass(frozen=True)
class LawFit:
    """A law and the serial share that fits what was measured best.

    Attributes:
        law: whose. share: serial share of the time, a sample for each round; below 0 where ranks do more than their
            number. Its interval follows from those of the ratios of times.
        counts: numbers of ranks above one that it was fitted to.
        worst: largest relative distance of a measured median speedup from the law's; None for a single number of ranks,
            through which the law always goes, so that nothing says whether it holds.
    """

    law: Law
    share: Statistic
    counts: tuple[int, ...]
    worst: float | None

    @property
    def applies(self) -> bool:
        """Whether the share is one, from 0 to 1: the law knows no others."""
        return 0 <= self.share.median <= 1

    def speedup(self, count: int) -> float:
        """Return the speedup that the law promises for ``count`` ranks: a modelled number, measured or not.

        Raises:
            ValueError: if the law does not apply, or ``count`` is below 1.
        """
        if not self.applies:
            raise ValueError(f"{self.law}'s law knows serial shares of 0 to 1, but {self.share.median:.3g} fits best")
        return _promised(self.law, self.share.median, count)


def fit_law(way: Literal["strong", "weak"], times: Mapping[int, Measurement]) -> LawFit:
    """Return Amdahl's law for strong scaling, or Gustafson's for weak, through times by number of ranks.

    On p ranks Amdahl's law says T(p) / T(1) = s + (1 - s) / p of the same work, and Gustafson's p T(1) / T(p) =
    p - s (p - 1) of p times the work. Each round gives the s with the least squares over all p; of a single p Amdahl's
    is the experimentally determined serial fraction of A. H. Karp and H. P. Flatt, 1990 (doi:10.1145/78607.78614).

    Raises:
        ValueError: if times of one rank or of more are missing, or they were not taken in turns.
    """
    counts = tuple(sorted(count for count in times if count > 1))
    if 1 not in times or not counts:
        raise ValueError(f"times must be those of one rank and of more, not of {sorted(times)}")
    ranks = np.array(counts, np.float64)
    if way == "strong":
        law: Law = "Amdahl"
        found = [ratio(times[count], times[1]) for count in counts]
        least, reach = 1 / ranks, 1 - 1 / ranks  # T(p) / T(1) = 1/p + s (1 - 1/p)
        speedups = [1 / one.median for one in found]
    else:
        law = "Gustafson"
        found = [ratio(times[1], times[count]).scaled(count) for count in counts]
        least, reach = ranks, 1 - ranks  # p T(1) / T(p) = p + s (1 - p)
        speedups = [one.median for one in found]
    share = _share(law, found, least, reach / (reach**2).sum())
    worst = None
    if len(counts) > 1:
        off = (speedup / _promised(law, share.median, count) for speedup, count in zip(speedups, counts, strict=True))
        worst = max(abs(each - 1) for each in off)
    return LawFit(law, share, counts, worst)


def _share(law: Law, found: Sequence[Measurement], least: Floats, weights: Floats) -> Statistic:
    """Return the share: the weighted sum of what each ratio lies beyond ``least``, and of their ends in quadrature."""
    samples = weights @ (np.array([one.samples for one in found]) - least[:, None])
    value = float(np.median(samples))
    ends = np.array([[one.interval.low - one.median, one.interval.high - one.median] for one in found])
    down, up = np.hypot.reduce(np.sort(weights[:, None] * ends), axis=0)
    conditions = of_all(one.conditions for one in found).within_bounds("least squares over the numbers of ranks")
    bounds = Interval(value - float(down), value + float(up), found[0].interval.confidence)
    return Statistic(
        f"serial share by {law}'s law", tuple(samples.tolist()), "%", conditions, value=value, bounds=bounds
    )


def _promised(law: Law, share: float, count: int) -> float:
    """Return the law's speedup; a share outside of 0 to 1 counts as the nearer end."""
    within = min(max(share, 0.0), 1.0)
    return amdahl_speedup(within, count) if law == "Amdahl" else gustafson_speedup(within, count)
