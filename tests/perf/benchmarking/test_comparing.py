"""Comparisons: their direction, verdicts and intervals, in one run and between two, and the front they make."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from tests.perf.benchmarking.made import performance, results, times
from tinytorch.perf.benchmarking import Performance, compare, compare_results, pareto_front
from tinytorch.perf.benchmarking.comparing import _ends, _mann_whitney_tails, compare_processes
from tinytorch.perf.benchmarking.performance import RunConditions
from tinytorch.perf.measuring import Counted, Measurement
from tinytorch.perf.measuring.between_run_variance import PRIOR
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Verdict


def in_turns(*named: tuple[str, float]) -> dict[str, Measurement]:
    """Return times that say they were taken in turns, with one disturbance for each pair."""
    draw = np.random.default_rng(0)
    noise = np.exp(0.2 * draw.standard_normal(30))
    own = {name: np.exp(0.001 * draw.standard_normal(30)) for name, _ in named}
    return {
        name: Measurement(
            name, tuple(level * noise * own[name]), "s", Conditions(interleaved_with=tuple(n for n, _ in named))
        )
        for name, level in named
    }


def test_a_speedup_above_one_is_faster_and_pairs_cancel_what_both_felt() -> None:
    both = in_turns(("slow", 2e-3), ("fast", 1e-3))
    slow, fast = (replace(performance(name), times={1: (both[name],)}) for name in ("slow", "fast"))
    made = compare(slow, fast)
    assert made.speedup.verdict == Verdict.FASTER
    assert made.speedup.estimate.median == pytest.approx(2, rel=0.01)
    assert made.speedup.interval.half_width < 0.01, "of 20 % noise, which both felt alike, nothing is left"
    assert compare(fast, slow).speedup.verdict == Verdict.SLOWER
    assert made.speedup.estimate.median * compare(fast, slow).speedup.estimate.median == pytest.approx(1)


def test_memory_and_accuracy_have_verdicts_of_their_own() -> None:
    base = performance(memory=2000, wrong=range(10))
    better = compare(base, performance(memory=1000, run="other"))
    assert (better.memory.verdict, better.size.verdict) == (Verdict.SMALLER, Verdict.SMALLER)
    assert float(better.memory) == pytest.approx(2)
    assert better.memory.is_fixed, "bytes are counted"
    assert better.accuracy is not None
    assert float(better.accuracy) == pytest.approx(10 / 400)
    assert (better.accuracy.verdict, better.accuracy.is_fixed) == (Verdict.BETTER, False)
    worse = compare(base, performance(memory=2100, wrong=range(60), run="other"))
    assert worse.accuracy is not None
    assert (worse.memory.verdict, worse.accuracy.verdict) == (Verdict.LARGER, Verdict.WORSE)
    assert (worse.memory.is_loss, worse.accuracy.is_loss) == (True, True)
    same = compare(base, performance(memory=2001, wrong=range(10), run="other"))
    assert same.accuracy is not None
    assert (same.memory.verdict, same.memory.is_no_loss, same.memory.by_little) == (
        Verdict.LARGER,
        True,
        "by less than the 2 % that matters here",
    )
    assert (same.accuracy.verdict, same.accuracy.is_no_loss) == (Verdict.NO_DIFFERENCE, True)


def apart(
    seconds: float, *, processes: int = 1, timed: Mapping[str, Any] | None = None, **conditions: Any
) -> Performance:
    """Return what a call of its own measures, named as by default, under conditions that are alike but for some."""
    made = performance(seconds=seconds, processes=processes, run=str(seconds))
    measured = tuple(
        replace(
            one,
            samples=one.samples * 4,
            conditions=Conditions(**{"blas_threads": 1, "cpu_per_wall": 1.0, **(timed or {})}),
        )
        for one in made.times[1]
    )
    known = RunConditions(**{"machine": "this", "threads": 1, "others": 0.0, "data": "one", **conditions})
    return replace(made, times={1: measured}, reference={}, conditions=known)


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize(
    ("times_as_fast", "verdict"),
    [(47.0, Verdict.FASTER), (1.3, Verdict.FASTER), (1.05, Verdict.OPEN), (1 / 47, Verdict.SLOWER)],
)
def test_two_separate_calls_tell_what_lies_farther_apart_than_repeats_do(
    times_as_fast: float, verdict: str, processes: int
) -> None:
    made = apart(1e-3, processes=processes).time / apart(1e-3 / times_as_fast, processes=processes).time
    assert made.verdict == verdict
    assert float(made) == pytest.approx(times_as_fast, rel=0.02)
    least = 1.96 * PRIOR.alone * 2**0.5
    assert made.interval.low < times_as_fast * (1 - 0.9 * least)
    assert made.interval.high > times_as_fast * (1 + 0.9 * least)


def test_separate_calls_of_one_program_differ_by_more_than_promised_as_seldom_as_they_say() -> None:
    draw = np.random.default_rng(4)
    wrong = 0
    for _ in range(200):
        levels = np.exp(PRIOR.alone * draw.standard_normal(2))  # what each draws for its whole life
        one, other = (
            [Measurement("made", tuple(level * np.exp(0.01 * draw.standard_normal(12))), "s")] for level in levels
        )
        wrong += compare_processes(one, other, 0, names=("a", "b")).verdict != Verdict.OPEN
    assert wrong / 200 <= 0.05


def test_a_run_of_single_samples_of_few_processes_cannot_tell() -> None:
    one, other = ([Measurement("made", (level,), "s")] * 2 for level in (1.0, 9.0))
    made = compare_processes(one, other, 0.01, names=("a", "b"))
    assert made.verdict == Verdict.OPEN
    assert "too few" in made.because


@pytest.mark.parametrize(
    ("changed", "timed", "words"),
    [
        ({"machine": "other"}, {}, "different conditions: machine this and other"),
        ({"threads": 2}, {"blas_threads": 2}, "different conditions: threads 1 and 2"),
        ({"others": 0.9}, {"cpu_per_wall": 0.6}, "less than a whole core while .* 0.0 and 0.9 cores busy"),
        ({"others": 0.9}, {"blas_threads": 2}, "different loads"),
    ],
)
def test_times_under_other_conditions_are_shown_and_not_judged(
    changed: dict[str, Any], timed: dict[str, Any], words: str
) -> None:
    made = apart(1e-3).time / apart(1e-4, timed=timed, **changed).time
    assert made.verdict == Verdict.WITHHELD
    assert re.search(words, made.sentence())
    assert float(made) == pytest.approx(10, rel=0.02)
    assert (apart(1e-3).time / apart(1e-4, others=0.9).time).verdict == Verdict.FASTER, "it had its core all the same"


def test_results_divide_and_subtract_in_the_direction_of_their_words() -> None:
    base = replace(apart(1e-3), name="base", peaks={1: Counted(2000, "B", "made")})
    new = replace(apart(5e-4), name="new", correct=np.arange(400) >= 50)
    assert repr(base.time / new.time).endswith("new is faster")
    assert repr(new.time / base.time).endswith("base is slower")
    assert repr(base.memory / new.memory).endswith("new is smaller")
    assert f"{base.time / new.time:.2f} {base.memory / new.memory:.1f} {new.accuracy:.1%}" == "2.00 2.0 87.5%"
    lost = new.accuracy - base.accuracy
    assert float(lost) == pytest.approx(-50 / 400)
    assert lost.verdict == Verdict.WORSE
    assert f"{lost:+.3f}" == "-0.125"
    assert (float(base.time), float(base.memory), float(new.accuracy)) == (
        base.times[1][0].median,
        2000,
        350 / 400,
    )
    change = compare(base, new)
    assert (float(change.speedup), change.accuracy) == (float(base.time / new.time), lost)
    with pytest.raises(TypeError, match="unsupported operand"):
        base.time / new.memory
    with pytest.raises(ValueError, match="data"):
        base.time / apart(1e-3, data="other").time
    with pytest.raises(ValueError, match="batch"):
        base.time / replace(new, times={2: new.times[1]}).time


def test_the_reference_takes_away_what_the_machine_did_to_a_whole_run() -> None:
    base = performance()
    slowed = performance(seconds=1.2e-3, reference=1.2e-4, seed=1, run="other")
    assert compare(base, slowed).speedup.verdict != Verdict.SLOWER
    plain = (replace(base, reference={}), replace(slowed, reference={}))
    assert compare(*plain).speedup.verdict == Verdict.SLOWER, "without it the machine's change is taken for the code's"


@pytest.mark.parametrize(("m", "n"), [(3, 4), (5, 5), (6, 8)])
def test_tails_are_those_of_counting_all_orders(m: int, n: int) -> None:
    counts = np.zeros(m * n + 1)
    for chosen in combinations(range(m + n), m):
        counts[sum(chosen) - m * (m - 1) // 2] += 1
    expected = np.cumsum(counts / counts.sum())[: m * n // 2 + 1]
    np.testing.assert_allclose(_mann_whitney_tails(m, n), expected)


@pytest.mark.parametrize("shift", [0.0, 0.4, 0.9])
def test_the_interval_holds_the_shifts_that_the_mann_whitney_test_does_not_reject(shift: float) -> None:
    draw = np.random.default_rng(3)
    a, b = draw.normal(0, 1, 8), draw.normal(-shift, 1, 7)
    low, high, reached = _ends(np.sort((a[:, None] - b[None, :]).ravel()), 8, 7, 0.95)
    assert 0.95 <= reached < 0.98
    for tried in np.linspace(-3, 4, 141):
        kept = mannwhitneyu(a - tried, b, method="exact").pvalue >= 0.05
        if not np.isclose((low, high), tried, atol=1e-6).any():
            assert kept == (low <= tried <= high), tried


def test_intervals_between_runs_hold_the_truth_as_often_as_they_say() -> None:
    held = 0
    for seed in range(300):
        made = compare_processes(
            times(1.0, 6, seed, samples=3), times(1.1, 6, seed + 5000, samples=3), 0, names=("a", "b")
        )
        held += 1 / 1.1 in made.interval
    assert held / 300 > 0.92


def test_a_run_against_itself_has_no_regression_and_a_slower_one_has() -> None:
    base = results(performance("a"), performance("b", 2e-3, seed=2))
    same = results(performance("a", seed=7), performance("b", 2e-3, seed=8))
    assert compare_results(base, same).regressions == ()
    slower = results(performance("a", 1.1e-3, seed=7), performance("b", 2e-3, seed=8))
    changed = compare_results(base, slower)
    assert len(changed.regressions) == 2
    assert changed.regressions[0].startswith("a at batch 1 is slower")
    assert changed.geometric_mean.estimate.median == pytest.approx(1 / np.sqrt(1.1), rel=0.01)
    assert compare_results(slower, base).regressions == ()
    assert compare_results(base, slower, matters=0.2).regressions == ()


def test_what_makes_a_comparison_doubtful_is_said() -> None:
    base, new = results(performance("a"), performance("gone")), results(performance("a"), performance("fresh"))
    other = replace(
        new, identity={**new.identity, "cpu": "another"}, plan=replace(new.plan, processes=20, subject="cnn")
    )
    changed = compare_results(base, other)
    assert (changed.only_base, changed.only_new) == (("gone",), ("fresh",))
    assert "crosses machines" in changed.warnings[0]
    assert "another" in changed.warnings[0]
    assert "not complete" in changed.warnings[1]
    assert "cnn" in changed.warnings[2]
    with pytest.raises(ValueError, match="in common"):
        compare_results(results(performance("a")), results(performance("b")))


def test_the_front_names_who_is_dominated_and_by_whom() -> None:
    draw = in_turns(("base", 4e-3), ("small", 4e-3), ("fast", 1e-3), ("best", 0.5e-3))
    sizes = {"base": 4000, "small": 500, "fast": 4000, "best": 1000}
    wrong = {"base": range(5), "small": range(5), "fast": range(5), "best": range(100)}
    made = {
        name: replace(performance(name, memory=sizes[name], wrong=wrong[name]), times={1: (draw[name],)})
        for name in draw
    }
    front = pareto_front(made)
    assert front.front == ("small", "fast", "best")
    assert front.dominated == {"base": ("small", "fast")}


@pytest.mark.parametrize(
    ("cores", "others", "dominated"), [(0.5, 1.0, False), (0.5, 0.0, True), (1.0, 1.0, True), (None, None, True)]
)
def test_nobody_is_off_the_front_by_times_that_other_programs_took_from(
    cores: float | None, others: float | None, dominated: bool
) -> None:
    threads = None if cores is None else 1
    conditions = None if others is None else RunConditions("one", 1, others, "data")
    draw = in_turns(("slow", 4e-3), ("fast", 1e-3))
    made = {
        name: replace(
            performance(name),
            times={1: (replace(one, conditions=replace(one.conditions, cpu_per_wall=cores, blas_threads=threads)),)},
            conditions=conditions,
        )
        for name, one in draw.items()
    }
    front = pareto_front(made)
    assert front.dominated == ({"slow": ("fast",)} if dominated else {})
    assert front.undecided == ({} if dominated else {"slow": ("fast",)})
    assert pareto_front(made, told=lambda one: one).dominated == {"slow": ("fast",)}


@pytest.mark.parametrize(
    ("options", "words"),
    [({"compared": 0}, "compared"), ({"accuracy_matters": 2.0}, "accuracy_matters"), ({"matters": -1.0}, "matters")],
)
def test_numbers_out_of_range_are_refused(options: dict[str, float], words: str) -> None:
    both = in_turns(("a", 1e-3), ("b", 1e-3))
    a, b = (replace(performance(name), times={1: (both[name],)}) for name in ("a", "b"))
    with pytest.raises(ValueError, match=words):
        compare(a, b, **options)  # type: ignore[arg-type]
