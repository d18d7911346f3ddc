"""The judge of claims: bounds, few samples, what is counted, several together, and what must not get a verdict."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import verdicts_synthetic as synthetic
from tests.perf.measuring.test_comparison import taken_in_turns
from tinytorch.perf.measuring import Measurement, Statistic, quantity, quotient, ratio
from tinytorch.perf.measuring.comparison import FASTER, SLOWER, compare_paired
from tinytorch.perf.measuring.judge import (
    CANNOT_TELL,
    REFUTED,
    SUPPORTED,
    doubt,
    verdict_between,
    verdict_between_all,
    verdict_of_all,
)
from tinytorch.perf.measuring.statistics import Interval, median_interval

#: Around 2, with an interval of about 0.1 to each side.
MEASURED = Measurement("ratio", tuple(np.random.default_rng(5).normal(2, 0.2, 60).tolist()), "")
OPPOSITE = {SUPPORTED: REFUTED, REFUTED: SUPPORTED, CANNOT_TELL: CANNOT_TELL}


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.0, 3.0, SUPPORTED),
        (None, 3.0, SUPPORTED),
        (1.0, None, SUPPORTED),
        (3.0, None, REFUTED),
        (None, 1.0, REFUTED),
        (4.0, 5.0, REFUTED),
        (2.0, None, CANNOT_TELL),
        (None, 2.0, CANNOT_TELL),
        (1.99, 2.01, CANNOT_TELL),
    ],
)
def test_the_whole_interval_decides(low: float | None, high: float | None, verdict: str) -> None:
    assert verdict_between(MEASURED, low, high) == verdict


def test_a_doubt_names_what_leaves_the_verdict_open() -> None:
    assert doubt(MEASURED, 2.0) == "its interval holds 2"
    assert doubt(Measurement("few", (3.0, 4.0, 5.0), "s"), 2.0) == "it takes 6 samples to judge by, but there are 3"
    wandering = Measurement("ratio", tuple((4 * np.exp(np.linspace(-0.3, 0.3, 15))).tolist()), "")
    assert wandering.interval.low > 2.5
    assert verdict_between(wandering, low=2.5) == CANNOT_TELL
    assert doubt(wandering, 2.5) == "15 samples like these do not rule out noise that wanders as far as 2.5"
    with pytest.raises(ValueError, match="to leave a doubt, not 100"):
        doubt(MEASURED, 100.0)


def test_bounds_are_needed_and_in_order() -> None:
    with pytest.raises(ValueError, match="low or high"):
        verdict_between(MEASURED)
    with pytest.raises(ValueError, match="must not be above"):
        verdict_between(MEASURED, 3, 1)
    with pytest.raises(ValueError, match="together must be at least 1, not 0"):
        verdict_between(MEASURED, 1, together=0)


@pytest.mark.parametrize(
    ("value", "unit"),
    [(1.0, "s"), (2.0, "ms"), (1.0, "B/s"), (3.0, "items/s"), (1.0, "%"), (0.0, "points"), (1.5, "B")],
)
def test_one_sample_that_was_not_counted_decides_nothing(value: float, unit: str) -> None:
    once = Measurement("once", (value,), unit)
    assert not once.is_counted
    assert verdict_between(once, high=1e9) == verdict_between(once, low=-1e9) == CANNOT_TELL


def test_one_ratio_of_times_is_no_count_even_if_it_is_one() -> None:
    old, new = (
        Measurement(name, (1.0,), "s", {"cpu_per_wall": 1.0, "interleaved_with": [other]})
        for name, other in (("old", "new"), ("new", "old"))
    )
    assert ratio(old, new).median == 1
    assert verdict_between(ratio(old, new), low=1) == CANNOT_TELL


def test_a_count_is_exact() -> None:
    for counted in (
        quantity(1024, "B", "bytes"),
        Measurement("bytes", (1024.0,), "B"),
        quantity(1024, "parameters", "p"),
    ):
        assert verdict_between(counted, low=1024, high=1024) == SUPPORTED
        assert verdict_between(counted, low=1024, strict=True) == REFUTED
        assert verdict_between(counted, high=1023) == REFUTED


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_below_six_samples_nothing_is_decided(n: int) -> None:
    few = Measurement("few", tuple(np.linspace(1, 1.001, n)), "s")
    assert verdict_between(few, low=0.1) == verdict_between(few, high=10.0) == CANNOT_TELL
    assert verdict_between(Measurement("alike", (2.0,) * n, "s"), low=1) == CANNOT_TELL
    assert verdict_between(Measurement("alike", (2.0,) * 6, "s"), low=1) == SUPPORTED


def test_to_beat_is_more_than_to_equal() -> None:
    seven = Measurement("differences", (0.0,) * 7, "points", {"samples_are": "seeds"})
    assert verdict_between(seven, low=0.0) == SUPPORTED
    assert verdict_between(seven, low=0.0, strict=True) == REFUTED
    assert verdict_between(seven, high=0.0, strict=True) == REFUTED
    some = Measurement("differences", (0.0,) * 5 + (0.003, 0.006), "points", {"samples_are": "seeds"})
    assert verdict_between(some, low=0.0) == SUPPORTED
    assert verdict_between(some, low=0.0, strict=True) == CANNOT_TELL
    all_better = Measurement("differences", (0.001,) * 7, "points", {"samples_are": "seeds"})
    assert verdict_between(all_better, low=0.0, strict=True) == SUPPORTED


@given(
    st.lists(st.floats(0.1, 10), min_size=1, max_size=40),
    st.floats(0.05, 12),
    st.sampled_from(["s", ""]),
    st.integers(1, 20),
)
def test_a_claim_and_its_opposite_exclude_each_other(
    samples: list[float], bound: float, unit: str, together: int
) -> None:
    """At least is the opposite of strictly less, whatever the samples are."""
    measurement = Measurement("m", tuple(samples), unit)
    at_least = verdict_between(measurement, low=bound, together=together)
    less = verdict_between(measurement, high=bound, strict=True, together=together)
    assert less == OPPOSITE[at_least]
    if together > 1 and at_least != CANNOT_TELL:
        assert verdict_between(measurement, low=bound) == at_least


def test_comparisons_that_are_taken_together_need_more_confidence() -> None:
    draw, families, each_alone = np.random.default_rng(1), 0, 0
    for rows in draw.normal(0, 0.02, (150, 8, 40)):
        measured = [Measurement("ratio", tuple(row), "") for row in np.exp(rows)]
        families += any(verdict_between(one, low=1, together=8) != CANNOT_TELL for one in measured)
        each_alone += any(verdict_between(one, low=1) != CANNOT_TELL for one in measured)
    assert families <= 0.09 * 150 < each_alone


def test_all_of_several_are_refuted_by_one_with_correction_and_supported_by_all_without() -> None:
    draw, refuted = np.random.default_rng(2), 0
    for rows in draw.normal(0, 0.02, (150, 8, 40)):
        refuted += verdict_between_all([Measurement("ratio", tuple(row), "") for row in np.exp(rows)], low=1) == REFUTED
    assert refuted <= 0.06 * 150
    near = next(
        bound
        for bound in np.linspace(1.999, 1.5, 500)
        if verdict_between(MEASURED, low=bound, together=8) == CANNOT_TELL
        and verdict_between(MEASURED, low=bound) == SUPPORTED
    )
    assert verdict_between_all([MEASURED] * 8, low=near) == SUPPORTED
    assert verdict_between_all([MEASURED] * 7 + [Measurement("one", (1.0,), "s")], low=near) == CANNOT_TELL
    assert verdict_between_all([], low=1) == CANNOT_TELL
    assert verdict_between_all([MEASURED, quantity(1, "", "one")], low=1, strict=True) == REFUTED


def test_a_claim_of_parts_is_refuted_by_one_and_supported_by_all() -> None:
    assert verdict_of_all([SUPPORTED, REFUTED, CANNOT_TELL]) == REFUTED
    assert verdict_of_all([SUPPORTED, CANNOT_TELL]) == CANNOT_TELL
    assert verdict_of_all([SUPPORTED, SUPPORTED]) == SUPPORTED
    assert verdict_of_all([]) == CANNOT_TELL, "where nothing was judged"
    with pytest.raises(ValueError, match="not faster"):
        verdict_of_all([SUPPORTED, "faster"])


def test_a_statistic_is_judged_by_its_own_interval_widened_for_more_confidence() -> None:
    wins = Statistic(
        "share", (1.0,) * 90 + (0.0,) * 10, "%", {"samples_are": "trials"}, value=0.9, bounds=Interval(0.84, 0.96, 0.95)
    )
    assert verdict_between(wins, low=0.8) == SUPPORTED
    # 0.06 are 1.96 standard errors, and 2.73 for eight comparisons are 0.084.
    assert wins.interval_at(1 - 0.05 / 8).half_width == pytest.approx(0.084, abs=0.001)
    assert verdict_between(wins, low=0.83, together=8) == CANNOT_TELL
    weak = Statistic("share", (1.0, 0.0), "%", {}, value=0.9, bounds=Interval(0.84, 0.96, 0.75))
    assert verdict_between(weak, low=0.1) == CANNOT_TELL
    once = Statistic("share right", (0.9,), "", {}, value=0.9, bounds=Interval(0.84, 0.96, 0.95))
    assert verdict_between(once, low=0.8) == SUPPORTED


def test_a_statistic_of_a_series_that_wanders_is_judged_with_care() -> None:
    drifting = Measurement("times", tuple(np.exp(np.linspace(0, 0.2, 60))), "s")
    tail = drifting.tail(90)
    assert tail.interval.low > 1.1
    assert verdict_between(tail, low=1.1) == CANNOT_TELL
    assert verdict_between(tail, low=0.1) == SUPPORTED


def test_a_claim_and_a_comparison_agree_on_the_same_ratio() -> None:
    draw = np.random.default_rng(3)
    for level, memory, n in ((0.0, 0.0, 30), (0.02, 0.0, 30), (0.02, 0.7, 30), (-0.03, 0.3, 15), (0.3, 0.9, 8)):
        for _ in range(20):
            noise = synthetic.ar1(memory)(draw, 1, n)[0]
            old, new = taken_in_turns(["old", "new"], np.exp([level + noise, 0 * noise]))
            words = {FASTER: SUPPORTED, SLOWER: REFUTED}
            compared = words.get(compare_paired(old, new, None).verdict, CANNOT_TELL)
            assert verdict_between(ratio(old, new), low=1) == compared
            assert verdict_between(compare_paired(old, new, None).ratio, low=1) == compared


def test_a_quotient_of_counts_is_exact_and_of_one_timed_sample_decides_nothing() -> None:
    smaller = quotient(quantity(4096, "B", "float"), quantity(1000, "B", "codes"), "smaller")
    assert verdict_between(smaller, 4, 4.1) == SUPPORTED
    timed = quotient(MEASURED, Measurement("peak", (1.0,), "s"), "share")
    assert verdict_between(timed, low=0.001) == CANNOT_TELL
    assert verdict_between(quotient(MEASURED, quantity(2, "", "two"), "share"), 0.8, 1.2) == SUPPORTED


#: The kinds of noise on which rules that take samples for independent are wrong most often.
HARD = ("AR(1), 0.7", "AR(1), 0.9", "1/f", "random walk")


@pytest.mark.parametrize("kind", [*HARD, "independent, normal", "independent, two levels"])
@pytest.mark.parametrize("pairs", [15, 30])
def test_noise_of_any_memory_gets_few_verdicts(kind: str, pairs: int) -> None:
    """A few hundred trials of what `python -m benchmarks.verdicts --synthetic` counts in full."""
    trials = 250
    series = synthetic.KINDS[kind](np.random.default_rng(pairs), trials, pairs)
    wrong = sum(verdict_between(Measurement("r", tuple(row), ""), low=1) != CANNOT_TELL for row in np.exp(series))
    # Of 250 trials with a chance of 6 % more than 24 are wrong once in a hundred times.
    assert wrong <= 24
    as_if_independent = sum(0 not in median_interval(row) for row in series)
    assert (as_if_independent > 50) == (kind in HARD)


@pytest.mark.parametrize("delta", [None, 0.01])
def test_a_difference_that_is_there_is_found(delta: float | None) -> None:
    series = synthetic.normal(np.random.default_rng(0), 100, 100) + synthetic.DIFFERENCE
    found = sum(compare_paired(row, np.ones(100), delta).verdict == FASTER for row in np.exp(series))
    assert found >= 95


def test_few_processes_on_two_levels_get_few_verdicts() -> None:
    assert synthetic.wrong_processes(np.random.default_rng(0), 300) <= 0.06


def test_no_rule_finds_more_than_the_ratio_of_likelihoods() -> None:
    """Of few pairs not even that is enough, of more it is, and a large shift is always found."""
    few, most, far = (
        synthetic.bound(np.random.default_rng(0), n, by, 1000) for n, by in ((15, 1.5), (30, 1.5), (15, 6))
    )
    assert few < 0.8
    assert min(most, far) > 0.95
    series = synthetic.normal(np.random.default_rng(0), 200, 15) + 1.5 * synthetic.NOISE
    assert synthetic.decided(series).without <= few


@pytest.mark.parametrize("made", [synthetic.flicker, synthetic.random_walk, synthetic.sticky, synthetic.burst])
def test_made_noise_is_what_it_says(made: Callable[..., npt.NDArray[np.float64]]) -> None:
    rows = made(np.random.default_rng(0), 400, 64)
    assert rows.shape == (400, 64)
    assert np.mean(rows) == pytest.approx(0, abs=0.005)
    within = rows.std(axis=1, ddof=1)
    if made in (synthetic.flicker, synthetic.random_walk):
        assert within == pytest.approx(synthetic.NOISE)
        assert np.std(rows.mean(axis=1)) > 0.7 * synthetic.NOISE, "slow parts shift the whole cut"
    powers = np.square(np.abs(np.fft.rfft(rows - rows.mean(axis=1, keepdims=True)))).mean(axis=0)
    if made is synthetic.flicker:
        slope = np.polyfit(np.log(np.arange(3, 33)), np.log(powers[3:]), 1)[0]
        assert slope == pytest.approx(-1, abs=0.2)
