"""Keeps executed pages under a key of all that they measure, runs them one at a time, in the book's order."""

from __future__ import annotations

import hashlib
import platform
import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from tinytorch.perf.engines import available
from tinytorch.perf.identity import cpu_name, steering_variables
from tinytorch.report.provenance import package_hash

#: What pages measure, relative to the book's sources: folders (their *.py and *.json) and files.
PATHS = ["../tinytorch", "../requirements.lock"]
#: Caches of this many latest keys stay, so that going back and forth between two states runs nothing twice.
KEPT = 3
CACHE_FOLDER = ".jupyter_cache"


def _hash_of(path: Path) -> str:
    if path.is_dir():
        return package_hash(path)
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    raise ExtensionError(f"execution_key_paths must name files and folders that exist, but {path} does not")


def execution_key(folder: Path, paths: list[str]) -> str:
    """Return a hash of all that a page's result depends on besides its own cells.

    These are the package, the lock file, Python, the CPU, the variables that steer threads and kernels, and the engines
    that pages compare with.

    Raises:
        ExtensionError: if one of ``paths``, relative to ``folder``, does not exist.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path}\0{_hash_of((folder / path).resolve())}\0".encode())
    parts = [platform.python_version(), platform.machine(), cpu_name()]
    parts += [f"{name}={value}" for name, value in steering_variables().items()]
    parts += [f"{name} {version}" for name, version in available().items()]
    digest.update("\0".join(parts).encode())
    return digest.hexdigest()[:32]


def choose_cache(app: Sphinx, config: Config) -> None:
    """Point MyST-NB to the cache of the present key; as a setting it also makes Sphinx read all pages anew."""
    key = execution_key(Path(app.srcdir), list(config.execution_key_paths))
    path = Path(app.outdir).parent.resolve() / CACHE_FOLDER / key
    path.mkdir(parents=True, exist_ok=True)
    path.touch()
    config.nb_execution_cache_path = str(path)
    app.parallel = 1  # a page that runs beside another disturbs its timing


def _toc_order(site_map: Any) -> list[str]:
    """Return the pages in the order of the table of contents, depth first."""
    ordered: list[str] = []

    def visit(docname: str) -> None:
        if docname in ordered or docname not in site_map:
            return
        ordered.append(docname)
        for child in site_map[docname].child_files():
            visit(str(child))

    visit(site_map.root.docname)
    return ordered


def order_pages(app: Sphinx, _: BuildEnvironment, docnames: list[str]) -> None:
    """Read, and so execute, the pages in the order of the table of contents; others after them by name."""
    site_map = getattr(app.config, "external_site_map", None)
    ordered = [] if site_map is None else _toc_order(site_map)
    place = {docname: index for index, docname in enumerate(ordered)}
    docnames.sort(key=lambda docname: (place.get(docname, len(place)), docname))


def drop_old(app: Sphinx, exception: Exception | None) -> None:
    """After a build without fault, remove all but the latest caches."""
    if exception is not None or app.statuscode:
        return
    current = Path(app.config.nb_execution_cache_path)
    others = [path for path in current.parent.iterdir() if path.is_dir() and path != current]
    latest_first = sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)
    for path in latest_first[KEPT - 1 :]:
        shutil.rmtree(path)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the events of a build."""
    app.add_config_value("execution_key_paths", PATHS, "env", list)
    app.connect("config-inited", choose_cache)
    app.connect("env-before-read-docs", order_pages)
    app.connect("build-finished", drop_old)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
