"""An optimizer's state as arrays by slot and parameter, and its settings: what a checkpoint holds of it."""

from __future__ import annotations

from typing import Any

from tinytorch.core.op import Array
from tinytorch.core.optimizers import Optimizer

#: Settings that training itself changes; all others must be the same where it continues.
CHANGING = frozenset({"lr", "steps"})


def slots(optimizer: Optimizer) -> list[list[Array]]:
    """Return the state's arrays, one list a slot (velocity; first and second moment), in the order of the parameters.

    They are the optimizer's own, so that writing to them changes its state.

    Raises:
        ValueError: if the optimizer does not keep the same slots for every parameter.
    """
    arrays, count = list(optimizer.state_arrays()), len(optimizer.parameters)
    if len(arrays) % count:
        raise ValueError(
            f"optimizer must keep as many arrays for each parameter, but has {len(arrays)} for {count} parameters"
        )
    made = [arrays[start : start + count] for start in range(0, len(arrays), count)]
    for slot in made:
        for array, parameter in zip(slot, optimizer.parameters, strict=True):
            if array.shape != parameter.shape:
                raise ValueError(
                    f"optimizer's state must have its parameter's shape {parameter.shape}, not {array.shape}"
                )
    return made


def settings(optimizer: Optimizer) -> dict[str, Any]:
    """Return the optimizer's class and its numbers by name, as JSON gives them back."""
    numbers = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(optimizer).items()
        if isinstance(value, (int, float, tuple))
    }
    return {"class": type(optimizer).__name__, **numbers}


def check_settings(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Raise ValueError unless all settings but those that training changes are the ``saved`` ones."""
    own = settings(optimizer)
    for name in sorted(own.keys() | saved.keys()):
        if name not in CHANGING and own.get(name) != saved.get(name):
            raise ValueError(
                f"the optimizer's {name} must be {saved.get(name)!r}, as in the checkpoint, not {own.get(name)!r}"
            )


def restore_settings(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Set the numbers that training changes."""
    for name in CHANGING & settings(optimizer).keys():
        setattr(optimizer, name, saved[name])
