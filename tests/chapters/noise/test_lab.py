"""Rules on trial, with synthetic times of one program."""

import numpy as np
import pytest
from scipy.stats import binom

from tinytorch.chapters.noise import lab
from tinytorch.perf.measuring import Measurement


def test_alarms_that_come_together_are_worth_less() -> None:
    apart = lab.alarms("a rule", ([True] + [False] * 9) * 40)
    together = lab.alarms("a rule", [True] * 40 + [False] * 360)
    assert apart.median == together.median == 0.1
    assert together.interval.half_width > 2 * apart.interval.half_width


@pytest.mark.parametrize(("outside", "rate"), [(3, 0.394), (1, 0.0136)])
def test_families_alarm_as_often_as_coins_say(outside: int, rate: float) -> None:
    times = Measurement("times", tuple(np.random.default_rng(0).lognormal(0, 0.1, 2000).tolist()), "s")
    assert 1 - (1 - 2 * binom.cdf(outside, 15, 0.5)) ** 14 == pytest.approx(rate, abs=1e-3)
    found = lab.families(times, outside, comparisons=14)
    assert found.median == pytest.approx(rate, abs=4 * (rate / 4000) ** 0.5)
