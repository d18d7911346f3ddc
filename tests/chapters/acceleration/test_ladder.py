"""Ladder of products: every way gives the product, is held against the peak, and is told as it was measured."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, made
from tests.perf.made_ceilings import PEAK, made_ceilings
from tinytorch.chapters.acceleration import ladder as chapter
from tinytorch.chapters.acceleration.ladder import (
    FREE_BLAS,
    ONE_CORE,
    STEPS,
    Ladder,
    Rung,
    Step,
    TwoCores,
    matmul_ladder,
)
from tinytorch.chapters.acceleration.tiles import drawn
from tinytorch.perf.acceleration import products
from tinytorch.perf.kernels.gemm.product_tiles import LANES
from tinytorch.perf.machine import identity
from tinytorch.perf.measuring import Unmeasured

ELEMENTS, LISTS, INNER, BY_ROWS, REGISTERS, CACHES, PACKED, BLAS = (step.name for step in STEPS)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("shape", [(8, 1, 48), (48, 33, 96)])
def test_each_step_multiplies(step: Step, shape: tuple[int, int, int]) -> None:
    a, b = drawn(shape[0], shape[1]), drawn(shape[1], shape[2])
    found = step.function(a, b)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=0, atol=1e-4)


def test_the_ladder_holds_rates_against_the_peak_it_is_given() -> None:
    made = made_ceilings()
    steps = (Step("narrow", products.python_loops, 8), Step("few rows", products.blas, rows=4))
    narrow, few = matmul_ladder(16, steps=steps, made=made, repeats=6, at_most_seconds=0.05)
    assert (narrow.width, narrow.rows, few.width, few.rows) == (8, 8, 16, 4)
    assert (narrow.flops, few.flops) == (2 * 8**3, 2 * 4 * 16**2)
    assert few.rate.samples == pytest.approx([few.flops / seconds for seconds in few.seconds.samples])
    assert few.of_peak.median == pytest.approx(few.rate.median / made.fp32_peak.median)
    assert few.seconds.unit == "s"


def test_a_wrong_step_is_not_timed() -> None:
    wrong = Step("wrong", lambda a, b: a + b)
    with pytest.raises(ArithmeticError, match="wrong"):
        matmul_ladder(8, steps=(wrong,), made=made_ceilings())
    with pytest.raises(ValueError, match="width"):
        matmul_ladder(0)


def test_the_page_has_all_steps_beyond_the_last_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def one_each(width: int, *, steps: tuple[Step, ...] = STEPS, **_plan: object) -> list[Rung]:
        asked.append(width)
        seconds = in_turns({step.name: 1.0 for step in steps})
        return [Rung(step, width, width, 1, seconds[step.name], made_ceilings().fp32_peak) for step in steps]

    monkeypatch.setattr(chapter, "matmul_ladder", one_each)
    found = chapter.study_ladder(made_ceilings())
    assert asked == [960]  # two mebibytes are less than the 3.5 of a matrix 960 wide
    assert [*found.rungs] == [step.name for step in STEPS]
    assert found.sums.unit == "s"


@pytest.mark.parametrize(("cache", "width"), [(1, 960), (2**25, 4800), (2**40, 5760)])
def test_the_width_is_beyond_the_last_cache_or_the_largest(cache: int, width: int) -> None:
    machine = made_ceilings()
    levels = (*machine.levels[:1], replace(machine.levels[1], capacity_measured=cache), machine.levels[2])
    assert chapter.width_beyond(replace(machine, levels=levels)) == width


#: Rows and columns of each step's product, as the page has them on a machine with a small cache.
SHAPES = {step.name: (min(step.widest or 960, step.rows or 960), step.widest or 960) for step in STEPS}


def at_peak(name: str) -> float:
    """Return the seconds of a step at the peak."""
    rows, width = SHAPES[name]
    return 2 * rows * width**2 / PEAK


def made_ladder(slower: Mapping[str, float]) -> Ladder:
    """Return all steps: each at a tenth of the peak but for those that take so many times as long as at the peak."""
    seconds = {step.name: slower.get(step.name, 10.0) * at_peak(step.name) for step in STEPS}
    times, peak = in_turns(seconds), made_ceilings().fp32_peak
    rungs = {
        step.name: Rung(step, SHAPES[step.name][1], SHAPES[step.name][0], 1, times[step.name], peak) for step in STEPS
    }
    return Ladder(rungs, times, made(8 * 4096 / 0.75e9, "s"), made_ceilings())


def test_rates_shares_and_gains_are_those_of_the_rungs() -> None:
    slower = {ELEMENTS: 8000.0, LISTS: 4000.0, INNER: 80.0, BY_ROWS: 20.0, REGISTERS: 5.0, CACHES: 3.0, BLAS: 2.0}
    found = made_ladder(slower)
    assert found.rungs[REGISTERS].rate.median == pytest.approx(PEAK / 5)
    assert found.rungs[BLAS].of_peak.median == pytest.approx(0.5)
    assert found.compared(PACKED, BLAS, matters=0.1).estimate.median == pytest.approx(10 / 2)
    assert found.gain(INNER, BY_ROWS).median == pytest.approx(4)
    assert found.gain(REGISTERS, CACHES).median == pytest.approx(5 / 3)
    # The clock of the made machine is 3 GHz; a rate of P / 80 is P / 160 steps a second.
    assert found.near_cycles.median == pytest.approx(4)
    assert found.inner_cycles.median == pytest.approx(3e9 * 160 / PEAK)
    assert found.bytes == 4 * 960**2
    assert chapter.vector_rate(made_ceilings()).median == pytest.approx(PEAK / (2 * LANES) / 3e9)
    assert found.loops_for_1024.value == pytest.approx(8000 * 2 * 1024**3 / PEAK)
    assert chapter.least_for_1024(made_ceilings()).value == pytest.approx(2 * 1024**3 / PEAK)


@pytest.mark.parametrize(("cores", "threads", "reason"), [(1, 1, ONE_CORE), (2, None, FREE_BLAS), (2, 1, FREE_BLAS)])
def test_the_reason_is_cores_before_blas(
    monkeypatch: pytest.MonkeyPatch, cores: int, threads: int | None, reason: str
) -> None:
    here = identity()
    monkeypatch.setattr(chapter, "identity", lambda: replace(here, cores_usable=cores))
    monkeypatch.setattr(chapter, "limited_blas_threads", lambda count: threads)
    assert chapter.second_core() == Unmeasured(reason)


def test_a_second_core_is_held_against_one(monkeypatch: pytest.MonkeyPatch) -> None:
    here, flops = identity(), 2 * 2048**3
    monkeypatch.setattr(chapter, "identity", lambda: replace(here, cores_usable=2))
    monkeypatch.setattr(chapter, "limited_blas_threads", lambda count: count)
    monkeypatch.setattr(chapter, "interleave", lambda runs, **_: in_turns({"1": flops / 80e9, "2": flops / 120e9}))
    found = chapter.second_core()
    assert isinstance(found, TwoCores)
    assert found.rate.median == pytest.approx(120e9)
    assert found.gain.median == pytest.approx(1.5)
