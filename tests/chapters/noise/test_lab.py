"""Rules on trial: what they say of made times of one program."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from tinytorch.chapters.noise import lab, order
from tinytorch.perf.measuring import Measurement

ALARM, QUIET = (True, 0.1), (False, 0.1)


def test_alarms_that_come_together_are_worth_less() -> None:
    apart = lab.alarms("a rule", ([ALARM] + [QUIET] * 9) * 40)
    together = lab.alarms("a rule", [ALARM] * 40 + [QUIET] * 360)
    assert (apart.trials, apart.different, apart.reach.median) == (400, 40, 0.1)
    assert apart.rate.median == together.rate.median == 0.1
    wide, narrow = together.rate.interval, apart.rate.interval
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


class Clock:
    """A clock in nanoseconds, for calls that take what ``seconds`` says of their number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: Callable[[int], float]) -> None:
        self.now, self.calls, self.seconds = 0, 0, seconds
        monkeypatch.setattr("tinytorch.chapters.noise.lab.time.perf_counter_ns", lambda: self.now)

    def __call__(self) -> None:
        self.calls += 1
        self.now += round(1e9 * self.seconds(self.calls))


def test_a_slow_drift_alarms_the_rule_of_blocks_and_not_that_of_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0).normal(0, 1e-6, 10_000)
    clock = Clock(monkeypatch, lambda call: 1e-3 + 2e-6 * call + noise[call])
    in_sequence, by_mean, in_turns = lab.against_itself(clock, trials=20)
    assert clock.calls == 20 * (5 + 20)
    assert in_sequence.different == 20
    assert by_mean.different <= 2
    assert in_turns.different <= 2


def test_neighbours_come_and_go_before_each_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the halves of a trial had the same company a t-test sees nothing, and everything where they had not."""
    noise = np.random.default_rng(0).normal(0, 1e-6, 10_000)
    beside = order.Neighbours([])
    clock = Clock(monkeypatch, lambda call: (2.5e-3 if beside.running else 1e-3) + noise[call])
    in_sequence, by_mean, in_turns = lab.against_itself(clock, trials=100, beside=beside)
    # Two coins differ in half of all trials; where they agree one in twenty is a false alarm.
    low, high = binom.interval(0.999, 100, 0.525)
    assert low <= in_sequence.different <= high
    assert max(by_mean.different, in_turns.different) <= binom.ppf(0.999, 100, 0.05)


def test_both_rules_say_what_is_known_of_independent_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test at 5 % alarms in a twentieth of the trials."""
    draw = np.random.default_rng(1)
    in_sequence, _, in_turns = lab.against_itself(Clock(monkeypatch, lambda _: draw.normal(1e-3, 5e-5)), trials=400)
    assert 0.02 <= in_sequence.rate.median <= 0.09
    assert in_turns.rate.median <= 0.09
    # Student's interval of ten times beside ten with a deviation of a twentieth reaches 2.1 √(2/10) of it.
    assert in_sequence.reach.median == pytest.approx(2.1 * 0.2**0.5 * 0.05, rel=0.1)
    steady = lab.against_itself(Clock(monkeypatch, lambda _: 1e-3), trials=3)
    assert [(rule.different, rule.reach.median) for rule in steady] == [(0, 0)] * 3


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(ValueError, match="trials"):
        lab.against_itself(lambda: None, trials=0)
    with pytest.raises(ValueError, match="runs"):
        lab.against_itself(lambda: None, trials=3, runs=5)


@pytest.mark.parametrize(
    ("false", "trials", "verdict"),
    [(60, 400, "refuted"), (0, 400, "supported"), (20, 400, "supported"), (5, 100, "open")],
)
def test_alarms_are_rare_enough_if_they_are_as_rare_as_asked_for(false: int, trials: int, verdict: str) -> None:
    steps = np.diff(np.floor(np.arange(trials + 1) * false / trials))  # spread evenly over the trials
    rate = lab.alarms("a rule", [ALARM if step else QUIET for step in steps]).rate
    never = lab.alarms("no alarm", [QUIET] * 400).rate
    assert lab.rare_enough(never, rate, asked_for=0.05, passes=0.1).verdict == verdict


def test_families_alarm_as_often_as_coins_say() -> None:
    times = Measurement("times", tuple(np.random.default_rng(0).lognormal(0, 0.1, 2000).tolist()), "s")
    found = lab.families(times, {"plain": 3, "corrected": 1}, comparisons=14)
    assert found["plain"].missed.value == pytest.approx(2 * binom.cdf(3, 15, 0.5))
    assert found["plain"].predicted.value == pytest.approx(1 - (1 - 2 * binom.cdf(3, 15, 0.5)) ** 14)
    assert found["corrected"].predicted.value < 0.05
    for one in found.values():
        assert one.found.median == pytest.approx(one.predicted.value, abs=4 * (one.predicted.value / 4000) ** 0.5)
