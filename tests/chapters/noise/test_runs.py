"""What the chapter's experiments make of series whose truth is known."""

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, t

from tinytorch import models
from tinytorch.chapters.noise import runs as studies
from tinytorch.chapters.noise.base_and_change import Checked
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, Sample


def series(samples: npt.NDArray[np.float64]) -> Measurement:
    return Measurement("series", tuple(samples.tolist()), "s", Conditions(cpu_per_wall=0.5))


def processes(draw: Callable[[np.random.Generator], npt.NDArray[np.float64]], count: int = 8) -> list[Measurement]:
    """Return a series of each of several processes."""
    return [series(draw(np.random.default_rng(seed))) for seed in range(count)]


def test_ten_runs_and_a_normal_interval_cover_what_students_distribution_says() -> None:
    found = studies.coverage(
        processes(lambda draw: draw.normal(5, 1, 20_000)), 10, studies.mean_and_normal, np.mean, "coverage"
    )
    expected = 1 - 2 * t.sf(1.96, 9)
    assert abs(found.median - expected) < 0.006
    assert found.interval.high < 0.95
    assert (found.n, found.conditions.sample) == (8, Sample.PROCESSES)


def test_a_normal_distribution_has_few_far_samples_and_a_skewed_one_many() -> None:
    normal, skewed = (
        processes(draw) for draw in (lambda draw: draw.normal(0, 1, 20_000), lambda draw: draw.lognormal(0, 1, 20_000))
    )
    assert 0.00135 in studies.beyond_three_deviations(normal).interval
    assert studies.beyond_three_deviations(skewed).interval.low > 0.05


def walking(count: int, memory: float, draw: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return times whose logs keep the share ``memory`` of what they were at the call before."""
    logs = np.zeros(count)
    for at in range(1, count):
        logs[at] = memory * logs[at - 1] + draw.normal(0, 0.01)
    return np.exp(logs)


def test_shuffling_gives_intervals_their_promise_back() -> None:
    taken = processes(lambda draw: walking(3_000, 0.9, draw))
    shuffled = [studies.shuffled(one) for one in taken]
    assert [sorted(one.samples) for one in shuffled] == [sorted(one.samples) for one in taken]
    in_a_row = studies.coverage(taken, 15, studies.between_ranks, np.median, "in a row")
    mixed = studies.coverage(shuffled, 15, studies.between_ranks, np.median, "shuffled")
    assert in_a_row.interval.high < 0.8
    assert mixed.median == pytest.approx(1 - 2 * binom.cdf(3, 15, 0.5), abs=0.02)


def test_the_price_of_calls_that_keep_a_part_is_that_of_the_formula() -> None:
    """Coins of normal noise with correlation r have 2/π asin(r^k), by Sheppard; of shuffled ones each is worth one."""
    taken = processes(lambda draw: walking(30_000, 0.8, draw))
    two, twenty = studies.prices(taken, (2, 20))
    later = np.arange(1, 20)
    expected = 1 + 2 * ((1 - later / 20) * 2 / np.pi * np.arcsin(0.8**later)).sum()
    assert twenty["in_a_row"].median == pytest.approx(expected, rel=0.06)
    assert twenty["shuffled"].median == pytest.approx(1, abs=0.05)
    assert two["predicted"].value == pytest.approx(two["in_a_row"].median)
    assert studies.worth(taken, 20).median == pytest.approx(20 / expected, rel=0.06)


def test_processes_that_differ_are_seen_to() -> None:
    draw = np.random.default_rng(0)
    apart, alike = ([series(draw.normal(m, 0.01, 30)) for m in each] for each in ([1.0, 1.1, 1.2, 1.3], [1.0] * 20))
    found = studies.beyond_their_own(apart)
    assert (found.median, studies.count_above(found, 0, "processes").value) == (1, 4)
    assert studies.beyond_their_own(alike).median < 0.5
    for one in apart:
        own, ranks = studies.by_itself(one), studies.between_ranks(np.array(one.samples))
        assert ranks.low <= own.interval.low < own.median < own.interval.high <= ranks.high


def test_the_change_computes_the_same_and_checks() -> None:
    x = models.example("mlp", 3)
    base, changed = models.mlp().eval(), Checked(*models.mlp()).eval()
    assert np.array_equal(base(x).data, changed(x).data)
    with pytest.raises(ValueError, match="values"):
        changed(Tensor(np.full((1, 1, 8, 8), np.nan, np.float32)))


def test_of_many_drawn_intervals_nineteen_of_twenty_hold_the_truth() -> None:
    drawing = studies.repeated_intervals(400, 15, truth="truth", misses="misses", below="below", seed=3)
    missed = len(re.findall(">misses<", drawing.svg(key="a", alt="b")))
    assert missed == pytest.approx(400 * 0.05, abs=4 * np.sqrt(400 * 0.05 * 0.95))
