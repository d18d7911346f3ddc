"""Tiles of a product: their shape in registers, their depth in a cache, and times beside what the core can do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.gemm.packing import aligned_empty
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS, WIDTH, tile_kernel
from tinytorch.perf.kernels.runtime.vectors import cpu_features
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, interleave, ratio
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
#: Rows of the result where a panel must serve many: whole tiles of any CPU.
SERVED = 384
#: Loops beside which all else is timed: multiply-adds alone, and dependent integer operations.
PEAK, CLOCK = "the peak", "the clock"
#: Multiply-adds on each element of the peak's loop, so many that to begin and to end takes next to nothing.
_MULTIPLY_ADDS, _ROUNDS = 192, 20


@dataclass(frozen=True)
class Timed:
    """Seconds of ways to multiply, and of what the core can do at most, all in turns; and the operations of each.

    As all were timed in turns, what slows the machine down for a while slows both sides of a ratio.
    """

    seconds: Mapping[str, Measurement]
    operations: Mapping[str, int]

    @property
    def rates(self) -> dict[str, Measurement]:
        """FLOP/s of each."""
        return {
            name: each.per(self.operations[name], "FLOP/s", f"rate of {name}") for name, each in self.seconds.items()
        }

    @property
    def of_peak(self) -> dict[str, Measurement]:
        """Share of the peak that each reaches."""
        return {name: self.gain(PEAK, name).scaled(1, "%", f"share of the peak, {name}") for name in self.seconds}

    def gain(self, before: str, after: str) -> Measurement:
        """Return how many times the rate of one way another has."""
        more = self.operations[after] / self.operations[before]
        return ratio(self.seconds[before], self.seconds[after]).scaled(more, "", f"rate of {after} over {before}")

    def compared(self, before: str, after: str, matters: float) -> Comparison:
        """Return the rate of a way over that of another, judged."""
        one, other = (self.seconds[name].scaled(1 / self.operations[name]) for name in (before, after))
        return compare_paired(one, other, matters=matters)

    def cycles(self, name: str, steps: int) -> Measurement:
        """Return the cycles of a step of a way, of which it makes so many."""
        clock = ratio(self.seconds[name], self.seconds[CLOCK])
        return clock.scaled(self.operations[CLOCK] / steps, "cycles", f"cycles of a step, {name}")


def limits() -> tuple[dict[str, Callable[[], Any]], dict[str, int]]:
    """Return the loops that show what the core can do, and the operations of each; of the clock its cycles."""
    block = np.full(probes.BLOCK_ELEMENTS, 2, np.float32)
    chain = np.uint64(1), np.uint64(0x9E3779B97F4A7C15), np.uint64(0x5DEECE66D)
    multiply_adds, cycles = probes.multiply_add(LANES, _MULTIPLY_ADDS), probes.integer_chain()
    runs: dict[str, Callable[[], Any]] = {
        # Towards 1 from above: neither overflow nor numbers too small for the fast path of the hardware.
        PEAK: partial(multiply_adds, block, _ROUNDS, np.float32(0.999), np.float32(0.001)),
        CLOCK: partial(cycles, *chain, _STEPS),
    }
    return runs, {PEAK: 2 * _MULTIPLY_ADDS * block.size * _ROUNDS, CLOCK: 2 * _STEPS}


def memory_operations(rows: int, vectors: int) -> float:
    """Return loads and stores for each multiply-add of vectors in a tile: in one step it loads a row and a column."""
    return (rows + vectors) / (rows * vectors)


def needed(rows: int, vectors: int) -> int:
    """Return the registers of a tile: its sums, a row of B, and a number of A."""
    return rows * vectors + vectors + 1


def operations(rows: int = ROWS, vectors: int = VECTORS) -> Counted:
    """Return `memory_operations` of a tile, that of this CPU if none is given."""
    what = f"memory operations for each multiply-add of a tile of {rows} × {vectors} vectors"
    return Counted(memory_operations(rows, vectors), "operations", what)


def named(shape: tuple[int, int]) -> str:
    """Return what a shape is called."""
    return "{} × {}".format(*shape)


#: Bytes of a cache line, and lines that a row of a panel lies on.
LINE_BYTES = 64
LINES = -(-4 * WIDTH // LINE_BYTES)
#: Tiles of `SHAPES`: one sum, that of this CPU, one that is too large, and another that fits and has enough sums; with
#: 32 registers the last has the fewest memory operations.
ONE, OURS, SPILLED = named(SHAPES[0]), named((ROWS, VECTORS)), named(SHAPES[-1])
OTHER = "5 × 5" if REGISTERS == 32 else "6 × 2"


class Shapes(Timed):
    """Tiles of `SHAPES`, each on operands that are the same in all its steps."""

    @property
    def latency(self) -> Measurement:
        """Cycles until a multiply-add can use the sum of the one before."""
        return self.cycles(ONE, _STEPS)

    @property
    def units(self) -> Measurement:
        """Multiply-adds of vectors in a cycle, at the peak."""
        vectors = self.operations[PEAK] / (2 * LANES) / self.operations[CLOCK]
        what = "multiply-adds of vectors in a cycle, at the peak"
        return ratio(self.seconds[CLOCK], self.seconds[PEAK]).scaled(vectors, "instructions", what)

    @property
    def sums_needed(self) -> Measurement:
        """Latency times units: how many times the rate of one sum the peak is."""
        return self.gain(ONE, PEAK).scaled(1, "sums", "the peak over the rate of one sum")

    @property
    def of_ours(self) -> Measurement:
        """Share of the peak that the tile of this CPU reaches."""
        return self.of_peak[OURS]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each tile as a row of a table: what it needs, whether it fits in the registers, and its share of the peak."""
        return [
            {
                "shape": named((rows, vectors)),
                "sums": rows * vectors,
                "registers": needed(rows, vectors),
                "fits": "yes" if needed(rows, vectors) <= REGISTERS else "no",
                "predicted": self.predicted(rows * vectors),
                "found": self.of_peak[named((rows, vectors))],
            }
            for rows, vectors in SHAPES
        ]

    def predicted(self, sums: int) -> Modelled:
        """Return the share of the peak that so many sums reach if none waits for another."""
        alone = self.of_peak[ONE].scaled(sums, name=f"share of the peak of one sum, times {sums}")
        least = min(alone, self.of_peak[PEAK], key=lambda share: share.median)
        return Modelled.by("as many times the rate of one sum, up to the peak", least)


