"""What the page on the machine says of machines that differ: each arm, with made ceilings, times and alarms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.perf.synthetic_machine import around, synthetic_ceilings
from tinytorch.chapters import machine as chapter
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.machine import Ceilings, identity
from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page
from tinytorch.report.records import Json

ONE = replace(synthetic_ceilings(), int8_from="vpdpbusd zmm")
TWO = replace(
    synthetic_ceilings(threads=2), fp32_peak=around(490e9, "FLOP/s", 0.01), int8_peak=around(2e12, "OP/s", 0.01)
)
UNREPORTED = replace(ONE, levels=tuple(replace(level, capacity_reported=None) for level in ONE.levels))


def records(one: Ceilings, several: Ceilings | None) -> dict[str, Json]:
    """Return all records of the page's ceilings by key."""
    page = Page("machine")
    chapter.record_peaks(page, one, several)
    chapter.record_levels(page, one)
    chapter.record_caches(page, one)
    chapter.record_int8(page, one)
    chapter.record_cores(page, one, several)
    return {record.key: record.to_json() for record in page.records}


@pytest.mark.parametrize("one", [ONE, UNREPORTED, replace(ONE, int8_from="multiply")])
@pytest.mark.parametrize("several", [None, TWO])
def test_on_every_machine_the_text_finds_what_it_names(one: Ceilings, several: Ceilings | None) -> None:
    all_keys = records(ONE, TWO).keys()
    named = {key for key in all_keys if not key.startswith("capacity-")}
    assert named <= records(one, several).keys() <= all_keys


def test_on_one_core_nothing_is_said_of_a_second() -> None:
    made = records(ONE, None)
    for key in ("cores", "cores-arithmetic", "cores-bandwidth", "second-core"):
        assert made[key]["kind"] == "absent"
        assert "one core only" in made[key]["reason"]
    assert [column["key"] for column in made["peaks"]["columns"]] == ["what", "one"]


@pytest.mark.parametrize(
    ("peak", "bandwidth", "verdict"), [(2.0, 2.0, "supported"), (2.0, 1.1, "refuted"), (1.0, 2.0, "refuted")]
)
def test_two_cores_double_speed_only_if_both_ceilings_do(peak: float, bandwidth: float, verdict: str) -> None:
    fast = replace(ONE.levels[-1], read=ONE.levels[-1].read.scaled(bandwidth))
    two = replace(TWO, fp32_peak=ONE.fp32_peak.scaled(peak), levels=(*ONE.levels[:-1], fast))
    assert records(ONE, two)["second-core"]["verdict"] == verdict


def test_without_reported_caches_the_claim_says_why_it_is_not_there() -> None:
    made = records(UNREPORTED, TWO)
    assert made["caches-are-yours"]["reason"] == chapter.NO_CACHES
    assert not [key for key in made if key.startswith("capacity-")]


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "supported"), (0.5, "refuted")])
def test_a_cache_is_ours_if_most_of_it_was_found(factor: float, verdict: str) -> None:
    first = ONE.levels[0]
    assert first.capacity_measured is not None
    held = replace(first, capacity_measured=int(first.capacity_measured * factor))
    made = records(replace(ONE, levels=(held, *ONE.levels[1:])), TWO)
    assert made["caches-are-yours"]["verdict"] == verdict


@pytest.mark.parametrize("dot", DOTS, ids=lambda dot: dot.name)
def test_four_times_is_asked_of_cpus_with_a_dot_product_alone(dot: Dot) -> None:
    name = dot.name
    made = records(replace(ONE, int8_from=name), TWO)
    assert made["int8-over-fp32"]["value"] == pytest.approx(4, rel=0.1)
    if name in ("vpmaddwd zmm", "vpmaddwd ymm", "multiply"):
        assert made["int8-four-times"]["kind"] == "absent"
    else:
        assert made["int8-four-times"]["verdict"] == "supported"
    assert made["peaks"]["rows"][2]["what"] == f"INT8 arithmetic, by {name}"


def test_half_of_four_times_refutes_it() -> None:
    assert records(replace(ONE, int8_peak=ONE.int8_peak.scaled(0.5)), TWO)["int8-four-times"]["verdict"] == "refuted"


def made(record: Callable[[Page], None]) -> dict[str, Json]:
    """Return by key what ``record`` adds to a page."""
    page = Page("machine")
    before = len(page.records)
    record(page)
    return {one.key: one.to_json() for one in page.records[before:]}


def test_what_the_libraries_report_stands_in_the_table() -> None:
    machine = replace(identity(), cpu="Made CPU", memory_bytes=2**30, huge_pages=None, extensions=(), load=None)
    rows = {
        row["what"]: row["is"] for row in made(lambda page: chapter.show_identity(page, machine))["identity"]["rows"]
    }
    assert rows["CPU"].startswith("Made CPU, ")
    assert rows["Memory"] == "1.000\u00a0GiB"
    assert (rows["Huge pages"], rows["Vector extensions"], rows["Load"]) == ("none", "unknown", "unknown")


@pytest.mark.parametrize(("size", "text"), [(None, "–"), (4096, "4,096\u00a0B"), (2**20, "1.000\u00a0MiB")])
def test_an_unknown_size_is_a_dash(size: int | None, text: str) -> None:
    assert chapter.bytes_text(size) == text


