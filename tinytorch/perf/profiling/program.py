"""A whole program under the profiler: run in a process of its own, as Python runs it, and looked at from outside."""

from __future__ import annotations

import importlib.util
import linecache
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Self

from tinytorch.perf.events.remote_stacks import RemoteStacks, UnreadableError, layout
from tinytorch.perf.events.stack_samples import Watch
from tinytorch.perf.events.trace import NOT_NAMED, stack_text
from tinytorch.perf.profiling.inside import STDIN, Inside, inside_command, read_inside
from tinytorch.perf.profiling.lines import Lines, at, library_of
from tinytorch.perf.profiling.repeated import RunTimes

Json = dict[str, Any]
#: The JSON of a program's profile; its version rises whenever a reader of it would have to change.
SCHEMA_NAME, SCHEMA_VERSION = "tinytorch-program-profile", 3
#: Exit code of a program that ran out of time, as `timeout` has it.
OUT_OF_TIME = 124
#: Part of the looks that come late beyond which a reader is told.
_MANY_LATE = 0.02


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
    def line(self) -> list[str]:
        """What stands behind ``python``."""
        return [*(["-m"] if self.module else []), self.what, *self.arguments]

    def own(self) -> tuple[str, ...]:
        """Return files and folders that are the program's even where libraries lie.

        Raises:
            ValueError: if there is nothing to run under that name.
        """
        if self.module:
            return (_origin(self.what),)
        if self.what == STDIN:
            return ("<stdin>",)
        path = Path(self.what)
        if path.is_file() or (path / "__main__.py").is_file():
            return str(path.absolute()), str(path.resolve())
        what = "a folder without a __main__.py" if path.is_dir() else "no file"
        raise ValueError(f"{self.what} is {what}")


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


