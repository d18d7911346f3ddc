"""The package as one file, for notebooks that run where no checkout of the book is and no address of one is known."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from sphinx.errors import ExtensionError

from tinytorch.report.provenance import package_hash

#: What the package is built from.
_SOURCES = ("pyproject.toml", "README.md", "LICENSE", "tinytorch")
#: Seconds since 1970 that files in a wheel are dated: 1 January 1980, the earliest that its format knows.
_EARLIEST = "315532800"


def wheel_name(root: Path) -> str:
    """Return the name of the wheel's file for the checkout at ``root``."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return f"{project['name']}-{project['version']}-py3-none-any.whl"


def _key(root: Path) -> str:
    """Return a hash of all that the wheel is made of."""
    digest = hashlib.sha256(package_hash(root / "tinytorch").encode())
    for name in _SOURCES:
        if (root / name).is_file():
            digest.update((root / name).read_bytes())
    return digest.hexdigest()[:24]


def kept_wheel(root: Path, folder: Path) -> bytes:
    """Return the wheel of the package at ``root``, from ``folder`` if it is the one that was built last."""
    path = folder / f"{_key(root)}.whl"
    if path.is_file():
        return path.read_bytes()
    built = build_wheel(root)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    aside = path.with_suffix(".part")
    aside.write_bytes(built)
    aside.replace(path)
    return built


def build_wheel(root: Path) -> bytes:
    """Return the wheel of the package at ``root``; the same sources give the same bytes.

    Raises:
        ExtensionError: if it cannot be built, with what the builder said last.
    """
    with TemporaryDirectory() as folder:
        copied = Path(folder, "source")
        copied.mkdir()
        for name in _SOURCES:  # a build in the checkout would leave its own files there
            source = root / name
            if source.is_dir():
                shutil.copytree(source, copied / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, copied / name)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        command += ["--disable-pip-version-check", "--wheel-dir", folder, str(copied)]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": _EARLIEST}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        path = Path(folder, wheel_name(root))
        if done.returncode != 0 or not path.is_file():
            raise ExtensionError(f"the package's wheel could not be built: {done.stderr.strip()[-300:]}")
        return path.read_bytes()
