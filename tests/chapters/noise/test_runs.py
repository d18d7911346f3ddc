"""What the chapter's experiments make of series whose truth is known."""

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, t

from tinytorch import models
from tinytorch.chapters.noise import runs as studies
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.processes import Fresh
from tinytorch.perf.measuring.statistics import Stated


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


def test_blocks_are_neighbours_and_leave_a_rest() -> None:
    assert studies.blocks(np.arange(7.0), 3).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="samples"):
        studies.blocks(np.arange(7.0), 8)


def test_a_normal_distribution_has_few_far_samples_and_a_skewed_one_many() -> None:
    normal, skewed = (
        processes(draw) for draw in (lambda draw: draw.normal(0, 1, 20_000), lambda draw: draw.lognormal(0, 1, 20_000))
    )
    assert 0.00135 in studies.beyond_three_deviations(normal).interval
    assert studies.beyond_three_deviations(skewed).interval.low > 0.05
    with pytest.raises(ValueError, match="equal"):
        studies.beyond_three_deviations([series(np.array([1.0, 1.0, 1.0, 2.0]))])


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
    assert studies.BY_RANKS.value == pytest.approx(1 - 2 * binom.cdf(3, 15, 0.5))
    assert mixed.median == pytest.approx(studies.BY_RANKS.value, abs=0.02)


def test_the_price_of_calls_that_keep_a_part_is_that_of_the_formula() -> None:
    """Coins of normal noise with correlation r have 2/π asin(r^k), by Sheppard; of shuffled ones each is worth one."""
    taken = processes(lambda draw: walking(30_000, 0.8, draw))
    found = studies.prices(taken, (2, 20))
    later = np.arange(1, 20)
    expected = 1 + 2 * ((1 - later / 20) * 2 / np.pi * np.arcsin(0.8**later)).sum()
    assert found[20].in_a_row.median == pytest.approx(expected, rel=0.06)
    assert found[20].shuffled.median == pytest.approx(1, abs=0.05)
    assert found[2].predicted.value == pytest.approx(found[2].in_a_row.median)
    assert studies.worth(found, 20).median == pytest.approx(20 / expected, rel=0.06)
    r = 2 / np.pi * np.arcsin(0.8)
    assert found[20].predicted.value == pytest.approx(1 + 2 * ((1 - later / 20) * r**later).sum(), rel=0.05)
    assert found[20].in_a_row.conditions.sample == Sample.PROCESSES


def timed(medians: list[float], noise: float) -> list[Measurement]:
    draw = np.random.default_rng(0)
    return [Measurement("base", tuple(draw.normal(m, noise, 30)), "s", Conditions(cpu_per_wall=0.9)) for m in medians]


def test_processes_that_differ_are_seen_to() -> None:
    apart, alike = timed([1.0, 1.1, 1.2, 1.3], 0.001), timed([1.0] * 4, 0.01)
    assert (studies.beyond_their_own(apart).median, studies.erring(studies.beyond_their_own(apart)).value) == (1, 4)
    for row, one in zip(studies.repeats(apart), apart, strict=True):
        ranks = studies.between_ranks(np.array(one.samples))
        assert ranks.low <= row["time"].interval.low < row["time"].median < row["time"].interval.high <= ranks.high
    assert studies.beyond_their_own(alike).median < 0.5
    assert studies.moved_between(apart).maximum == pytest.approx(0.15 / 1.15, abs=0.005)
    assert studies.known_within(apart).maximum < 0.001
    for each in (studies.moved_between(apart), studies.known_within(apart), studies.beyond_their_own(apart)):
        assert each.conditions.cpu_per_wall == 0.9


def test_the_first_call_is_held_against_the_steady_ones_of_its_process() -> None:
    cold = [10.0, *(4.0,) * 9, *(2.0,) * 10]
    found = [Fresh(tuple(speed * each for each in cold), {"base": timed([1.0], 0.01)[0]}) for speed in (1.0, 3.0)]
    first = studies.first_over_steady(found)
    assert (first.samples, first.conditions.sample) == ((5, 5), "processes")


def test_settled_calls_begin_after_the_first_of_each_process() -> None:
    found = [
        Fresh((9.0, 2.0, 1.0), {"base": timed([1.0], 0.01)[0]}),
        Fresh((8.0, 3.0), {"base": timed([1.0], 0.01)[0]}),
    ]
    settled = studies.settled_calls(found, 1)
    assert [one.samples for one in settled] == [(2.0, 1.0), (3.0,)]
    assert settled[0].conditions.cpu_per_wall == 0.9


def test_what_is_missed_is_what_is_not_held() -> None:
    held = Measurement("held", (0.9,) * 6, "%", law=Stated(0.9, 0.88, 0.95, 0.95))
    found = studies.missing(held)
    assert (found.median, found.interval.low, found.interval.high) == pytest.approx((0.1, 0.05, 0.12), rel=1e-3)


def test_a_process_times_the_base_the_same_again_and_a_change_that_computes_the_same_and_checks() -> None:
    made = studies.base_and_change()
    assert [*made] == ["base", "again", "changed"]
    for function in made.values():
        function()
    base, changed = models.mlp().eval(), studies.Checked(*models.mlp()).eval()
    x = models.as_input(models.entry("mlp").example_input(3))
    assert np.array_equal(base(x).data, changed(x).data)
    assert [p.shape for p in changed.parameters()] == [p.shape for p in base.parameters()]
    with pytest.raises(ValueError, match="values"):
        changed(Tensor(np.full((1, 1, 8, 8), np.nan, np.float32)))


@pytest.mark.parametrize(("change", "verdict"), [(1.1, "slower"), (0.9, "faster")])
def test_a_change_is_judged_over_processes(change: float, verdict: str) -> None:
    draw, found = np.random.default_rng(0), []
    for _ in range(8):
        times = {
            name: Measurement(name, tuple(length * np.exp(draw.normal(0, 1e-4, 20))), "s")
            for name, length in (("base", 1.0), ("again", 1.0), ("changed", change))
        }
        found.append(Fresh((), times))
    judged = studies.judged_changes(found)
    assert {name: one.verdict for name, one in judged.items()} == {"again": "no difference", "changed": verdict}
    assert {(one.n, one.interval.confidence) for one in judged.values()} == {(8, 0.975)}


def test_of_many_drawn_intervals_nineteen_of_twenty_hold_the_truth() -> None:
    drawing = studies.repeated_intervals(400, 15, truth="truth", misses="misses", below="below", seed=3)
    missed = len(re.findall(">misses<", drawing.svg(key="a", alt="b")))
    assert missed == pytest.approx(400 * 0.05, abs=4 * np.sqrt(400 * 0.05 * 0.95))
