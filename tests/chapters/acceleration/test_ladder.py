"""Ladder of products: every way gives the product, is held against the peak, and is told as it was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, made, records, said_in
from tests.perf.made_ceilings import PEAK, made_ceilings
from tinytorch.chapters.acceleration import ladder as chapter
from tinytorch.chapters.acceleration.ladder import (
    COPY,
    FREE_BLAS,
    ONE_CORE,
    STEPS,
    Ladder,
    Rung,
    Step,
    TwoCores,
    matmul_ladder,
)
from tinytorch.perf.acceleration import products
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS
from tinytorch.perf.machine import identity
from tinytorch.perf.measuring import current_blas_threads
from tinytorch.report import Page
from tinytorch.report.records import Json

ELEMENTS, LISTS, INNER, BY_ROWS, REGISTERS, PACKED, BLOCKS, BLAS = (step.name for step in STEPS)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("shape", [(8, 1, 48), (48, 33, 96)])
def test_each_step_multiplies(step: Step, shape: tuple[int, int, int]) -> None:
    a, b = chapter.drawn(shape[0], shape[1]), chapter.drawn(shape[1], shape[2])
    found = step.function(a, b)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=0, atol=1e-4)


def test_a_large_matrix_repeats_what_was_drawn() -> None:
    drawn = chapter.drawn(1025, 1024)
    assert drawn.shape == (1025, 1024)
    assert np.array_equal(drawn[1024], drawn[0])
    assert not np.array_equal(drawn[1], drawn[0])


def test_it_begins_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = made_ceilings()
    monkeypatch.setattr(chapter, "ceilings", lambda threads: machine if threads == 1 else None)
    page, found = chapter.begin()
    assert (page.name, found) == ("acceleration", machine)
    assert current_blas_threads() == 1


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
    with pytest.raises(ArithmeticError, match="wrong is wrong"):
        matmul_ladder(8, steps=(wrong,), made=made_ceilings())
    with pytest.raises(ValueError, match="width must be at least 1, not 0"):
        matmul_ladder(0)


def test_the_page_has_all_steps_beyond_the_last_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def one_each(width: int, *, steps: tuple[Step, ...] = STEPS, **_plan: object) -> list[Rung]:
        asked.append(width)
        seconds = in_turns({step.name: 1.0 for step in steps})
        return [Rung(step, width, width, 1, seconds[step.name], made_ceilings().fp32_peak) for step in steps]

    monkeypatch.setattr(chapter, "matmul_ladder", one_each)
    found = chapter.study_ladder(made_ceilings())
    assert asked == [960]  # a mebibyte and a half are less than the 3.5 of a matrix 960 wide
    assert [rung.step.name for rung in found.rungs] == [step.name for step in STEPS]
    assert found.copied.step is COPY
    assert found.sums.unit == "s"


@pytest.mark.parametrize(("cache", "width"), [(1, 960), (2**25, 3840), (2**40, 7680)])
def test_the_width_is_beyond_the_last_cache_or_the_largest(cache: int, width: int) -> None:
    machine = made_ceilings()
    levels = (*machine.levels[:1], replace(machine.levels[1], capacity_measured=cache), machine.levels[2])
    assert chapter.width_beyond(replace(machine, levels=levels)) == width


def test_memory_operations_are_those_counted_by_hand() -> None:
    assert chapter.memory_operations(1, 1) == 2  # its sum stays: plain loops load and store that, too
    assert chapter.memory_operations(8, 3) == pytest.approx(11 / 24)
    assert chapter.memory_operations(4, 3) == pytest.approx(7 / 12)


def test_the_tile_of_this_cpu_fits_its_registers() -> None:
    assert chapter.vector_registers() >= ROWS * VECTORS + VECTORS + 1


#: Rows and columns of each step's product, as the page has them on a machine with a small cache.
SHAPES = {step.name: (min(step.widest or 960, step.rows or 960), step.widest or 960) for step in (*STEPS, COPY)}


def at_peak(name: str) -> float:
    """Return the seconds of a step at the peak."""
    rows, width = SHAPES[name]
    return 2 * rows * width**2 / PEAK


def made_ladder(slower: Mapping[str, float], noise: Mapping[str, float] | None = None) -> Ladder:
    """Return all steps: each at a tenth of the peak but for those that take so many times as long as at the peak."""
    seconds = {step.name: slower.get(step.name, 10.0) * at_peak(step.name) for step in (*STEPS, COPY)}
    times, peak = in_turns(seconds, noise=noise), made_ceilings().fp32_peak
    *rungs, copied = (
        Rung(step, SHAPES[step.name][1], SHAPES[step.name][0], 1, times[step.name], peak) for step in (*STEPS, COPY)
    )
    return Ladder(tuple(rungs), copied, times, made(8 * 4096 / 0.75e9, "s"))


def ladder_records(slower: Mapping[str, float], noise: Mapping[str, float] | None = None) -> dict[str, Json]:
    page = Page("acceleration")
    chapter.record_ladder(page, made_ladder(slower, noise), made_ceilings())
    return records(page)


def test_rates_shares_and_gains_are_those_of_the_rungs() -> None:
    slower = {
        ELEMENTS: 8000.0,
        LISTS: 4000.0,
        INNER: 80.0,
        BY_ROWS: 20.0,
        REGISTERS: 5.0,
        PACKED: 3.0,
        BLOCKS: 3.0,
        BLAS: 2.0,
    }
    value = {key: record.get("value") for key, record in ladder_records(slower).items()}
    assert (value["rate-registers"], value["peak-blas"]) == (pytest.approx(PEAK / 5), pytest.approx(0.5))
    assert value["rate-elements"] == pytest.approx(PEAK / 8000)
    assert (value["loops-to-blas"], value["compiled-gain"]) == (pytest.approx(4000), pytest.approx(100))
    assert (value["order-gain"], value["register-gain"]) == (pytest.approx(4), pytest.approx(4))
    assert value["pack-gain"] == pytest.approx(5 / 3)
    assert value["blas-gain"] == pytest.approx(1.5)
    # The clock of the made machine is 3 GHz; a rate of P / 80 is P / 160 steps a second.
    assert (value["near-cycles"], value["inner-cycles"]) == (pytest.approx(4), pytest.approx(3e9 * 160 / PEAK))
    # The memory of the made machine is read at 9 GB/s: two operations for each four bytes, for each row of the tile.
    assert (value["ikj-bound"], value["register-bound"]) == (pytest.approx(4.5e9), pytest.approx(ROWS * 4.5e9))
    assert (value["tile-rows"], value["tile-vectors"]) == (ROWS, VECTORS)
    assert (value["tile-loads"], value["tile-sums"]) == (ROWS + VECTORS, ROWS * VECTORS)
    assert value["tile-operations"] == pytest.approx(1 / ROWS + 1 / VECTORS)
    assert value["width-bytes"] == 4 * 960**2


@pytest.mark.parametrize(("blas", "noise", "word"), [(2.0, 0.0, "faster"), (4.0, 0.0, "slower"), (3.0, 0.3, "open")])
def test_blas_is_judged_beside_packed_blocks(blas: float, noise: float, word: str) -> None:
    said = ladder_records({BLOCKS: 3.0, BLAS: blas}, {BLAS: noise or 1e-6})
    assert said_in(said["blas-gain-verdict"]) == word


def test_blocks_are_bounded_by_the_second_level_and_judged_beside_whole_panels() -> None:
    said = ladder_records({PACKED: 3.0, BLOCKS: 6.0})
    assert said["panel-bytes"]["value"] == 4 * 960 * VECTORS * LANES
    level = made_ceilings().levels[1]
    assert said["block-level"]["word"] == level.name
    assert said["block-bytes"]["value"] == 4 * 960 * said["block-depth"]["value"]
    assert said["block-bound"]["value"] == pytest.approx(ROWS / 2 * level.read.median)
    assert (said["block-gain"]["value"], said["block-gain-verdict"]["word"]) == (pytest.approx(0.5), "slower")


def test_what_one_row_of_tiles_takes_is_the_share_of_the_copy() -> None:
    # A rate a 24th of that of all rows, for as small a part of the work: half of the time.
    said = ladder_records({PACKED: 2.0, COPY.name: SHAPES[BLAS][0] / ROWS})
    assert said["copy-share"]["value"] == pytest.approx(0.5)


@pytest.mark.parametrize(("cache", "rows"), [(2**20, 2**20 // 2 // (4 * (384 + VECTORS * LANES)) // 16 * 16), (1, 16)])
def test_strips_and_a_panel_fill_half_of_the_second_cache(cache: int, rows: int) -> None:
    machine = made_ceilings()
    second = replace(machine.levels[1], capacity_measured=cache, capacity_reported=cache)
    first, _, *others = machine.levels
    assert chapter.block_depth(replace(machine, levels=(first, second, *others))) == rows


def test_the_depth_of_blocks_is_told_where_a_machine_has_one_cache_or_none() -> None:
    machine = made_ceilings()
    only = replace(machine.levels[0], capacity_measured=2**20, capacity_reported=2**20)
    memory = machine.levels[-1]
    assert memory.capacity is None
    assert chapter.block_depth(replace(machine, levels=(only, memory))) > 16
    assert chapter.block_depth(replace(machine, levels=(memory,))) == 128


def test_the_peak_is_taken_apart() -> None:
    page = Page("acceleration")
    chapter.record_peak(page, made_ceilings())
    value = {key: record.get("value") for key, record in records(page).items()}
    assert value["vector-lanes"] == LANES
    assert value["vector-rate"] == pytest.approx(PEAK / (2 * LANES) / 3e9)


@pytest.mark.parametrize("upto", [3, 8])
def test_the_chart_grows_by_a_bar(upto: int) -> None:
    page = Page("acceleration")
    chapter.show_ladder(page, made_ladder({}), upto)
    series = records(page)[f"ladder-{upto}"]["series"]
    assert [each["label"] for each in series] == [step.name for step in STEPS[:upto]]
    assert [each["variant"] for each in series] == [*["baseline"] * (upto - 1), "compiled"]


def test_a_line_without_a_bar_is_explained() -> None:
    captions = []
    for noise in ({}, {BY_ROWS: 0.9}):
        page = Page("acceleration")
        chapter.show_ladder(page, made_ladder({}, noise), 4)
        captions.append(records(page)["ladder-4"]["caption"])
    assert ["A line without a bar" in caption for caption in captions] == [False, True]


def test_all_steps_stand_in_the_table_with_their_rows() -> None:
    page = Page("acceleration")
    chapter.show_all(page, made_ladder({}))
    rows = records(page)["ladder"]["rows"]
    assert [(row["step"], row["rows"]["value"], row["width"]["value"]) for row in rows] == [
        (step.name, *SHAPES[step.name]) for step in STEPS
    ]


def test_the_shape_in_use_is_marked_and_what_does_not_fit_is_told() -> None:
    page = Page("acceleration")
    chapter.show_shapes(page)
    rows = {row["shape"]: row for row in records(page)["shapes"]["rows"]}
    assert rows[f"{ROWS} × {VECTORS}"]["fits"] == "yes, used here"
    assert rows["8 × 4"]["registers"]["value"] == 37
    assert rows["8 × 4"]["fits"] == "no"
    assert rows["1 × 1"]["fits"] == "yes"


def test_a_second_core_is_held_against_the_peak_of_two() -> None:
    flops = 2 * 2048**3
    times = in_turns({"1": flops / 80e9, "2": flops / 120e9})
    page = Page("acceleration")
    chapter.record_second_core(page, TwoCores(times["1"], times["2"], made(160e9, "FLOP/s")), made_ceilings())
    value = {key: record.get("value") for key, record in records(page).items()}
    assert value["two-blas"] == pytest.approx(120e9)
    assert (value["two-gain"], value["two-peak-gain"]) == (pytest.approx(1.5), pytest.approx(1.6))
    assert "one-only" not in value


@pytest.mark.parametrize("reason", [ONE_CORE, FREE_BLAS])
def test_without_a_second_core_the_page_says_why(reason: str) -> None:
    page = Page("acceleration")
    chapter.record_second_core(page, reason, made_ceilings())
    said = records(page)
    for key in ("two-blas", "two-gain", "two-peak-gain"):
        assert (said[key]["kind"], said[key]["reason"]) == ("absent", reason)
    assert said["one-only"]["word"] == reason


@pytest.mark.parametrize(
    ("cores", "threads", "reason"), [(1, 1, ONE_CORE), (1, 2, ONE_CORE), (2, None, FREE_BLAS), (2, 1, FREE_BLAS)]
)
def test_the_reason_is_cores_before_blas(
    monkeypatch: pytest.MonkeyPatch, cores: int, threads: int | None, reason: str
) -> None:
    here = identity()
    monkeypatch.setattr(chapter, "identity", lambda: replace(here, cores_usable=cores))
    monkeypatch.setattr(chapter, "limited_blas_threads", lambda count: threads)
    assert chapter.second_core() == reason


def test_two_cores_multiply_the_same_matrices_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    here, machine = identity(), made_ceilings(peak=3 * PEAK)
    monkeypatch.setattr(chapter, "identity", lambda: replace(here, cores_usable=2))
    monkeypatch.setattr(chapter, "limited_blas_threads", lambda count: count)
    monkeypatch.setattr(chapter, "ceilings", lambda threads: machine if threads == 2 else made_ceilings())
    monkeypatch.setattr(chapter, "interleave", lambda runs, **plan: in_turns(dict.fromkeys(runs, 1.0)))
    found = chapter.second_core()
    assert isinstance(found, TwoCores)
    assert (found.one.name, found.two.name) == ("1", "2")
    assert found.peak == machine.fp32_peak


def test_answers_are_arithmetic() -> None:
    page = Page("acceleration")
    chapter.record_answers(page, made_ladder({ELEMENTS: 1000.0}), made_ceilings())
    value = {key: record.get("value") for key, record in records(page).items()}
    assert value["q-least"] == pytest.approx(2 * 1024**3 / PEAK)
    assert value["q-loops"] == pytest.approx(1000 * 2 * 1024**3 / PEAK)
    assert (value["q-tile"], value["q-rows"], value["q-copy"]) == (pytest.approx(7 / 12), 1, 960)
