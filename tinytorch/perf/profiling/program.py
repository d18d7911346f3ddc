"""A whole program under the profiler: a reader's own script, run as Python runs it, with all of its time recorded."""

from __future__ import annotations

import builtins
import importlib.util
import io
import linecache
import os
import signal
import sys
import threading
import traceback
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from tinytorch.core.dispatch import region
from tinytorch.perf.events.call_tree import Frame
from tinytorch.perf.events.stack_samples import StackSampler
from tinytorch.perf.profiling.lines import Lines
from tinytorch.perf.profiling.profiler import Profiler
from tinytorch.perf.profiling.torch_ops import TorchOps
from tinytorch.perf.profiling.workers import Workers

Json = dict[str, Any]
#: The JSON of a program's profile; its version rises whenever a reader of it would have to change.
SCHEMA_NAME, SCHEMA_VERSION = "tinytorch-program-profile", 2
#: Name of the region in which modules are imported that were not before.
IMPORT = "import"
#: Exit codes as shells have them: 128 and the number of the signal; that of what ran out of time is `timeout`'s.
INTERRUPTED, TERMINATED, OUT_OF_TIME = 130, 143, 124
#: What stands for a program that is read from standard input.
STDIN = "-"


@dataclass(frozen=True)
class Program:
    """What is run, as Python's own command line has it.

    Attributes:
        what: path of a script, of a folder or archive with a ``__main__.py``, `STDIN`, or with ``module`` the dotted
            name of a module or package.
        arguments: of the program.
        module: whether ``what`` is a name, as behind ``python -m``.
    """

    what: str
    arguments: tuple[str, ...] = ()
    module: bool = False

    @property
    def name(self) -> str:
        """The program and its arguments, as they were typed."""
        return " ".join([*(["-m"] if self.module else []), self.what, *self.arguments])


@dataclass(frozen=True)
class ProgramProfile:
    """What a program did.

    Attributes:
        program: what ran.
        exit_code: how it ended, as a shell sees it.
        profiler: holds the ops that it ran.
        lines: its lines, functions and calls into libraries, by samples, of all of its processes that were followed.
        torch_ops: PyTorch's own operations; None if the program ran none.
        remarks: what a reader of the report has to know, a sentence each.
        asked_memory: whether it was to run a second time for its memory, whatever came of it.
    """

    program: Program
    exit_code: int
    profiler: Profiler
    lines: Lines
    torch_ops: TorchOps | None = None
    remarks: tuple[str, ...] = ()
    asked_memory: bool = False

    @property
    def name(self) -> str:
        """The program and its arguments, as they were typed."""
        return self.program.name

    @property
    def stopped(self) -> bool:
        """Whether it was ended from outside."""
        return self.exit_code in (INTERRUPTED, TERMINATED, OUT_OF_TIME)

    @property
    def ran_ops(self) -> bool:
        """Whether it ran ops of this package, be it on threads of which they are not recorded."""
        return bool(len(self.profiler.run.events) or self.profiler.run.unseen)

    @property
    def notes(self) -> list[str]:
        """What a reader of the tables of lines has to know."""
        run, lines = self.profiler.run, self.lines
        return [
            f"{run.wall_seconds:.3f} s in all, looked at {lines.looks} times, which took {lines.cost:.1%} of the time; "
            "shares are of the time in all, and those of one thread sum to the part of it in which that ran",
            "own: the line's Python; compiled: compiled code that it called, or waiting in it; libraries: Python of "
            "libraries that it called, with what that called",
            *self.remarks,
        ]

    def tree(self) -> Frame:
        """Return the whole run as a frame: its ops, and its lines where no op ran."""
        return self.lines.tree(self.profiler.run)

    def trace_events(self) -> Iterator[Json]:
        """Yield events of Chrome's trace format beside those of the ops: threads, PyTorch's operations, memory."""
        yield from self.lines.trace_events(self.profiler.run)
        if self.torch_ops is not None:
            yield from self.torch_ops.trace_events(self.profiler.run)

    def to_json(self) -> Json:
        """Return everything as one JSON object of `SCHEMA_NAME`, version `SCHEMA_VERSION`; times in seconds."""
        run, lines = self.profiler.run, self.lines
        return {
            "schema": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            "script": self.program.what,
            "arguments": list(self.program.arguments),
            "exit_code": self.exit_code,
            "wall_seconds": run.wall_seconds,
            "op_seconds": run.op_seconds,
            "uncounted_ops": list(run.uncounted),
            "ops": [asdict(row) for row in self.profiler.attribution()],
            "layers": [asdict(row) for row in self.profiler.by_layer()],
            "looks": lines.looks,
            "looking_share": lines.cost,
            "lines": [asdict(row) for row in lines.lines],
            "functions": [asdict(row) for row in lines.functions],
            "library_calls": [asdict(row) for row in lines.calls],
            "threads": [asdict(row) for row in lines.threads],
            "torch_ops": None if self.torch_ops is None else [asdict(row) for row in self.torch_ops.rows],
            "resident_bytes": [[(when - run.start) * 1e-9, held] for when, held in lines.samples[0].resident],
            "remarks": list(self.remarks),
        }


