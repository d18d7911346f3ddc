"""What extensions keep in Sphinx's environment, which is stored with the pages that were read and lasts over builds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sphinx.environment import BuildEnvironment

State = TypeVar("State")


def state_of(env: BuildEnvironment, name: str, make: Callable[[], State]) -> State:
    """Return what the environment keeps under ``name``, which must be no name of Sphinx; made when missing."""
    if not hasattr(env, name):
        setattr(env, name, make())
    found: State = getattr(env, name)
    return found
