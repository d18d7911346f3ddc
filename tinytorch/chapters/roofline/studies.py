"""What the page on rooflines computes: where bytes come from, what was predicted, and what bounds what was placed."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinytorch.chapters import calls
from tinytorch.chapters.gpt2 import GPT2, read_seconds
from tinytorch.core.op import Array
from tinytorch.core.ops.elementwise import BLOCK
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.call_costs import call_key
from tinytorch.perf.machine.time_bound import added, at_cost, at_rate, in_a_row
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Quoted, Unmeasured, quotient, ratio
from tinytorch.perf.measuring.conditions import of_interleaved
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between, verdict_of_all
from tinytorch.perf.roofline.bounds import Demand, Slope, best_bandwidth, slope_at, verdict
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
    """Return each level of the memory as a source of as many bytes as it keeps."""
    return {
        level.name: source(Slope(level.name, level.name, best_bandwidth(level)), machine, level.capacity)
        for level in machine.levels
    }


def by_hand(name: str, operations: int, moved: int, seconds: Measurement, machine: Ceilings) -> Placed:
    """Return one call under its roof whose operations and bytes a reader counted."""
    demand = Demand(0, operations, moved, 1, moved, ((moved, 1),))
    slope = slope_at(moved, machine)
    longer = at_rate(operations, machine.fp32_peak).longer(at_rate(moved, slope.bandwidth))
    call = min(machine.calls.kernel.values(), key=lambda one: one.median)
    roof = longer.measurement("time at the roof")
    return Placed(name, demand, seconds, roof, slope, verdict(demand, seconds, machine, call))


@dataclass(frozen=True)
class Product:
    """A product of so many rows with the same weights."""

    rows: int
    placed: Placed


def products(times: Mapping[int, Measurement], inner: int, columns: int, machine: Ceilings) -> dict[int, Product]:
    """Return products of more and more rows with weights of this size, each operand of which moves once."""
    return {
        rows: Product(
            rows,
            by_hand(
                f"{rows} rows",
                2 * rows * inner * columns,
                _NUMBER * (inner * columns + rows * (inner + columns)),
                seconds,
                machine,
            ),
        )
        for rows, seconds in times.items()
    }


@dataclass(frozen=True)
class Crossing:
    """Rows from which arithmetic decides, by the formula, and where the time of one row was found to double.

    ``bend`` is where the time of one row meets the rise of the last ones, and ``over`` how many times as many rows
    double it: one if bytes and arithmetic of the kernel add up, two if the shorter of them is hidden. ``few`` and
    ``many`` are what more rows cost: four over one, and the most over a quarter of them.
    """

    ridge: Measurement
    predicted: Modelled
    bend: Measurement
    doubled: Measurement | Unmeasured
    over: Measurement | Unmeasured
    few: Measurement
    many: Measurement


def crossing(rows: Mapping[int, Product], machine: Ceilings) -> Crossing:
    """Return the crossing of products of 1, 2, 4 and more rows."""
    times = {count: one.placed.seconds for count, one in rows.items()}
    most, found = max(times), source(rows[1].placed.slope, machine)
    doubled = over = rows_at_twice(times)
    rounds = zip(*(times[rows].samples for rows in (1, most // 4, most)), strict=True)
    met = [one * (most - most // 4) / (last - before) for one, before, last in rounds]
    if isinstance(doubled, Measurement):
        over = _of_rounds(times, "rows at twice over the bend", "", np.divide(doubled.samples, met).tolist())
    return Crossing(
        found.ridge,
        Modelled.by(_ROOFLINE, found.ridge.scaled(2, "rows", "predicted crossing")),
        _of_rounds(times, "rows at which the time of one meets the rise of the last", "rows", met),
        doubled,
        over,
        ratio(times[4], times[1], "four rows over one"),
        ratio(times[most], times[most // 4], f"{most} rows over {most // 4}"),
    )


def rows_at_twice(times: Mapping[int, Measurement]) -> Measurement | Unmeasured:
    """Return at how many rows the time is twice that of the fewest, between neighbours on logarithmic axes."""
    first, *others = times
    growth = {rows: ratio(times[rows], times[first]) for rows in others}
    found: list[float] = []
    for round_ in zip(*(one.samples for one in growth.values()), strict=True):
        steps = [(first, 1.0), *zip(growth, round_, strict=True)]
        over = next((at for at, (_, grown) in enumerate(steps) if grown >= 2), None)
        if over is None:
            return Unmeasured(f"{others[-1]} rows did not always take twice the time of one")
        (below, less), (above, more) = steps[over - 1], steps[over]
        found.append(below * (above / below) ** (math.log(2 / less) / math.log(more / less)))
    return _of_rounds(times, "rows that take twice the time of one", "rows", found)


def _of_rounds(times: Mapping[int, Measurement], name: str, unit: str, found: Sequence[float]) -> Measurement:
    """Return what was found in each round of times that were taken in turns."""
    one, many = times[min(times)], times[max(times)]
    sides = {"one": one.conditions, "many": many.conditions}
    return Measurement(name, tuple(found), unit, of_interleaved(sides, (one.name, many.name), found))


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
    slope: Slope
    passes: Modelled
    calls: Counted
    calling: Modelled
    predicted: Modelled


def gelu_by_steps(tanh: Placed, machine: Ceilings) -> Gelu:
    """Return what the steps of a GELU take, of which the tangent was timed by itself on the whole array."""
    array, size = tanh.demand.bytes // 2, 3 * _NUMBER * BLOCK
    slope, steps = slope_at(size, machine), GELU_STEPS * math.ceil(array / (_NUMBER * BLOCK))
    cheap = at_rate((GELU_ARRAYS - 2) * array, slope.bandwidth)  # the tangent's two are in its own time
    through = cheap.measurement(f"{GELU_STEPS - 1} passes over blocks in a cache")
    costs = machine.calls.kernel
    cost = costs.get(call_key("multiply", "numpy", "forward", 2)) or min(costs.values(), key=lambda one: one.median)
    every = added([at_cost(steps, cost)]).measurement("calls of GELU's steps, each at its least cost")
    predicted = in_a_row(through, tanh.seconds, every)
    return Gelu(
        Counted(GELU_ARRAYS * array, "B", "bytes that GELU's steps read and write"),
        slope,
        Modelled.by("the bytes, at the bandwidth", through),
        Counted(steps, "calls", "calls of NumPy in a GELU"),
        Modelled.by("the least cost of each call", every),
        Modelled.by("passes and calls, one after the other", predicted, "predicted time of GELU"),
    )


class CountingArray(np.ndarray[Any, Any]):
    """An array that counts the steps that NumPy takes with it, and the arrays that these read and write."""

    steps = arrays = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **kwargs: Any) -> Any:
        plain = [one.view(np.ndarray) if isinstance(one, CountingArray) else one for one in inputs]
        CountingArray.steps += 1
        CountingArray.arrays += sum(isinstance(one, np.ndarray) for one in plain) + 1
        if out:
            kwargs["out"] = tuple(one.view(np.ndarray) for one in out)
        return np.asarray(getattr(ufunc, method)(*plain, **kwargs)).view(CountingArray)


def arrays_moved(function: Callable[[Array], Array], name: str) -> Counted:
    """Return how many arrays NumPy reads and writes in a function of one array."""
    CountingArray.arrays = 0
    function(np.ones(8, np.float32).view(CountingArray))
    return Counted(CountingArray.arrays, "arrays", f"arrays that {name} reads and writes")


def passes(placed: Mapping[tuple[str, int], Placed]) -> dict[tuple[str, int], Placed]:
    """Return forward passes of the zoo, by model and batch, whose times have the names of their calls."""
    return {key: replace(one, seconds=calls.zoo_pass(one.seconds, *key)) for key, one in placed.items()}


def chips(promised: Mapping[str, tuple[float, float, float, str]]) -> list[dict[str, Any]]:
    """Return a row for each chip: its peaks in 16 and 8 bits and its memory, as promised, and the ridges that follow.

    Args:
        promised: by name, operations a second in 16 and in 8 bits, bytes a second, and who says so.
    """

    def corner(peak: float, memory: float, what: str) -> Modelled:
        return Modelled(peak / memory, "FLOP/B", f"ridge point of {what}", "peak over bandwidth, as quoted")

    return [
        {
            "name": name,
            "peak": Quoted(peak, "FLOP/s", f"peak of {name} in 16 bits", says),
            "peak_in_8": Quoted(peak_in_8, "FLOP/s", f"peak of {name} in 8 bits", says),
            "memory": Quoted(memory, "B/s", f"memory of {name}", says),
            "ridge": corner(peak, memory, f"{name} in 16 bits"),
            "ridge_in_8": corner(peak_in_8, memory, f"{name} in 8 bits"),
        }
        for name, (peak, peak_in_8, memory, says) in promised.items()
    ]


def gain_of_twice_the_bandwidth(one: Placed, machine: Ceilings) -> Modelled:
    """Return the speedup that the model predicts for what lives in memory, if memory were twice as fast."""
    arithmetic = one.demand.operations / machine.fp32_peak.median
    traffic = one.demand.bytes / best_bandwidth(machine.levels[-1]).median
    gain = max(arithmetic, traffic) / max(arithmetic, traffic / 2)
    return Modelled(gain, "", "predicted speedup with twice the bandwidth", _ROOFLINE)


def gpt2_step(machine: Ceilings) -> tuple[Modelled, Modelled, Modelled]:
    """Return the least times of a step of GPT-2 by its bytes and by its arithmetic, and the tokens that equal them."""
    read = read_seconds(GPT2.step_bytes, machine).measurement("GPT-2's weights, read once")
    arithmetic = at_rate(GPT2.step_flops(), machine.fp32_peak).measurement("a step of GPT-2 at the peak")
    together = quotient(read, arithmetic, "tokens whose arithmetic takes as long as GPT-2's weights", "tokens")
    return Modelled.by(_ROOFLINE, read), Modelled.by(_ROOFLINE, arithmetic), Modelled.by(_ROOFLINE, together)


def overhead_if_alike(pairs: Iterable[Sequence[Placed]], at_most: float) -> Judgement:
    """Return whether calls bound the first of each pair, of which the second surely takes at most so much longer."""
    alike = [
        one
        for one, twice in pairs
        if verdict_between(ratio(twice.seconds, one.seconds), high=at_most).verdict is Verdict.SUPPORTED
    ]
    return verdict_of_all(one.verdict.is_overhead_bound for one in alike)


def memory_if_slow(placed: Iterable[Placed], at_most: float) -> Judgement:
    """Return whether memory bounds all that surely reach at most this share of the peak."""
    shares = ((one.verdict, verdict_between(one.verdict.compute.share, high=at_most)) for one in placed)
    return verdict_of_all(one.is_memory_bound for one, found in shares if found.verdict is Verdict.SUPPORTED)