def profile_program(
    script: str,
    arguments: Sequence[str] = (),
    memory: bool = False,
    *,
    module: bool = False,
    seconds: float | None = None,
) -> ProgramProfile:
    """Run ``script`` as ``python script arguments`` does, and return where its time went.

    What the program prints is printed; an error of it is told as Python tells it, and what ran until then is recorded,
    as it is of one that is interrupted, terminated or stopped. Imports are a region of their own. The current folder is
    afterwards what it was before.

    Args:
        script: path of a file of Python, or of a folder or archive with a ``__main__.py``; "-" for standard input.
        arguments: of the program.
        memory: whether to run it a second time, for its memory; its effects then happen twice.
        module: whether ``script`` is the name of a module, as ``python -m`` takes it.
        seconds: after which it is stopped; None lets it run to its end.

    Raises:
        ValueError: if there is nothing to run under that name, or ``seconds`` is not above 0.
    """
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds must be above 0, not {seconds}")
    program = Program(script, tuple(arguments), module)
    main = _Main(program)
    with Profiler() as profiler, Workers(_Main.run.__code__) as workers:
        sampler = StackSampler(_Main.run.__code__)
        try:
            ended = _run(main, seconds, torch=True)
        finally:
            samples = sampler.stop()
    if ended.torch_ops is not None:
        ended.torch_ops.stop()
        ended.remarks += ended.torch_ops.remarks
        ended.torch_ops = ended.torch_ops if ended.torch_ops.rows else None
    remarks = [*ended.remarks, *workers.remarks]
    if memory and ended.code in (INTERRUPTED, TERMINATED, OUT_OF_TIME):
        remarks.append("memory was not recorded, because the program did not run to its end")
    elif memory:
        with Profiler(memory=True) as traced:
            _run(main, None)
        try:
            profiler.join(traced)
        except ValueError:
            remarks.append("memory of arrays is not shown, because the second run ran other ops than the first")
    lines = Lines([samples, *workers.samples], main.own)
    return ProgramProfile(program, ended.code, profiler, lines, ended.torch_ops, tuple(remarks), memory)


