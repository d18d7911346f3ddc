"""Where the rows of a panel lie, and what that costs a tile: prefetching, pages and cache sets, one at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.chapters.acceleration.tiles import LINE_BYTES, LINES, PEAK, SERVED, Timed, drawn, limits
from tinytorch.core.op import Array
from tinytorch.perf.host.memory_pages import Arena
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.gemm import loop_orders
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, WIDTH
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, interleave
from tinytorch.perf.measuring.comparison import Comparison

#: Two ways to read memory, whose rates bound that of a tile.
READING, RANDOM = "lines in order", "lines in random order"
#: Layouts of B: packed panels, pairs of panels, the whole matrix, and rows that lie a power of two apart, all of them
#: on large pages if the system has them; and the whole matrix on small pages.
PACKED, PAIRS, WHOLE, POWER, SMALL = "packed", "pairs", "whole", "power of two", "small pages"
#: What each is called in a table.
_NAMES = {
    PACKED: "packed panels",
    PAIRS: "panels in pairs",
    WHOLE: "whole matrix",
    SMALL: "whole matrix, small pages",
    POWER: "rows a power of two apart",
}
#: Elements of such a row, and of one that is a cache line shorter.
POWER_OF_TWO, ONE_LINE_LESS = 4096, 4096 - 16
_LINE_ELEMENTS = LINE_BYTES // 4
#: Share of a stretch that must lie on large pages for it to count as one that does.
_MOSTLY = 0.9
#: Lines that are read in random order.
RANDOM_LINES = 2**18


@dataclass(frozen=True)
class Layouts(Timed):
    """One row of tiles over all of B in several layouts, and two ways to read the same memory.

    The operations of a way to read are those that the tile performs with what was read. ``distances`` has the elements
    from a row of each layout to the next.
    """

    distances: dict[str, int]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each layout as a row of a table."""
        return [
            {
                "name": name,
                "distance": Counted(self.distances[key], "elements", f"from a row to the next, {name}"),
                "predicted": None if key == PAIRS else self.allowed(READING if key == PACKED else RANDOM),
                "found": self.of_peak[key],
            }
            for key, name in _NAMES.items()
            if key in self.seconds
        ]

    def allowed(self, way: str) -> Modelled:
        """Return the share of the peak that a tile would reach if it only had to read its panels in this way."""
        share = min(self.of_peak[way], self.of_peak[PEAK], key=lambda each: each.median)
        return Modelled.by(f"reading {way}", share, f"share of the peak if a tile reads {way}")

    @property
    def line_time(self) -> Measurement:
        """Seconds for each line that is read in random order."""
        return self.seconds[RANDOM].scaled(1 / RANDOM_LINES, "s", "time per line, read in random order")

    @property
    def row_time(self) -> Measurement:
        """Seconds of a tile for each row of a panel of the whole matrix."""
        rows = self.operations[WHOLE] / (2 * ROWS * WIDTH)
        return self.seconds[WHOLE].scaled(1 / rows, "s", "time of a tile per row of a panel")

    @property
    def pages(self) -> Comparison | Unmeasured:
        """Return how fast the tile is on large pages, compared with small ones."""
        if SMALL not in self.seconds:
            return Unmeasured("the system did not always give large pages, or does not say whether it did")
        return self.compared(SMALL, WHOLE, matters=0.5)


