"""Checks for the exercises on quantization: each passes or fails a reader's function, and says on what it failed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.chapters.checking import exercise_check
from tinytorch.perf.ops.affine import Scheme, dequantize_int8, floats, quantize_int8, range_parameters


@exercise_check
def check_scale_and_zero_point(function: Callable[[float, float], tuple[float, int]]) -> None:
    """Return "... passed" if ``function(low, high)`` gives scale and zero point of 8-bit affine codes, -128 to 127.

    Ranges lie on both sides of 0 and on one only, where they must be widened to hold 0.
    """
    draw = np.random.default_rng(0)
    for case in range(60):
        low, high = sorted(float(value) for value in draw.normal((0, 3, -3)[case % 3], 1, 2))
        scale, zero_point = range_parameters(low, high, Scheme(symmetric=False))
        answer = function(low, high)
        assert isinstance(answer, tuple), f"it must return scale and zero point, not {answer!r}"
        right = math.isclose(answer[0], float(scale), rel_tol=1e-5) and answer[1] == int(zero_point)
        shown = f"the range {low:.4f} to {high:.4f} has scale {float(scale):.6f} and zero point {int(zero_point)}"
        assert right, f"{shown}, not {answer}"


@exercise_check
def check_predicted_decibels(function: Callable[[npt.NDArray[np.float64], int], float]) -> None:
    """Return "... passed" if ``function(values, bits)`` gives the signal-to-noise ratio of rounded values.

    The mean square of the errors is the squared step over 12. Values lie on both sides of 0.
    """
    draw = np.random.default_rng(0)
    for bits in (4, 6, 8):
        values = draw.normal(0, draw.uniform(0.1, 10), 10_000)
        step = (values.max() - values.min()) / (2**bits - 1)
        right = 10 * math.log10(np.mean(values**2) / (step**2 / 12))
        answer = function(values, bits)
        assert math.isclose(answer, right, rel_tol=1e-3), f"{bits} bits leave {right:.2f} dB, not {answer:.2f}"


def naive_quantize(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return what a naive affine quantizer makes of x: to 8-bit codes and back. It is here to be broken.

    It stretches the codes over the range of the data without widening it to hold 0, adds a small number so as not to
    divide by 0, and clips the zero point to what int8 holds: each of the three can turn numbers into others.
    """
    scale = (x.max() - x.min()) / np.float32(255) + np.float32(1e-8)
    zero_point = np.clip(np.rint(-128 - x.min() / scale), -128, 127)
    codes = np.clip(np.rint(x / scale) + zero_point, -128, 127)
    return np.asarray((codes - zero_point) * scale, np.float32)


@exercise_check
def check_breaks_naive(function: Callable[[], Any]) -> None:
    """Return "... passed" if ``function()`` gives float32 numbers that `naive_quantize` at least halves or doubles.

    On the same numbers `quantize_int8` must stay within a twentieth of the largest.
    """
    answer = function()
    assert answer is not None, "it must return numbers, not None"
    x = floats(np.asarray(answer, np.float32), "the array")
    largest = float(np.abs(x).max())
    naive = float(np.abs(naive_quantize(x) - x).max())
    ours = float(np.abs(dequantize_int8(*quantize_int8(x)).data - x).max())
    assert ours <= largest / 20, f"an error of {ours:.3g} on numbers up to {largest:.3g} is not the naive one's fault"
    assert naive >= largest / 2, f"naive_quantize errs by {naive:.3g} on numbers up to {largest:.3g}, not by half of it"
