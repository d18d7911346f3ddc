"""Results that are kept between runs: where they lie, and that a place that cannot be written costs none of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path


def kept_folder(name: str) -> Path:
    """Return the folder of what is kept under ``name``: in a checkout's ``_build``, else among the user's caches."""
    root = Path(__file__).resolve().parents[1]
    if (root / "pyproject.toml").is_file():
        return root / "_build" / name
    from platformdirs import user_cache_path  # which a checkout does without

    return user_cache_path("tinytorch", appauthor=False) / name


def keep(path: Path, write: Callable[[Path], object]) -> None:
    """Have ``write`` write a result to ``path``; where it cannot, warn in a sentence that it will be made again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    except OSError as error:
        said = f"a result is not kept, and will be made again: {path.parent} cannot be written ({error.strerror})"
        warnings.warn(said, stacklevel=2)
