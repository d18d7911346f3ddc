"""The order of pages, and which results of executed pages are kept."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from measured_book.execution.cache import CACHE_FOLDER, KEPT, PREPARATION, drop_old, order_pages, prepare_pages
from measured_book.execution.events import EVENTS
from measured_book.execution.key import Surroundings
from measured_book.state import state_of
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
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


def app_with_results(folder: Path, warnings: int = 0) -> Any:
    root = folder / CACHE_FOLDER
    for page in ("chapter", "gone"):
        for age, name in enumerate(("current", "newer", "old", "older", "oldest")):
            (root / page / name).mkdir(parents=True)
            os.utime(root / page / name, (1e9 - age, 1e9 - age))
    config = SimpleNamespace(nb_execution_cache_path=str(root))
    env: Any = SimpleNamespace(config=config)
    state_of(env).of("chapter").key = "current"
    return SimpleNamespace(config=config, env=env, _warncount=warnings)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder / CACHE_FOLDER)) for path in (folder / CACHE_FOLDER).glob("*/*")}


def test_a_good_build_keeps_each_page_s_latest_results_and_none_of_pages_that_are_gone(tmp_path: Path) -> None:
    drop_old(app_with_results(tmp_path), None)
    assert names(tmp_path) == {"chapter/current", "chapter/newer", "chapter/old"}
    assert len(names(tmp_path)) == KEPT


@pytest.mark.parametrize(("warnings", "error"), [(1, None), (0, RuntimeError("interrupted"))])
def test_a_failed_build_removes_nothing(tmp_path: Path, warnings: int, error: Exception | None) -> None:
    drop_old(app_with_results(tmp_path, warnings), error)
    assert len(names(tmp_path)) == 10


HERE = Surroundings((), {}, {"CPU": "one"}, {}, {})
#: Stands in for the preparation: prints as an event what it was given, and ends as told.
PREPARES = "import json, sys; print(json.dumps({'event': 'given', 'words': sys.argv[1:]})); sys.exit(%d)"


def told_by_preparation(monkeypatch: pytest.MonkeyPatch, pages: list[str], around: Surroundings, code: int = 0) -> Any:
    reading, writing = os.pipe()
    monkeypatch.setenv(EVENTS, str(writing))
    monkeypatch.setenv(PREPARATION, json.dumps([sys.executable, "-I", "-S", "-c", PREPARES % code]))
    try:
        prepare_pages(pages, around)
    finally:
        os.close(writing)
        with os.fdopen(reading) as events:
            told = [json.loads(line) for line in events]
    return told


def test_pages_that_run_are_prepared_and_what_that_tells_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    (event,) = told_by_preparation(monkeypatch, ["roofline", "capstone"], HERE)
    assert event["event"] == "given"
    machine, *pages = event["words"]
    assert pages == ["roofline", "capstone"]
    ((same,), (other,)) = (
        told_by_preparation(monkeypatch, ["roofline"], around)
        for around in (HERE, Surroundings((), {}, {"CPU": "another"}, {}, {}))
    )
    assert same["words"][0] == machine != other["words"][0]


def test_nothing_is_prepared_if_no_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_by_preparation(monkeypatch, [], HERE) == []


def test_a_preparation_that_fails_ends_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExtensionError, match="ended with code 3"):
        told_by_preparation(monkeypatch, ["roofline"], HERE, code=3)


def test_a_build_by_hand_prepares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PREPARATION, raising=False)
    prepare_pages(["roofline"], HERE)
