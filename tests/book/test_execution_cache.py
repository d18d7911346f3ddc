"""The key of the execution cache, the order of pages, and what is kept."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from execution_cache import CACHE_FOLDER, KEPT, drop_old, execution_key, order_pages
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx_external_toc.parsing import parse_toc_yaml

from tinytorch.perf.engines.presence import PEERS

PATHS = ["../package", "../requirements.lock"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in ("book", "package"):
        (tmp_path / name).mkdir()
    (tmp_path / "package" / "module.py").write_text("x = 1\n")
    (tmp_path / "package" / "schema.json").write_text("{}\n")
    (tmp_path / "requirements.lock").write_text("numpy==2\n")
    return tmp_path / "book"


def test_the_same_gives_the_same_key(source: Path) -> None:
    assert execution_key(source, PATHS) == execution_key(source, PATHS)


@pytest.mark.parametrize("name", ["package/module.py", "package/schema.json", "requirements.lock"])
def test_one_byte_gives_another_key(source: Path, name: str) -> None:
    before = execution_key(source, PATHS)
    path = source.parent / name
    path.write_bytes(path.read_bytes() + b"\n")
    assert execution_key(source, PATHS) != before


@pytest.mark.parametrize("name", ["OPENBLAS_CORETYPE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"])
def test_what_steers_kernels_is_in_the_key(source: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name, raising=False)
    before = execution_key(source, PATHS)
    monkeypatch.setenv(name, "1")
    assert execution_key(source, PATHS) != before


def test_the_engines_that_pages_compare_with_are_in_the_key(
    source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(PEERS, raising=False)
    without = execution_key(source, PATHS)
    keys = {without}
    for version in ("1.0", "1.1"):
        peers = tmp_path / f"python-{version}"
        peers.write_text(f'#!/bin/sh\necho \'{{"JAX": "{version}"}}\'\n')
        peers.chmod(0o755)
        monkeypatch.setenv(PEERS, str(peers))
        keys.add(execution_key(source, PATHS))
    assert len(keys) == 3


def test_other_variables_are_not(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = execution_key(source, PATHS)
    monkeypatch.setenv("UNRELATED", "1")
    assert execution_key(source, PATHS) == before


def test_a_path_that_is_not_there_is_said(source: Path) -> None:
    with pytest.raises(ExtensionError, match=r"package2 does not"):
        execution_key(source, ["../package2"])


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


def app_with_caches(folder: Path, code: int = 0) -> Any:
    caches = folder / CACHE_FOLDER
    for age, name in enumerate(("current", "newer", "old", "older", "oldest")):
        (caches / name).mkdir(parents=True)
        os.utime(caches / name, (1e9 - age, 1e9 - age))
    config = SimpleNamespace(nb_execution_cache_path=str(caches / "current"))
    return SimpleNamespace(config=config, statuscode=code)


def names(folder: Path) -> set[str]:
    return {path.name for path in (folder / CACHE_FOLDER).iterdir()}


def test_a_good_build_keeps_the_latest_caches(tmp_path: Path) -> None:
    drop_old(app_with_caches(tmp_path), None)
    assert names(tmp_path) == {"current", "newer", "old"}
    assert len(names(tmp_path)) == KEPT


@pytest.mark.parametrize(("code", "error"), [(1, None), (0, RuntimeError("interrupted"))])
def test_a_failed_build_removes_nothing(tmp_path: Path, code: int, error: Exception | None) -> None:
    drop_old(app_with_caches(tmp_path, code), error)
    assert len(names(tmp_path)) == 5
