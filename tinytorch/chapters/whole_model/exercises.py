"""Checks for the exercises on a whole model: each passes or fails a reader's function, and says on what it failed."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tinytorch.chapters.checking import exercise_check, judged_faster
from tinytorch.chapters.whole_model.expressions import passes_bytes
from tinytorch.core.op import Array
from tinytorch.perf.measuring import interleave
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.memory import MemoryProfiler
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.profiling.breakdown import amdahl

#: Largest error of a fused SiLU over the largest value: a few roundings of float32.
SILU_TOLERANCE = 1e-6
#: Bytes that a call may have allocated beyond its output: Python objects, but no array.
_SMALL = 16_384
_ONE, _TWO = np.float32(1), np.float32(2)

#: Expressions whose traffic the check counts, of which the page names three.
EXPRESSIONS = ("x + x", "x * 2 + 1", "x / (1 + exp(-x))", "x * x * x", "(x - 1) * (x + 1)", "exp(x) - exp(-x)")


@exercise_check
def check_moved_bytes(function: Callable[[str, int], float]) -> None:
    """Return "... passed" if ``function(expression, n)`` is what NumPy's operators read and write for n float32.

    Every operator reads each array among its operands once and writes its result once. The truth is counted on the
    operators that run.
    """
    for size in (1000, 4096):
        x = np.ones(size, np.float32)
        for text in EXPRESSIONS:

            def expression(x: Array, text: str = text) -> Any:
                return eval(text, {"__builtins__": {}, "x": x, "exp": np.exp})

            truth, answer = passes_bytes(expression, x), function(text, size)
            assert answer == truth, f"{text} of {size} numbers moves {truth} bytes, not {answer}"


@exercise_check
def check_fused_silu(function: Callable[[Array], Any]) -> str:
    """Return "... passed" if ``function(x)`` is x / (1 + e**-x) of float32 x, fused, and faster than NumPy's operators.

    It keeps shape and float32, errs by at most `SILU_TOLERANCE` of the largest value, leaves x alone, and never has
    more memory than its output. Where the interval of the speedup leaves it open, the result says to run it again.
    """
    x = np.random.default_rng(0).normal(0, 4, (1000, 1000)).astype(np.float32)
    before, wide = x.copy(), x.astype(np.float64)
    function(x[:1])  # so that a compilation at the first call is not counted as the call's memory
    found = function(x)
    assert isinstance(found, np.ndarray), f"it must return an array, not {type(found).__name__}"
    assert found.dtype == np.float32, f"it must keep float32, but returns {found.dtype}"
    assert found.shape == x.shape, f"it must keep the shape {x.shape}, but returns {found.shape}"
    assert np.array_equal(x, before), "it must not write to its input"
    exact = wide / (1 + np.exp(-wide))
    error = float(np.abs(found - exact).max() / np.abs(exact).max())
    assert error <= SILU_TOLERANCE, f"it errs by {error:.2g} of the largest value, not {SILU_TOLERANCE:g} at most"
    peak = round(MemoryProfiler().profile(function, (x,), calls=1)["needed_mb"] * MIB)
    assert peak <= found.nbytes + _SMALL, f"it has {peak} bytes at a time, but its output takes only {found.nbytes}"
    functions = {"NumPy's operators": lambda: x / (_ONE + np.exp(-x)), "yours": lambda: function(x)}
    times = interleave(functions, repeats=20, at_most_seconds=2.0, warmup_seconds=0.1)
    return judged_faster("fused_silu", compare_paired(times["NumPy's operators"], times["yours"], matters=0.05))


@exercise_check
def check_next_part(function: Callable[[Mapping[str, float], Mapping[str, float]], str]) -> None:
    """Return "... passed" if ``function(seconds, possible)`` names the part whose replacement helps the whole most.

    ``seconds`` holds the time of each part, ``possible`` the speedup that is on offer for some of them.
    """
    draw = np.random.default_rng(0)
    for _ in range(50):
        seconds = {name: float(draw.exponential()) for name in ("linear", "attention", "gelu", "norm", "between ops")}
        possible = {name: float(draw.uniform(1.05, 20)) for name in draw.permutation(list(seconds))[:3]}
        whole = sum(seconds.values())
        gain = {name: amdahl(seconds[name] / whole, speedup) for name, speedup in possible.items()}
        best, answer = max(gain, key=lambda name: gain[name]), function(dict(seconds), dict(possible))
        shown = f"of {_rounded(seconds)} with offers {_rounded(possible)}"
        assert answer in gain, f"{shown} it must return one of the parts in `possible`, not {answer!r}"
        wrong = f"{shown} {answer} makes the whole {gain[answer]:.2f} times faster, {best} {gain[best]:.2f} times"
        assert answer == best, wrong


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in values.items()}
