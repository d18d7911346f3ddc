"""Tiles of a product: their shape in registers, their depth in caches, and what a copy of their operands changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.acceleration import products
from tinytorch.perf.host.memory_pages import Arena
from tinytorch.perf.kernels.gemm import loop_orders
from tinytorch.perf.kernels.gemm.packing import aligned_empty
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS, WIDTH, tile_kernel
from tinytorch.perf.kernels.runtime.vectors import cpu_features
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.levels import Level
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import Comparison, compare_paired

#: Vectors that the registers of this CPU hold; on NEON a vector takes two.
REGISTERS = 32 if "avx512f" in cpu_features() else 16
#: Tiles that are tried, rows by vectors, from one sum on; the last does not fit the registers.
SHAPES = ((1, 1), (2, 1), (2, 2), (4, 2), (4, 3), (8, 3), (5, 5), (8, 5))
if REGISTERS == 16:
    SHAPES = ((1, 1), (2, 1), (2, 2), (4, 2), (3, 3), (4, 3), (6, 2), (6, 4))
#: Sums of the tile of this CPU, and loads of one of its steps.
TILE_SUMS, TILE_LOADS = ROWS * VECTORS, ROWS + VECTORS
#: Steps of a tile that show its rate: so many that its call, its beginning and its end take next to nothing.
_STEPS = 100_000
#: What bounds a rate by bytes.
_BYTES = "the bytes of each operation, at the bandwidth"
#: Rows of the result where depths and copies are tried, whole tiles of any CPU, and the width of the second matrix.
_ROWS, _WIDTH = 384, 1920
#: Depths of cache tiles that are tried.
DEPTHS = (16, 32, 128, 1024, _WIDTH)
#: Rows and width of the product that is taken apart: each row of its second matrix lies on pages of its own.
_FEW, _WIDE = 192, 3840
#: Distances of rows of the second matrix, in numbers: its width, and a power of two.
ROW_PITCHES = (_WIDTH, 4096)


def memory_operations(rows: int, vectors: int) -> float:
    """Return loads and stores for each multiply-add of vectors in a tile: in one step it loads a row and a column."""
    return (rows + vectors) / (rows * vectors)


def operations(rows: int = ROWS, vectors: int = VECTORS) -> Counted:
    """Return `memory_operations` of a tile, that of this CPU if none is given."""
    what = f"memory operations for each multiply-add of a tile of {rows} × {vectors} vectors"
    return Counted(memory_operations(rows, vectors), "operations", what)


@dataclass(frozen=True)
class Shapes:
    """Seconds of `_STEPS` steps of each of `SHAPES`, in turns."""

    seconds: Mapping[tuple[int, int], Measurement]
    machine: Ceilings

    def rate(self, shape: tuple[int, int]) -> Measurement:
        """FLOP/s of a tile."""
        rows, vectors = shape
        name = f"rate of a tile of {rows} × {vectors} vectors"
        return self.seconds[shape].per(2 * rows * vectors * LANES * _STEPS, "FLOP/s", name)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each tile as a row of a table: what it needs, whether it fits in the registers, and its rate."""
        return [
            {
                "shape": f"{rows} × {vectors}",
                "sums": rows * vectors,
                "registers": needed(rows, vectors),
                "fits": "yes" if needed(rows, vectors) <= REGISTERS else "no",
                "predicted": self._predicted(rows * vectors),
                "rate": self.rate((rows, vectors)),
            }
            for rows, vectors in self.seconds
        ]

    def _predicted(self, sums: int) -> Modelled:
        alone = self.rate((1, 1)).scaled(sums, name=f"rate of one sum, times {sums}")
        least = min(alone, self.machine.fp32_peak, key=lambda rate: rate.median)
        return Modelled.by("as many times the rate of one sum, up to the peak", least)

    @property
    def of_peak(self) -> Measurement:
        """Share of the peak that the tile of this CPU reaches."""
        return quotient(self.rate((ROWS, VECTORS)), self.machine.fp32_peak, "share of the peak, operands near", "%")

    @property
    def latency(self) -> Measurement:
        """Cycles until a multiply-add can use the sum of the one before."""
        steps = self.seconds[1, 1].per(_STEPS, "1/s")
        return quotient(self.machine.clock, steps, "cycles of a step of a tile of one sum", "cycles")

    @property
    def sums(self) -> Measurement:
        """How many times the rate of one sum the tile of this CPU has, in turns with it."""
        what = "rate of the tile of this CPU over that of one sum"
        return ratio(self.seconds[1, 1], self.seconds[ROWS, VECTORS], what).scaled(TILE_SUMS, "sums")

    def compared(self, before: tuple[int, int], after: tuple[int, int], matters: float) -> Comparison:
        """Return the rate of one tile over that of another, judged."""
        (rows, vectors), (others, wide) = before, after
        # Seconds of as much arithmetic: a comparison is of times.
        one = self.seconds[before].scaled(1 / (rows * vectors))
        other = self.seconds[after].scaled(1 / (others * wide))
        return compare_paired(one, other, matters=matters)