def test_the_ladder_shows_every_point_of_each_curve() -> None:
    found = made(lambda page: chapter.record_ladder(page, ONE))
    assert [series["label"] for series in found["ladder"]["series"]] == ["read", "copy", "triad", "dependent load"]
    assert all(len(series["x"]) == len(ONE.curves["read"]) for series in found["ladder"]["series"])
    sizes = [point.working_set for point in ONE.curves["read"]]
    assert all(np.multiply(series["x"], 1024).tolist() == sizes for series in found["ladder"]["series"])
    assert (found["clock"]["value"], found["page-fault"]["value"]) == (ONE.clock.median, ONE.page_fault.median)


def sums(ratio: float, seed: int = 0) -> dict[str, Measurement]:
    """Return times of a sum into a new array, ``ratio`` times those into the same one, in pairs."""
    draw = np.random.default_rng(seed)
    both = {}
    for name, seconds in (("new", 1e-3 * ratio), ("same", 1e-3)):
        samples = seconds * np.exp(0.002 * draw.standard_normal(40))
        how = {"minor_page_faults_per_call": 7.5 * ratio, "interleaved_with": ["new", "same"]}
        both[name] = Measurement(name, tuple(samples.tolist()), "s", how)
    return both


@pytest.mark.parametrize(("ratio", "verdict"), [(3.0, "refuted"), (1.0, "supported"), (0.3, "cannot tell here")])
def test_fresh_memory_is_free_only_if_the_large_sum_takes_as_long(ratio: float, verdict: str) -> None:
    counts = {"small": 100, "large": 1000}
    found = made(lambda page: chapter.record_fresh(page, {"small": sums(3.0), "large": sums(ratio)}, counts))
    assert found["fresh-is-free"]["verdict"] == verdict
    assert found["fresh-large"]["value"] == pytest.approx(ratio, rel=0.01)
    assert found["fresh-large-faults"]["value"] == 7.5 * ratio
    assert [row["size"]["value"] for row in found["fresh"]["rows"]] == [400, 4000]
    assert found["fresh-small-faults"]["what"].startswith("minor page faults of a sum of 100 numbers")


def ratios(last: float) -> dict[str, Measurement]:
    """Return ratios of the same code to itself, of which the last lie around ``last``."""
    return {name: around(value, "", 0.02, seed) for seed, (name, value) in enumerate((("a", 1.0), ("b", last)))}


@pytest.mark.parametrize(("last", "word"), [(1.0, "indistinguishable from 1"), (1.2, "not all 1")])
def test_the_same_code_is_itself_if_each_interval_holds_one(last: float, word: str) -> None:
    found = made(lambda page: chapter.record_noise(page, ratios(last)))
    assert found["same-as-itself"]["word"] == word
    widths = [one.interval.high - one.interval.low for one in ratios(last).values()]
    assert found["resolvable"]["value"] == pytest.approx(max(widths) / 2)
    departures = [abs(sample - 1) for sample in ratios(last)["a"].samples]
    assert found["one-pair"]["value"] == pytest.approx(float(np.median(departures)))


def test_each_of_the_ratios_has_a_row() -> None:
    rows = made(lambda page: chapter.show_noise(page, ratios(1.2)))["noise"]["rows"]
    assert [row["what"] for row in rows] == ["a", "b"]
    assert rows[1]["single"]["value"] == pytest.approx(0.2, abs=0.05)


def test_the_same_against_the_same_is_about_one() -> None:
    measured = chapter.same_against_same(lambda: sum(range(2000)), repeats=8)
    assert measured.n == 8
    assert 0.3 < measured.median < 3


def test_false_alarms_have_an_exact_interval() -> None:
    # Clopper and Pearson for 0 of n: (0, 1 - (alpha / 2) ** (1 / n)).
    none = chapter.FalseAlarms("a rule", 0, 20)
    assert none.rate == 0
    assert none.interval.low == 0
    assert none.interval.high == pytest.approx(1 - 0.025 ** (1 / 20))


def test_a_program_that_gets_slower_meanwhile_always_alarms_the_sequential_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0]
    calls = iter(range(1, 10_000))

    def slower_and_slower() -> None:
        clock[0] += 1000 * next(calls)

    monkeypatch.setattr("tinytorch.chapters.machine.time.perf_counter_ns", lambda: clock[0])
    found = chapter.false_alarms_in_sequence(slower_and_slower, trials=3)
    assert (found.alarms, found.trials) == (3, 3)
    # The same program at a steady pace: no scatter, so nothing to test and no alarm.
    monkeypatch.setattr("tinytorch.chapters.machine.time.perf_counter_ns", lambda: 0)
    assert chapter.false_alarms_in_sequence(slower_and_slower, trials=3).alarms == 0
    with pytest.raises(ValueError, match="trials"):
        chapter.false_alarms_in_sequence(slower_and_slower, trials=0)


@pytest.mark.parametrize(("alarms", "verdict"), [(30, "refuted"), (0, "supported"), (5, "cannot tell here")])
def test_ten_runs_are_enough_if_alarms_are_as_rare_as_asked_for(alarms: int, verdict: str) -> None:
    found = made(
        lambda page: chapter.record_false_alarms(
            page, chapter.FalseAlarms("in sequence", alarms, 100), chapter.FalseAlarms("in turns", 1, 50)
        )
    )
    assert found["ten-runs"]["verdict"] == verdict
    assert (found["sequence-rate"]["value"], found["turns-rate"]["value"]) == (alarms / 100, 0.02)
    assert [row["rule"] for row in found["false-alarms"]["rows"]] == ["in sequence", "in turns"]


def test_pairs_in_turns_are_counted_and_at_least_one() -> None:
    found = chapter.false_alarms_in_turns(lambda: None, trials=2, pairs=6)
    assert found.trials == 2 >= found.alarms
    with pytest.raises(ValueError, match="trials"):
        chapter.false_alarms_in_turns(lambda: None, trials=0)
