"""Rounding for the product: how much of an error later weights can undo, by the formula and as found."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.chapters.quantization.versions import outputs
from tinytorch.core.dispatch import Observer, no_grad, observed_by
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Call
from tinytorch.perf.measuring import Counted, Modelled
from tinytorch.perf.quantization.convert import relative_error

Row = dict[str, Any]
#: What predicts how much smaller the error of a product becomes.
_LAW = "squared steps over 12, times the products of the inputs"


def grid(weight: Array, bits: int) -> tuple[Array, int]:
    """Return the step of each column of a weight, and the largest of its symmetric levels."""
    top = 2 ** (bits - 1) - 1
    return np.abs(weight).max(axis=0) / top, top


def rounded(weight: Array, step: Array, top: float) -> Array:
    """Return the weight after rounding each element to the nearest level."""
    return np.clip(np.round(weight / step), -top, top) * step


def compensated(weight: Array, step: Array, top: float, inputs: Array) -> Array:
    """Return the weight on the grid of `rounded`, but with levels that are chosen for the product (GPTQ)."""
    left, chosen = weight.astype(np.float64), np.empty_like(weight)
    upper = factor(inputs)
    for row in range(len(weight)):
        chosen[row] = rounded(left[row], step, top)
        error = (left[row] - chosen[row]) / upper[row, row]
        left[row:] -= np.outer(upper[row, row:], error)
    return chosen


def factor(inputs: Array) -> Array:
    """Return the upper triangular U with UᵀU = H⁻¹, where H has the inner products of the input columns.

    A hundredth of the mean of its diagonal is added to the diagonal, so that H always has an inverse.
    """
    products = inputs.T.astype(np.float64) @ inputs
    products += 0.01 * np.mean(np.diag(products)) * np.eye(len(products))
    return np.asarray(np.linalg.cholesky(np.linalg.inv(products)).T)


def predicted_gain(inputs: Array) -> float:
    """Return the error of the product after rounding over that after compensation, if errors are uniform in a step."""
    squares = np.square(inputs, dtype=np.float64).sum(axis=0)
    return float(np.sqrt(squares.sum() / np.sum(1 / np.diag(factor(inputs)) ** 2)))


def gain(weight: Array, step: Array, top: float, inputs: Array, unseen: Array) -> float:
    """Return the same ratio as found on ``unseen`` inputs, after compensation for ``inputs``."""
    truth = unseen @ weight
    return relative_error(truth, unseen @ rounded(weight, step, top)) / relative_error(
        truth, unseen @ compensated(weight, step, top, inputs)
    )


def two_inputs(correlation: float) -> Modelled:
    """Return the gain of compensation in a layer with two inputs of one size and such a correlation."""
    what = f"error, rounded over compensated, correlation {correlation:g}"
    return Modelled(float(np.sqrt(2 / (2 - correlation**2))), "", what, _LAW)


def by_correlation(correlations: Sequence[float], rows: int = 1024, columns: int = 4096) -> dict[float, Row]:
    """Return, for layers with two inputs of such correlations, what compensation gains: ``predicted`` and ``found``.

    The weights are uniform and the step is the same for all, so that each rounding error is uniform in a step.
    """
    draw = np.random.default_rng(0)
    first, other = draw.standard_normal((2, rows))
    weight, step = draw.uniform(-1, 1, (2, columns)), np.full(columns, 0.1)

    def row(correlation: float) -> Row:
        inputs = np.stack([first, correlation * first + np.sqrt(1 - correlation**2) * other], axis=1)
        predicted = two_inputs(correlation)
        return {
            "correlation": Counted(correlation, "1", "correlation of the two inputs"),
            "predicted": predicted,
            "found": Counted(gain(weight, step, np.inf, inputs, inputs), "", predicted.what),
        }

    return {each: row(each) for each in correlations}


class _Inputs(Observer):
    """Keeps what comes into each linear layer, by the layer's path."""

    def __init__(self) -> None:
        self.found: dict[str, Array] = {}

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: Any, saved: Any) -> None:
        """Keep the rows of a linear layer's input."""
        del outputs, saved
        if call.op.name == "linear":
            self.found[call.path] = np.array(inputs[0].reshape(-1, inputs[0].shape[-1]))


def inputs_of(model: Module, tokens: Array) -> dict[str, Array]:
    """Return the inputs of each linear layer of the model for these tokens, by the layer's path."""
    collector = _Inputs()
    with no_grad(), observed_by(collector):
        model(tokens)
    return collector.found


def linear_layers(model: Module) -> list[str]:
    """Return the paths of the model's linear layers."""
    return [path for path, layer in model.named_modules() if isinstance(layer, Linear)]


def largest_miss(rows: Iterable[Row]) -> Counted:
    """Return the largest factor between a prediction and what was found, of the rows that have a prediction."""
    factors = [row["predicted"].value / row["found"].value for row in rows if row["predicted"] is not None]
    return Counted(max(max(each, 1 / each) for each in factors), "", "largest factor between prediction and result")


def of_layers(model: Module, paths: Sequence[str], bits: int, examples: int) -> list[Row]:
    """Return what compensation gains in such layers of the zoo's GPT: ``predicted``, and ``found`` on test inputs.

    Inner products are those of the inputs for as many training examples.
    """
    data = models.entry("gpt").data()
    seen = inputs_of(model, data.train_inputs[:examples])
    unseen = inputs_of(model, data.test_inputs[:examples])
    layers = {path: layer for path, layer in model.named_modules() if path in paths}

    def row(path: str) -> Row:
        weight: Array = layers[path].weight.data  # type: ignore[attr-defined]
        what = f"error, rounded over compensated, {path}"
        found = gain(weight, *grid(weight, bits), seen[path], unseen[path])
        return {
            "layer": path,
            "predicted": Modelled(predicted_gain(seen[path]), "", what, _LAW),
            "found": Counted(found, "", what),
        }

    return [row(path) for path in paths]


def of_gpt(model: Module, bits: Sequence[int], examples: int) -> dict[int, Row]:
    """Return the errors of the outputs of the zoo's GPT for so many test examples with few bits in all linear layers.

    By bits, of weights that are ``rounded``, and of weights that are ``compensated`` for the inputs that each layer of
    the float model has for as many training examples.
    """
    seen = inputs_of(model, models.entry("gpt").data().train_inputs[:examples])
    truth = outputs(model, "gpt", examples)

    def error(width: int, how: str) -> Counted:
        version = deepcopy(model)
        for path, layer in version.named_modules():
            if isinstance(layer, Linear):
                weight = layer.weight.data
                step, top = grid(weight, width)
                weight[...] = (
                    compensated(weight, step, top, seen[path]) if how == "compensated" else rounded(weight, step, top)
                )
        error = relative_error(truth, outputs(version, "gpt", examples))
        return Counted(error, "%", f"error of the outputs, {width} bits, {how}")

    return {
        each: {"bits": each, "rounded": error(each, "rounded"), "compensated": error(each, "compensated")}
        for each in bits
    }
