"""The memory ladder: bandwidth and latency over working sets from inside the first cache to far beyond the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from tinytorch.perf.arena import Arena
from tinytorch.perf.kernels import memory_probes
from tinytorch.perf.kernels.memory_probes import LINE_BYTES, LINE_ELEMENTS, STREAM_MULTIPLE
from tinytorch.perf.probing import Probe, calibrated_rounds, conditions, in_turns, rate, sample_seconds
from tinytorch.perf.team import Team
from tinytorch.perf.timing import Measurement, collector_off

Curve = Literal["read", "copy", "triad", "latency"]
CURVES: tuple[Curve, ...] = get_args(Curve)
#: Arrays that a stream goes through; a sum reads one, a copy reads one and writes one.
ARRAYS: Mapping[Curve, int] = {"read": 1, "copy": 2, "triad": 3}
SMALLEST = 8 * 2**10
LARGEST = 256 * 2**20
STEPS_PER_OCTAVE = 2
#: Samples of each point, an odd number above the six that a 95 % interval needs.
REPEATS = 9
#: Arrays begin at a page and this much further each, so that no store hits the address bits of a load close by.
_STAGGER = 21 * LINE_BYTES
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Point:
    """One step of a ladder: the ``working_set`` in bytes (all arrays of all threads) and what it ``reached``."""

    working_set: int
    reached: Measurement


@dataclass(frozen=True)
class Ladder:
    """What climbing the ladder gave: the points of each curve by growing working set, and what memory it stood on."""

    curves: Mapping[Curve, tuple[Point, ...]]
    huge_page_bytes: int | None
    bytes_of_memory: int


def working_sets(threads: int, largest: int = LARGEST) -> list[int]:
    """Return the nominal working sets in bytes, of all ``threads`` together: two an octave, 8 KiB a thread at first.

    Raises:
        ValueError: if ``largest`` is smaller than the smallest.
    """
    smallest = SMALLEST * threads
    if largest < smallest:
        raise ValueError(f"largest must be at least {smallest} bytes for {threads} threads, not {largest}")
    steps = int(np.floor(np.log2(largest / smallest) * STEPS_PER_OCTAVE + 1e-9))
    return [round(smallest * 2 ** (step / STEPS_PER_OCTAVE)) for step in range(steps + 1)]


def stream_arrays(arena: Arena, curve: Curve, share: int) -> list[np.ndarray[Any, Any]]:
    """Return the float32 arrays of one thread for ``curve``, together ``share`` bytes but for rounding."""
    count = max(1, share // (4 * ARRAYS[curve] * STREAM_MULTIPLE)) * STREAM_MULTIPLE
    spacing = -(-count * 4 // _PAGE) * _PAGE + _STAGGER
    return [arena.view(number * spacing, count, np.float32) for number in range(ARRAYS[curve])]


def climb(
    team: Team, lanes: int, on_progress: Callable[[float], None], *, largest: int = LARGEST, repeats: int = REPEATS
) -> Ladder:
    """Return bandwidths and latency of ``team`` over the working sets up to ``largest`` bytes.

    Streams use vectors of ``lanes`` floats. Their samples are taken in turns over all sizes; latencies are taken
    size by size, since each size needs a cycle of its own, after one whole walk of it.
    """
    sizes = working_sets(team.threads, largest)
    room = sizes[-1] // team.threads + 4 * (_PAGE + _STAGGER)
    arenas: list[Arena] = [Arena(room) for _ in range(team.threads)]
    for arena in arenas:
        arena.view(0, room // 4, np.float32)[:] = 1.0
    curves = _streams(team, arenas, sizes, lanes, lambda part: on_progress(part * 0.6), repeats)
    curves["latency"] = _latencies(team, arenas, sizes, lambda part: on_progress(0.6 + part * 0.4), repeats)
    huge = [arena.huge_bytes() for arena in arenas]
    known = [size for size in huge if size is not None]
    return Ladder(curves, sum(known) if len(known) == len(huge) else None, room * team.threads)


def _stream_probe(team: Team, arenas: list[Arena], curve: Curve, share: int, lanes: int) -> tuple[int, Probe]:
    """Return the bytes that one round moves, and the probe."""
    kernel = getattr(memory_probes, curve)(lanes)
    arrays = [stream_arrays(arena, curve, share) for arena in arenas]
    factor = (np.float32(0.5),) if curve == "triad" else ()

    def probe(rounds: int) -> float:
        return team.run([partial(kernel, *own, *factor, rounds) for own in arrays])

    return sum(array.nbytes for own in arrays for array in own), probe


def _streams(
    team: Team,
    arenas: list[Arena],
    sizes: list[int],
    lanes: int,
    on_progress: Callable[[float], None],
    repeats: int,
) -> dict[Curve, tuple[Point, ...]]:
    made = {
        (curve, size): _stream_probe(team, arenas, curve, size // team.threads, lanes)
        for curve in ARRAYS
        for size in sizes
    }
    taken = in_turns(
        {key: probe for key, (_, probe) in made.items()}, sample_seconds(team), repeats, on_progress, warmed=True
    )
    curves: dict[Curve, tuple[Point, ...]] = {}
    for curve in ARRAYS:
        points = []
        for size in sizes:
            moved, (rounds, seconds) = made[curve, size][0], taken[curve, size]
            how = conditions(team, rounds, vector_bits=32 * lanes, working_set_bytes=moved)
            points.append(Point(moved, rate(moved, seconds, "B/s", f"{curve} bandwidth", how)))
        curves[curve] = tuple(points)
    return curves


def _latencies(
    team: Team, arenas: list[Arena], sizes: list[int], on_progress: Callable[[float], None], repeats: int
) -> tuple[Point, ...]:
    points = []
    with collector_off():
        for number, size in enumerate(sizes):
            points.append(_latency(team, arenas, size, repeats))
            on_progress((number + 1) / len(sizes))
    return tuple(points)


def _latency(team: Team, arenas: list[Arena], size: int, repeats: int) -> Point:
    """Return the seconds of one load that depends on the one before, on a random cycle through ``size`` bytes."""
    lines = size // team.threads // LINE_BYTES
    build, follow = memory_probes.random_cycle(), memory_probes.chase()
    cycles = [arena.view(0, lines * LINE_ELEMENTS, np.uint64) for arena in arenas]
    seeds = np.random.default_rng(lines).integers(1, 2**63, team.threads, dtype=np.uint64)
    team.run([partial(build, cycle, seed) for cycle, seed in zip(cycles, seeds, strict=True)])
    places = [np.uint64(0)] * team.threads

    def walk(steps: int) -> float:
        def go(thread: int) -> None:
            places[thread] = follow(cycles[thread], places[thread], steps)

        return team.run([partial(go, thread) for thread in range(team.threads)])

    walk(lines)
    steps = calibrated_rounds(walk, sample_seconds(team))
    seconds = tuple(walk(steps) / steps for _ in range(repeats))
    working_set = lines * LINE_BYTES * team.threads
    how = conditions(team, steps, working_set_bytes=working_set)
    return Point(working_set, Measurement("latency of a dependent load", seconds, "s", how))
