"""Fresh processes of Python: functions that are given to them by name, and their answers in JSON."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
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


def output_of(
    arguments: Sequence[str],
    *,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    given: str | None = None,
) -> str:
    """Return what a fresh process of Python prints.

    Args:
        arguments: of the interpreter, such as ``("-m", "module")``.
        python: the interpreter.
        environment: its variables; None for those of this process.
        given: what it can read from standard input.

    Raises:
        RuntimeError: if the process fails: the last line of its error, or the signal that it died of.
    """
    done = subprocess.run(
        [python, *arguments], input=given, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode < 0:
        raise RuntimeError(f"a fresh process died of {signal.Signals(-done.returncode).name}")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"a fresh process failed: {lines[-1]}")
    return done.stdout


def with_our_path(folder: Path | None = None) -> dict[str, str]:
    """Return this process's variables, and where it finds modules, so that a fresh one finds the same."""
    path = [str(folder), *sys.path] if folder else sys.path
    return {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in path if each)}


def answer_of(module: str, asked: Any, folder: Path | None = None) -> Any:
    """Return what ``module``, run in a fresh process, answers to ``asked``.

    It reads one JSON value from standard input and prints its answer as the last line. It has this thread's cores.

    Args:
        module: name of the module, run as ``python -m`` does.
        asked: a value that JSON can hold.
        folder: searched for the package first; None takes the package that is imported here.

    Raises:
        RuntimeError: as `output_of`.
    """
    printed = output_of(("-m", module), environment=with_our_path(folder), given=json.dumps(asked))
    return json.loads(printed.splitlines()[-1])
