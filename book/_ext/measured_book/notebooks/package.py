"""Package of the book for notebooks that run without a checkout: from its repository, else as one file, its wheel."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from measured_book.sources.repository import Repository
from tinytorch.report.provenance import package_hash

#: What the package is built from.
_SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "tinytorch")
#: Seconds since 1970 that files in a wheel are dated: 1 January 1980, the earliest that its format knows.
_EARLIEST = "315532800"


@dataclass(frozen=True)
class Source:
    """Place where the package can be had: its repository, or if that is not known, the name of its wheel."""

    repository: Repository | None
    wheel: str | None


def source_of(env: BuildEnvironment) -> Source | None:
    """Return where a reader without a checkout gets the package; None for a book that is of no package."""
    found: Repository | None = env.config.book_repository
    return _wheel_of(Path(env.srcdir).parent) if found is None else Source(found, None)


@cache  # the package does not change while the book is built
def _wheel_of(root: Path) -> Source | None:
    return Source(None, wheel_name(root)) if (root / "pyproject.toml").is_file() else None


def install_cell(source: Source, commit: str | None, extra: str = "") -> str:
    """Return the code that installs the package where there is no checkout, at a commit of its repository if any.

    ``extra`` is what the page needs besides, as ``"[mpi]"``.
    """
    if source.repository is None:
        return (
            "# Put the file of the package, which the book offers beside this notebook, into the notebook's folder.\n"
            f'%pip install --quiet "./{source.wheel}{extra}"'
        )
    at = f"@{commit}" if commit else ""
    return f'%pip install --quiet "tinytorch{extra} @ git+{source.repository.url}{at}"'


def wheel_name(root: Path) -> str:
    """Return the name of the wheel's file for the checkout at ``root``."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return f"{project['name']}-{_version(project['version'], root)}-py3-none-any.whl"


def _version(number: str, root: Path) -> str:
    """Return the wheel's version, another for each content: pip leaves one of the same version as it is."""
    return f"{number}+{_key(root)[:12]}"


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
    if zipfile.is_zipfile(path):  # and not cut off
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
        project = copied / "pyproject.toml"
        number = re.compile(r'(?m)^(version = ")(.*)(")$')
        text = number.sub(lambda found: found[1] + _version(found[2], root) + found[3], project.read_text("utf-8"))
        project.write_text(text, "utf-8")
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        command += ["--disable-pip-version-check", "--wheel-dir", folder, str(copied)]
        # Neither settings of pip nor of setuptools that are this machine's or this user's.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "DIST"))}
        environment |= {"PIP_CONFIG_FILE": os.devnull, "HOME": folder, "SOURCE_DATE_EPOCH": _EARLIEST}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        path = Path(folder, wheel_name(root))
        if done.returncode != 0 or not path.is_file():
            raise ExtensionError(f"the package's wheel could not be built: {done.stderr.strip()[-300:]}")
        return path.read_bytes()
