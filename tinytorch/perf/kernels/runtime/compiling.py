"""Compilation of kernels: on first use, without the interpreter's lock, kept on disk, and with the time it took."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy.ma  # noqa: F401 - which Numba loads at the first call of a kernel: here its memory is not charged to it
from numba import config, njit
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator

from tinytorch.kept import kept_folder
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.memory import uncounted

_KERNELS = Path(__file__).resolve().parents[1]
_PACKAGE = "tinytorch.perf.kernels."
#: Compiled kernels lie here, in a folder for each state of the sources.
KEPT = kept_folder("kernels")
#: Release of Numba with which was tried what it does not promise: its cache, whose classes are extended here, and how
#: it compiles a function of one int64, which `plan_ops.driver` calls by its address. A test fails on another one.
TRIED_WITH = "0.68"
#: Folders that are kept whatever their age, and seconds that another one is kept after a process last used it.
_FOLDERS, _IN_USE_SECONDS = 3, 3600
#: Seconds after which a child that compiles is given up: the largest kernels take some ten on a slow machine.
_LONGEST_COMPILATION = 300.0
#: Name of the folder's files that say how long a compilation took.
_SECONDS = ".seconds.json"


@cache
def source_key() -> str:
    """Return a key of all sources of kernels: any of them may be inlined into any other."""
    digest = hashlib.sha256()
    for path in sorted(_KERNELS.rglob("*.py")):
        digest.update(path.relative_to(_KERNELS).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Return the folder that compiled kernels are kept in; None where it cannot be written, and each run compiles.

    Folders of earlier sources go; see `remove_old_folders`.
    """
    folder = KEPT / source_key()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        remove_old_folders(KEPT)
    except OSError:
        return None
    return folder


def remove_old_folders(kept: Path) -> None:
    """Remove the folders in ``kept`` that are neither among the three used last nor were used within an hour.

    Every process marks its folder as used when it reads or writes a kernel. One whose folder is gone nevertheless, as
    it did neither for an hour, compiles what it needs next and makes the folder anew.
    """
    used = sorted(((path.stat().st_mtime, path) for path in kept.iterdir() if path.is_dir()), reverse=True)
    for when, path in used[_FOLDERS:]:
        if time.time() - when > _IN_USE_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


class _Locator(_CacheLocator):  # type: ignore[misc]
    """Tells Numba the folder, and that a kernel is as fresh as all kernels' sources."""

    def __init__(self, line: int, file: str) -> None:
        self._line, self._py_file = line, file

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        """Return the locator of one function."""
        return cls(py_func.__code__.co_firstlineno, py_file)

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        """Return the key of all sources."""
        return source_key()

    def get_disambiguator(self) -> str:
        """Return the function's line."""
        return str(self._line)


class _CacheImplementation(CompileResultCacheImpl):  # type: ignore[misc]
    """Numba's, with the one locator."""

    _locator_classes = [_Locator]  # noqa: RUF012 - Numba's own attribute


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache with files of its own for each signature and CPU.

    Numba keeps one index for all signatures of a function, which two processes that compile at once can leave
    pointing at the wrong code. With one signature an index, both write the same.

    Numba's key holds what a function closes over, in which a kernel or an intrinsic has another number in each process:
    code that calls one would never be found again. Here the function's name tells such code apart; see `kernel`.
    """

    _impl_class = _CacheImplementation
    #: Whether this process has children compile; not one that will not live long itself, such as such a child.
    has_children = True

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.dispatcher: Any = None

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the code of the signature from disk, compiled by a child process if it is not there; else None."""
        found = super().load_overload(signature, target_context)
        if found is None and _compiled_aside(self.dispatcher, signature):
            found = super().load_overload(signature, target_context)
        return found

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return signature, codegen.magic_tuple(), hashlib.sha256(self._py_func.__code__.co_code).hexdigest()

    def _select(self, signature: Any, codegen: Any) -> None:
        key = hashlib.sha256(repr(self._index_key(signature, codegen)).encode()).hexdigest()[:16]
        name = f"{self._impl.filename_base}-{key}"
        self._cache_file = IndexDataCacheFile(self._cache_path, name, self._impl.locator.get_source_stamp())

    def _load_overload(self, signature: Any, target_context: Any) -> Any:
        self._select(signature, target_context.codegen())
        with suppress(FileNotFoundError):
            os.utime(self._cache_path)
        return super()._load_overload(signature, target_context)

    def _save_overload(self, signature: Any, data: Any) -> None:
        self._select(signature, data.codegen)
        super()._save_overload(signature, data)


def _compiled_aside(dispatcher: Any, signature: Any) -> bool:
    """Have a forked child compile the signature and keep it on disk; return whether it did.

    LLVM does not give back what it takes to compile: a chapter's kernels left hundreds of megabytes in its process.
    With a child they go. There is none where a fork may do harm: outside of Linux, and in a rank of MPI.
    """
    if not _KernelCache.has_children or sys.platform != "linux" or "mpi4py.MPI" in sys.modules:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads, none of which the child needs
        child = os.fork()
    if child:
        return _ended_well(child)
    _KernelCache.has_children, code = False, 1
    try:
        dispatcher.compile(signature)
        code = 0
    finally:
        os._exit(code)  # no handler of the parent's runs twice, and no error is told twice: the parent meets it itself


