"""Matrix products, their ladder and their tiles, against arithmetic by hand and synthetic times."""

from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.acceleration import drawings, ladder, tiles
from tinytorch.chapters.acceleration.ladder import Step, matmul_ladder, steps
from tinytorch.chapters.acceleration.tiles import CLOCK, OTHER, PEAK, REGISTERS, SHAPES, Shapes, drawn
from tinytorch.perf.kernels.gemm import loop_orders
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS, WIDTH, tile_kernel
from tinytorch.perf.machine import Ceilings


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


@pytest.mark.parametrize(("cache", "width"), [(1, 960), (2**25, 4800), (2**40, 5760)])
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


_HALF = 2**20 // (4 * (384 + WIDTH)) // 16 * 16


@pytest.mark.parametrize(
    ("sizes", "deep"), [((2**15, 2**21, 2**25), _HALF), ((1, 1), 16), ((2**21,), _HALF), ((), 128)]
)
def test_panel_and_strips_fill_half_of_the_second_cache_or_of_the_only_one(sizes: tuple[int, ...], deep: int) -> None:
    assert tiles.block_depth(with_caches(*sizes)) == deep
