"""Levels of memory: plateaus of the ladder's curves, named by what the system reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from tinytorch.perf.machine.memory_ladder import STREAMS, Curve, Point
from tinytorch.perf.measuring.measurement import BytesPerSecond, Seconds

#: Two neighbours are two plateaus only if their rates differ by this factor.
SMALLEST_STEP = 1.25
#: A plateau has at least this many points: one alone is a disturbance.
FEWEST_POINTS = 2


@dataclass(frozen=True, slots=True)
class Plateau:
    """Points ``first`` to ``last`` (both included) of a curve, and the ``rate`` that is the median of them."""

    first: int
    last: int
    rate: float


def find_plateaus(rates: Sequence[float] | npt.NDArray[np.float64], at_most: int) -> tuple[Plateau, ...]:
    """Return the plateaus of ``rates``, a curve over growing working sets that falls from each plateau to the next.

    The rule: cut the curve into k pieces of at least two points so that the sum of the distances of all logarithms to
    the median of their piece is smallest (absolute distances, so that a disturbed point has little weight). k is
    the largest number up to ``at_most`` for which each piece lies below the one before by a factor of at least 1.25.
    A point on the slope between two plateaus thereby belongs to the one that it is nearer to.

    Raises:
        ValueError: if ``rates`` are not above 0, there are none, or ``at_most`` is below 1.
    """
    values = np.asarray(rates, np.float64)
    if values.ndim != 1 or values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError("rates must be a flat sequence of finite numbers above 0, at least one")
    if at_most < 1:
        raise ValueError(f"at_most must be at least 1 plateau, not {at_most}")
    logs = np.log2(values)
    costs = _costs(logs)
    for pieces in range(min(at_most, values.size // FEWEST_POINTS), 1, -1):
        found = _plateaus(logs, _cuts(costs, pieces))
        steps = [inner.rate / outer.rate for inner, outer in pairwise(found)]
        if min(steps) >= SMALLEST_STEP:
            return found
    return _plateaus(logs, [0, values.size])


def _costs(logs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return costs[i, j]: the sum of distances to the median of points i to j - 1, infinite for too few points."""
    n = logs.size
    costs = np.full((n + 1, n + 1), np.inf)
    for first in range(n):
        for end in range(first + FEWEST_POINTS, n + 1):
            piece = logs[first:end]
            costs[first, end] = np.abs(piece - np.median(piece)).sum()
    return costs


def _cuts(costs: npt.NDArray[np.float64], pieces: int) -> list[int]:
    """Return the borders 0, ..., n of the cheapest partition into ``pieces``, by dynamic programming."""
    best = costs[0]
    origins = []
    for _ in range(pieces - 1):
        totals = best[:, None] + costs
        origins.append(totals.argmin(axis=0))
        best = totals.min(axis=0)
    borders = [len(best) - 1]
    for origin in reversed(origins):
        borders.append(int(origin[borders[-1]]))
    return [0, *reversed(borders)]


def _plateaus(logs: npt.NDArray[np.float64], borders: Sequence[int]) -> tuple[Plateau, ...]:
    return tuple(Plateau(first, end - 1, float(2 ** np.median(logs[first:end]))) for first, end in pairwise(borders))


#: Levels to look for where the system reports no caches: three and memory, as most CPUs have.
_USUAL_CACHES = 3
#: A level's own speed shows from this many times the inner level's capacity on; below, that still serves a good part.
CLEAR_OF_INNER = 4


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the memory hierarchy, as found on the curves.

    Attributes:
        name: "L1", "L2", "L3" or "memory".
        capacity_measured: the largest working set in bytes, of all threads together, whose streams still ran at this
            level's speed; None for memory, whose end is not looked for.
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


def find_levels(curves: Mapping[Curve, Sequence[Point]], reported: Mapping[int, int]) -> tuple[Level, ...]:
    """Return the levels that ``curves`` show, innermost first, memory last.

    The borders are those of the plateaus (see `find_plateaus`) of the geometric mean of read, copy and triad, at most
    one plateau more than the caches of ``reported`` (bytes by level of cache). The rate of a level is the highest
    median among its working sets of at least four times the inner level's capacity, where that no longer helps. Its
    latency is the lowest median there, within the borders that the curve of the latency has if it shows the level.

    Raises:
        ValueError: if the curves do not have one point for each step of the same ladder.
    """
    sizes = [point.working_set for point in curves["read"]]
    if any(len(curve) != len(sizes) for curve in curves.values()):
        raise ValueError("curves must have one point for each step of the same ladder")
    medians = np.array([[point.reached.median for point in curves[stream]] for stream in STREAMS])
    at_most = (len(reported) or _USUAL_CACHES) + 1
    ends = _ends(np.exp(np.log(medians).mean(axis=0)), at_most, sizes, reported)
    walk_ends = _ends([1 / point.reached.median for point in curves["latency"]], at_most, sizes, reported)
    levels: list[Level] = []
    inner = walk_inner = -1
    for name, end in [*ends.items(), ("memory", len(sizes) - 1)]:
        walk_end = walk_ends.get(name, end)
        if name == "memory":
            walk_inner = max(walk_inner, inner)
        rates = {stream: max(_clear(curves[stream], inner, end), key=_median).reached for stream in STREAMS}
        levels.append(
            Level(
                name=name,
                capacity_measured=sizes[end] if name in ends else None,
                capacity_reported=reported.get(int(name[1:])) if name in ends else None,
                read=rates["read"],
                copy=rates["copy"],
                triad=rates["triad"],
                latency=min(_clear(curves["latency"], walk_inner, walk_end), key=_median).reached,
                capacity_by_latency=sizes[walk_ends[name]] if name in walk_ends else None,
            )
        )
        inner, walk_inner = end, walk_end
    return tuple(levels)


def _median(point: Point) -> float:
    return point.reached.median


def _ends(
    rates: Sequence[float] | npt.NDArray[np.float64], at_most: int, sizes: Sequence[int], reported: Mapping[int, int]
) -> dict[str, int]:
    """Return the index of the last point of each cache that ``rates`` show, by its name, innermost first.

    If there are fewer than are reported, names go to those that fit best, by the sum of distances in octaves.
    """
    ends = [plateau.last for plateau in find_plateaus(rates, at_most)[:-1]]
    known = reported or dict.fromkeys(range(1, len(ends) + 1), 0)

    def distance(numbers: tuple[int, ...]) -> float:
        return sum(abs(math.log2(sizes[end] / known[number])) for end, number in zip(ends, numbers, strict=True))

    choices = list(combinations(sorted(known), len(ends)))
    chosen = choices[0] if len(choices) == 1 else min(choices, key=distance)
    return {f"L{number}": end for number, end in zip(chosen, ends, strict=True)}


def _clear(curve: Sequence[Point], inner: int, end: int) -> Sequence[Point]:
    """Return the points after index ``inner`` up to ``end`` that are clear of the inner level, or else the last."""
    far = CLEAR_OF_INNER * curve[inner].working_set if inner >= 0 else 0
    return [point for point in curve[inner + 1 : end + 1] if point.working_set >= far] or [curve[end]]