class _Stopped(BaseException):
    """Ends a program from outside; no program catches it that catches errors."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code = code


class _Main:
    """The main module of a program: how it is found, and run."""

    def __init__(self, program: Program) -> None:
        self.program = program
        path = Path(program.what)
        self._text = sys.stdin.read() if program.what == STDIN and not program.module else None
        if program.module:
            self._file, self.own = None, (_origin(program.what),)
        elif self._text is not None:
            self._file, self.own = None, ("<stdin>",)
        elif path.is_file() or (path / "__main__.py").is_file():
            self._file = path.resolve()
            self.own = (str(self._file),)
        else:
            what = "a folder without a __main__.py" if path.is_dir() else "no file"
            raise ValueError(f"{program.what} is {what}")
        self._is_text = self._file is not None and self._file.is_file() and not zipfile.is_zipfile(self._file)

    def run(self) -> None:
        """Run it as the main module, and wait for the threads that it started."""
        code, module, head, search = self._loaded()
        sys.argv = [head, *self.program.arguments]
        sys.path.insert(0, search)
        sys.modules["__main__"] = module
        before = set(threading.enumerate())
        exec(code, module.__dict__)
        for thread in set(threading.enumerate()) - before:
            if not thread.daemon:
                thread.join()

    def _loaded(self) -> tuple[CodeType, ModuleType, str, str]:
        """Return code, module, first argument and first folder to search."""
        module, what = ModuleType("__main__"), self.program.what
        module.__builtins__ = builtins  # type: ignore[attr-defined]
        if self._text is not None:
            lines = self._text.splitlines(keepends=True)
            linecache.cache["<stdin>"] = (len(self._text), None, lines, "<stdin>")
            return compile(self._text, "<stdin>", "exec"), module, what, ""
        if self._is_text:
            assert self._file is not None
            module.__file__ = str(self._file)
            with io.open_code(str(self._file)) as file:
                return compile(file.read(), str(self._file), "exec"), module, what, str(self._file.parent)
        if self._file is not None:
            spec, search = PathFinder.find_spec("__main__", [str(self._file)]), str(self._file)
            missing = ValueError(f"{what} holds no __main__.py")
        else:
            search = os.getcwd()
            sys.path.insert(0, search)
            try:
                spec = _main_spec(what)
            finally:
                sys.path.remove(search)
            missing = ValueError(f"there is no module {what!r}")
        code = spec.loader.get_code(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
        if spec is None or code is None:
            raise missing
        module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
        module.__package__ = spec.parent
        return code, module, what if self._file else str(spec.origin), search


def _main_spec(name: str) -> ModuleSpec | None:
    """Return what ``python -m name`` runs: the module, or the package's ``__main__``."""
    spec = importlib.util.find_spec(name)
    return importlib.util.find_spec(f"{name}.__main__") if spec and spec.submodule_search_locations else spec


def _origin(name: str) -> str:
    """Return the folder of the package, or the file of the module, that ``name`` is of."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
    finally:
        sys.path.remove(here)
    if spec is None:
        raise ValueError(f"there is no module {name!r}")
    return str(next(iter(spec.submodule_search_locations or []), spec.origin))


@dataclass
class _Ended:
    """How a run ended, and what it left."""

    code: int = 0
    torch_ops: TorchOps | None = None
    remarks: list[str] = field(default_factory=list)


def _run(main: _Main, seconds: float | None, torch: bool = False) -> _Ended:
    """Run the program; return how it ended, whatever ended it."""
    ended, process = _Ended(), os.getpid()
    with _as_it_was(), _imports_named() as imported, _stopped_by(seconds), _exit_told():
        try:
            if torch:
                imported["torch"] = partial(_record_torch, ended)
                if "torch" in sys.modules:  # of a caller that has imported it: the program's import finds it there
                    _record_torch(ended)
            main.run()
        except SystemExit as left:
            ended.code = _exit_code(left.code)
        except _Stopped as stopped:
            ended.code = stopped.code
            ended.remarks.append(str(stopped))
        except KeyboardInterrupt as error:
            _tell(error)
            ended.code = INTERRUPTED
            ended.remarks.append("the program was interrupted: this is what ran until then")
        except BaseException as error:
            _tell(error)
            ended.code = 1
            ended.remarks.append(f"the program ended with {type(error).__name__}: this is what ran until then")
        finally:
            if os.getpid() != process:  # a copy of this process that the program made, and that came to its end
                with suppress(OSError, ValueError):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(ended.code)
    return ended


def _record_torch(ended: _Ended) -> None:
    """Record PyTorch's operations from here on, unless another profiler of it does."""
    try:
        with region("start of PyTorch's profiler"):
            ended.torch_ops = TorchOps()
    except (RuntimeError, ImportError, AttributeError) as error:
        ended.remarks.append(f"PyTorch's operations were not recorded: {' '.join(str(error).split())}")