@dataclass(frozen=True)
class ProgramProfile:
    """What a program did.

    Attributes:
        program: what ran.
        exit_code: how it ended, as a shell sees it: 128 and the number of the signal that ended it.
        wall_seconds: from its start to its end, Python's own start and end included.
        lines: its lines, functions and calls into libraries, by samples, of all of its processes that were followed;
            None where the system lets nobody look at them.
        inside: what runs from inside have recorded; None if there were none.
        remarks: what a reader of the report has to know, a sentence each.
    """

    program: Program
    exit_code: int
    wall_seconds: float
    lines: Lines | None
    inside: Inside | None = None
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The program and its arguments, as they were typed."""
        return " ".join(self.program.line)

    @property
    def notes(self) -> list[str]:
        """What a reader of the tables has to know."""
        said = []
        if self.lines is not None:
            said = [
                f"{self.wall_seconds:.3f} s in all, of which Python took {self.lines.start_seconds:.3f} s to start; "
                f"looked at {self.lines.looks} times from another process, which took {self.lines.cost:.1%} of one "
                "core; shares are of the time without the start, and those of one thread sum to the part of it in "
                "which it lived",
                "own: the line's Python; compiled: compiled code and operators of types, such as a @ b, that it "
                "called, or waiting in them; libraries: Python of libraries that it called, with what that called",
            ]
        return [*said, *self.remarks]

    def times(self) -> RunTimes:
        """Return the time of the whole, of functions by themselves and with what they called, and of stacks."""
        assert self.lines is not None
        functions = [row for row in self.lines.functions if row["file"]]
        named = [(f"{row['function']} {at(row['file'], row['line'])}", row) for row in functions]
        own = {name: row["seconds"] for name, row in named if row["seconds"]}
        seconds = self.wall_seconds - self.lines.start_seconds
        with_callees = {name: row["with_callees"] * seconds for name, row in named}
        tree = self.lines.tree()
        stacks = {stack_text(names): frame.self_ns * 1e-9 for names, frame in tree.stacks() if frame.self_ns}
        return RunTimes(self.wall_seconds, own, with_callees, {NOT_NAMED: tree.self_ns * 1e-9, **stacks})

    def trace_events(self) -> Iterator[Json]:
        """Yield events of Chrome's trace format: lines of threads, memory, and PyTorch's operations."""
        if self.lines is not None:
            yield from self.lines.trace_events()
        if self.inside is not None:
            yield from self.inside.torch_events()

    def to_json(self) -> Json:
        """Return everything as one JSON object of `SCHEMA_NAME`, version `SCHEMA_VERSION`; times in seconds."""
        lines, inside = self.lines, self.inside
        first = lines.samples[0] if lines else None
        return {
            "schema": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            "script": self.program.what,
            "arguments": list(self.program.arguments),
            "exit_code": self.exit_code,
            "wall_seconds": self.wall_seconds,
            "start_seconds": lines.start_seconds if lines else None,
            "looks": lines.looks if lines else 0,
            "late_looks": first.late if first else 0,
            "looking_share": lines.cost if lines else None,
            "lines": lines.lines if lines else [],
            "functions": lines.functions if lines else [],
            "library_calls": lines.calls if lines else [],
            "threads": lines.threads if lines else [],
            "resident_bytes": [[(when - first.start) * 1e-9, held] for when, held in first.resident] if first else [],
            "inside": None if inside is None else inside.to_json(),
            "remarks": list(self.remarks),
        }


def why_unreadable() -> str | None:
    """Return why programs cannot be looked at from outside; None if they can."""
    try:
        layout()
        with subprocess.Popen([sys.executable, "-ISc", "input()"], stdin=subprocess.PIPE) as probe:
            try:
                RemoteStacks(probe.pid).close()
            finally:
                probe.kill()
    except UnreadableError as error:
        return str(error)
    return None


def profile_program(
    script: str,
    arguments: Sequence[str] = (),
    *,
    module: bool = False,
    seconds: float | None = None,
    ops: bool = False,
    memory: bool = False,
    quiet: bool = False,
) -> ProgramProfile:
    """Run ``script`` as ``python script arguments`` does, and return where its time went.

    The program runs in a process of its own, with this one's input, output, folder and environment. However it ends,
    what ran until then is reported.

    Args:
        script: path of a file of Python, or of a folder or archive with a ``__main__.py``; "-" for standard input.
        arguments: of the program.
        module: whether ``script`` is the name of a module, as ``python -m`` takes it.
        seconds: after which it is stopped, first as Ctrl-C does; None lets it run to its end.
        ops: whether to run it once more, with its operations recorded from inside; its effects then happen again.
        memory: whether to run it once more, with the memory of its arrays recorded from inside.
        quiet: whether what it writes to its standard output is dropped.

    Raises:
        ValueError: if there is nothing to run under that name, or ``seconds`` is not above 0.
    """
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds must be above 0, not {seconds}")
    program = Program(script, tuple(arguments), module)
    own, refused = program.own(), why_unreadable()
    with _standard_input(program) as given:
        if refused is not None:
            return _counted(program, given, seconds, refused)
        with _Run([sys.executable, *program.line], given, seconds, quiet) as run:
            watch = Watch(run.process.pid)
            watch.until_it_ends(run.each_look)
            code, ended = run.code(), run.ended()
        lines = Lines(watch.samples(), own)
        remarks = [*ended, *_late(lines), *watch.remarks()]
        inside = None
        if (ops or memory) and not run.stopped:
            places = (place for one in lines.samples for stack in one.stacks for place in stack)
            torch = any(library_of(place.file, own) == "torch" for place in places)
            timed = ["ops", "torch"] if torch else ["ops"]
            for kinds in [*([timed] if ops else []), *([["memory"]] if memory else [])]:
                made, _ = _recorded(program, kinds, given, None)
                inside = made if inside is None else inside.joined(made)
    return ProgramProfile(program, code, lines.wall_seconds, lines, inside, tuple(remarks))


def profile_process(process: int, seconds: float | None = None) -> ProgramProfile:
    """Look at a program that runs already, until it ends, until Ctrl-C, or for ``seconds``; it is left as it is.

    Raises:
        ValueError: if there is none of that number, or this process may not look at it.
    """
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[1:-1]
        watch = Watch(process)
    except FileNotFoundError:
        raise ValueError(f"there is no process {process}") from None
    except UnreadableError as error:
        raise ValueError(
            f"{error}: run the command as root, or allow it by `sysctl kernel.yama.ptrace_scope=0`"
        ) from None
    until = None if seconds is None else time.monotonic() + seconds
    interrupted = False

    def going() -> bool:
        return not interrupted and (until is None or time.monotonic() < until)

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        del number, frame
        interrupted = True

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        watch.until_it_ends(going)
    finally:
        signal.signal(signal.SIGINT, before)
    lines = Lines(watch.samples())
    if not any(stack for stack in lines.samples[0].stacks):
        raise ValueError(
            f"process {process} ran no Python that could be read: it must run the same one, {layout().library}"
        )
    name = Program(" ".join(os.fsdecode(word) for word in words) or str(process))
    return ProgramProfile(name, 0, lines.wall_seconds, lines, None, (*_late(lines), *watch.remarks()))


def _late(lines: Lines) -> list[str]:
    late = lines.samples[0].late
    if late <= _MANY_LATE * lines.looks:
        return []
    return [
        f"all cores were busy at {late} of {lines.looks} looks, which then come where the program waits or calls the "
        "system: shares may be off"
    ]


def _counted(program: Program, given: IO[bytes] | None, seconds: float | None, refused: str) -> ProgramProfile:
    """Run a program that nobody may look at, and count its calls from inside."""
    inside, run = _recorded(program, ["calls"], given, seconds)
    remark = f"{refused}, so that only calls of functions are counted, from inside"
    remarks = (remark, *run.ended(), *inside.remarks)
    return ProgramProfile(program, run.code(), run.wall_seconds, None, inside, remarks)


def _recorded(
    program: Program, kinds: Sequence[str], given: IO[bytes] | None, seconds: float | None
) -> tuple[Inside, _Run]:
    """Run a program with what ``kinds`` name recorded from inside; return that and the run, which is over."""
    if given is not None:
        given.seek(0)
    with inside_command(program.line, kinds) as (command, target), _Run(command, given, seconds) as run:
        run.wait()
        return read_inside(target), run


@contextmanager
def _standard_input(program: Program) -> Iterator[IO[bytes] | None]:
    """Yield what a program reads as standard input: this process's (None), or of a program from there its text."""
    if program.what != STDIN or program.module:
        yield None
        return
    stream = getattr(sys.stdin, "buffer", None)
    data = stream.read() if stream is not None else sys.stdin.read().encode()
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    linecache.cache["<stdin>"] = (len(data), None, lines, "<stdin>")
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


