"""One expression in every way: what it moves, holds and takes, what its bytes predict, and powers by a library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.chapters import sources
from tinytorch.core.op import Array
from tinytorch.perf.acceleration.functions import fused_gelu
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.memory import MemoryProfiler
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.report import Column, Page, verdict_between

#: GELU's constants, as a reader would write them.
_ROOT, _CUBIC = np.float32(0.7978845608028654), np.float32(0.044715)
_HALF, _ONE = np.float32(0.5), np.float32(1)
EXPRESSION = (
    Column("way", "GELU, written"),
    Column("far", "Memory traffic", "B"),
    Column("predicted", "By traffic alone", modelled=True),
    Column("seconds", "Measured"),
    Column("beyond", "Held beyond the result", "B"),
    Column("faults", "Page faults", "1"),
)
#: What the page calls the ways.
_SAID = {
    "steps": "step by step",
    "line": "one line",
    "in place": "in place",
    "in blocks": "in blocks",
    "fused": "one compiled pass",
}


def gelu_in_steps(x: Array) -> Array:
    """GELU with a name for each intermediate array, which keeps it."""
    cube = x * x * x
    inner = _ROOT * (x + _CUBIC * cube)
    outer = _ONE + np.tanh(inner)
    return np.asarray(_HALF * x * outer)


def gelu_expression(x: Array) -> Array:
    """GELU in one line of NumPy, which runs operator by operator."""
    return np.asarray(0.5 * x * (1 + np.tanh(_ROOT * (x + _CUBIC * (x * x * x)))))


def gelu_in_place(x: Array) -> Array:
    """The same with one array that every step writes to: no temporaries, but still a pass over memory for each."""
    output = x * x
    output *= x
    output *= _CUBIC
    output += x
    output *= _ROOT
    np.tanh(output, out=output)
    output += _ONE
    output *= x
    output *= _HALF
    return output


def gelu_in_blocks(x: Array, block: int = 16_384) -> Array:
    """The same, a block at a time, that stays in cache through all its passes.

    Raises:
        ValueError: if ``block`` is below 1.
    """
    if block < 1:
        raise ValueError(f"block must be at least 1, not {block}")
    flat = np.ascontiguousarray(x).reshape(-1)
    output = np.empty_like(flat)
    for start in range(0, flat.size, block):
        output[start : start + block] = gelu_in_place(flat[start : start + block])
    return output.reshape(x.shape)


def gelu_in_one_pass(x: Array) -> Array:
    """The same in one compiled pass."""
    return np.asarray(fused_gelu(np.asarray(x)))


#: From what one writes first to what NumPy cannot do alone.
EXPRESSIONS: dict[str, Callable[[Array], Array]] = {
    "steps": gelu_in_steps,
    "line": gelu_expression,
    "in place": gelu_in_place,
    "in blocks": gelu_in_blocks,
    "fused": gelu_in_one_pass,
}


@dataclass(frozen=True)
class Expression:
    """Cost of one way to write an expression on an array.

    Attributes:
        seconds: of a call; its conditions hold the page faults.
        peak_bytes: the most that a call had allocated at a time, its result included, as tracemalloc saw it.
        result_bytes: of the result.
        passes_bytes: bytes that operators read and wrote, by the count of those that ran: operands and results.
    """

    name: str
    seconds: Measurement
    peak_bytes: int
    result_bytes: int
    passes_bytes: int

    @property
    def temporary_bytes(self) -> int:
        """Bytes beyond the result at the worst moment."""
        return self.peak_bytes - self.result_bytes

    @property
    def page_faults(self) -> float:
        """Minor page faults of a call."""
        return self.seconds.conditions.page_faults_per_call or 0.0


class _Counted(np.ndarray[Any, Any]):
    """An array that writes down the bytes of every ufunc that it goes through."""

    moved = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [each.view(np.ndarray) if isinstance(each, _Counted) else each for each in inputs]
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(each.view(np.ndarray) for each in out)
        result = getattr(ufunc, method)(*plain, **kwargs)
        arrays = [each for each in plain if isinstance(each, np.ndarray) and each.ndim]
        _Counted.moved += sum(each.nbytes for each in arrays) + result.nbytes
        return out[0] if out is not None else result.view(_Counted)


def passes_bytes(function: Callable[[Array], Array], x: Array) -> int:
    """Return the bytes that the ufuncs of ``function(x)`` read and write: each array operand once, each result once."""
    _Counted.moved = 0
    function(x.view(_Counted))
    return _Counted.moved


def study_expressions(
    shape: tuple[int, ...] = (4000, 4000),
    expressions: Mapping[str, Callable[[Array], Array]] = EXPRESSIONS,
    *,
    repeats: int = 10,
    at_most_seconds: float = 10.0,
    seed: int = 0,
) -> list[Expression]:
    """Return the cost of each way to write GELU on float32 standard normal numbers of ``shape``, timed in turns."""
    x = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)

    def fresh() -> dict[str, Callable[[], Array]]:
        elsewhere = x.copy()
        return {name: partial(function, elsewhere) for name, function in expressions.items()}

    times = interleave(fresh, repeats=repeats, at_most_seconds=at_most_seconds, warmup_seconds=0.1)
    found = []
    for name, function in expressions.items():
        memory = MemoryProfiler().profile(function, (x,), calls=1)
        peak = memory["needed_mb"] * MIB
        moved = passes_bytes(function, x)
        found.append(Expression(name, times[name], round(peak), memory["result"].nbytes, moved))
    return found


def power_cliff(size: int = 100_000, repeats: int = 10, seed: int = 0) -> dict[str, Measurement]:
    """Return the time of a cube by ``x**3`` and by ``x*x*x``, of positive and of negative float32 numbers, in turns.

    The keys are "x**3, positive", "x*x*x, positive", "x**3, negative" and "x*x*x, negative".

    Raises:
        ValueError: if ``size`` is below 1.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, not {size}")
    positive = np.abs(np.random.default_rng(seed).standard_normal(size, dtype=np.float32))

    def fresh() -> dict[str, Callable[[], Any]]:
        runs: dict[str, Callable[[], Any]] = {}
        for sign, x in (("positive", positive.copy()), ("negative", -positive)):
            runs |= {f"x**3, {sign}": partial(_power, x), f"x*x*x, {sign}": partial(_product, x)}
        return runs

    return interleave(fresh, repeats=repeats, at_most_seconds=1.5, warmup_seconds=0.05)


