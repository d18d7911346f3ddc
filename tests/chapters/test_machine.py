"""What is said of machines that differ: each arm, with made ceilings, times and alarms."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from tests.perf.synthetic_machine import around, synthetic_ceilings
from tinytorch.chapters import machine as chapter
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.between_run_variance import BetweenRunVariance
from tinytorch.perf.measuring.conditions import ComputeProbe, Conditions
from tinytorch.perf.measuring.judge import Ends
from tinytorch.perf.measuring.statistics import share_interval


def looped(one: Ceilings, peak: float, bits: int, instruction: str) -> Ceilings:
    """Return ceilings whose fastest loop works on 12 vectors of ``bits``, by ``instruction``, at ``peak`` FLOP/s."""
    conditions = Conditions(threads=1, instrument=ComputeProbe(vector_bits=bits, chains=12))
    rates = tuple(
        (count, replace(around(rate, "FLOP/s"), conditions=conditions)) for count, rate in ((2, peak / 3), (64, peak))
    )
    return replace(one, multiply_add=rates, evidence={"multiply-add": {instruction: 756}})


ONE = looped(replace(synthetic_ceilings(), int8_from="vpdpbusd zmm"), 250e9, 512, "vfmadd213ps zmm")
TWO = replace(synthetic_ceilings(threads=2), fp32_peak=around(490e9, "FLOP/s"), int8_peak=around(2e12, "OP/s"))


def test_all_cores_stand_over_one_and_on_one_core_nothing_is_said_of_a_second() -> None:
    fast = replace(ONE.levels[-1], read=ONE.levels[-1].read.scaled(1.25))
    several = replace(TWO, fp32_peak=ONE.fp32_peak.scaled(2), levels=(*ONE.levels[:-1], fast))
    found = chapter.all_cores(ONE, several)
    assert not isinstance(found, Unmeasured)
    assert [found[name].median for name in ("cores", "arithmetic", "read")] == pytest.approx([2, 2, 1.25])
    assert [row["all"].median / row["one"].median for row in chapter.peaks(ONE, several)[::2]] == pytest.approx(
        [2, 2], rel=0.1
    )
    alone = chapter.all_cores(ONE, None), *(row["all"] for row in chapter.peaks(ONE, None))
    assert {*alone} == {chapter.ONE_CORE}


def test_a_peak_over_a_peak_has_the_uncertainty_of_both() -> None:
    """Nine samples: the interval ends at the second and the eighth, here 5 % off for each peak."""
    peak = Measurement("peak", tuple(200e9 * (1 + 0.05 * k / 3) for k in range(-4, 5)), "FLOP/s")
    found = chapter.ratio_of_peaks(replace(ONE, fp32_peak=peak, int8_peak=replace(peak.scaled(4), unit="OP/s")))
    assert found.median == pytest.approx(4)
    assert found.interval.low <= 4 * (1 - 0.05 * 1.3)
    assert found.interval.high >= 4 * (1 + 0.05 * 1.3)


@pytest.mark.parametrize("dot", DOTS, ids=lambda dot: dot.name)
def test_a_gain_is_that_of_an_instruction_which_multiplies_bytes(dot: Dot) -> None:
    one = replace(ONE, int8_from=dot.name)
    without = dot.name in ("vpmaddwd zmm", "vpmaddwd ymm", "multiply")
    assert isinstance(chapter.gain_of_instruction(one), Unmeasured) == without
    assert chapter.peaks(one, TWO)[2]["what"] == f"INT8 arithmetic, by {dot.name}"


@pytest.mark.parametrize(("walk", "told"), [(None, "nothing"), (2**20, "latency")])
def test_a_level_has_its_reported_size_and_what_tells_it(walk: int | None, told: str) -> None:
    """Where a curve falls is no size to be told: from repeat to repeat it moved by a factor of five."""
    untold = replace(ONE.levels[1], capacity_measured=None, capacity_by_latency=walk)
    rows = chapter.levels(replace(ONE, levels=(ONE.levels[0], untold, *ONE.levels[2:])))
    assert {row["name"]: row["told"] for row in rows} == {
        "L1": "bandwidth", "L2": told, "L3": "bandwidth", "memory": None,
    }  # fmt: skip
    assert [row["reported"] and row["reported"].value for row in rows] == [one.capacity_reported for one in ONE.levels]


def test_the_ladder_has_every_point_of_each_curve() -> None:
    rows = chapter.ladder(ONE)
    assert len(rows) == 4 * len(ONE.curves["read"])
    loads = [row for row in rows if row["line"] == "dependent load"]
    assert [1024 * row["at"] for row in loads] == [point.working_set for point in ONE.curves["latency"]]
    assert [row["value"] for row in loads] == [point.reached for point in ONE.curves["latency"]]


#: A clock that is known to five per cent.
CLOCK = around(3e9, "Hz", 0.02)
WORDS: dict[str, Ends] = {"zero": (None, 0.5), "one": (0.5, 1.5), "two": (1.5, 2.5), "more": (2.5, None)}


@pytest.mark.parametrize(
    ("units", "word"),
    [(0.3, "zero"), (0.5, "open"), (1.0, "one"), (1.5, "more than one"), (1.8, "two"), (6.0, "more")],
)
def test_the_peak_tells_how_many_units_there_are_where_its_interval_does(units: float, word: str) -> None:
    one = looped(replace(ONE, clock=CLOCK), units * CLOCK.median * 16 * 2, 512, "vfmadd213ps zmm")
    _, _, of_one, of_two, busy = chapter.units(one)
    assert str(chapter.nearest_or(busy, WORDS, {"more than one": (1.0, None)})) == word
    assert busy.median == pytest.approx(units)
    assert (of_one.value, of_two.value) == (32 * CLOCK.median, 64 * CLOCK.median)


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
    of_register, in_flight, *_, busy = chapter.units(one)
    assert [of_register.value, in_flight.value, busy.median] == pytest.approx([lanes, sums, 4])


def test_a_peak_of_a_blas_says_nothing_of_the_units_of_vectors() -> None:
    beside = replace(ONE, fp32_peak=around(2e12, "FLOP/s"), fp32_from="sgemm")
    assert chapter.units(beside)[-1].median == chapter.units(ONE)[-1].median


def test_bytes_on_their_way_are_bandwidth_times_latency() -> None:
    memory = replace(ONE.levels[-1], read=around(40e9, "B/s"), latency=around(150e-9, "s"))
    found = [each.value for each in chapter.on_their_way(memory)]
    assert found == pytest.approx([64 / 150e-9, 6000 / 64, 6000])


@pytest.mark.parametrize(("last", "word"), [(1.0, chapter.UNDECIDED), (1.2, chapter.DIFFERENT)])
def test_the_same_code_is_itself_if_each_interval_holds_one(last: float, word: str) -> None:
    ratios = {name: around(value, "", 0.02, seed) for seed, (name, value) in enumerate((("a", 1.0), ("b", last)))}
    assert chapter.told_from_one(ratios.values()) == word
    rows = chapter.noise(ratios)
    assert [row["what"] for row in rows] == ["a", "b"]
    assert rows[1]["single"].samples == tuple(abs(sample - 1) for sample in ratios["b"].samples)


def test_the_same_against_the_same_is_about_one() -> None:
    measured = chapter.same_against_same(lambda: sum(range(2000)), repeats=8)
    assert measured.n == 8
    assert 0.3 < measured.median < 3


def test_false_alarms_have_an_exact_interval() -> None:
    # Clopper and Pearson for 0 of n: (0, 1 - (alpha / 2) ** (1 / n)).
    none = chapter.alarms("a rule", [chapter.ALIKE] * 20).rate
    assert (none.median, none.interval.low) == (0, 0)
    assert none.interval.high == pytest.approx(1 - 0.025 ** (1 / 20))


def test_alarms_that_come_together_are_worth_less() -> None:
    apart = chapter.alarms("a rule", ([chapter.DIFFERENT] + [chapter.ALIKE] * 9) * 40)
    together = chapter.alarms("a rule", [chapter.DIFFERENT] * 40 + [chapter.ALIKE] * 360)
    assert (apart.trials, apart.different, apart.alike, apart.open) == (400, 40, 360, 0)
    assert apart.rate.median == together.rate.median == 0.1
    wide, narrow = together.rate.interval, apart.rate.interval
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


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
    assert in_sequence.different == 20
    assert in_turns.different <= 2


def test_both_rules_say_what_is_known_of_independent_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test at 5 % alarms in a twentieth of the trials; times within a hundredth of each other are alike."""
    draw = np.random.default_rng(1)
    in_sequence, in_turns = chapter.against_itself(Clock(monkeypatch, lambda _: draw.normal(1e-3, 5e-5)), trials=400)
    assert 0.02 <= in_sequence.rate.median <= 0.09
    assert in_turns.rate.median <= 0.09
    assert in_sequence.open
    in_sequence, in_turns = chapter.against_itself(Clock(monkeypatch, lambda _: draw.normal(1e-3, 1e-6)), trials=20)
    assert min(in_sequence.alike, in_turns.alike) >= 15
    steady = chapter.against_itself(Clock(monkeypatch, lambda _: 1e-3), trials=3)
    assert [rule.alike for rule in steady] == [3, 3]


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(ValueError, match="trials must be at least 1 and runs at least 6, not 0 and 10"):
        chapter.against_itself(lambda: None, trials=0)
    with pytest.raises(ValueError, match="runs at least 6, not 3 and 5"):
        chapter.against_itself(lambda: None, trials=3, runs=5)


