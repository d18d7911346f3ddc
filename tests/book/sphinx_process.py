"""Sphinx in a process that loaded once what every build loads; each build is a fork of it and knows of no other."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.chosen_settings import PATIENCE
from tinytorch import settings

EXTENSIONS = Path(__file__).resolve().parents[2] / "book" / "_ext"
OPTIONS = ("-b", "html", "-W", "--keep-going", "-n")


class SphinxProcess:
    """``with SphinxProcess() as sphinx: code, output = sphinx.build(source, site)``; warnings are errors."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__]
        # Not in the folder for caches of a test that happens to be the first, nor with its settings.
        root = str(EXTENSIONS.parents[1])
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def build(
        self, source: Path, site: Path, *options: str, variables: Mapping[str, str | None] | None = None
    ) -> tuple[int, str]:
        """Build a book, and return the exit code of Sphinx and what it said.

        Args:
            source: folder of the book, beside which it runs.
            site: folder to write to.
            options: more of them for Sphinx.
            variables: of the environment, beside those of this process; None for one that is not to be set.
        """
        environment = {**os.environ, **(variables or {})}
        said = source.with_name(f"{source.name}-said.txt")
        job = {
            "arguments": [*OPTIONS, *options, str(source), str(site)],
            "folder": str(source.parent),
            "said": str(said),
            "environment": {name: value for name, value in environment.items() if value is not None},
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline()), said.read_text("utf-8")


def load() -> None:
    """Do what each build would do again: import modules, and compile the grammar of cells and schemas of notebooks."""
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # seconds to load, for a format of no schema here
    sys.path.insert(0, str(EXTENSIONS))
    from sphinx.application import builtin_extensions

    at_first_use = ("sqlalchemy.dialects.sqlite.aiosqlite", "ipykernel.kernelspec", "pybtex.database.input.bibtex")
    for name in ("sphinx.cmd.build", "myst_nb.sphinx_ext", "sphinx_design", *builtin_extensions, *at_first_use):
        import_module(name)
    for path in EXTENSIONS.rglob("[!_]*.py"):
        import_module(".".join(path.relative_to(EXTENSIONS).with_suffix("").parts))
    from nbformat.validator import get_validator

    import_module("pygments.lexers").get_lexer_by_name("ipython3")
    for minor in (4, 5):  # of notebooks in the cache, and of those beside pages
        get_validator(4, minor)


def run(arguments: list[str], folder: str, said: str, environment: dict[str, str]) -> int:
    """Build a book in this process, with its words in the file ``said``."""
    from sphinx.cmd.build import main

    signal.alarm(PATIENCE)  # ends a build that hangs
    os.environ.clear()
    os.environ.update(environment)
    settings.SETTINGS = settings.read_settings(environment)
    os.chdir(folder)
    for descriptor, path, flags in ((0, os.devnull, os.O_RDONLY), (1, said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
        os.dup2(os.open(path, flags), descriptor)
    os.dup2(1, 2)
    try:
        return main(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def serve() -> None:
    """Do what each line of the input asks for, in a fork, and answer with its exit code."""
    load()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sys.exit(run(**json.loads(line)))  # not at once: what an extension started ends with the process
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