def _power(x: Array) -> Any:
    return x**3


def _product(x: Array) -> Any:
    return x * x * x


def record_expressions(page: Page, costs: Sequence[Expression], machine: Ceilings) -> None:
    """Show what each way to write GELU moves and takes, beside what the bytes alone predict.

    Args:
        page: where to.
        costs: of "steps", `EXPRESSIONS` and "fused", all on one float32 array.
        machine: ceilings of one thread.
    """
    by_name = {cost.name: cost for cost in costs}
    moved = _moved_bytes(by_name)
    far = {**moved, "in blocks": moved["fused"]}  # within a block the operators meet a cache
    memory = machine.levels[-1].copy
    predicted = {name: memory.per(far[name], "s", f"traffic of {_SAID[name]} over the bandwidth") for name in far}
    page.table(
        "expressions",
        [
            {
                "way": _SAID[cost.name],
                "far": far[cost.name],
                "predicted": Modelled.by("the bytes, at the bandwidth", predicted[cost.name]),
                "seconds": cost.seconds,
                "beyond": max(cost.temporary_bytes, 0),
                "faults": round(cost.page_faults),
            }
            for cost in costs
        ],
        EXPRESSION,
        caption="GELU of 4000 × 4000 float32 numbers. Traffic is counted on the operators that ran, and for blocks, "
        "whose operators meet a cache, as one pass. Memory is the peak that tracemalloc saw.",
    )
    line, fused = by_name["line"], by_name["fused"]
    page.compare("one-line", compare_paired(by_name["steps"].seconds, line.seconds, matters=0.25))
    both = "bytes that the operators"
    page.number("moved-line", moved["line"], unit="B", what=f"{both} of one line read and write")
    page.number("moved-steps", moved["steps"], unit="B", what=f"{both} step by step read and write")
    what = "bytes to read the input once and write the output once"
    page.number("moved-least", moved["fused"], unit="B", what=what)
    more = moved["line"] / moved["fused"]
    page.number("moved-ratio", Counted(more, "", "bytes of one line over the least that are needed"))
    page.number("memory-copy", memory)
    page.number("predicted-line", Modelled.by("the bytes, at the bandwidth", predicted["line"]))
    page.number("predicted-fused", Modelled.by("the bytes, at the bandwidth", predicted["fused"]))
    page.number("time-line", line.seconds)
    page.number("time-fused", fused.seconds)
    page.number("line-gain", ratio(line.seconds, fused.seconds, "time of one line over that of one compiled pass"))
    in_place, in_blocks = by_name["in place"].seconds, by_name["in blocks"].seconds
    page.number("in-place-gain", ratio(line.seconds, in_place, "time of one line over that in place"))
    page.number("blocks-gain", ratio(line.seconds, in_blocks, "time of one line over that in blocks"))
    best = min(in_place, in_blocks, key=lambda seconds: seconds.median)
    what = f"time of the best way of NumPy, {best.name}, over that of one compiled pass"
    page.number("fused-gain", ratio(best, fused.seconds, what))
    beyond = max(line.temporary_bytes, 0)
    page.number("line-beyond", beyond, unit="B", what="memory that one line holds beyond its result")
    page.number("fault-cost", machine.page_fault)
    page.number("fault-share", Modelled.by("the cost of a page fault times their number", _faulting(line, machine)))
    what = "largest error of the compiled pass against float64, over the largest value"
    page.number("fused-error", Counted(fused_error(), "1", what))


