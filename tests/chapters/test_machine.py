"""What the page on the machine says of machines that differ: each arm, with made ceilings, times and alarms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from tests.chapters.made_turns import said_in
from tests.perf.synthetic_machine import around, synthetic_ceilings
from tinytorch.chapters import machine as chapter
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.machine import Ceilings, identity
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.between_run_variance import BetweenRunVariance
from tinytorch.perf.measuring.conditions import ComputeProbe, Conditions
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.statistics import share_interval
from tinytorch.report import Page
from tinytorch.report.records import Json


def looped(one: Ceilings, peak: float, bits: int, instruction: str) -> Ceilings:
    """Return ceilings whose fastest loop works on 12 vectors of ``bits``, by ``instruction``, at ``peak`` FLOP/s."""
    conditions = Conditions(threads=1, instrument=ComputeProbe(vector_bits=bits, chains=12))
    rates = tuple(
        (count, replace(around(rate, "FLOP/s"), conditions=conditions)) for count, rate in ((2, peak / 3), (64, peak))
    )
    return replace(one, multiply_add=rates, evidence={"multiply-add": {instruction: 756}})


ONE = looped(replace(synthetic_ceilings(), int8_from="vpdpbusd zmm"), 250e9, 512, "vfmadd213ps zmm")
TWO = replace(
    synthetic_ceilings(threads=2), fp32_peak=around(490e9, "FLOP/s", 0.01), int8_peak=around(2e12, "OP/s", 0.01)
)
UNREPORTED = replace(ONE, levels=tuple(replace(level, capacity_reported=None) for level in ONE.levels))


def records(one: Ceilings, several: Ceilings | None) -> dict[str, Json]:
    """Return all records of the page's ceilings by key."""
    page = Page("machine")
    chapter.record_calculated(page, one)
    chapter.record_peaks(page, one, several)
    chapter.record_levels(page, one)
    chapter.record_int8(page, one)
    chapter.record_cores(page, one, several)
    return {record.key: record.to_json() for record in page.records}


@pytest.mark.parametrize("one", [ONE, UNREPORTED, replace(ONE, int8_from="multiply")])
@pytest.mark.parametrize("several", [None, TWO])
def test_on_every_machine_the_text_finds_what_it_names(one: Ceilings, several: Ceilings | None) -> None:
    all_keys = records(ONE, TWO).keys()
    assert records(one, several).keys() == all_keys


def test_on_one_core_nothing_is_said_of_a_second() -> None:
    made = records(ONE, None)
    for key in ("cores", "cores-arithmetic", "cores-bandwidth"):
        assert made[key]["kind"] == "absent"
        assert "one core only" in made[key]["reason"]
    assert [column["key"] for column in made["peaks"]["columns"]] == ["what", "one"]


def test_all_cores_stand_over_one() -> None:
    fast = replace(ONE.levels[-1], read=ONE.levels[-1].read.scaled(1.25))
    made = records(ONE, replace(TWO, fp32_peak=ONE.fp32_peak.scaled(2), levels=(*ONE.levels[:-1], fast)))
    assert made["cores-arithmetic"]["value"] == pytest.approx(2)
    assert made["cores-bandwidth"]["value"] == pytest.approx(1.25)


def test_a_peak_over_a_peak_has_the_uncertainty_of_both() -> None:
    """Nine samples: the interval ends at the second and the eighth, here 5 % off for each peak."""
    peak = Measurement("peak", tuple(200e9 * (1 + 0.05 * k / 3) for k in range(-4, 5)), "FLOP/s")
    made = records(replace(ONE, fp32_peak=peak, int8_peak=replace(peak.scaled(4), unit="OP/s")), TWO)
    found = made["int8-over-fp32"]["interval"]
    assert made["int8-over-fp32"]["value"] == pytest.approx(4)
    assert found["low"] <= 4 * (1 - 0.05 * 1.3)
    assert found["high"] >= 4 * (1 + 0.05 * 1.3)


