"""Samples of stacks: what each thread of a program ran, looked at some hundred times a second from another process.

A look neither stops the program nor waits for its interpreter, so that it comes when the clock says, whatever the
program does. The time from the middle between two looks to the middle before the next one is that of the line which
was seen.

On a machine whose cores are all busy a look comes late, and mostly when the program waits. How long each thread ran or
was ready to run the system knows exactly, so the looks at a running thread stand for that time, and those at a waiting
one for the rest: see `weighed`.
"""

from __future__ import annotations

import ctypes
import os
import random
import select
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tinytorch.perf.events.remote_stacks import Place, RemoteStacks, UnreadableError

#: Seconds between looks, roughly: they are drawn, so that nothing periodic in a program is always or never seen. A
#: program is looked at more often as it begins, because it may soon be over.
LEAST, MOST = 0.002, 0.005
#: How many looks there are of a short program.
_LOOKS = 200
#: Looking may take this part of one core's time, and so many seconds more as a program begins: with many threads or
#: deep stacks there are fewer looks.
MOST_OF_THE_TIME, _CREDIT = 0.025, 0.03
#: Looks, and searches, over which their cost is averaged: one that took long must not make the profiler blind.
_LATELY = 16
#: Seconds between two searches for processes that the program has started, and the part of the time that these take.
_SEARCH, _SEARCHING = 0.025, 0.005
#: The core that this thread runs on.
_CORE = ctypes.CDLL(None).sched_getcpu
#: Seconds by which a look may come later than it should.
_LATE = 0.001
#: Looks in a row that are weighed together, and the fewest of them; and the numbers that are kept of each.
_WINDOW, _FEWEST, _FIELDS = 100, 20, 5
#: Processes of Python's own that wait while others work.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


class Look(NamedTuple):
    """What one thread ran from ``start`` to ``end``, ns of ``time.perf_counter_ns``: which of the stacks.

    It stands for ``weight`` ns, which is as much unless looks came late: see `weighed`.
    """

    start: int
    end: int
    stack: int
    weight: int


class Track(NamedTuple):
    """One thread: its process, its name, and what it ran, in the order of time."""

    process: int
    name: str
    looks: list[Look]


class Samples(NamedTuple):
    """All looks at a process.

    Attributes:
        start, end: of the time in which it was watched, ns of ``time.perf_counter_ns``.
        stacks: places from the outermost to the innermost; an empty one where Python begins or ends.
        tracks: threads, the main one first.
        looks: how many times all threads were looked at.
        late: how many of the looks came late, or took the core of a running thread, which gives it up at a call of the
            system rather than anywhere.
        cost: ns of processor time that looking took, at all processes of the program.
        resident: time in ns and bytes of memory that the process held, at some of the looks.
    """

    start: int
    end: int
    stacks: list[tuple[Place, ...]]
    tracks: list[Track]
    looks: int
    late: int
    cost: int
    resident: list[tuple[int, int]]


