"""Smaller errors with the same bits: codes chosen by what they do, scales moved, and floating formats of few bits."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.chapters.quantization.codes import normals_with_outlier
from tinytorch.chapters.quantization.versions import outputs
from tinytorch.core.dispatch import Observer, no_grad, observed_by
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Call
from tinytorch.perf.measuring import Counted
from tinytorch.perf.quantization.convert import decibels, relative_error

#: Numbers that share a scale in the formats of blocks, and bits of a number with its share of the scale.
_MX_BLOCK, _NV_BLOCK, _INT_BLOCK = 32, 16, 32


def rounded(weight: Array, bits: int) -> Array:
    """Return the weight after rounding each number to the nearest of ``bits``, with a symmetric scale a column."""
    top = 2 ** (bits - 1) - 1
    step = np.abs(weight).max(axis=0) / top
    return np.clip(np.round(weight / step), -top, top) * step


def compensated(weight: Array, bits: int, inputs: Array) -> Array:
    """Return the weight in the codes of `rounded`, chosen row by row for the product with such inputs (GPTQ)."""
    top = 2 ** (bits - 1) - 1
    step = np.abs(weight).max(axis=0) / top
    squares = inputs.T.astype(np.float64) @ inputs
    squares += 0.01 * np.mean(np.diag(squares)) * np.eye(len(squares))
    upper = np.linalg.cholesky(np.linalg.inv(squares)).T
    left, chosen = weight.astype(np.float64), np.empty_like(weight)
    for row in range(len(weight)):
        chosen[row] = np.clip(np.round(left[row] / step), -top, top) * step
        error = (left[row] - chosen[row]) / upper[row, row]
        left[row:] -= np.outer(upper[row, row:], error)
    return chosen


class _Inputs(Observer):
    """Keeps what comes into each linear layer, by the layer's path."""

    def __init__(self) -> None:
        self.found: dict[str, Array] = {}

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: Any, saved: Any) -> None:
        """Keep the rows of a linear layer's input."""
        del outputs, saved
        if call.op.name == "linear":
            self.found[call.path] = np.array(inputs[0].reshape(-1, inputs[0].shape[-1]))


def of_gpt(model: Module, bits: tuple[int, ...], examples: int) -> dict[int, dict[str, Any]]:
    """Return the errors of the outputs of the zoo's GPT for so many test examples with few bits in all linear layers.

    By bits, of codes that are each ``rounded``, and of codes that are ``chosen`` for the product, on what comes into
    each layer of the float model from as many training examples.
    """
    collector = _Inputs()
    with no_grad(), observed_by(collector):
        model(models.entry("gpt").data().train_inputs[:examples])
    truth = outputs(model, "gpt", examples)

    def error(width: int, how: str) -> Counted:
        version = deepcopy(model)
        for path, layer in version.named_modules():
            if isinstance(layer, Linear):
                weight = layer.weight.data
                chosen = (
                    compensated(weight, width, collector.found[path]) if how == "chosen" else rounded(weight, width)
                )
                weight[...] = chosen
        error = relative_error(truth, outputs(version, "gpt", examples))
        return Counted(error, "%", f"error of the outputs, {width} bits, {how}")

    return {each: {"bits": each, "rounded": error(each, "rounded"), "chosen": error(each, "chosen")} for each in bits}


def rows_with_outliers(rows: int, width: int, columns: int, times: float, seed: int) -> Array:
    """Return normal inputs that share a part of each row, with so many columns that are ``times`` as large."""
    draw = np.random.default_rng(seed)
    mixed = draw.standard_normal((rows, width)) + 0.7 * draw.standard_normal((rows, 1))
    mixed[:, np.random.default_rng(width).permutation(width)[:columns]] *= times
    return mixed.astype(np.float32)


def eight_bits(numbers: Array) -> Array:
    """Return the numbers after rounding to eight symmetric bits with one scale for all."""
    step = np.abs(numbers).max() / 127
    return (np.round(numbers / step) * step).astype(np.float32)


def smoothing(inputs: Array, weight: Array) -> Array:
    """Return what to divide each input column by, and to multiply each weight row with (SmoothQuant, half and half)."""
    return np.sqrt(np.abs(inputs).max(axis=0) / np.abs(weight).max(axis=1))


def grouped(weight: Array, bits: int, group: int = 128) -> Array:
    """Return the weight after rounding with a symmetric scale for each ``group`` of numbers of a column."""
    parts = weight.reshape(-1, group, weight.shape[1])
    top = 2 ** (bits - 1) - 1
    step = np.abs(parts).max(axis=1, keepdims=True) / top
    return (np.round(parts / step) * step).reshape(weight.shape)


def protecting(inputs: Array, weight: Array, bits: int) -> Array:
    """Return the like for weights in groups (AWQ): the power of an input column's mean size that errs least here."""
    size, truth = np.abs(inputs).mean(axis=0), inputs @ weight
    scales = [size**power for power in (0.0, 0.125, 0.25, 0.375, 0.5)]

    def error(scale: Array) -> float:
        return relative_error(truth, (inputs / scale) @ grouped(weight * scale[:, None], bits))

    return min(scales, key=error)


