"""Keeps each executed page under a key of all that it measures, runs pages one at a time, in the book's order."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import nbformat
from build_events import tell
from environment_state import state_of
from jupyter_cache import get_cache
from myst_nb.core.read import create_nb_reader
from myst_nb.sphinx_ import NbMetadataCollector
from page_history import PageHistory
from page_key import PageParts, Surroundings, page_parts, surroundings
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
#: Packages that pages import, relative to the book's sources; of them a page's key holds what the page may import.
PACKAGES = ["../tinytorch"]
#: Files and folders that every page's key holds.
PATHS = ["../requirements.lock"]
#: Results of this many latest keys stay for each page, so that going back and forth between states runs nothing twice.
KEPT = 3
#: The variable that names the pages of a build of some, separated by spaces; unset or empty for all.
SELECTED = "TINYTORCH_BUILD_PAGES"
CACHE_FOLDER = ".jupyter_cache"
HISTORY_FILE = "executions.json"
#: Where a kernel that tells so writes the names of the modules that it loaded: see scripts/building/settings.py.
LOADED_MODULES = "loaded-modules.txt"


def _state_folder(app: Sphinx) -> Path:
    """Return the folder that holds the site, the cache and what else builds leave."""
    return Path(app.outdir).parent.resolve()


class Execution:
    """What this build knows about the pages' execution, before and while it reads them."""

    def __init__(self, app: Sphinx) -> None:
        self.app = app
        self.folder = _state_folder(app)
        self.around: Surroundings = surroundings(
            Path(app.srcdir), app.config.execution_packages, app.config.execution_key_paths
        )
        self.history = PageHistory(self.folder / HISTORY_FILE)
        self.parts: dict[str, PageParts] = {}
        self.selected = frozenset(os.environ.get(SELECTED, "").split())
        self.left_out: set[str] = set()
        self.started = 0.0

    def notebook(self, docname: str) -> nbformat.NotebookNode | None:
        """Return the page as the notebook that MyST-NB would execute, without outputs; None if it has no cells."""
        env = self.app.env
        path = Path(env.doc2path(docname))
        content = path.read_text("utf-8")
        settings = env.myst_config, env.mystnb_config  # type: ignore[attr-defined]
        reader = create_nb_reader(str(path), *settings, content)
        return None if reader is None else reader.read(content)

    def study(self, docname: str) -> nbformat.NotebookNode | None:
        """Learn what the page's result depends on now, and return its notebook; None if it has none."""
        notebook = self.notebook(docname)
        if notebook is None:
            self.parts.pop(docname, None)
            return None
        cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        self.parts[docname] = page_parts(cells, self.around)
        return notebook

    def cache_folder(self, docname: str) -> Path:
        """Return the folder of results of the page under its present key."""
        return self.folder / CACHE_FOLDER / docname.replace("/", "--") / self.parts[docname].key()

    def has_result(self, docname: str, notebook: nbformat.NotebookNode) -> bool:
        """Return whether the page's result can be taken from the cache."""
        folder = self.cache_folder(docname)
        if not (folder / "global.db").is_file():
            return False
        try:
            get_cache(str(folder)).match_cache_notebook(notebook)
        except KeyError:
            return False
        return True

    def must_not_run(self, docname: str, notebook: nbformat.NotebookNode | None) -> bool:
        """Return whether a build of other pages reads this one, which would have to run."""
        left = bool(self.selected) and docname not in self.selected
        return left and notebook is not None and not self.has_result(docname, notebook)


def _execution(app: Sphinx) -> Execution:
    return cast(Execution, app.execution_of_pages)  # type: ignore[attr-defined]


def keys_of(env: BuildEnvironment) -> dict[str, str]:
    """Return the key under which each page was executed when it was last read; kept over builds."""
    return state_of(env, "execution_keys", dict)


def left_out_of(env: BuildEnvironment) -> set[str]:
    """Return the pages that a build of others read and did not run; kept over builds."""
    return state_of(env, "pages_left_out", set)


def results_of(env: BuildEnvironment, docname: str) -> Path:
    """Return the folder of the execution cache that holds the result of the page as it was last read."""
    return Path(env.config.nb_execution_cache_path) / docname.replace("/", "--") / keys_of(env)[docname]


def prepare(app: Sphinx, config: Config) -> None:
    """Set what is the same in every build, so that Sphinx does not read all pages because it changed."""
    config.nb_execution_cache_path = str(_state_folder(app) / CACHE_FOLDER)
    app.parallel = 1  # a page that runs beside another disturbs its timing
    setattr(app, "execution_of_pages", Execution(app))  # noqa: B010 - the class does not know it


