"""The levels of memory: plateaus of the ladder's curves, named by what the system reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from tinytorch.perf.ladder import STREAMS, Curve, Point
from tinytorch.perf.plateaus import find_plateaus
from tinytorch.perf.timing import Measurement

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
    read: Measurement
    copy: Measurement
    triad: Measurement
    latency: Measurement
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