@pytest.mark.parametrize(
    ("false", "trials", "verdict"),
    [(60, 400, "refuted"), (0, 400, "supported"), (20, 400, "supported"), (5, 100, "open")],
)
def test_alarms_are_rare_enough_if_they_are_as_rare_as_asked_for(false: int, trials: int, verdict: str) -> None:
    steps = np.diff(np.floor(np.arange(trials + 1) * false / trials))  # spread evenly over the trials
    rate = chapter.alarms("a rule", [chapter.DIFFERENT if step else chapter.UNDECIDED for step in steps]).rate
    assert chapter.rare_enough(rate, asked_for=0.05, passes=0.1).verdict == verdict


def test_a_test_at_five_per_cent_nearly_always_passes_for_one() -> None:
    passing = [count for count in range(60) if share_interval(count, 400).high <= 0.1]
    assert binom.cdf(max(passing), 400, 0.05) > 0.95
    assert binom.cdf(max(passing), 400, 0.12) < 0.001


def test_repeats_are_told_as_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapter, "known_variance", lambda: None)
    with pytest.raises(ValueError, match="repeats must be known"):
        chapter.repeats()
    monkeypatch.setattr(chapter, "known_variance", lambda: BetweenRunVariance(0.03, 0.01, 1.0, 7))
    alone, in_turns = chapter.repeats()
    assert (alone.value, in_turns.value) == (0.03, 0.01)
    assert "7 processes here" in alone.what


def test_of_many_drawn_intervals_nineteen_of_twenty_hold_the_truth() -> None:
    drawing = chapter.repeated_intervals(400, 15, truth="truth", misses="misses", below="below", seed=3)
    missed = len(re.findall(">misses<", drawing.svg(key="a", alt="b")))
    assert missed == pytest.approx(400 * 0.05, abs=4 * np.sqrt(400 * 0.05 * 0.95))
