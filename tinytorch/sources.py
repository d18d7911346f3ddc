"""What a package is: the files that it ships, which decide what it does."""

from __future__ import annotations

from pathlib import Path


def package_files(folder: Path) -> list[Path]:
    """Return all files of the package in ``folder``, code and data alike, sorted by path.

    What Python, editors and systems leave beside them is none: hidden files, copies that end in ``~``, compiled code.
    """
    return sorted(path for path in folder.rglob("*") if path.is_file() and not _is_left(path.relative_to(folder)))


def _is_left(path: Path) -> bool:
    return path.name.endswith(("~", ".pyc")) or any(
        part.startswith(".") or part == "__pycache__" for part in path.parts
    )
