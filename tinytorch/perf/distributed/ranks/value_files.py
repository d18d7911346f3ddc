"""Values of a rank in two files: JSON for what JSON holds, npz beside it for the arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.perf.measuring.atomic_io import read_arrays, write_arrays, write_whole


def write_values(stem: Path, values: Mapping[str, Any]) -> None:
    """Write values by name: arrays to ``stem``.npz, all others to ``stem``.json, which is written last.

    Raises:
        TypeError: if a value is neither an array nor what JSON holds; nothing is written then.
    """
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    others = {name: value for name, value in values.items() if name not in arrays}
    try:
        text = json.dumps(others)
    except TypeError as error:
        raise TypeError(f"values must be arrays or what JSON can hold, but {error}") from None
    write_arrays(stem.with_name(stem.name + ".npz"), arrays)
    write_whole(stem.with_name(stem.name + ".json"), text)


def read_values(stem: Path) -> dict[str, Any]:
    """Return what `write_values` wrote.

    Raises:
        FileNotFoundError: if it did not.
    """
    values: dict[str, Any] = json.loads(stem.with_name(stem.name + ".json").read_text("utf-8"))
    return {**values, **read_arrays(stem.with_name(stem.name + ".npz"))}