def study_shapes() -> Shapes:
    """Return tiles of `SHAPES`, each on operands that are the same in all its steps."""
    tiles = {shape: tile_kernel(*shape) for shape in SHAPES}
    loops, done = limits()

    def fresh() -> dict[str, Callable[[], Any]]:
        return {**{named(each): tile_steps(tiles[each], *each) for each in SHAPES}, **loops}

    done |= {named((rows, wide)): 2 * rows * wide * LANES * _STEPS for rows, wide in SHAPES}
    return Shapes(interleave(fresh, repeats=60, at_most_seconds=2, warmup_seconds=0.05), done)


def tile_steps(tile: Any, rows: int, vectors: int) -> Callable[[], Array]:
    """Return a run of the steps of a tile, and of nothing else: its operands, a column and a row, are there before."""
    operands = column, row, _ = [aligned_empty(count) for count in (rows, vectors * LANES, rows * vectors * LANES)]
    column[:] = row[:] = 1e-3
    at = [each.ctypes.data for each in operands]

    def run() -> Array:
        tile(at[0], 1, 0, at[1], 0, at[2], vectors * LANES, _STEPS, 0)
        return operands[2]

    return run


def block_depth(machine: Ceilings) -> int:
    """Return the depth, a multiple of 16, of a panel that fills a quarter of the second cache, with a strip of A.

    It is that of the first where there is no second, and 128 without a cache.
    """
    capacities = [level.capacity for level in machine.levels if level.capacity is not None]
    if not capacities:
        return 128
    # The rest is left for data that is only streamed through, and for lines that the hardware fetches without need.
    most = capacities[:2][-1] // 4 // (LINE_BYTES * LINES + 4 * ROWS)
    return max(16, most // 16 * 16)


def drawn(rows: int, columns: int) -> Array:
    """Return standard normal numbers, of which a large matrix repeats the first million: to draw them takes longer."""
    few = np.random.default_rng(0).standard_normal(min(rows * columns, 1 << 20), dtype=np.float32)
    return np.resize(few, (rows, columns))
