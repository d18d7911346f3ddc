"""What the page on rooflines computes: where bytes come from, what was predicted, and what bounds what was placed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tinytorch.chapters import calls
from tinytorch.chapters.gpt2 import GPT2, read_seconds
from tinytorch.core.ops.elementwise import BLOCK
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.call_costs import call_key
from tinytorch.perf.machine.time_bound import added, at_cost, at_rate, in_a_row
from tinytorch.perf.measuring import Counted, Measurement, Modelled, quotient, ratio
from tinytorch.perf.measuring.conditions import of_sides
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between, verdict_between_all, verdict_of_all
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.roofline.bounds import Slope, best_bandwidth, share_of, slope_at
from tinytorch.perf.roofline.placement import Placed

#: NumPy's steps of a GELU, and the arrays that they read and write; `tests.chapters.roofline` counts them.
GELU_STEPS, GELU_ARRAYS = 8, 19
#: Bytes of a number, and of the three that an addition moves.
_NUMBER, _ADDITION = 4, 12
_ROOFLINE = "the roofline"


@dataclass(frozen=True)
class Source:
    """Where bytes come from: how many there are, if that is known, the slope of their roof, and its ridge point."""

    bytes: Counted | None
    slope: Slope
    ridge: Measurement


def source(slope: Slope, machine: Ceilings, size: int | None = None) -> Source:
    """Return the source of ``size`` bytes that travel on a slope."""
    corner = quotient(machine.fp32_peak, slope.bandwidth, f"ridge point of {slope.of}", "FLOP/B")
    return Source(None if size is None else Counted(size, "B", f"bytes from {slope.of}"), slope, corner)


def ladder(machine: Ceilings) -> dict[str, Source]:
    """Return each level of the memory as a source of as many bytes as it is reported to hold."""
    return {
        level.name: source(Slope(level.name, level.name, best_bandwidth(level)), machine, level.capacity_reported)
        for level in machine.levels
    }


def working_sets(shapes: Mapping[str, Sequence[Sequence[int]]], machine: Ceilings) -> dict[str, Source]:
    """Return where the float32 arrays of an operation come from, by the name of the operation, from their shapes."""
    sizes = {name: _NUMBER * sum(map(math.prod, arrays)) for name, arrays in shapes.items()}
    return {name: source(slope_at(size, machine), machine, size) for name, size in sizes.items()}


def passes(placed: Mapping[tuple[str, int], Placed]) -> dict[tuple[str, int], Placed]:
    """Return forward passes of the zoo, by model and batch, whose times have the names of their calls."""
    return {key: replace(one, seconds=calls.zoo_pass(one.seconds, *key)) for key, one in placed.items()}


@dataclass(frozen=True)
class Product:
    """A product of so many rows with weights that have a name."""

    weights: str
    rows: int
    placed: Placed


def products(crossings: Mapping[int, Iterable[Placed]]) -> list[Product]:
    """Return the products of each width, which are named after their rows, in one list."""
    return [Product(f"{width:,} wide", _rows(one), one) for width, placed in crossings.items() for one in placed]


def _rows(one: Placed) -> int:
    return int(one.name.split()[0])


@dataclass(frozen=True)
class Crossing:
    """Rows from which arithmetic decides: where the time of one row, or two, and that of a row among many meet.

    ``over`` is the measured crossing over the predicted one, ``second_row`` the time of two rows over that of one.
    """

    predicted: Modelled
    measured: Measurement
    copied: Measurement
    over: Measurement
    second_row: Measurement


def crossing(width: int, placed: Sequence[Placed], weights: Source) -> Crossing:
    """Return the crossing of products with weights so wide: of one row, of two, and of more and more."""
    first, second, *_, last = (one.seconds for one in placed)
    most, wide = _rows(placed[-1]), f"{width:,} wide"
    predicted = weights.ridge.scaled(2, "rows", f"predicted crossing, {wide}")
    measured = ratio(first, last).scaled(most, "rows", f"crossing, {wide}")
    return Crossing(
        Modelled.by(_ROOFLINE, predicted),
        measured,
        ratio(second, last).scaled(most, "rows", f"crossing from two rows on, {wide}"),
        quotient(measured, predicted, "measured over predicted crossing"),
        ratio(second, first, f"two rows over one, {wide}"),
    )


def until_bytes_take_as_long(call: Placed, machine: Ceilings) -> tuple[Modelled, str]:
    """Return how many numbers an addition has whose bytes alone take as long as its call, and the level they fit."""
    for level in machine.levels:
        each = best_bandwidth(level).per(_ADDITION, "s")
        found = quotient(call.verdict.overhead.seconds, each, "numbers whose bytes take a call's time", "numbers")
        if level.capacity is None or found.median * _ADDITION <= level.capacity:
            break
    where = machine.level_of(math.ceil(found.median) * _ADDITION)
    return Modelled.by("the bytes, at the bandwidth, and the cost of a call", found), where.name


@dataclass(frozen=True)
class Gelu:
    """What NumPy's steps of a GELU move and call, block by block, and the time that this and a tangent predict."""

    moved: Counted
    block: Counted
    slope: Slope
    passes: Modelled
    calls: Counted
    calling: Modelled
    predicted: Modelled
    explained: Measurement


