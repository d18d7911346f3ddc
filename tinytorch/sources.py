"""The files that a package ships, and what its source code computes."""

from __future__ import annotations

import ast
import hashlib
from functools import lru_cache
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


@lru_cache(maxsize=512)
def code_hash(source: bytes) -> bytes:
    """Return a hash of what Python source computes: of its syntax tree without comments, docstrings and layout.

    Raises:
        SyntaxError: if it is not Python.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                del node.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).digest()
