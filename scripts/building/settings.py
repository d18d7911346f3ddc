"""What the pages run in: an environment without the user's own settings, and kernels that tell what they loaded."""

from __future__ import annotations

import os
from pathlib import Path

from scripts.blas_settings import ignored_warnings, without_blas_settings

#: Runs in each page's kernel as it starts. After each cell it writes the names of all modules loaded so far, which
#: the build compares with what the page's key holds: outside of the cells, so no measurement contains it.
_STARTUP = '''"""Tells the book's build which modules the cells of a page loaded."""
from pathlib import Path as _Path
import sys as _sys


def _write_loaded_modules(*_):
    aside = _Path({target!r} + ".new")
    aside.write_text("\\n".join(sorted(_sys.modules)), "utf-8")
    aside.replace({target!r})


get_ipython().events.register("post_run_cell", _write_loaded_modules)
'''
LOADED_MODULES = "loaded-modules.txt"
#: Warnings that fail no reader's build. A newer Python has a word for the authors of code: the tests hold our own
#: modules to it.
_NOT_SHOWN = ("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning", "ignore::FutureWarning")
#: The user's own, which steer where notebooks and plots are looked for, and what Python checks and warns of.
_DROPPED = ("JUPYTER_PATH", "MATPLOTLIBRC", "PYTHONDEVMODE")


def build_settings(output: Path, cpu: str | None = None) -> dict[str, str]:
    """Return the environment variables of the build, free of the user's own notebook, plot, warning and BLAS settings.

    Args:
        output: the folder that the build writes into.
        cpu: an older CPU whose instructions all kernels are held to; None for this machine's own.

    Raises:
        ValueError: if this machine cannot do as that CPU.

    Pages run on the `python3` kernel of this environment, even where the user has another of that name, and
    without the user's IPython start-up files or matplotlib styles, which would change what is measured. A BLAS
    held to a narrower CPU's kernels would be a straw man: every speedup over it would be too large.
    """
    kept = without_blas_settings(os.environ)
    settings = {name: value for name, value in kept.items() if name not in _DROPPED}
    user = output / ".user"
    settings["JUPYTER_PREFER_ENV_PATH"] = "1"
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
    """Write the start-up file of the kernels below the folder `output`."""
    folder = output / ".user" / "ipython" / "profile_default" / "startup"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "loaded_modules.py").write_text(_STARTUP.format(target=str(output / LOADED_MODULES)), "utf-8")