def remedies(width: int = 768, columns: int = 6, times: float = 20.0) -> dict[str, Counted]:
    """Return the error of the outputs of a made layer of GPT-2's shape, d to 4d, with outliers in its inputs.

    Its outputs are those of inputs that were not seen when scales were chosen. It has "inputs" and weights in eight
    bits, then with scales "moved", and the "weights" alone in four bits, then with scales moved for the "salient" ones.
    """
    seen, unseen = (rows_with_outliers(1024, width, columns, times, seed) for seed in (1, 2))
    weight = (0.02 * np.random.default_rng(0).standard_normal((width, 4 * width))).astype(np.float32)
    truth = unseen @ weight
    moved, salient = smoothing(seen, weight)[:, None], protecting(seen, weight, 4)[:, None]
    found = {
        "inputs": eight_bits(unseen) @ rounded(weight, 8),
        "moved": eight_bits(unseen / moved.T) @ rounded(weight * moved, 8),
        "weights": unseen @ grouped(weight, 4),
        "salient": (unseen / salient.T) @ grouped(weight * salient, 4),
    }
    return {
        key: Counted(relative_error(truth, each), "%", f"error of the outputs, {key}") for key, each in found.items()
    }


def in_floating_point(numbers: Array, exponent_bits: int, mantissa_bits: int, largest: float) -> Array:
    """Return the numbers after rounding to a floating format; what is beyond the largest becomes it.

    Source: P. Micikevicius et al., FP8 Formats for Deep Learning, 2022.
    """
    least = 2 - 2 ** (exponent_bits - 1)
    exponent = np.maximum(np.floor(np.log2(np.maximum(np.abs(numbers), 2.0**-120))), least)
    step = 2.0 ** (exponent - mantissa_bits)
    return np.clip(np.round(numbers / step) * step, -largest, largest)


def e4m3(numbers: Array) -> Array:
    """Return the numbers in FP8 with four bits of exponent, E4M3."""
    return in_floating_point(numbers, 4, 3, 448.0)


def e2m1(numbers: Array) -> Array:
    """Return the numbers in FP4, E2M1: 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with a sign."""
    return in_floating_point(numbers, 2, 1, 6.0)


def mxfp4(numbers: Array) -> Array:
    """Return the numbers in blocks of 32 FP4 with a power of two for each (OCP Microscaling)."""
    blocks = numbers.reshape(-1, _MX_BLOCK)
    scale = 2.0 ** (np.floor(np.log2(np.abs(blocks).max(axis=1, keepdims=True))) - 2)
    return (e2m1(blocks / scale) * scale).reshape(numbers.shape)


def nvfp4(numbers: Array) -> Array:
    """Return the numbers in blocks of 16 FP4 with an E4M3 scale for each, and one for all of them."""
    blocks = numbers.reshape(-1, _NV_BLOCK)
    whole = np.abs(numbers).max() / (6.0 * 448.0)
    scale = np.maximum(e4m3(np.abs(blocks).max(axis=1, keepdims=True) / 6.0 / whole) * whole, 1e-30)
    return (e2m1(blocks / scale) * scale).reshape(numbers.shape)


def int4(numbers: Array) -> Array:
    """Return the numbers in blocks of 32 four-bit integers with a float16 scale for each."""
    blocks = numbers.reshape(-1, _INT_BLOCK)
    step = (np.abs(blocks).max(axis=1, keepdims=True) / 7).astype(np.float16).astype(np.float64)
    return (np.clip(np.round(blocks / step), -7, 7) * step).reshape(numbers.shape)


#: Each format: how it rounds, and its bits a number.
_FORMATS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "INT8, one scale": (eight_bits, 8.0),
    "FP8, E4M3": (e4m3, 8.0),
    "INT4, blocks of 32": (int4, 4 + 16 / _INT_BLOCK),
    "MXFP4, blocks of 32": (mxfp4, 4 + 8 / _MX_BLOCK),
    "NVFP4, blocks of 16": (nvfp4, 4 + 8 / _NV_BLOCK),
}


def formats(count: int, outlier: float) -> dict[str, dict[str, Counted]]:
    """Return the bits a number of each format and two signals to noise: of normal numbers, and with an outlier.

    ``normal`` is that of so many numbers, ``rest`` that of all others when one of them is the outlier.
    """
    normal, stretched = (normals_with_outlier(count, large) for large in (0.0, outlier))
    others = stretched != outlier

    def signal(form: Callable[[Array], Array], numbers: Array, what: str) -> Counted:
        return Counted(decibels(numbers[others], form(numbers)[others]), "dB", f"signal to noise, {what}")

    return {
        name: {
            "bits": Counted(bits, "bit", f"bits a number, {name}"),
            "normal": signal(form, normal, f"normal numbers in {name}"),
            "rest": signal(form, stretched, f"all but the outlier in {name}"),
        }
        for name, (form, bits) in _FORMATS.items()
    }
