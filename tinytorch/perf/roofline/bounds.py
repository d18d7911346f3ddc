"""Bounds of a run: the time that each of the machine's measured ceilings alone would take, and the verdict.

Arithmetic is all of it: 2 FLOPs for each multiply-accumulate of a contraction, and one for each elementwise operation,
held against one rate, the FP32 peak; multiply-accumulates of 8-bit integers are held against the INT8 peak, where the
CPU has an instruction for them and so a peak that was measured. That flatters elementwise operations: without a fused
multiply-add at most half of the peak can be reached, and a transcendental function counts as one operation and takes
ten or more. So a prediction of compute time is a lower bound for them, and the share that it explains shows how far off
it is.

Bytes are compulsory ones: each operand read once, each result written once; an array that is two operands of one op
counts twice. Those of an op travel at the best bandwidth (of read, copy and triad) of the innermost level that holds
all of them; a set a little larger than a cache, of which the cache still serves a part, travels as fast as the ladder
ran there. What other ops pushed out of that level in the meantime is not looked at, so this is a lower bound, too.

Calling an op takes at least what the same op takes on one element; that is the third ceiling, see `call_costs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tinytorch.core.op import UncountedError
from tinytorch.perf.events.stream import Event
from tinytorch.perf.machine import Ceilings, Level
from tinytorch.perf.measuring import Measurement

#: A ceiling that explains less of the time than this bounds nothing: to remove all of it would bring a third at most.
LEAST_EXPLAINED = 0.25

Ceiling = Literal["compute", "memory", "overhead"]
Bottleneck = Literal["compute", "memory", "overhead", "unclear"]


def best_bandwidth(level: Level) -> Measurement:
    """Return the largest of a level's bandwidths, of read, copy and triad, in B/s: the slope of its roof."""
    return max((level.read, level.copy, level.triad), key=lambda measurement: measurement.median)


def bandwidth_at(working_set: int, ceilings: Ceilings) -> Measurement:
    """Return how fast bytes of an op travel that has ``working_set`` of them in all, in B/s.

    That is the best bandwidth of the level that holds them or, where it is faster, of the ladder's last step that is
    not larger: between two plateaus, and no set is faster than a smaller one.
    """
    found = best_bandwidth(ceilings.level_of(working_set))
    for stream in ("read", "copy", "triad"):
        steps = [step for step in ceilings.curves.get(stream, ()) if step.working_set <= working_set]
        if steps:
            last = max(steps, key=lambda step: step.working_set)
            found = max(found, last.reached, key=lambda measurement: measurement.median)
    return found


@dataclass(frozen=True, slots=True)
class Demand:
    """Demand of a run of ops on the machine.

    Attributes:
        flops: of contractions, 2 for each multiply-accumulate.
        elementwise: every other arithmetic operation, one for each operation and element.
        bytes: compulsory traffic, added up over the ops.
        calls: ops that ran.
        working_set: compulsory bytes of the op that has most of them.
        level: name of the level that holds the working set.
        sets: compulsory bytes of one op, and how many ops had as many, from few bytes to many.
        integer: those of ``flops`` that are on 8-bit integers.
    """

    flops: int
    elementwise: int
    bytes: int
    calls: int
    working_set: int
    level: str
    sets: tuple[tuple[int, int], ...]
    integer: int = 0

    @property
    def operations(self) -> int:
        """FLOPs of contractions and elementwise operations together."""
        return self.flops + self.elementwise

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: operations for each compulsory byte.

        Raises:
            ValueError: if no byte moves.
        """
        if not self.bytes:
            raise ValueError("intensity needs bytes that move, but these ops only make views")
        return self.operations / self.bytes


def demand_of(events: Sequence[Event], ceilings: Ceilings) -> Demand:
    """Return what ``events`` ask of the machine; ``ceilings`` say which level holds what.

    Raises:
        UncountedError: if one is of an op without a work formula.
        ValueError: if there are none.
    """
    if not events:
        raise ValueError("events must hold at least one op, but no op ran")
    uncounted = sorted({event.op for event in events if event.work is None})
    if uncounted:
        raise UncountedError(f"ops without a work formula cannot be held against a roof: {', '.join(uncounted)}")
    largest = max(event.traffic for event in events)
    return Demand(
        sum(event.flops or 0 for event in events),
        sum(event.elementwise or 0 for event in events),
        sum(event.traffic for event in events),
        len(events),
        largest,
        ceilings.level_of(largest).name,
        tuple(sorted(Counter(event.traffic for event in events).items())),
        sum(2 * event.work.integer_macs for event in events if event.work is not None),
    )


@dataclass(frozen=True, slots=True)
class Prediction:
    """The time that one ceiling alone would take, and how much of the measured time that is.

    Attributes:
        seconds: amount over the ceiling's median; ``low`` and ``high`` are over the ends of its 95 % interval.
        share: ``seconds`` over the median of the measured time.
        share_low, share_high: the ends of both intervals, put together so that the range is widest.
    """

    seconds: float
    low: float
    high: float
    share: float
    share_low: float
    share_high: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on the ceiling that bounds a run, from the time that each alone would take.

    Attributes:
        bottleneck: the ceiling with the longest predicted time, or "unclear" if its range and that of the second
            longest overlap, so that two are within noise, or if the measured time is so much longer that not even
            the longest surely explains a quarter of it.
        compute, memory, overhead: the predictions. They are lower bounds that may pass at the same time, so their
            shares need not sum to 1: what they leave open no ceiling explains.
        efficiency: the time that the contractions would take at their peaks, over the measured time.
    """

    bottleneck: Bottleneck
    compute: Prediction
    memory: Prediction
    overhead: Prediction
    efficiency: float

    @property
    def predictions(self) -> dict[Ceiling, Prediction]:
        """The three predictions by name, the longest first."""
        given: dict[Ceiling, Prediction] = {"compute": self.compute, "memory": self.memory, "overhead": self.overhead}
        return dict(sorted(given.items(), key=lambda item: item[1].seconds, reverse=True))

    @property
    def explained(self) -> float:
        """Share of the measured time that the longest prediction explains; far below 1 no ceiling explains it."""
        return next(iter(self.predictions.values())).share

    @property
    def sentence_word(self) -> str:
        """The verdict as a page says it: "compute-bound", "memory-bound", "overhead-bound" or "unclear"."""
        return self.bottleneck if self.bottleneck == "unclear" else f"{self.bottleneck}-bound"

    @property
    def because(self) -> str:
        """Why, in a sentence without a full stop: what each ceiling alone explains of the measured time."""
        shares = {name: _percent(prediction.share) for name, prediction in self.predictions.items()}
        parts = (
            f"arithmetic at the peak would take {shares['compute']} of the measured time",
            f"compulsory bytes at the bandwidth of their levels {shares['memory']}",
            f"calls at their least cost {shares['overhead']}",
        )
        said = f"{', '.join(parts[:2])} and {parts[2]}"
        if self.bottleneck != "unclear":
            return said
        if next(iter(self.predictions.values())).share_low < LEAST_EXPLAINED:
            return f"{said}: none surely explains a quarter of it"
        return f"{said}: the two largest are within noise"


