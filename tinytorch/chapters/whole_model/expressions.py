"""One expression in every way: its traffic, memory and time, the course's two ways to write it, and its functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.acceleration.functions import fused_gelu
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.gemm.product_tiles import LANES
from tinytorch.perf.measuring import Counted, Measurement, interleave, ratio
from tinytorch.perf.measuring.memory import MemoryProfiler
from tinytorch.perf.measuring.model_io import MIB

#: GELU's constants, as a reader would write them.
_ROOT, _CUBIC = np.float32(0.7978845608028654), np.float32(0.044715)
_HALF, _ONE = np.float32(0.5), np.float32(1)
#: Elements of a block, whose bytes fit in a cache.
_BLOCK = 16_384


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


def gelu_in_blocks(x: Array) -> Array:
    """The same, a block at a time, that stays in cache through all its passes."""
    flat = np.ascontiguousarray(x).reshape(-1)
    output = np.empty_like(flat)
    for start in range(0, flat.size, _BLOCK):
        output[start : start + _BLOCK] = gelu_in_place(flat[start : start + _BLOCK])
    return output.reshape(x.shape)


#: From what one writes first to what NumPy cannot do alone.
EXPRESSIONS: dict[str, Callable[[Array], Array]] = {
    "one line": gelu_expression,
    "in place": gelu_in_place,
    "in blocks": gelu_in_blocks,
    "one compiled pass": fused_gelu,
}
_PASS, _EXISTING = "one compiled pass", "one pass, to an existing array"
#: What the others are timed beside: the loop of a copy to an existing array.
_COPY = "a copy"
#: Those that go over memory once: what a block's operators move meets a cache.
_AT_ONCE = ("in blocks", _PASS, _EXISTING)


@dataclass(frozen=True)
class Expression:
    """Cost of one way to write an expression on an array.

    ``predicted`` and ``copies`` are its traffic and its time over those of a copy of the array, which was timed in
    turns with it; ``beyond`` is the most that a call had at a time beyond its result.
    """

    traffic: Counted
    predicted: Counted
    copies: Measurement
    seconds: Measurement
    beyond: Counted
    result: Counted

    @property
    def over_predicted(self) -> Measurement:
        """How many times as long as its traffic alone it takes."""
        return self.copies.scaled(1 / self.predicted.value, "", f"{self.seconds.name}, over the time of its traffic")


def study_expressions(
    shape: tuple[int, ...] = (2500, 4000), *, repeats: int = 10, at_most_seconds: float = 10.0
) -> dict[str, Expression]:
    """Return the cost of each way to write GELU on float32 standard normal numbers of ``shape``, timed in turns.

    The last is the compiled pass again, to an array that exists: the price of fresh pages is the one difference.
    """
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    copy = probes.copy(LANES)

    def ways() -> dict[str, Callable[[Array], Array]]:
        return {**EXPRESSIONS, _EXISTING: partial(fused_gelu, out=np.zeros_like(x))}

    def fresh() -> dict[str, Callable[[], Any]]:
        nonlocal x
        x = x.copy()  # elsewhere
        flat = x.reshape(-1)[: x.size // probes.STREAM_MULTIPLE * probes.STREAM_MULTIPLE]
        copied = partial(copy, np.zeros_like(flat), flat, 1)
        return {**{name: partial(function, x) for name, function in ways().items()}, _COPY: copied}

    times = interleave(fresh, repeats=repeats, at_most_seconds=at_most_seconds, warmup_seconds=0.1)
    return {name: _cost(name, function, times, x) for name, function in ways().items()}


def _cost(name: str, function: Callable[[Array], Array], times: Mapping[str, Measurement], x: Array) -> Expression:
    memory = MemoryProfiler().profile(function, (x,), calls=1)
    size = memory["result"].nbytes
    # Each row goes through the same operators, of which a counted one holds more memory.
    moved = 2 * size if name in _AT_ONCE else len(x) * passes_bytes(function, x[:1])
    return Expression(
        Counted(moved, "B", f"memory traffic, {name}"),
        Counted(moved / (2 * size), "", f"traffic of {name} over that of a copy"),
        ratio(times[name], times[_COPY], f"time of {name} over that of a copy"),
        times[name],
        Counted(max(round(memory["needed_mb"] * MIB) - size, 0), "B", f"memory that {name} holds beyond its result"),
        Counted(size, "B", f"bytes of the result of {name}"),
    )


def gain_over_numpy(costs: Mapping[str, Expression]) -> Measurement:
    """Return how many times as fast the compiled pass is as the better of NumPy's ways that need fewer bytes."""
    best = min((costs[name].seconds for name in ("in place", "in blocks")), key=lambda seconds: seconds.median)
    what = f"time of the best way of NumPy, {best.name}, over that of one compiled pass"
    return ratio(best, costs[_PASS].seconds, what)


def course_in_steps(x: Array) -> Array:
    """GELU as the course writes it to be slow: eight operators, and a name for each result, which keeps the array."""
    cube = x**3
    scaled = _CUBIC * cube
    inner = x + scaled
    argument = _ROOT * inner
    bent = np.tanh(argument)
    lifted = _ONE + bent
    doubled = x * lifted
    return np.asarray(_HALF * doubled)


def course_in_one_line(x: Array) -> Array:
    """GELU as the course writes it to be fused: the same operators, but for their order, in one line."""
    return np.asarray(_HALF * x * (_ONE + np.tanh(_ROOT * (x + _CUBIC * x**3))))


def course_times(side: int = 2000) -> dict[str, Measurement]:
    """Return the times of the course's two ways on as many float32 elements as it takes, side², interleaved."""
    x = np.random.default_rng(0).standard_normal((side, side), dtype=np.float32)
    ways: dict[str, Callable[[], Any]] = {
        "eight steps": partial(course_in_steps, x),
        "one line": partial(course_in_one_line, x),
    }
    return interleave(ways, repeats=12, at_most_seconds=2.5, warmup_seconds=0.05)


def tanh_share() -> Measurement:
    """Return the share of the time of all of GELU's operators that tanh takes, on a block that stays in a cache."""
    x = np.random.default_rng(0).standard_normal(_BLOCK, dtype=np.float32)
    result = np.empty_like(x)
    ways: dict[str, Callable[[], Any]] = {
        "tanh": partial(np.tanh, x, out=result),
        "all operators": partial(gelu_in_place, x),
    }
    times = interleave(ways, repeats=30, at_most_seconds=0.5, warmup_seconds=0.05)
    what = "time of tanh over that of all operators, on a block"
    return ratio(times["tanh"], times["all operators"], what).scaled(1, "%")


def fused_error() -> Counted:
    """Return the largest difference of the compiled pass from GELU in float64, over GELU's largest value."""
    x = np.random.default_rng(1).standard_normal(100_000, dtype=np.float32)
    wide = x.astype(np.float64)
    exact = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    error = np.abs(np.asarray(fused_gelu(x)) - exact).max() / np.abs(exact).max()
    return Counted(error, "1", "largest error of the compiled pass against float64, over the largest value")


def power_cliff(size: int = 100_000) -> Measurement:
    """Return how many times the time of ``x*x*x`` the cube ``x**3`` of negative float32 numbers takes."""
    x = -np.abs(np.random.default_rng(0).standard_normal(size, dtype=np.float32))
    cubes: dict[str, Callable[[], Any]] = {"power": lambda: x**3, "products": lambda: x * x * x}
    times = interleave(cubes, repeats=15, at_most_seconds=0.5, warmup_seconds=0.05)
    return ratio(times["power"], times["products"], "x**3 over x*x*x, negative numbers")
