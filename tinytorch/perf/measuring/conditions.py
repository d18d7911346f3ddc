"""Conditions of a measurement: how its samples were taken, and what of that holds for what is made of measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Literal
from uuid import uuid4

from tinytorch.perf.measuring.statistics import block_spread


def new_turns() -> str:
    """Return a token that no other turns have."""
    return uuid4().hex[:12]


class Sample(StrEnum):
    """What one sample of a measurement is."""

    CALLS = "calls"
    BLOCKS = "blocks"
    REQUESTS = "requests"
    STEPS = "steps"
    ROUNDS = "rounds"
    PROCESSES = "processes"
    PROCESS_PAIRS = "pairs of processes"
    SEEDS = "seeds"
    TRIALS = "trials"
    SEQUENCES = "sequences"
    EXAMPLES = "examples"

    @property
    def are_independent(self) -> bool:
        """Whether samples are independent by the way they are taken; those of one process are a series in time."""
        return self not in (Sample.CALLS, Sample.BLOCKS, Sample.REQUESTS, Sample.STEPS, Sample.ROUNDS)


class Caches(StrEnum):
    """What the caches held when a sample began."""

    WARM = "warm"
    COLD = "cold"
    AS_FOUND = "as found"


@dataclass(frozen=True, slots=True)
class BetweenRuns:
    """Spread of medians between runs, which are processes and moments: relative standard deviations.

    Attributes:
        deviation: of the measurement itself, by which its interval is widened; of a part of a whole that of its odds.
        interleaved: of the ratio to what was interleaved with it, which a moment hits alike; None if not known,
            as where the spread is that of other machines.
        per_block: how many times the spread between the blocks of such a ratio is added; None if not known.
    """

    deviation: float
    interleaved: float | None = None
    per_block: float | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """Plan of a comparison, and what came of it. Differences are relative: 0.03 is three per cent.

    Attributes:
        resolve: the difference that matters.
        power: chance to find a true difference as large; that to find none beyond it is a few per cent less.
        pilot: pairs that were taken to plan by, and are in no verdict.
        aimed: the difference that was planned for: ``resolve``, or more where the pilot was sure of more.
        number: pairs that the plan asks for.
        least: the smallest difference that any number of them resolves, for repeats differ as well.
        reached: the smallest difference that those taken resolve with that power, of several candidates the worst;
            None if they resolve none.
        ended_by_time: whether the time was over before as many as planned were taken.
    """

    resolve: float
    power: float
    pilot: int
    aimed: float
    number: int
    least: float
    reached: float | None = None
    ended_by_time: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputeProbe:
    """Compiled loop of arithmetic.

    Attributes:
        vector_bits: bits of its vectors.
        chains: of operations that do not wait for one another; None where that is not chosen.
        instruction: that it runs on, by name; None for the compiler's choice.
    """

    vector_bits: int
    chains: int | None = None
    instruction: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryProbe:
    """Compiled loop over memory.

    Attributes:
        working_set_bytes: bytes that all threads go through.
        vector_bits: bits of its vectors; None where it loads number by number.
    """

    working_set_bytes: int
    vector_bits: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PageProbe:
    """First touch of pages of memory.

    Attributes:
        page_bytes: bytes of one of the system's pages.
        faults_per_page: faults that the system counted for each; below 1 it gave several pages at once.
    """

    page_bytes: int
    faults_per_page: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """Ranks that were timed together; a sample is that of the slowest.

    Attributes:
        ranks: how many.
        oversubscribed: whether they were more than the cores: then times say how the system shares its cores.
        pinned: whether each was kept on a core of its own; None where a cluster's scheduler decides.
        series: name of the messages of all sizes that one link is fitted to; None if it is no message.
    """

    ranks: int
    oversubscribed: bool
    pinned: bool | None = None
    series: str | None = None


Instrument = ComputeProbe | MemoryProbe | PageProbe | Ranks
#: Threads of BLAS: a number, or that the library does not say it.
BlasThreads = int | Literal["unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """Conditions under which samples were taken; each is None, empty or false where nothing is known of it.

    Attributes:
        sample: what one sample is, which decides how samples depend on one another.
        warmup_runs: calls before the first sample.
        warmup_seconds: seconds of these calls.
        warmup_steady: whether the warm-up ended because calls no longer got faster.
        inner_loops: calls in one sample, which is their mean.
        collector_off: whether Python's garbage collector was off.
        blas_threads: threads of BLAS and of the compiled kernels; "unknown" where the BLAS does not say.
        threads: threads of a probe.
        cores: numbers of the cores that these threads were pinned to; None if they were not.
        caches: what the caches held.
        block: samples in a row that were taken in one place in memory, or by one group of processes.
        interleaved_with: names of what was sampled in turns with it.
        turns: token of these turns: two of one name that were taken in other turns are no pair.
        order_seed: seed from which the order of these turns was drawn.
        cpu_per_wall: CPU time of the process over wall time: above 1 with threads, below 1 where it waited; of what is
            made of several measurements the least of them.
        page_faults_per_call: minor page faults in one call.
        between_runs: by how much another run differs.
        part_of: the whole of which each sample is a part, from 0 to 1: noise then changes the odds of the part.
        statistic: what the value is, in words, where it is not the median of the samples.
        interval_by: what the interval is made by, in words, where it is not of order statistics.
        call: name of the call, by which pages know that they timed the same one.
        sides: conditions of each measurement that a ratio, a quotient or a difference is made of.
        instrument: what only one kind of instrument has.
        planned: what the number of samples was planned for, and what came of it.
        note: what else a reader should know, in words.
    """

    sample: Sample = Sample.CALLS
    warmup_runs: int | None = None
    warmup_seconds: float | None = None
    warmup_steady: bool | None = None
    inner_loops: int | None = None
    collector_off: bool | None = None
    blas_threads: BlasThreads | None = None
    threads: int | None = None
    cores: tuple[int, ...] | None = None
    caches: Caches | None = None
    block: int | None = None
    interleaved_with: tuple[str, ...] = ()
    turns: str | None = None
    order_seed: int | None = None
    cpu_per_wall: float | None = None
    page_faults_per_call: float | None = None
    between_runs: BetweenRuns | None = None
    part_of: str | None = None
    statistic: str | None = None
    interval_by: str | None = None
    call: str | None = None
    sides: tuple[Side, ...] = ()
    instrument: Instrument | None = None
    planned: Planned | None = None
    note: str | None = None

    def leaves(self) -> tuple[Conditions, ...]:
        """Return the conditions of all that was timed: those of its sides' sides, or itself if it has none."""
        return tuple(leaf for side in self.sides for leaf in side.conditions.leaves()) or (self,)

    def rescaled(self) -> Conditions:
        """Return the conditions of a rate or a multiple, which is no part of the whole and no time of the call."""
        return replace(self, part_of=None, call=None)

    def told_as(self, statistic: str, interval_by: str | None = None) -> Conditions:
        """Return the conditions of another statistic of the same samples."""
        return replace(self, statistic=statistic, interval_by=interval_by)

    def within_bounds(self, statistic: str) -> Conditions:
        """Return the conditions of a statistic whose law holds what runs differ by, so that nothing adds it again."""
        return replace(self.rescaled().told_as(statistic), between_runs=None, block=None)


