"""Trained weights as files: read when the same computation made them before, and trained again when it has changed."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_info

from tinytorch import core, datasets, models
from tinytorch.kept import keep, kept_folder
from tinytorch.sources import code_hash, package_files

_Model = TypeVar("_Model")
_PACKAGE = Path(__file__).parents[1]
#: The folder of trained weights, next to everything else that a build makes.
WEIGHTS = kept_folder("models")


def arithmetic() -> str:
    """Return what decides the last bits of a product: NumPy's version, and the CPU cores that its BLAS is made for.

    Training with other last bits gives other weights, which may miss a threshold that these meet.
    """
    cores = {str(library.get("architecture")) for library in threadpool_info() if library["user_api"] == "blas"}
    if not cores:  # Apple's Accelerate is not listed
        cores = {np.show_config(mode="dicts")["Build Dependencies"].get("blas", {}).get("name", "unknown")}
    return f"{np.__version__} {' '.join(sorted(cores))}"


def weights_key(*given: str | bytes, modules: Iterable[ModuleType] = ()) -> str:
    """Return a hash of what decides trained weights: code of framework, zoo and data, `arithmetic`, and what is given.

    Args:
        given: arguments of the training, and the weights that it begins with.
        modules: modules of this package that the training runs besides; for a package, all of its files count.
    """
    digest = hashlib.sha256(arithmetic().encode())
    for file in [core.__file__, datasets.__file__, models.__file__, *(inspect.getfile(module) for module in modules)]:
        path = Path(file)
        for source in package_files(path.parent) if path.name == "__init__.py" else [path]:
            content = source.read_bytes()
            digest.update(source.relative_to(_PACKAGE).as_posix().encode() + b"\0")
            digest.update(code_hash(content) if source.suffix == ".py" else content)
    for part in given:
        digest.update(b"\0" + (part.encode() if isinstance(part, str) else part))
    return digest.hexdigest()[:16]


def kept_or_made(
    path: Path, read: Callable[[Path], _Model], make: Callable[[], _Model], write: Callable[[_Model, Path], object]
) -> _Model:
    """Return what ``read`` makes of the file ``path``; if it is missing or cut off, what ``make`` makes."""
    with suppress(OSError, ValueError):
        return read(path)
    made = make()
    keep(path, lambda to: write(made, to))
    return made
