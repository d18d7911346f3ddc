"""Files that are whole or not there: each is written aside and then renamed. Nothing is ever unpickled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tinytorch.core.op import Array


def write_whole(path: str | Path, text: str) -> Path:
    """Write ``text`` to ``path`` in UTF-8, aside and then renamed: the file is whole or untouched. Return the path."""
    target = Path(path)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return target


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name as npz, aside and then renamed: the file is whole or untouched.

    Raises:
        ValueError: if an array would have to be pickled.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            # As one argument each, a name such as "file" would be taken for NumPy's own.
            np.savez(file, allow_pickle=False, **{f"/{name}": array for name, array in arrays.items()})
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays that `write_arrays` wrote.

    Raises:
        ValueError: if the file is none of these.
        FileNotFoundError: if there is no such file.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name.removeprefix("/"): archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"path {str(path)!r} holds no arrays that were written whole: {error}") from error
