"""What pages say of machines that differ, and the roofs of this one: each arm, with made ceilings."""

from dataclasses import replace

import pytest

from tests.perf.made_ceilings import LEVELS, PEAK, around, made_ceilings, synthetic_ceilings
from tinytorch.chapters import machine as chapter
from tinytorch.chapters import your_machine
from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.measuring.conditions import ComputeProbe, Conditions


def looped(one: Ceilings, peak: float, bits: int, instruction: str) -> Ceilings:
    """Return ceilings whose fastest loop works on 12 vectors of ``bits``, by ``instruction``, at ``peak`` FLOP/s."""
    conditions = Conditions(threads=1, instrument=ComputeProbe(vector_bits=bits, chains=12))
    rates = tuple(
        (count, replace(around(rate, "FLOP/s"), conditions=conditions)) for count, rate in ((2, peak / 3), (64, peak))
    )
    return replace(one, multiply_add=rates, evidence={"multiply-add": {instruction: 756}})


ONE = looped(replace(synthetic_ceilings(), int8_from="vpdpbusd zmm"), 250e9, 512, "vfmadd213ps zmm")


def test_on_one_core_nothing_is_said_of_a_second() -> None:
    assert chapter.all_cores(ONE, 1) is chapter.ONE_CORE


@pytest.mark.parametrize("dot", DOTS, ids=lambda dot: dot.name)
def test_a_gain_is_that_of_an_instruction_which_multiplies_bytes(dot: Dot) -> None:
    one = replace(ONE, int8_from=dot.name)
    without = dot.name in ("vpmaddwd zmm", "vpmaddwd ymm", "multiply")
    assert isinstance(chapter.gain_of_instruction(one), Unmeasured) == without


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


class Found:
    """Stands in for the identity of a machine."""

    def __init__(self, cores: int) -> None:
        self.cores_usable = cores


@pytest.mark.parametrize(("cores", "threads"), [(1, [1]), (2, [1, 2]), (64, [1, 64])])
def test_one_core_has_the_roofs_of_one_thread_alone(
    cores: int, threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(your_machine, "identity", lambda: Found(cores))
    monkeypatch.setattr(your_machine, "ceilings", lambda count: made_ceilings(threads=count))
    assert [one.threads for one in your_machine.roofs()] == threads


def test_the_roofs_are_peaks_and_the_best_bandwidth_of_each_level() -> None:
    rows = [*your_machine.roof_rows([made_ceilings(threads=1), made_ceilings(threads=2, peak=2 * PEAK)])]
    assert [row["roof"] for row in rows] == 2 * ["FP32", "INT8", *(name for name, _, _ in LEVELS)]
    assert [row["threads"] for row in rows] == 5 * [1] + 5 * [2]
    assert [row["rate"].median for row in (rows[0], rows[5])] == [PEAK, 2 * PEAK]
    levels = [(row["roof"], row["holds"] and row["holds"].value, row["rate"].median) for row in rows[2:5]]
    assert levels == [*LEVELS]


def test_operations_are_placed_by_what_they_ask_for() -> None:
    placed = {one.name: one for one in your_machine.placed_operations(made_ceilings(threads=thread_limit()), width=8)}
    assert placed["add"].demand.bytes == 3 * 8 * 8 * 4
    assert placed["matrix × vector"].demand.flops == 2 * 8 * 8
    assert placed["matrix × matrix"].demand.flops == 2 * 8 * 8 * 8
    assert placed["GELU"].intensity.value == 1.0
