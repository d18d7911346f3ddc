"""What the page on benchmarking says of experiments that come out one way or the other, with made results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from tests.chapters.made_turns import said_in
from tinytorch.chapters.benchmarking import records
from tinytorch.chapters.benchmarking.bottlenecks import Bottleneck, Forecast
from tinytorch.chapters.benchmarking.flaws import Flaw
from tinytorch.chapters.benchmarking.runs import share
from tinytorch.perf.measuring import Counted, Measurement, Statistic
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.noise import NoiseFloor
from tinytorch.report import Page
from tinytorch.report.records import Json


def by_key(page: Page) -> dict[str, Json]:
    return {record.key: record.to_json() for record in page.records}


def around(value: float, unit: str = "%", count: int = 30) -> Measurement:
    """Return samples in no order whose median is ``value`` and whose ends are a thousandth of it away."""
    places = np.random.default_rng(count).permutation(np.linspace(-1, 1, count))
    return Measurement("made", tuple((value * (1 + 1e-3 * places)).tolist()), unit)


def held(of: int, count: int = 1000) -> Statistic:
    """Return the share of ``of`` trials of ``count``."""
    return share([at < of for at in range(count)], "made share")


def compared(ratio: float) -> Comparison:
    """Return the comparison of times in turns of which the first takes ``ratio`` times as long."""
    drift = 1 + 0.1 * np.random.default_rng(0).random(30)
    own = 1 + 1e-4 * np.random.default_rng(1).standard_normal(30)
    return compare_paired(ratio * drift, drift * own, matters=0.05)


@pytest.mark.parametrize(("outside", "samples"), [(3, 15), (4, 15), (0, 6), (0, 5), (1, 15)])
def test_what_a_pair_of_samples_misses_is_two_tails_of_the_binomial_distribution(outside: int, samples: int) -> None:
    assert records.missed(outside, samples) == pytest.approx(2 * binom.cdf(outside, samples, 0.5))


@pytest.mark.parametrize(
    ("beyond", "processes", "word"),
    [
        (6, 7, "more than they admit"),
        (0, 7, "open"),
        (3, 7, "open"),
        (1, 100, "no more than they admit"),
    ],
)
def test_processes_are_held_to_what_their_intervals_promise(beyond: int, processes: int, word: str) -> None:
    page = Page("benchmarking")
    between = Measurement("distance", (0.0, 0.001, 0.002, 0.01, 0.025), "%")
    records.record_processes(page, around(0.01), between, held(beyond, processes))
    made = by_key(page)
    assert said_in(made["process-matters"]) == word
    assert made["process-matters"]["numbers"] == ["beyond", "erring", "processes"]
    assert (made["erring"]["value"], made["processes"]["value"]) == (beyond, processes)
    assert made["between"]["value"] == 0.002


def test_the_example_is_the_one_that_the_page_works_by_hand() -> None:
    page = Page("benchmarking")
    samples = [float(each) for each in np.random.default_rng(0).permutation(15)]
    records.record_example(page, samples, (3.0, 11.0))
    made = by_key(page)
    assert (made["example-low"]["value"], made["example-high"]["value"]) == (3, 11)
    # Of fourteen independent comparisons with one false alarm in twenty, 1 - 0.4877 have one or more.
    assert made["alarms"]["value"] == pytest.approx(0.5123, abs=1e-4)
    with pytest.raises(ValueError, match=r"must be the 4th and the 12th of 15 samples, not \(2.0, 11.0\)"):
        records.record_example(Page("benchmarking"), samples, (2.0, 11.0))


@pytest.mark.parametrize(("in_a_row", "word"), [(990, "kept"), (800, "broken"), (945, "open")])
def test_intervals_of_calls_in_a_row_keep_their_promise_or_break_it(in_a_row: int, word: str) -> None:
    page = Page("benchmarking")
    records.record_coverage(page, {"rank": (held(965), held(in_a_row)), "normal": (held(910), held(700))})
    made = by_key(page)
    assert said_in(made["dependence-matters"]) == word
    rows = made["coverage"]["rows"]
    assert rows[0]["promised"]["value"] == pytest.approx(0.9648, abs=1e-4)
    assert [row["row"]["value"] for row in rows] == [in_a_row / 1000, 0.7]
    assert made["normal-shuffled"]["value"] == 0.91


def apart(sequence: float, in_turns: float) -> tuple[Measurement, Measurement]:
    names = ("one after the other", "in turns")
    return tuple(  # type: ignore[return-value]
        Measurement(name, around(value, count=100).samples, "%", Conditions(interleaved_with=(other,)))
        for name, other, value in zip(names, names[::-1], (sequence, in_turns), strict=True)
    )


@pytest.mark.parametrize(
    ("sequence", "in_turns", "word"),
    [(0.03, 0.01, "smaller"), (0.01, 0.03, "larger"), (0.02, 0.02, "open")],
)
def test_turns_make_a_false_difference_smaller_or_do_not(sequence: float, in_turns: float, word: str) -> None:
    page = Page("benchmarking")
    records.record_turns(page, *apart(sequence, in_turns))
    made = by_key(page)
    assert said_in(made["turns-help"]) == word
    assert (made["apart-sequence"]["value"], made["apart-turns"]["value"]) == pytest.approx((sequence, in_turns))


@pytest.mark.parametrize(("low", "half", "word"), [(1e-3, 2e-3, "passed"), (9e-3, 2e-3, "failed")])
def test_a_control_passes_or_fails(low: float, half: float, word: str) -> None:
    page = Page("benchmarking")
    records.record_control(page, [around(each, "s", count=700).tail(99) for each in (low, half)])
    made = by_key(page)
    assert said_in(made["control-holds"]) == word
    assert made["load-rise"]["value"] == pytest.approx(half / low, rel=0.01)


def series(far: int, count: int = 1000) -> Measurement:
    """Return calls in no order of which ``far`` take ten times as long as the others, which scatter a little."""
    calls = np.concatenate([np.linspace(0.9, 1.1, count - far), np.full(far, 10.0)])
    return Measurement("call", tuple(np.random.default_rng(0).permutation(calls).tolist()), "s")


@pytest.mark.parametrize(
    ("covered", "far", "verdict"),
    [
        (990, (0, 1, 0, 2, 0, 1), "supported"),
        (880, (20, 25, 18, 22, 30, 21), "refuted"),
        (940, (1, 2, 3, 4, 2, 3), "open"),
    ],
)
def test_the_courses_sentences_are_judged_by_whole_intervals(covered: int, far: Sequence[int], verdict: str) -> None:
    """Processes, of a thousand calls each, have so many far ones: 2.7 are allowed."""
    page = Page("benchmarking")
    first = Measurement("first", (30.0,) * 8, "", Conditions(sample=Sample.PROCESSES))
    for key in ("normal-shuffled", "normal-coverage"):
        page.number(key, held(covered))
    records.record_slips(page, series(0), [series(each) for each in far], [held(covered)] * 2, first)
    made = by_key(page)
    claims = [made[key] for key in ("ten-runs-and-a-mean", "becomes-normal")]
    assert [claim["verdict"] for claim in claims] == [verdict] * 2
    assert made["first-over-steady"]["value"] == 30
    assert all(claim["quote"] for claim in claims)


def test_a_hundred_runs_cannot_bound_the_slowest_hundredth() -> None:
    page = Page("benchmarking")
    for key in ("normal-shuffled", "normal-coverage"):
        page.number(key, held(900))
    records.record_slips(page, series(10), [series(10)] * 6, [held(900)] * 2, around(3.0, ""))
    made = by_key(page)
    assert (made["p99-from-100"]["verdict"], made["p99-from-100"]["counted"]) == ("refuted", True)
    # (1 - 1/100)**100 is about 1/e, and 299 are the fewest that hold the percentile on both sides.
    assert made["tail-unseen"]["value"] == pytest.approx(np.exp(-1), rel=0.01)
    assert made["tail-needed"]["value"] == 299


def test_more_pairs_see_less_by_a_root() -> None:
    page = Page("benchmarking")
    records.record_resolution(page, [10, 90], [around(0.06), around(0.03)])
    made = by_key(page)
    assert made["root-gain"]["value"] == pytest.approx(3)
    assert made["seen-gain"]["value"] == pytest.approx(2)
    assert (made["seen-few"]["value"], made["seen-many"]["value"]) == pytest.approx((0.06, 0.03))
    assert made["resolution"]["series"][0]["x"] == [10, 90]


def flaws(reported: Sequence[float]) -> list[Flaw]:
    """Return flaws that publish these speedups, the first of them with two functions."""
    return [
        Flaw(f"flaw {at}", around(each, "", 9), compared(4.0 if at == 0 else 1.0), same_code=at > 0)
        for at, each in enumerate(reported)
    ]


def test_only_one_function_that_beats_itself_is_counted() -> None:
    page = Page("benchmarking")
    records.record_flaws(page, flaws([9.0, 2.0, 1.0, 1.5, 1.0]))
    made = by_key(page)
    assert made["flaws-count"]["value"] == 2
    assert made["flaw-straw"]["value"] == pytest.approx(9)
    assert made["fair-straw-verdict"]["word"] == "faster"
    assert made["flaws"]["rows"][0]["verdict"]["word"] == "faster"
    assert said_in(made["fair-busy-verdict"]) == "no difference"
    assert [row["flaw"] for row in made["flaws"]["rows"]] == [f"flaw {at}" for at in range(5)]


def test_what_the_table_shows_is_what_is_counted() -> None:
    page = Page("benchmarking")
    made = flaws([9.0, 2.0, 1.0, 1.5, 1.0])
    # One of nine repeats lies below 1, outside of the interval that is published.
    repeats = (1.032, 1.019, 1.034, 0.999, 1.017, 1.01, 1.023, 1.013, 1.061)
    made[3] = replace(made[3], reported=Measurement("made", repeats, ""))
    records.record_flaws(page, made)
    said = by_key(page)
    assert said["flaws"]["rows"][3]["reported"]["interval"]["low"] > 1
    assert said["flaws-count"]["value"] == 2


def law(predicted: float, fewer: int) -> Forecast:
    """Return a forecast of a speedup of ``predicted`` where the fix makes so many times ``fewer`` operations."""
    between, inside = 2.0, 8.0
    after = (between + inside) / predicted - between / fewer
    return Forecast((10 * fewer, 10), around(between, "s"), (around(inside, "s"), around(after, "s")))


def fixes(*made: tuple[float, int, float]) -> dict[str, Json]:
    """Return what is recorded of fixes of the CNN, the MLP and the GPT: predicted, fewer operations, and measured."""
    page = Page("benchmarking")
    page.noise = NoiseFloor("made", (), Measurement("made", (1.001,), ""))
    found = [
        Bottleneck(model, "loops", "none", law(predicted, fewer), compared(ratio), 1e-6)
        for model, (predicted, fewer, ratio) in zip(("cnn", "mlp", "gpt"), made, strict=True)
    ]
    records.record_bottlenecks(page, found)
    return by_key(page)


def test_a_fix_stands_beside_its_prediction() -> None:
    made = fixes((8.0, 64, 4.0), (1.0, 64, 1.0), (0.1, 1, 0.25))
    rows = made["bottlenecks"]["rows"]
    assert [row["fix"] for row in rows] == ["CNN: loops, by none", "MLP: loops, by none", "GPT: loops, by none"]
    assert rows[0]["predicted"]["value"] == pytest.approx(8)
    assert rows[0]["operations"]["value"] == 64
    assert rows[0]["ratio"]["value"] == pytest.approx(4, rel=0.01)
    assert [said_in(row["verdict"]) for row in rows] == ["faster", "no difference", "slower"]
    assert [row["held"]["word"] for row in rows] == ["too high", "about right", "too low"]
    assert made["fix-held"]["word"] == "about right"
    assert made["fix"]["value"] == pytest.approx(1, rel=0.01)
    assert made["largest-error"]["value"] == 1e-6


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (((4.0, 64, 2.0), (5.0, 64, 4.0), (1.2, 1, 2.5)), "yes"),  # towards 64 and towards 1
        (((1.1, 64, 2.0), (5.0, 64, 4.0), (1.2, 1, 2.5)), "no"),  # the first away from 64
        (((2.0, 64, 2.0), (8.0, 64, 4.0), (2.5, 1, 2.5)), "yes"),  # what does not miss has no side
        (((2.0, 64, 2.0), (4.0, 64, 4.0), (2.5, 1, 2.5)), "open"),  # nothing misses
        (((4.0, 2, 2.0), (5.0, 64, 4.0), (2.5, 1, 2.5)), "open"),  # the first measured at its end
    ],
)
def test_misses_lie_on_the_side_of_the_operations_or_do_not(
    made: tuple[tuple[float, int, float], ...], word: str
) -> None:
    assert said_in(fixes(*made)["misses-side"]) == word


def test_the_forecast_is_worked_part_by_part() -> None:
    page = Page("benchmarking")
    records.record_forecast(page, law(5.0, 64))
    made = by_key(page)
    assert (made["operations-loop"]["value"], made["operations-batch"]["value"]) == (640, 10)
    parts = {row["part"]: [row[key]["value"] for key in ("loop", "batch", "stays")] for row in made["forecast"]["rows"]}
    assert parts["between operations"] == pytest.approx([2, 2 / 64, 2])
    assert parts["both"] == pytest.approx([10, 2, 2 + 2 - 2 / 64])
    for at, whole in enumerate(parts["both"]):
        assert parts["between operations"][at] + parts["in operations"][at] == pytest.approx(whole)
    assert made["fix-predicted"]["value"] == pytest.approx(parts["both"][0] / parts["both"][1])
    assert made["fix-if-not"]["value"] == pytest.approx(parts["both"][0] / parts["both"][2])
    assert made["fix-predicted"]["kind"] == "modelled"


@pytest.mark.parametrize(
    ("again", "changed", "caught"),
    [(1.0, 0.8, "caught"), (1.0, 1.0, "missed"), (0.8, 1.25, "missed"), (1.25, 0.8, "caught")],
)
def test_a_regression_is_caught_if_the_change_is_slower(again: float, changed: float, caught: str) -> None:
    page = Page("benchmarking")
    records.record_regression(page, compared(again), compared(changed))
    made = by_key(page)
    assert made["caught"]["word"] == caught
    assert made["again"]["value"] == pytest.approx(again, rel=0.01)
    assert "{changed}" in made["changed-verdict"]["because"]


@pytest.mark.parametrize(("seen", "word"), [(0.002, "enough, with two hundred"), (0.02, "not enough"), (0.01, "open")])
def test_a_hundredth_is_seen_or_not(seen: float, word: str) -> None:
    page = Page("benchmarking")
    page.number("seen-many", Counted(seen, "%", "made"))
    records.record_questions(page, held(900), [around(0.1), around(seen)])
    made = by_key(page)
    assert said_in(made["q-hundredth"]) == word
    assert made["q-miss"]["value"] == pytest.approx(0.1)
    assert made["q-miss"]["interval"]["high"] == pytest.approx(1 - held(900).interval.low)
