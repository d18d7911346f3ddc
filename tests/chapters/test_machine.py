"""What is said of machines that differ: each arm, with made ceilings."""

from dataclasses import replace

import pytest

from tests.perf.synthetic_machine import around, synthetic_ceilings
from tinytorch.chapters import machine as chapter
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.between_run_variance import BetweenRunVariance
from tinytorch.perf.measuring.conditions import ComputeProbe, Conditions


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
    assert [found[name].median for name in ("arithmetic", "read")] == pytest.approx([2, 1.25])
    assert [row["all"].median / row["one"].median for row in chapter.peaks(ONE, several)[::2]] == pytest.approx(
        [2, 2], rel=0.1
    )
    alone = chapter.all_cores(ONE, None), *(row["all"] for row in chapter.peaks(ONE, None))
    assert {*alone} == {chapter.ONE_CORE}


def test_a_peak_over_a_peak_has_the_uncertainty_of_both_unless_they_were_taken_in_turns() -> None:
    """Nine samples: the interval ends at the second and the eighth, here 5 % off for each peak."""
    peak = Measurement("peak", tuple(200e9 * (1 + 0.05 * k / 3) for k in range(-4, 5)), "FLOP/s")
    one = replace(ONE, fp32_peak=peak, int8_peak=replace(peak.scaled(4), unit="OP/s"))
    assert set(chapter.ratio_of_peaks(replace(one, fp32_from="compiled multiply-add")).samples) == {4}
    found = chapter.ratio_of_peaks(replace(one, fp32_from="sgemm"))
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


@pytest.mark.parametrize("units", [0.3, 1.0, 1.8, 6.0])
def test_the_peak_tells_how_many_units_are_busy(units: float) -> None:
    one = looped(replace(ONE, clock=CLOCK), units * CLOCK.median * 16 * 2, 512, "vfmadd213ps zmm")
    _, _, of_one, of_two, busy = chapter.units(one)
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


def test_repeats_are_told_as_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapter, "known_variance", lambda: None)
    with pytest.raises(ValueError, match="repeats"):
        chapter.repeats()
    monkeypatch.setattr(chapter, "known_variance", lambda: BetweenRunVariance(0.03, 0.01, 1.0, 7))
    alone, in_turns = chapter.repeats()
    assert (alone.value, in_turns.value) == (0.03, 0.01)
    assert "7 processes here" in alone.what
