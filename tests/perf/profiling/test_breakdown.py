"""Amdahl's prediction from measured numbers: the law at their medians, and an interval made of both of theirs."""

import pytest

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.statistics import Known, Stated
from tinytorch.perf.profiling.breakdown import amdahl, predicted_speedup


def known(value: float, low: float, high: float, unit: str = "") -> Measurement:
    return Measurement("known", (low, value, high), unit, law=Stated(value, low, high, 0.95))


def exact(value: float) -> Measurement:
    return Measurement("exact", (value,), "", law=Known(value))


def test_a_prediction_is_no_part_of_what_its_share_is_part_of() -> None:
    share = Measurement("share", (0.5,) * 6, "%", Conditions(part_of="the run's time"))
    made = predicted_speedup(share, exact(4.0), "law").conditions
    assert (made.part_of, made.statistic) == (None, "Amdahl's law of the median")


@pytest.mark.parametrize(
    ("share", "times", "expected"),
    [
        (exact(0.5), exact(4), [amdahl(0.5, 4)] * 3),
        (known(0.5, 0.4, 0.6), exact(4), [amdahl(share, 4) for share in (0.4, 0.5, 0.6)]),
        (exact(0.5), known(4, 3, 5), [amdahl(0.5, times) for times in (3, 4, 5)]),
        (known(0.5, 0.4, 0.6), None, [1 / 0.6, 2, 1 / 0.4]),
        (exact(-0.1), None, [1] * 3),  # where noise puts a share outside of the whole
        (exact(1.2), None, [1000] * 3),
    ],
)
def test_ends_move_as_the_law_does(share: Measurement, times: Measurement | None, expected: list[float]) -> None:
    found = predicted_speedup(share, times, "law")
    assert [found.interval.low, found.median, found.interval.high] == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("speedup", [4.0, 0.25])
def test_both_sides_count(speedup: float) -> None:
    share, times = known(0.5, 0.4, 0.6), known(speedup, 0.8 * speedup, 1.2 * speedup)
    ends = [predicted_speedup(*sides, "law").interval for sides in ((share, times), (share, exact(speedup)))]
    assert ends[0].low < ends[1].low
    assert ends[0].high > ends[1].high
    twice = [predicted_speedup(share, times, name).interval for name in ("in one place", "in another")]
    assert twice[0] == twice[1], "one prediction of the same numbers is the other to the last digit"
