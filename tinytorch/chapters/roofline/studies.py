"""What the page on rooflines computes: where its calls stand, where a curve bends, and what a GELU moves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinytorch.chapters import calls
from tinytorch.chapters.gpt2 import GPT2, read_seconds
from tinytorch.core.op import Array
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.time_bound import at_rate
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Quoted, derived, of_rounds, ratio
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between, verdict_of_all
from tinytorch.perf.roofline.bounds import Demand, Slope, share_of, slope_at, verdict
from tinytorch.perf.roofline.placement import Placed, ridge_of

_ROOFLINE = "the roofline"


def by_hand(name: str, counted: tuple[int, int], seconds: Measurement, machine: Ceilings) -> Placed:
    """Return one call under its roof whose operations and bytes a reader counted."""
    operations, moved = counted
    demand = Demand(0, operations, moved, 1, moved, ((moved, 1),))
    slope = slope_at(moved, machine)
    longer = at_rate(operations, machine.fp32_peak).longer(at_rate(moved, slope.bandwidth))
    call = min(machine.calls.kernel.values(), key=lambda one: one.median)
    roof = longer.measurement("time at the roof")
    return Placed(name, demand, seconds, roof, slope, verdict(demand, seconds, machine, call))


def bend(times: Mapping[int, Measurement]) -> Measurement:
    """Return at how many rows the rise of the last times meets the first time: the crossing, as the clock has it.

    Args:
        times: by rows, taken in turns; it rises from a quarter of the most rows to the most.
    """
    most = max(times)
    before = most // 4

    def met(one: Array, less: Array, more: Array) -> Array:
        return one * (most - before) / (more - less)

    name = "rows at which the time of one meets the rise of the last"
    return of_rounds(name, met, times[min(times)], times[before], times[most], unit="rows")


def growth_by_laws(met: Measurement, rows: int) -> tuple[Modelled, Modelled]:
    """Return the time of rows over that of one row, with full overlap and with none, for a curve with this bend."""
    hidden = derived(f"predicted growth to {rows} rows, overlap", lambda at: np.maximum(1, rows / at), met)
    in_turn = derived(f"predicted growth to {rows} rows, no overlap", lambda at: 1 + (rows - 1) / at, met)
    return Modelled.by("full overlap", hidden), Modelled.by("no overlap", in_turn)


def crossing(slope: Slope, machine: Ceilings) -> Measurement:
    """Return the rows from which arithmetic decides, of float32 weights that travel on a slope."""
    return ridge_of(machine, slope).scaled(2, "rows", "predicted crossing")


def under_one_slope(machine: Ceilings, slope: Slope) -> Ceilings:
    """Return the ceilings with the slope as their only level, for a figure of points that were sampled with it."""
    found = slope.bandwidth
    return replace(machine, levels=(replace(machine.levels[-1], read=found, copy=found, triad=found),))


@dataclass(frozen=True, slots=True)
class Growth:
    """How many times as long a call took as the smallest, and by a call and the bytes after it should."""

    measured: Measurement
    predicted: Modelled
    over_predicted: Measurement


def growth(additions: Mapping[int, Placed]) -> dict[int, Growth]:
    """Return the growth of each addition over the smallest, which stands for a call."""
    call = additions[min(additions)].seconds
    found: dict[int, Growth] = {}
    for count, one in additions.items():
        measured = ratio(one.seconds, call, f"addition of {count} numbers over one of {min(additions)}")
        bytes_ = share_of(one.roof, call, "")
        predicted = derived(f"predicted growth, {count} numbers", lambda share: 1 + share, bytes_)
        law = Modelled.by("a call, and the bytes after it", predicted)
        found[count] = Growth(measured, law, ratio(measured, predicted, f"growth over prediction, {count} numbers"))
    return found


class CountingArray(np.ndarray[Any, Any]):
    """An array that counts the arrays which NumPy reads and writes in steps with it."""

    arrays = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **kwargs: Any) -> Any:
        plain = [one.view(np.ndarray) if isinstance(one, CountingArray) else one for one in inputs]
        CountingArray.arrays += sum(isinstance(one, np.ndarray) for one in plain) + 1
        if out:
            kwargs["out"] = tuple(one.view(np.ndarray) for one in out)
        return np.asarray(getattr(ufunc, method)(*plain, **kwargs)).view(CountingArray)


def arrays_moved(function: Callable[..., Array], name: str, buffers: int = 0) -> Counted:
    """Return how many arrays NumPy reads and writes in a function of one array and of as many to write to."""
    CountingArray.arrays = 0
    given = np.ones(8, np.float32).view(CountingArray)
    function(given, *(np.empty_like(given) for _ in range(buffers)))
    return Counted(CountingArray.arrays, "arrays", f"arrays that {name} reads and writes")


def course_gelu(x: Array) -> Array:
    """Return the GELU as the course writes it on one line.

    Source: TinyTorch course, module 16, Acceleration, ``fused_gelu``.
    """
    c = np.float32(np.sqrt(2 / np.pi))
    return np.asarray(0.5 * x * (1 + np.tanh(c * (x + 0.044715 * x**3))))


def course_gelu_in_steps(x: Array) -> Array:
    """Return the GELU as the course writes it in steps.

    Source: TinyTorch course, module 16, Acceleration, ``unfused_gelu``.
    """
    c = np.float32(np.sqrt(2 / np.pi))
    temp1 = x**3
    temp2 = 0.044715 * temp1
    temp3 = c * (x + temp2)
    temp4 = 1 + np.tanh(temp3)
    return np.asarray(0.5 * (x * temp4))


def explained_by_steps(whole: Placed, tangent: Placed, moved: Counted, calls: int) -> Measurement:
    """Return the share of a GELU's time that its timed tangent, and the bytes and calls of its other steps, explain.

    Args:
        whole: the GELU, in turns with the tangent on as many numbers; the roof of both is that of two arrays.
        tangent: one of its steps.
        moved: arrays that all steps read and write, of which the tangent has two.
        calls: of NumPy, of which the tangent is one.
    """
    passes = moved.value / 2 - 1
    return derived(
        "share of the GELU's time that its steps explain",
        lambda taken, roof, call: taken + passes * roof + (calls - 1) * call,
        ratio(tangent.seconds, whole.seconds),
        whole.of_roof,
        whole.verdict.overhead.share,
        unit="%",
    )


def gain_at_roof(part: Placed, rest: Placed) -> Measurement:
    """Return the speedup of a whole, a part and the rest, if the part took no longer than its roof allows."""
    share = of_rounds(f"share of {part.name}", lambda one, other: one / (one + other), part.seconds, rest.seconds)
    name = f"predicted speedup with {part.name} at the roof"
    return derived(name, lambda taken, reached: 1 / (1 - taken * (1 - reached)), share, part.of_roof)


def passes(placed: Mapping[tuple[str, int], Placed]) -> dict[tuple[str, int], Placed]:
    """Return forward passes of the zoo, by model and batch, whose times have the names of their calls."""
    return {key: replace(one, seconds=calls.zoo_pass(one.seconds, *key)) for key, one in placed.items()}


def chips(promised: Mapping[str, tuple[float, float, str]]) -> list[dict[str, Any]]:
    """Return a row for each chip: its peak in 16 bits and its memory, as promised, and the ridge that follows.

    Args:
        promised: by name, operations a second, bytes a second, and who says so.
    """
    return [
        {
            "name": name,
            "peak": Quoted(peak, "FLOP/s", f"peak of {name} in 16 bits", says),
            "memory": Quoted(memory, "B/s", f"memory of {name}", says),
            "ridge": Modelled(peak / memory, "FLOP/B", f"ridge point of {name}", "peak over bandwidth, as quoted"),
        }
        for name, (peak, memory, says) in promised.items()
    ]


def gpt2_step(machine: Ceilings) -> tuple[Modelled, Modelled]:
    """Return the least times of a step of GPT-2 by its bytes and by its arithmetic."""
    read = read_seconds(GPT2.step_bytes, machine).measurement("GPT-2's weights, read once")
    arithmetic = at_rate(GPT2.step_flops(), machine.fp32_peak).measurement("a step of GPT-2 at the peak")
    return Modelled.by(_ROOFLINE, read), Modelled.by(_ROOFLINE, arithmetic)


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
