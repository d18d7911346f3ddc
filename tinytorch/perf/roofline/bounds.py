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
ran there: see `slope_at`. What other ops pushed out of that level in the meantime is not looked at, so this is a lower
bound, too.

Calling an op takes at least what the same op takes on one element; that is the third ceiling, see `call_costs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations, pairwise

from tinytorch.core.op import UncountedError
from tinytorch.perf.events.stream import Event, counted
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.levels import STREAMS, Level
from tinytorch.perf.machine.time_bound import TimeBound, added, at_rate
from tinytorch.perf.measuring import Counted, Measurement, quotient
from tinytorch.perf.measuring.conditions import of_interleaved
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between
from tinytorch.perf.measuring.measurement import same_rounds

#: Share of the measured time that the largest bound explains at least of what it bounds; below it a run is below every
#: roof. Three bounds that never overlapped would add up to at most three fifths then, so two fifths of the time and
#: more go into what nobody counted: five passes over the data where one is counted, or a function of dozens of
#: instructions that counts as one operation. The book's whole models lie at twice this share and more, its GELU at
#: half of it.
LEAST_EXPLAINED = 0.2


class Bottleneck(StrEnum):
    """What bounds a run: one of the three bounds, none of them, or one of several whose order is open."""

    COMPUTE = "compute"
    MEMORY = "memory"
    OVERHEAD = "overhead"
    BELOW = "below every roof"
    OPEN = "open"


BOUNDS = (Bottleneck.COMPUTE, Bottleneck.MEMORY, Bottleneck.OVERHEAD)


def words(candidates: Collection[Bottleneck]) -> str:
    """Return in a page's words what bounds a run, of which each of ``candidates``, in `BOUNDS`, may be the largest."""
    if not candidates:
        return Bottleneck.BELOW.value
    *first, last = [bound for bound in BOUNDS if bound in candidates]
    return ", ".join(f"{one}-" for one in first) + " or " * bool(first) + f"{last}-bound"


#: All words of a verdict.
WORDS = tuple(words(some) for count in range(4) for some in combinations(BOUNDS, count))


def best_bandwidth(level: Level) -> Measurement:
    """Return the largest of a level's bandwidths, of read, copy and triad, in B/s: the slope of its roof."""
    return max((level.read, level.copy, level.triad), key=lambda one: one.median)


def reported(level: Level) -> Counted | None:
    """Return the bytes that a level is reported to hold; None where the system does not say."""
    size = level.capacity_reported
    return None if size is None else Counted(size, "B", f"bytes that {level.name} is reported to hold")


@dataclass(frozen=True, slots=True)
class Slope:
    """The slope of the roof over a working set.

    Attributes:
        inner, outer: names of the levels between which the bytes travel at ``bandwidth``: the same where it is a
            level's own; two where it is the ladder's between their plateaus, or a mean over sets of several levels.
        bandwidth: in B/s.
    """

    inner: str
    outer: str
    bandwidth: Measurement

    @property
    def of(self) -> str:
        """Whose bandwidth it is, as a page says it: "L3", or "L3 to memory"."""
        return self.outer if self.inner == self.outer else f"{self.inner} to {self.outer}"

    @property
    def levels(self) -> str:
        """Where the bytes come from, as a page says it: "L3", or "L3 and memory"."""
        return self.outer if self.inner == self.outer else f"{self.inner} and {self.outer}"


@dataclass(frozen=True)
class CeilingsInTurns(Ceilings):
    """Ceilings whose peaks and slopes were sampled in turns with the calls that they bound: see `in_turns`.

    The share of such a ceiling that a call reaches is a ratio of neighbours in time, which no slow moment changes.

    Attributes:
        slopes: by the working set of an op of these calls, in bytes.
    """

    slopes: Mapping[int, Slope]


def slope_at(working_set: int, ceilings: Ceilings) -> Slope:
    """Return how fast bytes of an op travel that has ``working_set`` of them in all.

    That is the best bandwidth of the level that holds them or, where one of them is faster, of the ladder's steps from
    the last one that is not larger than the set on: between two plateaus the smaller one bounds what the set can
    reach, and what a larger one reached, it can reach.
    """
    if isinstance(ceilings, CeilingsInTurns) and working_set in ceilings.slopes:
        return ceilings.slopes[working_set]
    level = ceilings.level_of(working_set)
    found = Slope(level.name, level.name, best_bandwidth(level))
    inside = {outer.name: inner.name for inner, outer in pairwise(ceilings.levels)}
    for stream in STREAMS:
        curve = ceilings.curves.get(stream, ())
        first = max((step.working_set for step in curve if step.working_set <= working_set), default=working_set)
        for step in curve:
            if step.working_set >= first and step.reached.median > found.bandwidth.median:
                found = Slope(inside.get(level.name, level.name), level.name, step.reached)
    return found


def slope_of(demand: Demand, ceilings: Ceilings) -> Slope:
    """Return the mean bandwidth at which the bytes of a demand travel, and the innermost and outermost level of them.

    Raises:
        ValueError: if no byte moves.
    """
    used = [slope_at(size, ceilings) for size, _ in demand.sets if size]
    if not used:
        raise ValueError("demand must hold bytes that move, but its ops only make views")
    order = [level.name for level in ceilings.levels]
    inner = min((slope.inner for slope in used), key=order.index)
    outer = max((slope.outer for slope in used), key=order.index)
    seconds = _memory(demand, ceilings).measurement("bytes at the bandwidth of their levels")
    return Slope(inner, outer, seconds.per(demand.bytes, "B/s", f"bandwidth of {inner} to {outer}"))


def bandwidth_at(working_set: int, ceilings: Ceilings) -> Measurement:
    """Return the bandwidth of `slope_at`, in B/s."""
    return slope_at(working_set, ceilings).bandwidth


@dataclass(frozen=True, slots=True)
class Demand:
    """Demand of a run of ops on the machine.

    Attributes:
        flops: of contractions, 2 for each multiply-accumulate.
        elementwise: every other arithmetic operation, one for each operation and element.
        bytes: compulsory traffic, added up over the ops.
        calls: ops that ran.
        working_set: compulsory bytes of the op that has most of them.
        sets: compulsory bytes of one op, and how many ops had as many, from few bytes to many.
        integer: those of ``flops`` that are on 8-bit integers.
    """

    flops: int
    elementwise: int
    bytes: int
    calls: int
    working_set: int
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


def demand_of(events: Sequence[Event]) -> Demand:
    """Return what ``events`` ask of the machine.

    Raises:
        UncountedError: if one is of an op without a work formula.
        ValueError: if there are none.
    """
    if not events:
        raise ValueError("events must hold at least one op, but no op ran")
    alike = counted(events)
    uncounted = sorted({event.op for event, _ in alike if event.work is None})
    if uncounted:
        raise UncountedError(
            f"a roofline needs the work of each op, but these have no formula for it: {', '.join(uncounted)}"
        )
    return _demand(alike)


def _demand(alike: Sequence[tuple[Event, int]]) -> Demand:
    sets: Counter[int] = Counter()
    for event, calls in alike:
        sets[event.traffic] += calls
    return Demand(
        sum((event.flops or 0) * calls for event, calls in alike),
        sum((event.elementwise or 0) * calls for event, calls in alike),
        sum(event.traffic * calls for event, calls in alike),
        sum(calls for _, calls in alike),
        max(event.traffic for event, _ in alike),
        tuple(sorted(sets.items())),
        sum(2 * event.work.integer_macs * calls for event, calls in alike if event.work is not None),
    )


@dataclass(frozen=True, slots=True)
class Prediction:
    """The time that one ceiling alone would take, and how much of the measured time that is.

    Attributes:
        seconds: the amount at the ceiling, with the interval of the ceiling.
        share: ``seconds`` over the measured time, with the intervals of both.
    """

    seconds: Measurement
    share: Measurement


@dataclass(frozen=True, slots=True)
class BoundVerdict:
    """Verdict on what bounds a run: the largest of the times that each ceiling alone would take.

    The question is the order of three bounds of one machine. The measured time does not enter, nor does what makes
    all ceilings faster or slower alike. Two bounds are compared by the interval of their quotient:

    - Of arithmetic and bytes, whose ceilings were sampled in turns, the quotient is taken round by round. The moment is
      common to both, and so are the share of the core that the host left and, in the caches, the clock: they cancel.
      What is left is the noise of single samples and what differs between repeats of the quotient, as of any two
      calls in turns: other programs' use of memory slows bytes alone, and the clock does not reach memory. A peak that
      the matrix product gave was not sampled in turns, and both intervals count in full.
    - Calls were timed by themselves, at another moment. Both intervals count in full.

    How near the run comes to the bound is a number beside the word, `reached`, and decides nothing but whether the run
    is below every roof.

    Attributes:
        candidates: bounds that may be the largest, the longest by the medians first: one where its interval lies above
            the others'; none where surely each explains less than `LEAST_EXPLAINED` of the time.
        compute, memory, overhead: the predictions. They are lower bounds that may pass at the same time, so their
            shares need not sum to 1: what they leave open no ceiling explains.
        efficiency: the time that the contractions would take at their peaks, over the measured time.
    """

    candidates: tuple[Bottleneck, ...]
    compute: Prediction
    memory: Prediction
    overhead: Prediction
    efficiency: float

    @property
    def bottleneck(self) -> Bottleneck:
        """What bounds the run."""
        if len(self.candidates) > 1:
            return Bottleneck.OPEN
        return self.candidates[0] if self.candidates else Bottleneck.BELOW

    @property
    def predictions(self) -> dict[Bottleneck, Prediction]:
        """The three predictions by what they are of, the longest first."""
        return _longest_first(self.compute, self.memory, self.overhead)

    @property
    def reached(self) -> Measurement:
        """Share of the measured time that the largest bound explains, with its interval."""
        return next(iter(self.predictions.values())).share

    @property
    def sentence_word(self) -> str:
        """The verdict as a page says it, one of `WORDS`."""
        return words(self.candidates)

    @property
    def said(self) -> Judgement:
        """The verdict as a page records it, with the share of the time that the largest bound explains."""
        verdict = Verdict.OPEN if self.bottleneck is Bottleneck.OPEN else Verdict.SUPPORTED
        return Judgement(verdict, verdict_between(self.reached, low=LEAST_EXPLAINED).tests, self.sentence_word)

    @property
    def is_compute_bound(self) -> Judgement:
        """Whether the arithmetic is the largest bound."""
        return self._is_bound_by(Bottleneck.COMPUTE)

    @property
    def is_memory_bound(self) -> Judgement:
        """Whether the bytes are the largest bound."""
        return self._is_bound_by(Bottleneck.MEMORY)

    @property
    def is_overhead_bound(self) -> Judgement:
        """Whether the calls are the largest bound."""
        return self._is_bound_by(Bottleneck.OVERHEAD)

    def _is_bound_by(self, bound: Bottleneck) -> Judgement:
        said = self.said
        return replace(said, verdict=said.verdict if bound in self.candidates else Verdict.REFUTED, word="")

    @property
    def because(self) -> str:
        """Why, in a sentence without a full stop: what each ceiling alone explains of the measured time, the rule."""
        (largest, one), *_ = self.predictions.items()
        ends = one.share.interval
        shares = {name: _percent(prediction.share.median) for name, prediction in self.predictions.items()}
        shares[largest] += f" ({_percent(ends.low)} to {_percent(ends.high)})"
        said = (
            f"arithmetic at the peak would take {shares[Bottleneck.COMPUTE]} of the measured time, compulsory bytes at "
            f"the bandwidth of their levels {shares[Bottleneck.MEMORY]} and calls at their least cost "
            f"{shares[Bottleneck.OVERHEAD]}"
        )
        if not self.candidates:
            return f"{said}: none reaches {_percent(LEAST_EXPLAINED)}, so the code does more than is counted"
        order = f", but the order of {' and '.join(self.candidates)} is open" if len(self.candidates) > 1 else ""
        return f"{said}: the largest decides{order}"


def _longest_first(compute: Prediction, memory: Prediction, overhead: Prediction) -> dict[Bottleneck, Prediction]:
    found = zip(BOUNDS, (compute, memory, overhead), strict=True)
    return dict(sorted(found, key=lambda item: item[1].seconds.median, reverse=True))


def _percent(share: float) -> str:
    return "under 0.1%" if share < 1e-3 else f"{share:.1%}" if share < 0.1 else f"{share:.0%}"


def roof_seconds(events: Sequence[Event], ceilings: Ceilings) -> Measurement:
    """Return the seconds that ops take one after the other, each at its own roof.

    At its roof an op takes its operations over the peak or its bytes over the bandwidth of the level that holds
    them, whichever is longer.

    Raises:
        UncountedError: if an op declares no work formula.
        ValueError: if there are none.
    """
    demand_of(events)  # raises where one is uncounted or there are none
    return roof_of([_demand([one]) for one in counted(events)], ceilings)


def roof_of(demands: Sequence[Demand], ceilings: Ceilings) -> Measurement:
    """Return the seconds that runs of these demands take one after the other, each at its own roof."""
    roofs = (_compute(demand, ceilings).longer(_memory(demand, ceilings)) for demand in demands)
    return added(roofs).measurement("time at the roof")


def _compute(demand: Demand, ceilings: Ceilings) -> TimeBound:
    return _at_peaks(demand.operations - demand.integer, demand.integer, ceilings)


def _at_peaks(operations: int, integer: int, ceilings: Ceilings) -> TimeBound:
    """Return the time of operations at the FP32 peak, and of those on integers at theirs."""
    floats = [at_rate(operations, ceilings.fp32_peak)] if operations or not integer else []
    return added([*floats, at_rate(integer, ceilings.int8_peak)] if integer else floats)


def _memory(demand: Demand, ceilings: Ceilings) -> TimeBound:
    return added(at_rate(size * count, bandwidth_at(size, ceilings)) for size, count in demand.sets)


def verdict(demand: Demand, seconds: Measurement, ceilings: Ceilings, overhead: Measurement) -> BoundVerdict:
    """Return what bounds a run that asked for ``demand`` and took ``seconds``.

    Args:
        demand: from `demand_of`.
        seconds: measured, on as many threads as the ceilings.
        ceilings: of this machine.
        overhead: seconds that the calls take at least, as ``seconds`` was taken: see `call_costs`.

    Raises:
        ValueError: if ``seconds`` holds one that is not above 0, or is not in seconds.
    """
    if seconds.unit != "s" or not seconds.minimum > 0:
        raise ValueError(f"seconds must be times above 0 in 's', not {seconds.minimum} in {seconds.unit!r}")
    compute = _prediction(_compute(demand, ceilings).measurement("arithmetic at the peak"), seconds)
    memory = _prediction(_memory(demand, ceilings).measurement("bytes at the bandwidth of their levels"), seconds)
    calls = _prediction(overhead, seconds)
    contractions = _at_peaks(demand.flops - demand.integer, demand.integer, ceilings).measurement("contractions")
    found = _candidates(_longest_first(compute, memory, calls), ceilings)
    return BoundVerdict(found, compute, memory, calls, contractions.median / seconds.median)


def _prediction(ceiling: Measurement, seconds: Measurement) -> Prediction:
    name = f"share of the measured time that is explained by {ceiling.name}"
    return Prediction(ceiling, share_of(ceiling, seconds, name) if ceiling.median else Counted(0, "%", name))


def share_of(ceiling: Measurement, seconds: Measurement, name: str) -> Measurement:
    """Return the share of a measured time that a ceiling for as many threads explains, with the intervals of both.

    Of a ceiling that was sampled in turns with the time, its samples are the shares of neighbours. Else they are the
    ceiling's median over each measured time. One recorded run has no interval; its share is said of that run, whatever
    another would take, and its samples are the ceiling's.
    """
    turns = seconds.conditions.turns
    if turns is not None and turns == ceiling.conditions.turns and seconds.n == ceiling.n > 1:
        shares = tuple(least / taken for least, taken in zip(ceiling.samples, seconds.samples, strict=True))
        own = seconds.conditions
        bounds = replace(ceiling.conditions, between_runs=own.between_runs, block=own.block)
        return Measurement(name, shares, "%", of_interleaved({"ceiling": bounds, "time": own}, (), shares))
    if seconds.n == 1:
        return ceiling.scaled(1 / seconds.median, "%", name)
    alike = replace(ceiling, conditions=replace(ceiling.conditions, blas_threads=seconds.conditions.blas_threads))
    return quotient(seconds.per(1, "1/s"), alike.per(1, "1/s"), name, "%")


def _candidates(predictions: dict[Bottleneck, Prediction], ceilings: Ceilings) -> tuple[Bottleneck, ...]:
    """Return the candidates as `BoundVerdict` has them, of predictions of which the longest is first."""
    if all(_explains_too_little(one.share) for one in predictions.values()):
        return ()
    (longest, one), *others = predictions.items()
    turns = ceilings.fp32_peak if ceilings.peak_in_turns else None
    near = [
        name
        for name, other in others
        if not _is_longer(one.seconds, other.seconds, None if Bottleneck.OVERHEAD in (longest, name) else turns)
    ]
    return (longest, *near)


def _explains_too_little(share: Measurement) -> bool:
    return not share.median or verdict_between(share, low=LEAST_EXPLAINED).verdict is Verdict.REFUTED


def _is_longer(one: Measurement, other: Measurement, turns: Measurement | None) -> bool:
    """Return whether one bound surely is longer than another.

    Args:
        one: the seconds of one.
        other: those of the other.
        turns: a ceiling that was sampled in turns with those of both; None if these were not sampled in turns.
    """
    if not other.median:
        return True
    name = f"{one.name} over {other.name}"
    if turns is None:
        return verdict_between(quotient(one, other, name), low=1, strict=True).verdict is Verdict.SUPPORTED
    above, below = same_rounds(one.samples, other.samples)
    ratios = tuple((above / below).tolist())
    alike = of_interleaved({"longer": turns.conditions, "shorter": turns.conditions}, (), ratios)
    return verdict_between(Measurement(name, ratios, "", alike), low=1, strict=True).verdict is Verdict.SUPPORTED