def study_layouts(width: int) -> Layouts:
    """Return one row of tiles over memory as large as a matrix of ``width``, in several layouts."""
    size = width**2 // (2 * WIDTH * probes.STREAM_MULTIPLE) * (2 * WIDTH * probes.STREAM_MULTIPLE)
    distances = {PACKED: WIDTH, PAIRS: 2 * WIDTH, WHOLE: width, POWER: POWER_OF_TWO, SMALL: width}
    loops, operations = limits()
    operations |= {READING: 2 * ROWS * size, RANDOM: 2 * ROWS * WIDTH * RANDOM_LINES // LINES}

    on_large_pages = []

    def fresh() -> dict[str, Callable[[], Any]]:
        large, small = Arena(4 * size), Arena(4 * size, huge=False)
        on_large_pages.append((large.huge_bytes() or 0) > _MOSTLY * 4 * size)
        flat = _ones(large, size)
        places = np.random.default_rng(0).permutation(size // _LINE_ELEMENTS)[:RANDOM_LINES] * _LINE_ELEMENTS
        runs: dict[str, Callable[[], Any]] = {
            **loops,
            READING: partial(probes.read(LANES), flat, 1),
            RANDOM: partial(probes.gather, flat, places),
        }
        for name, distance in distances.items():
            of_panels = flat if name != SMALL else _ones(small, size)
            runs[name], operations[name] = row_of_tiles(of_panels, distance, width)
        return runs

    seconds = interleave(fresh, repeats=18, at_most_seconds=3, warmup_seconds=0.05)
    if not all(on_large_pages):  # what is said to be on large pages was not, at least once
        del seconds[SMALL]
    return Layouts(seconds, operations, distances)


def _ones(arena: Arena, size: int) -> Array:
    flat = arena.view(0, size, np.float32)
    flat.fill(1)
    return flat


def row_of_tiles(flat: Array, distance: int, deep: int) -> tuple[Callable[[], None], int]:
    """Return a run of one row of tiles over matrices of so many columns that fill ``flat``, and its operations."""
    deep = min(deep, flat.size // distance)
    count = flat.size // (deep * distance)
    matrices = flat[: count * deep * distance].reshape(count, deep, distance)
    a, out = drawn(ROWS, deep), np.empty((ROWS, distance // WIDTH * WIDTH), np.float32)

    def run() -> None:
        for matrix in matrices:
            loop_orders.in_register_tiles(a, matrix, out)

    return run, 2 * deep * out.size * count


class Copies(Timed):
    """A product in cache tiles, in place and with packed panels, where rows lie a power of two apart and elsewhere."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each distance as a row of a table."""
        return [
            {
                "distance": Counted(distance, "elements", "from a row of B to the next"),
                "in place": self.of_peak[f"in place, {distance}"],
                "packed": self.of_peak[f"packed, {distance}"],
            }
            for distance in (ONE_LINE_LESS, POWER_OF_TWO)
        ]

    @property
    def conflicts(self) -> Comparison:
        """Return how fast the product is in place where rows lie a power of two apart, compared with a line less."""
        return self.compared(f"in place, {ONE_LINE_LESS}", f"in place, {POWER_OF_TWO}", matters=0.25)

    @property
    def packing(self) -> Comparison:
        """Return how fast the product is with packed panels, compared with in place, a power of two apart."""
        return self.compared(f"in place, {POWER_OF_TWO}", f"packed, {POWER_OF_TWO}", matters=0.25)

    @property
    def elsewhere(self) -> Comparison:
        """Return the same where rows are a line shorter."""
        return self.compared(f"in place, {ONE_LINE_LESS}", f"packed, {ONE_LINE_LESS}", matters=0.25)


def study_copies(machine: Ceilings) -> Copies:
    """Return the product of the rows that a panel serves and one block of B, in two layouts, in place and packed."""
    deep = conflicting_rows(machine)
    columns = ONE_LINE_LESS // WIDTH * WIDTH
    loops, operations = limits()

    def fresh() -> dict[str, Callable[[], Any]]:
        a, out = drawn(SERVED, deep), np.empty((SERVED, columns), np.float32)
        runs: dict[str, Callable[[], Any]] = dict(loops)
        for distance in (ONE_LINE_LESS, POWER_OF_TWO):
            b = drawn(deep, distance)
            runs[f"in place, {distance}"] = partial(loop_orders.in_cache_tiles, a, b, out, deep)
            runs[f"packed, {distance}"] = partial(loop_orders.in_packed_blocks, a, b, out, deep)
        return runs

    for distance in (ONE_LINE_LESS, POWER_OF_TWO):
        for way in ("in place", "packed"):
            operations[f"{way}, {distance}"] = 2 * SERVED * columns * deep
    return Copies(interleave(fresh, repeats=18, at_most_seconds=2.5, warmup_seconds=0.05), operations)


def fitting_rows(machine: Ceilings) -> Counted:
    """Return how many rows of a panel the second cache holds if they lie a power of two apart."""
    capacities = [level.capacity for level in machine.levels if level.capacity is not None]
    held = capacities[:2][-1] if capacities else 0
    return Counted(held // (4 * POWER_OF_TWO), "rows", "rows 16,384 bytes apart that the second cache holds")


def conflicting_rows(machine: Ceilings) -> int:
    """Return the depth of a panel that has four times the rows of `fitting_rows`, and 512 at least."""
    return max(512, 4 * int(fitting_rows(machine).value))
