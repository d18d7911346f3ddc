"""A user's own model, named ``module:factory``: imported, made, checked, and given an input."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import numpy as np

from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.model_profile import rows_of
from tinytorch.perf.subject import zeros_for


def made_by(target: str) -> Any:
    """Return what the function named ``module:factory`` returns; modules in the current folder are found.

    Raises:
        ValueError: if ``target`` has another form, cannot be imported, is no function, or raised; the message says
            which in one sentence.
    """
    module_name, _, factory_name = target.partition(":")
    if not module_name or not factory_name:
        raise ValueError(f"the model must be given as module:factory, not {target!r}")
    if os.getcwd() not in sys.path and "" not in sys.path:  # as `python -m` has it, so that one's own file is found
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(f"module {module_name!r} cannot be imported: {_sentence(error)}") from error
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        raise ValueError(f"{target} must be a function that returns a Module, but module {module_name} has none")
    try:
        return factory()
    except Exception as error:
        raise ValueError(f"{target} raised {type(error).__name__}: {_sentence(error)}") from error


def checked_module(model: Any, target: str) -> Module:
    """Return ``model``, or raise ValueError if it is no Module."""
    if not isinstance(model, Module):
        raise ValueError(f"{target} must return a Module, not {type(model).__name__}")
    return model


def example_of(model: Module, target: str, batch: int, input_shape: tuple[int, ...] | None = None) -> Tensor:
    """Return zeros of ``input_shape`` (without the batch), or rows of the model's ``example_input``, ``batch`` of them.

    Raises:
        ValueError: if there is neither.
    """
    if input_shape is not None:
        return zeros_for(model, (batch, *input_shape))
    example = getattr(model, "example_input", None)
    if example is None:
        raise ValueError(f"{target} has no attribute example_input: give --input-shape, such as 1,28,28")
    return Tensor(rows_of(np.asarray(example.data if isinstance(example, Tensor) else example), batch))


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
