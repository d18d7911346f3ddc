"""What the pages run in: an environment without the user's own settings, and kernels that tell what they loaded."""

import json
import os
import sys
from pathlib import Path

import numpy as np

from scripts.environment import let_through, without_terminal

#: Runs in each page's kernel as it starts. After each cell it writes the modules loaded so far with their files, which
#: the build compares with what the page's key holds: outside of the cells, so no measurement contains it.
_STARTUP = '''"""Tells the book's build which modules the cells of a page loaded."""
from pathlib import Path as _Path
import sys as _sys


def _write_loaded_modules(*_):
    aside = _Path({target!r} + ".new")
    files = {{name: getattr(module, "__dict__", {{}}).get("__file__") for name, module in list(_sys.modules.items())}}
    aside.write_text("".join(f"{{name}}\\t{{file}}\\n" for name, file in sorted(files.items()) if file), "utf-8")
    aside.replace({target!r})


get_ipython().events.register("post_run_cell", _write_loaded_modules)
'''
#: Runs a page's kernel without the system's configuration of IPython, which has start-up files of its own.
_KERNEL = """
from IPython.core import application
application.SYSTEM_CONFIG_DIRS.clear()
application.ENV_CONFIG_DIRS.clear()
from ipykernel import kernelapp
kernelapp.launch_new_instance()
"""
LOADED_MODULES = "loaded-modules.txt"
#: Warnings that fail no reader's build. A newer Python has a word for the authors of code: the tests hold our own
#: modules to it.
_NOT_SHOWN = ("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning", "ignore::FutureWarning")


def build_settings(output: Path, cpu: str | None = None) -> dict[str, str]:
    """Return the environment variables of the build: those of the user's that are let through, and its own.

    Args:
        output: the folder that the build writes into.
        cpu: an older CPU whose instructions all kernels are held to; None for this machine's own.

    Raises:
        ValueError: if this machine cannot do as that CPU.

    Pages run on the kernel that `write_startup` makes, even where the user has another of its name, and without the
    user's IPython start-up files or matplotlib styles, which would change what is measured. A BLAS held to a narrower
    CPU's kernels would be a straw man: every speedup over it would be too large.
    """
    settings = without_terminal(let_through(os.environ))
    user = output / ".user"
    settings["JUPYTER_PREFER_ENV_PATH"] = "1"
    settings["JUPYTER_PATH"] = str(user / "jupyter")
    settings["JUPYTER_CONFIG_DIR"] = str(user / "jupyter")
    settings["JUPYTER_NO_CONFIG"] = "1"
    settings["IPYTHONDIR"] = str(user / "ipython")
    settings["MPLCONFIGDIR"] = str(user / "matplotlib")
    settings["PYTHONNOUSERSITE"] = "1"
    # What a cell warns of stops the build.
    settings["PYTHONWARNINGS"] = ",".join([*_NOT_SHOWN, *ignored_warnings()])
    if cpu is None:
        return settings
    from scripts.building.older_cpu import older_cpu_settings  # loads Numba, which a build of this machine needs not

    return settings | older_cpu_settings(cpu)


def write_startup(output: Path) -> None:
    """Write the kernel of the pages and its start-up file below the folder `output`."""
    kernel = output / ".user" / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", _KERNEL, "-f", "{connection_file}"]
    said = {"argv": command, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(said), "utf-8")
    folder = output / ".user" / "ipython" / "profile_default" / "startup"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "loaded_modules.py").write_text(_STARTUP.format(target=str(output / LOADED_MODULES)), "utf-8")


def raises_false_flags() -> bool:
    """Return whether a float32 product of ones by NumPy's BLAS raises floating-point flags, of errors that it has not.

    A kernel for Arm's SME does: the unit sets every flag on its way into the streaming mode and out of it. Sources: Arm
    Architecture Reference Manual, PSTATE.SM and FPSR; https://github.com/numpy/numpy/issues/28687, of macOS, where
    NumPy itself does without the flags.
    """
    ones = np.ones((64, 64), np.float32)
    try:
        with np.errstate(all="raise"):
            np.matmul(ones, ones)
    except FloatingPointError:
        return True
    return False


def ignored_warnings() -> list[str]:
    """Return the filters, as ``-W`` takes them, of what NumPy warns of after products: none unless flags are false.

    Where they are false, a true one cannot be told from them, and neither is one in any other operation hidden.
    """
    if not raises_false_flags():
        return []
    return [
        f"ignore:{flag} encountered in {product}:RuntimeWarning"
        for flag in ("divide by zero", "overflow", "invalid value")
        for product in ("matmul", "dot")
    ]
