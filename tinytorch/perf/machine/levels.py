"""Ceilings of a machine, and its levels of memory: borders in the ladder's curves, beside the caches as reported."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Annotated, Literal, get_args

import numpy as np
import numpy.typing as npt

from tinytorch.perf.machine.call_costs import CallCosts
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.codec import SIGNED
from tinytorch.perf.measuring.measurement import BytesPerSecond, FlopsPerSecond, Hertz, OpsPerSecond, Seconds
from tinytorch.perf.measuring.statistics import median

Curve = Literal["read", "copy", "triad", "latency"]
CURVES: tuple[Curve, ...] = get_args(Curve)
#: Arrays that a stream goes through; a sum reads one, a copy reads one and writes one.
ARRAYS: Mapping[Curve, int] = {"read": 1, "copy": 2, "triad": 3}
STREAMS = tuple(ARRAYS)
#: Memory alone is seen from this many times the size on at which a cache still helped.
CLEAR_OF_CACHE = 4
#: Rates that differ by less than this factor are those of one level.
SMALLEST_STEP = 1.25


@dataclass(frozen=True, slots=True)
class Point:
    """One step of a ladder: the ``working_set`` in bytes (all arrays of all threads) and what it ``reached``."""

    working_set: int
    reached: Measurement


#: A level has at least this many points: one alone is a disturbance.
FEWEST_POINTS = 2
#: A cache serves sets of at most this many times its reported size: a step of the ladder more, half of which fits.
_AT_MOST = 1.5
#: What an octave between a border and the reported size weighs, in octaves by which a point is off its level's rate:
#: it says whose border one is, and moves none that the curve shows.
_OCTAVE = 0.05
#: Levels to look for where the system reports no caches: three and memory, as most CPUs have.
_USUAL_CACHES = (1, 2, 3)

#: Stands for the number that memory, which is no cache, does not have.
_MEMORY = 0

Told = Literal["bandwidth", "latency"]
#: The index of the last point of each cache, by the cache's number.
Ends = dict[int, int]


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the memory hierarchy: a cache that the system reports or the curves show, or memory.

    Attributes:
        name: "L1", "L2", "L3" or "memory".
        capacity_measured: the largest working set in bytes, of all threads together, whose streams still ran at this
            level's speed; None where the streams do not show its border, and for memory, whose end is not looked for.
        capacity_reported: bytes of this level as the system reports them for the cores in use; None if it does not.
        read, copy, triad: bandwidth in B/s, all threads together. Bytes are those that the code names: n read for a
            sum, 2n for a copy, 3n for a triad; lines that a store makes the CPU read first are not counted.
        latency: seconds from one dependent load to the next.
        capacity_by_latency: like ``capacity_measured``, by the curve of the latency. It is smaller where others on the
            machine drive lines out of a shared cache: a slow walk does not come back to them in time, a stream does.
            None for memory, and where that curve does not show this level.
    """

    name: str
    capacity_measured: int | None
    capacity_reported: int | None
    read: BytesPerSecond
    copy: BytesPerSecond
    triad: BytesPerSecond
    latency: Seconds
    capacity_by_latency: int | None = None

    @property
    def told_by(self) -> Told | None:
        """The curve that tells this cache from the next level; None where neither does, and for memory.

        Where neither does, bandwidth and latency are those of working sets that the cache should hold by its reported
        size, and may be the next level's.
        """
        return "bandwidth" if self.capacity_measured else "latency" if self.capacity_by_latency else None

    @property
    def capacity(self) -> int | None:
        """Bytes that this cache is taken to hold: by the streams, else by the latency, else as reported."""
        return self.capacity_measured or self.capacity_by_latency or self.capacity_reported


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The measuring of ceilings.

    Attributes:
        when: in UTC, ISO 8601.
        seconds: that it took.
        huge_page_policy: the system's, in its word; None where it has none.
        huge_page_bytes: bytes of the probes' memory that were on huge pages; None where the system does not say.
        note: why kept ceilings could not be used; None if there were none.
        tries: how often they were measured, these last, until others left the machine alone.
    """

    when: str
    seconds: float
    huge_page_policy: str | None
    huge_page_bytes: int | None
    note: str | None = None
    tries: int = 1


@dataclass(frozen=True)
class Ceilings:
    """The ceilings of this machine for ``threads`` threads.

    Attributes:
        threads: threads that every probe ran on, and that BLAS was told to use; see the conditions of ``sgemm``.
        fp32_peak: FLOP/s, 2 per multiply-add: the larger of the two below, which ``fp32_from`` names.
        fp32_from: ``"compiled multiply-add"`` or ``"sgemm"``.
        multiply_add: the sweep: (FLOPs per element, FLOP/s of a block in the first cache).
        sgemm: FLOP/s of a product of two float32 matrices, 2048 wide, by the BLAS of NumPy.
        int8_peak: OP/s, 2 per multiply-accumulate of 8-bit numbers into 32 bits, by the fastest way that this CPU has.
        int8_from: the instruction that multiplies them, such as "vpdpbusd zmm".
        levels: from the innermost cache to memory. A cache ends where the bandwidth falls, or at its reported size.
        curves: the ladder of each of "read", "copy", "triad" (B/s) and "latency" (s), by growing working set.
        clock: Hz, of a chain of dependent integer operations of one cycle each.
        page_fault: seconds that the first touch of a fresh page of memory takes.
        calls: what a call of each op takes at least, by NumPy and by its kernel. For several threads this and
            ``recorder`` are those of the ceilings of one, if these were kept.
        recorder: seconds that recording adds to an op: a difference, of which a sample may be below 0.
        evidence: for each probe the packed vector instructions found in its assembly, and how often.
        taken: when and how they were measured.

    Examples:
        >>> from tinytorch.perf.machine import ceilings
        >>> here = ceilings()
        >>> here.fp32_peak.unit, here.levels[-1].name
        ('FLOP/s', 'memory')
        >>> here.level_of(1024).name
        'L1'
    """

    threads: int
    fp32_peak: FlopsPerSecond
    fp32_from: str
    multiply_add: tuple[tuple[int, FlopsPerSecond], ...]
    sgemm: FlopsPerSecond
    int8_peak: OpsPerSecond
    int8_from: str
    levels: tuple[Level, ...]
    curves: Mapping[Curve, tuple[Point, ...]]
    clock: Hertz
    page_fault: Seconds
    calls: CallCosts
    recorder: Annotated[Seconds, SIGNED]
    evidence: Mapping[str, Mapping[str, int]]
    taken: Taken

    def __post_init__(self) -> None:
        if not self.levels or self.levels[-1].name != "memory":
            raise ValueError("levels must be caches, and then memory")
        if any(level.capacity is None for level in self.levels[:-1]):
            raise ValueError("levels that are caches must have a capacity")
        for curve, points in self.curves.items():
            if any(one.working_set >= next_one.working_set for one, next_one in pairwise(points)):
                raise ValueError(f"working sets of {curve} must grow")

    @property
    def peak_in_turns(self) -> bool:
        """Whether the FP32 peak was sampled in turns with the bandwidths, as the compiled one is, and no product."""
        return self.fp32_from != "sgemm"

    def level_of(self, working_set: int) -> Level:
        """Return the innermost level whose capacity holds ``working_set`` bytes, else memory.

        Raises:
            ValueError: if ``working_set`` is below 0.
        """
        if working_set < 0:
            raise ValueError(f"working_set must be at least 0 bytes, not {working_set}")
        fitting = (level for level in self.levels if working_set <= (level.capacity or 0))
        return next(fitting, self.levels[-1])


def find_levels(curves: Mapping[Curve, Sequence[Point]], reported: Mapping[int, int]) -> tuple[Level, ...]:
    """Return the levels of memory, innermost first, memory last: each cache of ``reported``, bytes by its number.

    A cache ends where the geometric mean of read, copy and triad falls (see `_ends`), or at its reported size where
    that does not show its end. Where nothing is reported, the caches are those that the curve shows, or that of the
    latency where it shows more. The rate of a level is the highest median among its working sets of at
    least four times the inner level's capacity, where that no longer helps. Its latency is the lowest median there,
    within the borders that the curve of the latency has if it shows the level.

    Raises:
        ValueError: if the curves do not have one point for each step of the same ladder.
    """
    sizes = [point.working_set for point in curves["read"]]
    if any(len(curve) != len(sizes) for curve in curves.values()):
        raise ValueError("curves must have one point for each step of the same ladder")
    medians = np.array([[point.reached.median for point in curves[stream]] for stream in STREAMS])
    falling = (
        np.exp(np.log(medians).mean(axis=0)),
        np.array([1 / point.reached.median for point in curves["latency"]]),
    )
    known: Mapping[int, int] = reported
    if not reported:
        shown = max((_ends(curve, sizes, dict.fromkeys(_USUAL_CACHES)) for curve in falling), key=len)
        known = {number: sizes[end] for number, end in shown.items()}
    ends, walk_ends = (_ends(curve, sizes, known, _AT_MOST if reported else math.inf) for curve in falling)
    levels: list[Level] = []
    inner = walk_inner = -1
    for number, end in [*_borders(ends, sizes, known).items(), (_MEMORY, len(sizes) - 1)]:
        walk_end = walk_ends.get(number, end)
        if number == _MEMORY:
            walk_inner = max(walk_inner, inner)
        levels.append(
            Level(
                name="memory" if number == _MEMORY else f"L{number}",
                capacity_measured=sizes[end] if number in ends else None,
                capacity_reported=reported.get(number),
                read=_highest(curves["read"], inner, end),
                copy=_highest(curves["copy"], inner, end),
                triad=_highest(curves["triad"], inner, end),
                latency=min(
                    (point.reached for point in _clear(curves["latency"], walk_inner, walk_end)),
                    key=lambda one: one.median,
                ),
                capacity_by_latency=sizes[walk_end] if number in walk_ends else None,
            )
        )
        inner, walk_inner = end, walk_end
    return tuple(levels)


def _ends(
    rates: npt.NDArray[np.float64], sizes: Sequence[int], known: Mapping[int, int | None], at_most: float = math.inf
) -> Ends:
    """Return the end of each cache that ``rates`` show, which fall from each level to the next.

    The rule: cut the curve into pieces of at least two points, each but the last that of a cache, so that the sum of
    the distances of all logarithms to the median of their piece is smallest (absolute distances, so that a disturbed
    point has little weight). No cache ends beyond ``at_most`` times its ``known`` size, and among alike cuts those
    near the known sizes are taken. The number of pieces is the largest for which each lies below the one before by a
    factor of at least 1.25. A point on the slope between two levels thereby belongs to the one that it is nearer to.
    """
    logs = np.log2(rates)
    costs, middles = _pieces(logs)
    for count in range(min(len(known), logs.size // FEWEST_POINTS - 1), 0, -1):
        cuts = np.array(list(combinations(range(logs.size - 1), count)))
        starts = np.column_stack([np.zeros(len(cuts), int), cuts + 1])
        stops = np.column_stack([cuts + 1, np.full(len(cuts), logs.size)])
        fitting = costs[starts, stops].sum(axis=1)
        steps = -np.diff(middles[starts, stops], axis=1).max(axis=1)
        found: list[tuple[float, Ends]] = []
        for numbers in combinations(sorted(known), count):
            away = [_away(sizes, known[number], at_most)[cuts[:, at]] for at, number in enumerate(numbers)]
            totals = fitting + np.sum(away, axis=0)
            best = int(totals.argmin())
            if np.isfinite(totals[best]) and steps[best] >= math.log2(SMALLEST_STEP):
                found.append((float(totals[best]), dict(zip(numbers, cuts[best].tolist(), strict=True))))
        if found:
            return min(found, key=lambda one: one[0])[1]
    return {}


def _pieces(logs: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return for points i to j - 1 the sum of distances to their median, infinite for too few, and the median."""
    costs = np.full((logs.size + 1, logs.size + 1), np.inf)
    middles = np.zeros_like(costs)
    for first in range(logs.size):
        for end in range(first + FEWEST_POINTS, logs.size + 1):
            middles[first, end] = median(logs[first:end])
            costs[first, end] = np.abs(logs[first:end] - middles[first, end]).sum()
    return costs, middles


