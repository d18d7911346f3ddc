"""Engines that this build can measure, and what to do about those that it cannot."""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tinytorch import settings
from tinytorch.perf.engines.protocol import ENGINES, Engine, engine
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.measuring.fresh import output_of


def peers_python() -> str:
    """Return the Python that engines run in: the one that the settings name, or this one.

    Raises:
        ValueError: if it names no file.
    """
    named = settings.SETTINGS.peers
    if not named:
        return sys.executable
    if not Path(named).is_file():
        raise ValueError(
            f"TINYTORCH_PEERS must name the Python of an environment with the engines, but {named!r} is not a file"
        )
    return named


def available() -> dict[str, str]:
    """Return the version of each engine that can be measured here, by its name."""
    found = versions_in(peers_python())
    return {name: found[name] for name in ENGINES if name in found}


def missing(name: str) -> Unmeasured | None:
    """Return why the engine is not measured here; None if it can be.

    Raises:
        ValueError: if there is no such engine.
    """
    wanted = engine(name)
    if name in available():
        return None
    return Unmeasured(
        f"{wanted.name} is not installed where this ran: `make book PEERS=1` measures it, or `{wanted.install}` here"
    )


def versions_here() -> dict[str, str]:
    """Return the version of each engine whose packages this Python has, by its name."""
    return {made.name: _version(made) for made in ENGINES.values() if all(map(_has, made.packages))}


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _version(made: Engine) -> str:
    package = made.packages[-1] if made.packages and made.translation != "ours" else "tinytorch"
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def versions_in(python: str) -> dict[str, str]:
    """Return `versions_here` of another Python.

    Raises:
        RuntimeError: if it cannot say; its last line of error is the message.
    """
    if python == sys.executable:
        return versions_here()
    found: dict[str, str] = json.loads(output_of(("-m", __name__), python=python))
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(versions_here()))
