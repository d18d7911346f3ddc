"""Predictions: where the time of a call goes, and what a step should bring by Amdahl's law, before it is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.chapters.capstone.configuration import Ready
from tinytorch.chapters.capstone.workload import Workload
from tinytorch.core.op import Implementation, Op
from tinytorch.perf.acceleration.climbing import ops_of
from tinytorch.perf.events.stream import Event, recording
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.call_costs import least_call_seconds
from tinytorch.perf.measuring import Measurement, Statistic, interleave, sample
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import of_all
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.profiling.breakdown import amdahl_of_parts
from tinytorch.perf.roofline.bounds import roof_seconds
from tinytorch.perf.roofline.placement import Placed, place

#: What the whole is called beside its ops.
_WHOLE = "the whole call"
#: Operands and parameters of each op's calls.
_Calls = Mapping[Op, Sequence[tuple[tuple[Any, ...], dict[str, Any]]]]


@dataclass(frozen=True)
class Counts:
    """Demand of a call, counted on a run that was not timed.

    Attributes:
        ops: operations called through the seam.
        flops: of contractions.
        call_seconds: what calling these ops costs at least, by the ceiling of calls.
        roof_seconds: what their arithmetic or bytes take at least, by the roof of each op.
        events: the ops themselves.
    """

    ops: int
    flops: int
    call_seconds: float
    roof_seconds: float
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Profile:
    """Shares of the time of a call, in seconds.

    Attributes:
        seconds: of the call.
        by_op: seconds in each op, run again by itself on the call's operands, the longest first. A recorder would tell
            too, but its own work between the ops takes the caches from them, which a short call feels.
        placed: where the call stands under the roofline, and what bounds it.
        counted: what it asked for.
    """

    seconds: Measurement
    by_op: Mapping[str, Measurement]
    placed: Placed
    counted: Counts

    @property
    def whole(self) -> float:
        """Seconds of the call."""
        return self.seconds.median

    @property
    def in_ops(self) -> float:
        """Seconds in ops; no more than the whole, which it can be by a little where ops alone find colder caches."""
        return min(sum(one.median for one in self.by_op.values()), self.whole)

    @property
    def between(self) -> float:
        """Seconds outside of ops: Python, the framework, the loop that generates."""
        return self.whole - self.in_ops

    @property
    def calls(self) -> float:
        """Of the seconds in ops, what calling them takes at least, by the ceiling of calls."""
        return min(self.counted.call_seconds, self.in_ops)

    @property
    def work(self) -> float:
        """Of the seconds in ops, the rest: arithmetic and bytes."""
        return self.in_ops - self.calls

    def shares(self) -> dict[str, Statistic]:
        """Return the shares of the time, 0 to 1, that are `between`, `calls`, `work` and "rest", all but the work.

        There is a sample for each turn. No interval reaches beyond 0 and 1, as no share can: what repeats differ by,
        a relative difference of times, would take it there.
        """
        whole = np.array(self.seconds.samples)
        in_ops = np.minimum(sum(np.array(one.samples) for one in self.by_op.values()), whole)
        calls = np.minimum(self.counted.call_seconds, in_ops)
        work = in_ops - calls
        parts = {"between": whole - in_ops, "calls": calls, "work": work, "rest": whole - work}
        timed = (self.seconds, *self.by_op.values())
        conditions = of_all(one.conditions for one in timed)
        block = self.seconds.conditions.block
        return {
            part: _within_all(
                with_between_run_spread(
                    Measurement(f"share of the time: {part}", tuple((seconds / whole).tolist()), "%", conditions), block
                )
            )
            for part, seconds in parts.items()
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of a step by a model; above 1 is faster.

    Attributes:
        ops: operations that are called, after over before: as many times as long is the time between them.
        alone: how many times as fast all ops are, run by themselves.
        speedup: of the whole, by Amdahl's law from the two.
        roof: what the roof would allow: the same law, with arithmetic and bytes as fast in their share of the roof as
            they were, and calls at their least cost. It asks no code how fast it is.
    """

    ops: float
    alone: float
    speedup: float
    roof: float


def counted(workload: Workload, made: Ready, machine: Ceilings) -> Counts:
    """Return what a call asks for, from one run that is recorded and not timed."""
    call = workload.call(made)
    with made.running():
        with recording(timed=False) as recorded:
            call()
        events = tuple(recorded.profile.events)
        least = least_call_seconds(events, machine.calls.kernel).median
    flops = sum(event.flops or 0 for event in events)
    return Counts(len(events), flops, least, roof_seconds(events, machine).median, events)


def profiled(workload: Workload, made: Ready, machine: Ceilings, name: str) -> Profile:
    """Return where the time of a call goes: the whole and each of its ops by itself, timed in turns."""
    call, demand = workload.call(made), counted(workload, made, machine)
    with made.running():
        calls = ops_of(call)
        parts = {op.name: _replayed({op: each}) for op, each in calls.items()}
        times = interleave({_WHOLE: call, **parts}, repeats=12, at_most_seconds=0.8, warmup_seconds=0.05)
    seconds = times.pop(_WHOLE)
    by_op = dict(sorted(times.items(), key=lambda item: -item[1].median))
    return Profile(seconds, by_op, place(name, demand.events, seconds, machine), demand)


def ops_alone(workload: Workload, made: Ready) -> float:
    """Return the seconds that the ops of a call take by themselves, one after the other on the call's operands.

    It is the least of several runs: two configurations are not timed in turns here, and a neighbour would favour one.
    """
    with made.running():
        replayed = _replayed(ops_of(workload.call(made)))  # which runs the call, so that it is warm
        return sample(replayed, "ops alone", warmup=0, runs=3).minimum


def forecast(profile: Profile, before: float, after: float, demand: Counts) -> Forecast:
    """Return what a step should bring, from the profile before it.

    Args:
        profile: of the configuration before.
        before, after: seconds that the ops take by themselves, before the step and after it.
        demand: counted on the configuration after.
    """
    ops = demand.ops / profile.counted.ops
    alone = before / after
    calls = demand.call_seconds / profile.counted.call_seconds
    work = demand.roof_seconds / profile.counted.roof_seconds
    return Forecast(
        ops,
        alone,
        amdahl_of_parts((profile.between, profile.in_ops), (ops, 1 / alone)),
        amdahl_of_parts((profile.between, profile.calls, profile.work), (ops, calls, work)),
    )


def _within_all(share: Measurement) -> Statistic:
    found = share.interval
    return Statistic(
        share.name,
        share.samples,
        share.unit,
        share.conditions.within_bounds("median"),
        value=share.median,
        bounds=Interval(max(found.low, 0.0), min(found.high, 1.0), found.confidence),
    )


def _replayed(calls: _Calls) -> Callable[[], None]:
    """Return a run of all ``calls`` on the implementations that are selected now."""
    chosen: dict[Op, Implementation] = {op: op.selected for op in calls}

    def run() -> None:
        for op, each in calls.items():
            for arrays, params in each:
                chosen[op].forward(False, *arrays, **params)

    return run
