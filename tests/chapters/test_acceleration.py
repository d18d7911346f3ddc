"""Matrix products, their ladder and their tiles, against arithmetic by hand and synthetic times."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.acceleration import drawings, ladder, placement, program, tiles
from tinytorch.chapters.acceleration.ladder import Ladder, Step, matmul_ladder, steps
from tinytorch.chapters.acceleration.placement import RANDOM, READING, WHOLE, Layouts
from tinytorch.chapters.acceleration.tiles import CLOCK, OTHER, PEAK, REGISTERS, SHAPES, Shapes, drawn
from tinytorch.perf.host.memory_pages import Arena
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.gemm import loop_orders
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS, WIDTH, tile_kernel
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement, Unmeasured


@pytest.mark.parametrize("name", steps())
@pytest.mark.parametrize("shape", [(8, 1, 48), (48, 33, 96)])
def test_each_step_multiplies(name: str, shape: tuple[int, int, int]) -> None:
    a, b = drawn(shape[0], shape[1]), drawn(shape[1], shape[2])
    found = steps(16)[name].function(a, b)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=0, atol=1e-4)


def test_a_wrong_step_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "steps", lambda deep: {"wrong": Step(lambda a, b: a + b)})
    with pytest.raises(ArithmeticError, match="wrong"):
        matmul_ladder(8)
    with pytest.raises(ValueError, match="width"):
        matmul_ladder(0)


@pytest.mark.parametrize(("cache", "width"), [(1, 1008), (2**25, 4848), (2**40, 5808)])
def test_the_width_is_beyond_the_last_cache_or_the_largest(cache: int, width: int) -> None:
    machine = made_ceilings()
    levels = (*machine.levels[:1], replace(machine.levels[1], capacity_measured=cache), machine.levels[2])
    assert ladder.width_beyond(replace(machine, levels=levels)) == width


def with_caches(*sizes: int) -> Ceilings:
    """Return the made machine with caches of so many bytes."""
    machine = made_ceilings()
    levels = tuple(replace(machine.levels[0], capacity_measured=each, capacity_reported=each) for each in sizes)
    return replace(machine, levels=(*levels, machine.levels[-1]))


def test_the_tile_of_two_by_two_multiplies() -> None:
    a, b = tiles.drawn(2, 7), tiles.drawn(7, 2 * LANES)
    out = np.empty((2, 2 * LANES), np.float32)
    loop_orders.two_by_two(a, b, out)
    np.testing.assert_allclose(out, a.astype(np.float64) @ b, rtol=0, atol=1e-5)


def test_the_steps_of_a_tile_add_products_of_its_operands() -> None:
    sums = tiles.tile_steps(tile_kernel(2, 1), 2, 1)()
    np.testing.assert_allclose(sums, 100_000 * 1e-6, rtol=2e-3)


def test_the_last_shape_alone_does_not_fit() -> None:
    fitting = [shape for shape in SHAPES if tiles.needed(*shape) <= REGISTERS]
    assert fitting == [*SHAPES[:-1]]
    assert (ROWS, VECTORS) in fitting
    assert OTHER in map(tiles.named, fitting)


def test_rates_are_held_against_what_was_timed_in_turns() -> None:
    """A core at 3 GHz that starts two multiply-adds of vectors in a cycle, and gives each sum back after four."""
    steps, share = 1000, 1 / 8
    operations = {"1 × 1": 2 * LANES * steps, PEAK: 2 * LANES * 6000, CLOCK: 3000}
    found = Shapes(in_turns({"1 × 1": 4 * steps / 3e9, PEAK: 1e-6, CLOCK: 1e-6}), operations)
    assert found.rates["1 × 1"].median == pytest.approx(2 * LANES * 3e9 / 4)
    assert found.of_peak["1 × 1"].median == pytest.approx(share)
    assert found.cycles("1 × 1", steps).median == pytest.approx(4)
    assert found.sums_needed.median == pytest.approx(4 * 2)
    assert found.compared("1 × 1", PEAK, matters=0.1).estimate.median == pytest.approx(1 / share)
    assert found.units.median == pytest.approx(2)
    assert found.predicted(6).value == pytest.approx(6 * share)
    assert found.predicted(12).value == pytest.approx(1)


@pytest.mark.parametrize(("rows", "vectors"), [(8, 3), (4, 3)])
def test_a_tile_is_drawn_with_a_sum_for_each_row_and_vector(rows: int, vectors: int) -> None:
    assert drawings.tile(rows, vectors).svg(key="tile", alt="A tile.").count("·") == rows * vectors


_QUARTER = 2**19 // (64 * tiles.LINES + 4 * ROWS) // 16 * 16


@pytest.mark.parametrize(
    ("sizes", "deep"), [((2**15, 2**21, 2**25), _QUARTER), ((1, 1), 16), ((2**21,), _QUARTER), ((), 128)]
)
def test_a_panel_and_a_strip_fill_a_quarter_of_the_second_or_only_cache(sizes: tuple[int, ...], deep: int) -> None:
    assert tiles.block_depth(with_caches(*sizes)) == deep


def test_one_fetch_for_many_tiles_costs_its_share_of_the_time() -> None:
    """Near tiles take 1, one that fetches its panel takes 10, and of h / r tiles only one fetches."""
    seconds = in_turns({PEAK: 0.5, "tile in registers": 10.0, "in cache tiles": 2.0})
    found = Ladder(seconds, dict.fromkeys(seconds, 1))
    near = found.of_peak[PEAK].scaled(0.5)
    time = 1 + 10 * ROWS / tiles.SERVED
    assert found.expected(near).value == pytest.approx(0.5 / time)
    assert found.of_expected(near).median == pytest.approx(time / 2)


def test_lines_in_random_order_bound_a_tile_by_the_time_of_its_lines() -> None:
    """A line takes 10 ns, and a tile that waits for its lines alone takes as many times that as its rows have lines."""
    rows, line = 1000, 10e-9
    row_operations = 2 * ROWS * WIDTH
    operations = {
        PEAK: 10**9,
        READING: row_operations * rows,
        RANDOM: row_operations * placement.RANDOM_LINES // tiles.LINES,
        WHOLE: row_operations * rows,
    }
    whole = rows * tiles.LINES * line
    seconds = in_turns({PEAK: 1e-3, READING: 1e-8, RANDOM: placement.RANDOM_LINES * line, WHOLE: whole})
    found = Layouts(seconds, operations, {WHOLE: 960})
    assert found.line_time.median == pytest.approx(line)
    assert found.row_time.median == pytest.approx(tiles.LINES * line)
    assert found.allowed(RANDOM).value == pytest.approx(found.of_peak[WHOLE].median)
    assert found.allowed(READING).value == 1
    assert [row["name"] for row in found.rows] == ["whole matrix"]
    assert isinstance(found.pages, Unmeasured)


@pytest.mark.parametrize(("huge", "named"), [([1, 1], True), ([1, 0], False), ([0, 1], False), ([0, 0], False)])
def test_pages_are_compared_only_if_each_making_had_large_ones(
    monkeypatch: pytest.MonkeyPatch, huge: list[int], named: bool
) -> None:
    sizes = iter(huge)
    monkeypatch.setattr(Arena, "huge_bytes", lambda self: next(sizes) * self.memory.size)

    def twice(functions: Callable[[], dict[str, Callable[[], Any]]], **_: Any) -> dict[str, Measurement]:
        first, second = functions(), functions()
        assert first.keys() == second.keys()
        return in_turns(dict.fromkeys(first, 1.0))

    monkeypatch.setattr(placement, "interleave", twice)
    assert isinstance(placement.study_layouts(960).pages, Unmeasured) is not named


@pytest.mark.parametrize("distance", [WIDTH, 2 * WIDTH, 960, 4096])
def test_a_row_of_tiles_goes_once_over_all_panels(distance: int) -> None:
    flat = np.ones(2 * 960 * 960, np.float32)
    run, operations = placement.row_of_tiles(flat, distance, 960)
    run()
    used = flat.size // distance * distance if distance > 2 * WIDTH else flat.size // (960 * distance) * 960 * distance
    assert operations == 2 * ROWS * used // distance * (distance // WIDTH * WIDTH)


def test_gather_adds_up_what_lies_at_the_places() -> None:
    assert probes.gather(np.arange(10, dtype=np.float32), np.array([7, 2, 2])) == 11


def test_rows_a_power_of_two_apart_fit_as_often_as_their_distance_goes_into_the_cache() -> None:
    assert placement.fitting_rows(with_caches(2**15, 2**19)).value == 32
    assert placement.fitting_rows(with_caches()).value == 0


def test_the_program_in_c_multiplies() -> None:
    printed = program.run_program()
    assert isinstance(printed, Unmeasured) or printed.text.endswith("largest error on the diagonal 0\n")