def compile_here() -> None:
    """Have this process compile by itself from now on: where many kernels are, a child for each costs an eighth more.

    It is for a process that ends soon, and gives back then what LLVM took.
    """
    _KernelCache.has_children = False


def _ended_well(child: int) -> bool:
    """Wait for a process; return whether it ended with code 0. One that takes too long is ended."""
    late = threading.Timer(_LONGEST_COMPILATION, os.kill, (child, signal.SIGKILL))
    late.start()
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        late.cancel()


def kernel(function: Callable[..., Any], variant: str = "") -> Any:
    """Return ``function`` as a kernel: Numba compiles it at the first call with arguments of some types.

    It runs without the interpreter's lock, and divides floats as NumPy does (x / 0 is infinite). What was compiled is
    kept on disk (`cache_folder`) for later processes; any change to any kernel's source starts a new folder.

    Args:
        function: what to compile.
        variant: what tells it from other functions made by the same lines, such as "8x3"; part of its name.

    Raises:
        ValueError: if a function that another one made has no ``variant``. Compiled code finds what it calls by its
            name and a number that each process counts anew: code of two processes could call the wrong namesake.
        RuntimeError: if Numba was told to compile nothing.
    """
    if config.DISABLE_JIT:
        raise RuntimeError(
            "NUMBA_DISABLE_JIT is set, and the compiled kernels cannot run as Python: unset it, or leave out what "
            "needs them, such as accelerated()"
        )
    if "<locals>" in function.__qualname__:
        if not variant.isidentifier():
            raise ValueError(
                f"variant must be a name that tells {function.__qualname__} from others made there, not {variant!r}"
            )
        function.__qualname__ += f"_{variant}"
    compiled = njit(nogil=True, error_model="numpy")(function)
    if cache_folder() is not None:
        compiled._cache = _KernelCache(function)
        compiled._cache.dispatcher = compiled
    return compiled


def warm(compiled: Any, *arguments: Any) -> None:
    """Have the kernel ready for arguments of these types, without a call: compiled, or read from disk.

    So that no timed or profiled call compiles.
    """
    from numba import typeof

    compiled.compile(tuple(typeof(argument) for argument in arguments))


class _Seconds(event.Listener):  # type: ignore[misc]
    """Writes down how long each kernel took, without the kernels that were compiled inside of it."""

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}
        self._inner: list[float] = []
        self._starts: list[float] = []

    def on_start(self, _event: Any) -> None:
        """Called when a compilation begins."""
        self._starts.append(time.perf_counter())
        self._inner.append(0.0)

    def on_end(self, event: Any) -> None:
        """Called when it ends."""
        whole = time.perf_counter() - self._starts.pop()
        own = whole - self._inner.pop()
        if self._inner:
            self._inner[-1] += whole
        function = event.data["dispatcher"].py_func
        if not str(function.__module__).startswith(_PACKAGE):
            return
        name = f"{function.__module__.removeprefix(_PACKAGE)}.{function.__qualname__}"
        self.taken[name] = self.taken.get(name, 0.0) + own
        _keep_seconds(name, repr(event.data["args"]), own)


def _keep_seconds(name: str, signature: str, seconds: float) -> None:
    """Write a compilation's seconds beside its code; without a folder only this process knows."""
    folder = cache_folder()
    if folder is None:
        return
    key = hashlib.sha256(signature.encode()).hexdigest()[:16]
    with suppress(OSError):
        path = folder / f"{name.replace('<', '').replace('>', '')}-{key}{_SECONDS}"
        write_whole(path, json.dumps({"kernel": name, "seconds": seconds}))


_seconds = _Seconds()
event.register("numba:compile", _seconds)


class _Uncounted(event.Listener):  # type: ignore[misc]
    """Keeps out of measured memory what Numba allocates to compile a kernel or to read it from disk."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._inside = 0
        self._until_done = ExitStack()

    def on_start(self, _event: Any) -> None:
        """Called when a thread asks for the compiler, also while it has it."""
        with self._changing:
            if not self._inside:
                self._until_done.enter_context(uncounted())
            self._inside += 1

    def on_end(self, _event: Any) -> None:
        """Called when it gives it back."""
        with self._changing:
            self._inside -= 1
            if not self._inside:
                self._until_done.close()


event.register("numba:compiler_lock", _Uncounted())


def compile_seconds() -> dict[str, float]:
    """Return the seconds that each kernel took to compile, by "module.function", all signatures together.

    Kernels that were read from disk count with what they took when they were compiled; those that were inlined
    into another count for themselves. In the order of their names.
    """
    folder = cache_folder()
    if folder is None:
        return dict(sorted(_seconds.taken.items()))
    taken: dict[str, float] = {}
    for path in sorted(folder.glob(f"*{_SECONDS}")):
        entry = json.loads(path.read_text("utf-8"))
        taken[entry["kernel"]] = taken.get(entry["kernel"], 0.0) + entry["seconds"]
    return dict(sorted(taken.items()))
