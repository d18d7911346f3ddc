"""Threads for kernels: a few of Python's own, kept waiting in compiled code, that share a kernel's items."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from typing import Any

import numpy as np
from numba import types

from tinytorch.perf.host.blas import ThreadSwitch
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.kernels.runtime.compiling import kernel

#: Whether this system has what `wait_until` calls.
POSSIBLE = hasattr(os, "sched_yield") and hasattr(time, "CLOCK_MONOTONIC")
_CLOCK = np.int32(getattr(time, "CLOCK_MONOTONIC", 0))
#: ``give_way()``: let others have the core until it is this thread's turn again; only where `POSSIBLE`.
give_way = types.ExternalFunction("sched_yield", types.int32())
_read_clock = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))


@kernel
def wait_until(signals: Any, place: Any, value: Any, ns: Any) -> Any:
    """Return whether ``signals[place]`` became ``value`` within about ``ns`` nanoseconds.

    Between two looks others may have the core; if they keep it for longer than ``ns``, this gives up.
    """
    clock = np.empty(2, np.int64)
    _read_clock(_CLOCK, clock.ctypes.data)
    end = clock[0] * 1_000_000_000 + clock[1] + ns
    while signals[place] != value:
        give_way()
        _read_clock(_CLOCK, clock.ctypes.data)
        if clock[0] * 1_000_000_000 + clock[1] > end:
            return signals[place] == value
    return True


#: Items are worth a second thread from about this many nanoseconds of work for each thread: a split takes some 6,000
#: while the threads look for work, and 30,000 when they sleep.
WORTH_A_THREAD_NS = 25_000
#: Where a worker's signals say how many tasks were posted and done, on cache lines of their own.
_POSTED, _DONE = 0, 8
#: How long a thread looks for a signal before it sleeps: longer than what Python does between two ops.
_LOOK_NS = 200_000


@cache
def _switch() -> ThreadSwitch:
    """Return what knows the limit; to make it takes long."""
    return ThreadSwitch()


def limit() -> int:
    """Return how many threads a kernel may use: as many as BLAS may now, and no more than there are cores.

    Where BLAS cannot be asked, as many as it was last told to use.
    """
    allowed = _switch().limit()
    return min(allowed, len(usable_cores())) if allowed > 1 else 1


def shares(items: int, ns: float) -> int:
    """Return how many shares to make of ``items`` that take ``ns`` nanoseconds together: 1 if no thread is worth it."""
    useful = int(ns / WORTH_A_THREAD_NS)
    return max(1, min(useful, items, limit())) if useful > 1 else 1


class _Worker:
    """A thread that waits for a task, runs it, and says so.

    Both sides look for a signal for a while before they sleep: to wake a thread takes longer than most kernels. A token
    in a queue wakes the one that sleeps; one too many only makes it look again.
    """

    def __init__(self) -> None:
        self._signals = np.zeros(_DONE + 8, np.int64)
        self._wake, self._finished = SimpleQueue[None](), SimpleQueue[None]()
        self._asleep = self._caller_asleep = False
        self._number = 0
        self._task: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._work, name="tinytorch-kernel", daemon=True).start()

    def _work(self) -> None:
        number = 0
        while True:
            number += 1
            if not self._came(_POSTED, number):
                self._asleep = True
                while self._signals[_POSTED] != number:
                    self._wake.get()
                self._asleep = False
            assert self._task is not None
            function, arguments = self._task
            try:
                function(*arguments)
            except BaseException as error:
                self._error = error
            # The arguments' memory must not live on until the next task.
            self._task = None
            del function, arguments
            self._signals[_DONE] = number
            if self._caller_asleep:
                self._finished.put(None)

    def _came(self, place: int, number: int) -> bool:
        """Return whether a signal came within a short while."""
        return bool(POSSIBLE and wait_until(self._signals, place, number, _LOOK_NS))

    def start(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Begin the task."""
        self._task = (function, arguments)
        self._number += 1
        self._signals[_POSTED] = self._number
        if self._asleep:
            self._wake.put(None)

    def join(self) -> BaseException | None:
        """Wait for its end; return what it raised."""
        if not self._came(_DONE, self._number):
            self._caller_asleep = True
            while self._signals[_DONE] != self._number:
                self._finished.get()
            self._caller_asleep = False
        error, self._error = self._error, None
        return error


class _Team:
    """The workers of this process, and the lock of who may give them tasks. A forked child begins with none of them."""

    def __init__(self) -> None:
        self.workers: list[_Worker] = []
        self.busy = threading.Lock()


_team = _Team()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_team.__init__)  # type: ignore[misc]


def split(kernel: Callable[..., Any], items: int, ns_per_item: float, *arguments: Any) -> None:
    """Run ``kernel(start, stop, *arguments)`` so that the calls cover items 0 to ``items``, in parallel if worth it.

    The kernel must treat each item by itself, writing where no other item writes: then no result depends on how
    many threads there are. A sum over items needs partial sums for blocks of items of a size that does not depend on
    the threads either; let a block be the item.

    Args:
        kernel: compiled and without the interpreter's lock.
        items: how many there are; for 0 nothing runs.
        ns_per_item: about how long one takes, in nanoseconds; little work stays on the calling thread.
        arguments: passed on.
    """
    if items * ns_per_item < 2 * WORTH_A_THREAD_NS:  # asked here: a short call must not pay for the question
        if items > 0:
            kernel(0, items, *arguments)
        return
    threads = shares(items, items * ns_per_item)
    if threads < 2 or not _team.busy.acquire(blocking=False):
        kernel(0, items, *arguments)
        return
    try:
        _split(kernel, items, threads, arguments)
    finally:
        _team.busy.release()


def _split(kernel: Callable[..., Any], items: int, threads: int, arguments: tuple[Any, ...]) -> None:
    """Run equal shares, the first on the calling thread."""
    while len(_team.workers) < threads - 1:
        _team.workers.append(_Worker())
    bounds = [items * number // threads for number in range(threads + 1)]
    team = _team.workers[: threads - 1]
    for worker, start, stop in zip(team, bounds[1:-1], bounds[2:], strict=True):
        worker.start(kernel, (start, stop, *arguments))
    errors: list[BaseException] = []
    try:
        kernel(0, bounds[1], *arguments)
    finally:
        errors += [error for error in [worker.join() for worker in team] if error is not None]
    if errors:
        raise errors[0]
