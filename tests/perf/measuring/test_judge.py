"""The judge of claims: bounds, few samples, what is counted, several together, and what must not get a verdict."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import verdicts_synthetic as synthetic
from tests.chapters.made_turns import made
from tests.perf.measuring.test_comparison import taken_in_turns
from tinytorch.perf.measuring import Counted, Measurement, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions, Sample
from tinytorch.perf.measuring.judge import (
    Judgement,
    Verdict,
    decided,
    largest,
    verdict_between,
    verdict_of_all,
    verdict_of_any,
    why_undecided,
    word_between,
)
from tinytorch.perf.measuring.statistics import Stated
from tinytorch.report.verdicts import words_of

#: Around 2, with an interval of about 0.1 to each side.
MEASURED = Measurement("ratio", tuple(np.random.default_rng(5).normal(2, 0.2, 60).tolist()), "")
OPPOSITE = {Verdict.SUPPORTED: Verdict.REFUTED, Verdict.REFUTED: Verdict.SUPPORTED, Verdict.OPEN: Verdict.OPEN}


def found(measurement: Measurement, low: float | None = None, high: float | None = None, **how: Any) -> Verdict:
    return verdict_between(measurement, low, high, **how).verdict


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
def test_the_whole_interval_decides_and_a_judgement_says_its_word_or_else_its_verdict(
    low: float | None, high: float | None, verdict: Verdict
) -> None:
    made = verdict_between(MEASURED, low, high).called(supported="grows", refuted="shrinks")
    assert made.verdict == verdict
    assert str(made) == {Verdict.SUPPORTED: "grows", Verdict.REFUTED: "shrinks"}.get(verdict, "open")
    assert (made.open_test is not None) is (verdict is Verdict.OPEN)
    assert made.open_test in (None, *made.tests)
    assert not made.is_fixed


def test_an_open_verdict_says_why_and_how_many_samples_would_decide_it() -> None:
    def why(measurement: Measurement, end: float) -> str:
        return why_undecided(verdict_between(measurement, low=end).tests[0])

    assert "contains 2" in why(MEASURED, 2.0)
    assert "one sample" in why(Measurement("once", (3.0,), "s"), 2.0)
    with pytest.raises(ValueError, match="open"):
        why(MEASURED, 100.0)


def test_samples_needed_grow_with_the_square_of_the_nearness_up_to_what_runs_differ_by() -> None:
    def needed(measurement: Measurement, end: float) -> int | None:
        return verdict_between(measurement, low=end).tests[0].samples_needed

    reach = MEASURED.interval
    reached = max(MEASURED.median - reach.low, reach.high - MEASURED.median)
    assert needed(MEASURED, MEASURED.median - reached / 3) == pytest.approx(9 * MEASURED.n, rel=0.02)
    assert needed(MEASURED, MEASURED.median) is None
    assert needed(Measurement("once", (1.0,), "s"), 1.5) is None
    for between, is_enough in ((0.001, True), (0.5, False)):
        runs = replace(MEASURED, conditions=Conditions(between_runs=BetweenRuns(between)))
        assert (needed(runs, MEASURED.median - reached / 3) is not None) == is_enough


@pytest.mark.parametrize(("low", "high", "said"), [(None, None, "high"), (3, 1, "above")])
def test_bounds_are_needed_and_in_order(low: float | None, high: float | None, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        found(MEASURED, low, high)


@pytest.mark.parametrize(
    ("value", "unit", "n"),
    [
        *((1.0, "s", 1), (2.0, "ms", 1), (1.0, "B/s", 1), (3.0, "items/s", 1), (1.0, "%", 1), (0.0, "points", 1)),
        (1.5, "B", 1),
    ],
)
def test_one_sample_that_was_not_counted_decides_nothing(value: float, unit: str, n: int) -> None:
    few = Measurement("few", (value,) * n, unit)
    assert not few.is_counted
    assert found(few, high=1e9) == found(few, low=-1e9) == Verdict.OPEN
    assert found(Measurement("alike", (2.0,) * 6, "s"), low=1) == Verdict.SUPPORTED


def test_one_ratio_of_times_is_no_count_even_if_it_is_one() -> None:
    old, new = (
        replace(one, conditions=replace(one.conditions, cpu_per_wall=1.0))
        for one in taken_in_turns(["old", "new"], np.ones((2, 1)))
    )
    once = ratio(old, new)
    assert once.median == 1
    assert found(once, low=1) == Verdict.OPEN


@pytest.mark.parametrize(
    "counted",
    [Counted(1024, "B", "bytes"), Measurement("bytes", (1024.0,), "B"), Counted(1024, "parameters", "p")],
    ids=str,
)
def test_a_count_is_exact(counted: Any) -> None:
    assert found(counted, low=1024, high=1024) == Verdict.SUPPORTED
    assert found(counted, low=1024, strict=True) == found(counted, high=1023) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("samples", "end", "strict", "verdict"),
    [
        ((0.0,) * 7, "low", False, Verdict.SUPPORTED),
        ((0.0,) * 7, "low", True, Verdict.REFUTED),
        ((0.0,) * 7, "high", True, Verdict.REFUTED),
        ((0.0,) * 5 + (0.003, 0.006), "low", False, Verdict.SUPPORTED),
        ((0.0,) * 5 + (0.003, 0.006), "low", True, Verdict.OPEN),
        ((0.001,) * 7, "low", True, Verdict.SUPPORTED),
    ],
)
def test_to_beat_is_more_than_to_equal(samples: tuple[float, ...], end: str, strict: bool, verdict: Verdict) -> None:
    differences = Measurement("differences", samples, "points", Conditions(sample=Sample.SEEDS))
    assert found(differences, **{end: 0.0, "strict": strict}) == verdict


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
    at_least = found(measurement.together(together), low=bound)
    less = found(measurement.together(together), high=bound, strict=True)
    assert less == OPPOSITE[at_least]
    if together > 1 and at_least != Verdict.OPEN:
        assert found(measurement, low=bound) == at_least


YES, NO, UNKNOWN = (Judgement(one) for one in (Verdict.SUPPORTED, Verdict.REFUTED, Verdict.OPEN))


@pytest.mark.parametrize(
    ("parts", "of_all", "of_any"),
    [
        ([YES, NO, UNKNOWN], NO, YES),
        ([NO, NO], NO, NO),
        ([YES, YES], YES, YES),
        ([YES, UNKNOWN], UNKNOWN, YES),
        ([NO, UNKNOWN], NO, UNKNOWN),
        ([], UNKNOWN, UNKNOWN),
    ],
)
def test_one_part_refutes_all_and_supports_any(parts: list[Judgement], of_all: Judgement, of_any: Judgement) -> None:
    assert (verdict_of_all(parts).verdict, verdict_of_any(parts).verdict) == (of_all.verdict, of_any.verdict)


def test_what_was_counted_cannot_be_turned_and_what_was_measured_can() -> None:
    counted, measured = verdict_between(Counted(1024, "B", "bytes"), high=2000), verdict_between(MEASURED, low=1)
    assert verdict_of_all([counted, decided(True)]).is_fixed
    assert verdict_of_any([decided(False), decided(True)]).is_fixed
    for parts in ([counted, measured], [decided(True), UNKNOWN], []):
        assert not verdict_of_all(parts).is_fixed
    assert [str(decided(holds)) for holds in (True, False)] == ["supported", "refuted"]
    unknown = verdict_between(MEASURED, low=2.0)
    assert verdict_of_all([measured, unknown]).open_test == unknown.tests[0]


def test_the_tests_that_decide_come_first() -> None:
    passes, fails = verdict_between(MEASURED, low=1), verdict_between(MEASURED, high=1)
    assert (passes.verdict, fails.verdict) == (Verdict.SUPPORTED, Verdict.REFUTED)
    assert verdict_of_all([passes, fails]).tests == (*fails.tests, *passes.tests)
    assert verdict_of_any([fails, passes]).tests == (*passes.tests, *fails.tests)
    assert verdict_of_all([passes, passes]).tests == (*passes.tests, *passes.tests)


def test_a_statistic_is_judged_by_its_own_interval_widened_for_more_confidence() -> None:
    wins = Measurement("share", (1.0,) * 9 + (0.0,), "%", law=Stated(0.9, 0.84, 0.96, 0.95))
    wins = replace(wins, conditions=Conditions(sample=Sample.TRIALS))
    assert found(wins, low=0.8) == Verdict.SUPPORTED
    # 0.06 are 1.96 standard errors, and 2.73 for eight comparisons are 0.084.
    assert wins.interval_at(1 - 0.05 / 8).half_width == pytest.approx(0.084, abs=0.001)
    assert found(wins.together(8), low=0.83) == Verdict.OPEN
    assert found(replace(wins, samples=(0.9,), unit=""), low=0.8) == Verdict.SUPPORTED


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
    as_if_independent = sum(
        found(Measurement("r", tuple(row), "", Conditions(sample=Sample.TRIALS)), low=1) != Verdict.OPEN
        for row in np.exp(series)
    )
    assert (as_if_independent > 50) == (kind in HARD)


@pytest.mark.parametrize("matters", [0.0, 0.05])
def test_a_difference_that_is_there_is_found(matters: float) -> None:
    series = synthetic.normal(np.random.default_rng(0), 100, 100) + synthetic.DIFFERENCE
    seen = sum(compare_paired(row, np.ones(100), matters).verdict == Verdict.FASTER for row in np.exp(series))
    assert seen >= 95
    assert synthetic.wrong_processes(np.random.default_rng(0), 300) <= 0.06


BANDS = {"little": (None, 1.0), "some": (1.0, 2.0), "much": (2.0, None)}


@pytest.mark.parametrize(
    ("value", "noise", "words"),
    [
        *((0.5, 0.05, "little"), (1.5, 0.05, "some"), (4.0, 0.05, "much")),
        *((1.0, 0.05, "little or some"), (2.05, 0.05, "some or much"), (1.5, 0.9, "open, between 0.")),
    ],
)
def test_a_word_stands_where_the_whole_interval_lies_and_else_those_that_are_left(
    value: float, noise: float, words: str
) -> None:
    found = word_between(made(value, noise=noise), BANDS)
    assert words_of(found).startswith(words)
    assert (found.verdict is Verdict.SUPPORTED) is (found.open_test is None) is (words in BANDS)


def test_what_is_exactly_at_an_end_lies_on_neither_side() -> None:
    zeros = Measurement("gain", (0.0,) * 9, "points")
    assert word_between(zeros, {"better": (0.0, None), "worse": (None, 0.0)}).verdict is Verdict.OPEN


def test_the_largest_is_larger_than_each_other_in_every_pair() -> None:
    linear = (0.46, 0.44, 0.47, 0.43, 0.46, 0.44, 0.48, 0.42, 0.45)
    for attention, word in ((0.9 * np.array(linear), "linear"), (linear[::-1], "linear or attention")):
        sides = taken_in_turns(["linear", "attention", "gelu"], np.array([linear, attention, [0.1] * 9]), "%")
        found = largest({one.name: one for one in sides})
        assert found.verdict is (Verdict.SUPPORTED if word == "linear" else Verdict.OPEN)
        assert str(found) == word
    with pytest.raises(ValueError, match="least"):
        largest({"linear": sides[0]})