@pytest.mark.parametrize(("off", "verdict"), [(0.0, "supported"), (0.09, "open")])
def test_a_verdict_on_peaks_takes_the_uncertainty_of_both(off: float, verdict: str) -> None:
    """Both peaks are four per cent off at most: what is 9 % above four may be 10 % above it."""
    four = around(250e9, "FLOP/s", 0.02)
    made = records(replace(ONE, fp32_peak=four, int8_peak=replace(four.scaled(4 * (1 + off)), unit="OP/s")), TWO)
    assert made["int8-four-times"]["verdict"] == verdict


@pytest.mark.parametrize(("walk", "told"), [(None, "nothing"), (2**20, "its latency alone")])
def test_a_level_is_shown_with_its_reported_size_and_what_tells_it(walk: int | None, told: str) -> None:
    """Where a curve falls is no size to be told: from repeat to repeat it moved by a factor of five."""
    untold = replace(ONE.levels[1], capacity_measured=None, capacity_by_latency=walk)
    made = records(replace(ONE, levels=(ONE.levels[0], untold, *ONE.levels[2:])), TWO)
    rows = made["levels"]["rows"]
    assert {row["name"]: row["told"] for row in rows} == {
        "L1": "its bandwidth",
        "L2": told,
        "L3": "its bandwidth",
        "memory": None,
    }
    sizes = [level.capacity_reported for level in ONE.levels]
    assert [row["reported"] and row["reported"]["value"] for row in rows] == sizes
    assert [row["name"] for row in made["bandwidths"]["rows"]] == [row["name"] for row in rows]


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
    assert found["page-fault"]["value"] == ONE.page_fault.median


#: A clock that is known to five per cent.
CLOCK = around(3e9, "Hz", 0.02)


@pytest.mark.parametrize(
    ("units", "word"),
    [
        (0.3, "zero"),
        (0.5, "open"),
        (1.0, "one"),
        (1.5, "more than one"),
        (1.8, "two"),
        (3.0, "three"),
        (4.1, "four"),
        (4.5, "more than one"),
        (6.0, "more than four"),
    ],
)
def test_the_peak_tells_how_many_units_there_are_where_its_interval_does(units: float, word: str) -> None:
    one = looped(replace(ONE, clock=CLOCK), units * CLOCK.median * 16 * 2, 512, "vfmadd213ps zmm")
    found = made(lambda page: chapter.record_calculated(page, one))
    assert said_in(found["units"]) == word
    assert found["units-busy"]["value"] == pytest.approx(units)
    assert found["clock"]["value"] == CLOCK.median
    assert (found["one-unit"]["value"], found["two-units"]["value"]) == (32 * CLOCK.median, 64 * CLOCK.median)
    assert {found[key]["kind"] for key in ("one-unit", "two-units")} == {"modelled"}


@pytest.mark.parametrize(
    ("bits", "instruction", "lanes", "sums"),
    [
        (512, "vfmadd213ps zmm", 16, 12),
        (256, "vfmadd213ps ymm", 8, 12),
        (256, "fmla v", 4, 24),
        (128, "fmla v", 4, 12),
        (256, "fmla z", 8, 12),
        (128, "mulps xmm", 4, 12),
    ],
)
def test_registers_are_those_of_the_assembly(bits: int, instruction: str, lanes: int, sums: int) -> None:
    """NEON's are of 128 bits, so that a loop of wider vectors works on two for each, and four units make its peak."""
    one = looped(replace(ONE, clock=CLOCK), 4 * CLOCK.median * lanes * 2, bits, instruction)
    found = made(lambda page: chapter.record_calculated(page, one))
    assert (found["register-lanes"]["value"], found["sums-in-flight"]["value"]) == (lanes, sums)
    assert found["units"]["word"] == "four"


def test_a_peak_of_a_blas_says_nothing_of_the_units_of_vectors() -> None:
    beside = replace(ONE, fp32_peak=around(2e12, "FLOP/s"), fp32_from="sgemm")
    assert made(lambda page: chapter.record_calculated(page, beside))["units"]["word"] == "two"


