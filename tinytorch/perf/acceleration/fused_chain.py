"""The op of a chain of linear layers: one primitive that takes a few rows through all of them before the next rows."""

from __future__ import annotations

from itertools import pairwise

from tinytorch.core.op import Array, Call, Op, Saved, Work
from tinytorch.perf.ops.fused import (
    Activation,
    Layout,
    activation_operations,
    no_backward,
    packed_linear,
    padded_columns,
)


def places(widths: tuple[int, ...], layout: Layout) -> list[tuple[int, int, int]]:
    """Return, for each layer from a width to the next, where its panels begin, its bias, and what follows.

    All lie in one flat array, layer after layer, panels before bias; each begins at a whole vector.
    """
    found, start = [], 0
    for inner, columns in pairwise(widths):
        filled = padded_columns(columns, layout)
        found.append((start, start + inner * filled, start + (inner + 1) * filled))
        start = found[-1][2]
    return found


def checked_chain(x: Array, widths: tuple[int, ...]) -> tuple[int, ...]:
    """Return the output's shape; raise ValueError unless ``x`` ends in the first width."""
    if x.ndim == 0 or x.shape[-1] != widths[0]:
        raise ValueError(f"the chain needs an input that ends in {widths[0]} features, not one of shape {x.shape}")
    return (*x.shape[:-1], widths[-1])


def _forward(
    keep: bool,
    x: Array,
    weights: Array,
    *,
    widths: tuple[int, ...],
    layout: Layout,
    activations: tuple[Activation, ...],
) -> tuple[Array, Saved]:
    """Run the layers one after the other; a layer without a bias has one of zeros."""
    del keep  # nothing is kept for the backward that there is none of
    checked_chain(x, widths)
    for index, (panels, bias, end) in enumerate(places(widths, layout)):
        features = (widths[index], widths[index + 1])
        given = {"features": features, "layout": layout, "activation": activations[index]}
        operands = (weights[panels:bias], weights[bias:end][: features[1]], None)
        x, _ = packed_linear.reference.forward(False, x, *operands, **given)
    return x, ()


def _work(call: Call) -> Work:
    """The products, and an addition and the activation for each output of a layer."""
    widths, activations = call.params["widths"], call.params["activations"]
    rows = call.output.size // max(widths[-1], 1)
    macs = sum(inner * columns for inner, columns in pairwise(widths))
    others = sum(
        columns * (1 + activation_operations(activation))
        for columns, activation in zip(widths[1:], activations, strict=True)
    )
    return Work(rows * macs, rows * others)


#: ``(x, weights; widths, layout, activations)``: linear layers with bias, for inference.
packed_chain = Op("packed_chain", _forward, no_backward, _work)
