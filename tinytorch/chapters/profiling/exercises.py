"""Checks for the exercises on profiling: each passes or fails a reader's function, and says on what it failed."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinytorch.chapters.checking import exercise_check, returned_number
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.events.stream import recording
from tinytorch.perf.profiling.breakdown import OpRow, op_rows


@exercise_check
def check_linear_flops(function: Callable[[int, int, int], float]) -> None:
    """Return "... passed" if ``function(in_features, out_features, rows)`` returns the FLOPs of a linear layer."""
    draw = np.random.default_rng(0)
    for _ in range(20):
        width, out, rows = (int(size) for size in draw.integers(1, 40, 3))
        with recording() as recorded:
            Linear(width, out, seed=0)(Tensor(np.ones((rows, width), np.float32)))
        truth = sum(event.flops or 0 for event in recorded.profile.events)
        answer = function(width, out, rows)
        assert answer == truth, f"Linear({width}, {out}) on {rows} rows does {truth} FLOPs, not {answer}"


@exercise_check
def check_latency(function: Callable[[Callable[[], None], int, int], float]) -> None:
    """Return "... passed" if ``function(call, warm_ups, runs)`` times calls one by one after those that warm up."""
    took: list[float] = []

    def call() -> None:
        """Keep the core busy: long in the first four calls and in every third that follows."""
        start = time.perf_counter()
        for _ in range(200_000 if len(took) < 4 or len(took) % 3 == 0 else 20_000):
            pass
        took.append(time.perf_counter() - start)

    answer = returned_number(function(call, 4, 15), "a function, 4 warm-ups and 15 runs")
    assert len(took) == 19, f"4 warm-ups and 15 runs are 19 calls, not {len(took)}"
    truth = sorted(took[4:])[7]
    assert truth <= answer < 1.5 * truth, (
        f"the median of the runs after the warm-ups was {truth * 1e3:.2f} ms, not {answer * 1e3:.2f} ms"
    )


@exercise_check
def check_peak_bytes(function: Callable[[Sequence[int]], int]) -> None:
    """Return "... passed" if ``function(changes)`` returns the most bytes in use at any moment."""
    draw = np.random.default_rng(0)
    for _ in range(20):
        changes = [int(change) for change in draw.integers(-50, 100, 12)]
        truth = max(0, *(sum(changes[:end]) for end in range(1, 13)))
        answer = returned_number(function(changes), f"{changes}")
        assert answer == truth, f"with changes {changes} at most {truth} bytes were alive, not {answer}"


@exercise_check
def check_overall_speedup(function: Callable[[Sequence[float], Sequence[float]], float]) -> None:
    """Return "... passed" if ``function(shares, speedups)`` returns the old time divided by the new time."""
    draw = np.random.default_rng(0)
    for _ in range(50):
        parts = draw.dirichlet(np.ones(4))
        speedups = draw.uniform(0.5, 20, 3)
        after = parts[3] + sum(part / speedup for part, speedup in zip(parts, speedups, strict=False))
        shown = f"shares {np.round(parts[:3], 3)} and speedups {np.round(speedups, 2)}"
        answer = returned_number(function(list(parts[:3]), list(speedups)), shown)
        assert math.isclose(answer, 1 / after, rel_tol=1e-9), f"{shown} give {1 / after:.4f}, not {answer}"


@exercise_check
def check_bottleneck(function: Callable[[list[Any]], str]) -> None:
    """Return "... passed" if ``function(rows)`` names the op with the most self time of both passes."""
    for width, length in ((16, 8), (64, 64), (32, 512)):
        block = TransformerBlock(width, 4, seed=0)
        inputs = Tensor(np.ones((1, length, width), np.float32))
        with recording() as recorded:
            block(inputs).sum().backward()
        seconds: dict[str, int] = {}
        for event in recorded.profile.events:
            seconds[event.op] = seconds.get(event.op, 0) + event.self_ns
        truth = max(seconds, key=lambda op: seconds[op])
        answer = function(op_rows(recorded.profile, None, timed=True))
        assert answer == truth, (
            f"of a block {width} wide at {length} positions {truth!r} takes the most, not {answer!r}"
        )
    parts = (
        ("linear", "forward", 3.0),
        ("gelu", "forward", 4.0),
        ("linear", "backward", 3.0),
        ("add", "backward", 1.0),
    )
    rows = [
        OpRow(op=op, phase=phase, implementation="numpy", calls=1, total_seconds=time, self_seconds=time, share=None)
        for op, phase, time in parts
    ]
    answer = function(rows)
    assert answer == "linear", f"'linear' takes the most over forward and backward together, not {answer!r}"
