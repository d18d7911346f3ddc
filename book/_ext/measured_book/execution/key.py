"""Key of a page's measurements: all that they depend on, and in words why a page runs again."""

import hashlib
import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util import logging

from measured_book.execution.closure import SourcePackage
from tinytorch.perf.engines import presence
from tinytorch.perf.engines.presence import available
from tinytorch.perf.host.identity import identity, steering_variables
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.report.provenance import package_hash
from tinytorch.sources import package_files

LOGGER = logging.getLogger(__name__)

#: Modules that are named when they changed; of more the number is told.
_NAMED = 3
#: Of a fact in more characters only that it changed is told.
_LONGEST = 60
_VERSION = 2
_FIRST = "it runs here for the first time"
_GONE = "its result is no longer in the cache"
#: Beginnings of the names of variables that steer what a kernel is and loads, beside those that steer its computing.
_STEERING = ("PYTHON", "LD_", "DYLD_")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Part of the key that all pages of one build share: packages, files with their hashes, and where they run."""

    packages: tuple[SourcePackage, ...]
    files: Mapping[str, str]
    machine: Mapping[str, str]
    variables: Mapping[str, str]
    engines: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PageParts:
    """Parts of one page's key: its cells, the modules that they may import, and where they run."""

    cells: str
    modules: Mapping[str, str]
    files: Mapping[str, str]
    machine: Mapping[str, str]
    variables: Mapping[str, str]
    engines: Mapping[str, str]

    def key(self) -> str:
        """Return the hash of all but the cells, under which results of the page are kept."""
        parts = {name: value for name, value in self.to_json().items() if name != "cells"}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def to_json(self) -> dict[str, Any]:
        """Return the parts as JSON can hold them."""
        return asdict(self)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of what the file ``path`` holds; "" if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def files_of(env: BuildEnvironment, names: Iterable[str]) -> dict[str, str]:
    """Return the `digest_of` each of these files, whose names are relative to the book's sources or absolute."""
    return {name: digest_of(Path(env.srcdir, name)) for name in names}


def reading_code(packages: Iterable[SourcePackage]) -> str:
    """Return a hash of the code that reads pages: this extension, and what of the packages it may import."""
    own = Path(__file__).parents[1]
    parts: list[object] = [package_hash(own)]
    for package in packages:
        names = package.named_in([path for path in package_files(own) if path.suffix == ".py"], str(parts[0]))
        parts.append(package.digests(package.may_import(f"import {name}" for name in names)))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _digest(path: Path) -> str:
    if path.is_dir():
        return package_hash(path)
    if found := digest_of(path):
        return found
    raise ExtensionError(f"execution_key_paths must name files and folders that exist, but {path} does not")


def _ranges(numbers: Iterable[int]) -> str:
    """Return growing numbers as the system lists them: "0-3, 6"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def machine_facts() -> dict[str, str]:
    """Return by name what of this machine, and of what it grants, decides results and does not change by itself.

    A system that is started again may report a little more or less memory, so two digits of it count.
    """
    here = identity()
    caches = Counter((f"L{one.level}", one.kind, one.size) for one in here.caches)
    return {
        "Python": f"{platform.python_implementation()} {here.python}",
        "CPU": f"{here.cpu} ({platform.machine()})",
        "instructions": " ".join((here.numba_cpu, *here.extensions)),
        "usable cores": _ranges(usable_cores()),
        "caches": ", ".join(f"{many} {level} {kind} of {size}" for (level, kind, size), many in caches.items()),
        "memory": f"{here.memory_bytes / 2**30:.2g} GiB",
        "huge pages": str(here.huge_pages),
        "CPU quota": str(here.hosting.cpu_quota),
        "memory limit": str(here.hosting.memory_limit),
        "service": str(here.hosting.service),
        "NumPy": here.numpy,
        "Numba": f"{here.numba} with LLVM {here.llvm}",
    }


def check_place(package: SourcePackage) -> None:
    """Raise ExtensionError if this Python, which the kernels run on as well, loads the package from another folder."""
    found, wanted = find_spec(package.name), package.files[package.name]
    if found is not None and found.origin is not None and Path(found.origin).resolve() != wanted:
        raise ExtensionError(f"{package.name} would be loaded from {found.origin} and not from {wanted}: {ANOTHER}")


#: What helps where the package of another tree is loaded.
ANOTHER = "build with `make book`, which lets no variable such as PYTHONPATH lead to another tree"


def surroundings(
    folder: Path, packages: Iterable[str], paths: Iterable[str], known: Mapping[str, frozenset[str]] | None = None
) -> Surroundings:
    """Return what pages share now; ``packages`` and ``paths`` are relative to ``folder``.

    What modules of the packages may import is taken from ``known``, if it is there: see `SourcePackage`.

    Files of data in a package count for every page: which code reads them cannot be seen.

    Raises:
        ExtensionError: if a path does not exist, or a package is none or not the one that this Python loads.
    """
    files = {path: _digest((folder / path).resolve()) for path in paths}
    found = []
    for name in packages:
        try:
            package = SourcePackage(folder / name, known or {})
        except ValueError as error:
            raise ExtensionError(f"execution_packages must name packages, but {error}") from error
        check_place(package)
        for path in package_files(package.folder):
            if path.suffix != ".py":
                files[path.relative_to(package.folder.parent).as_posix()] = _digest(path)
        found.append(package)
    variables = steering_variables() | {name: os.environ[name] for name in os.environ if name.startswith(_STEERING)}
    return Surroundings(tuple(found), files, machine_facts(), variables, available())


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
        machine=around.machine,
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
    for name in _changed(before["machine"], after["machine"]):
        old, new = (parts["machine"].get(name, "not known") for parts in (before, after))
        said.append(f"{name}: {new} instead of {old}" if len(old + new) <= 2 * _LONGEST else f"{name} changed")
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
