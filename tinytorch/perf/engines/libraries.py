"""Which library multiplies matrices inside of an engine, in the engine's own words."""

from __future__ import annotations

import re
import subprocess

from tinytorch.perf.engines.presence import NotMeasured, missing, peers_python

_SHOW = "import torch; print(torch.__config__.show())"


def pytorch_blas() -> str | NotMeasured:
    """Return the BLAS that PyTorch was built with, such as "mkl 2024.2", or why this build does not know.

    Raises:
        RuntimeError: if PyTorch's process fails; its last line of error is the message.
    """
    lacks = missing("PyTorch eager")
    if lacks is not None:
        return lacks
    done = subprocess.run([peers_python(), "-c", _SHOW], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"PyTorch could not say what it was built with: {lines[-1]}")
    return blas_in(done.stdout)


def blas_in(shown: str) -> str | NotMeasured:
    """Return the BLAS that PyTorch's description of its build names, with MKL's version where that is it."""
    named = re.search(r"\bBLAS_INFO=(\w+)", shown)
    if named is None:
        return NotMeasured("PyTorch's description of its build names no BLAS; torch.__config__.show() prints it")
    version = re.search(r"Math Kernel Library Version ([\d.]+)", shown)
    return f"{named[1]} {version[1]}" if named[1] == "mkl" and version else named[1]
