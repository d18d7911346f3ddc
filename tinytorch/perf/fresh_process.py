"""A fresh process, asked and answering in JSON: nothing that ran before stays with it, and nothing is pickled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


def answer_of(module: str, asked: Any, folder: Path | None = None) -> Any:
    """Return what ``module``, run in a fresh process, answers to ``asked``.

    It reads one JSON value from standard input and prints its answer as the last line. It has this thread's cores.

    Args:
        module: name of the module, run as ``python -m`` does.
        asked: a value that JSON can hold.
        folder: searched for the package first; None takes the package that is imported here.

    Raises:
        RuntimeError: if the process fails: the last line of its error, or the signal that it died of.
    """
    path = [str(folder), *sys.path] if folder else sys.path
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in path if each)}
    command = [sys.executable, "-m", module]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        raise RuntimeError(_why(done.returncode, done.stderr))
    return json.loads(done.stdout.splitlines()[-1])


def _why(code: int, said: str) -> str:
    if code < 0:
        return f"it died of {signal.Signals(-code).name}"
    return (said.strip().splitlines() or [f"exit code {code}"])[-1]
