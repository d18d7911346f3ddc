"""Cost of one long NumPy expression: temporaries, page faults, the cliff of x**3, and how far from the roof it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.chapters import sources
from tinytorch.chapters.roofline.figure import placed_table, roofline_figure
from tinytorch.core.op import Array
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement, interleave, quantity, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.memory import MemoryProfiler
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.roofline.placement import Placed
from tinytorch.report import Column, Page, verdict_between

#: GELU's constants, as a reader would write them.
_ROOT, _CUBIC = np.float32(0.7978845608028654), np.float32(0.044715)
_HALF, _ONE = np.float32(0.5), np.float32(1)
EXPRESSION = (
    Column("way", "GELU, written"),
    Column("seconds", "Time"),
    Column("moved", "Operators read and write", "B"),
    Column("beyond", "Held beyond the result", "B"),
    Column("faults", "Page faults", "1"),
    Column("faulting", "Time in faults, at most", "%", modelled=True),
)
#: What the page calls the ways.
_SAID = {
    "steps": "step by step",
    "x**3": "one line, x**3",
    "x*x*x": "one line, x * x * x",
    "in place": "in place",
    "in blocks": "in blocks",
    "fused": "one compiled pass",
}


def gelu_with_power(x: Array) -> Array:
    """GELU as most write it, with ``x**3``: NumPy computes a power of each element, by a function of the C library."""
    return np.asarray(_HALF * x * (_ONE + np.tanh(_ROOT * (x + _CUBIC * x**3))))


def gelu_expression(x: Array) -> Array:
    """The same with ``x * x * x``: the honest one-line version. Every operator makes an array."""
    return np.asarray(_HALF * x * (_ONE + np.tanh(_ROOT * (x + _CUBIC * (x * x * x)))))


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


#: From the slowest to the fastest that NumPy alone can.
EXPRESSIONS: dict[str, Callable[[Array], Array]] = {
    "x**3": gelu_with_power,
    "x*x*x": gelu_expression,
    "in place": gelu_in_place,
    "in blocks": gelu_in_blocks,
}


@dataclass(frozen=True)
class Expression:
    """Cost of one way to write an expression on an array.

    Attributes:
        seconds: of a call; ``how["minor_page_faults_per_call"]`` is in it.
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
        return float(self.seconds.how["minor_page_faults_per_call"])


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
    shape: tuple[int, ...] = (2000, 2000),
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

    times = interleave(fresh, repeats=repeats, at_most_seconds=at_most_seconds)
    found = []
    for name, function in expressions.items():
        peak = MemoryProfiler().profile(function, (x,), calls=1)["needed_mb"] * MIB
        moved = passes_bytes(function, x)
        found.append(Expression(name, times[name], round(peak), function(x).nbytes, moved))
    return found


def power_cliff(size: int = 1_000_000, repeats: int = 10, seed: int = 0) -> dict[str, Measurement]:
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

    return interleave(fresh, repeats=repeats, at_most_seconds=8.0)


def _power(x: Array) -> Any:
    return x**3


def _product(x: Array) -> Any:
    return x * x * x


def record_expressions(
    page: Page, costs: Sequence[Expression], cliff: Mapping[str, Measurement], machine: Ceilings
) -> None:
    """Show what each way to write GELU costs, the cliff of ``x**3``, and the claims on lines and on fusion.

    Args:
        page: where to.
        costs: of "steps", `EXPRESSIONS` and "fused", all on one float32 array.
        cliff: what `power_cliff` found.
        machine: ceilings of one thread.
    """
    by_name = {cost.name: cost for cost in costs}
    moved = _moved_bytes(by_name)
    _show_expressions(page, costs, moved, machine)
    line, fused = by_name["x*x*x"], by_name["fused"]
    steps = by_name["steps"].seconds
    page.compare("one-line", compare_paired(steps, line.seconds))
    both = "bytes that the operators"
    page.number("moved-line", moved["x*x*x"], unit="B", what=f"{both} of one line read and write")
    page.number("moved-steps", moved["steps"], unit="B", what=f"{both} step by step read and write")
    what = "bytes to read the input once and write the output once"
    page.number("moved-least", moved["fused"], unit="B", what=what)
    more, saved = moved["x*x*x"] / moved["fused"], 1 - moved["fused"] / moved["x*x*x"]
    page.number("moved-ratio", more, unit="", what="bytes of one line over the least that are needed")
    page.number("saved-traffic", saved, unit="%", what="bytes that one pass saves of those of one line")
    page.number("fused-gain", ratio(line.seconds, fused.seconds, "time of one line over that of one compiled pass"))
    power = "time of one line with x**3 over that of one compiled pass"
    page.number("fused-gain-power", ratio(by_name["x**3"].seconds, fused.seconds, power))
    in_place, in_blocks = by_name["in place"].seconds, by_name["in blocks"].seconds
    page.number("in-place-gain", ratio(line.seconds, in_place, "time of one line over that in place"))
    page.number("blocks-gain", ratio(line.seconds, in_blocks, "time of one line over that in blocks"))
    what = "memory that the compiled pass holds beyond its result"
    page.number("fused-beyond", max(fused.temporary_bytes, 0), unit="B", what=what)
    page.number("line-faults", line.page_faults, unit="faults", what="page faults of one call in one line")
    page.number("fault-cost", machine.page_fault)
    page.number("fault-share", _faulting(line, machine), modelled=True)
    _record_cliff(page, cliff)
    gain = ratio(line.seconds, fused.seconds)
    _claim_fusion(page, moved, gain)
    page.number("course-saving", 1 - 12 / 20, unit="%", what="saving from 20 to 12", modelled=True)


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
        return quantity(0.0, "%", name)
    return quotient(machine.page_fault.scaled(cost.page_faults), cost.seconds, name, "%")


