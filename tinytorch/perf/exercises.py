"""Checks for the exercises: each passes or fails a reader's function, and says on what it failed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.breakdown import op_rows
from tinytorch.perf.events import recording
from tinytorch.perf.quantization.affine import Scheme, dequantize_int8, floats, quantize_int8, range_parameters
from tinytorch.perf.quantization.convert import Sensitivity, layers_to_keep


def _passed(name: str) -> str:
    return f"{name}: passed"


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
        answer = function(list(parts[:3]), list(speedups))
        shown = f"shares {np.round(parts[:3], 3)} and speedups {np.round(speedups, 2)}"
        assert math.isclose(answer, 1 / after, rel_tol=1e-9), f"{shown} give {1 / after:.4f}, not {answer}"
    return _passed("overall_speedup")


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
        answer = function(rows, inner, columns)
        shown = f"({rows}, {inner}) times ({inner}, {columns})"
        assert math.isclose(answer, truth, rel_tol=1e-9), f"{shown} has {truth:.4f} FLOP/B, not {answer}"
    return _passed("intensity")


def check_least_seconds(function: Callable[[float, float, float, float], float]) -> str:
    """Return "... passed" if ``function(flops, traffic, peak, bandwidth)`` is the time at the roof.

    Raises:
        AssertionError: with the case and the answer.
    """
    draw = np.random.default_rng(0)
    for _ in range(50):
        flops, traffic, peak, bandwidth = (float(value) for value in 10 ** draw.uniform(0, 9, 4))
        truth = flops / min(peak, flops / traffic * bandwidth)
        answer = function(flops, traffic, peak, bandwidth)
        shown = f"{flops:.3g} FLOP, {traffic:.3g} B, {peak:.3g} FLOP/s and {bandwidth:.3g} B/s"
        assert math.isclose(answer, truth, rel_tol=1e-9), f"{shown} need {truth:.4g} s, not {answer}"
    return _passed("least_seconds")


def check_scale_and_zero_point(function: Callable[[float, float], tuple[float, int]]) -> str:
    """Return "... passed" if ``function(low, high)`` gives scale and zero point of 8-bit affine codes, -128 to 127.

    Ranges lie on both sides of 0 and on one only, where they must be widened to hold 0.

    Raises:
        AssertionError: with the range, what is right, and the answer.
    """
    draw = np.random.default_rng(0)
    for case in range(60):
        low, high = sorted(float(value) for value in draw.normal((0, 3, -3)[case % 3], 1, 2))
        scale, zero_point = range_parameters(low, high, Scheme(symmetric=False))
        answer = function(low, high)
        right = math.isclose(answer[0], float(scale), rel_tol=1e-5) and answer[1] == int(zero_point)
        shown = f"the range {low:.4f} to {high:.4f} has scale {float(scale):.6f} and zero point {int(zero_point)}"
        assert right, f"{shown}, not {answer}"
    return _passed("scale_and_zero_point")


def naive_quantize(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return what a naive affine quantizer makes of x: to 8-bit codes and back. It is here to be broken.

    It stretches the codes over the range of the data without widening it to hold 0, adds a small number so as not to
    divide by 0, and clips the zero point to what int8 holds: each of the three can turn numbers into others.
    """
    scale = (x.max() - x.min()) / np.float32(255) + np.float32(1e-8)
    zero_point = np.clip(np.rint(-128 - x.min() / scale), -128, 127)
    codes = np.clip(np.rint(x / scale) + zero_point, -128, 127)
    return np.asarray((codes - zero_point) * scale, np.float32)


def check_breaks_naive(function: Callable[[], Any]) -> str:
    """Return "... passed" if ``function()`` gives float32 numbers that `naive_quantize` at least halves or doubles.

    On the same numbers `quantize_int8` must stay within a twentieth of the largest.

    Raises:
        AssertionError: with both errors.
    """
    x = floats(np.asarray(function(), np.float32), "the array")
    largest = float(np.abs(x).max())
    naive = float(np.abs(naive_quantize(x) - x).max())
    ours = float(np.abs(dequantize_int8(*quantize_int8(x)).data - x).max())
    assert ours <= largest / 20, f"an error of {ours:.3g} on numbers up to {largest:.3g} is not the naive one's fault"
    assert naive >= largest / 2, f"naive_quantize errs by {naive:.3g} on numbers up to {largest:.3g}, not by half of it"
    return _passed("break_naive")


def check_choose_layers(function: Callable[[list[Sensitivity], int], Sequence[str]]) -> str:
    """Return "... passed" if ``function(rows, extra_bytes)`` names layers that fit, and avoid as much error as greed.

    Greed takes layers by error avoided for each byte, see `layers_to_keep`.

    Raises:
        AssertionError: with what the layers cost, or what they avoid and what they could.
    """
    draw = np.random.default_rng(0)
    for _ in range(30):
        sizes = [int(size) for size in draw.integers(100, 100_000, 6)]
        rows = [
            Sensitivity(f"layer{index}", "Linear", float(error), size)
            for index, (error, size) in enumerate(zip(draw.exponential(0.1, 6), sizes, strict=True))
        ]
        budget = int(sum(sizes) * draw.uniform(0.1, 0.6))
        chosen = set(function(rows, budget))
        spent = sum(row.saved_bytes for row in rows if row.name in chosen)
        assert spent <= budget, f"{sorted(chosen)} take {spent} bytes more, not at most {budget}"
        avoided = sum(row.error for row in rows if row.name in chosen)
        possible = sum(row.error for row in rows if row.name in layers_to_keep(rows, budget))
        assert avoided >= possible - 1e-12, f"{sorted(chosen)} avoid {avoided:.4f}, not the {possible:.4f} that fit"
    return _passed("choose_layers")