def _tell(error: BaseException) -> None:
    """Tell an error as Python does, without the frames of who runs the program."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def _exit_code(code: Any) -> int:
    """Return what a shell is told: a text is printed and is an error."""
    if code is None or isinstance(code, int):
        return int(code or 0)
    print(code, file=sys.stderr)
    return 1


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Put back what a program changes of the process: the current folder, its arguments, where it reads and writes."""
    streams = sys.stdin, sys.stdout, sys.stderr
    argv, search, main, folder = sys.argv, sys.path, sys.modules["__main__"], os.getcwd()
    sys.path, loud = list(search), os.environ.get("KINETO_LOG_LEVEL")
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # what PyTorch's profiler says of itself
    try:
        yield
    finally:
        if loud is None:
            os.environ.pop("KINETO_LOG_LEVEL", None)
        sys.argv, sys.path, sys.modules["__main__"] = argv, search, main
        sys.stdin, sys.stdout, sys.stderr = streams
        with suppress(OSError):
            os.chdir(folder)


@contextmanager
def _exit_told() -> Iterator[None]:
    """Have ``os._exit`` of the program's own main thread end the program, and not who reports on it."""
    leave, process, thread = os._exit, os.getpid(), threading.get_ident()

    def left(code: int) -> None:
        if (os.getpid(), threading.get_ident()) != (process, thread):
            leave(code)
        raise _Stopped(code, "the program left by os._exit: this is what ran until then")

    os._exit = left  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = leave


@contextmanager
def _stopped_by(seconds: float | None) -> Iterator[None]:
    """End the program when it is terminated and, with ``seconds``, when these are over."""
    if threading.current_thread() is not threading.main_thread():
        if seconds is not None:
            raise ValueError("seconds must be None outside of the main thread, which alone can be stopped")
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise _Stopped(TERMINATED, "the program was terminated: this is what ran until then")

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise _Stopped(OUT_OF_TIME, f"the program was stopped after {seconds:g} s: this is what ran until then")

    before: dict[int, tuple[Any, Any]] = {}
    _end_forks_as_ever(before)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        before[signal.SIGTERM] = terminate, signal.signal(signal.SIGTERM, terminate)
    if seconds is not None:
        if not hasattr(signal, "setitimer"):
            raise ValueError("seconds must be None on this system, which has no timer")
        before[signal.SIGALRM] = stop, signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, where a program goes on after it
    try:
        yield
    finally:
        if seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, (_, handler) in before.items():
            signal.signal(number, handler)
        before.clear()


_handlers: dict[int, tuple[Any, Any]] | None = None


def _end_forks_as_ever(handlers: dict[int, tuple[Any, Any]]) -> None:
    """Let processes that this one forks end by signals as they would without a profiler: give back its handlers.

    A handler of Python's runs when its thread next interprets. A worker of a pool that is terminated just before it
    waits for a lock never does, and who terminated it waits for ever. Nor is one run for a signal that comes right
    after a fork, so that until then signals wait.

    ``handlers`` has the profiler's and what stood there before, of each signal while they hold.
    """
    global _handlers
    if _handlers is None and hasattr(os, "register_at_fork"):
        blocked: dict[int, Any] = {}

        def let_in() -> None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked.pop(threading.get_ident()))

        def put_back() -> None:
            for number, (ours, before) in (_handlers or {}).items():
                if signal.getsignal(number) is ours:
                    signal.signal(number, before)
            let_in()

        def wait() -> None:
            blocked[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, list(_handlers or {}))

        os.register_at_fork(before=wait, after_in_parent=let_in, after_in_child=put_back)
    _handlers = handlers


@contextmanager
def _imports_named() -> Iterator[dict[str, Any]]:
    """Give the time of imports a name: of the outermost ones, of what is not loaded yet.

    Yields what is to be done once a module of a name is loaded.
    """
    load, inside = builtins.__import__, False
    then: dict[str, Any] = {}

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
            for awaited in [one for one in then if one in sys.modules]:
                then.pop(awaited)()

    builtins.__import__ = named
    try:
        yield then
    finally:
        builtins.__import__ = load
