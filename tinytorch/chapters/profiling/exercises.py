"""Checks for the exercises on profiling: each passes or fails a reader's function, and says on what it failed."""

from __future__ import annotations

import math
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
    """Return "... passed" if ``function(in_features, out_features, rows)`` counts what a Linear really does."""
    draw = np.random.default_rng(0)
    for _ in range(20):
        width, out, rows = (int(size) for size in draw.integers(1, 40, 3))
        with recording() as recorded:
            Linear(width, out, seed=0)(Tensor(np.ones((rows, width), np.float32)))
        truth = sum(event.flops or 0 for event in recorded.profile.events)
        answer = function(width, out, rows)
        assert answer == truth, f"Linear({width}, {out}) on {rows} rows does {truth} FLOPs, not {answer}"


@exercise_check
def check_overall_speedup(function: Callable[[Sequence[float], Sequence[float]], float]) -> None:
    """Return "... passed" if ``function(shares, speedups)`` is the time before over the time after."""
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
    """Return "... passed" if ``function(rows)`` names the op with the most self time over both phases."""
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
    rows = [OpRow(op, phase, "numpy", 1, seconds, seconds, None) for op, phase, seconds in parts]
    answer = function(rows)
    assert answer == "linear", f"'linear' takes the most over forward and backward together, not {answer!r}"
