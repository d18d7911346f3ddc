"""What a failed or interrupted build left is not believed by the next one; what a build measured is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_cache.base import CacheBundleIn

from scripts import build_book


class JupyterBook:
    """Stands in for Jupyter Book: notes what it finds, leaves what Sphinx would leave, and ends as told."""

    def __init__(self, code: int = 0, error: BaseException | None = None) -> None:
        self.code, self.error = code, error
        self.found: list[str] = []

    def __call__(self, root: Path, output: Path) -> int:
        self.found = sorted(path.name for path in output.iterdir() if path.is_dir())
        for name in (".doctrees", ".jupyter_cache", "html"):
            (output / name).mkdir(exist_ok=True)
        if self.error is not None:
            raise self.error
        return self.code


def build(root: Path, monkeypatch: pytest.MonkeyPatch, book: JupyterBook) -> int:
    monkeypatch.setattr(build_book, "run_jupyter_book", book)
    return build_book.build(root)


def test_a_good_build_is_the_start_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(tmp_path, monkeypatch, JupyterBook()) == 0
    assert build(tmp_path, monkeypatch, second := JupyterBook()) == 0
    assert second.found == [".doctrees", ".jupyter_cache", ".user", "html"]
    assert capsys.readouterr().out.splitlines()[-1].startswith("The book is in _build/html/index.html (built in ")


def test_after_a_failed_build_every_page_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build(tmp_path, monkeypatch, JupyterBook(code=1)) == 1
    assert build(tmp_path, monkeypatch, second := JupyterBook()) == 0
    assert second.found == [".jupyter_cache", ".user"]


def test_after_an_interrupted_build_every_page_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build(tmp_path, monkeypatch, JupyterBook()) == 0
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, monkeypatch, JupyterBook(error=KeyboardInterrupt()))
    assert build(tmp_path, monkeypatch, third := JupyterBook()) == 0
    assert third.found == [".jupyter_cache", ".user"]


def executed_notebook(number: int, stream: str) -> nbformat.NotebookNode:
    output = nbformat.v4.new_output("stream", name=stream, text="said\n")
    cell = nbformat.v4.new_code_cell(f"{number}", execution_count=1, outputs=[output])
    return nbformat.v4.new_notebook(cells=[cell])


def test_only_results_that_can_be_shown_again_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / ".jupyter_cache" / "key"
    with build_book.open_cache(folder) as cache:
        for number, stream in enumerate(["stdout", "stderr", "stdout", "stdout"]):
            cache.cache_notebook_bundle(CacheBundleIn(executed_notebook(number, stream), f"{number}.md"))
        good, _, half, gone = (record.hashkey for record in sorted(cache.list_cache_records(), key=lambda r: r.uri))
    (folder / "executed" / half / "base.ipynb").write_text('{"cells": [')
    (folder / "executed" / gone / "base.ipynb").unlink()

    build_book.discard_untrusted(tmp_path)

    with build_book.open_cache(folder) as cache:
        assert [record.hashkey for record in cache.list_cache_records()] == [good]
    assert [path.name for path in (folder / "executed").iterdir()] == [good]


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be looked at" * 99])
def test_a_cache_whose_index_is_broken_is_removed(tmp_path: Path, content: bytes) -> None:
    index = tmp_path / ".jupyter_cache" / "key" / "global.db"
    index.parent.mkdir(parents=True)
    index.write_bytes(content)
    build_book.discard_untrusted(tmp_path)
    assert not index.parent.exists()


def find_kernel(settings: dict[str, str]) -> str:
    code = "from jupyter_client.kernelspec import KernelSpecManager as M; print(M().find_kernel_specs()['python3'])"
    found = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=True)
    return found.stdout.strip()


def test_the_users_own_kernel_does_not_run_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (tmp_path / ".local/share/jupyter", tmp_path / "Library/Jupyter", tmp_path / "elsewhere"):
        kernel = data / "kernels" / "python3" / "kernel.json"
        kernel.parent.mkdir(parents=True)
        kernel.write_text(json.dumps({"argv": ["false"], "display_name": "mine", "language": "python"}))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    assert find_kernel(dict(os.environ)).startswith(str(tmp_path)), "the user's kernel would be found otherwise"
    assert find_kernel(build_book.build_settings(tmp_path)).startswith(sys.prefix)


def test_jupyter_book_gets_absolute_paths_and_no_mercy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        seen.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert build_book.run_jupyter_book(tmp_path, tmp_path / "_build") == 0
    (command,) = seen
    assert command[command.index("--toc") + 1] == str(tmp_path / "_toc.yml")
    assert command[command.index("--config") + 1] == str(tmp_path / "_config.yml")
    assert command[command.index("--path-output") + 1] == str(tmp_path)
    assert {"-W", "--keep-going", "-n"} <= set(command)
    assert "--all" not in command


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (3601, "60 min 01 s")],
)
def test_a_duration_is_in_words(seconds: float, words: str) -> None:
    assert build_book.duration(seconds) == words
