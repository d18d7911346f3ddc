"""The ceilings of this machine as one value, and the run of all probes that gives them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from tinytorch.perf.events.stream import profiler_overhead
from tinytorch.perf.host.cgroup_limits import free_memory
from tinytorch.perf.host.identity import caches, reported_capacities
from tinytorch.perf.host.memory_pages import Arena, huge_page_policy
from tinytorch.perf.host.pinned_threads import Team
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.int8.instructions import Dot, available_dots
from tinytorch.perf.kernels.probes import MULTIPLY_ADDS
from tinytorch.perf.kernels.runtime.evidence import evidence
from tinytorch.perf.machine import peaks
from tinytorch.perf.machine.call_costs import CallCosts, measured_call_costs
from tinytorch.perf.machine.levels import Level, find_levels
from tinytorch.perf.machine.memory_ladder import (
    CLEAR_OF_CACHE,
    LARGEST,
    MOST,
    STREAMS,
    Curve,
    Point,
    ladder_end,
    latency_curve,
    make_arenas,
    stream_curves,
    stream_probes,
    working_sets,
)
from tinytorch.perf.machine.probing import Probe, interleaved_rates
from tinytorch.perf.measuring.codec import SIGNED
from tinytorch.perf.measuring.measurement import FlopsPerSecond, Hertz, OpsPerSecond, Seconds

#: Told what is measured now, and how far the whole is, from 0 to 1.
StageProgress = Callable[[str, float], None]
#: A ladder takes at most this part of free memory.
_PART_OF_FREE_MEMORY = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The measuring of ceilings.

    Attributes:
        when: in UTC, ISO 8601.
        seconds: that it took.
        load_before: load average over the minute before; None where the system keeps none.
        huge_page_policy: the system's, in its word; None where it has none.
        huge_page_bytes: bytes of the probes' memory that were on huge pages; None where the system does not say.
        bytes_of_memory: bytes of that memory.
        note: why kept ceilings could not be used; None if there were none.
    """

    when: str
    seconds: float
    load_before: float | None
    huge_page_policy: str | None
    huge_page_bytes: int | None
    bytes_of_memory: int
    note: str | None = None


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


def measured_ceilings(threads: int, on_progress: StageProgress, one: Ceilings | None = None) -> Ceilings:
    """Return the ceilings for ``threads`` threads, measured now.

    Args:
        threads: of every probe and of BLAS.
        on_progress: told the stage and how far it is.
        one: ceilings of one thread from which to take what calls and recording cost, for which threads do not matter.

    Raises:
        ValueError: if ``threads`` is below 1 or above the number of cores that this process may use.
    """
    start, load = time.perf_counter(), os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    with Team(threads) as team:
        on_progress("compiling probes", 0.0)
        reported = reported_capacities(caches(), team.cores)
        lanes, int8 = peaks.fastest_lanes(team), available_dots()[0]
        possible = working_sets(threads, _largest(reported), reported.values())
        end = ladder_end(team, lanes, possible, max(reported.values(), default=0))
        sizes = [size for size in possible if size <= end]
        arenas = make_arenas(team, sizes)
        probes = _probes(team, arenas, sizes, lanes, int8)
        reached = interleaved_rates(
            team, probes, lambda part: on_progress("arithmetic and bandwidth", 0.1 + 0.5 * part)
        )
        curves: dict[Curve, tuple[Point, ...]] = stream_curves(
            {(key[1], key[2]): one for key, one in reached.items() if key[0] == "stream"}
        )
        huge, bytes_of_memory = [arena.huge_bytes() for arena in arenas], sum(arena.memory.size for arena in arenas)
        curves["latency"] = latency_curve(team, arenas, sizes, lambda part: on_progress("latency", 0.6 + 0.25 * part))
        del arenas, probes  # hundreds of MiB, which the product and the calls need not have beside their own
        fault = peaks.page_fault(team)
    on_progress("matrix product", 0.86)
    sgemm = peaks.sgemm(threads)
    on_progress("calls", 0.9)
    calls, recorder = (one.calls, one.recorder) if one else (measured_call_costs(), profiler_overhead())
    sweep = tuple((2 * count, reached["multiply-add", count]) for count in MULTIPLY_ADDS)
    compiled = max((one for _, one in sweep), key=lambda one: one.median)
    on_progress("done", 1.0)
    return Ceilings(
        threads=threads,
        fp32_peak=compiled if compiled.median >= sgemm.median else sgemm,
        fp32_from="compiled multiply-add" if compiled.median >= sgemm.median else "sgemm",
        multiply_add=sweep,
        sgemm=sgemm,
        int8_peak=reached["int8",],
        int8_from=int8.name,
        levels=find_levels(curves, reported),
        curves=curves,
        clock=reached["clock",],
        page_fault=fault,
        calls=calls,
        recorder=recorder,
        evidence=_evidence(lanes, int8),
        taken=Taken(
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=time.perf_counter() - start,
            load_before=load,
            huge_page_policy=huge_page_policy(),
            huge_page_bytes=None if None in huge else sum(size or 0 for size in huge),
            bytes_of_memory=bytes_of_memory,
        ),
    )


def _largest(reported: Mapping[int, int]) -> int:
    """Return the largest working set: clear of the last cache that is reported, as far as free memory allows.

    Beyond `MOST` it is half as large again as that cache: a stream that comes round finds little in it even then, and a
    page must not hold a GiB for it.
    """
    last = max(reported.values(), default=0)
    wanted = max(LARGEST, min(CLEAR_OF_CACHE * last, max(MOST, last + last // 2)))
    return min(wanted, free_memory() // _PART_OF_FREE_MEMORY)


def _probes(team: Team, arenas: list[Arena], sizes: list[int], lanes: int, int8: Dot) -> dict[tuple[Any, ...], Probe]:
    probes: dict[tuple[Any, ...], Probe] = {
        ("multiply-add", count): peaks.multiply_add_probe(team, lanes, count) for count in MULTIPLY_ADDS
    }
    probes |= {("stream", *key): probe for key, probe in stream_probes(team, arenas, lanes, sizes).items()}
    probes["clock",] = peaks.clock_probe(team)
    probes["int8",] = peaks.int8_probe(team, int8)
    return probes


def _evidence(lanes: int, int8: Dot) -> dict[str, dict[str, int]]:
    kernels: dict[str, Any] = {stream: getattr(probes, stream)(lanes) for stream in STREAMS}
    kernels["multiply-add"] = probes.multiply_add(lanes, max(MULTIPLY_ADDS))
    kernels["int8"] = probes.int8_dots(int8)
    return {name: evidence(kernel) for name, kernel in kernels.items()}
