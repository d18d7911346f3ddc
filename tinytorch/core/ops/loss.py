"""Losses that are cheaper, and more exact, as one op than as their parts."""

from __future__ import annotations

import numpy as np

from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work, as_floating
from tinytorch.core.ops.elementwise import row_products, sums_along, widened


def _mean_squared_error_forward(keep: bool, prediction: Array, target: Array) -> tuple[Array, Saved]:
    if prediction.shape != target.shape:
        raise ValueError(f"target must have the prediction's shape {prediction.shape}, not {target.shape}")
    if not prediction.size:
        raise ValueError(f"prediction must have at least one element, but its shape is {prediction.shape}")
    # Integers and halves hold neither the difference of their extremes nor its square.
    floating = [each.dtype for each in (prediction, target) if each.dtype.kind == "f"] or [np.dtype(np.float64)]
    wide = np.result_type(*floating, np.float32)
    difference = np.subtract(prediction, target, dtype=wide, casting="unsafe").reshape(-1)
    return row_products(difference, difference) / difference.dtype.type(difference.size), (
        difference,
        prediction.shape,
    ) if keep else ()


def _mean_squared_error_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    difference, shape = saved
    down = (difference * (2 * gradient / difference.dtype.type(difference.size))).reshape(shape)
    return down if needs[0] else None, -down if needs[1] else None


def _cross_entropy_forward(
    keep: bool, logits: Array, target: Array, *, ignore_index: int | None = None
) -> tuple[Array, Saved]:
    """Mean of -log softmax(logits)[target] over all targets that are not ``ignore_index``."""
    classes = logits.shape[-1]
    if logits.shape[:-1] != target.shape or target.dtype.kind not in "iu":
        raise ValueError(
            f"target must be integers of shape {logits.shape[:-1]} for logits of shape {logits.shape}, "
            f"not {target.dtype} of shape {target.shape}"
        )
    rows, labels = widened(as_floating(logits)).reshape(-1, classes), target.flatten()  # a copy, for the backward
    counted = None if ignore_index is None else labels != ignore_index
    if counted is not None:
        labels = np.where(counted, labels, 0)
    if not labels.size or labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"target must hold classes in 0..{classes - 1}, and at least one")
    if counted is not None and not counted.all():  # whatever stands in rows that do not count, and be it NaN
        rows = np.where(counted[:, None], rows, 0)
    shifted = rows - rows.max(axis=1, keepdims=True)
    picked = shifted[np.arange(len(rows)), labels]
    weights = np.exp(shifted, out=shifted)
    totals = sums_along(weights, 1)
    losses = np.log(totals) - picked
    count = len(rows) if counted is None else int(counted.sum())
    if count == 0:
        raise ValueError(f"target holds nothing but ignore_index {ignore_index}, so there is no loss")
    if counted is not None:
        losses *= counted
    loss = losses.sum() / rows.dtype.type(count)
    return loss, (weights, totals, labels, counted, count, logits.shape) if keep else ()


def _cross_entropy_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    weights, totals, labels, counted, count, shape = saved
    scale = np.divide(gradient / weights.dtype.type(count), totals)
    if counted is not None:
        scale *= counted
    down = weights * scale[:, None]
    down[np.arange(len(labels)), labels] -= scale * totals
    return down.reshape(shape), None


def _mean_squared_error_work(call: Call) -> Work:
    """Difference, square and sum; backward one product, and a negation for the target."""
    size = call.inputs[0].size
    return Work(elementwise=3 * size if call.phase == "forward" else size * sum(call.needs))


def _cross_entropy_work(call: Call) -> Work:
    """Maximum, shift, exponential and sum for each logit; backward one product."""
    size = call.inputs[0].size
    return Work(elementwise=4 * size if call.phase == "forward" else size)


mean_squared_error = Op(
    "mean_squared_error", _mean_squared_error_forward, _mean_squared_error_backward, _mean_squared_error_work
)
cross_entropy = Op("cross_entropy", _cross_entropy_forward, _cross_entropy_backward, _cross_entropy_work)
