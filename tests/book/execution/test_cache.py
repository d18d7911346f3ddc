"""The order of pages, and which results of executed pages are kept."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from measured_book.execution.cache import CACHE_FOLDER, KEPT, drop_old, order_pages
from measured_book.state import state_of
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx_external_toc.parsing import parse_toc_yaml


def test_pages_run_in_the_order_of_the_contents(tmp_path: Path) -> None:
    contents = tmp_path / "_toc.yml"
    contents.write_text(
        "format: jb-book\nroot: index\nchapters:\n"
        "  - file: zebra\n    sections:\n      - file: zebra-more\n  - file: apple\n"
    )
    app = SimpleNamespace(config=SimpleNamespace(external_site_map=parse_toc_yaml(contents)))
    docnames = ["apple", "index", "unlisted", "zebra", "zebra-more"]
    order_pages(cast(Sphinx, app), cast(BuildEnvironment, None), docnames)
    assert docnames == ["index", "zebra", "zebra-more", "apple", "unlisted"]


def app_with_results(folder: Path, code: int = 0) -> Any:
    root = folder / CACHE_FOLDER
    for page in ("chapter", "gone"):
        for age, name in enumerate(("current", "newer", "old", "older", "oldest")):
            (root / page / name).mkdir(parents=True)
            os.utime(root / page / name, (1e9 - age, 1e9 - age))
    config = SimpleNamespace(nb_execution_cache_path=str(root))
    env: Any = SimpleNamespace(config=config)
    state_of(env).of("chapter").key = "current"
    return SimpleNamespace(config=config, env=env, statuscode=code)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder / CACHE_FOLDER)) for path in (folder / CACHE_FOLDER).glob("*/*")}


def test_a_good_build_keeps_each_page_s_latest_results_and_none_of_pages_that_are_gone(tmp_path: Path) -> None:
    drop_old(app_with_results(tmp_path), None)
    assert names(tmp_path) == {"chapter/current", "chapter/newer", "chapter/old"}
    assert len(names(tmp_path)) == KEPT


@pytest.mark.parametrize(("code", "error"), [(1, None), (0, RuntimeError("interrupted"))])
def test_a_failed_build_removes_nothing(tmp_path: Path, code: int, error: Exception | None) -> None:
    drop_old(app_with_results(tmp_path, code), error)
    assert len(names(tmp_path)) == 10
