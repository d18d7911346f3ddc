"""The memory ladder: bandwidth and latency over working sets from inside the first cache to far beyond the last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tinytorch.perf.host.memory_pages import Arena
from tinytorch.perf.host.pinned_threads import Team
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.probes import LINE_BYTES, LINE_ELEMENTS, STREAM_MULTIPLE
from tinytorch.perf.machine.levels import ARRAYS, CLEAR_OF_CACHE, SMALLEST_STEP, STREAMS, Curve, Point
from tinytorch.perf.machine.probing import REPEATS, Probe, Progress, calibrated_rounds, sample_seconds, team_conditions
from tinytorch.perf.measuring import Measurement, collector_off
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import MemoryProbe

SMALLEST = 8 * 2**10
LARGEST = 128 * 2**20
#: No ladder goes beyond this, however large a cache is reported to be: with all else a page holds at most 700 MiB.
MOST = 384 * 2**20
STEPS_PER_OCTAVE = 2
#: Arrays begin at a page and this much further each, so that no store hits the address bits of a load close by.
_STAGGER = 21 * LINE_BYTES
_PAGE = 4096


def working_sets(threads: int, largest: int = LARGEST, also: Iterable[int] = ()) -> list[int]:
    """Return the nominal working sets in bytes, of all ``threads`` together, growing.

    They are two an octave from 8 KiB a thread to ``largest``, and those of ``also`` in between: the reported sizes of
    caches, so that each is tried itself, in the place of what is within a quarter of a step of it.

    Raises:
        ValueError: if ``largest`` is smaller than the smallest.
    """
    smallest = SMALLEST * threads
    if largest < smallest:
        raise ValueError(f"largest must be at least {smallest} bytes for {threads} threads, not {largest}")
    steps = int(np.floor(np.log2(largest / smallest) * STEPS_PER_OCTAVE + 1e-9))
    regular = {round(smallest * 2 ** (step / STEPS_PER_OCTAVE)) for step in range(steps + 1)}
    asked = {size for size in also if smallest < size < largest}
    near = 2 ** (1 / (4 * STEPS_PER_OCTAVE))
    return sorted(asked | {size for size in regular if all(not 1 / near < size / one < near for one in asked)})


def ladder_end(team: Team, lanes: int, sizes: Sequence[int], reported: int) -> int:
    """Return up to which of the growing ``sizes`` a ladder must go to show memory, after a short look at each.

    A system may report a cache of hundreds of MiB of which a virtual machine gets a part, so that the memory which a
    ladder takes, and its time, follow what is seen.

    Args:
        sizes: working sets in bytes, of all threads together.
        reported: bytes of the last cache, as the system has it.
    """
    rates: dict[int, float] = {}
    for size in sizes:
        if CLEAR_OF_CACHE * size >= LARGEST and sizes[-1] > LARGEST:
            rates[size] = _short_look(team, lanes, size)
            if size >= max(LARGEST, reported) and shows_memory(rates):
                return size
    return sizes[-1]


def _short_look(team: Team, lanes: int, size: int) -> float:
    """Return the bytes a second of reading ``size`` bytes; what was read is given back before the next look."""
    probe = _stream_probe(team, make_arenas(team, [size]), "read", size // team.threads, lanes)
    return probe.amount / min(probe.run(1) for _ in range(4))


def shows_memory(rates: Mapping[int, float]) -> bool:
    """Return whether the rate fell and has then settled, up to the largest of these working sets, bytes with rates."""
    largest = max(rates)
    far = {size: rate >= SMALLEST_STEP * rates[largest] for size, rate in rates.items()}
    return any(far.values()) and not any(is_far for size, is_far in far.items() if CLEAR_OF_CACHE * size > largest)


def stream_arrays(arena: Arena, curve: Curve, share: int) -> list[np.ndarray[Any, Any]]:
    """Return the float32 arrays of one thread for ``curve``, together ``share`` bytes but for rounding."""
    count = max(1, share // (4 * ARRAYS[curve] * STREAM_MULTIPLE)) * STREAM_MULTIPLE
    spacing = -(-count * 4 // _PAGE) * _PAGE + _STAGGER
    return [arena.view(number * spacing, count, np.float32) for number in range(ARRAYS[curve])]


def make_arenas(team: Team, sizes: Sequence[int]) -> list[Arena]:
    """Return memory for the largest of ``sizes``, a share for each thread, filled with ones."""
    arenas = [Arena(max(sizes) // team.threads + 4 * (_PAGE + _STAGGER)) for _ in range(team.threads)]
    for arena in arenas:
        arena.view(0, arena.memory.size // 4, np.float32)[:] = 1.0
    return arenas


def stream_probes(
    team: Team, arenas: Sequence[Arena], lanes: int, sizes: Sequence[int]
) -> dict[tuple[Curve, int], Probe]:
    """Return the probe of each stream over each of ``sizes``, bytes of all threads; on vectors of ``lanes`` floats."""
    return {
        (curve, size): _stream_probe(team, arenas, curve, size // team.threads, lanes)
        for curve in STREAMS
        for size in sizes
    }


def _stream_probe(team: Team, arenas: Sequence[Arena], curve: Curve, share: int, lanes: int) -> Probe:
    kernel = getattr(probes, curve)(lanes)
    arrays = [stream_arrays(arena, curve, share) for arena in arenas]
    factor = (np.float32(0.5),) if curve == "triad" else ()

    def run(rounds: int) -> float:
        return team.run([partial(kernel, *own, *factor, rounds) for own in arrays])

    moved = sum(array.nbytes for own in arrays for array in own)
    loop = MemoryProbe(working_set_bytes=moved, vector_bits=32 * lanes)
    return Probe(f"{curve} bandwidth", run, moved, "B/s", loop)


def stream_curves(reached: Mapping[tuple[Curve, int], Measurement]) -> dict[Curve, tuple[Point, ...]]:
    """Return the measurements of `stream_probes` as curves."""
    return {
        curve: tuple(
            Point(_working_set(one), one)
            for (of, _), one in sorted(reached.items(), key=lambda item: item[0][1])
            if of == curve
        )
        for curve in STREAMS
    }


def _working_set(one: Measurement) -> int:
    probe = one.conditions.instrument
    if not isinstance(probe, MemoryProbe):
        raise ValueError(f"{one.name!r} must be of a loop over memory, to have a working set")
    return probe.working_set_bytes


def latency_curve(
    team: Team, arenas: Sequence[Arena], sizes: Sequence[int], on_progress: Progress, repeats: int = REPEATS
) -> tuple[Point, ...]:
    """Return the latency of dependent loads over ``sizes``, size by size as each needs a cycle of its own.

    What the arenas held is lost.
    """
    points = []
    with collector_off():
        for number, size in enumerate(sizes):
            points.append(_latency(team, arenas, size, repeats))
            on_progress((number + 1) / len(sizes))
    return tuple(points)


def _latency(team: Team, arenas: Sequence[Arena], size: int, repeats: int) -> Point:
    """Return the seconds of one load that depends on the one before, on a random cycle through ``size`` bytes.

    One whole walk goes first, so that what can be in a cache is there.
    """
    lines = size // team.threads // LINE_BYTES
    build, follow = probes.random_cycle(), probes.chase()
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
    conditions = team_conditions(team, steps, MemoryProbe(working_set_bytes=working_set))
    times = Measurement("latency of a dependent load", seconds, "s", conditions)
    return Point(working_set, with_between_run_spread(times))