#: Signals that are handed on to the program: what is sent to the profiler is meant for it.
_HANDED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
#: Seconds after which a signal is handed on, for a program that was sent it itself, as whole groups of processes are.
_GRACE = 0.5
#: How a program is stopped whose time is over, and seconds between these.
_STOPS, _PATIENCE = ("SIGINT", "SIGTERM", "SIGKILL"), 2.0


class _Run:
    """A program that runs as a child of this process, with its input and output; signals are handed on to it."""

    def __init__(
        self, command: Sequence[str], given: IO[bytes] | None, seconds: float | None, quiet: bool = False
    ) -> None:
        self._command, self._given, self._seconds = command, given, seconds
        self._output = subprocess.DEVNULL if quiet else None
        self._before: dict[int, Any] = {}
        self._due: list[tuple[float, int]] = []
        self._stops = list(_STOPS)
        self.stopped = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (getattr(signal, name) for name in _HANDED_ON if hasattr(signal, name)):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._note)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        # Descriptors that this process was to hand on reach the program; its own are not among them.
        self.process = subprocess.Popen(self._command, stdin=self._given, stdout=self._output, close_fds=False)
        self._until = None if self._seconds is None else time.monotonic() + self._seconds
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:  # an error of ours
            self.process.kill()
            self.process.wait()
        for number, before in self._before.items():
            signal.signal(number, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._due.append((time.monotonic() + _GRACE, number))

    def each_look(self) -> bool:
        """Hand on what is due, and stop the program if its time is over; return True."""
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, number = self._due.pop(0)
            if number not in (signal.SIGINT, getattr(signal, "SIGQUIT", None)) or not _has_keyboard():
                self.process.send_signal(number)
        if self._until is not None and now >= self._until and self._stops:
            self.process.send_signal(getattr(signal, self._stops.pop(0)))
            self._until, self.stopped = now + _PATIENCE, True
        return True

    def wait(self) -> None:
        """Wait until the program is over; ``wall_seconds`` is how long that took."""
        begun = time.perf_counter()
        while self.process.poll() is None:
            self.each_look()
            time.sleep(0.01)
        self.wall_seconds = time.perf_counter() - begun

    def code(self) -> int:
        """Return the exit code as a shell sees it, once the program is over."""
        code = self.process.wait()
        return OUT_OF_TIME if self.stopped else code if code >= 0 else 128 - code

    def ended(self) -> list[str]:
        """Return how the program ended, if not well, in a sentence."""
        code = self.process.wait()
        if self.stopped:
            return [f"the program was stopped after {self._seconds:g} s: this is what ran until then"]
        if code < 0:
            return [f"the program was ended by {signal.Signals(-code).name}: this is what ran until then"]
        return [f"the program ended with exit code {code}: this is what ran until then"] if code else []


def _has_keyboard() -> bool:
    """Return whether keys of a terminal send their signals to this group of processes, and so to the program too."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
