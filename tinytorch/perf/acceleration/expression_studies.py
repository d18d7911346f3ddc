"""Why one long NumPy expression is not fused: temporaries counted, page faults measured, and the cliff of x**3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.measuring import Measurement, interleave
from tinytorch.perf.measuring.memory import MemoryProfiler
from tinytorch.perf.measuring.model_io import MIB

#: GELU's constants, as a reader would write them.
_ROOT, _CUBIC = np.float32(0.7978845608028654), np.float32(0.044715)
_HALF, _ONE = np.float32(0.5), np.float32(1)


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
    """What one way to write an expression costs on an array.

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
    runs = {name: partial(function, x) for name, function in expressions.items()}
    times = interleave(runs, repeats=repeats, at_most_seconds=at_most_seconds)
    found = []
    for name, function in expressions.items():
        peak = MemoryProfiler().profile(function, (x,), calls=1)["allocated_mb"] * MIB
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
    runs: dict[str, Callable[[], Any]] = {}
    for sign, x in (("positive", positive), ("negative", -positive)):
        runs[f"x**3, {sign}"] = partial(_power, x)
        runs[f"x*x*x, {sign}"] = partial(_product, x)
    return interleave(runs, repeats=repeats, at_most_seconds=8.0)


def _power(x: Array) -> Any:
    return x**3


def _product(x: Array) -> Any:
    return x * x * x
