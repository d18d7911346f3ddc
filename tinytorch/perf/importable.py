"""Functions by name: how a fresh process is told which function to run, without pickling it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def reference_to(argument: str, function: Callable[..., Any]) -> str:
    """Return ``module:name``, after checking that it leads back to ``function``.

    Args:
        argument: what the caller's caller knows the function as, for the error.

    Raises:
        ValueError: if a new process could not import it by that name.
    """
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    try:
        found = getattr(importlib.import_module(module), name) if module != "__main__" else None
    except (ImportError, AttributeError, ValueError):
        found = None
    if found is not function:
        raise ValueError(
            f"{argument} must be a function at the top level of a module that a new process can import, "
            f"not {function!r}"
        )
    return f"{module}:{name}"


def function_at(reference: str) -> Callable[..., Any]:
    """Return the function that `reference_to` named."""
    module, _, name = reference.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found