def test_bytes_on_their_way_are_bandwidth_times_latency() -> None:
    memory = replace(ONE.levels[-1], read=around(40e9, "B/s"), latency=around(150e-9, "s"))
    found = made(lambda page: chapter.record_calculated(page, replace(ONE, levels=(*ONE.levels[:-1], memory))))
    assert found["bytes-in-flight"]["value"] == pytest.approx(6000)
    assert found["lines-in-flight"]["value"] == pytest.approx(6000 / 64)
    assert found["line-rate"]["value"] == pytest.approx(64 / 150e-9)
    assert found["line"]["value"] == 64
    assert {found[f"{key}-in-flight"]["kind"] for key in ("bytes", "lines")} == {"modelled"}


def sums(ratio: float, seed: int = 0) -> dict[str, Measurement]:
    """Return times of a sum into a new array, ``ratio`` times those into the same one, in pairs."""
    draw = np.random.default_rng(seed)
    both = {}
    for name, seconds in (("new", 1e-3 * ratio), ("same", 1e-3)):
        samples = seconds * np.exp(0.002 * draw.standard_normal(40))
        conditions = Conditions(page_faults_per_call=7.5 * ratio, interleaved_with=("new", "same"))
        both[name] = Measurement(name, tuple(samples.tolist()), "s", conditions)
    return both


def fresh(large: float, noise: float = 1.001) -> dict[str, Json]:
    """Return the records of sums of which the large one takes ``large`` times as long, on a machine of that noise."""

    def record(page: Page) -> None:
        page.noise = replace(page.noise, shown=Measurement("made", (noise,), ""))
        chapter.record_fresh(page, {"small": sums(3.0), "large": sums(large)}, {"small": 100, "large": 1000})

    return made(record)


@pytest.mark.parametrize(("ratio", "word"), [(3.0, "faster"), (1.0, "no difference"), (0.3, "slower")])
def test_writing_into_what_is_there_is_compared_with_a_new_array(ratio: float, word: str) -> None:
    found = fresh(ratio)
    assert said_in(found["fresh-large-verdict"]) == word
    assert found["fresh-large"]["value"] == pytest.approx(ratio, rel=0.01)
    assert found["fresh-large-faults"]["value"] == 7.5 * ratio
    assert [row["size"]["value"] for row in found["fresh"]["rows"]] == [400, 4000]
    assert found["fresh-small-faults"]["what"].startswith("minor page faults of a sum of 100 numbers")


def ratios(last: float) -> dict[str, Measurement]:
    """Return ratios of the same code to itself, of which the last lie around ``last``."""
    return {name: around(value, "", 0.02, seed) for seed, (name, value) in enumerate((("a", 1.0), ("b", last)))}


def test_fresh_memory_is_judged_as_the_page_says_of_the_comparison() -> None:
    """A ratio that the page's noise hides decides nothing, whatever its interval says."""
    assert said_in(fresh(1.2, noise=1.5)["fresh-large-verdict"]) == "open"


@pytest.mark.parametrize(("last", "word"), [(1.0, "none of them can be told from 1"), (1.2, "not all of them are 1")])
def test_the_same_code_is_itself_if_each_interval_holds_one(last: float, word: str) -> None:
    found = made(lambda page: chapter.record_noise(page, ratios(last)))
    assert said_in(found["same-as-itself"]) == word
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
    none = chapter.Alarms("a rule", (chapter.ALIKE,) * 20).rate
    assert (none.median, none.interval.low) == (0, 0)
    assert none.interval.high == pytest.approx(1 - 0.025 ** (1 / 20))


def test_alarms_that_come_together_are_worth_less() -> None:
    apart = chapter.Alarms("a rule", ((chapter.DIFFERENT,) + (chapter.ALIKE,) * 9) * 40).rate
    together = chapter.Alarms("a rule", (chapter.DIFFERENT,) * 40 + (chapter.ALIKE,) * 360).rate
    assert apart.median == together.median == 0.1
    assert together.interval.high - together.interval.low > 2 * (apart.interval.high - apart.interval.low)


