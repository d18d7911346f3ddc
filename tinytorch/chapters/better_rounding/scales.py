"""Moved scales: an outlier in the inputs divided out of them and multiplied into the weight, and what that gains."""

from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.measuring import Counted, Modelled
from tinytorch.perf.quantization.convert import relative_error

#: Consecutive elements of a column of a weight that share a scale.
GROUP = 128
Row = dict[str, Any]


def on_grid(values: Array, step: Array | float) -> Array:
    """Return the values after rounding to multiples of the step."""
    return np.asarray(np.round(values / step) * step, np.float32)


def per_tensor(values: Array, bits: int) -> Array:
    """Return the step of a symmetric grid for all values."""
    return np.asarray(np.abs(values).max() / (2 ** (bits - 1) - 1))


def per_channel(weight: Array, bits: int) -> Array:
    """Return the step of a symmetric grid for each column of a weight."""
    return np.asarray(np.abs(weight).max(axis=0) / (2 ** (bits - 1) - 1))


def per_group(weight: Array, bits: int) -> Array:
    """Return the step of each element, if each group of a column has a symmetric grid."""
    parts = np.abs(weight.reshape(-1, GROUP, weight.shape[1])).max(axis=1) / (2 ** (bits - 1) - 1)
    return np.repeat(parts, GROUP, axis=0)


def smoothing(inputs: Array, weight: Array) -> Array:
    """Return the divisors of the input columns that give each column and its row of the weight one size (SmoothQuant).

    The largest magnitudes of the two become equal.
    """
    return np.asarray(np.sqrt(np.abs(inputs).max(axis=0) / np.abs(weight).max(axis=1)))


def protecting(inputs: Array, weight: Array, bits: int) -> Array:
    """Return divisors that are a power of the mean magnitude of each input column (AWQ): that with the least error."""
    size, truth = np.abs(inputs).mean(axis=0), inputs @ weight

    def error(divisor: Array) -> float:
        larger = weight * divisor[:, None]
        return relative_error(truth, (inputs / divisor) @ on_grid(larger, per_group(larger, bits)))

    return min((size**power for power in (0.0, 0.125, 0.25, 0.375, 0.5)), key=error)


def predicted_error(inputs: Array, input_step: Array | float, weight: Array, weight_step: Array | float) -> float:
    """Return the relative error of a product of two rounded factors, if each error has the mean square step² / 12."""
    rows, steps = len(inputs), np.broadcast_to(np.square(weight_step), weight.shape)
    of_inputs = rows * np.square(input_step) / 12 * np.square(weight).sum()
    of_weight = np.square(inputs).sum(axis=0) @ steps.sum(axis=1) / 12
    return float(np.sqrt((of_inputs + of_weight) / np.square(inputs @ weight).sum()))


def inputs_with_outliers(rows: int, width: int, columns: int, times: float, seed: int) -> Array:
    """Return normal inputs that share a part of each row, with so many columns that are ``times`` as large."""
    draw = np.random.default_rng(seed)
    mixed = draw.standard_normal((rows, width)) + 0.7 * draw.standard_normal((rows, 1))
    mixed[:, np.random.default_rng(width).permutation(width)[:columns]] *= times
    return mixed.astype(np.float32)


def remedies(width: int = 768, columns: int = 6, times: float = 20.0) -> dict[str, Row]:
    """Return the errors of a synthetic layer of GPT-2's shape, d to 4d, whose inputs have outliers.

    "rounded" has inputs and weight in 8 bits, "smoothed" the same with moved scales; "weights" has the weight alone in
    4 bits and groups, "protected" the same with moved scales. Errors are ``predicted`` and ``found`` on inputs that
    were not seen when the scales were chosen.
    """
    seen, unseen = (inputs_with_outliers(1024, width, columns, times, seed) for seed in (1, 2))
    weight = (0.02 * np.random.default_rng(0).standard_normal((width, 4 * width))).astype(np.float32)
    smooth, protect = smoothing(seen, weight), protecting(seen, weight, 4)

    def row(what: str, divisor: Array, *, activations: bool) -> Row:
        x, w = unseen / divisor, weight * divisor[:, None]
        x_step, w_step = (per_tensor(x, 8), per_channel(w, 8)) if activations else (np.asarray(0.0), per_group(w, 4))
        product = (on_grid(x, x_step) if activations else x) @ on_grid(w, w_step)
        name = f"error of the outputs, {what}"
        return {
            "what": what,
            "predicted": Modelled(predicted_error(x, x_step, w, w_step), "%", name, "squared steps over 12"),
            "found": Counted(relative_error(unseen @ weight, product), "%", name),
        }

    same = np.ones(width, np.float32)
    return {
        "rounded": row("8-bit inputs and weights", same, activations=True),
        "smoothed": row("the same, SmoothQuant", smooth, activations=True),
        "weights": row("4-bit weights, groups of 128", same, activations=False),
        "protected": row("the same, AWQ", protect, activations=False),
    }
