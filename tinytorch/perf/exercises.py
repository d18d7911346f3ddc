"""Checks for the exercises on profiling and rooflines: each passes or fails a reader's function, and says on what."""

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
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.profiling.breakdown import op_rows


def _passed(name: str) -> str:
    return f"{name}: passed"


@exercise_check
def check_linear_flops(function: Callable[[int, int, int], float]) -> str:
    """Return "... passed" if ``function(in_features, out_features, rows)`` counts what a Linear really does.

    Raises:
        AssertionError: with the sizes, the count of the run, and the answer.
    """
    draw = np.random.default_rng(0)
    for _ in range(20):
        width, out, rows = (int(size) for size in draw.integers(1, 40, 3))
        with recording() as recorded:
            Linear(width, out, seed=0)(Tensor(np.ones((rows, width), np.float32)))
        truth = sum(event.flops or 0 for event in recorded.profile.events)
        answer = function(width, out, rows)
        assert answer == truth, f"Linear({width}, {out}) on {rows} rows does {truth} FLOPs, not {answer}"
    return _passed("linear_flops")


@exercise_check
def check_overall_speedup(function: Callable[[Sequence[float], Sequence[float]], float]) -> str:
    """Return "... passed" if ``function(shares, speedups)`` is the time before over the time after.

    Raises:
        AssertionError: with the case and the answer.
    """
    draw = np.random.default_rng(0)
    for _ in range(50):
        parts = draw.dirichlet(np.ones(4))
        speedups = draw.uniform(0.5, 20, 3)
        after = parts[3] + sum(part / speedup for part, speedup in zip(parts, speedups, strict=False))
        shown = f"shares {np.round(parts[:3], 3)} and speedups {np.round(speedups, 2)}"
        answer = returned_number(function(list(parts[:3]), list(speedups)), shown)
        assert math.isclose(answer, 1 / after, rel_tol=1e-9), f"{shown} give {1 / after:.4f}, not {answer}"
    return _passed("overall_speedup")


@exercise_check
def check_bottleneck(function: Callable[[list[Any]], str]) -> str:
    """Return "... passed" if ``function(rows)`` names the op with the most self time over both phases.

    Raises:
        AssertionError: with the op that has it and the answer.
    """
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
    return _passed("bottleneck")


@exercise_check
def check_intensity(function: Callable[[int, int, int], float]) -> str:
    """Return "... passed" if ``function(rows, inner, columns)`` is the FLOPs per compulsory byte of what really ran.

    Raises:
        AssertionError: with the sizes, the intensity of the run, and the answer.
    """
    draw = np.random.default_rng(0)
    for _ in range(20):
        rows, inner, columns = (int(size) for size in draw.integers(1, 40, 3))
        a, b = Tensor(np.ones((rows, inner), np.float32)), Tensor(np.ones((inner, columns), np.float32))
        with recording() as recorded:
            a @ b
        (event,) = recorded.profile.events
        truth = (event.flops or 0) / event.traffic
        shown = f"({rows}, {inner}) times ({inner}, {columns})"
        answer = returned_number(function(rows, inner, columns), shown)
        assert math.isclose(answer, truth, rel_tol=1e-9), f"{shown} has {truth:.4f} FLOP/B, not {answer}"
    return _passed("intensity")


@exercise_check
def check_least_seconds(function: Callable[[float, float, float, float], float]) -> str:
    """Return "... passed" if ``function(flops, traffic, peak, bandwidth)`` is the time at the roof.

    Raises:
        AssertionError: with the case and the answer.
    """
    draw = np.random.default_rng(0)
    for _ in range(50):
        flops, traffic, peak, bandwidth = (float(value) for value in 10 ** draw.uniform(0, 9, 4))
        truth = flops / min(peak, flops / traffic * bandwidth)
        shown = f"{flops:.3g} FLOP, {traffic:.3g} B, {peak:.3g} FLOP/s and {bandwidth:.3g} B/s"
        answer = returned_number(function(flops, traffic, peak, bandwidth), shown)
        assert math.isclose(answer, truth, rel_tol=1e-9), f"{shown} need {truth:.4g} s, not {answer}"
    return _passed("least_seconds")


@exercise_check
def check_limit(function: Callable[[float, Interval, Interval], str]) -> str:
    """Return "... passed" if ``function(intensity, peak, bandwidth)`` says what limits an op, where that can be told.

    ``peak`` and ``bandwidth`` are intervals. The answer is "memory" or "compute" if the intensity lies left or right
    of the ridge wherever peak and bandwidth are in theirs, else "cannot tell".

    Raises:
        AssertionError: with the case, where the ridge can be, and the answer.
    """
    draw = np.random.default_rng(0)
    for _ in range(60):
        peak, bandwidth = (_around(10 ** draw.uniform(9, 12), draw) for _ in range(2))
        low, high = peak.low / bandwidth.high, peak.high / bandwidth.low
        intensity = float(low * 0.8 + (high * 1.2 - low * 0.8) * draw.random())
        truth = "memory" if intensity < low else "compute" if intensity > high else "cannot tell"
        answer = function(intensity, peak, bandwidth)
        shown = f"at {intensity:.4g} FLOP/B, with a ridge between {low:.4g} and {high:.4g}"
        assert answer == truth, f"{shown}, it is {truth!r}, not {answer!r}"
    return _passed("limit")


def _around(middle: float, draw: np.random.Generator) -> Interval:
    below, above = draw.uniform(0, 0.15, 2)
    return Interval(float(middle * (1 - below)), float(middle * (1 + above)), 0.95)
