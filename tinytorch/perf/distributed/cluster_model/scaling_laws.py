"""Amdahl's and Gustafson's laws: the speedup that a serial share leaves of many ranks, and the share that fits steps.

Modelled, whoever measured the share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tinytorch.perf.measuring import Measurement, Modelled, Unmeasured, ratio
from tinytorch.perf.measuring.conditions import of_all
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.profiling.breakdown import amdahl

Way = Literal["strong", "weak"]


def gustafson(serial: float, ranks: int) -> float:
    """Return the speedup of work that grows with p ranks, s + (1 - s) p: weak scaling's, as `amdahl` is strong one's.

    ``serial`` is the share s of the time on all ranks, not on one, in which only one could work. Source: J. L.
    Gustafson, 1988 (doi:10.1145/42411.42415).
    """
    return serial + (1 - serial) * ranks


@dataclass(frozen=True)
class LawFit:
    """A law, and the serial share of time that fits measured steps best: below 0 where ranks do more than theirs."""

    law: Literal["Amdahl", "Gustafson"]
    share: Statistic

    @property
    def serial(self) -> Statistic | Unmeasured:
        """The share, if it is one, from 0 to 1: the law knows no others."""
        if 0 <= self.share.median <= 1:
            return self.share
        return Unmeasured("what is lost here is no share of a step: by the law it lies outside of 0 to 1")

    def speedup(self, count: int) -> Modelled:
        """Return the speedup that the law promises for ``count`` ranks, measured or not."""
        share = self.share.median
        promised = amdahl(1 - share, count) if self.law == "Amdahl" else gustafson(share, count)
        return Modelled(promised, "", f"speedup of {count} ranks", f"{self.law}'s law")


def fit_law(way: Way, times: Mapping[int, Measurement]) -> LawFit:
    """Return Amdahl's law for strong scaling, or Gustafson's for weak, through times by number of ranks, 1 among them.

    On p ranks Amdahl's law says T(p) / T(1) = s + (1 - s) / p of the same work, and Gustafson's p T(1) / T(p) =
    p - s (p - 1) of p times the work. Each round gives the s with the least squares over all p; of a single p Amdahl's
    is the experimentally determined serial fraction of A. H. Karp and H. P. Flatt, 1990 (doi:10.1145/78607.78614).
    The interval of s has the ends of the ratios, weighed as these are, in quadrature.
    """
    counts = sorted(count for count in times if count > 1)
    ranks = np.array(counts, np.float64)
    law: Literal["Amdahl", "Gustafson"] = "Amdahl" if way == "strong" else "Gustafson"
    if way == "strong":
        found = [ratio(times[count], times[1]) for count in counts]
        least, reach = 1 / ranks, 1 - 1 / ranks  # T(p) / T(1) = 1/p + s (1 - 1/p)
    else:
        found = [ratio(times[1], times[count]).scaled(count) for count in counts]
        least, reach = ranks, 1 - ranks  # p T(1) / T(p) = p + s (1 - p)
    weights = reach / (reach**2).sum()
    samples = weights @ (np.array([one.samples for one in found]) - least[:, None])
    value = float(np.median(samples))
    ends = np.array([[one.interval.low - one.median, one.interval.high - one.median] for one in found])
    down, up = np.hypot.reduce(np.sort(weights[:, None] * ends), axis=0)
    conditions = of_all(one.conditions for one in found).within_bounds("least squares over the numbers of ranks")
    bounds = Interval(value - float(down), value + float(up), found[0].interval.confidence)
    name = f"serial share by {law}'s law"
    return LawFit(law, Statistic(name, tuple(samples.tolist()), "%", conditions, value=value, bounds=bounds))