#: Another tile of `SHAPES` that fits and has enough sums; with 32 registers the one with the fewest memory operations.
OTHER = (5, 5) if REGISTERS == 32 else (6, 2)
OTHER_NAMED = "{} × {}".format(*OTHER)


def needed(rows: int, vectors: int) -> int:
    """Return the registers of a tile: its sums, a row of B, and a number of A."""
    return rows * vectors + vectors + 1


def study_shapes(machine: Ceilings) -> Shapes:
    """Return how long tiles of `SHAPES` take, each on operands that are the same in all its steps."""
    tiles = {shape: tile_kernel(*shape) for shape in SHAPES}

    def fresh() -> dict[str, Callable[[], Any]]:
        return {f"{rows} x {wide}": tile_steps(tiles[rows, wide], rows, wide) for rows, wide in SHAPES}

    times = interleave(fresh, repeats=192, at_most_seconds=2, warmup_seconds=0.05)
    return Shapes({shape: times[f"{shape[0]} x {shape[1]}"] for shape in SHAPES}, machine)


def tile_steps(tile: Any, rows: int, vectors: int) -> Callable[[], Array]:
    """Return a run of the steps of a tile, and of nothing else: its operands, a column and a row, are there before."""
    operands = column, row, _ = [aligned_empty(count) for count in (rows, vectors * LANES, rows * vectors * LANES)]
    column[:] = row[:] = 1e-3
    at = [each.ctypes.data for each in operands]

    def run() -> Array:
        tile(at[0], 1, 0, at[1], 0, at[2], vectors * LANES, _STEPS, 0)
        return operands[2]

    return run


def bound_by(level: Level, rows: int = 1) -> Modelled:
    """Return the rate that a level's bandwidth allows, at two operations for each number of four bytes and each row."""
    each = "" if rows == 1 else " and each row of the tile"
    what = f"bandwidth of {level.name}, at two operations for each number of four bytes{each}"
    return Modelled.by(_BYTES, level.read.scaled(0.5 * rows, "FLOP/s", what))