def _moved_bytes(by_name: Mapping[str, Expression]) -> dict[str, int]:
    """Return the bytes that each way reads and writes.

    What is no ufunc is not counted: the compiled pass reads its input once and writes its result once.
    """
    moved = {name: cost.passes_bytes or 2 * cost.result_bytes for name, cost in by_name.items()}
    return {**moved, "in blocks": moved["in place"]}  # the same operators, block by block


def _faulting(cost: Expression, machine: Ceilings) -> Measurement:
    """Return the page faults of a call times the cost of one, as a share of its time."""
    name = f"page faults times the cost of one, of the time of {_SAID[cost.name]}"
    if not cost.page_faults:
        return Counted(0.0, "%", name)
    return quotient(machine.page_fault.scaled(cost.page_faults), cost.seconds, name, "%")


def fused_error() -> float:
    """Return the largest difference of the compiled pass from GELU in float64, over GELU's largest value."""
    x = np.random.default_rng(1).standard_normal(100_000, dtype=np.float32)
    wide = x.astype(np.float64)
    exact = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    return float(np.abs(np.asarray(fused_gelu(x)) - exact).max() / np.abs(exact).max())


def record_cliff(page: Page, cliff: Mapping[str, Measurement]) -> None:
    """Record what ``x**3`` takes beside products, of positive and of negative numbers."""
    over = "x**3 over x*x*x"
    negative, positive = cliff["x**3, negative"], cliff["x**3, positive"]
    page.number("cliff-negative", ratio(negative, cliff["x*x*x, negative"], f"{over}, negative numbers"))
    page.number("cliff-positive", ratio(positive, cliff["x*x*x, positive"], f"{over}, positive numbers"))


def claim_fusion(page: Page, costs: Sequence[Expression]) -> None:
    """Record the claims on one line of NumPy and on fusion, of `record_expressions`' numbers."""
    by_name = {cost.name: cost for cost in costs}
    moved, line = _moved_bytes(by_name), by_name["line"]
    page.claim(
        "expression-tree",
        statement="NumPy optimizes an expression that stands in one line.",
        quote="Keep entire expression in one line for maximum fusion … NumPy will optimize the expression tree "
        "automatically",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(Counted(moved["line"], "B", "one line"), high=1.5 * moved["fused"]),
        evidence="In one line the operators read and wrote {moved-line}, step by step {moved-steps}. One pass needs "
        "{moved-least}. The test asks for at most half more than one pass.",
        counted=True,
    )
    beyond = max(line.temporary_bytes, 0)
    page.claim(
        "no-temporaries",
        statement="GELU in one line of NumPy makes no temporary array.",
        quote="Fused: 0 temporary arrays, direct computation",
        source=f"{sources.COURSE_ACCELERATION}, of its fused_gelu",
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(Counted(beyond, "B", "beyond the result"), high=0.5 * line.result_bytes),
        evidence="The line holds {line-beyond} beyond its result. The test asks for less than half an array.",
        counted=True,
    )
    page.claim(
        "fusion-throughput",
        statement="Kernel fusion gives 2 to 3 times the throughput.",
        quote="2-3× throughput from kernel fusion",
        source=f"{sources.COURSE_ACCELERATION}, whose fused_gelu is one line of NumPy",
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(ratio(by_name["steps"].seconds, line.seconds), low=2.0, high=3.0),
        evidence="The course's way, one line, ran {one-line} as fast as its steps. A compiled pass, which is fused, "
        "ran {line-gain} as fast as the line. The test asks for a factor from 2 to 3 of the former.",
    )
    page.number("course-saving", Modelled(1 - 12 / 20, "%", "saving from 20 to 12", "arithmetic"))
    page.claim(
        "course-sixty",
        statement="From 20 GB to 12 GB is a reduction by 60 %.",
        quote="Total: 20GB memory traffic! … Total: 12GB memory traffic! 60% memory bandwidth reduction!",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(Counted(100 * (20 - 12), "", "saving from 20 to 12"), low=60 * 20, high=60 * 20),
        evidence="From 20 to 12 is {course-saving} less; what is left is not what was saved.",
        counted=True,
    )
