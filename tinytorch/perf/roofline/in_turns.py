"""Ceilings that are sampled in turns with the calls that they bound.

The kept ceilings are of another moment, and what a shared machine does at most differs by a fifth from one moment to
the next. So short runs of the probes that they come from take turns with the calls: the share of a roof is then a ratio
of neighbours in time. Which ceilings bind is told by the kept ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinytorch.perf.events.stream import Event, Profile, recording
from tinytorch.perf.host.pinned_threads import Team
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.levels import STREAMS
from tinytorch.perf.machine.probing import Probe, calibrated_rounds
from tinytorch.perf.measuring import Measurement, collector_off, current_blas_threads, interleave
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import ComputeProbe, Conditions, MemoryProbe, new_turns
from tinytorch.perf.measuring.sampling import Functions
from tinytorch.perf.roofline.bounds import CeilingsInTurns, Slope, slope_at

#: A sample of a probe lasts about this long, in seconds.
_SAMPLE_SECONDS = 0.5e-3
_FP32, _INT8 = "FP32 peak", "INT8 peak"


def interleave_with_ceilings(
    functions: Functions,
    ceilings: Ceilings,
    sizes: Collection[int] = (),
    *,
    integers: bool = False,
    repeats: int = 30,
    at_most_seconds: float = 5.0,
) -> tuple[dict[str, Measurement], Ceilings]:
    """Return the times of functions, and the ceilings over them, interleaved with these.

    Ceilings of several threads, or of a matrix product as the peak, have no probe that is as short as a call: they are
    returned as they are.

    Args:
        functions, repeats, at_most_seconds: those of `measuring.interleave`.
        ceilings: of one thread.
        sizes: the bytes that each op of the functions works on.
        integers: whether one of them multiplies 8-bit integers.

    Examples:
        >>> from tinytorch.perf.machine import ceilings
        >>> from tinytorch.perf.measuring import blas_threads
        >>> from tinytorch.perf.roofline import interleave_with_ceilings
        >>> with blas_threads(1):
        ...     times, here = interleave_with_ceilings({"a sum": lambda: sum(range(999))}, ceilings(), repeats=6)
        >>> (times["a sum"].per(999, "FLOP/s") / here.fp32_peak).n  # shares of the peak, of neighbours
        6
    """
    slopes = {size: slope_at(size, ceilings) for size in sizes}
    probes = _probes(ceilings, slopes.values(), integers)

    def with_probes() -> dict[str, Callable[..., Any]]:
        return {**(functions() if callable(functions) else functions), **probes}

    times = interleave(with_probes, repeats=repeats, at_most_seconds=at_most_seconds, settle=True)
    rates = {name: probe.rate(times.pop(name)) for name, probe in probes.items()}
    return times, _in_turns(ceilings, slopes, rates)


def record_with_ceilings(
    run: Callable[[], Any], ceilings: Ceilings, repeats: int = 15
) -> tuple[list[Profile], Ceilings]:
    """Return ``repeats`` recordings of a run, and the ceilings over its ops, interleaved with these.

    Each recording comes after one run that is not recorded.

    Raises:
        ValueError: if ``repeats`` is below 1.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.machine import ceilings
        >>> from tinytorch.perf.measuring import blas_threads
        >>> from tinytorch.perf.roofline import place_ops, record_with_ceilings
        >>> layer, x = Linear(64, 8), Tensor([[1.0] * 64])
        >>> with blas_threads(1):
        ...     recorded = record_with_ceilings(lambda: layer(x), ceilings(), repeats=6)
        >>> list(place_ops(*recorded))
        [('linear', 'forward', 'numpy')]
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    events = _recorded(run).events
    slopes = {size: slope_at(size, ceilings) for size in working_sets(events)}
    probes = _probes(ceilings, slopes.values(), multiplies_integers(events))
    profiles: list[Profile] = []
    seconds: dict[str, list[float]] = {name: [] for name in probes}
    with collector_off():
        for _ in range(repeats):
            for name, probe in probes.items():
                probe()  # so that the caches hold what it needs
                seconds[name].append(probe())
            run()
            profiles.append(_recorded(run))
    conditions = Conditions(collector_off=True, blas_threads=current_blas_threads() or "unknown", turns=new_turns())
    rates = {
        name: probe.rate(with_between_run_spread(Measurement(name, tuple(seconds[name]), "s", conditions)))
        for name, probe in probes.items()
    }
    return profiles, _in_turns(ceilings, slopes, rates)