def gelu_by_steps(gelu: Placed, tanh: Placed, machine: Ceilings) -> Gelu:
    """Return what the steps of a GELU take, of which the tangent was timed by itself on the whole array."""
    array, size = gelu.demand.bytes // 2, 3 * _NUMBER * BLOCK
    slope, steps = slope_at(size, machine), GELU_STEPS * math.ceil(array / (_NUMBER * BLOCK))
    cheap = at_rate((GELU_ARRAYS - 2) * array, slope.bandwidth)  # the tangent's two are in its own time
    through = cheap.statistic(f"{GELU_STEPS - 1} passes over blocks in a cache")
    costs = machine.calls.kernel
    cost = costs.get(call_key("multiply", "numpy", "forward", 2)) or min(costs.values(), key=lambda one: one.median)
    every = added([at_cost(steps, cost)]).statistic("calls of GELU's steps, each at its least cost")
    predicted = in_a_row(through, tanh.seconds, every)
    return Gelu(
        Counted(GELU_ARRAYS * array, "B", "bytes that GELU's steps read and write"),
        Counted(size, "B", "bytes of three blocks"),
        slope,
        Modelled.by("the bytes, at the bandwidth", through),
        Counted(steps, "calls", "calls of NumPy in a GELU"),
        Modelled.by("the least cost of each call", every),
        Modelled.by("passes and calls, one after the other", predicted, "predicted time of GELU"),
        share_of(predicted, gelu.seconds, "share of GELU's time that is predicted"),
    )


def gain_of_twice_the_bandwidth(one: Placed, machine: Ceilings) -> Modelled:
    """Return the speedup that the model predicts for what lives in memory, if memory were twice as fast."""
    arithmetic = one.demand.operations / machine.fp32_peak.median
    traffic = one.demand.bytes / best_bandwidth(machine.levels[-1]).median
    gain = max(arithmetic, traffic) / max(arithmetic, traffic / 2)
    return Modelled(gain, "", "predicted speedup with twice the bandwidth", _ROOFLINE)


def gpt2_step(machine: Ceilings) -> tuple[Modelled, Modelled, Modelled]:
    """Return the least times of a step of GPT-2 by its bytes and by its arithmetic, and the tokens that equal them."""
    read = read_seconds(GPT2.step_bytes, machine).statistic("GPT-2's weights, read once")
    arithmetic = at_rate(GPT2.step_flops(), machine.fp32_peak).statistic("a step of GPT-2 at the peak")
    together = quotient(read, arithmetic, "tokens whose arithmetic takes as long as GPT-2's weights", "tokens")
    return Modelled.by(_ROOFLINE, read), Modelled.by(_ROOFLINE, arithmetic), Modelled.by(_ROOFLINE, together)


def farthest(placed: Iterable[Placed]) -> tuple[str, Measurement]:
    """Return which is farthest from its roof, by the median, with all that may be as far, and its share of the roof."""
    ranked = sorted(placed, key=lambda one: one.of_roof.median)
    over = [quotient(other.of_roof, ranked[0].of_roof, "shares of roofs") for other in ranked[1:]]
    return _first_and_alike(ranked, over, 1), ranked[0].of_roof


def most_to_gain(placed: Iterable[Placed]) -> tuple[str, Measurement]:
    """Return which spends most time above its roof, by the median, with all that may spend as much, and that time."""
    above = [(difference_apart(one.seconds, one.roof, f"time of {one.name} above its roof"), one) for one in placed]
    (first, _), *others = ranked = sorted(above, key=lambda pair: -pair[0].median)
    more = [difference_apart(first, other, "time") for other, _ in others]
    return _first_and_alike([one for _, one in ranked], more, 0), first


def _first_and_alike(ranked: Sequence[Placed], ahead: Sequence[Measurement], alike: float) -> str:
    """Return the name of the first, and of all that it is not surely ahead of: those are ``alike``."""
    first, *others = ranked
    sure = [verdict_between(one, low=alike, strict=True, together=len(ahead)).verdict for one in ahead]
    left = [one.name for one, found in zip(others, sure, strict=True) if found is not Verdict.SUPPORTED]
    return " or ".join([first.name, *left])


def difference_apart(more: Measurement, less: Measurement, name: str) -> Statistic:
    """Return ``more - less`` of two that were not measured in turns, with the intervals of both in quadrature."""
    value, (above, below) = more.median - less.median, (more.interval, less.interval)
    down = math.hypot(more.median - above.low, below.high - less.median)
    up = math.hypot(above.high - more.median, less.median - below.low)
    samples = tuple(sample - less.median for sample in more.samples)
    sides = of_sides({"more": more.conditions, "less": less.conditions}).within_bounds("difference of two medians")
    return Statistic(name, samples, more.unit, sides, value=value, bounds=Interval(value - down, value + up, 0.95))


def left_of_the_ridge(every: Iterable[Product], below: float) -> Judgement:
    """Return whether all products whose bytes surely take longer than their arithmetic reach less of the peak."""
    left = []
    for verdict in (one.placed.verdict for one in every):
        over = quotient(verdict.compute.seconds, verdict.memory.seconds, "time of arithmetic over that of bytes")
        if verdict_between(over, high=1, strict=True).verdict is Verdict.SUPPORTED:
            left.append(verdict.compute.share)
    return verdict_between_all(left, high=below, strict=True)


def overhead_if_alike(one: Placed, twice: Placed, at_most: float) -> Judgement:
    """Return whether calls bound what takes at most so much longer on twice the data; open where it takes more."""
    is_met = verdict_between(ratio(twice.seconds, one.seconds), high=at_most)
    is_alike = is_met.verdict is Verdict.SUPPORTED
    return one.verdict.is_overhead_bound if is_alike else replace(is_met, verdict=Verdict.OPEN)


def memory_if_slow(placed: Iterable[Placed], at_most: float) -> Judgement:
    """Return whether memory bounds all that surely reach at most this share of the peak."""
    shares = ((one.verdict, verdict_between(one.verdict.compute.share, high=at_most)) for one in placed)
    return verdict_of_all(one.is_memory_bound for one, found in shares if found.verdict is Verdict.SUPPORTED)
