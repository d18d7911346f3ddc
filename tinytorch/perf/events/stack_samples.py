"""Samples of stacks: what each thread of a process ran, looked at some hundred times a second by a thread of its own.

A look finds, through ``sys._current_frames``, which line of which function each thread runs. The time since the look
before it is that line's. A call into compiled code that keeps the interpreter's lock delays the look until it returns,
with the line still the same, so that its time goes to the line that called it. Of calls shorter than a microsecond a
part of the interpreter's time before them is taken for theirs.

This file imports nothing of the package: processes that a program starts load it by its path.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from itertools import islice
from types import CodeType
from typing import Any, NamedTuple

#: Seconds between looks, roughly: they are drawn, so that nothing periodic in a program is always or never seen. A
#: program is looked at more often as it begins, because it may soon be over.
LEAST, MOST = 0.001, 0.01
#: How many looks there are of a short program.
_LOOKS = 200
#: Looking may take this part of the time: with many threads or deep stacks there are fewer looks.
MOST_OF_THE_TIME = 0.02
#: Frames of a stack that are looked at, from the innermost one on.
DEEPEST = 2000
#: What names of threads begin with that are none of the program's.
OURS = "tinytorch: "


class Place(NamedTuple):
    """Where a thread was: a file, a function, the line that it begins at, and the line and instruction that ran.

    ``columns`` are line, last line, column and last column of the instruction, as ``CodeType.co_positions`` has them;
    ``compiled`` says that the instruction was in compiled code, which only the innermost place can be.
    """

    file: str
    function: str
    first: int
    line: int
    columns: tuple[int | None, ...]
    compiled: bool


class Look(NamedTuple):
    """What one thread ran from ``start`` to ``end``, ns of ``time.perf_counter_ns``: which of the stacks."""

    start: int
    end: int
    stack: int


class Track(NamedTuple):
    """One thread: its process, its name, and what it ran, in the order of time."""

    process: int
    name: str
    looks: list[Look]


class Samples(NamedTuple):
    """All looks of a run.

    Attributes:
        start, end: of the run, ns of ``time.perf_counter_ns``.
        stacks: places from the outermost to the innermost; of a thread outside of what is profiled an empty one.
        tracks: threads, the one that is profiled first.
        looks: how often all threads were looked at.
        cost: ns of processor time that looking took.
        resident: time in ns and bytes of memory that the process held, at each look; empty where nobody says.
        process: how the process was started, or what it calls itself; "" of the one that is profiled.
    """

    start: int
    end: int
    stacks: list[tuple[Place, ...]]
    tracks: list[Track]
    looks: int
    cost: int
    resident: list[tuple[int, int]]
    process: str = ""


class StackSampler:
    """Looks at the stacks of the threads that are started after it, and of the one that makes it, until `stop`.

    Args:
        below: code whose caller is no part of what is looked at: frames above a call of it are left out.
    """

    def __init__(self, below: CodeType | None = None) -> None:
        self._below = below
        self._main = threading.get_ident()
        self._older = set(sys._current_frames()) - {self._main}
        self._codes: dict[int, CodeType] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._threads: dict[tuple[int, str], int] = {}
        self._taken = array("q")  # time of the look before, of this one, thread, stack
        self._resident = array("q")  # time, bytes
        self._looks = self._cost = 0
        self._ended = False
        self._statm = _statm()
        self._chance = random.Random(0)  # whose state no program sees
        self.start = self._last = time.perf_counter_ns()
        self._thread = threading.Thread(target=self._run, name=f"{OURS}looks", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        wait, before = LEAST, time.thread_time_ns()
        while True:
            time.sleep(wait * self._chance.uniform(0.5, 1.5))  # at half the cost of waiting for an event
            if self._ended:
                break
            self._look(time.perf_counter_ns())
            now = time.thread_time_ns()
            often = min(max((self._last - self.start) * 1e-9 / _LOOKS, LEAST), MOST)
            self._cost += now - before
            wait = max(often, self._cost * 1e-9 / self._looks / MOST_OF_THE_TIME)
            self.looked()
            before = time.thread_time_ns()

    def looked(self) -> None:
        """Do what there is to be done after a look; here nothing."""

    def _look(self, now: int) -> None:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        here = self._thread.ident
        for ident, frame in sys._current_frames().items():
            called = names.get(ident) or f"thread {ident}"
            if ident == here or ident in self._older or called.startswith(OURS):
                continue
            stack: list[int] = []
            at: Any = frame
            while at is not None and at.f_code is not self._below and len(stack) < 2 * DEEPEST:
                code = at.f_code
                self._codes.setdefault(id(code), code)
                stack += (id(code), at.f_lasti)
                at = at.f_back
            if ident == self._main and at is None and self._below is not None:
                stack = []
            number = self._stacks.setdefault(tuple(stack), len(self._stacks))
            thread = self._threads.setdefault((ident, called), len(self._threads))
            self._taken.extend((self._last, now, thread, number))
        del frame, at
        if self._statm is not None:
            pages = int(os.pread(self._statm, 64, 0).split()[1])
            self._resident.extend((now, pages * os.sysconf("SC_PAGESIZE")))
        self._last, self._looks = now, self._looks + 1

    def stop(self) -> Samples:
        """Look no more, and return what was seen."""
        self._ended = True
        self._thread.join()
        found = self.seen(time.perf_counter_ns())
        if self._statm is not None:
            os.close(self._statm)
        return found

    def seen(self, end: int) -> Samples:
        """Return what was seen until now; the time after the last look is that of the stack that it saw."""
        taken = self._taken[:]  # first: what it names is then in the others, too
        threads, stacks = list(self._threads), [self._places(stack) for stack in list(self._stacks)]
        tracks = [Track(os.getpid(), name, []) for _, name in threads]
        for at in range(0, len(taken) - 3, 4):
            first, last, thread, stack = taken[at : at + 4]
            tracks[thread].looks.append(Look(first, last, stack))
        for track in tracks:
            if track.looks and track.looks[-1].end == self._last:
                track.looks[-1] = track.looks[-1]._replace(end=end)
        main = [number for number, (ident, _) in enumerate(threads) if ident == self._main]
        tracks = [tracks[number] for number in main] + [
            track for number, track in enumerate(tracks) if number not in main
        ]
        resident = self._resident[:]
        held = list(zip(resident[::2], resident[1::2], strict=False))
        return Samples(self.start, end, stacks, tracks, self._looks, self._cost, held)

    def _places(self, stack: tuple[int, ...]) -> tuple[Place, ...]:
        pairs = list(zip(stack[::2], stack[1::2], strict=True))
        inner = [_place(self._codes[code], at, number == 0) for number, (code, at) in enumerate(pairs)]
        hidden = self._below and self._below.co_filename  # who runs the program may stand between its frames, too
        return tuple(place for place in reversed(inner) if place.file != hidden)


def _place(code: CodeType, instruction: int, innermost: bool) -> Place:
    columns = next(islice(code.co_positions(), max(instruction, 0) // 2, None), (None, None, None, None))
    line = columns[0] or code.co_firstlineno
    compiled = innermost and instruction >= 0 and not _is_python(code.co_code[instruction])
    return Place(code.co_filename, code.co_qualname, code.co_firstlineno, line, columns, compiled)


def _is_python(instruction: int) -> bool:
    """Return whether a thread that gave up the lock at this instruction was interpreting.

    The interpreter gives it up at the beginning of a function, at a jump back, and after a call of compiled code; at
    any other instruction it is compiled code that gave it up.
    """
    from opcode import opname

    return opname[instruction] == "RESUME" or "JUMP" in opname[instruction]


def _statm() -> int | None:
    with contextlib.suppress(OSError):
        return os.open("/proc/self/statm", os.O_RDONLY)
    return None


def told(samples: Samples) -> Iterator[tuple[Track, Look, tuple[Place, ...]]]:
    """Yield each look with its thread and its stack."""
    for track in samples.tracks:
        for look in track.looks:
            yield track, look, samples.stacks[look.stack]


#: Name of the environment's variable that says where processes that a program starts leave what they ran.
FOLLOW = "TINYTORCH_FOLLOW"


class _Follower(StackSampler):
    """Sampler of a process that the program started: what it saw lies in a file, whatever ends the process."""

    def __init__(self, folder: str, below: CodeType | None, name: str) -> None:
        self._name = name
        self._path = os.path.join(folder, f"{os.getpid()}.json")
        self._next = 0
        super().__init__(below)

    def looked(self) -> None:
        """Write now and then, ever more seldom: a process that is killed, as a pool's are, loses a twentieth."""
        if self._looks >= self._next:
            self._next = self._looks + self._looks // 20 + 5
            self.write()

    def write(self) -> None:
        """Write what was seen until now; where that fails, the process is one that is not seen."""
        with contextlib.suppress(OSError):
            found = self.seen(time.perf_counter_ns())._replace(process=_own_name() or self._name)
            new = f"{self._path}.{threading.get_ident()}"
            with open(new, "w", encoding="utf-8") as file:
                json.dump(found, file)
            os.replace(new, self._path)


