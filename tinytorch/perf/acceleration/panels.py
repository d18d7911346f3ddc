"""Where each number of a weight lies once it is packed into panels: the arithmetic alone, without a kernel.

A layout is (floats of a vector, vectors of the widest panel), as the CPU's registers decide it.
"""

from __future__ import annotations

import numpy as np

from tinytorch.core.op import Array

Layout = tuple[int, int]


def panel_bounds(columns: int, layout: Layout) -> list[tuple[int, int]]:
    """Return the first column of each panel and the one after its last, filling included.

    Widths differ by one vector at most: four vectors are two panels of two, not one of three and one of one.
    """
    lanes, widest = layout
    vectors = -(-columns // lanes)
    panels = -(-vectors // widest)
    return [(lanes * (panel * vectors // panels), lanes * ((panel + 1) * vectors // panels)) for panel in range(panels)]


def unpacked(panels: Array, shape: tuple[int, int], layout: Layout) -> Array:
    """Return the matrix of ``shape`` (inner, columns) that lies in ``panels``."""
    inner, columns = shape
    matrix = np.empty(shape, np.float32)
    for first, last in panel_bounds(columns, layout):
        whole = panels[inner * first : inner * last].reshape(inner, last - first)
        matrix[:, first:last] = whole[:, : columns - first]
    return matrix


def padded_columns(columns: int, layout: Layout) -> int:
    """Return ``columns`` rounded up to whole vectors."""
    return -(-columns // layout[0]) * layout[0]
