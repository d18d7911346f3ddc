"""The run of all probes that gives the ceilings of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

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
from tinytorch.perf.machine.bandwidth_sweep import (
    LARGEST,
    MOST,
    ladder_end,
    latency_curve,
    make_arenas,
    stream_curves,
    stream_probes,
    working_sets,
)
from tinytorch.perf.machine.call_costs import measured_call_costs
from tinytorch.perf.machine.levels import CLEAR_OF_CACHE, STREAMS, Ceilings, Curve, Point, Taken, find_levels
from tinytorch.perf.machine.probing import Probe, interleaved_rates, repeats_of

#: A ladder takes at most this part of free memory.
_PART_OF_FREE_MEMORY = 4


def measured_ceilings(threads: int, on_progress: Callable[[str, float], None], one: Ceilings | None = None) -> Ceilings:
    """Return the ceilings for ``threads`` threads, measured now.

    Args:
        threads: of every probe and of BLAS.
        on_progress: told the stage and how far it is.
        one: ceilings of one thread from which to take what calls and recording cost, for which threads do not matter.

    Raises:
        ValueError: if ``threads`` is below 1 or above the number of cores that this process may use.
    """
    start = time.perf_counter()
    with Team(threads) as team:
        on_progress("compiling probes", 0.0)
        reported = reported_capacities(caches(), team.cores)
        lanes, int8 = peaks.fastest_lanes(team), available_dots()[0]
        possible = working_sets(threads, _largest(reported), reported.values())
        end = ladder_end(team, lanes, possible, max(reported.values(), default=0))
        sizes = [size for size in possible if size <= end]
        arenas = make_arenas(team, sizes)
        probes = _probes(team, arenas, sizes, lanes, int8)
        repeats = repeats_of(team)
        reached = interleaved_rates(
            team, probes, lambda part: on_progress("arithmetic and bandwidth", 0.1 + 0.5 * part), repeats
        )
        curves: dict[Curve, tuple[Point, ...]] = stream_curves(
            {(key[1], key[2]): one for key, one in reached.items() if key[0] == "stream"}
        )
        huge = [arena.huge_bytes() for arena in arenas]
        curves["latency"] = latency_curve(
            team, arenas, sizes, lambda part: on_progress("latency", 0.6 + 0.25 * part), repeats
        )
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
            huge_page_policy=huge_page_policy(),
            huge_page_bytes=None if None in huge else sum(size or 0 for size in huge),
        ),
    )


def _largest(reported: Mapping[int, int]) -> int:
    """Return the largest working set: clear of the last cache that is reported, as far as free memory allows.

    It is `MOST` at the most. A cache of nearly that size, or a larger one, hides memory; but of one that is reported to
    be so large a virtual machine mostly gets a part.
    """
    wanted = max(LARGEST, min(CLEAR_OF_CACHE * max(reported.values(), default=0), MOST))
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
