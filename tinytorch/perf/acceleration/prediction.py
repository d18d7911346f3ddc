"""Predictions: where the time of a call goes, and what a change should bring by Amdahl's law, before it is measured.

Whoever calls is in the context that the call belongs in, such as `accelerated` and `no_grad`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinytorch.perf.acceleration.greedy_search import ops_of, replayed
from tinytorch.perf.events.stream import Event, recording
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.call_costs import least_call_seconds
from tinytorch.perf.measuring import Measurement, Modelled, interleave, sample
from tinytorch.perf.measuring.conditions import of_all
from tinytorch.perf.profiling.breakdown import amdahl_of_parts
from tinytorch.perf.profiling.shares import share
from tinytorch.perf.roofline.bounds import roof_seconds
from tinytorch.perf.roofline.placement import Placed, place

#: What the whole is called beside its ops.
_WHOLE = "the whole call"


@dataclass(frozen=True)
class Counts:
    """The ops of a call, counted on a run that was not timed, and the least seconds of calling them and of their work.

    A call is held against the ceiling of calls, the work of each op against its roof.
    """

    events: Sequence[Event]
    call_seconds: float
    roof_seconds: float

    @property
    def ops(self) -> int:
        """How many ops."""
        return len(self.events)


@dataclass(frozen=True)
class Profile:
    """Where the time of a call goes.

    Attributes:
        seconds: of the call.
        by_op: seconds in each op, run again by itself on the call's operands. A recorder would tell too, but its own
            work between the ops takes the caches from them, which a short call feels.
        placed: where the call stands under the roofline, and what bounds it.
        counted: what it asked for.
    """

    seconds: Measurement
    by_op: Mapping[str, Measurement]
    placed: Placed
    counted: Counts

    @property
    def parts(self) -> tuple[float, float, float]:
        """Seconds between ops, of calling them at their least cost, and of their work: together the whole.

        Ops alone may take a little longer than the whole where they find colder caches; here they do not.
        """
        whole = self.seconds.median
        in_ops = min(sum(one.median for one in self.by_op.values()), whole)
        calls = min(self.counted.call_seconds, in_ops)
        return whole - in_ops, calls, in_ops - calls

    @cached_property
    def shares(self) -> dict[str, Measurement]:
        """Shares of the time, 0 to 1, a sample for each turn: "between", "calls", "work", and "rest", all but the work.

        They are parts of the whole, so that no interval reaches beyond 0 and 1.
        """
        whole = np.array(self.seconds.samples)
        in_ops = np.minimum(sum(np.array(one.samples) for one in self.by_op.values()), whole)
        calls = np.minimum(self.counted.call_seconds, in_ops)
        parts = {"between": whole - in_ops, "calls": calls, "work": in_ops - calls, "rest": whole - in_ops + calls}
        conditions = of_all(one.conditions for one in (self.seconds, *self.by_op.values()))
        of, block = "the time of the call", self.seconds.conditions.block
        return {
            part: share(f"share of the time: {part}", each.tolist(), whole.tolist(), conditions, of, block)
            for part, each in parts.items()
        }


def counted(call: Callable[[], Any], machine: Ceilings) -> Counts:
    """Return what a call asks for, from one run that is recorded and not timed."""
    with recording(timed=False) as recorded:
        call()
    events = tuple(recorded.profile.events)
    least = least_call_seconds(events, machine.calls.kernel).median
    return Counts(events, least, roof_seconds(events, machine).median)


def profiled(call: Callable[[], Any], machine: Ceilings, name: str) -> Profile:
    """Return where the time of a call goes: the whole and each of its ops by itself, timed in turns."""
    demand = counted(call, machine)
    parts = {op.name: replayed(op.selected, each) for op, each in ops_of(call).items()}
    times = interleave({_WHOLE: call, **parts}, repeats=12, at_most_seconds=0.8, warmup_seconds=0.05)
    seconds = times.pop(_WHOLE)
    return Profile(seconds, times, place(name, demand.events, seconds, machine), demand)


def ops_alone(call: Callable[[], Any]) -> float:
    """Return the seconds that the ops of a call take by themselves, one after the other on the call's operands.

    It is the least of several runs: two programs are not timed in turns here, and a neighbour would favour one.
    """
    parts = [replayed(op.selected, each) for op, each in ops_of(call).items()]  # which runs the call, so it is warm
    return sample(lambda: [part() for part in parts], "ops alone", warmup=0, runs=3).minimum


def forecast(profile: Profile, before: float, after: float, demand: Counts, step: str) -> tuple[Modelled, Modelled]:
    """Return what a step should bring by Amdahl's law, and what the roof would allow, from the profile before it.

    By the law, what passes between ops grows with their number, and the ops take as long as by themselves. The roof
    asks no code how fast it is: calls, arithmetic and bytes keep the shares that they had of their least time.

    Args:
        profile: of the call before the step.
        before, after: seconds of `ops_alone`, before the step and after it.
        demand: of the call after it.
        step: its name.
    """
    between, calls, work = profile.parts
    had, ops = profile.counted, demand.ops / profile.counted.ops
    at_roof = (ops, demand.call_seconds / had.call_seconds, demand.roof_seconds / had.roof_seconds)
    by_law = amdahl_of_parts((between, calls + work), (ops, after / before))
    by_roof = amdahl_of_parts((between, calls, work), at_roof)
    return (
        Modelled(by_law, "", f"prediction for {step}", "Amdahl's law"),
        Modelled(by_roof, "", f"gain that the roof would allow, {step}", "the roofline"),
    )
