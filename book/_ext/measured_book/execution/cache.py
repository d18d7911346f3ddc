"""Execution of pages, one at a time in the book's order, and cache of their results under a key of all they measure.

A page runs before MyST-NB reads it, which then finds the result in the cache: so times and memory are kept with it.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from myst_nb.core.read import create_nb_reader, read_myst_markdown_notebook
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sqlalchemy.exc import SQLAlchemyError

from measured_book.execution.events import succeeded, tell
from measured_book.execution.key import (
    ANOTHER,
    Surroundings,
    files_of,
    modules_of,
    page_key,
    reading_code,
    surroundings,
)
from measured_book.execution.results import results_of
from measured_book.execution.runs import PageRunError, execute
from measured_book.state import state_of
from tinytorch import settings
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.prose import is_of_text, with_cells

LOGGER = logging.getLogger(__name__)
#: Packages that pages import, relative to the book's sources; of them a page's key holds what the page may import.
PACKAGES = ["../tinytorch"]
#: Files and folders that every page's key holds.
PATHS = ["../requirements.lock"]
#: Results of this many latest keys stay for each page, so that going back and forth between states runs nothing twice.
KEPT = 3
#: The key in a page's head of the seconds that its cells may take; a first build is told so before it begins.
BUDGET = "budget"
CACHE_FOLDER = ".jupyter_cache"
#: Beside the cache: how many seconds each page last took, which informs, and no result rests on it.
SECONDS_FILE = "seconds.json"
#: Where a kernel that tells so writes the modules that it loaded, each with its file: see scripts/building/settings.py.
LOADED_MODULES = "loaded-modules.txt"

#: How MyST-NB finds `with_text_cells`.
READER = f"{__name__}.with_text_cells"
_SOURCE_MAP = "source_map"


def with_text_cells(text: str, path: str, config: Any) -> nbformat.NotebookNode:
    """Return a page as a notebook with the cells of its texts; raises ValueError as `with_cells` does."""
    notebook = read_myst_markdown_notebook(text, config=config, add_source_map=True, path=path)
    notebook.cells, lines = with_cells(notebook.cells, notebook.metadata[_SOURCE_MAP])
    notebook.metadata[_SOURCE_MAP] = lines
    return notebook


class Execution:
    """Execution of the pages of one build: what each depends on, which run and why, and their running."""

    def __init__(self, app: Sphinx) -> None:
        self.app = app
        #: Holds the site, the cache and what else builds leave.
        self.folder = Path(app.outdir).parent.resolve()
        self.seconds = _last_seconds(self.folder / SECONDS_FILE)
        #: The modules that a page's cells may import, with their hashes, of each page that has cells.
        self.modules: dict[str, dict[str, str]] = {}
        self.selected = frozenset(settings.SETTINGS.build_pages.split())
        self.left_out: set[str] = set()
        #: Pages as they were last asked for: the text of each, and the notebook that it is.
        self.notebooks: dict[str, tuple[str, nbformat.NotebookNode | None]] = {}

    @cached_property
    def around(self) -> Surroundings:
        """What all pages share."""
        config = self.app.config
        return surroundings(Path(self.app.srcdir), config.execution_packages, config.execution_key_paths)

    def notebook(self, docname: str) -> nbformat.NotebookNode | None:
        """Return the page as the notebook that MyST-NB would execute, without outputs; None if it has no cells."""
        env: Any = self.app.env
        path = str(env.doc2path(docname))
        content = Path(path).read_text("utf-8-sig")  # as Sphinx reads it: some editors put a byte order mark before it
        if docname not in self.notebooks or self.notebooks[docname][0] != content:
            plain, made = env.mystnb_config.copy(custom_formats={}), None  # without a reader of ours
            try:
                if create_nb_reader(path, env.myst_config, plain, content) is not None:
                    made = with_text_cells(content, path, env.myst_config)
            except ValueError as error:
                raise ExtensionError(f"{path}:{error}") from error
            self.notebooks[docname] = content, made
        return self.notebooks[docname][1]

    def study(self, docname: str) -> nbformat.NotebookNode | None:
        """Learn what the page's result depends on now, and return its notebook; None if it has none.

        Raises:
            ExtensionError: if a module that it may import is no Python.
        """
        notebook = self.notebook(docname)
        if notebook is None:
            self.modules.pop(docname, None)
            return None
        cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        try:
            self.modules[docname] = modules_of(cells, self.around)
        except SyntaxError as error:
            raise ExtensionError(f"{error.filename}:{error.lineno} is no Python: {error.msg}") from error
        return notebook

    def cache_folder(self, docname: str) -> Path:
        """Return the folder of results of the page, whose name is its present key."""
        key = page_key(self.modules[docname], self.around)
        return self.folder / CACHE_FOLDER / docname.replace("/", "--") / key

    def has_result(self, docname: str, notebook: nbformat.NotebookNode) -> bool:
        """Return whether the page's result can be taken from the cache."""
        folder = self.cache_folder(docname)
        if not (folder / "global.db").is_file():
            return False
        try:
            found = get_cache(str(folder)).match_cache_notebook(notebook)
            with (folder / "executed" / found.hashkey / "base.ipynb").open("rb") as file:
                file.seek(-2, os.SEEK_END)
                return file.read().rstrip().endswith(b"}")  # or it was cut off
        except (KeyError, OSError):
            return False
        except (RuntimeError, SQLAlchemyError):  # the index cannot be read
            shutil.rmtree(folder)
            return False

    def must_not_run(self, docname: str, notebook: nbformat.NotebookNode | None) -> bool:
        """Return whether a build of other pages reads this one, which would have to run."""
        left = bool(self.selected) and docname not in self.selected
        return left and notebook is not None and not self.has_result(docname, notebook)

    def prepare(self, _: Sphinx, config: Config) -> None:
        """Set what is the same in every build, so that Sphinx does not read all pages because it changed."""
        config.nb_execution_cache_path = str(self.folder / CACHE_FOLDER)

    def outdated(
        self, _: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], __: set[str]
    ) -> Iterable[str]:
        """Return what else to read again: pages whose files, key or result changed, or all if what reads them did.

        Sphinx compares the dates of files, which a copy or a clock that was set back may leave behind.
        """
        state, code = state_of(env), reading_code(self.around.packages)
        before, state.code = state.code, code
        found = []
        for docname in sorted(env.found_docs - added - changed):
            page = state.of(docname)
            if code != before or page.files != files_of(env, page.files):
                found.append(docname)
                continue
            notebook = self.study(docname)
            if notebook is None:
                continue
            if page.key != self.cache_folder(docname).name or not self.has_result(docname, notebook):
                found.append(docname)
        return found

    def plan(self, _: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
        """Find which pages will run and why, and tell.

        A build of some pages leaves others as they were when they were last read; those that never were are read and
        not run. So is the first page where others have come, because it has the list of pages.
        """
        pages = []
        joined = not env.all_docs.keys() >= set(docnames)
        for docname in list(docnames):
            notebook = self.study(docname)
            if self.must_not_run(docname, notebook):
                if docname in env.all_docs and not (joined and docname == env.config.root_doc):
                    docnames.remove(docname)
                    continue
                self.left_out.add(docname)
                notebook = None
            page: dict[str, Any] = {"page": docname, "cells": 0, "runs": False, "why": None, "seconds": None}
            page["left_out"] = docname in self.left_out
            if notebook is not None:
                page["cells"] = sum(cell.cell_type == "code" and not is_of_text(cell) for cell in notebook.cells)
                if not self.has_result(docname, notebook):
                    page["runs"] = True
                    ran = docname in self.seconds
                    page["why"] = "no result of it is kept as it is now" if ran else "it runs here for the first time"
                    page["seconds"] = self.seconds.get(docname) or notebook.metadata.get(BUDGET)
            pages.append(page)
        tell("plan", pages=pages)
        prepare_pages([page["page"] for page in pages if page["runs"]], self.around)

    def begin_page(self, _: Sphinx, docname: str, __: list[str]) -> None:
        """Run the page if its result is not in the cache, and point MyST-NB to where it is."""
        tell("page", page=docname)
        env = self.app.env
        page = state_of(env).of(docname)
        page.files = files_of(env, [env.doc2path(docname)])
        formats = {}
        if self.notebook(docname) is not None:
            path, config = str(env.doc2path(docname)), env.myst_config  # type: ignore[attr-defined]
            formats = {".md": (READER, {"path": path, "config": config}, False)}
        env.mystnb_config = env.mystnb_config.copy(custom_formats=formats)  # type: ignore[attr-defined]
        if docname in self.left_out:
            page.left_out = True
            env.mystnb_config = env.mystnb_config.copy(execution_mode="off")  # type: ignore[attr-defined]
        elif docname in self.modules:
            folder = self.cache_folder(docname)
            folder.mkdir(parents=True, exist_ok=True)
            folder.touch()
            page.key = folder.name
            cached = {"execution_mode": "cache", "execution_cache_path": str(folder)}
            env.mystnb_config = env.mystnb_config.copy(**cached)  # type: ignore[attr-defined]
            notebook = self.notebook(docname)
            if notebook is not None and not self.has_result(docname, notebook):
                self._run(docname, notebook)

    def _run(self, docname: str, notebook: nbformat.NotebookNode) -> None:
        """Run a page, put its result into the cache, and check that nothing ran that its key does not know."""
        path = Path(self.app.env.doc2path(docname))
        (self.folder / LOADED_MODULES).unlink(missing_ok=True)
        seconds = execute(docname, notebook, str(path.parent), self.app.config.nb_execution_timeout)
        self._check_loaded(docname)
        result = CacheBundleIn(notebook, str(path), data={"execution_seconds": seconds})
        get_cache(str(self.cache_folder(docname))).cache_notebook_bundle(result, check_validity=False, overwrite=True)
        LOGGER.info("%s: Executed notebook in %.2f seconds", path, seconds)
        self.seconds[docname] = seconds
        write_whole(self.folder / SECONDS_FILE, json.dumps(self.seconds))
        tell("ran", page=docname, seconds=seconds)

    def _check_loaded(self, docname: str) -> None:
        path = self.folder / LOADED_MODULES
        if not path.is_file():
            return
        known = self.modules[docname]
        files = {name: path for package in self.around.packages for name, path in package.files.items()}
        loaded = dict(line.split("\t", 1) for line in path.read_text("utf-8").splitlines())
        for name in sorted(files.keys() & loaded):
            if Path(loaded[name]).resolve() != files[name]:
                why = f"its cells loaded {name} from {loaded[name]} and not from {files[name]}: {ANOTHER}"
                raise PageRunError(docname, why)
        unknown = sorted((files.keys() & loaded).difference(known))
        if unknown:
            LOGGER.warning(
                "its cells loaded %s, which no import statement names, so a change there would not run the page again: "
                "import it at the top of the first cell or of the module that needs it [execution_cache]",
                ", ".join(unknown),
                location=docname,
                type="execution_cache",
            )


def _last_seconds(path: Path) -> dict[str, float]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def prepare_pages(pages: list[str], around: Surroundings) -> None:
    """Have made what these pages need and is no measurement, before any runs, if the build names a command for it.

    Raises:
        ExtensionError: if the command failed.
    """
    command = settings.SETTINGS.build_preparation
    if not command or not pages:
        return
    facts = json.dumps([dict(around.machine), dict(around.variables)], sort_keys=True)
    machine = hashlib.sha256(facts.encode()).hexdigest()[:32]
    with subprocess.Popen([*json.loads(command), machine, *pages], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tell(**json.loads(line))
    if process.returncode:
        raise ExtensionError(f"the preparation of pages ended with code {process.returncode}: see what it said above")


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
    """After a build without fault, remove all but each page's latest results, and those of pages that are gone.

    A page that a build of others left out may have results of another key, and no present one.
    """
    if not succeeded(app, exception):
        return
    root = Path(app.config.nb_execution_cache_path)
    current = {found for name in state_of(app.env).pages if (found := results_of(app.env, name)) is not None}
    pages = {root / name.replace("/", "--") for name in app.env.found_docs}
    for page in [path for path in root.glob("*") if path.is_dir()]:
        results = sorted((path for path in page.iterdir() if path not in current), key=_changed_last, reverse=True)
        for path in results[KEPT - 1 :] if page in pages else [page]:
            shutil.rmtree(path)


def _changed_last(path: Path) -> float:
    return path.stat().st_mtime


def setup(app: Sphinx) -> None:
    """Connect to the events of a build."""
    app.add_config_value("execution_packages", PACKAGES, "env", list)
    app.add_config_value("execution_key_paths", PATHS, "env", list)
    execution = Execution(app)
    app.connect("config-inited", execution.prepare)
    app.connect("env-get-outdated", execution.outdated)
    app.connect("env-before-read-docs", order_pages)
    app.connect("env-before-read-docs", execution.plan)
    app.connect("source-read", execution.begin_page)
    app.connect("build-finished", drop_old, priority=950)  # others before it may warn
