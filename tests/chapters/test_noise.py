"""Rules, neighbours and intervals, on series whose truth is known."""

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, norm, t

from tinytorch import models
from tinytorch.chapters.noise import lab, order, runs
from tinytorch.chapters.noise.base_and_change import Checked
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, Sample


def test_alarms_that_come_together_are_worth_less() -> None:
    apart = lab.share_of("a rule", ([True] + [False] * 9) * 40)
    together = lab.share_of("a rule", [True] * 40 + [False] * 360)
    assert apart.median == together.median == 0.1
    assert together.interval.half_width > 2 * apart.interval.half_width


@pytest.mark.parametrize(("outside", "rate"), [(3, 0.394), (1, 0.0136)])
def test_families_alarm_as_often_as_coins_say(outside: int, rate: float) -> None:
    times = Measurement("times", tuple(np.random.default_rng(0).lognormal(0, 0.1, 2000).tolist()), "s")
    assert 1 - (1 - 2 * binom.cdf(outside, 15, 0.5)) ** 14 == pytest.approx(rate, abs=1e-3)
    found = lab.families(times, outside, comparisons=14)
    assert found.median == pytest.approx(rate, abs=4 * (rate / 4000) ** 0.5)


def test_neighbours_are_held_up_and_end_with_the_body_also_after_an_error() -> None:
    started = []

    def failing() -> None:
        with order.neighbours() as beside:
            started.extend(beside.processes)
            assert all(one.poll() is None for one in started)
            beside.run(False)
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        failing()
    assert started
    assert all(one.returncode is not None for one in started)


def test_power_of_normal_pairs_is_that_of_the_formula() -> None:
    samples = np.exp(np.random.default_rng(0).normal(0, 0.02, 3200))
    pairs = Measurement("pairs", tuple(samples.tolist()), "")
    assert lab.scatter(pairs) == pytest.approx(0.02, rel=0.05)
    assert lab.pairs_for(pairs, 0.01).value == pytest.approx(16.5 * 4, rel=0.1)
    assert [runs.samples_outside(n)[0] for n in (15, 66, 200)] == [binom.ppf(0.025, n, 0.5) - 1 for n in (15, 66, 200)]
    for number, difference, expected in ((264, 0.005, 0.90), (66, 0.005, norm.sf(1.96 - 1.62)), (66, 0.0, 0.05)):
        assert lab.power(pairs, number, difference).median == pytest.approx(expected, abs=0.04)


def test_the_median_of_laplace_noise_varies_less_than_that_of_normal_noise() -> None:
    """Of the same median absolute deviation, ln 2 times the scale, Laplace noise is denser at its median."""
    draw = np.random.default_rng(0)
    normal, laplace = (
        Measurement("pairs", tuple(np.exp(logs).tolist()), "")
        for logs in (draw.normal(0, 0.02, 20_000), draw.laplace(0, 0.02, 20_000))
    )
    assert lab.spread_of_median(normal, 66).median == pytest.approx(1, abs=0.06)
    expected = 1 / ((np.pi / 2) ** 0.5 * 1.4826 * np.log(2))
    assert lab.spread_of_median(laplace, 264).median == pytest.approx(expected, abs=0.09)


def test_a_paired_test_ignores_what_both_sides_of_a_pair_share() -> None:
    draw = np.random.default_rng(0)
    shared = np.exp(draw.normal(0, 0.5, 10))
    first, second = (shared * np.exp(draw.normal(0, 0.01, 10)) for _ in range(2))
    assert lab.by_paired_test(first, 1.1 * second)
    assert not lab.by_unpaired_test(first, 1.1 * second)
    assert not lab.by_paired_test(first, second)


def test_calls_are_timed_after_themselves_and_after_another() -> None:
    called: list[str] = []

    def function() -> None:
        called.append("function")
        sum(range(20_000))

    after = order.after_each(function, lambda: called.append("other"))
    assert set(after) == {"itself", "other"}
    rounds = after["itself"].n + 2
    assert after["other"].n + 2 == rounds == called.count("other")
    assert called.count("function") == 3 * rounds


def series(samples: npt.NDArray[np.float64]) -> Measurement:
    return Measurement("series", tuple(samples.tolist()), "s", Conditions(cpu_per_wall=0.5))


