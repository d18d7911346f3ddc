"""Checks for the exercises on memory: each passes or fails a reader's function, and says on what it failed."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tinytorch.chapters.checking import exercise_check, returned_number
from tinytorch.perf.kernels.probes import LINE_BYTES
from tinytorch.perf.measuring.memory import Tracing

Floats = npt.NDArray[np.float32]


@exercise_check
def check_lines_touched(function: Callable[[int, int, int], int]) -> None:
    """Return "... passed" if ``function(address, count, stride)`` counts the cache lines that hold so many elements.

    ``address`` is the address of the first element in bytes, a multiple of four, and ``stride`` counts elements.
    """
    draw = np.random.default_rng(0)
    for _ in range(200):
        address, count, stride = int(draw.integers(0, 64)) * 4, int(draw.integers(1, 60)), int(draw.integers(1, 40))
        truth = len({(address + 4 * stride * number) // LINE_BYTES for number in range(count)})
        shown = f"{count} elements from address {address}, stride {stride}"
        answer = returned_number(function(address, count, stride), shown)
        assert answer == truth, f"{shown}, lie in {truth} lines, not {answer:g}"


@exercise_check
def check_sets_used(function: Callable[[int, int, int], int]) -> None:
    """Return "... passed" if ``function(rows, row_bytes, sets)`` counts the sets that the lines of a column use.

    The column begins at address 0, ``row_bytes`` is a multiple of a line, and line n goes to set n modulo ``sets``.
    """
    draw = np.random.default_rng(0)
    for _ in range(200):
        rows, sets = int(draw.integers(1, 3000)), int(2 ** draw.integers(2, 12))
        row_bytes = LINE_BYTES * int(draw.choice([2 ** draw.integers(0, 9), draw.integers(1, 300)]))
        truth = len({row * (row_bytes // LINE_BYTES) % sets for row in range(rows)})
        shown = f"{rows} rows of {row_bytes} bytes, {sets} sets"
        answer = returned_number(function(rows, row_bytes, sets), shown)
        assert answer == truth, f"{shown}: the column uses {truth} sets, not {answer:g}"


@exercise_check
def check_least_seconds(function: Callable[[float, float, float, float], float]) -> None:
    """Return "... passed" if ``function(lines, latency, in_flight, bandwidth)`` returns the lower bound on the time."""
    draw = np.random.default_rng(0)
    for _ in range(50):
        lines, in_flight = float(draw.integers(1, 10**6)), float(draw.integers(1, 40))
        latency, bandwidth = float(draw.uniform(50e-9, 200e-9)), float(draw.uniform(5e9, 50e9))
        truth = max(lines * latency / in_flight, lines * LINE_BYTES / bandwidth)
        shown = f"{lines:g} lines, {latency:.3g} s each, {in_flight:g} at once, {bandwidth:.3g} B/s"
        answer = returned_number(function(lines, latency, in_flight, bandwidth), shown)
        assert math.isclose(answer, truth, rel_tol=1e-9), f"{shown}: at least {truth:.4g} s, not {answer}"


#: Bytes that the exercise's function may allocate in addition to its operands, for blocks of `_BLOCK` elements.
_BLOCK, _MAY_HOLD = 4096, 64 * 1024


@exercise_check
def check_in_blocks(function: Callable[[Floats, Floats, int], object]) -> None:
    """Return "... passed" if ``function(x, out, block)`` writes ``exp(-x * x)`` into ``out`` and holds few blocks.

    ``x`` and ``out`` are float32 vectors of one length, which need not be a multiple of ``block``.
    """
    draw = np.random.default_rng(0)
    for count in (1, _BLOCK, 20 * _BLOCK + 17):
        x, out = draw.standard_normal(count).astype(np.float32), np.empty(count, np.float32)
        with Tracing() as tracing:
            function(x, out, _BLOCK)
            held = tracing.read()[1] - tracing.baseline
        truth = np.exp(-(x.astype(np.float64) ** 2))
        assert np.allclose(out, truth, atol=1e-6), f"{count} elements: out must be exp(-x * x) everywhere"
        assert held <= _MAY_HOLD, (
            f"{count} elements: it held {held} bytes at once, not at most {_MAY_HOLD}, a few blocks"
        )