def _percent(share: float) -> str:
    return "under 0.1%" if share < 1e-3 else f"{share:.1%}" if share < 0.1 else f"{share:.0%}"


#: Seconds by the medians of ceilings, and by the upper and lower ends of their intervals: the least, the most.
Range = tuple[float, float, float]


def roof_seconds(events: Sequence[Event], ceilings: Ceilings) -> Range:
    """Return the seconds that ops take one after the other, each at its own roof.

    At its roof an op takes its operations over the peak or its bytes over the bandwidth of the level that holds
    them, whichever is longer.

    Raises:
        UncountedError: if an op declares no work formula.
        ValueError: if there are none.
    """
    demands = [demand_of([event], ceilings) for event in events]
    roofs = [tuple(map(max, _compute(demand, ceilings), _memory(demand, ceilings))) for demand in demands]
    median, least, most = (sum(ends) for ends in zip(*roofs, strict=True))
    return median, least, most


def _compute(demand: Demand, ceilings: Ceilings) -> Range:
    return _at_peaks(demand.operations - demand.integer, demand.integer, ceilings)


def _at_peaks(operations: int, integer: int, ceilings: Ceilings) -> Range:
    """Return the seconds that operations take at the FP32 peak, and those on integers at theirs."""
    amounts = (operations, ceilings.fp32_peak), (integer, ceilings.int8_peak)
    return (
        sum(amount / peak.median for amount, peak in amounts),
        sum(amount / peak.interval.high for amount, peak in amounts),
        sum(amount / peak.interval.low for amount, peak in amounts),
    )


def _memory(demand: Demand, ceilings: Ceilings) -> Range:
    moved = [(size * count, bandwidth_at(size, ceilings)) for size, count in demand.sets if size]
    return (
        sum(amount / bandwidth.median for amount, bandwidth in moved),
        sum(amount / bandwidth.interval.high for amount, bandwidth in moved),
        sum(amount / bandwidth.interval.low for amount, bandwidth in moved),
    )


def verdict(demand: Demand, seconds: Measurement, ceilings: Ceilings, overhead: Range) -> Verdict:
    """Return what bounds a run that asked for ``demand`` and took ``seconds``.

    Args:
        demand: from `demand_of` with the same ceilings.
        seconds: measured, on as many threads as the ceilings.
        ceilings: of this machine.
        overhead: seconds that the calls take at least, as ``seconds`` was taken: see `call_costs`.

    Raises:
        ValueError: if ``seconds`` holds one that is not above 0, or is not in seconds.
    """
    if seconds.unit != "s" or not seconds.minimum > 0:
        raise ValueError(f"seconds must be times above 0 in 's', not {seconds.minimum} in {seconds.unit!r}")
    ranges: dict[Ceiling, Range] = {
        "compute": _compute(demand, ceilings),
        "memory": _memory(demand, ceilings),
        "overhead": overhead,
    }
    longest, second, _ = sorted(ranges, key=lambda name: ranges[name][0], reverse=True)
    predicted = {name: _prediction(reach, seconds) for name, reach in ranges.items()}
    stands_out = predicted[longest].low > predicted[second].high
    return Verdict(
        longest if stands_out and predicted[longest].share_low >= LEAST_EXPLAINED else "unclear",
        **predicted,
        efficiency=_at_peaks(demand.flops - demand.integer, demand.integer, ceilings)[0] / seconds.median,
    )


def _prediction(reach: Range, seconds: Measurement) -> Prediction:
    value, low, high = reach
    interval = seconds.interval
    return Prediction(value, low, high, value / seconds.median, low / interval.high, high / interval.low)