def processes(draw: Callable[[np.random.Generator], npt.NDArray[np.float64]], count: int = 8) -> list[Measurement]:
    """Return a series of each of several processes."""
    return [series(draw(np.random.default_rng(seed))) for seed in range(count)]


def test_ten_runs_and_a_normal_interval_cover_what_students_distribution_says() -> None:
    found = runs.coverage(
        processes(lambda draw: draw.normal(5, 1, 20_000)), 10, runs.mean_and_normal, np.mean, "coverage"
    )
    expected = 1 - 2 * t.sf(1.96, 9)
    assert abs(found.median - expected) < 0.006
    assert found.interval.high < 0.95
    assert (found.n, found.conditions.sample) == (8, Sample.PROCESSES)


def test_a_normal_distribution_has_few_far_samples_and_a_skewed_one_many() -> None:
    normal, skewed = (
        processes(draw) for draw in (lambda draw: draw.normal(0, 1, 20_000), lambda draw: draw.lognormal(0, 1, 20_000))
    )
    assert 0.00135 in runs.beyond_three_deviations(normal).interval
    assert runs.beyond_three_deviations(skewed).interval.low > 0.05


def walking(count: int, memory: float, draw: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return times whose logs keep the share ``memory`` of what they were at the call before."""
    logs = np.zeros(count)
    for at in range(1, count):
        logs[at] = memory * logs[at - 1] + draw.normal(0, 0.01)
    return np.exp(logs)


def test_shuffling_gives_intervals_their_promise_back() -> None:
    taken = processes(lambda draw: walking(3_000, 0.9, draw))
    shuffled = [runs.shuffled(one) for one in taken]
    assert [sorted(one.samples) for one in shuffled] == [sorted(one.samples) for one in taken]
    in_a_row = runs.coverage(taken, 15, runs.between_ranks, np.median, "in a row")
    mixed = runs.coverage(shuffled, 15, runs.between_ranks, np.median, "shuffled")
    assert in_a_row.interval.high < 0.8
    assert mixed.median == pytest.approx(1 - 2 * binom.cdf(3, 15, 0.5), abs=0.02)


def test_variance_inflation_of_correlated_calls_is_that_of_the_formula() -> None:
    """Coins of normal noise with correlation r have 2/π asin(r^k), by Sheppard; of shuffled ones each is worth one."""
    taken = processes(lambda draw: walking(30_000, 0.8, draw))
    two, twenty = runs.variance_inflation(taken, (2, 20))
    later = np.arange(1, 20)
    expected = 1 + 2 * ((1 - later / 20) * 2 / np.pi * np.arcsin(0.8**later)).sum()
    assert twenty["in_a_row"].median == pytest.approx(expected, rel=0.06)
    assert twenty["shuffled"].median == pytest.approx(1, abs=0.05)
    assert two["predicted"].value == pytest.approx(two["in_a_row"].median)
    assert runs.effective_sample_size(taken, 20).median == pytest.approx(20 / expected, rel=0.06)


def test_processes_that_differ_are_seen_to() -> None:
    draw = np.random.default_rng(0)
    apart, alike = ([series(draw.normal(m, 0.01, 30)) for m in each] for each in ([1.0, 1.1, 1.2, 1.3], [1.0] * 20))
    found = runs.beyond_their_own(apart)
    assert (found.median, runs.count_above(found, 0, "processes").value) == (1, 4)
    assert runs.beyond_their_own(alike).median < 0.5
    for one in apart:
        own, ranks = runs.by_itself(one), runs.between_ranks(np.array(one.samples))
        assert ranks.low <= own.interval.low < own.median < own.interval.high <= ranks.high


def test_the_change_computes_the_same_and_checks() -> None:
    x = models.example("mlp", 3)
    base, changed = models.mlp().eval(), Checked(*models.mlp()).eval()
    assert np.array_equal(base(x).data, changed(x).data)
    with pytest.raises(ValueError, match="values"):
        changed(Tensor(np.full((1, 1, 8, 8), np.nan, np.float32)))


def test_of_many_drawn_intervals_nineteen_of_twenty_hold_the_truth() -> None:
    drawing = runs.repeated_intervals(400, 15, truth="truth", misses="misses", below="below", seed=3)
    missed = len(re.findall(">misses<", drawing.svg(key="a", alt="b")))
    assert missed == pytest.approx(400 * 0.05, abs=4 * np.sqrt(400 * 0.05 * 0.95))
