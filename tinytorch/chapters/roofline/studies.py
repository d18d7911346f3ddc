"""What the page on rooflines computes: where its calls stand, where a curve bends, and what a GELU moves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
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


def crossing(slope: Slope, machine: Ceilings) -> Measurement:
    """Return the rows from which arithmetic decides, of float32 weights that travel on a slope."""
    return ridge_of(machine, slope).scaled(2, "rows", "predicted crossing")


def growth(additions: Mapping[int, Placed]) -> dict[int, dict[str, Measurement | Modelled]]:
    """Return how many times as long each addition took as the smallest, and by a call and the bytes after it should."""
    call = additions[min(additions)].seconds
    return {
        count: {
            "measured": ratio(one.seconds, call, f"addition of {count} numbers over one of {min(additions)}"),
            "predicted": Modelled.by(
                "a call, and the bytes after it",
                derived(f"predicted growth, {count} numbers", lambda bytes_: 1 + bytes_, share_of(one.roof, call, "")),
            ),
        }
        for count, one in additions.items()
    }


class CountingArray(np.ndarray[Any, Any]):
    """An array that counts the arrays which NumPy reads and writes in steps with it."""

    arrays = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **kwargs: Any) -> Any:
        plain = [one.view(np.ndarray) if isinstance(one, CountingArray) else one for one in inputs]
        CountingArray.arrays += sum(isinstance(one, np.ndarray) for one in plain) + 1
        if out:
            kwargs["out"] = tuple(one.view(np.ndarray) for one in out)
        return np.asarray(getattr(ufunc, method)(*plain, **kwargs)).view(CountingArray)


def arrays_moved(function: Callable[[Array], Array], name: str) -> Counted:
    """Return how many arrays NumPy reads and writes in a function of one array."""
    CountingArray.arrays = 0
    function(np.ones(8, np.float32).view(CountingArray))
    return Counted(CountingArray.arrays, "arrays", f"arrays that {name} reads and writes")


def share_by_steps(tangent: Placed, moved: Counted) -> Modelled:
    """Return the share of its roof that a GELU should reach whose tangent was timed and whose other steps are bytes.

    Args:
        tangent: on as many numbers, so that it has the same roof.
        moved: arrays that all steps read and write, of which the tangent has two.
    """
    passes = moved.value / 2 - 1
    name = "predicted share of the roof of GELU"
    share = derived(name, lambda reached: 1 / (1 / reached + passes), tangent.of_roof, unit="%")
    return Modelled.by("the tangent, and the other passes at the bandwidth", share)


def passes(placed: Mapping[tuple[str, int], Placed]) -> dict[tuple[str, int], Placed]:
    """Return forward passes of the zoo, by model and batch, whose times have the names of their calls."""
    return {key: replace(one, seconds=calls.zoo_pass(one.seconds, *key)) for key, one in placed.items()}


def chips(promised: Mapping[str, tuple[float, float, float, str]]) -> list[dict[str, Any]]:
    """Return a row for each chip: its peaks in 16 and 8 bits and its memory, as promised, and the ridges that follow.

    Args:
        promised: by name, operations a second in 16 and in 8 bits, bytes a second, and who says so.
    """
    return [
        {
            "name": name,
            "memory": Quoted(memory, "B/s", f"memory of {name}", says),
            **{f"peak_{bits}": Quoted(peak, "FLOP/s", f"peak of {name} in {bits} bits", says) for bits, peak in peaks},
            **{
                f"ridge_{bits}": Modelled(
                    peak / memory, "FLOP/B", f"ridge point of {name} in {bits} bits", "peak over bandwidth, as quoted"
                )
                for bits, peak in peaks
            },
        }
        for name, (peak_16, peak_8, memory, says) in promised.items()
        for peaks in [((16, peak_16), (8, peak_8))]
    ]


def gain_of_twice_the_bandwidth(one: Placed) -> Modelled:
    """Return the speedup that the model predicts if the memory that a call's bytes lie in were twice as fast."""
    arithmetic, traffic = one.computing.value, one.moving.value
    gain = max(arithmetic, traffic) / max(arithmetic, traffic / 2)
    return Modelled(gain, "", "predicted speedup with twice the bandwidth", _ROOFLINE)


def gpt2_step(machine: Ceilings) -> tuple[Modelled, Modelled, Modelled]:
    """Return the least times of a step of GPT-2 by its bytes and by its arithmetic, and the tokens that equal them."""
    read = read_seconds(GPT2.step_bytes, machine).measurement("GPT-2's weights, read once")
    arithmetic = at_rate(GPT2.step_flops(), machine.fp32_peak).measurement("a step of GPT-2 at the peak")
    corner = ridge_of(machine, slope_at(GPT2.step_bytes, machine))
    tokens = corner.scaled(GPT2.step_bytes / GPT2.step_flops(), "tokens", "tokens that take as long as GPT-2's weights")
    return Modelled.by(_ROOFLINE, read), Modelled.by(_ROOFLINE, arithmetic), Modelled.by(_ROOFLINE, tokens)


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
