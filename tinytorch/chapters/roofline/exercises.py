"""Checks for the exercises on rooflines: each passes or fails a reader's function, and says on what it failed."""

import math
from collections.abc import Callable

import numpy as np

from tinytorch.chapters.checking import exercise_check, returned_number
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import recording
from tinytorch.perf.measuring.statistics import Interval


@exercise_check
def check_intensity(function: Callable[[int, int, int], float]) -> None:
    """Return "... passed" if ``function(rows, inner, columns)`` returns the FLOPs per compulsory byte of a product."""
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


@exercise_check
def check_least_seconds(function: Callable[[float, float, float, float], float]) -> None:
    """Return "... passed" if ``function(flops, traffic, peak, bandwidth)`` returns the lower bound on the time."""
    draw = np.random.default_rng(0)
    for _ in range(50):
        flops, traffic, peak, bandwidth = (float(value) for value in 10 ** draw.uniform(0, 9, 4))
        truth = flops / min(peak, flops / traffic * bandwidth)
        shown = f"{flops:.3g} FLOP, {traffic:.3g} B, {peak:.3g} FLOP/s and {bandwidth:.3g} B/s"
        answer = returned_number(function(flops, traffic, peak, bandwidth), shown)
        assert math.isclose(answer, truth, rel_tol=1e-9), f"{shown} need {truth:.4g} s, not {answer}"


@exercise_check
def check_rows_to_the_ridge(function: Callable[[float, float, float], float]) -> None:
    """Return "... passed" if ``function(peak, bandwidth, bytes_of_a_weight)`` returns the rows at the border."""
    draw = np.random.default_rng(0)
    for width in (0.5, 1.0, 2.0, 4.0):
        peak, bandwidth = (float(10 ** draw.uniform(9, 15)) for _ in range(2))
        shown = f"{peak:.3g} FLOP/s, {bandwidth:.3g} B/s and {width:g} bytes a weight"
        answer = returned_number(function(peak, bandwidth, width), shown)
        arithmetic, traffic = 2 * answer / peak, width / bandwidth
        assert math.isclose(arithmetic, traffic, rel_tol=1e-9), (
            f"with {shown}, {answer:.4g} rows take {arithmetic:.3g} s of arithmetic a weight, not {traffic:.3g} s"
        )


@exercise_check
def check_limit(function: Callable[[float, Interval, Interval], str]) -> None:
    """Return "... passed" if ``function(intensity, peak, bandwidth)`` says what limits an op, if that is decided.

    ``peak`` and ``bandwidth`` are intervals. The answer is "memory" or "compute" if the intensity lies left or right
    of the ridge wherever peak and bandwidth are in theirs, else "open".
    """
    draw = np.random.default_rng(0)
    for _ in range(60):
        peak, bandwidth = (_around(10 ** draw.uniform(9, 12), draw) for _ in range(2))
        low, high = peak.low / bandwidth.high, peak.high / bandwidth.low
        intensity = float(low * 0.8 + (high * 1.2 - low * 0.8) * draw.random())
        truth = "memory" if intensity < low else "compute" if intensity > high else "open"
        answer = function(intensity, peak, bandwidth)
        shown = f"at {intensity:.4g} FLOP/B, with a ridge between {low:.4g} and {high:.4g}"
        assert answer == truth, f"{shown}, it is {truth!r}, not {answer!r}"


def _around(middle: float, draw: np.random.Generator) -> Interval:
    below, above = draw.uniform(0, 0.15, 2)
    return Interval(float(middle * (1 - below)), float(middle * (1 + above)), 0.95)
