"""What the page on benchmarking says of experiments that come out one way or the other, with made results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tinytorch.chapters.benchmarking import records
from tinytorch.chapters.benchmarking.bottlenecks import Bottleneck
from tinytorch.chapters.benchmarking.flaws import Flaw
from tinytorch.chapters.benchmarking.runs import share
from tinytorch.perf.benchmarking import Performance, ScenarioResult, compare
from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
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
    return compare_paired(ratio * drift, drift * own)


@pytest.mark.parametrize(
    ("beyond", "processes", "word"),
    [
        (6, 7, "more than they admit"),
        (0, 7, "cannot tell here"),
        (3, 7, "cannot tell here"),
        (1, 100, "no more than they admit"),
    ],
)
def test_processes_are_held_to_what_their_intervals_promise(beyond: int, processes: int, word: str) -> None:
    page = Page("benchmarking")
    between = Measurement("distance", (0.0, 0.001, 0.002, 0.01, 0.025), "%")
    records.record_processes(page, around(0.01), between, held(beyond, processes), 1 / 7)
    made = by_key(page)
    assert made["process-matters"]["word"] == word
    assert made["between-most"]["value"] == 0.025
    assert (made["apart"]["value"], made["apart"]["interval"]) == (pytest.approx(1 / 7), None)


@pytest.mark.parametrize(
    ("covered", "far", "ten_runs", "normal"),
    [
        (990, 0, "supported", "supported"),
        (880, 20, "refuted", "refuted"),
        (940, 3, "cannot tell here", "cannot tell here"),
    ],
)
def test_ten_runs_and_normal_noise_are_judged_by_whole_intervals(
    covered: int, far: int, ten_runs: str, normal: str
) -> None:
    page = Page("benchmarking")
    series = Measurement("call", (1.0, 1.0, 1.0, 5.0), "s")
    records.record_intervals(page, series, held(covered), held(960), held(far, 3000 if far == 0 else 1000))
    made = by_key(page)
    assert made["ten-runs-and-a-mean"]["verdict"] == ten_runs
    assert made["becomes-normal"]["verdict"] == normal
    assert (made["series-mean"]["value"], made["series-median"]["value"]) == (2, 1)


def test_more_pairs_see_less_by_a_root() -> None:
    page = Page("benchmarking")
    records.record_resolution(page, [10, 90], [around(0.06), around(0.03)])
    made = by_key(page)
    assert made["root-gain"]["value"] == pytest.approx(3)
    assert made["seen-gain"]["value"] == pytest.approx(2)
    assert (made["seen-few"]["value"], made["seen-many"]["value"]) == pytest.approx((0.06, 0.03))
    assert made["resolution"]["series"][0]["x"] == [10, 90]


def test_a_batch_gains_throughput_and_costs_latency() -> None:
    seconds = {1: 1e-4, 16: 4e-4, 256: 3.2e-3}
    times = {size: (around(each, "s"),) for size, each in seconds.items()}
    memory = {size: around(1e6 * size, "B") for size in seconds}
    page = Page("benchmarking")
    records.record_batches(page, Performance("MLP", "forward", times, memory, 1, None, "run"))
    made = by_key(page)
    assert [row["batch"]["value"] for row in made["batches"]["rows"]] == [1, 16, 256]
    assert made["batches"]["rows"][1]["rate"]["value"] == pytest.approx(40_000)
    assert made["wait-gain"]["value"] == pytest.approx(32)
    assert made["rate-gain"]["value"] == pytest.approx(8)


@pytest.mark.parametrize(("close", "verdict"), [(195, "supported"), (100, "refuted"), (180, "cannot tell here")])
def test_a_percentile_of_a_hundred_runs_is_right_if_nine_in_ten_are(close: int, verdict: str) -> None:
    series = Measurement("call", tuple(1 + 0.001 * at for at in range(1000)), "s")
    page = Page("benchmarking")
    reported = Measurement("percentile", (1.5, 1.9, 2.0, 2.4), "s")
    records.record_tails(page, series.tail(99), reported, held(close, 200))
    made = by_key(page)
    assert made["p99-from-100"]["verdict"] == verdict
    assert (made["tail-least"]["value"], made["tail-most"]["value"]) == (1.5, 2.4)
    # (1 - 1/100)**100 is about 1/e, and 299 are the fewest that hold the percentile on both sides.
    assert made["tail-unseen"]["value"] == pytest.approx(np.exp(-1), rel=0.01)
    assert made["tail-needed"]["value"] == 299


def answered(seconds: float, valid: bool) -> ScenarioResult:
    latencies = around(seconds, "s", count=700)
    return ScenarioResult("server", latencies, None, valid, (), 0, 1.0, 10.0, 0)


def test_load_is_told_at_its_ends() -> None:
    page = Page("benchmarking")
    found = [answered(each, valid) for each, valid in ((1e-3, True), (1.5e-3, True), (2e-3, True), (8e-3, False))]
    records.record_load(page, 900.0, [0.1, 0.3, 0.5, 0.9], found)
    made = by_key(page)
    assert (made["load-low"]["value"], made["load-high"]["value"]) == pytest.approx((1e-3, 8e-3), rel=0.01)
    assert made["load-rise"]["value"] == pytest.approx(8)
    assert made["load-rise"]["interval"]["low"] < 8 < made["load-rise"]["interval"]["high"]
    assert (made["load-valid"]["value"], made["load-tried"]["value"]) == (3, 4)
    assert made["load-valid"]["what"].startswith("of 4 loads")
    assert [series["label"] for series in made["load"]["series"]] == ["median", "99th percentile"]
    assert made["load"]["series"][0]["x"] == pytest.approx([10, 30, 50, 90])


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
    assert made["flaws"]["rows"][0]["verdict"] == "faster"
    assert made["fair-busy-verdict"]["word"] != "faster"
    assert [row["flaw"] for row in made["flaws"]["rows"]] == [f"flaw {at}" for at in range(5)]


def test_a_fix_stands_beside_its_prediction() -> None:
    found = [
        Bottleneck(model, "loops", "none", around(0.8), 5.0, around(4e-3, "s"), around(1e-3, "s"), compared(4.0), 1e-6)
        for model in ("cnn", "mlp", "gpt")
    ]
    page = Page("benchmarking")
    records.record_bottlenecks(page, found)
    made = by_key(page)
    assert made["predicted-gpt"]["value"] == 5
    assert made["predicted-gpt"]["what"] == "Amdahl's law for loops in the GPT"
    assert made["fixed-mlp"]["value"] == pytest.approx(4, rel=0.01)
    assert made["fixed-mlp-verdict"]["word"] == "faster"
    assert [row["model"] for row in made["bottlenecks"]["rows"]] == ["CNN: loops", "MLP: loops", "GPT: loops"]


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


@pytest.mark.parametrize(
    ("seen", "word"), [(0.002, "enough, with four hundred"), (0.02, "not enough"), (0.01, "cannot tell here")]
)
def test_a_hundredth_is_seen_or_not(seen: float, word: str) -> None:
    def accelerated(ratio: float) -> Performance:
        how = {"interleaved_with": ["made"]}
        times = Measurement("made", tuple(ratio * each for each in around(1.0, "s").samples), "s", how)
        right = np.ones(10, np.bool_)
        return Performance("made", "forward", {64: (times,)}, {64: around(1.0, "B")}, 1, right, "run")

    changes = {
        model: {"accelerated": compare(accelerated(ratio), accelerated(1.0))}
        for model, ratio in (("mlp", 1.0), ("cnn", 2.0), ("gpt", 4.0))
    }
    page = Page("benchmarking")
    page.number("seen-many", seen, unit="%", what="made")
    records.record_questions(page, held(900), [around(0.1), around(seen)], changes)
    made = by_key(page)
    assert made["q-hundredth"]["word"] == word
    assert made["q-miss"]["value"] == pytest.approx(0.1)
    assert made["q-miss"]["interval"]["high"] == pytest.approx(1 - held(900).interval.low)
    assert made["q-geometric"]["value"] == pytest.approx(2, rel=0.01)
    assert made["q-arithmetic"]["value"] == pytest.approx(7 / 3, rel=0.01)
