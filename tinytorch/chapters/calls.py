"""Calls that several pages time, by the same names, so that the book can tell where their intervals contradict."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tinytorch import models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.perf.measuring import Measurement, interleave
from tinytorch.perf.roofline.placement import Placed


def of_call(seconds: Measurement, call: str) -> Measurement:
    """Return the times of a call with its name among their conditions; what is made of them is no time of the call.

    Pages that time one call, on equal operands and one thread, must give it one name. The build compares them: see
    `measured_book.records.agreement`.
    """
    return replace(seconds, conditions=replace(seconds.conditions, call=call))


def zoo_pass(seconds: Measurement, model: str, batch: int) -> Measurement:
    """Return the times of a forward pass by NumPy of the zoo's ``model``, with the call's name."""
    return of_call(seconds, f"forward pass of the zoo's {model.upper()}, batch of {batch}, by NumPy")


def on_a_million(placed: Placed) -> Placed:
    """Return an operation on matrices 1,024 wide, by NumPy, with the call's name."""
    return replace(placed, seconds=of_call(placed.seconds, f"{placed.name}, 1,024 wide, by NumPy"))


def trained_zoo() -> dict[str, Module]:
    """Return the trained models of the zoo."""
    return {name: models.trained(name) for name in models.ZOO}


def in_turns(
    layers: Mapping[str, Any],
    x: Any,
    repeats: int,
    others: Mapping[str, Callable[[], Any]] | None = None,
    *,
    warmup_seconds: float = 1.0,
) -> dict[str, Measurement]:
    """Return the times of forward passes of ``x``, by copies that move in memory, and of ``others`` beside them."""

    def forward_of(layer: Any) -> Callable[[], Any]:
        return lambda: layer(x)

    def moved() -> dict[str, Callable[[], Any]]:
        return {name: forward_of(copy.deepcopy(layer)) for name, layer in layers.items()} | dict(others or {})

    with no_grad():
        return interleave(moved, repeats=repeats, warmup_seconds=warmup_seconds)