def working_sets(events: Iterable[Event]) -> set[int]:
    """Return the bytes that each op works on, without those that only make views."""
    return {event.traffic for event in events if event.traffic}


def multiplies_integers(events: Iterable[Event]) -> bool:
    """Return whether one of the ops multiplies 8-bit integers."""
    return any(event.work is not None and event.work.integer_macs for event in events)


def _recorded(run: Callable[[], Any]) -> Profile:
    with recording() as recorded:
        run()
    return recorded.profile


class _CallingThread(Team):
    """The thread that calls as a team of one, so that probes run where the calls do."""

    def __init__(self) -> None:
        self.threads = 1

    def run(self, tasks: Sequence[Callable[[], Any]]) -> float:
        """Run the one task and return its seconds."""
        (task,) = tasks
        start = time.perf_counter_ns()
        task()
        return (time.perf_counter_ns() - start) * 1e-9


@dataclass(frozen=True)
class _Paced:
    """A probe, and how many rounds of it make a sample."""

    probe: Probe
    rounds: int

    def __call__(self) -> float:
        return self.probe.run(self.rounds)

    def rate(self, seconds: Measurement) -> Measurement:
        """Return what it does in a second, of the seconds of each sample."""
        rate = seconds.per(self.rounds * self.probe.amount, self.probe.unit, self.probe.name)
        return replace(rate, conditions=replace(rate.conditions, instrument=self.probe.instrument))


def _probes(ceilings: Ceilings, slopes: Iterable[Slope], integers: bool) -> dict[str, _Paced]:
    """Return the probes of the peaks and of slopes, by name; none where there is none of the peak."""
    flops, loop = max(ceilings.multiply_add, key=lambda one: one[1].median)
    instrument, bandwidths = loop.conditions.instrument, [slope.bandwidth for slope in slopes]
    if ceilings.threads > 1 or not ceilings.peak_in_turns or not isinstance(instrument, ComputeProbe):
        return {}
    from tinytorch.perf.kernels.int8.instructions import DOTS  # and the compiler, which takes seconds
    from tinytorch.perf.machine.bandwidth_sweep import make_arenas, stream_probes
    from tinytorch.perf.machine.peaks import int8_probe, multiply_add_probe

    team, lanes = _CallingThread(), instrument.vector_bits // 32
    found = {_FP32: multiply_add_probe(team, lanes, flops // 2)}
    if integers:
        found[_INT8] = int8_probe(team, next(dot for dot in DOTS if dot.name == ceilings.int8_from))
    needed = {_name(one): size for one in bandwidths if (size := _size(one))}
    if needed:
        streams = stream_probes(team, make_arenas(team, [*needed.values()]), lanes, sorted({*needed.values()}))
        named = {f"{curve} bandwidth, {size} B": streams[curve, size] for curve in STREAMS for size in needed.values()}
        found |= {name: named[name] for name in needed}
    return {name: _Paced(probe, calibrated_rounds(probe.run, _SAMPLE_SECONDS)) for name, probe in found.items()}


def _size(bandwidth: Measurement) -> int | None:
    """Return the bytes that a bandwidth was measured on; None where it was not measured by a loop over memory."""
    instrument = bandwidth.conditions.instrument
    return instrument.working_set_bytes if isinstance(instrument, MemoryProbe) else None


def _name(bandwidth: Measurement) -> str:
    return f"{bandwidth.name}, {_size(bandwidth)} B"


def _in_turns(ceilings: Ceilings, slopes: Mapping[int, Slope], rates: Mapping[str, Measurement]) -> Ceilings:
    """Return the ceilings with the rates that were sampled in turns; as they are where there are none."""
    if not rates:
        return ceilings
    own = {
        size: replace(slope, bandwidth=rates.get(_name(slope.bandwidth), slope.bandwidth))
        for size, slope in slopes.items()
    }
    peaks = {"fp32_peak": rates[_FP32], "int8_peak": rates.get(_INT8, ceilings.int8_peak)}
    return CeilingsInTurns(**{**vars(ceilings), **peaks, "slopes": own})