class Clock:
    """A clock in nanoseconds, for calls that take what ``seconds`` says of their number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: Callable[[int], float]) -> None:
        self.now, self.calls, self.seconds = 0, 0, seconds
        monkeypatch.setattr("tinytorch.chapters.machine.time.perf_counter_ns", lambda: self.now)

    def __call__(self) -> None:
        self.calls += 1
        self.now += round(1e9 * self.seconds(self.calls))


def test_a_slow_drift_alarms_the_rule_of_blocks_and_not_that_of_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0).normal(0, 1e-6, 10_000)
    clock = Clock(monkeypatch, lambda call: 1e-3 + 2e-6 * call + noise[call])
    in_sequence, in_turns = chapter.against_itself(clock, trials=20)
    assert clock.calls == 20 * (5 + 20)
    assert in_sequence.said == (chapter.DIFFERENT,) * 20
    assert in_turns.said.count(chapter.DIFFERENT) <= 2


def test_both_rules_say_what_is_known_of_independent_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test at 5 % alarms in a twentieth of the trials; times within a hundredth of each other are alike."""
    draw = np.random.default_rng(1)
    in_sequence, in_turns = chapter.against_itself(Clock(monkeypatch, lambda _: draw.normal(1e-3, 5e-5)), trials=400)
    assert 0.02 <= in_sequence.rate.median <= 0.09
    assert in_turns.rate.median <= 0.09
    assert Verdict.OPEN in in_sequence.said
    in_sequence, in_turns = chapter.against_itself(Clock(monkeypatch, lambda _: draw.normal(1e-3, 1e-6)), trials=20)
    assert in_sequence.said.count(chapter.ALIKE) >= 15
    assert in_turns.said.count(chapter.ALIKE) >= 15
    steady = chapter.against_itself(Clock(monkeypatch, lambda _: 1e-3), trials=3)
    assert [rule.said for rule in steady] == [(chapter.ALIKE,) * 3] * 2


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(ValueError, match="trials must be at least 1 and runs at least 6, not 0 and 10"):
        chapter.against_itself(lambda: None, trials=0)
    with pytest.raises(ValueError, match="runs at least 6, not 3 and 5"):
        chapter.against_itself(lambda: None, trials=3, runs=5)


def said(alarms: int, trials: int = 400) -> tuple[str, ...]:
    """Return what a rule said, alarms spread evenly over the trials."""
    steps = np.floor(np.arange(trials + 1) * alarms / trials)
    return tuple(chapter.DIFFERENT if step else Verdict.OPEN for step in np.diff(steps))


@pytest.mark.parametrize(
    ("alarms", "trials", "verdict"),
    [(60, 400, "refuted"), (0, 400, "supported"), (20, 400, "supported"), (5, 100, "open")],
)
def test_ten_runs_are_enough_if_alarms_are_as_rare_as_asked_for(alarms: int, trials: int, verdict: str) -> None:
    rules = chapter.Alarms("in sequence", said(alarms, trials)), chapter.Alarms("in turns", said(8))
    found = made(lambda page: chapter.record_false_alarms(page, *rules))
    assert found["ten-runs"]["verdict"] == verdict
    assert (found["sequence-rate"]["value"], found["turns-rate"]["value"]) == (alarms / trials, 0.02)
    rows = found["false-alarms"]["rows"]
    assert [row["rule"] for row in rows] == ["in sequence", "in turns"]
    words = (chapter.DIFFERENT, chapter.ALIKE, Verdict.OPEN)
    assert [[row[word]["value"] for word in words] for row in rows] == [[alarms, 0, trials - alarms], [8, 0, 392]]


def test_a_test_at_five_per_cent_nearly_always_passes_for_one() -> None:
    passing = [count for count in range(60) if share_interval(count, 400).high <= chapter._AS_ASKED_FOR]
    assert binom.cdf(max(passing), 400, 0.05) > 0.95
    assert binom.cdf(max(passing), 400, 0.12) < 0.001


def test_repeats_are_recorded_as_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page("machine")
    monkeypatch.setattr(chapter, "known_variance", lambda: None)
    with pytest.raises(ValueError, match="repeats must be known"):
        chapter.record_repeats(page)
    monkeypatch.setattr(chapter, "known_variance", lambda: BetweenRunVariance(0.03, 0.01, 1.0, 7))
    chapter.record_repeats(page)
    found = {record.key: record.body for record in page.records}
    assert (found["repeat-alone"]["value"], found["repeat-turns"]["value"]) == (0.03, 0.01)
    assert "7 processes here" in found["repeat-alone"]["what"]
