"""Drawings fit, whatever the CPU's tile is, and hold what they are to show."""

import pytest

from tinytorch.chapters.acceleration import drawings


@pytest.mark.parametrize(("rows", "vectors"), [(8, 3), (4, 3)])
def test_the_tile_has_a_sum_for_each_row_and_vector(rows: int, vectors: int) -> None:
    svg = drawings.tile(rows, vectors).svg(key="tile", alt="A tile.")
    assert svg.count("·") == rows * vectors
    assert f"{rows} loads" in svg
    assert f"{vectors} loads" in svg


@pytest.mark.parametrize("count", [8, 16])
def test_lanes_are_numbered_to_the_last(count: int) -> None:
    assert f"c{count - 1}<" in drawings.lanes(count).svg(key="lanes", alt="Lanes.")
