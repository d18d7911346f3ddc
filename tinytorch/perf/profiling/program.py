"""A whole program under the profiler: a reader's own script, run as Python runs it, with all of its time recorded."""

from __future__ import annotations

import builtins
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tinytorch.core.dispatch import region
from tinytorch.perf.profiling.profiler import Profiler

Json = dict[str, Any]
#: The JSON of a program's profile; its version rises whenever a reader of it would have to change.
SCHEMA_NAME, SCHEMA_VERSION = "tinytorch-program-profile", 1
#: Name of the region in which modules are imported that were not before.
IMPORT = "import"


@dataclass(frozen=True)
class ProgramProfile:
    """What a script did: how it ended, as a shell sees it, and the profiler that recorded it."""

    script: str
    arguments: tuple[str, ...]
    exit_code: int
    profiler: Profiler

    @property
    def name(self) -> str:
        """The script and its arguments, as they were typed."""
        return " ".join([self.script, *self.arguments])

    def to_json(self) -> Json:
        """Return everything as one JSON object of `SCHEMA_NAME`, version `SCHEMA_VERSION`; times in seconds."""
        run = self.profiler.run
        return {
            "schema": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            "script": self.script,
            "arguments": list(self.arguments),
            "exit_code": self.exit_code,
            "wall_seconds": run.wall_seconds,
            "op_seconds": run.op_seconds,
            "uncounted_ops": list(run.uncounted),
            "ops": [asdict(row) for row in self.profiler.attribution()],
            "layers": [asdict(row) for row in self.profiler.by_layer()],
        }


def profile_program(script: str, arguments: Sequence[str] = (), memory: bool = False) -> ProgramProfile:
    """Run ``script`` as ``python script arguments`` does, and return where its time went.

    What the script prints is printed; an error of it is told as Python tells it, and what ran until then is recorded.
    Imports are a region of their own.

    Args:
        script: path of a file of Python.
        arguments: of the script.
        memory: whether to run it a second time, for its memory; its effects then happen twice.

    Raises:
        ValueError: if there is no such file, or with ``memory`` the second run made other ops.
    """
    path = Path(script)
    if not path.is_file():
        raise ValueError(f"{script} is no file")
    with Profiler() as profiler:
        code = _run(path, arguments)
    if memory:
        with Profiler(memory=True) as traced:
            _run(path, arguments)
        profiler.join(traced)
    return ProgramProfile(script, tuple(arguments), code, profiler)


def _run(path: Path, arguments: Sequence[str]) -> int:
    """Run the file as the main module; return its exit code."""
    with _as_python_has_it(path, arguments), _imports_named():
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as ended:
            return _exit_code(ended.code)
        except Exception as error:
            traceback.print_exception(error)
            return 1
    return 0


def _exit_code(code: Any) -> int:
    """Return what a shell is told: a text is printed and is an error."""
    if code is None or isinstance(code, int):
        return int(code or 0)
    print(code, file=sys.stderr)
    return 1


@contextmanager
def _as_python_has_it(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Let the script find its own arguments, and the modules beside it."""
    argv, search = sys.argv, sys.path
    sys.argv, sys.path = [str(path), *arguments], [str(path.resolve().parent), *search]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, search


@contextmanager
def _imports_named() -> Iterator[None]:
    """Give the time of imports a name: of the outermost ones, of what is not loaded yet."""
    load, inside = builtins.__import__, False

    def named(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        nonlocal inside
        if inside or level or name in sys.modules:
            return load(name, globals, locals, fromlist or (), level)
        inside = True
        try:
            with region(IMPORT):
                return load(name, globals, locals, fromlist or (), level)
        finally:
            inside = False

    builtins.__import__ = named
    try:
        yield
    finally:
        builtins.__import__ = load