class _Watched:
    """One process, and what was seen of it."""

    def __init__(self, process: int, start: int) -> None:
        self.remote = RemoteStacks(process)
        self.start, self.end = start, 0
        self.command = _command(process)
        self.moments = array("q")
        self.taken = array("q")  # number of the look, of the thread's track, of the stack; whether it ran, and how long
        self._clocks: dict[int, _ThreadClock | None] = {}
        self.interrupted: int | None = None  # the core that a running thread had to give to the last look
        self.resident = array("q")  # time, bytes
        self.tracks: dict[int, tuple[int, str]] = {}  # system's number of a thread: of its track, and its name
        self._statm = os.open(f"/proc/{process}/statm", os.O_RDONLY)

    def look(self, now: int) -> None:
        """Look at all threads."""
        number, self.interrupted = len(self.moments), None
        seen = self.remote.look(now * 1e-9)
        self.moments.append(now)
        if not any(one.thread == self.remote.process for one in seen):
            self._take(number, self.remote.process, "MainThread", -1)
        for thread, name, stack in seen:
            self._take(number, thread, name, stack)
        if number % 8 == 0:
            with suppress(OSError, IndexError):
                pages = int(os.pread(self._statm, 64, 0).split()[1])
                self.resident.extend((now, pages * os.sysconf("SC_PAGESIZE")))

    def _take(self, number: int, thread: int, name: str, stack: int) -> None:
        track, known = self.tracks.setdefault(thread, (len(self.tracks), name))
        if name and not known:
            self.tracks[thread] = track, name
        if thread not in self._clocks:
            self._clocks[thread] = _ThreadClock.of(self.remote.process, thread)
        clock = self._clocks[thread]
        ran, taken = clock.read() if clock else (-1, 0)
        if ran == 1 and clock is not None and clock.core == _CORE():
            self.interrupted = clock.core
        self.taken.extend((number, track, stack, ran, taken))

    def ran_python(self) -> bool:
        """Return whether a stack was seen."""
        return any(stack >= 0 for stack in self.taken[2::_FIELDS])

    def close(self, end: int) -> None:
        """Look no more."""
        if not self.end:
            self.end = end
            self.remote.close()
            os.close(self._statm)
            for clock in self._clocks.values():
                if clock:
                    clock.close()

    def samples(self, late: int, cost: int) -> Samples:
        """Return what was seen."""
        bounds = [self.start, *((one + other) // 2 for one, other in pairwise(self.moments)), self.end]
        stacks: list[tuple[Place, ...]] = [self.remote.places(at) for at in range(len(self.remote.stacks))]
        tracks = [Track(self.remote.process, name or f"thread {at}", []) for at, (_, name) in self.tracks.items()]
        clocks: list[list[tuple[int, int]]] = [[] for _ in tracks]
        for at in range(0, len(self.taken), _FIELDS):
            number, track, stack, ran, taken = self.taken[at : at + _FIELDS]
            start, end = bounds[number], bounds[number + 1]
            tracks[track].looks.append(Look(start, end, stack if stack >= 0 else len(stacks), end - start))
            clocks[track].append((ran, taken))
        for one, clock in zip(tracks, clocks, strict=True):
            one.looks[:] = weighed(one.looks, clock)
        main = [number for number, thread in enumerate(self.tracks) if thread == self.remote.process]
        ordered = [tracks[at] for at in main] + [one for at, one in enumerate(tracks) if at not in main]
        held = list(zip(self.resident[::2], self.resident[1::2], strict=True))
        return Samples(self.start, self.end, [*stacks, ()], ordered, len(self.moments), late, cost, held)


class _ThreadClock:
    """How long a thread ran or was ready to run, as the scheduler of Linux counts it, and whether it does now."""

    def __init__(self, schedule: int, state: int) -> None:
        self._schedule, self._state, self.core = schedule, state, -1

    @classmethod
    def of(cls, process: int, thread: int) -> _ThreadClock | None:
        """Return the clock of a thread; None if the system keeps none or the thread is over."""
        opened: list[int] = []
        try:
            for name in ("schedstat", "stat"):
                opened.append(os.open(f"/proc/{process}/task/{thread}/{name}", os.O_RDONLY))
        except OSError:
            for one in opened:
                os.close(one)
            return None
        return cls(*opened)

    def read(self) -> tuple[int, int]:
        """Return 1 if the thread runs or is ready to, else 0, and the ns that it did; -1 and 0 of one that is over.

        Sets ``core``, on which it ran last.
        """
        try:
            ran, ready, _ = os.pread(self._schedule, 64, 0).split()
            # The name of the thread, in brackets, may hold anything, brackets too.
            state, *fields = os.pread(self._state, 1024, 0).rpartition(b")")[2].split()
            self.core = int(fields[35])  # field 39 of proc(5); the state is field 3
        except (OSError, ValueError, IndexError):
            return -1, 0
        return int(state == b"R"), int(ran) + int(ready)

    def close(self) -> None:
        """Close both files."""
        os.close(self._schedule)
        os.close(self._state)


def weighed(looks: list[Look], clocks: list[tuple[int, int]]) -> list[Look]:
    """Return the looks at one thread with weights by which it ran for as long as the system says.

    Args:
        looks: in their order.
        clocks: at each look, 1 if the thread ran or was ready to, 0 if it waited, -1 if that is not known; and the ns
            for which it had run or been ready.
    """
    made: list[Look] = []
    for first in range(0, len(looks), _WINDOW):
        window, known = looks[first : first + _WINDOW], clocks[first : first + _WINDOW]
        whole = sum(look.end - look.start for look in window)
        seen = sum(look.end - look.start for look, (ran, _) in zip(window, known, strict=True) if ran == 1)
        elapsed = window[-1].start - window[0].start
        if len(window) < _FEWEST or any(ran < 0 for ran, _ in known) or not 0 < seen < whole or elapsed <= 0:
            made += window
            continue
        share = min(max((known[-1][1] - known[0][1]) / elapsed, 0.0), 1.0)
        factors = (1 - share) * whole / (whole - seen), share * whole / seen
        made += [
            look._replace(weight=round((look.end - look.start) * factors[ran]))
            for look, (ran, _) in zip(window, known, strict=True)
        ]
    return made


def _command(process: int) -> str:
    """Return the command line of a process; "" if it is over."""
    with suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        return os.fsdecode(b" ".join(words).strip())
    return ""


def _children(process: int) -> list[int]:
    """Return the processes that a process has started and that are not over."""
    children: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with suppress(OSError):
                children += map(int, Path(f"/proc/{process}/task/{thread}/children").read_bytes().split())
    return children


class Watch:
    """Looks at a process and at those that it starts, until it ends.

    Raises:
        UnreadableError: if the system does not let this process read it.
    """

    def __init__(self, process: int) -> None:
        self.process = process
        self.start = time.perf_counter_ns()
        self._watched: dict[int, _Watched] = {process: _Watched(process, self.start)}
        self._unseen: dict[int, str] = {}
        self._cost = self._late = 0
        self._next_search = self.start
        self._chance = random.Random(0)
        self._cores = os.sched_getaffinity(0)
        self._ends = os.pidfd_open(process)

    def until_it_ends(self, each_look: Callable[[], bool] = lambda: True) -> None:
        """Look until the process is over, or until ``each_look``, which is called in between, says no."""
        wait, usual, usual_search = LEAST, 0.0, 0.0
        while True:
            drawn, asked = wait * self._chance.uniform(0.5, 1.5), time.perf_counter_ns()
            if select.select([self._ends], [], [], drawn)[0]:
                break
            before, now = time.thread_time_ns(), time.perf_counter_ns()
            late = now - asked > 1e9 * (drawn + _LATE)
            for one in self._watched.values():
                if not one.end:
                    one.look(now)
                    if one.interrupted is not None:
                        late = True
                        self._leave(one.interrupted)
            self._late += late
            if now > self._next_search:
                searching = time.thread_time_ns()
                self._search(now)
                usual_search += ((time.thread_time_ns() - searching) * 1e-9 - usual_search) / _LATELY
                self._next_search = now + int(1e9 * max(_SEARCH, usual_search / _SEARCHING))
            going = each_look()
            spent = time.thread_time_ns() - before
            self._cost += spent
            usual += (spent * 1e-9 - usual) / _LATELY
            seconds = (now - self.start) * 1e-9
            often = min(max(seconds / _LOOKS, LEAST), MOST)
            spare = _CREDIT + MOST_OF_THE_TIME * seconds - self._cost * 1e-9
            wait = often if spare > 0 else max(often, usual / MOST_OF_THE_TIME)
            if not going:
                break
        end = time.perf_counter_ns()
        os.sched_setaffinity(0, self._cores)
        os.close(self._ends)
        for one in self._watched.values():
            one.close(end)

    def _leave(self, core: int) -> None:
        """Look from another core from now on, if there is one: there looking interrupts some other program."""
        if others := self._cores - {core}:
            os.sched_setaffinity(0, others)

    def _search(self, now: int) -> None:
        """Look for processes that were started, and for those that are over."""
        alive = {self.process}
        waiting = [self.process]
        while waiting:
            for child in _children(waiting.pop()):
                alive.add(child)
                waiting.append(child)
        for child in alive - self._watched.keys():
            try:
                self._watched[child] = _Watched(child, now)
                self._unseen.pop(child, None)
            except (UnreadableError, OSError):  # for a moment also while it begins another program
                self._unseen[child] = _command(child)
        for process in self._watched.keys() - alive:
            self._watched[process].close(now)

    def samples(self) -> list[Samples]:
        """Return what was seen of each process that ran Python, the first one first."""
        found = []
        for process, one in self._watched.items():
            if process == self.process or (one.ran_python() and not _is_helper(one.command)):
                found.append(one.samples(self._late, self._cost))
        return found

    def remarks(self) -> list[str]:
        """Return what a reader has to know about processes that the program started, a sentence each."""
        others = {process: one for process, one in self._watched.items() if process != self.process}
        followed = [process for process, one in others.items() if one.ran_python() and not _is_helper(one.command)]
        unseen = [*self._unseen.values(), *(one.command for one in others.values() if not one.ran_python())]
        said = []
        if followed:
            said.append(f"processes that the program started are included: {', '.join(map(str, followed))}")
        if unseen := [one for one in unseen if one and not _is_helper(one)]:
            names = ", ".join(dict.fromkeys(_short(one) for one in unseen))
            said.append(f"what these processes did was not seen: {names}")
        return said


def _is_helper(command: str) -> bool:
    return any(helper in command for helper in _HELPERS)


def _short(command: str) -> str:
    words = " ".join(command.split())
    return words if len(words) <= 60 else f"{words[:59]}…"


def told(samples: Samples) -> Iterator[tuple[Track, Look, tuple[Place, ...]]]:
    """Yield each look with its thread and its stack."""
    for track in samples.tracks:
        for look in track.looks:
            yield track, look, samples.stacks[look.stack]