_below: CodeType | None = None
_hooked = False


def follow_forks(below: CodeType | None = None) -> None:
    """Let processes that this one forks leave what they run in the folder that `FOLLOW` names, while it names one."""
    global _hooked, _below
    _below = below
    if not _hooked and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_follow_fork)
    _hooked = True


def _follow_fork() -> None:
    folder = os.environ.get(FOLLOW)
    if not folder:
        return
    follower, leave = _Follower(folder, _below, "a fork of the program"), os._exit

    def left(code: int) -> None:
        follower.write()
        leave(code)

    os._exit = left  # type: ignore[assignment]  # by which every process ends that multiprocessing forks


def follow_this_process() -> None:
    """Leave what this process runs in the folder that `FOLLOW` names: what a started process begins with."""
    import atexit

    folder = os.environ.get(FOLLOW)
    if folder and os.path.isdir(folder):
        follow_forks()
        atexit.register(_Follower(folder, None, " ".join(sys.orig_argv)).write)


def _own_name() -> str:
    """Return what multiprocessing calls this process; "" if it did not start it."""
    known: Any = sys.modules.get("multiprocessing.process")
    try:
        name = known.current_process().name
    except (AttributeError, NameError):  # it is not loaded, or not yet wholly
        return ""
    return "" if name == "MainProcess" else str(name)


def read_samples(path: str) -> Samples:
    """Return what a process that was followed has written.

    Raises:
        ValueError: if the file holds something else.
        OSError: if it cannot be read.
    """
    with open(path, encoding="utf-8") as file:
        given: Any = json.load(file)
    try:
        start, end, stacks, tracks, looks, cost, resident, process = given
        return Samples(
            start,
            end,
            [tuple(Place(*place)._replace(columns=tuple(place[4])) for place in stack) for stack in stacks],
            [Track(number, name, [Look(*look) for look in each]) for number, name, each in tracks],
            looks,
            cost,
            [(when, held) for when, held in resident],
            process,
        )
    except TypeError as error:
        raise ValueError(f"{path} holds no samples: {error}") from None
