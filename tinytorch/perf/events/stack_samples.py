"""Samples of stacks: what each thread of a program ran, looked at some hundred times a second from another process.

A look neither stops the program nor waits for its interpreter, so that it comes when the clock says, whatever the
program does. The time from the middle between two looks to the middle before the next one is that of the line which
was seen.
"""

from __future__ import annotations

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
#: Looks over which their cost is averaged.
_LATELY = 16
#: Seconds between two searches for processes that the program has started, and the part of the time that these take.
_SEARCH, _SEARCHING = 0.025, 0.005
#: Seconds by which a look may come later than it should.
_LATE = 0.005
#: Processes of Python's own that wait while others work.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


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
    """All looks at a process.

    Attributes:
        start, end: of the time in which it was watched, ns of ``time.perf_counter_ns``.
        stacks: places from the outermost to the innermost; an empty one where Python begins or ends.
        tracks: threads, the main one first.
        looks: how many times all threads were looked at.
        late: how many of the looks came late.
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
        self.taken = array("q")  # number of the look, of the thread's track, and of the stack
        self.resident = array("q")  # time, bytes
        self.tracks: dict[int, tuple[int, str]] = {}  # system's number of a thread: of its track, and its name
        self._statm = os.open(f"/proc/{process}/statm", os.O_RDONLY)

    def look(self, now: int) -> None:
        """Look at all threads."""
        number = len(self.moments)
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
        self.taken.extend((number, track, stack))

    def ran_python(self) -> bool:
        """Return whether a stack was seen."""
        return any(stack >= 0 for stack in self.taken[2::3])

    def close(self, end: int) -> None:
        """Look no more."""
        if not self.end:
            self.end = end
            self.remote.close()
            os.close(self._statm)

    def samples(self, late: int, cost: int) -> Samples:
        """Return what was seen."""
        bounds = [self.start, *((one + other) // 2 for one, other in pairwise(self.moments)), self.end]
        stacks: list[tuple[Place, ...]] = [self.remote.places(at) for at in range(len(self.remote.stacks))]
        tracks = [Track(self.remote.process, name or f"thread {at}", []) for at, (_, name) in self.tracks.items()]
        for at in range(0, len(self.taken), 3):
            number, track, stack = self.taken[at : at + 3]
            tracks[track].looks.append(Look(bounds[number], bounds[number + 1], stack if stack >= 0 else len(stacks)))
        main = [number for number, thread in enumerate(self.tracks) if thread == self.remote.process]
        ordered = [tracks[at] for at in main] + [one for at, one in enumerate(tracks) if at not in main]
        held = list(zip(self.resident[::2], self.resident[1::2], strict=True))
        return Samples(self.start, self.end, [*stacks, ()], ordered, len(self.moments), late, cost, held)


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
        self._ends = os.pidfd_open(process)

    def until_it_ends(self, each_look: Callable[[], bool] = lambda: True) -> None:
        """Look until the process is over, or until ``each_look``, which is called in between, says no."""
        wait, usual = LEAST, 0.0
        last = time.perf_counter_ns()
        while not select.select([self._ends], [], [], wait * self._chance.uniform(0.5, 1.5))[0]:
            before, now = time.thread_time_ns(), time.perf_counter_ns()
            self._late += now - last > 1e9 * (1.5 * wait + _LATE)
            for one in self._watched.values():
                if not one.end:
                    one.look(now)
            if now > self._next_search:
                searching = time.thread_time_ns()
                self._search(now)
                rest = (time.thread_time_ns() - searching) / _SEARCHING
                self._next_search = now + max(int(1e9 * _SEARCH), int(rest))
            going, last = each_look(), now
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
        os.close(self._ends)
        for one in self._watched.values():
            one.close(end)

    def _search(self, now: int) -> None:
        """Look for processes that were started, and for those that are over."""
        alive = {self.process}
        waiting = [self.process]
        while waiting:
            for child in _children(waiting.pop()):
                alive.add(child)
                waiting.append(child)
        for child in alive - self._watched.keys() - self._unseen.keys():
            try:
                self._watched[child] = _Watched(child, now)
            except (UnreadableError, OSError):
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