@dataclass(frozen=True, slots=True)
class Side:
    """One measurement of those that another is made of: what it is called there, and its conditions."""

    name: str
    conditions: Conditions


#: What is said of one measurement and not of what is made of several.
_OWN = ("statistic", "interval_by", "call", "part_of", "sides")


def of_all(parts: Iterable[Conditions]) -> Conditions:
    """Return the conditions of what is made of several measurements, each of which has its own noise.

    Where all agree in a condition it stands, else it is not known. CPU time per wall time is the least, so that what
    disturbed one of them shows. What runs differ by is added in quadrature. Samples are independent if those of all
    parts are, by the same kind.

    Raises:
        ValueError: if there are no parts.
    """
    given = list(parts)
    if not given:
        raise ValueError("parts must hold at least one measurement's conditions")
    different = list({id(part): part for part in given}.values())
    shared: dict[str, Any] = {}
    for field in fields(Conditions):
        values = [getattr(part, field.name) for part in different]
        if field.name not in _OWN and all(value == values[0] for value in values):
            shared[field.name] = values[0]
    had = [part.cpu_per_wall for part in different if part.cpu_per_wall is not None]
    shared |= {"cpu_per_wall": min(had, default=None), "between_runs": _in_quadrature(given)}
    return Conditions(**shared)


def of_any(parts: Iterable[Conditions]) -> Conditions:
    """Return `of_all` of measurements of which few decide, as at a crossing: runs differ by the largest spread."""
    given = list(parts)
    known = [part.between_runs for part in given if part.between_runs is not None]
    return replace(of_all(given), between_runs=max(known, key=lambda spread: spread.deviation, default=None))


def of_sides(sides: Mapping[str, Conditions]) -> Conditions:
    """Return `of_all` of the sides of a ratio, a quotient or a difference, which stand beside it by name.

    Args:
        sides: by what each is called, such as "baseline" and "candidate".
    """
    named = tuple(Side(name, conditions) for name, conditions in sides.items())
    return replace(of_all(sides.values()), sides=named)


def of_interleaved(sides: Mapping[str, Conditions], names: Sequence[str], ratios: Sequence[float]) -> Conditions:
    """Return `of_sides` of two that were interleaved: what hits both alike drops out of the spread between runs.

    What is left is the interleaved part, and what the blocks of the ratios show; where that is not known, both spreads.

    Args:
        sides: as of `of_sides`.
        names: of the two measurements.
        ratios: of their samples, in the order in which they were taken.
    """
    made, first = of_sides(sides), next(iter(sides.values()))
    others = dict.fromkeys(name for one in sides.values() for name in one.interleaved_with if name not in names)
    spread = made.between_runs
    if spread is not None and spread.interleaved is not None and spread.per_block is not None:
        blocks = spread.per_block * block_spread(ratios, first.block or len(ratios))
        spread = replace(spread, deviation=math.hypot(spread.interleaved, blocks))
    return replace(made, interleaved_with=tuple(others), between_runs=spread)


def of_processes(parts: Iterable[Conditions]) -> Conditions:
    """Return `of_all` of measurements from several processes, of each of which one sample is made.

    What runs differ by lies between these samples, as processes are what differs.
    """
    return replace(of_all(parts).rescaled(), sample=Sample.PROCESSES, turns=None, between_runs=None, block=None)


def _in_quadrature(parts: Sequence[Conditions]) -> BetweenRuns | None:
    known = [part.between_runs for part in parts if part.between_runs is not None]
    if not known:
        return None
    made = (
        known[0] if len(known) == len(parts) and len({(one.interleaved, one.per_block) for one in known}) == 1 else None
    )
    deviation = math.hypot(*(one.deviation for one in known))
    return BetweenRuns(deviation) if made is None else replace(made, deviation=deviation)