def _away(sizes: Sequence[int], known: int | None, at_most: float) -> npt.NDArray[np.float64]:
    """Return what it weighs against each step of the ladder that it is not the cache's ``known`` size."""
    if known is None:
        return np.zeros(len(sizes))
    ratios = np.asarray(sizes) / known
    return np.where(ratios <= at_most, _OCTAVE * np.abs(np.log2(ratios)), np.inf)


def _borders(ends: Ends, sizes: Sequence[int], known: Mapping[int, int]) -> Ends:
    """Return where each cache ends: by ``ends``, or else at its ``known`` size, between its neighbours' ends."""
    borders: Ends = {}
    inner = -1
    for number in sorted(known):
        end = ends.get(number)
        if end is None:
            beyond = min((other for of, other in ends.items() if of > number), default=len(sizes) - 1)
            fitting = int(np.searchsorted(sizes, known[number], side="right")) - 1
            end = max(inner + 1, min(fitting, beyond - 1))
        borders[number] = inner = end
    return borders


def _highest(curve: Sequence[Point], inner: int, end: int) -> Measurement:
    """Return the highest bandwidth between the ends of two levels."""
    return max(_clear(curve, inner, end), key=lambda point: point.reached.median).reached


def _clear(curve: Sequence[Point], inner: int, end: int) -> Sequence[Point]:
    """Return the points after index ``inner`` up to ``end`` that are clear of the inner level, or else the last."""
    far = CLEAR_OF_CACHE * curve[inner].working_set if inner >= 0 else 0
    return [point for point in curve[inner + 1 : end + 1] if point.working_set >= far] or [curve[end]]
