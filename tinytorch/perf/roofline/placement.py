"""The roofline: an op, a layer or a whole model between the roofs that this machine was measured to have.

What `place`, `place_call` and `place_calls` time with the timer is the whole of a call, Python and the seam included.
What `place_ops` and `place_layers` take from recorded runs is the ops' own time; each recording gives one sample.
How arithmetic, bytes and the roof are counted is said in `bounds`.

Source: S. Williams, A. Waterman and D. Patterson, Roofline, Communications of the ACM 52(4), 2009; with a roof for
each level of the hierarchy after A. Ilic, F. Pratas and L. Sousa, Cache-aware Roofline model, IEEE Computer
Architecture Letters 13(1), 2014.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tinytorch.core.dispatch import no_grad
from tinytorch.perf.events.stream import Event, OpKey, Profile, layer_groups, op_groups, recording
from tinytorch.perf.events.trace import same_ops
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.call_costs import Costs, least_call_seconds
from tinytorch.perf.machine.levels import Level
from tinytorch.perf.machine.time_bound import in_a_row
from tinytorch.perf.measuring import Counted, Measurement, Modelled, of_rounds, quotient
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Judgement
from tinytorch.perf.roofline.bounds import (
    Bottleneck,
    BoundVerdict,
    CeilingsInTurns,
    Demand,
    Slope,
    best_bandwidth,
    demand_of,
    roof_seconds,
    share_of,
    slope_of,
    verdict,
)
from tinytorch.perf.roofline.in_turns import interleave_with_ceilings, multiplies_integers, working_sets

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Placed:
    """Ops with their place on a roofline.

    Attributes:
        name: what ran.
        demand: arithmetic, bytes and calls.
        seconds: how long it took.
        roof: how long it would take at the roof: for each op its operations over the peak or its bytes over the
            bandwidth of the level that holds them, whichever is longer, added up over the ops.
        slope: the bandwidth, and of which levels, at which its bytes travel at the roof.
        verdict: what bounds it.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.machine import ceilings
        >>> from tinytorch.perf.measuring import blas_threads
        >>> from tinytorch.perf.roofline import place_call
        >>> x = Tensor(np.ones((64, 64), np.float32))
        >>> with blas_threads(1):
        ...     found = place_call("a layer", Linear(64, 64, bias=False), ceilings(), operands=[x], repeats=6)
        >>> found.intensity.value == 2 * 64**3 / (3 * 64 * 64 * 4)  # three matrices of four bytes a number
        True
    """

    name: str
    demand: Demand
    seconds: Measurement
    roof: Measurement
    slope: Slope
    verdict: BoundVerdict

    @property
    def bound(self) -> Judgement:
        """What bounds it, with its tests."""
        return self.verdict.said

    @property
    def arithmetic(self) -> Counted:
        """Operations that it asks for."""
        return Counted(self.demand.operations, "FLOP", f"operations of {self.name}")

    @property
    def traffic(self) -> Counted:
        """Compulsory bytes that it asks for."""
        return Counted(self.demand.bytes, "B", f"compulsory bytes of {self.name}")

    @property
    def intensity(self) -> Counted:
        """Operations per compulsory byte."""
        return Counted(self.demand.intensity, "FLOP/B", f"intensity of {self.name}")

    @property
    def least(self) -> Modelled:
        """The time at the roof."""
        return Modelled.by("the roofline", self.roof)

    @property
    def computing(self) -> Modelled:
        """The time of its arithmetic alone, at the peak."""
        return Modelled.by("the roofline", self.verdict.compute.seconds)

    @property
    def moving(self) -> Modelled:
        """The time of its bytes alone, at the bandwidth of their levels."""
        return Modelled.by("the roofline", self.verdict.memory.seconds)

    @property
    def calling(self) -> Modelled:
        """The time of its calls alone, at their least cost."""
        return Modelled.by("the least cost of each call", self.verdict.overhead.seconds)

    @property
    def apart(self) -> Modelled:
        """The time of its arithmetic and, after it, that of its bytes: without any overlap."""
        seconds = in_a_row(self.verdict.compute.seconds, self.verdict.memory.seconds)
        return Modelled.by("arithmetic, then bytes", seconds)

    @property
    def predicted(self) -> Modelled:
        """The time of its calls and, after them, that at the roof."""
        seconds = in_a_row(self.verdict.overhead.seconds, self.roof)
        return Modelled.by("the cost of each call, and the roofline", seconds, f"predicted time of {self.name}")

    @property
    def bandwidth(self) -> Measurement:
        """Compulsory bytes a second, in B/s."""
        return self.seconds.per(self.demand.bytes, "B/s", f"compulsory bytes a second of {self.name}")

    @property
    def attained(self) -> Measurement:
        """Operations per second, in FLOP/s."""
        return self.seconds.per(self.demand.operations, "FLOP/s", f"rate of {self.name}")

    @property
    def of_roof(self) -> Measurement:
        """Share of the roof that was reached: the time at the roof over the measured one, with both intervals."""
        return share_of(self.roof, self.seconds, f"share of the roof of {self.name}")


def ridge(ceilings: Ceilings, level: Level) -> Measurement:
    """Return the ridge point of ``level``, in FLOP per byte: above this intensity, the peak is the roof.

    Examples:
        >>> from tinytorch.perf.machine import ceilings
        >>> from tinytorch.perf.roofline import ridge
        >>> here = ceilings()
        >>> ridge(here, here.levels[-1]).median > ridge(here, here.levels[0]).median
        True
    """
    return ridge_of(ceilings, Slope(level.name, level.name, best_bandwidth(level)))


def ridge_of(ceilings: Ceilings, slope: Slope) -> Measurement:
    """Return the intensity, in FLOP a byte, at which the roof over a slope meets the peak.

    Both were sampled in turns, unless the peak is that of a matrix product, so what slowed both drops out.
    """
    name, peak = f"ridge point of {slope.of}", ceilings.fp32_peak
    if ceilings.peak_in_turns and peak.conditions.turns == slope.bandwidth.conditions.turns:
        return of_rounds(name, np.divide, peak, slope.bandwidth, unit="FLOP/B")
    return quotient(peak, slope.bandwidth, name, "FLOP/B")


class Intensity(NamedTuple):
    """An arithmetic intensity in FLOP a byte, and which side of a ridge it lies on: its bound."""

    intensity: float
    bound: Bottleneck


def arithmetic_intensity(flops: float, bytes_moved: float, ridge_point: float) -> Intensity:
    """Return FLOPs per byte, and the limit by the roofline alone: memory below the ridge point, else compute.

    `ridge` has this machine's measured ridge points; `place_call` says what bounds a call that ran, overhead included.

    Args:
        flops: floating-point operations, 2 for each multiply-accumulate.
        bytes_moved: bytes that travel between memory and the processor.
        ridge_point: intensity from which on the peak is the roof, in FLOP a byte.

    Raises:
        ValueError: if ``flops`` is below 0, or ``bytes_moved`` or ``ridge_point`` not a number above 0.

    Examples:
        >>> from tinytorch.perf.roofline import arithmetic_intensity
        >>> n = 1024  # numbers of four bytes: a product of matrices, and a sum of two
        >>> found = arithmetic_intensity(2 * n**3, 3 * n * n * 4, ridge_point=10)
        >>> round(found.intensity, 1), str(found.bound)
        (170.7, 'compute')
        >>> intensity, bound = arithmetic_intensity(n * n, 3 * n * n * 4, ridge_point=10)
        >>> round(intensity, 3), str(bound)
        (0.083, 'memory')
    """
    if not 0 <= flops < math.inf:
        raise ValueError(f"flops must be a number of at least 0, not {flops}")
    for name, value in (("bytes_moved", bytes_moved), ("ridge_point", ridge_point)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be a number above 0, not {value}")
    intensity = flops / bytes_moved
    return Intensity(intensity, Bottleneck.MEMORY if intensity < ridge_point else Bottleneck.COMPUTE)


def place(name: str, events: Sequence[Event], seconds: Measurement, ceilings: Ceilings) -> Placed:
    """Return where a run stands that made ``events`` and took ``seconds`` by the timer.

    Args:
        name: what ran.
        events: of one recorded run; that recording's times are not used.
        seconds: of the same run without a recorder; its conditions say on how many BLAS threads.
        ceilings: for as many threads.

    Raises:
        UncountedError: if an op declares no work formula.
        ValueError: if there are no events, none moves a byte, or the threads of time and ceilings differ.
    """
    checked_conditions(seconds, ceilings, f"the time of {name}")
    return _placed(name, events, seconds, ceilings, ceilings.calls.op)


def place_call(
    name: str,
    function: Callable[..., Any],
    ceilings: Ceilings,
    *,
    operands: Sequence[Any] = (),
    repeats: int = 30,
    at_most_seconds: float = 5.0,
) -> Placed:
    """Place a call of ``function`` without gradients on the roofline: time it, and record its ops once.

    The ceilings that bind it are interleaved with it, as `interleave_with_ceilings` does.

    Args:
        name: what it is, in words.
        function: what to place.
        ceilings: for as many threads.
        operands: what it is called with: tensors, arrays, modules; each block of samples has copies at other places.
        repeats, at_most_seconds: those of `measuring.interleave`; the seconds are for call and ceilings together.

    Raises:
        UncountedError: if an op declares no work formula.
        ValueError: if no op ran, none moves a byte, or the threads of ``ceilings`` are others.
        RuntimeError: inside the body of a Profiler, whose cost would be measured too.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.machine import ceilings
        >>> from tinytorch.perf.measuring import blas_threads
        >>> from tinytorch.perf.roofline import place_call
        >>> layer, x = Linear(64, 64), Tensor(np.ones((64, 64), np.float32))
        >>> with blas_threads(1):
        ...     found = place_call("a layer", layer, ceilings(), operands=[x], repeats=6)
        >>> found.demand.flops
        524288
    """
    calls = {name: (function, *operands)}
    return place_calls(calls, ceilings, repeats=repeats, at_most_seconds=at_most_seconds)[name]


def place_calls(
    calls: Mapping[str, Sequence[Any]], ceilings: Ceilings, *, repeats: int = 30, at_most_seconds: float = 5.0
) -> dict[str, Placed]:
    """Place several interleaved calls on the roofline, so that their times can be divided; see `place_call`.

    Args:
        calls: by name, a function and its operands; what several of them share they share in each block's copies, too.
        ceilings, repeats, at_most_seconds: as `place_call`; the seconds are for all calls together.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.machine import ceilings
        >>> from tinytorch.perf.measuring import blas_threads
        >>> from tinytorch.perf.roofline import place_calls
        >>> small, x = Linear(64, 8), Tensor([[1.0] * 64])
        >>> with blas_threads(1):
        ...     found = place_calls({"small": (small, x)}, ceilings(), repeats=6)
        >>> found["small"].seconds.n
        6
    """

    def made() -> dict[str, Callable[[], Any]]:
        copied = copy.deepcopy({name: list(operands) for name, (_, *operands) in calls.items()})
        return {name: partial(function, *copied[name]) for name, (function, *_) in calls.items()}

    events: dict[str, Sequence[Event]] = {}
    with no_grad():
        for name, (function, *operands) in calls.items():
            with recording(timed=False) as recorded:
                function(*operands)
            events[name] = recorded.profile.events
        every = [event for of_call in events.values() for event in of_call]
        seconds, here = interleave_with_ceilings(
            made,
            ceilings,
            working_sets(every),
            integers=multiplies_integers(every),
            repeats=repeats,
            at_most_seconds=at_most_seconds,
        )
    return {name: place(name, events[name], seconds[name], here) for name in calls}


def place_ops(runs: Profile | Sequence[Profile], ceilings: Ceilings) -> dict[OpKey, Placed]:
    """Place each op on the roofline, by (op, phase, implementation), in the order of their first calls.

    The time is that of all its calls in one recorded run; with several recordings of the same ops there are as
    many samples. Ceilings that were interleaved with these come from `in_turns.record_with_ceilings`. Ops without
    a work formula, those that only make views, and what took no time that the clock could see have no place and are
    left out.

    Raises:
        ValueError: if there is no run, the runs are not of the same ops, or the threads differ.

    Examples:
        >>> from tinytorch import Linear, Profiler, Tensor
        >>> from tinytorch.perf.machine import ceilings
        >>> from tinytorch.perf.measuring import blas_threads
        >>> from tinytorch.perf.roofline import place_ops
        >>> with blas_threads(1), Profiler() as p:
        ...     y = Linear(8, 4)(Tensor([[1.0] * 8]))
        >>> list(place_ops(p.run, ceilings()))
        [('linear', 'forward', 'numpy')]
    """
    recorded = _same_runs(runs, ceilings)
    groups = op_groups(recorded[0])
    names = {key: key[0] if key[1] == "forward" else f"{key[0]} {key[1]}" for key in groups}
    return _placed_groups(groups, names, recorded, ceilings, ceilings.calls.kernel)


def place_layers(runs: Profile | Sequence[Profile], ceilings: Ceilings) -> dict[str, Placed]:
    """Return where each module stands, by its path, with the ops of the modules in it; as `place_ops` otherwise."""
    recorded = _same_runs(runs, ceilings)
    groups = layer_groups(recorded[0])
    names = {path: path or "outside modules" for path in groups}
    return _placed_groups(groups, names, recorded, ceilings, ceilings.calls.kernel)


def place_groups(
    groups: Callable[[Event], str], runs: Profile | Sequence[Profile], ceilings: Ceilings
) -> dict[str, Placed]:
    """Return where the ops of each name that ``groups`` gives them stand together; as `place_ops` otherwise."""
    recorded = _same_runs(runs, ceilings)
    found: dict[str, list[int]] = {}
    for index, event in enumerate(recorded[0].events):
        found.setdefault(groups(event), []).append(index)
    return _placed_groups(found, {name: name for name in found}, recorded, ceilings, ceilings.calls.kernel)


def checked_conditions(seconds: Measurement, ceilings: Ceilings, what: str) -> None:
    """Raise ValueError unless ``seconds`` say on how many BLAS threads ``what`` ran, and `checked_threads` has it."""
    threads = seconds.conditions.blas_threads
    if threads is None:
        raise ValueError(f"{what} must have its blas_threads to be compared with ceilings for {ceilings.threads}")
    checked_threads(None if threads == "unknown" else threads, ceilings, what)


def checked_threads(threads: int | None, ceilings: Ceilings, what: str) -> None:
    """Raise ValueError if ``what`` ran on another number of ``threads`` than that of ``ceilings``.

    None, of a BLAS that does not say how many it uses, passes: the matrix product among the ceilings ran on it too.
    """
    if threads is not None and threads != ceilings.threads:
        raise ValueError(
            f"ceilings must be for the threads of what they bound: {what} ran with {threads}, they are for "
            f"{ceilings.threads}; use ceilings({threads})"
        )


def _same_runs(runs: Profile | Sequence[Profile], ceilings: Ceilings) -> Sequence[Profile]:
    recorded = [runs] if isinstance(runs, Profile) else list(runs)
    if not recorded:
        raise ValueError("runs must hold at least one recorded run")
    for run in recorded:
        checked_threads(run.blas_threads, ceilings, "a recorded run")
        if run is not recorded[0] and not same_ops(run.events, recorded[0].events):
            raise ValueError("runs must be recordings of the same ops on the same shapes, but one differs")
    return recorded


def _placed_groups(
    groups: Mapping[Key, Sequence[int]],
    names: Mapping[Key, str],
    runs: Sequence[Profile],
    ceilings: Ceilings,
    calls: Costs,
) -> dict[Key, Placed]:
    found: dict[Key, Placed] = {}
    for key, indices in groups.items():
        columns = runs[0].columns
        events = [columns.kinds[kind] for kind in columns.kind[indices].tolist()]
        if any(event.work is None for event in events) or not any(event.traffic for event in events):
            continue
        times = tuple(int(run.columns.self_ns[indices].sum()) * 1e-9 for run in runs)
        if not min(times) > 0:
            continue
        turns = ceilings.fp32_peak.conditions.turns if isinstance(ceilings, CeilingsInTurns) else None
        conditions = Conditions(
            blas_threads=runs[0].blas_threads or "unknown", note="Recorded with the times of all ops.", turns=turns
        )
        seconds = with_between_run_spread(Measurement(names[key], times, "s", conditions))
        found[key] = _placed(names[key], events, seconds, ceilings, calls)
    return found


def _placed(name: str, events: Sequence[Event], seconds: Measurement, ceilings: Ceilings, calls: Costs) -> Placed:
    demand = demand_of(events)
    if not demand.bytes:
        raise ValueError(f"{name} must move at least one byte to have a place, but its ops only make views")
    found = verdict(demand, seconds, ceilings, least_call_seconds(events, calls))
    return Placed(name, demand, seconds, roof_seconds(events, ceilings), slope_of(demand, ceilings), found)
