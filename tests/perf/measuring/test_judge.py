"""The judge of claims: bounds, few samples, what is counted, several together, and what must not get a verdict."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import verdicts_synthetic as synthetic
from tests.perf.measuring.test_comparison import taken_in_turns
from tinytorch.perf.measuring import Counted, Measurement, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions, Sample
from tinytorch.perf.measuring.judge import (
    Judgement,
    Verdict,
    decided,
    verdict_between,
    verdict_between_all,
    verdict_of_all,
    verdict_of_any,
    why_undecided,
)
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval, median_interval

#: Around 2, with an interval of about 0.1 to each side.
MEASURED = Measurement("ratio", tuple(np.random.default_rng(5).normal(2, 0.2, 60).tolist()), "")
OPPOSITE = {Verdict.SUPPORTED: Verdict.REFUTED, Verdict.REFUTED: Verdict.SUPPORTED, Verdict.OPEN: Verdict.OPEN}


def found(measurement: Measurement, low: float | None = None, high: float | None = None, **how: Any) -> Verdict:
    return verdict_between(measurement, low, high, **how).verdict


def found_of_all(measurements: list[Measurement], **ends: Any) -> Verdict:
    return verdict_between_all(measurements, **ends).verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.0, 3.0, Verdict.SUPPORTED),
        (None, 3.0, Verdict.SUPPORTED),
        (1.0, None, Verdict.SUPPORTED),
        (3.0, None, Verdict.REFUTED),
        (None, 1.0, Verdict.REFUTED),
        (4.0, 5.0, Verdict.REFUTED),
        (2.0, None, Verdict.OPEN),
        (None, 2.0, Verdict.OPEN),
        (1.99, 2.01, Verdict.OPEN),
    ],
)
def test_the_whole_interval_decides(low: float | None, high: float | None, verdict: str) -> None:
    assert found(MEASURED, low, high) == verdict


def test_an_open_verdict_says_why_and_how_many_samples_would_decide_it() -> None:
    def why(measurement: Measurement, end: float) -> str:
        return why_undecided(verdict_between(measurement, low=end).tests[0])

    assert "holds 2" in why(MEASURED, 2.0)
    assert "6 samples" in why(Measurement("few", (3.0, 4.0, 5.0), "s"), 2.0)
    wandering = Measurement("ratio", tuple((4 * np.exp(np.linspace(-0.3, 0.3, 15))).tolist()), "")
    assert wandering.interval.low > 2.5
    assert "wanders" in why(wandering, 2.5)
    with pytest.raises(ValueError, match="open"):
        why(MEASURED, 100.0)


def test_samples_needed_grow_with_the_square_of_the_nearness_up_to_what_runs_differ_by() -> None:
    def needed(measurement: Measurement, end: float) -> int | None:
        return verdict_between(measurement, low=end).tests[0].samples_needed

    reach = MEASURED.verdict_interval()
    assert reach is not None
    reached = max(MEASURED.median - reach.low, reach.high - MEASURED.median)
    assert needed(MEASURED, MEASURED.median - reached / 3) == pytest.approx(9 * MEASURED.n, rel=0.02)
    assert needed(MEASURED, MEASURED.median) is None
    assert needed(Measurement("few", (1.0, 2.0), "s"), 1.5) == 6
    for between, is_enough in ((0.001, True), (0.5, False)):
        runs = replace(MEASURED, conditions=Conditions(between_runs=BetweenRuns(between)))
        assert (needed(runs, MEASURED.median - reached / 3) is not None) == is_enough


def test_bounds_are_needed_and_in_order() -> None:
    with pytest.raises(ValueError, match="high"):
        found(MEASURED)
    with pytest.raises(ValueError, match="above"):
        found(MEASURED, 3, 1)
    with pytest.raises(ValueError, match="together"):
        found(MEASURED, 1, together=0)


@pytest.mark.parametrize(
    ("value", "unit"),
    [(1.0, "s"), (2.0, "ms"), (1.0, "B/s"), (3.0, "items/s"), (1.0, "%"), (0.0, "points"), (1.5, "B")],
)
def test_one_sample_that_was_not_counted_decides_nothing(value: float, unit: str) -> None:
    once = Measurement("once", (value,), unit)
    assert not once.is_counted
    assert found(once, high=1e9) == found(once, low=-1e9) == Verdict.OPEN


def test_one_ratio_of_times_is_no_count_even_if_it_is_one() -> None:
    old, new = (
        Measurement(name, (1.0,), "s", Conditions(cpu_per_wall=1.0, interleaved_with=(other,)))
        for name, other in (("old", "new"), ("new", "old"))
    )
    assert ratio(old, new).median == 1
    assert found(ratio(old, new), low=1) == Verdict.OPEN


def test_a_count_is_exact() -> None:
    for counted in (
        Counted(1024, "B", "bytes"),
        Measurement("bytes", (1024.0,), "B"),
        Counted(1024, "parameters", "p"),
    ):
        assert found(counted, low=1024, high=1024) == Verdict.SUPPORTED
        assert found(counted, low=1024, strict=True) == Verdict.REFUTED
        assert found(counted, high=1023) == Verdict.REFUTED


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_below_six_samples_nothing_is_decided(n: int) -> None:
    few = Measurement("few", tuple(np.linspace(1, 1.001, n)), "s")
    assert found(few, low=0.1) == found(few, high=10.0) == Verdict.OPEN
    assert found(Measurement("alike", (2.0,) * n, "s"), low=1) == Verdict.OPEN
    assert found(Measurement("alike", (2.0,) * 6, "s"), low=1) == Verdict.SUPPORTED


def test_to_beat_is_more_than_to_equal() -> None:
    seven = Measurement("differences", (0.0,) * 7, "points", Conditions(sample=Sample.SEEDS))
    assert found(seven, low=0.0) == Verdict.SUPPORTED
    assert found(seven, low=0.0, strict=True) == Verdict.REFUTED
    assert found(seven, high=0.0, strict=True) == Verdict.REFUTED
    some = Measurement("differences", (0.0,) * 5 + (0.003, 0.006), "points", Conditions(sample=Sample.SEEDS))
    assert found(some, low=0.0) == Verdict.SUPPORTED
    assert found(some, low=0.0, strict=True) == Verdict.OPEN
    all_better = Measurement("differences", (0.001,) * 7, "points", Conditions(sample=Sample.SEEDS))
    assert found(all_better, low=0.0, strict=True) == Verdict.SUPPORTED


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
    at_least = found(measurement, low=bound, together=together)
    less = found(measurement, high=bound, strict=True, together=together)
    assert less == OPPOSITE[at_least]
    if together > 1 and at_least != Verdict.OPEN:
        assert found(measurement, low=bound) == at_least


def test_comparisons_that_are_taken_together_need_more_confidence() -> None:
    draw, families, each_alone = np.random.default_rng(1), 0, 0
    for rows in draw.normal(0, 0.02, (150, 8, 40)):
        measured = [Measurement("ratio", tuple(row), "") for row in np.exp(rows)]
        families += any(found(one, low=1, together=8) != Verdict.OPEN for one in measured)
        each_alone += any(found(one, low=1) != Verdict.OPEN for one in measured)
    assert families <= 0.09 * 150 < each_alone


def test_all_of_several_are_refuted_by_one_with_correction_and_supported_by_all_without() -> None:
    draw, refuted = np.random.default_rng(2), 0
    for rows in draw.normal(0, 0.02, (150, 8, 40)):
        refuted += (
            found_of_all([Measurement("ratio", tuple(row), "") for row in np.exp(rows)], low=1) == Verdict.REFUTED
        )
    assert refuted <= 0.06 * 150
    near = next(
        bound
        for bound in np.linspace(1.999, 1.5, 500)
        if found(MEASURED, low=bound, together=8) == Verdict.OPEN and found(MEASURED, low=bound) == Verdict.SUPPORTED
    )
    assert found_of_all([MEASURED] * 8, low=near) == Verdict.SUPPORTED
    assert found_of_all([MEASURED] * 7 + [Measurement("one", (1.0,), "s")], low=near) == Verdict.OPEN
    assert found_of_all([], low=1) == Verdict.OPEN
    assert found_of_all([MEASURED, Counted(1, "", "one")], low=1, strict=True) == Verdict.REFUTED


def test_one_part_refutes_all_and_supports_any() -> None:
    yes, no, unknown = (Judgement(one) for one in (Verdict.SUPPORTED, Verdict.REFUTED, Verdict.OPEN))
    assert verdict_of_all([yes, no, unknown]).verdict == verdict_of_any([no, no]).verdict == Verdict.REFUTED
    assert verdict_of_any([yes, no, unknown]).verdict == verdict_of_all([yes, yes]).verdict == Verdict.SUPPORTED
    assert verdict_of_all([yes, unknown]).verdict == verdict_of_any([no, unknown]).verdict == Verdict.OPEN
    assert verdict_of_all([]).verdict == verdict_of_any([]).verdict == Verdict.OPEN, "where nothing was judged"


def test_what_was_counted_cannot_be_turned_and_what_was_measured_can() -> None:
    bytes_ = verdict_between(Counted(1024, "B", "bytes"), high=2000)
    assert bytes_.is_fixed
    assert verdict_of_all([bytes_, decided(True)]).is_fixed
    assert not verdict_of_all([bytes_, verdict_between(MEASURED, low=1)]).is_fixed
    assert not verdict_between(MEASURED, low=1).is_fixed
    assert verdict_of_any([decided(False), decided(True)]).is_fixed
    assert not verdict_of_all([decided(True), Judgement(Verdict.OPEN)]).is_fixed
    assert not verdict_of_all([]).is_fixed, "nothing was counted"


def test_a_judgement_says_its_word_or_else_its_verdict() -> None:
    for low, verdict, said in ((1.0, Verdict.SUPPORTED, "grows"), (3.0, Verdict.REFUTED, "shrinks")):
        made = verdict_between(MEASURED, low=low).called(supported="grows", refuted="shrinks")
        assert (made.verdict, str(made), made.open_test) == (verdict, said, None)
    unknown = verdict_between(MEASURED, low=2.0).called(supported="grows", refuted="shrinks")
    assert (str(unknown), unknown.open_test) == ("open", unknown.tests[0])
    first = verdict_of_all([verdict_between(MEASURED, low=1.0), unknown])
    assert first.open_test == unknown.tests[0]
    assert [str(decided(holds)) for holds in (True, False)] == ["supported", "refuted"]


def test_a_statistic_is_judged_by_its_own_interval_widened_for_more_confidence() -> None:
    wins = Statistic(
        "share",
        (1.0,) * 90 + (0.0,) * 10,
        "%",
        Conditions(sample=Sample.TRIALS),
        value=0.9,
        bounds=Interval(0.84, 0.96, 0.95),
    )
    assert found(wins, low=0.8) == Verdict.SUPPORTED
    # 0.06 are 1.96 standard errors, and 2.73 for eight comparisons are 0.084.
    assert wins.interval_at(1 - 0.05 / 8).half_width == pytest.approx(0.084, abs=0.001)
    assert found(wins, low=0.83, together=8) == Verdict.OPEN
    weak = Statistic("share", (1.0, 0.0), "%", value=0.9, bounds=Interval(0.84, 0.96, 0.75))
    assert found(weak, low=0.1) == Verdict.OPEN
    once = Statistic("share right", (0.9,), "", value=0.9, bounds=Interval(0.84, 0.96, 0.95))
    assert found(once, low=0.8) == Verdict.SUPPORTED


def test_a_statistic_of_a_series_that_wanders_is_judged_with_care() -> None:
    drifting = Measurement("times", tuple(np.exp(np.linspace(0, 0.2, 60))), "s")
    tail = drifting.tail(90)
    assert tail.interval.low > 1.1
    assert found(tail, low=1.1) == Verdict.OPEN
    assert found(tail, low=0.1) == Verdict.SUPPORTED


def test_a_claim_and_a_comparison_agree_on_the_same_ratio() -> None:
    draw = np.random.default_rng(3)
    for level, memory, n in ((0.0, 0.0, 30), (0.02, 0.0, 30), (0.02, 0.7, 30), (-0.03, 0.3, 15), (0.3, 0.9, 8)):
        for _ in range(20):
            noise = synthetic.ar1(memory)(draw, 1, n)[0]
            old, new = taken_in_turns(["old", "new"], np.exp([level + noise, 0 * noise]))
            words = {Verdict.FASTER: Verdict.SUPPORTED, Verdict.SLOWER: Verdict.REFUTED}
            compared = words.get(compare_paired(old, new, 0.05).verdict, Verdict.OPEN)
            assert found(ratio(old, new), low=1) == compared
            assert found(compare_paired(old, new, 0.05).estimate, low=1) == compared


def test_a_quotient_of_counts_is_exact_and_of_one_timed_sample_decides_nothing() -> None:
    smaller = quotient(Counted(4096, "B", "float"), Counted(1000, "B", "codes"), "smaller")
    assert found(smaller, 4, 4.1) == Verdict.SUPPORTED
    timed = quotient(MEASURED, Measurement("peak", (1.0,), "s"), "share")
    assert found(timed, low=0.001) == Verdict.OPEN
    assert found(quotient(MEASURED, Counted(2, "", "two"), "share"), 0.8, 1.2) == Verdict.SUPPORTED


#: The kinds of noise on which rules that take samples for independent are wrong most often.
HARD = ("AR(1), 0.7", "AR(1), 0.9", "1/f", "random walk")


@pytest.mark.parametrize("kind", [*HARD, "independent, normal", "independent, two levels"])
@pytest.mark.parametrize("pairs", [15, 30])
def test_noise_of_any_memory_gets_few_verdicts(kind: str, pairs: int) -> None:
    """A few hundred trials of what `python -m benchmarks.verdicts --synthetic` counts in full."""
    trials = 250
    series = synthetic.KINDS[kind](np.random.default_rng(pairs), trials, pairs)
    wrong = sum(found(Measurement("r", tuple(row), ""), low=1) != Verdict.OPEN for row in np.exp(series))
    # Of 250 trials with a chance of 6 % more than 24 are wrong once in a hundred times.
    assert wrong <= 24
    as_if_independent = sum(0 not in median_interval(row) for row in series)
    assert (as_if_independent > 50) == (kind in HARD)


@pytest.mark.parametrize("matters", [0.0, 0.05])
def test_a_difference_that_is_there_is_found(matters: float) -> None:
    series = synthetic.normal(np.random.default_rng(0), 100, 100) + synthetic.DIFFERENCE
    seen = sum(compare_paired(row, np.ones(100), matters).verdict == Verdict.FASTER for row in np.exp(series))
    assert seen >= 95


def test_few_processes_on_two_levels_get_few_verdicts() -> None:
    assert synthetic.wrong_processes(np.random.default_rng(0), 300) <= 0.06