def outdated(app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], _: set[str]) -> Iterable[str]:
    """Return the unchanged pages whose key is another than when they were last read, or whose result is gone."""
    execution = _execution(app)
    found = []
    for docname in sorted(env.found_docs - added - changed):
        notebook = execution.study(docname)
        if notebook is None:
            continue
        same = keys_of(env).get(docname) == execution.parts[docname].key()
        if not same or not execution.has_result(docname, notebook):
            found.append(docname)
    return found


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


def plan(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """Find which pages will run and why, and tell.

    A build of some pages leaves others as they were when they were last read; those that never were are read and not
    run.
    """
    execution = _execution(app)
    pages = []
    for docname in list(docnames):
        notebook = execution.study(docname)
        if execution.must_not_run(docname, notebook):
            if docname in env.all_docs:
                docnames.remove(docname)
                continue
            execution.left_out.add(docname)
            notebook = None
        page: dict[str, Any] = {"page": docname, "cells": 0, "runs": False, "why": None, "seconds": None}
        if notebook is not None:
            page["cells"] = sum(cell.cell_type == "code" for cell in notebook.cells)
            if not execution.has_result(docname, notebook):
                page["runs"] = True
                page["why"] = execution.history.why(docname, execution.parts[docname])
                page["seconds"] = execution.history.seconds(docname)
        pages.append(page)
    tell("plan", pages=pages)


def begin_page(app: Sphinx, docname: str, _: list[str]) -> None:
    """Point MyST-NB to the results of the page's key, before it looks for them."""
    execution = _execution(app)
    tell("page", page=docname)
    execution.started = time.time()
    (execution.folder / LOADED_MODULES).unlink(missing_ok=True)
    keys_of(app.env).pop(docname, None)
    if docname in execution.left_out:
        left_out_of(app.env).add(docname)
        app.env.mystnb_config = app.env.mystnb_config.copy(execution_mode="off")  # type: ignore[attr-defined]
    elif docname in execution.parts:
        folder = execution.cache_folder(docname)
        folder.mkdir(parents=True, exist_ok=True)
        folder.touch()
        keys_of(app.env)[docname] = folder.name
        settings = {"execution_mode": "cache", "execution_cache_path": str(folder)}
        app.env.mystnb_config = app.env.mystnb_config.copy(**settings)  # type: ignore[attr-defined]


def end_page(app: Sphinx, _: Any) -> None:
    """Remember how long the page ran, and check that nothing ran that its key does not know."""
    execution, docname = _execution(app), app.env.docname
    data = NbMetadataCollector.get_exec_data(app.env, docname)
    if docname in keys_of(app.env) and data is not None and data["mtime"] >= execution.started:
        execution.history.remember(docname, execution.parts[docname], data["runtime"])
        _check_loaded(execution, docname)
        tell("ran", page=docname, seconds=data["runtime"])


def _check_loaded(execution: Execution, docname: str) -> None:
    path = execution.folder / LOADED_MODULES
    if not path.is_file():
        return
    known = execution.parts[docname].modules
    names = {package.name: package for package in execution.around.packages}
    unknown = [
        module
        for module in path.read_text("utf-8").split()
        if module.partition(".")[0] in names and module in names[module.partition(".")[0]].files and module not in known
    ]
    if unknown:
        LOGGER.warning(
            "its cells loaded %s, which its key does not hold: import it by a name that import_closure.py can see"
            " [execution_cache]",
            ", ".join(unknown),
            location=docname,
            type="execution_cache",
        )


def forget(_: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget the key of a page that is gone or about to be read again."""
    keys_of(env).pop(docname, None)
    left_out_of(env).discard(docname)


def drop_old(app: Sphinx, exception: Exception | None) -> None:
    """After a build without fault, remove all but each page's latest results, and those of pages that are gone."""
    if exception is not None or app.statuscode:
        return
    root = Path(app.config.nb_execution_cache_path)
    current = {results_of(app.env, docname) for docname in keys_of(app.env)}
    pages = {folder.parent for folder in current}
    for page in [path for path in root.glob("*") if path.is_dir()]:
        results = sorted((path for path in page.iterdir() if path not in current), key=_changed_last, reverse=True)
        for path in results[KEPT - 1 :] if page in pages else [page]:
            shutil.rmtree(path)


def _changed_last(path: Path) -> float:
    return path.stat().st_mtime


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the events of a build."""
    app.setup_extension("build_events")
    app.add_config_value("execution_packages", PACKAGES, "env", list)
    app.add_config_value("execution_key_paths", PATHS, "env", list)
    app.connect("config-inited", prepare)
    app.connect("env-get-outdated", outdated)
    app.connect("env-before-read-docs", order_pages)
    app.connect("env-before-read-docs", plan)
    app.connect("source-read", begin_page)
    app.connect("doctree-read", end_page, priority=900)
    app.connect("env-purge-doc", forget)
    app.connect("build-finished", drop_old, priority=900)
    return {"version": "1", "env_version": 2, "parallel_read_safe": True, "parallel_write_safe": True}
