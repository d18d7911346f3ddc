"""Key of a page's measurements: a hash of all that they depend on."""

import hashlib
import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from measured_book.execution.closure import SourcePackage
from tinytorch.perf.engines import presence
from tinytorch.perf.engines.presence import available
from tinytorch.perf.host.identity import identity, steering_variables
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.report.provenance import package_hash
from tinytorch.sources import package_files

#: Beginnings of the names of variables that steer what a kernel is and loads, beside those that steer its computing.
_STEERING = ("PYTHON", "LD_", "DYLD_")
#: What helps where the package of another tree is loaded.
ANOTHER = "build with `make book`, which lets no variable such as PYTHONPATH lead to another tree"


class Surroundings(NamedTuple):
    """Part of the key that all pages of one build share: packages, files with their hashes, and where they run."""

    packages: tuple[SourcePackage, ...]
    files: Mapping[str, str]
    machine: Mapping[str, str]
    variables: Mapping[str, str]
    engines: Mapping[str, str]


def digest_of(path: Path) -> str:
    """Return the SHA-256 of what a file holds, or of all in a folder; "" if there is none."""
    if path.is_dir():
        return _hash([[each.name, digest_of(each)] for each in sorted(path.iterdir())])
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def files_of(env: BuildEnvironment, names: Iterable[str]) -> dict[str, str]:
    """Return the `digest_of` each of these files, whose names are relative to the book's sources or absolute."""
    return {name: digest_of(Path(env.srcdir, name)) for name in names}


def reading_code(packages: Iterable[SourcePackage]) -> str:
    """Return a hash of the code that reads pages: this extension, and what of the packages it may import."""
    own = Path(__file__).parents[1]
    code = [path.read_text("utf-8") for path in package_files(own) if path.suffix == ".py"]
    return _hash([package_hash(own), *(package.digests(package.may_import(code)) for package in packages)])


def _hash(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _digest(path: Path) -> str:
    if path.is_dir():
        return package_hash(path)
    if found := digest_of(path):
        return found
    raise ExtensionError(f"execution_key_paths must name files and folders that exist, but {path} does not")


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
        "usable cores": str(usable_cores()),
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


def surroundings(folder: Path, packages: Iterable[str], paths: Iterable[str]) -> Surroundings:
    """Return what pages share now; ``packages`` and ``paths`` are relative to ``folder``.

    Files of data in a package count for every page: which code reads them cannot be seen.

    Raises:
        ExtensionError: if a path does not exist, or a package is none or not the one that this Python loads.
    """
    files = {path: _digest((folder / path).resolve()) for path in paths}
    found = []
    for name in packages:
        try:
            package = SourcePackage(folder / name)
        except ValueError as error:
            raise ExtensionError(f"execution_packages must name packages, but {error}") from error
        check_place(package)
        for path in package_files(package.folder):
            if path.suffix != ".py":
                files[path.relative_to(package.folder.parent).as_posix()] = _digest(path)
        found.append(package)
    variables = steering_variables() | {name: os.environ[name] for name in os.environ if name.startswith(_STEERING)}
    return Surroundings(tuple(found), files, machine_facts(), variables, available())


def modules_of(cells: Iterable[str], around: Surroundings) -> dict[str, str]:
    """Return the hash of each module that cells may import, by name."""
    code, found = list(cells), dict[str, str]()
    for package in around.packages:
        found |= package.digests(package.may_import(code))
    return found


def page_key(modules: Mapping[str, str], around: Surroundings) -> str:
    """Return the hash under which the results of a page are kept whose cells may import these modules.

    The engines that pages compare with count only where the page may look for them. The cells themselves are the key
    of the execution cache.
    """
    engines = around.engines if not around.packages or presence.__name__ in modules else {}
    return _hash([modules, around.files, around.machine, around.variables, engines])