def caches(machine: Ceilings, holds: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of a table: each cache and memory of one core, the bounds that it sets, and what a block has in it.

    ``holds`` says what lies in each cache: a panel, strips, a block.
    """
    found = []
    for at, level in enumerate(machine.levels):
        most = None
        if level.capacity is not None and at < len(holds):
            what = f"rows or columns of a block of which half of {level.name} is full"
            most = Counted(_most(level.capacity, at, machine), "1", what)
        word = holds[at] if most is not None else "–"
        found.append(
            {
                "level": level.name,
                "read": level.read,
                "loops": bound_by(level),
                "tile": bound_by(level, ROWS),
                "holds": word,
                "most": most,
            }
        )
    return found


def _most(capacity: int, at: int, machine: Ceilings) -> int:
    """Return how many rows of a panel, rows of it with the strips of A, or columns of a block fill half of a cache."""
    each = (4 * WIDTH, 4 * (_ROWS + WIDTH))[at] if at < 2 else 4 * block_depth(machine)
    # What passes by has the other half.
    return max(capacity // 2 // each, 1)


def panel_depth(machine: Ceilings) -> int:
    """Return the depth, a multiple of 16, at which a panel of B fills half of the first cache."""
    return _depth(machine, 0)


def block_depth(machine: Ceilings) -> int:
    """Return the depth, a multiple of 16, at which a panel and the strips of A fill half of the second cache.

    It is that of the first where there is no second, and 128 without a cache.
    """
    caches = [level for level in machine.levels if level.capacity is not None]
    return _depth(machine, min(1, len(caches) - 1)) if caches else 128


def _depth(machine: Ceilings, at: int) -> int:
    held = machine.levels[at].capacity
    return max(16, _most(held, at, machine) // 16 * 16) if held else 128


@dataclass(frozen=True)
class Depths:
    """Seconds of a product in cache tiles by their depth, in turns; that of the first cache, and the one of blocks."""

    seconds: Mapping[int, Measurement]
    first: int
    chosen: int

    @property
    def rates(self) -> list[dict[str, Any]]:
        """The rate at each depth, as a figure's points."""
        return [
            {"depth": deep, "rate": each.per(2 * _ROWS * _WIDTH**2, "FLOP/s", f"rate in cache tiles {deep} deep")}
            for deep, each in self.seconds.items()
        ]

    def gain(self, deep: int, matters: float) -> Comparison:
        """Return how many times as fast the chosen depth is as another."""
        return compare_paired(self.seconds[deep], self.seconds[self.chosen], matters=matters)

    def gain_over_first(self, matters: float) -> Comparison | Unmeasured:
        """Return how many times as fast the chosen depth is as that of the first cache, where they differ."""
        if self.first == self.chosen:
            return Unmeasured("both caches allow the same depth on this machine")
        return self.gain(self.first, matters)


def study_depths(machine: Ceilings) -> Depths:
    """Return a product in cache tiles at each depth, those that the caches ask for among them."""
    first, chosen = panel_depth(machine), block_depth(machine)
    depths = sorted({*DEPTHS, first, chosen})

    def fresh() -> dict[str, Callable[[], Any]]:
        a, b = drawn(_ROWS, _WIDTH), drawn(_WIDTH, _WIDTH)
        return {str(deep): partial(products.cache_tiles, a, b, deep=deep) for deep in depths}

    times = interleave(fresh, repeats=36, at_most_seconds=5, warmup_seconds=0.05)
    return Depths({deep: times[str(deep)] for deep in depths}, first, chosen)


def study_narrow() -> Measurement:
    """Return what cache tiles gain over the tile in registers where the second matrix is near as a whole."""
    a, b = drawn(192, 192), drawn(192, 192)
    ways = {
        "tile in registers": partial(products.register_tiles, a, b),
        "in cache tiles": partial(products.cache_tiles, a, b),
    }
    times = interleave(ways, repeats=36, at_most_seconds=0.5, warmup_seconds=0.05)
    return ratio(times["tile in registers"], times["in cache tiles"], "registers over cache tiles, 192 wide")


#: Ways to run the tile in registers, each of which differs from the one before it in one thing.
IN_PLACE, COLUMNS, READY, PACKED = "in place", "columns first", "copied before", "copied in time"
#: As `COLUMNS`, but on large pages.
_HUGE = "columns first, large pages"


@dataclass(frozen=True)
class Difference:
    """How many times as fast one difference made a product, and all up to it."""

    gained: Measurement
    so_far: Measurement


@dataclass(frozen=True)
class Apart:
    """What a packed product gains over the tile in registers, taken apart: one difference at a time."""

    seconds: Mapping[str, Measurement]

    def gain(self, before: str, after: str, what: str) -> Measurement:
        """Return the time of one way over that of another."""
        return ratio(self.seconds[before], self.seconds[after], what)

    @property
    def rows(self) -> dict[str, Difference]:
        """What the "order" of loops, the "places" of numbers and the "copy" itself change, one after the other."""
        ways = {"order": (IN_PLACE, COLUMNS), "places": (COLUMNS, READY), "copy": (READY, PACKED)}
        return {
            name: Difference(
                self.gain(before, after, f"{before} over {after}"),
                self.gain(IN_PLACE, after, f"{IN_PLACE} over {after}"),
            )
            for name, (before, after) in ways.items()
        }

    @property
    def pages(self) -> Measurement | Unmeasured:
        """Return what large pages alone gain for columns in place."""
        if _HUGE not in self.seconds:
            return Unmeasured("the system gave no large pages")
        return self.gain(COLUMNS, _HUGE, "columns in place on small pages over large ones")


def study_apart() -> Apart:
    """Return the tile in registers in four ways on small pages, and in one on large ones, in turns."""
    huge = _on_pages(_WIDE, _WIDE, huge=True)

    def fresh() -> dict[str, Callable[[], Any]]:
        a, out = drawn(_FEW, _WIDE), np.empty((_FEW, _WIDE), np.float32)
        b = _on_pages(_WIDE, _WIDE, huge=False)[0]
        panels = np.ascontiguousarray(b.reshape(_WIDE, -1, WIDTH).swapaxes(0, 1))
        ways: dict[str, Callable[[], Any]] = {
            IN_PLACE: partial(loop_orders.in_register_tiles, a, b, out),
            COLUMNS: partial(loop_orders.in_columns_of_tiles, a, b, out),
            READY: partial(loop_orders.in_ready_panels, a, panels, out),
            PACKED: partial(_pack_and_multiply, a, b, out),
        }
        if huge[1]:
            ways[_HUGE] = partial(loop_orders.in_columns_of_tiles, a, huge[0], out)
        return ways

    return Apart(interleave(fresh, repeats=12, at_most_seconds=5, warmup_seconds=0.05))


def _pack_and_multiply(a: Array, b: Array, out: Array) -> None:
    """Copy ``b`` to panels, and multiply by them."""
    panels = np.empty((b.shape[1] // WIDTH, b.shape[0], WIDTH), np.float32)
    loop_orders.copy_panels(b, panels)
    loop_orders.in_ready_panels(a, panels, out)


def _on_pages(rows: int, pitch: int, *, huge: bool) -> tuple[Array, bool]:
    """Return random numbers on pages of one kind, and whether most of them are large."""
    arena = Arena(4 * rows * pitch, huge=huge)
    numbers = arena.view(0, rows * pitch, np.float32).reshape(rows, pitch)
    numbers[:] = drawn(rows, pitch)
    return numbers, (arena.huge_bytes() or 0) > arena.memory.size // 2


@dataclass(frozen=True)
class Pitches:
    """Seconds of products in cache tiles by the distance of rows and by whether B is copied, in turns."""

    seconds: Mapping[str, Measurement]

    def gain(self, pitch: int, matters: float) -> Comparison:
        """Return what the copy gains at a distance of rows."""
        return compare_paired(self.seconds[f"in place, {pitch}"], self.seconds[f"copied, {pitch}"], matters=matters)

    def kept(self, way: str) -> Measurement:
        """Return the rate at the power of two over that at the width."""
        near, far = ROW_PITCHES
        what = f"rate with rows {far} numbers apart over that with {near}, {way}"
        return ratio(self.seconds[f"{way}, {near}"], self.seconds[f"{way}, {far}"], what).scaled(1, "%")


def study_pitches(machine: Ceilings) -> Pitches:
    """Return cache tiles in place and copied, of a second matrix whose rows lie at each of `ROW_PITCHES`."""
    deep = block_depth(machine)

    def fresh() -> dict[str, Callable[[], Any]]:
        a, out = drawn(_ROWS, _WIDTH), np.empty((_ROWS, _WIDTH), np.float32)
        ways: dict[str, Callable[[], Any]] = {}
        for pitch in ROW_PITCHES:
            b = _on_pages(_WIDTH, pitch, huge=True)[0][:, :_WIDTH]
            ways[f"in place, {pitch}"] = partial(loop_orders.in_cache_tiles, a, b, out, deep)
            ways[f"copied, {pitch}"] = partial(loop_orders.in_packed_blocks, a, b, out, deep)
        return ways

    return Pitches(interleave(fresh, repeats=30, at_most_seconds=4, warmup_seconds=0.05))


def drawn(rows: int, columns: int) -> Array:
    """Return standard normal numbers, of which a large matrix repeats the first million: to draw them takes longer."""
    few = np.random.default_rng(0).standard_normal(min(rows * columns, 1 << 20), dtype=np.float32)
    return np.resize(few, (rows, columns))
