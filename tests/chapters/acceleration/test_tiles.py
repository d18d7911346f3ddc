"""What shapes, depths and copies of tiles come to, of made results, and that all of them multiply."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns
from tests.perf.made_ceilings import PEAK, made_ceilings
from tinytorch.chapters.acceleration import drawings
from tinytorch.chapters.acceleration import tiles as chapter
from tinytorch.chapters.acceleration.ladder import over_bound
from tinytorch.chapters.acceleration.tiles import OTHER, REGISTERS, SHAPES, Apart, Depths, Pitches, Shapes
from tinytorch.perf.kernels.gemm import loop_orders
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS, WIDTH, tile_kernel
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Unmeasured


def with_caches(*sizes: int) -> Ceilings:
    """Return the made machine with caches of so many bytes."""
    machine = made_ceilings()
    levels = tuple(replace(machine.levels[0], capacity_measured=each, capacity_reported=each) for each in sizes)
    return replace(machine, levels=(*levels, machine.levels[-1]))


def test_a_large_matrix_repeats_what_was_drawn() -> None:
    drawn = chapter.drawn(1025, 1024)
    assert drawn.shape == (1025, 1024)
    assert np.array_equal(drawn[1024], drawn[0])
    assert not np.array_equal(drawn[1], drawn[0])


def test_the_tile_of_two_by_two_multiplies() -> None:
    a, b = chapter.drawn(2, 7), chapter.drawn(7, 2 * LANES)
    out = np.empty((2, 2 * LANES), np.float32)
    loop_orders.two_by_two(a, b, out)
    np.testing.assert_allclose(out, a.astype(np.float64) @ b, rtol=0, atol=1e-5)


def test_the_last_shape_alone_does_not_fit() -> None:
    fitting = [shape for shape in SHAPES if chapter.needed(*shape) <= REGISTERS]
    assert fitting == [*SHAPES[:-1]]
    assert (ROWS, VECTORS) in fitting
    assert OTHER in fitting


def test_the_steps_of_a_tile_add_products_of_its_operands() -> None:
    sums = chapter.tile_steps(tile_kernel(2, 1), 2, 1)()
    np.testing.assert_allclose(sums, 100_000 * 1e-6, rtol=2e-3)


def made_shapes(at_peak: int) -> Shapes:
    """Return shapes whose rate grows up to so many sums, at which they reach the peak."""
    rates = {shape: PEAK * min(shape[0] * shape[1] / at_peak, 1) for shape in SHAPES}
    seconds = in_turns({str(each): 2 * each[0] * each[1] * LANES * 100_000 / rates[each] for each in SHAPES})
    return Shapes({shape: seconds[str(shape)] for shape in SHAPES}, made_ceilings())


def test_sums_add_up_to_the_peak() -> None:
    found = made_shapes(8)
    assert found.sums.median == pytest.approx(8)
    assert found.of_peak.median == pytest.approx(1)
    # The clock of the made machine is 3 GHz.
    assert found.latency.median == pytest.approx(3e9 * 2 * LANES / (PEAK / 8))
    rows = {row["shape"]: row for row in found.rows}
    assert rows["2 × 2"]["predicted"].value == pytest.approx(PEAK / 2)
    assert rows[f"{ROWS} × {VECTORS}"]["predicted"].value == pytest.approx(PEAK)
    assert [row["fits"] for row in rows.values()] == [*["yes"] * (len(SHAPES) - 1), "no"]
    assert found.compared((1, 1), (ROWS, VECTORS), 0.1).estimate.median == pytest.approx(8)
    assert found.compared((ROWS, VECTORS), OTHER, 0.1).estimate.median == pytest.approx(1)


@pytest.mark.parametrize(("rows", "vectors"), [(8, 3), (4, 3)])
def test_a_tile_is_drawn_with_a_sum_for_each_row_and_vector(rows: int, vectors: int) -> None:
    assert drawings.tile(rows, vectors).svg(key="tile", alt="A tile.").count("·") == rows * vectors
    assert f"c{rows - 1}<" in drawings.lanes(rows).svg(key="lanes", alt="Lanes.")


def test_a_tile_asks_for_a_row_and_a_column_and_a_level_bounds_it() -> None:
    assert chapter.memory_operations(1, 1) == 2  # its sum stays: plain loops load and store that, too
    assert chapter.operations().value == pytest.approx(1 / ROWS + 1 / VECTORS)
    # The memory of the made machine is read at 9 GB/s: two operations for each four bytes, for each row of the tile.
    memory = made_ceilings().levels[-1]
    assert chapter.bound_by(memory).value == pytest.approx(4.5e9)
    assert chapter.bound_by(memory, ROWS).value == pytest.approx(ROWS * 4.5e9)
    assert over_bound(memory.read, chapter.bound_by(memory)).median == pytest.approx(2)


def test_blocks_fill_half_of_each_cache() -> None:
    machine = with_caches(2**15, 2**21, 2**25)
    deep = 2**20 // (4 * (384 + WIDTH)) // 16 * 16
    assert chapter.panel_depth(machine) == 2**14 // (4 * WIDTH) // 16 * 16
    assert chapter.block_depth(machine) == deep
    rows = chapter.caches(machine, ("a", "b", "c"))
    assert [row["holds"] for row in rows] == ["a", "b", "c", "–"]
    assert rows[2]["most"] is not None
    assert rows[2]["most"].value == 2**24 // (4 * deep)
    assert rows[3]["most"] is None


@pytest.mark.parametrize(("sizes", "deep"), [((1, 1), 16), ((2**21,), 2**20 // (4 * WIDTH) // 16 * 16), ((), 128)])
def test_the_depth_is_told_where_a_machine_has_small_caches_one_or_none(sizes: tuple[int, ...], deep: int) -> None:
    assert chapter.block_depth(with_caches(*sizes)) == deep


def test_depths_are_held_against_the_derived_one() -> None:
    times = in_turns({"16": 2.0, "64": 1.0, "512": 1.25})
    found = Depths({int(deep): each for deep, each in times.items()}, 16, 64)
    assert found.gain(16, 0.1).verdict == "faster"
    assert found.gain(512, 0.1).estimate.median == pytest.approx(1.25)
    assert found.gain_over_first(0.1) == found.gain(16, 0.1)
    assert isinstance(replace(found, first=64).gain_over_first(0.1), Unmeasured)
    assert [row["depth"] for row in found.rates] == [16, 64, 512]
    assert found.rates[1]["rate"].median == pytest.approx(2 * 384 * 1920**2)


def test_the_differences_multiply_to_the_whole() -> None:
    seconds = {chapter.IN_PLACE: 8.0, chapter.COLUMNS: 4.0, chapter.READY: 1.0, chapter.PACKED: 2.0}
    found = Apart(in_turns(seconds))
    assert [row.gained.median for row in found.rows.values()] == pytest.approx([2, 4, 0.5])
    assert [row.so_far.median for row in found.rows.values()] == pytest.approx([2, 8, 4])
    assert isinstance(found.pages, Unmeasured)


def test_a_copy_is_judged_by_the_distance_of_rows() -> None:
    near, far = chapter.ROW_PITCHES
    times = {f"in place, {near}": 1.0, f"copied, {near}": 1.0, f"in place, {far}": 2.0, f"copied, {far}": 1.0}
    found = Pitches(in_turns(times))
    assert found.gain(near, 0.1).verdict == "no difference"
    assert found.gain(far, 0.1).verdict == "faster"
    assert found.kept("in place").median == pytest.approx(0.5)


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_ROWS": ROWS, "_FEW": ROWS, "_WIDTH": 2 * WIDTH, "_WIDE": 2 * WIDTH}.items():
        monkeypatch.setattr(chapter, name, value)
    monkeypatch.setattr(chapter, "ROW_PITCHES", (2 * WIDTH, 128))


def outputs(studied: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    """Return what each way of a study leaves in its result, without timing it."""
    found: dict[str, Any] = {}

    def run(fresh: Any, **_plan: object) -> Any:
        ways = fresh()
        for name, way in ways.items():
            made = way()
            found[name] = way.args[2].copy() if made is None else made
        return in_turns(dict.fromkeys(ways, 1.0))

    monkeypatch.setattr(chapter, "interleave", run)
    studied()
    return found


@pytest.mark.parametrize(
    "studied",
    [
        chapter.study_apart,
        lambda: chapter.study_pitches(made_ceilings()),
        lambda: chapter.study_depths(made_ceilings()),
    ],
    ids=["apart", "pitches", "depths"],
)
def test_all_ways_of_a_study_multiply_alike(studied: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    found = outputs(studied, monkeypatch)
    first, *others = found.values()
    expected = chapter.drawn(ROWS, 2 * WIDTH).astype(np.float64) @ chapter.drawn(2 * WIDTH, 2 * WIDTH)
    np.testing.assert_allclose(first, expected, rtol=0, atol=1e-3)
    if studied is not chapter.study_apart and "copied, 128" in found:
        others = [each for name, each in found.items() if not name.endswith("128")]
    for other in others:
        np.testing.assert_allclose(other, first, rtol=0, atol=1e-3)
