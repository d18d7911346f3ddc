"""What this machine can do at most: peaks, bandwidths, latencies, each measured here, with an interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tinytorch.perf.timing import Measurement

Stream = Literal["read", "copy", "triad", "latency"]


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the memory hierarchy, as found on the curves.

    Attributes:
        name: "L1", "L2", "L3" or "memory".
        capacity_measured: the largest working set in bytes, of all threads together, that still ran at this
            level's speed; None for memory, whose end is not looked for.
        capacity_reported: bytes of this level as the system reports them for the cores in use; None if it does not.
        read, copy, triad: bandwidth in B/s, all threads together. Bytes are those that the code names: n read for a
            sum, 2n for a copy, 3n for a triad; lines that a store makes the CPU read first are not counted.
        latency: seconds from one dependent load to the next.
    """

    name: str
    capacity_measured: int | None
    capacity_reported: int | None
    read: Measurement
    copy: Measurement
    triad: Measurement
    latency: Measurement


@dataclass(frozen=True, slots=True)
class Point:
    """One step of a ladder: the ``working_set`` in bytes (all arrays of all threads) and what it reached."""

    working_set: int
    reached: Measurement


@dataclass(frozen=True)
class Ceilings:
    """The ceilings of this machine for ``threads`` threads.

    Attributes:
        threads: threads that every probe ran on, and that BLAS had.
        fp32_peak: FLOP/s, 2 per multiply-add: the larger of the two below, which ``fp32_from`` names.
        fp32_from: "compiled multiply-add" or "sgemm".
        multiply_add: the sweep: (FLOPs per element, FLOP/s of a block in the first cache).
        sgemm: FLOP/s of a product of two float32 matrices, 2048 wide, by the BLAS of NumPy.
        int8_peak: OP/s, 2 per multiply-accumulate of 8-bit numbers into 32 bits; None without such an instruction.
        int8_from: the instruction, or why there is no peak.
        levels: from the innermost cache to memory.
        curves: the ladder of each of "read", "copy", "triad" (B/s) and "latency" (s), by growing working set.
        clock: Hz, of a chain of dependent integer operations of one cycle each.
        page_fault: seconds that the first touch of a fresh page of memory takes.
        evidence: for each probe the vector instructions found in its assembly, and how often.
        how: when and under which conditions it was measured, whether it was read back, from which file.
    """

    threads: int
    fp32_peak: Measurement
    fp32_from: str
    multiply_add: tuple[tuple[int, Measurement], ...]
    sgemm: Measurement
    int8_peak: Measurement | None
    int8_from: str
    levels: tuple[Level, ...]
    curves: Mapping[Stream, tuple[Point, ...]]
    clock: Measurement
    page_fault: Measurement
    evidence: Mapping[str, Mapping[str, int]]
    how: Mapping[str, Any]

    def level_of(self, working_set: int) -> Level:
        """Return the innermost level whose measured capacity holds ``working_set`` bytes, else memory.

        Raises:
            ValueError: if ``working_set`` is below 0.
        """
        if working_set < 0:
            raise ValueError(f"working_set must be at least 0 bytes, not {working_set}")
        fitting = (level for level in self.levels if working_set <= (level.capacity_measured or 0))
        return next(fitting, self.levels[-1])


def ceilings(threads: int = 1, *, refresh: bool = False) -> Ceilings:
    """Return the ceilings for ``threads`` threads: those kept for this machine and environment, else measured now.

    They are kept below ``_build/machine`` and in this process; ``refresh`` measures anew.

    Raises:
        ValueError: if ``threads`` is below 1 or above the number of cores that this process may use.
    """
    raise NotImplementedError


def kept_ceilings(threads: int = 1) -> Ceilings | None:
    """Return the ceilings that `ceilings` would return without measuring, or None where it would have to measure.

    So that a table can show per cent of the roof where the roof is known, and never makes a reader wait for it.
    """
    del threads
    return None  # nothing is kept yet
