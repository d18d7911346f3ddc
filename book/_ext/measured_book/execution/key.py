"""Key of a page's measurements: all that they depend on, and in words why a page runs again."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measured_book.execution.closure import SourcePackage
from sphinx.errors import ExtensionError
from sphinx.util import logging

from tinytorch.perf.engines import available, presence
from tinytorch.perf.host.identity import cpu_name, steering_variables
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.report.provenance import package_hash

LOGGER = logging.getLogger(__name__)

#: Modules that are named when they changed; of more the number is told.
_NAMED = 3
_VERSION = 1
_FIRST = "it runs here for the first time"
_GONE = "its result is no longer in the cache"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Part of the key that all pages of one build share: packages, files with their hashes, and where they run."""

    packages: tuple[SourcePackage, ...]
    files: Mapping[str, str]
    python: str
    cpu: str
    variables: Mapping[str, str]
    engines: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PageParts:
    """Parts of one page's key: its cells, the modules that they may import, and where they run."""

    cells: str
    modules: Mapping[str, str]
    files: Mapping[str, str]
    python: str
    cpu: str
    variables: Mapping[str, str]
    engines: Mapping[str, str]

    def key(self) -> str:
        """Return the hash of all but the cells, under which results of the page are kept."""
        parts = {name: value for name, value in self.to_json().items() if name != "cells"}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def to_json(self) -> dict[str, Any]:
        """Return the parts as JSON can hold them."""
        return asdict(self)


def _digest(path: Path) -> str:
    if path.is_dir():
        return package_hash(path)
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    raise ExtensionError(f"execution_key_paths must name files and folders that exist, but {path} does not")


def surroundings(
    folder: Path, packages: Iterable[str], paths: Iterable[str], known: Mapping[str, frozenset[str]] | None = None
) -> Surroundings:
    """Return what pages share now; ``packages`` and ``paths`` are relative to ``folder``.

    What modules of the packages may import is taken from ``known``, if it is there: see `SourcePackage`.

    Files of data in a package, its ``*.json``, count for every page: which code reads them cannot be seen.

    Raises:
        ExtensionError: if a path does not exist, or a package is none.
    """
    files = {path: _digest((folder / path).resolve()) for path in paths}
    found = []
    for name in packages:
        try:
            package = SourcePackage(folder / name, known or {})
        except ValueError as error:
            raise ExtensionError(f"execution_packages must name packages, but {error}") from error
        for data in sorted(package.folder.rglob("*.json")):
            files[data.relative_to(package.folder.parent).as_posix()] = _digest(data)
        found.append(package)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    cpu = f"{cpu_name()} ({platform.machine()})"
    return Surroundings(tuple(found), files, python, cpu, steering_variables(), available())


def page_parts(cells: Iterable[str], around: Surroundings) -> PageParts:
    """Return what the result of a page with these cells depends on.

    The engines that pages compare with count only where the page may look for them.
    """
    code = list(cells)
    modules: dict[str, str] = {}
    for package in around.packages:
        modules.update(package.digests(package.may_import(code)))
    looks_for_engines = not around.packages or presence.__name__ in modules
    return PageParts(
        cells=hashlib.sha256("\0".join(code).encode()).hexdigest(),
        modules=modules,
        files=around.files,
        python=around.python,
        cpu=around.cpu,
        variables=around.variables,
        engines=around.engines if looks_for_engines else {},
    )


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def _listed(names: list[str]) -> str:
    shown, more = names[:_NAMED], len(names) - _NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return in words how ``after`` differs from ``before``, both as `PageParts.to_json` gives them; "" if not."""
    said = []
    if before["cells"] != after["cells"]:
        said.append("its cells changed")
    if modules := _changed(before["modules"], after["modules"]):
        packages = sorted({name.partition(".")[0] for name in modules})
        short = [name.partition(".")[2] or name for name in modules]
        said.append(f"{' and '.join(packages)} changed ({_listed(short)})")
    if files := _changed(before["files"], after["files"]):
        said.append(f"{_listed([Path(name).name for name in files])} changed")
    for name in ("python", "cpu"):
        if before[name] != after[name]:
            said.append(f"{before[name]} became {after[name]}")
    for name in _changed(before["variables"], after["variables"]):
        old, new = (values["variables"].get(name, "unset") for values in (before, after))
        said.append(f"the variable {name} was {old} and is {new}")
    for name in _changed(before["engines"], after["engines"]):
        old, new = (values["engines"].get(name, "not there") for values in (before, after))
        said.append(f"{name} was {old} and is {new}")
    return "; ".join(said)


class PageHistory:
    """Last execution of each page, in a file beside the cache. It informs; no result rests on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pages: dict[str, dict[str, Any]] = {}
        if path.is_file():
            try:
                content = json.loads(path.read_text("utf-8"))
                if content["version"] == _VERSION:
                    self._pages = dict(content["pages"])
            except (ValueError, KeyError, TypeError):
                LOGGER.info("%s cannot be read: reasons for executing pages are not known", path)

    def why(self, docname: str, parts: PageParts) -> str:
        """Return in words why a page without a result for ``parts`` runs."""
        last = self._pages.get(docname)
        if last is None:
            return _FIRST
        return differences(last["parts"], parts.to_json()) or _GONE

    def seconds(self, docname: str) -> float | None:
        """Return how long the page last took, in seconds; None if that is not known."""
        last = self._pages.get(docname)
        return None if last is None else last["seconds"]

    def remember(self, docname: str, parts: PageParts, seconds: float | None) -> None:
        """Write down an execution that just ended."""
        self._pages[docname] = {"seconds": seconds, "parts": parts.to_json()}
        write_whole(self.path, json.dumps({"version": _VERSION, "pages": self._pages}))