def _show_expressions(page: Page, costs: Sequence[Expression], moved: Mapping[str, int], machine: Ceilings) -> None:
    page.table(
        "expressions",
        [
            {
                "way": _SAID[cost.name],
                "seconds": cost.seconds,
                "moved": moved[cost.name],
                "beyond": max(cost.temporary_bytes, 0),
                "faults": round(cost.page_faults),
                "faulting": _faulting(cost, machine),
            }
            for cost in costs
        ],
        EXPRESSION,
        caption="GELU of 2000 × 2000 float32 numbers. Bytes are counted on the operators that ran, wherever they found "
        "them: in blocks that is a cache. Memory is the peak that tracemalloc saw, and the last column is page faults "
        "times the measured cost of one.",
    )


def _record_cliff(page: Page, cliff: Mapping[str, Measurement]) -> None:
    over = "x**3 over x*x*x"
    negative, positive = cliff["x**3, negative"], cliff["x**3, positive"]
    page.number("cliff-negative", ratio(negative, cliff["x*x*x, negative"], f"{over}, negative numbers"))
    page.number("cliff-positive", ratio(positive, cliff["x*x*x, positive"], f"{over}, positive numbers"))
    page.compare("cliff-sign", compare_paired(positive, negative))


def _claim_fusion(page: Page, moved: Mapping[str, int], gain: Measurement) -> None:
    """Record the claims on the bytes that one line and one pass move, and on the time that one pass gains."""
    line, once = moved["x*x*x"], moved["fused"]
    page.claim(
        "expression-tree",
        statement="NumPy optimizes an expression tree when all of it stands in one line.",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(quantity(line, "B", "one line"), high=1.5 * once),
        evidence="In one line the operators read and wrote {moved-line}, step by step {moved-steps}. One pass needs "
        "{moved-least}. The test asks for at most half more than one pass.",
    )
    page.claim(
        "fusion-throughput",
        statement="Kernel fusion gives 2 to 3 times the throughput.",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(gain, low=2.0, high=3.0),
        evidence="One compiled pass ran {fused-gain} as fast as the honest line with x * x * x, and {fused-gain-power} "
        "as fast as the line with x**3. What the course calls fused is one line of NumPy; that gave {one-line}.",
    )
    page.claim(
        "fusion-traffic",
        statement="Kernel fusion saves 60 to 80 % of the memory traffic.",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(quantity(once, "B", "one pass"), low=0.2 * line, high=0.4 * line),
        evidence="For GELU, one pass reads and writes {moved-least} where nine operators read and write {moved-line}. "
        "That saves {saved-traffic}. The share follows from how many operators are fused.",
    )


def record_roof(page: Page, plain: Sequence[Placed], kernels: Sequence[Placed], machine: Ceilings) -> None:
    """Show GELU, softmax and layer normalization under the roof, by NumPy and as kernels."""
    places = [place for pair in zip(plain, kernels, strict=True) for place in pair]
    placed_table(
        page,
        "roof",
        places,
        caption="Three operations on 2000 × 2000 numbers, by NumPy and in one compiled pass, against the roof of the "
        "bytes that they need.",
    )
    page.figure(
        "roof-lines",
        roofline_figure(places, machine, variants=["numpy", "compiled"] * len(plain)),
        caption="The same operations under the roof of one core, by NumPy and as kernels. Intensity is the arithmetic "
        "that each way makes for each byte that is needed, however many bytes are moved.",
        alt="Log-log plot of rate over arithmetic intensity with the slopes of caches and memory, and for each of "
        "three operations a point for NumPy's way and one for the kernel's.",
    )
    for before, after, key in zip(plain, kernels, ("gelu", "softmax", "layer-norm"), strict=True):
        page.number(f"roof-{key}-numpy", before.of_roof)
        page.number(f"roof-{key}-kernel", after.of_roof)
        word, because = after.verdict.sentence_word, after.verdict.because
        page.word(f"bound-{key}", word, because=because, numbers=[f"roof-{key}-kernel"])
