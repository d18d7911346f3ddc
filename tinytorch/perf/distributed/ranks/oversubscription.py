"""More ranks than cores: their times are kept and marked, and no verdict is made of them."""

from __future__ import annotations

from dataclasses import dataclass

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import Comparison, compare_paired

#: The mark in a measurement's conditions.
MARK = "oversubscribed"
#: Why there is no verdict, as the end of a sentence.
BECAUSE = "more ranks than cores took these times, so they tell how the system shares its cores, not how ranks scale"


@dataclass(frozen=True)
class Withheld:
    """What stands in the place of a judgement that would mean nothing.

    Attributes:
        because: why, in words. verdict: None, always.
    """

    because: str = BECAUSE
    verdict: None = None


def is_oversubscribed(*measurements: Measurement) -> bool:
    """Return whether more ranks than cores took one of the measurements."""
    return any(measurement.how.get(MARK) for measurement in measurements)


def compare_on_ranks(
    baseline: Measurement, candidate: Measurement, delta: float | None = 0.01, *, seed: int = 0
) -> Comparison | Withheld:
    """Return `compare_paired` of two measurements taken on ranks, or `Withheld` if they were oversubscribed.

    Raises:
        ValueError: as `compare_paired`.
    """
    if is_oversubscribed(baseline, candidate):
        return Withheld()
    return compare_paired(baseline, candidate, delta, seed=seed)
