"""Files that are whole or not there: each is written aside and then renamed. Nothing is unpickled."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.core.op import Array


def write_whole(path: str | Path, text: str) -> Path:
    """Write ``text`` to ``path`` in UTF-8, aside and then renamed: the file is whole or untouched. Return the path.

    A link stays one, and what it leads to is written; permissions stay; a pipe, a device and the standard output are
    written to. What UTF-8 does not have is written as Python escapes it.
    """
    target, data = Path(path), text.encode("utf-8", "backslashreplace")
    there = None
    with suppress(OSError):
        there = os.stat(target)
    if there is not None and _is_output(there):
        sys.stdout.flush()
        with os.fdopen(os.dup(1), "wb") as output:
            output.write(data)
        return target
    if there is not None and not stat.S_ISREG(there.st_mode):
        target.write_bytes(data)
        return target
    whole = Path(os.path.realpath(target))
    aside = whole.with_name(f".{whole.name}.{os.getpid()}.part")
    try:
        aside.write_bytes(data)
        if there is not None:
            os.chmod(aside, stat.S_IMODE(there.st_mode))
        os.replace(aside, whole)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return target


def _is_output(there: os.stat_result) -> bool:
    """Return whether a file is this process's standard output."""
    with suppress(OSError):
        return os.path.samestat(there, os.fstat(1))
    return False


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
        raise ValueError(f"path {str(path)!r} holds no complete file of arrays: {error}") from error


def write_values(path: Path, values: Mapping[str, Any]) -> None:
    """Write values by name, arrays as they are and all others as JSON, to one file that is whole or untouched.

    Raises:
        TypeError: if a value is neither an array nor what JSON can hold; nothing is written then.
    """
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    try:
        text = json.dumps({name: value for name, value in values.items() if name not in arrays})
    except TypeError as error:
        raise TypeError(f"values must be arrays or what JSON can hold, but {error}") from None
    write_arrays(path, {**arrays, _OTHERS: np.array(text)})


def read_values(path: Path) -> dict[str, Any]:
    """Return the values that `write_values` wrote.

    Raises:
        ValueError: if the file is none of these.
        FileNotFoundError: if there is no such file.
    """
    arrays = read_arrays(path)
    return {**json.loads(str(arrays.pop(_OTHERS))), **arrays}


#: The name under which a file of values holds those that are no arrays.
_OTHERS = "/others"
